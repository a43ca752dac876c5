//! The verdict on a run. One function for each promise; each trusts only what nodes wrote down before and after they
//! asked, what was printed, and what the store held, and nothing that the system says of its own health.

mod groups;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::chains::{self, Chains};
use super::history::{History, Take};
use super::sequence::Places;
use super::{Account, Numbers, Remains, effects, found};

/// What was seen from outside.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The store, when everyone was gone.
    pub remains: Remains,
    pub done: u64,
    pub failed: u64,
    pub samples: Vec<Sample>,
    /// In the order in which the readers were started.
    pub prints: Vec<Print>,
    /// What others pushed.
    pub pushes: Vec<Push>,
    /// The counters of `effects`, if the run had them.
    pub effects: Option<BTreeMap<u64, i64>>,
    /// What else is wrong: a copy that ended by itself, work that stood still.
    pub incidents: Vec<String>,
}

/// The store at one moment.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Sample {
    pub ms: u64,
    pub epoch: u64,
    pub published: u64,
    pub queued: u64,
    pub in_hand: u64,
    pub later: u64,
    pub done: u64,
    pub failed: u64,
}

impl Sample {
    pub fn settled(&self) -> u64 {
        self.done + self.failed
    }

    pub fn unsettled(&self) -> u64 {
        self.queued + self.in_hand + self.later
    }
}

/// What the store told someone who pushed.
#[derive(Debug, Clone, Copy)]
pub struct Push {
    pub number: u64,
    /// The print of what was pushed.
    pub payload: u64,
    pub ms: u64,
    /// The group that it belongs to, if it was to be handled at once.
    pub group: Option<u64>,
}

/// What one reader of errors printed.
#[derive(Debug, Clone, Default)]
pub struct Print {
    pub numbers: Vec<u64>,
    /// It was killed, or said itself that it could not finish: what it printed last is printed again.
    pub cut_short: bool,
}

/// How it ended.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    pub account: Account,
    pub handled_more_than_once: u64,
    pub effects_twice: u64,
    pub chains: u64,
    /// Messages that were taken behind another of their group.
    pub in_order: u64,
    /// Each says which promise was broken, and by what.
    pub findings: Vec<String>,
}

pub fn judge(history: &mut History, observed: &Observed) -> Verdict {
    for number in observed.prints.iter().flat_map(|print| &print.numbers) {
        history.ledger.saw_error(*number);
    }
    for Push {
        number, payload, ms, ..
    } in &observed.pushes
    {
        if history.ledger.push(*number, *ms) {
            history.recorded.prints.saw(*number, *payload);
        }
    }
    let places = (!observed.remains.shards.is_empty()).then(|| Places::of(&history.recorded.prints, 0));
    let chains = complete_chains(history, observed, places.as_ref());
    history.ledger.links.clone_from(&chains.links);
    let account = history.ledger.account(&observed.remains);
    let (handled_more_than_once, unexplained_starts) = starts(history);
    let (effects_twice, wrong_effects) = one_effect(history, observed);
    let mut findings = account.findings.clone();
    findings.extend(one_voice(history));
    findings.extend(one_payload(history));
    findings.extend(one_sequence(history, observed, places.as_ref()));
    findings.extend(nothing_stranded(observed));
    findings.extend(counters_agree(history, &account, observed));
    findings.extend(always_accounted_for(&observed.samples, &history.ledger.forgot));
    findings.extend(redeliveries_explained(history));
    findings.extend(unexplained_starts);
    findings.extend(errors_printed(history, observed));
    findings.extend(wrong_effects);
    findings.extend(chains.findings);
    let (in_order, out_of_order) = groups::groups_in_order(history, observed);
    findings.extend(out_of_order);
    findings.extend(no_rewind(history));
    findings.extend(observed.incidents.iter().cloned());
    Verdict {
        account,
        handled_more_than_once,
        effects_twice,
        chains: chains.complete,
        in_order,
        findings,
    }
}

/// Epochs never go down along the numbers, in any shard: what one generator wrote there comes before the claim of the next, and all of that one's after
/// it. One node alone publishes in an epoch, whichever shards it is.
fn one_voice(history: &History) -> Vec<String> {
    let (reigns, ranges) = (&history.recorded.reigns, &history.recorded.ranges);
    let mut findings = Vec::new();
    for (((shard, epoch), (_, highest)), ((next_shard, next), (lowest, _))) in ranges.iter().zip(ranges.iter().skip(1))
    {
        if shard == next_shard && lowest <= highest {
            findings.push(format!(
                "an epoch went back: message {lowest} is of epoch {next}, and message {highest} of epoch {epoch}"
            ));
        }
    }
    let many = reigns.iter().filter(|(_, reign)| reign.processes.len() > 1);
    findings.extend(many.map(|(epoch, _)| format!("two generators: several nodes published in epoch {epoch}")));
    findings
}

