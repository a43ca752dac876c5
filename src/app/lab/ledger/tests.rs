//! Fabricated histories: each wrong is caught and named, and what only looks wrong is not.

use super::*;

const DONE: What = What::Done;
const ERROR: What = What::Error;
const PUBLISH: What = What::Publish { epoch: 1 };

fn entry(first: u64, count: u64, what: What) -> Entry {
    Entry { first, count, what }
}

/// A ledger in which all of these are confirmed.
fn ledger(entries: &[(u64, u64, What)]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.add(Path::new("none"));
    for (first, count, what) in entries {
        ledger.enter(0, &Record::Intends(entry(*first, *count, *what)));
        ledger.enter(0, &Record::Confirmed(entry(*first, *count, *what), 0));
    }
    ledger
}

fn remains(published: u64, unsettled: &[(u64, u64)]) -> Remains {
    Remains {
        shards: Vec::new(),
        published,
        unsettled: Numbers::of(unsettled.iter().copied()),
        errors: Numbers::default(),
    }
}

#[test]
fn a_history_in_which_all_is_well_has_no_findings() {
    let ledger = ledger(&[(0, 10, PUBLISH), (0, 4, DONE), (4, 2, ERROR), (10, 5, PUBLISH)]);
    let account = ledger.account(&remains(15, &[(6, 9)]));
    let wanted = Account {
        generated: 15,
        done: 4,
        errors: 2,
        unsettled: 9,
        ..Account::default()
    };
    assert_eq!(account, wanted);
}

#[test]
fn a_lost_message_is_named() {
    let ledger = ledger(&[(0, 10, PUBLISH), (0, 7, DONE), (8, 2, ERROR)]);
    let account = ledger.account(&remains(10, &[]));
    assert_eq!((account.lost, account.twice), (1, 0));
    assert_eq!(account.findings, ["lost, published and without an outcome: 7"]);
}

#[test]
fn a_message_that_is_settled_twice_is_named_whatever_the_outcomes() {
    for (first, second) in [(DONE, DONE), (DONE, ERROR), (ERROR, DONE), (ERROR, ERROR)] {
        let ledger = ledger(&[(0, 10, PUBLISH), (0, 10, first), (3, 2, second)]);
        let account = ledger.account(&remains(10, &[]));
        assert_eq!((account.lost, account.twice), (0, 2));
        assert_eq!(account.findings, ["settled twice: 3, 4"]);
    }
}

#[test]
fn a_message_in_doubt_is_fine_settled_or_not() {
    let mut ledger = ledger(&[(0, 10, PUBLISH), (0, 8, DONE)]);
    ledger.enter(0, &Record::Intends(entry(8, 2, DONE)));
    let applied = ledger.account(&remains(10, &[]));
    assert_eq!((applied.in_doubt, applied.lost, applied.findings.len()), (2, 0, 0));
    let not_applied = ledger.account(&remains(10, &[(8, 2)]));
    assert_eq!(
        (not_applied.in_doubt, not_applied.lost, not_applied.findings.len()),
        (0, 0, 0)
    );
    assert_eq!(not_applied.unsettled, 2);
    ledger.enter(0, &Record::Confirmed(entry(8, 2, ERROR), 0));
    let by_another = ledger.account(&remains(10, &[]));
    assert_eq!((by_another.in_doubt, by_another.errors, by_another.twice), (0, 2, 0));
}

#[test]
fn a_settle_that_the_store_refused_excuses_nothing() {
    let mut ledger = ledger(&[(0, 10, PUBLISH), (0, 9, DONE)]);
    ledger.enter(0, &Record::Intends(entry(9, 1, DONE)));
    ledger.enter(0, &Record::Refused);
    let account = ledger.account(&remains(10, &[]));
    assert_eq!((account.in_doubt, account.lost), (0, 1));
}

#[test]
fn a_settle_whose_node_lost_its_membership_stays_in_doubt() {
    let mut ledger = ledger(&[(0, 10, PUBLISH), (0, 9, DONE)]);
    ledger.enter(0, &Record::Intends(entry(9, 1, DONE)));
    ledger.enter(0, &Record::Joined { node: "again".into() });
    ledger.enter(0, &Record::Refused);
    assert_eq!(ledger.account(&remains(10, &[])).in_doubt, 1);
}

