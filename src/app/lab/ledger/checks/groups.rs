//! Messages of a group come in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{History, Take};
use super::super::{Numbers, found};
use super::Observed;

/// What was taken in a time that the store forgot may be written down so much later: for longer a node is not silent without being given up.
const LATE_MS: u64 = 5_000;

/// Of a group nothing is taken before all that came before it have their outcomes: so no later than its first take, all takes of those were
/// told. What a node that was given up, killed or stopped took says nothing: it may have heard of it late.
///
/// A store that forgot takes again, in order, what was taken. So only takes of one era are compared: the time between two such times.
/// Returns how many messages were taken behind another of their group, and what is wrong.
pub(super) fn groups_in_order(history: &History, observed: &Observed) -> (u64, Vec<String>) {
    let (recorded, forgot) = (&history.recorded, &history.ledger.forgot);
    let unsure = if forgot.is_empty() {
        Numbers::default()
    } else {
        history.ledger.unsure()
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
    let is_sure = |take: &&Take| !recorded.is_over(take.member);
    let (mut early, mut compared) = (Numbers::default(), Numbers::default());
    for numbers in groups.values() {
        // By era: when the last take of those before was told.
        let mut told_ms: BTreeMap<usize, u64> = BTreeMap::new();
        for number in numbers {
            let of = || takes.get(number).into_iter().flatten();
            for take in of().filter(|take| forgot.is_empty() || is_sure(take)) {
                let Some(told_ms) = era(forgot, take.ms).and_then(|era| told_ms.get(&era)) else {
                    continue;
                };
                compared.insert(*number, 1);
                if take.ms < *told_ms {
                    early.insert(*number, 1);
                }
            }
            for take in of().filter(is_sure) {
                if let Some(era) = era(forgot, take.ms) {
                    let last = told_ms.entry(era).or_default();
                    *last = take.ms.max(*last);
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
