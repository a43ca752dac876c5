//! An effect for every message, cheap to keep and hard to fake: it adds a number that is peculiar to the message to a
//! counter that a thousand messages share. A message that counts twice, or not at all, shows in the sum, and by how
//! much it is wrong tells which message it was.

use std::collections::BTreeMap;

use super::Numbers;
use crate::message::Effect;

/// Messages per counter.
pub const BLOCK: u64 = 1000;

/// The effect of a message that is done.
pub fn effect(prefix: &str, number: u64) -> Effect {
    Effect::Add {
        key: key(prefix, number / BLOCK),
        by: weight(number),
    }
}

/// The counter of a block.
pub fn key(prefix: &str, block: u64) -> String {
    format!("{prefix}{block}")
}

/// Odd, below 2^40, and without a pattern: a thousand of them stay far below what a counter holds.
fn weight(number: u64) -> i64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    i64::try_from((mixed >> 24) | 1).expect("40 bits")
}

/// Messages whose effect did not happen exactly once, in words; and how many there are at least.
pub fn wrong(sums: &BTreeMap<u64, i64>, done: &Numbers) -> (u64, Vec<String>) {
    let mut wanted: BTreeMap<u64, i64> = BTreeMap::new();
    for number in done.iter() {
        *wanted.entry(number / BLOCK).or_default() += weight(number);
    }
    let blocks: std::collections::BTreeSet<u64> = wanted.keys().chain(sums.keys()).copied().collect();
    let mut findings = Vec::new();
    for block in blocks {
        let of = |sums: &BTreeMap<u64, i64>| sums.get(&block).copied().unwrap_or(0);
        let surplus = of(sums) - of(&wanted);
        let mut numbers = block * BLOCK..(block + 1) * BLOCK;
        if surplus > 0 {
            findings.push(match numbers.find(|number| weight(*number) == surplus) {
                Some(number) if done.contains(number) => format!("the effect of message {number} happened twice"),
                Some(number) => format!("the effect of message {number}, which is not done, happened"),
                None => format!("some effects of block {block} happened too often"),
            });
        } else if surplus < 0 {
            findings.push(match numbers.find(|number| -weight(*number) == surplus) {
                Some(number) => format!("the effect of message {number} did not happen"),
                None => format!("some effects of block {block} did not happen"),
            });
        }
    }
    (findings.len() as u64, findings)
}
