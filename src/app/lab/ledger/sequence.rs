//! The one sequence of a generator whose messages are spread over shards: each of them says its place in it, 0, 1, 2, …

use std::collections::HashMap;

use super::history::Recorded;
use super::record::hash_of;
use super::{Numbers, named};
use crate::engine::sharded::shard_of;

/// So many places behind the last one that can be there are looked for as well: some may be missing.
const BEYOND: u64 = 10_000;

/// The numbers that handlers saw the messages of each place under.
#[derive(Debug, Default)]
pub struct Places(Vec<Vec<u64>>);

impl Places {
    pub fn of(recorded: &Recorded) -> Self {
        let mut by_print: HashMap<u64, Vec<u64>> = HashMap::with_capacity(recorded.payloads.len());
        for (number, print) in &recorded.payloads {
            by_print.entry(*print).or_default().push(*number);
        }
        let most = recorded.payloads.len() as u64 + recorded.plain.len();
        let mut places = Vec::new();
        let mut end = 0;
        for place in 0..most + BEYOND {
            let mut numbers = by_print
                .remove(&hash_of(place.to_string().as_bytes()).max(1))
                .unwrap_or_default();
            // One whose number is its place has no print.
            if recorded.plain.contains(place) {
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

    /// Every place has one message, and no place is left out. A message that a store forgot before it was told is made again, under another number: so
    /// only those count twice that `there` has.
    pub fn wrong(&self, there: &Numbers) -> Vec<String> {
        let mut findings = Vec::new();
        let mut left_out = Numbers::default();
        for (place, numbers) in (0u64..).zip(&self.0) {
            if numbers.is_empty() {
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
        if !left_out.is_empty() {
            let line = format!(
                "left out: nobody saw these places of the generator's sequence: {}",
                named(&left_out)
            );
            findings.push(line);
        }
        findings
    }
}
