//! Fabricated histories with one violation each: every one must be caught, and named.

mod chains;
mod groups;
mod shards;
mod starts;

use std::path::Path;

use super::*;
use crate::app::lab::ledger::times::{failover_gaps_ms, redelivery_delays_ms};
use crate::app::lab::ledger::{Record, print_of};
use crate::node::event::{Entry, What};

/// A run in which all is well: ten messages, two epochs, four of a killed handler delivered again, two errors.
struct Run {
    history: History,
    observed: Observed,
}

const DEAD: usize = 0;
const HANDLER: usize = 1;
const GENERATOR: usize = 2;

impl Run {
    fn new() -> Self {
        let mut history = History::default();
        for _ in 0..3 {
            history.add(Path::new("none"));
        }
        let mut run = Self {
            history,
            observed: Observed::default(),
        };
        for (book, node) in [(DEAD, "dead"), (HANDLER, "handler"), (GENERATOR, "generator")] {
            run.write(book, &Record::Joined { node: node.into() });
        }
        run.does(DEAD, 0, 4, What::Publish { epoch: 1 }, 100);
        run.does(GENERATOR, 4, 6, What::Publish { epoch: 2 }, 700);
        run.takes(DEAD, 4, 4, 1, 2, 750);
        for number in 4..6 {
            run.starts(DEAD, number, 1);
        }
        run.history.fate(DEAD).killed_ms = Some(800);
        let victim = "dead".to_string();
        run.write(
            GENERATOR,
            &Record::Reaped {
                victim,
                redelivered: 4,
                failed: 0,
            },
        );
        run.takes(HANDLER, 0, 4, 1, 1, 900);
        run.takes(HANDLER, 8, 2, 1, 2, 900);
        run.takes(HANDLER, 4, 4, 2, 2, 2800);
        for number in (0..4).chain(8..10) {
            run.starts(HANDLER, number, 1);
        }
        for number in 4..8 {
            run.starts(HANDLER, number, 2);
        }
        run.does(HANDLER, 0, 8, What::Done, 2900);
        run.does(HANDLER, 8, 2, What::Error, 2900);
        run.observed.remains.published = 10;
        (run.observed.done, run.observed.failed) = (8, 2);
        run.observed.samples = vec![
            sample(100, 1, 4, 4, 0, 0, 0),
            sample(1000, 2, 10, 0, 10, 0, 0),
            sample(3000, 2, 10, 0, 0, 8, 2),
        ];
        run.observed.prints = vec![Print {
            numbers: vec![8, 9],
            cut_short: false,
        }];
        let mut sums = BTreeMap::new();
        for number in 0..8 {
            add(&mut sums, number);
        }
        run.observed.effects = Some(sums);
        run
    }

    fn write(&mut self, book: usize, record: &Record) {
        self.history.enter(book, record);
    }

    fn does(&mut self, book: usize, first: u64, count: u64, what: What, ms: u64) {
        let entry = Entry { first, count, what };
        self.write(book, &Record::Intends(entry));
        self.write(book, &Record::Confirmed(entry, ms));
    }

    fn takes(&mut self, book: usize, first: u64, count: u64, deliveries: u16, epoch: u64, ms: u64) {
        let what = What::Take { deliveries, epoch };
        self.write(book, &Record::Confirmed(Entry { first, count, what }, ms));
    }

    fn starts(&mut self, book: usize, number: u64, deliveries: u16) {
        self.starts_with(book, number, deliveries, &number.to_string());
    }

    fn starts_with(&mut self, book: usize, number: u64, deliveries: u16, payload: &str) {
        let payload = print_of(number, payload.as_bytes());
        self.write(
            book,
            &Record::Started {
                number,
                deliveries,
                payload,
            },
        );
    }

    fn judge(mut self) -> Verdict {
        judge(&mut self.history, &self.observed)
    }

    /// Exactly this is found.
    fn finds(self, wanted: &[&str]) -> Verdict {
        let verdict = self.judge();
        assert_eq!(verdict.findings.len(), wanted.len(), "{:#?}", verdict.findings);
        for (found, wanted) in verdict.findings.iter().zip(wanted) {
            assert!(found.contains(wanted), "{found:?} does not say {wanted:?}");
        }
        verdict
    }
}

