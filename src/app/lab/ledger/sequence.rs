//! The one sequence of a generator whose messages are spread over shards: each of them says its place in it, 0, 1, 2, …

use std::collections::HashMap;

use super::record::hash_of;
use super::{Ledger, Numbers, Prints, Remains, found, named};
use crate::engine::sharded::shard_of;

/// So many places behind the last one that can be there are looked for as well: some may be missing.
const BEYOND: u64 = 10_000;

/// The numbers that handlers saw the messages of each place under.
#[derive(Debug, Default)]
pub struct Places(Vec<Vec<u64>>);

impl Places {
    /// So many places may have come before what was seen.
    pub fn of(prints: &Prints, before: u64) -> Self {
        let mut by_print: HashMap<u64, Vec<u64>> = HashMap::with_capacity(prints.by_number.len());
        for (number, print) in &prints.by_number {
            by_print.entry(*print).or_default().push(*number);
        }
        let mut places = Vec::new();
        let mut end = 0;
        for place in 0..before + prints.count() + BEYOND {
            let mut numbers = by_print
                .remove(&hash_of(place.to_string().as_bytes()).max(1))
                .unwrap_or_default();
            // One whose number is its place has no print.
            if prints.plain.contains(place) {
                numbers.push(place);
            }
            if !numbers.is_empty() {
                end = places.len() + 1;
            }
            places.push(numbers);
        }
        places.truncate(end);
        Self(places)
    }

    /// Each place, and a number under which it was seen; of those in `preferred`, if any.
    pub fn roots(&self, preferred: &Numbers) -> Vec<(u64, u64)> {
        let one = |numbers: &Vec<u64>| {
            let known = numbers.iter().find(|number| preferred.contains(**number));
            known.or(numbers.first()).copied()
        };
        let places = (0u64..).zip(&self.0);
        places
            .filter_map(|(place, numbers)| Some((place, one(numbers)?)))
            .collect()
    }

    /// The first place that one of these messages has.
    fn first_of(&self, numbers: &Numbers) -> u64 {
        let any = |seen: &Vec<u64>| seen.iter().any(|number| numbers.contains(*number));
        self.0.iter().position(any).unwrap_or(self.0.len()) as u64
    }

    /// Every place has one message, and from this one on none is left out, but for so many that nobody can have seen. A message that a store forgot before
    /// it was told is made again, under another number: so only those count twice that `there` has.
    pub fn wrong(&self, there: &Numbers, from: u64, unseen: u64) -> Vec<String> {
        let mut findings = Vec::new();
        let mut left_out = Numbers::default();
        for (place, numbers) in (0u64..).zip(&self.0) {
            if numbers.is_empty() && place >= from {
                left_out.insert(place, 1);
            }
            let twice: Vec<u64> = numbers
                .iter()
                .copied()
                .filter(|number| there.contains(*number))
                .collect();
            if let [first, second, ..] = twice[..] {
                findings.push(format!(
                    "published twice: place {place} of the generator's sequence is message {first} of shard {}, and message {second} of shard {}",
                    shard_of(first),
                    shard_of(second)
                ));
            }
        }
        if left_out.len() > unseen {
            let line = format!(
                "left out: nobody saw these places of the generator's sequence: {}",
                named(&left_out)
            );
            findings.push(line);
        }
        findings
    }
}

/// Of a fleet that was stopped in the middle of its work: what is wrong with the generator's sequence, as far as the messages were started. Those that nobody
/// has started say nothing of their places, so as many may be missing; and so may what a killed generator left out, as long as no other has made it again.
pub fn wrong_so_far(ledger: &Ledger, remains: &Remains, prints: &Prints) -> Vec<String> {
    let there = ledger.given_out(remains);
    let before = ledger.base.iter().sum();
    let places = Places::of(prints, before);
    let from = if before == 0 { 0 } else { places.first_of(&there) };
    let unseen = there.iter().filter(|number| !prints.contains(*number)).count() as u64;
    let mut findings = found(&[(&prints.ambiguous, "a number with two payloads")]);
    findings.extend(places.wrong(&there, from, unseen + ledger.unpublished(&there).len()));
    findings
}
