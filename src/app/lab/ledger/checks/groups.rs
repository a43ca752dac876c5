//! Messages of a group come in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{History, Take};
use super::super::{Numbers, found};
use super::Observed;

/// What was taken in a time that the store forgot may be written down so much later,
const LATE_MS: u64 = 5_000;
/// and by a copy that was stopped so much later: for longer none is.
const FROZEN_MS: u64 = 20_000;

/// Of a group nothing is taken before all that came before it have their outcomes. A node writes down what it takes before it begins with it:
/// so no later than the first take of a message, the take was written that led to the outcome of the one before. That is the one with the most
/// deliveries; what others took, and were given up with, they may have heard of late.
///
/// A store that forgot takes again, in order, what was taken. So only takes of one era are compared: the time between two such times.
/// Returns how many messages were taken behind another of their group, and what is wrong.
pub(super) fn groups_in_order(history: &History, observed: &Observed) -> (u64, Vec<String>) {
    let (recorded, ledger) = (&history.recorded, &history.ledger);
    let forgot = &ledger.forgot;
    let unsure = if forgot.is_empty() {
        Numbers::default()
    } else {
        ledger.unsure()
    };
    let mut groups: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for push in &observed.pushes {
        if let Some(group) = push.group
            && !unsure.contains(push.number)
        {
            groups.entry(group).or_default().insert(push.number);
        }
    }
    let takes = recorded.takes_of(&groups.values().flatten().copied().collect());
    let is_late = |take: &Take| {
        let struck_ms = recorded.struck_ms(take.member, take.ms);
        !forgot.is_empty() && struck_ms.is_some_and(|ms| take.ms < ms + FROZEN_MS)
    };
    let (mut early, mut compared) = (Numbers::default(), Numbers::default());
    for numbers in groups.values() {
        // By era: when the last take of those before was told.
        let mut told_ms: BTreeMap<usize, u64> = BTreeMap::new();
        for number in numbers {
            let of = || takes.get(number).into_iter().flatten().filter(|take| !is_late(take));
            for take in of() {
                let Some(told_ms) = era(forgot, take.ms).and_then(|era| told_ms.get(&era)) else {
                    continue;
                };
                compared.insert(*number, 1);
                if take.ms < *told_ms {
                    early.insert(*number, 1);
                }
            }
            // If no node wrote its outcome, the last that took it may not have written that either.
            if !ledger.done.contains(*number) && !ledger.failed.contains(*number) {
                continue;
            }
            let last = of().map(|take| take.deliveries).max();
            for take in of().filter(|take| Some(take.deliveries) == last) {
                if let Some(era) = era(forgot, take.ms) {
                    let told = told_ms.entry(era).or_default();
                    *told = take.ms.max(*told);
                }
            }
        }
    }
    let findings = found(&[(&early, "taken before an earlier message of its group was settled")]);
    (compared.len() - early.len(), findings)
}

/// Between which times that the store forgot; none, if it may be one of them.
fn era(forgot: &[(u64, u64)], ms: u64) -> Option<usize> {
    let within = |(from, to): &(u64, u64)| (*from..=to + LATE_MS).contains(&ms);
    (!forgot.iter().any(within)).then(|| forgot.iter().filter(|(_, to)| to + LATE_MS < ms).count())
}