fn sample(ms: u64, epoch: u64, published: u64, queued: u64, in_hand: u64, done: u64, failed: u64) -> Sample {
    Sample {
        ms,
        epoch,
        published,
        queued,
        in_hand,
        later: 0,
        done,
        failed,
    }
}

fn add(sums: &mut BTreeMap<u64, i64>, number: u64) {
    let crate::message::Effect::Add { by, .. } = effects::effect("", number) else {
        panic!("the effect is an addition");
    };
    *sums.entry(number / effects::BLOCK).or_default() += by;
}

#[test]
fn who_was_killed_before_it_took_a_message_explains_no_redelivery() {
    let mut run = Run::new();
    for fate in &mut run.history.recorded.fates {
        fate.killed_ms = fate.killed_ms.map(|_| 0);
        fate.stopped_ms.clear();
    }
    assert!(redelivery_delays_ms(&run.history).is_empty());
}

#[test]
fn a_run_in_which_all_is_well_has_no_findings() {
    let run = Run::new();
    let reigns = run.history.recorded.reigns.values();
    assert_eq!(failover_gaps_ms(reigns.filter_map(|reign| reign.published_ms)), [600]);
    assert_eq!(redelivery_delays_ms(&run.history), [2000]);
    let verdict = run.finds(&[]);
    assert_eq!(verdict.account.generated, 10);
    // The two that the dead one had begun.
    assert_eq!(verdict.handled_more_than_once, 2);
}

#[test]
fn a_lost_message() {
    let mut run = Run::new();
    run.observed.remains.published = 11;
    run.does(GENERATOR, 10, 1, What::Publish { epoch: 2 }, 3000);
    let verdict = run.finds(&[
        "lost, published and without an outcome: 10",
        "outcomes",
        "message 10 did not happen",
    ]);
    assert_eq!(verdict.account.lost, 1);
}

#[test]
fn a_message_that_is_settled_twice() {
    let mut run = Run::new();
    run.does(GENERATOR, 3, 1, What::Done, 3000);
    let verdict = run.finds(&["settled twice: 3"]);
    assert_eq!(verdict.account.twice, 1);
}

#[test]
fn a_second_outcome_after_one_that_its_node_did_not_live_to_write() {
    let mut run = Run::new();
    run.observed.done += 1;
    run.finds(&["done: the store counted 9", "outcomes since"]);
}

#[test]
fn a_gap_in_the_numbers() {
    let mut run = Run::new();
    run.observed.remains.published = 12;
    run.does(GENERATOR, 11, 1, What::Publish { epoch: 2 }, 3000);
    run.does(HANDLER, 10, 2, What::Done, 3000);
    run.observed.done += 2;
    for number in 10..12 {
        add(run.observed.effects.as_mut().unwrap(), number);
    }
    run.finds(&["in the queue, and published by nobody: 10"]);
}

#[test]
fn a_number_that_is_published_twice() {
    let mut run = Run::new();
    run.does(GENERATOR, 9, 1, What::Publish { epoch: 2 }, 3000);
    run.finds(&["published twice: 9"]);
}

#[test]
fn an_epoch_that_goes_back() {
    let mut run = Run::new();
    run.takes(HANDLER, 9, 1, 1, 1, 3000);
    run.finds(&["an epoch went back: message 4 is of epoch 2, and message 9 of epoch 1"]);
}

#[test]
fn two_generators_in_one_epoch() {
    let mut run = Run::new();
    run.observed.remains.published = 11;
    run.does(HANDLER, 10, 1, What::Publish { epoch: 2 }, 3000);
    run.does(HANDLER, 10, 1, What::Done, 3000);
    run.observed.done += 1;
    add(run.observed.effects.as_mut().unwrap(), 10);
    run.finds(&["two generators"]);
}

#[test]
fn a_stranded_lease() {
    let mut run = Run::new();
    run.observed.remains.published = 11;
    run.does(GENERATOR, 10, 1, What::Publish { epoch: 2 }, 3000);
    run.observed.remains.unsettled = Numbers::of([(10, 1)]);
    run.finds(&["stranded, in the store and never settled: 10"]);
}

#[test]
fn a_swallowed_error() {
    let mut run = Run::new();
    run.observed.prints[0].numbers = vec![8];
    run.finds(&["an error that was never printed: 9"]);
}

