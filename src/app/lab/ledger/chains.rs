//! Chains in the load of `verify`: some messages that are done publish the next one, which publishes one more, and so on. What each
//! must be follows from the first, so that who looks at the payloads alone can say whether a chain is complete.

use std::collections::BTreeMap;

use super::Numbers;
use super::record::print_of;
use crate::engine::sharded::{shard_of, shard_of_group};
use crate::message::Effect;

/// One generated message in so many begins a chain.
const EACH: u64 = 16;
/// So many follow it.
const LENGTH: u64 = 3;
/// The one before the last belongs to one of so many groups.
const GROUPS: u64 = 64;
/// The last one of a chain is put off for so long.
const DELAY: std::time::Duration = std::time::Duration::from_millis(300);

/// What follows a message of a queue with so many shards: the generated ones say their number, or their place in the generator's sequence.
pub fn next(number: u64, payload: &[u8], shards: usize) -> Option<Effect> {
    let text = std::str::from_utf8(payload).ok()?;
    let (root, step) = match text.strip_prefix("chain ") {
        Some(rest) => rest.split_once(' ')?,
        None => (text, "0"),
    };
    let step: u64 = step.parse().ok()?;
    let root: u64 = root.parse().ok().filter(|root| begins(*root))?;
    let next = link(root, step + 1);
    match LENGTH.saturating_sub(step) {
        0 => None,
        1 => Some(Effect::publish_after(next, DELAY)),
        2 => Some(Effect::publish(next).in_group(group(root, shard_of(number), shards))),
        _ => Some(Effect::publish(next)),
    }
}

/// One of the groups of this shard: an effect reaches no others.
fn group(root: u64, shard: usize, shards: usize) -> String {
    let group = format!("chain {}", root / EACH % GROUPS);
    let others = (0u64..).map(|other| format!("{group} {other}"));
    let mut all = std::iter::once(group.clone()).chain(others);
    all.find(|group| shards < 2 || shard_of_group(group, shards) == shard)
        .unwrap_or_default()
}

fn begins(number: u64) -> bool {
    number % EACH == EACH - 1
}

fn link(root: u64, step: u64) -> String {
    format!("chain {root} {step}")
}

/// What came of the chains.
#[derive(Debug, Default)]
pub struct Chains {
    pub complete: u64,
    /// Links that were found, whoever confirmed them.
    pub links: Numbers,
    /// Each says which chain broke, and how.
    pub findings: Vec<String>,
}

/// Follows each chain from its first message. `roots` were generated: what each says, and its number; `payloads` are the prints of all that are no plain numbers; of
/// `unsure` numbers nothing can be said.
pub fn follow(roots: &[(u64, u64)], payloads: &BTreeMap<u64, u64>, done: &Numbers, unsure: &Numbers) -> Chains {
    let mut by_print: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (number, print) in payloads {
        by_print.entry(*print).or_default().push(*number);
    }
    let mut chains = Chains::default();
    for (root, number) in roots.iter().copied().filter(|(root, _)| begins(*root)) {
        let mut at = number;
        let mut is_sure = !unsure.contains(number);
        for step in 1..=LENGTH {
            // A print is never that of a plain number here.
            let print = print_of(u64::MAX, link(root, step).as_bytes());
            let found = by_print.get(&print).map_or(&[][..], |numbers| &numbers[..]);
            for number in found {
                chains.links.insert(*number, 1);
                is_sure &= !unsure.contains(*number);
            }
            match (done.contains(at), found) {
                // Its links are collected all the same: somebody published them.
                _ if !is_sure => continue,
                (true, [next]) => at = *next,
                (true, []) => {
                    let line = format!("a chain broke: message {at} is done, and nothing follows it");
                    chains.findings.push(line);
                    break;
                }
                (false, []) => break,
                (false, _) => {
                    let line = format!("a chain goes on behind message {at}, which is not done");
                    chains.findings.push(line);
                    break;
                }
                (true, [..]) => {
                    let line = format!("a chain forked: message {at} was followed by {found:?}");
                    chains.findings.push(line);
                    break;
                }
            }
            chains.complete += u64::from(step == LENGTH && done.contains(at));
        }
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(effect: Option<Effect>) -> Option<String> {
        match effect? {
            Effect::Publish { payload, .. } => Some(String::from_utf8_lossy(&payload).into_owned()),
            _ => None,
        }
    }

    #[test]
    fn all_links_of_a_chain_are_known_where_nothing_can_be_said_of_its_first_message() {
        let print = |step| print_of(u64::MAX, link(15, step).as_bytes());
        let payloads = BTreeMap::from([(16, print(1)), (17, print(2)), (18, print(3))]);
        let done = Numbers::of([(15, 4)]);
        for unsure in [15, 16, 18] {
            let chains = follow(&[(15, 15)], &payloads, &done, &Numbers::of([(unsure, 1)]));
            assert_eq!(
                (chains.links.len(), chains.complete, chains.findings.len()),
                (3, 0, 0),
                "{unsure}"
            );
        }
    }

    #[test]
    fn a_chain_has_as_many_links_as_it_should() {
        let mut text = "31".to_string();
        let mut links = Vec::new();
        while let Some(next) = payload(next(31, text.as_bytes(), 1)) {
            links.push(next.clone());
            text = next;
        }
        assert_eq!(links, ["chain 31 1", "chain 31 2", "chain 31 3"]);
        for (number, text) in [
            (30, "30"),
            (31, "pushed 31"),
            (32, "32"),
            (1, "chain"),
            (1, "chain x 1"),
            (1, "\u{1}"),
        ] {
            assert_eq!(next(number, text.as_bytes(), 1), None, "{text}");
        }
    }
}