/// Whoever sees a number sees the same message under it.
fn one_payload(history: &History) -> Vec<String> {
    found(&[(&history.recorded.prints.ambiguous, "a number with two payloads")])
}

/// Everything drains once the faults stop.
fn nothing_stranded(observed: &Observed) -> Vec<String> {
    found(&[(&observed.remains.unsettled, "stranded, in the store and never settled")])
}

/// What the store counted is what the nodes wrote and the readers printed. This is how an outcome shows that was
/// recorded twice, once by a node that died before it could write so.
fn counters_agree(history: &History, account: &Account, observed: &Observed) -> Vec<String> {
    let mut findings = Vec::new();
    // A store that forgot has counted less than was told.
    if !history.ledger.forgot.is_empty() {
        return findings;
    }
    let mut differ = |what: &str, store: u64, books: u64| {
        if store != books {
            findings.push(format!("{what}: the store counted {store}, the books have {books}"));
        }
    };
    differ("done", observed.done, account.done + account.in_doubt);
    differ("failed", observed.failed, account.errors);
    let outcomes = account.generated - account.unsettled;
    differ(
        "outcomes since the queue began",
        observed.done + observed.failed,
        outcomes + history.ledger.base.iter().sum::<u64>(),
    );
    findings
}

/// At every moment that was looked at, every message was somewhere, and the store did not go back.
fn always_accounted_for(samples: &[Sample], forgot: &[(u64, u64)]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut before = Sample::default();
    for sample in samples {
        let Sample {
            published,
            queued,
            in_hand,
            later,
            done,
            failed,
            ..
        } = *sample;
        let found = queued + in_hand + later + done + failed;
        // Numbers that a store which forgot was raised over belong to no message.
        if found > published || (found < published && forgot.is_empty()) {
            findings.push(format!(
                "out of balance at {}: {published} published, but done {done} + failed {failed} + queued {queued} + in \
                 hand {in_hand} + later {later} = {found}",
                sample.ms
            ));
        }
        let forgets = |(from, to): &(u64, u64)| before.ms <= *to && sample.ms >= *from;
        if (published < before.published || sample.epoch < before.epoch) && !forgot.iter().any(forgets) {
            findings.push(format!(
                "the store went back at {}: from number {} in epoch {} to number {published} in epoch {}",
                sample.ms, before.published, before.epoch, sample.epoch
            ));
        }
        before = *sample;
    }
    findings
}

/// A message is delivered again only if the node that had it before left, was given up, or was killed.
fn redeliveries_explained(history: &History) -> Vec<String> {
    let recorded = &history.recorded;
    let again = || recorded.takes.iter().filter(|take| take.deliveries > 1);
    let numbers: BTreeSet<u64> = again().flat_map(|take| take.first..take.first + take.count).collect();
    let takes = recorded.takes_of(&numbers);
    let somebody_fell = (0..recorded.members.len()).any(|member| recorded.is_over(member));
    let mut unexplained = Numbers::default();
    for take in again() {
        for number in take.first..take.first + take.count {
            let before: Vec<&Take> = takes[&number]
                .iter()
                .filter(|earlier| earlier.deliveries == take.deliveries - 1)
                .collect();
            // A node that is killed before it gets the answer to a take leaves no record of it.
            let explained = if before.is_empty() {
                somebody_fell
            } else {
                before.iter().any(|earlier| recorded.is_over(earlier.member))
            };
            if !explained {
                unexplained.insert(number, 1);
            }
        }
    }
    let what = "delivered again, though its holder was alive and a member";
    found(&[(&unexplained.minus(&[&history.ledger.unsure()]), what)])
}

/// How many messages were started more than once; and those of them that no kill, leave or deposition explains.
fn starts(history: &History) -> (u64, Vec<String>) {
    let recorded = &history.recorded;
    let mut attempts: BTreeMap<u64, Vec<u16>> = BTreeMap::new();
    for (number, deliveries) in &recorded.started_again {
        attempts.entry(*number).or_default().push(*deliveries);
    }
    let mut twice = recorded.started_twice.clone();
    let mut unexplained = Numbers::default();
    let mut count = twice.len();
    let takes = recorded.takes_of(&attempts.keys().copied().collect());
    for (number, attempts) in &mut attempts {
        attempts.sort_unstable();
        if attempts.windows(2).any(|pair| pair[0] == pair[1]) {
            twice.insert(*number, 1);
        }
        if attempts.len() > 1 || recorded.started.contains(*number) {
            count += u64::from(!recorded.started_twice.contains(*number));
        }
        let last = attempts.last().copied().unwrap_or_default();
        let earlier = takes
            .get(number)
            .into_iter()
            .flatten()
            .filter(|take| take.deliveries < last);
        // Several may have had it in one delivery: all but one gave it back unstarted.
        let mut by_attempt: BTreeMap<u16, bool> = BTreeMap::new();
        for take in earlier {
            *by_attempt.entry(take.deliveries).or_default() |= recorded.is_over(take.member);
        }
        if by_attempt.values().any(|over| !over) {
            unexplained.insert(*number, 1);
        }
    }
    let unsure = history.ledger.unsure();
    let findings = found(&[
        (
            &twice.minus(&[&unsure, &recorded.crowded]),
            "started twice in one delivery",
        ),
        (
            &unexplained.minus(&[&unsure]),
            "started again, though its holder was alive and a member",
        ),
    ]);
    (count, findings)
}