#[test]
fn an_error_that_is_printed_twice_without_a_kill() {
    let mut run = Run::new();
    run.observed.prints.push(Print {
        numbers: vec![9],
        cut_short: false,
    });
    run.finds(&["printed twice, by readers that were not killed: 9"]);
}

#[test]
fn an_error_that_is_printed_again_after_a_kill_is_fine() {
    let mut run = Run::new();
    run.observed.prints[0].cut_short = true;
    run.observed.prints.push(Print {
        numbers: vec![9],
        cut_short: false,
    });
    run.finds(&[]);
}

#[test]
fn a_sample_out_of_balance() {
    let mut run = Run::new();
    run.observed.samples[1].in_hand = 9;
    run.finds(&["out of balance at 1000"]);
}

#[test]
fn a_store_that_goes_back() {
    let mut run = Run::new();
    run.observed.samples.push(sample(4000, 2, 9, 0, 0, 7, 2));
    run.finds(&["the store went back at 4000"]);
    let mut run = Run::new();
    run.write(HANDLER, &Record::Rewound { next_number: 10 });
    run.finds(&["the store went back in time"]);
}

#[test]
fn a_redelivery_from_a_holder_that_is_alive() {
    let mut run = Run::new();
    // In another life of the run, nobody was killed and nobody reaped.
    run.history.fate(DEAD).killed_ms = None;
    run.history.recorded.reaped.clear();
    run.finds(&[
        "delivered again, though its holder was alive and a member: 4, 5, 6, 7",
        "started again, though its holder was alive and a member: 4, 5, 6, 7",
    ]);
}

#[test]
fn a_redelivery_after_a_leave_or_a_deposition_is_fine() {
    for end in [Record::Left, Record::Deposed { epoch: None }] {
        let mut run = Run::new();
        run.history.fate(DEAD).killed_ms = None;
        run.history.recorded.reaped.clear();
        run.write(DEAD, &end);
        run.finds(&[]);
    }
}

#[test]
fn an_effect_that_happens_twice_or_not_at_all_or_of_an_error() {
    let mut run = Run::new();
    add(run.observed.effects.as_mut().unwrap(), 3);
    assert_eq!(run.finds(&["the effect of message 3 happened twice"]).effects_twice, 1);
    let mut run = Run::new();
    let mut sums = BTreeMap::new();
    for number in (0..8).filter(|number| *number != 3) {
        add(&mut sums, number);
    }
    run.observed.effects = Some(sums);
    run.finds(&["the effect of message 3 did not happen"]);
    let mut run = Run::new();
    add(run.observed.effects.as_mut().unwrap(), 8);
    run.finds(&["the effect of message 8, which is not done, happened"]);
}

#[test]
fn what_is_done_and_printed_as_an_error() {
    let mut run = Run::new();
    run.observed.prints[0].numbers.push(7);
    let verdict = run.judge();
    let named = |line: &String| line.contains("settled as done, and among the errors: 7");
    assert!(verdict.findings.iter().any(named), "{:#?}", verdict.findings);
    assert_eq!(verdict.account.twice, 1);
}

#[test]
fn whatever_else_was_seen_to_go_wrong() {
    let mut run = Run::new();
    run.observed.incidents.push("copy 3 ended by itself".into());
    run.finds(&["copy 3 ended by itself"]);
}

fn push(number: u64, payload: &[u8], ms: u64) -> Push {
    let payload = print_of(number, payload);
    let group = None;
    Push {
        number,
        payload,
        ms,
        group,
    }
}

/// The same run, in which number 10 was pushed and handled.
fn with_a_push() -> Run {
    let mut run = Run::new();
    run.takes(HANDLER, 10, 1, 1, 2, 2950);
    run.starts_with(HANDLER, 10, 1, "pushed");
    run.does(HANDLER, 10, 1, What::Done, 2960);
    run.observed.pushes = vec![push(10, b"pushed", 2940)];
    run.observed.remains.published = 11;
    run.observed.done = 9;
    if let Some(sums) = &mut run.observed.effects {
        add(sums, 10);
    }
    run
}

#[test]
fn what_was_pushed_is_accounted_for_like_what_was_generated() {
    assert_eq!(with_a_push().finds(&[]).account.generated, 11);
    let mut run = with_a_push();
    run.observed.pushes.clear();
    run.finds(&["in the queue, and published by nobody: 10"]);
}