#[test]
fn with_replicas_a_link_that_nobody_was_told_of_may_be_forgotten_with_the_settle_that_published_it() {
    let mut ledger = ledger(&[(0, 8, PUBLISH), (0, 8, DONE)]);
    (ledger.keeps_told, ledger.forgot, ledger.links) = (true, vec![(900, 1000)], Numbers::of([(8, 2)]));
    let take = What::Take {
        deliveries: 1,
        epoch: 1,
    };
    // One was taken from the server that another has replaced since, the other one later.
    ledger.enter(0, &Record::Confirmed(entry(8, 1, take), 950));
    ledger.enter(0, &Record::Confirmed(entry(9, 1, take), 1050));
    let account = ledger.account(&remains(10, &[]));
    assert_eq!(account.findings, ["lost, published and without an outcome: 9"]);
    ledger.enter(0, &Record::Confirmed(entry(8, 1, PUBLISH), 950));
    assert_eq!(ledger.account(&remains(10, &[])).lost, 2, "it was told");
}

#[test]
fn with_replicas_a_message_that_was_given_back_and_taken_again_is_in_doubt_when_its_node_dies() {
    let mut ledger = ledger(&[(0, 10, PUBLISH), (0, 8, DONE)]);
    ledger.keeps_told = true;
    let take = What::Take {
        deliveries: 1,
        epoch: 1,
    };
    // A node writes at once what it gave back: an outcome that it intends later is another call's.
    for what in [take, What::Return, take] {
        ledger.enter(0, &Record::Confirmed(entry(8, 2, what), 0));
    }
    ledger.enter(0, &Record::Intends(entry(8, 2, DONE)));
    let account = ledger.account(&remains(10, &[]));
    assert_eq!((account.in_doubt, account.lost, account.findings.len()), (2, 0, 0));
    // What was to be settled, found no room and was put off has no outcome.
    ledger.enter(0, &Record::Confirmed(entry(8, 1, What::Return), 0));
    let account = ledger.account(&remains(10, &[]));
    assert_eq!((account.in_doubt, account.lost), (1, 1));
}

#[test]
fn a_publish_in_doubt_is_fine_applied_or_not() {
    let mut ledger = ledger(&[(0, 10, PUBLISH), (0, 10, DONE)]);
    ledger.enter(0, &Record::Intends(entry(10, 1, PUBLISH)));
    assert!(ledger.account(&remains(10, &[])).findings.is_empty());
    let applied = ledger.account(&remains(11, &[(10, 1)]));
    assert_eq!((applied.generated, applied.findings.len()), (11, 0));
}

#[test]
fn a_gap_in_the_published_numbers_is_named() {
    let ledger = ledger(&[(0, 5, PUBLISH), (6, 4, PUBLISH), (0, 5, DONE), (6, 4, DONE)]);
    let account = ledger.account(&remains(10, &[]));
    assert_eq!(account.findings, ["in the queue, and published by nobody: 5"]);
}

#[test]
fn a_number_that_is_published_twice_is_named() {
    let ledger = ledger(&[(0, 5, PUBLISH), (4, 2, What::Publish { epoch: 2 }), (0, 6, DONE)]);
    assert_eq!(ledger.account(&remains(6, &[])).findings, ["published twice: 4"]);
}

#[test]
fn what_the_store_forgot_is_lost() {
    let ledger = ledger(&[(0, 10, PUBLISH), (0, 8, DONE)]);
    let account = ledger.account(&remains(8, &[]));
    assert_eq!(account.lost, 2);
    let line = "lost, confirmed as published and unknown to the store: 8, 9";
    assert_eq!(account.findings, [line]);
}

#[test]
fn an_outcome_that_the_store_does_not_know_of_is_found() {
    let ledger = ledger(&[(0, 3, PUBLISH), (0, 3, DONE)]);
    let mut remains = remains(3, &[(1, 1)]);
    remains.errors.insert(2, 1);
    let account = ledger.account(&remains);
    assert_eq!(account.twice, 2);
    assert_eq!(
        account.findings,
        [
            "settled, and still in the queue: 1",
            "settled as done, and among the errors: 2"
        ]
    );
}

#[test]
fn an_error_that_the_reaper_recorded_is_an_outcome_drained_or_not() {
    let mut ledger = ledger(&[(0, 3, PUBLISH), (0, 1, DONE)]);
    ledger.saw_error(1);
    let mut remains = remains(3, &[]);
    remains.errors.insert(2, 1);
    let account = ledger.account(&remains);
    assert_eq!((account.errors, account.lost, account.findings.len()), (2, 0, 0));
}