/// Every error is printed, and twice only if the reader that printed it first did not come to confirm it.
fn errors_printed(history: &History, observed: &Observed) -> Vec<String> {
    let mut printed = Numbers::default();
    let mut confirmed = Numbers::default();
    let mut twice = Numbers::default();
    for print in &observed.prints {
        for number in &print.numbers {
            printed.insert(*number, 1);
            if !print.cut_short {
                if confirmed.contains(*number) {
                    twice.insert(*number, 1);
                }
                confirmed.insert(*number, 1);
            }
        }
    }
    let swallowed = history.ledger.failed.minus(&[&printed, &observed.remains.errors]);
    if !history.ledger.forgot.is_empty() {
        // It may have forgotten that it was printed.
        twice = Numbers::default();
    }
    let reprinted = "an error that was printed twice, by readers that were not killed";
    found(&[(&swallowed, "an error that was never printed"), (&twice, reprinted)])
}

/// Numbers that were given out and have no other outcome.
fn done(history: &History, observed: &Observed) -> Numbers {
    let (ledger, remains) = (&history.ledger, &observed.remains);
    ledger
        .given_out(remains)
        .minus(&[&ledger.failed, &ledger.errors_seen, &remains.errors, &remains.unsettled])
}

/// A message that is done has published what follows it, once; any other has not.
fn complete_chains(history: &History, observed: &Observed, places: Option<&Places>) -> Chains {
    if observed.effects.is_none() {
        return Chains::default();
    }
    let (recorded, unsure, done) = (&history.recorded, history.ledger.unsure(), done(history, observed));
    let roots = match places {
        Some(places) => places.roots(&done),
        None => recorded.prints.plain.iter().map(|number| (number, number)).collect(),
    };
    chains::follow(&roots, &recorded.prints.by_number, &done, &unsure)
}

/// Where there are shards, each place of the generator's one sequence has one message.
fn one_sequence(history: &History, observed: &Observed, places: Option<&Places>) -> Vec<String> {
    let Some(places) = places else {
        return Vec::new();
    };
    let (ledger, remains) = (&history.ledger, &observed.remains);
    let mut there = remains.given_out(&[]);
    if !ledger.forgot.is_empty() {
        // What was not told may be gone.
        let mut kept = ledger.published.clone();
        for told in [&ledger.done, &ledger.failed, &remains.errors, &remains.unsettled] {
            kept.add(told);
        }
        there = there.and(&kept);
    }
    places.wrong(&there, 0, 0)
}

fn one_effect(history: &History, observed: &Observed) -> (u64, Vec<String>) {
    let Some(sums) = &observed.effects else {
        return (0, Vec::new());
    };
    let (ledger, done) = (&history.ledger, done(history, observed));
    // What a store forgot it forgot with its effect, but who is to say of which message: its blocks are not looked at.
    let blocks: BTreeSet<u64> = ledger.unsure().iter().map(|number| number / effects::BLOCK).collect();
    let excused = Numbers::of(blocks.iter().map(|block| (block * effects::BLOCK, effects::BLOCK)));
    let sums = sums.iter().filter(|(block, _)| !blocks.contains(block));
    effects::wrong(
        &sums.map(|(block, sum)| (*block, *sum)).collect(),
        &done.minus(&[&excused]),
    )
}

/// A store that keeps what it acknowledged never goes back; one that does not is found out.
fn no_rewind(history: &History) -> Vec<String> {
    let (rewinds, forgot) = (history.recorded.rewinds, history.recorded.forgot_surely);
    if !history.ledger.forgot.is_empty() {
        let line = || format!("the store went back in time {forgot} times, and nodes noticed {rewinds}");
        return (rewinds < forgot).then(line).into_iter().collect();
    }
    let line = || format!("the store went back in time: {rewinds} nodes found it behind what they had seen");
    (rewinds > 0).then(line).into_iter().collect()
}

#[cfg(test)]
mod tests;