#[test]
fn a_push_that_was_confirmed_and_is_unknown_is_found() {
    let mut run = with_a_push();
    run.observed.pushes.push(push(11, b"pushed, too", 2940));
    run.finds(&["lost, confirmed as published and unknown to the store: 11"]);
}

#[test]
fn a_number_that_was_told_to_two_is_found() {
    let mut run = with_a_push();
    run.observed.pushes.push(push(10, b"pushed", 2940));
    run.finds(&["pushed under a number that another message has: 10"]);
    let mut run = with_a_push();
    run.observed.pushes.push(push(3, b"3", 2940));
    run.finds(&["pushed under a number that another message has: 3"]);
}

#[test]
fn a_number_with_two_payloads_is_found() {
    // The pusher was told 10 for something else than the handler saw.
    let mut run = with_a_push();
    run.observed.pushes = vec![push(10, b"something else", 2940)];
    run.finds(&["a number with two payloads: 10"]);
    // Two handlers saw different messages in two deliveries, of which the first was the generated one.
    let mut run = Run::new();
    run.history.recorded.prints.saw(4, print_of(4, b"pushed"));
    run.finds(&["a number with two payloads: 4"]);
}

/// The same run on a store that forgot what happened from 700 to 1000: the second reign's publishes and first takes.
fn forgetful() -> Run {
    let mut run = Run::new();
    run = Run {
        history: History::default(),
        observed: run.observed,
    };
    run.history.forget(&[(700, 1000)], false);
    run.history.forgot_surely(1);
    for _ in 0..3 {
        run.history.add(Path::new("none"));
    }
    for (book, node) in [(DEAD, "dead"), (HANDLER, "handler"), (GENERATOR, "generator")] {
        run.write(book, &Record::Joined { node: node.into() });
    }
    run.does(GENERATOR, 0, 4, What::Publish { epoch: 1 }, 100);
    run.does(GENERATOR, 4, 2, What::Publish { epoch: 1 }, 750);
    run.takes(HANDLER, 0, 4, 1, 1, 800);
    run.does(HANDLER, 0, 2, What::Done, 900);
    // All of that again, and 4 and 5 belong to no message.
    run.write(HANDLER, &Record::Rewound { next_number: 4 });
    run.takes(HANDLER, 0, 4, 1, 1, 1500);
    for number in 0..2 {
        run.starts(HANDLER, number, 1);
        run.starts(HANDLER, number, 1);
    }
    run.does(HANDLER, 0, 4, What::Done, 1600);
    run.observed.remains.published = 6;
    (run.observed.done, run.observed.failed) = (4, 0);
    run.observed.samples = vec![
        sample(750, 1, 6, 6, 0, 0, 0),
        sample(1100, 1, 4, 4, 0, 0, 0),
        sample(1700, 1, 6, 0, 0, 4, 0),
    ];
    run.observed.prints.clear();
    run.observed.effects = None;
    run
}

#[test]
fn what_a_store_forgot_may_be_lost_or_done_again() {
    forgetful().finds(&[]);
    // It had failed before, and someone printed that.
    let mut run = forgetful();
    run.does(HANDLER, 3, 1, What::Error, 950);
    let numbers = vec![3];
    run.observed.prints.push(Print {
        numbers,
        cut_short: false,
    });
    run.finds(&[]);
}

#[test]
fn a_store_that_forgot_unnoticed_is_found() {
    let mut run = forgetful();
    run.history.recorded.rewinds = 0;
    run.finds(&["the store went back in time 1 times, and nodes noticed 0"]);
}

#[test]
fn what_a_store_did_not_forget_is_still_settled_once_and_not_lost() {
    let mut run = forgetful();
    run.does(HANDLER, 2, 1, What::Done, 1650);
    run.finds(&["settled twice: 2"]);
    let mut run = forgetful();
    run.does(GENERATOR, 6, 1, What::Publish { epoch: 2 }, 1800);
    run.observed.remains.published = 7;
    run.finds(&["lost, published and without an outcome: 6"]);
}

#[test]
fn a_forgotten_number_that_is_used_again_for_another_message_is_found() {
    let mut run = forgetful();
    run.starts(HANDLER, 4, 1);
    run.history.recorded.prints.saw(4, print_of(4, b"pushed"));
    run.finds(&["a number with two payloads: 4"]);
}