#[test]
fn what_was_there_before_is_not_looked_at() {
    let mut ledger = Ledger::after(vec![100]);
    ledger.add(Path::new("none"));
    ledger.enter(0, &Record::Confirmed(entry(100, 2, PUBLISH), 0));
    ledger.enter(0, &Record::Confirmed(entry(99, 3, DONE), 0));
    let account = ledger.account(&remains(102, &[(0, 50)]));
    assert_eq!(
        (account.generated, account.unsettled, account.findings.len()),
        (2, 0, 0)
    );
}

#[test]
fn a_book_is_read_while_it_grows_and_its_torn_end_is_not() {
    use std::io::Write;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("book");
    let mut ledger = Ledger::default();
    let index = ledger.add(&path);
    let read = |ledger: &mut Ledger| {
        let mut count = 0;
        ledger.read(|_, _| count += 1).unwrap();
        count
    };
    assert_eq!(read(&mut ledger), 0);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"joined abc\n! p 0 5 1 9\n! t 0 5 1 1 9\n? d 0")
        .unwrap();
    assert_eq!(read(&mut ledger), 3);
    assert_eq!((ledger.totals().generated, ledger.totals().in_hand), (5, 5));
    file.write_all(b" 2 0\n! d 0 2 0 9\n! e 2 1").unwrap();
    assert_eq!(read(&mut ledger), 2);
    let book = ledger.book(index);
    assert_eq!(
        (book.done, book.errors, book.in_hand(), book.holds()),
        (2, 0, 3, Some(2))
    );
    ledger.close(index);
    assert_eq!(ledger.totals().in_hand, 0);
}

#[test]
fn in_each_shard_what_was_there_before_is_not_looked_at_and_what_is_lost_since_is_named() {
    let far = first_number(1);
    let mut ledger = Ledger::after(vec![100, 7]);
    ledger.add(Path::new("none"));
    for (first, count) in [(100, 3), (far + 7, 2)] {
        ledger.enter(0, &Record::Confirmed(entry(first, count, PUBLISH), 0));
        ledger.enter(0, &Record::Confirmed(entry(first, count - 1, DONE), 0));
    }
    let mut remains = remains(112, &[(0, 50), (far, 3), (102, 1)]);
    remains.shards = vec![103, 9];
    let account = ledger.account(&remains);
    assert_eq!((account.generated, account.done, account.unsettled), (5, 3, 1));
    assert_eq!(
        account.findings[0],
        format!("lost, published and without an outcome: {}", far + 8)
    );
}

/// What is wrong with six messages of one sequence in two shards, of which handlers saw these places under these numbers. A generator that was killed had
/// intended to publish so many more.
fn wrong_in_sequence(seen: &[(u64, u64)], left_out: u64) -> Vec<String> {
    let far = first_number(1);
    let mut ledger = ledger(&[(0, 3, PUBLISH), (far, 3, PUBLISH)]);
    let mut remains = remains(6, &[]);
    remains.shards = vec![3, 3];
    let mut prints = Prints::default();
    for (place, number) in seen {
        prints.saw(*number, print_of(*number, place.to_string().as_bytes()));
    }
    ledger.enter(0, &Record::Intends(entry(far + 3, left_out, PUBLISH)));
    sequence::wrong_so_far(&ledger, &remains, &prints)
}

#[test]
fn of_a_fleet_that_was_stopped_a_place_may_be_missing_for_each_message_that_nobody_started_or_that_was_left_out_and_no_more()
 {
    let far = first_number(1);
    let all = [(0, 0), (1, far), (2, 1), (3, far + 1), (4, 2)];
    assert!(wrong_in_sequence(&all, 0).is_empty());
    // One is missing, which may be the one that nobody has started.
    let one = [(0, 0), (1, far), (2, 1), (4, far + 1), (5, 2)];
    assert!(wrong_in_sequence(&one, 0).is_empty());
    let two = [(0, 0), (1, far), (2, 1), (4, far + 1), (6, 2)];
    assert_eq!(
        wrong_in_sequence(&two, 0),
        ["left out: nobody saw these places of the generator's sequence: 3, 5"]
    );
    assert!(wrong_in_sequence(&two, 1).is_empty());
    let twice = [(0, 0), (1, far), (2, 1), (3, far + 1), (3, 2), (4, far + 2)];
    assert_eq!(
        wrong_in_sequence(&twice, 9),
        [format!(
            "published twice: place 3 of the generator's sequence is message 2 of shard 0, and message {} of shard 1",
            far + 1
        )]
    );
}
