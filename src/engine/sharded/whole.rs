//! Of the answers of all shards, that of the queue; and of a push the part of each shard.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use super::{Sharded, first_number, process_of};
use crate::engine::{Engine, GroupFigures, Item, Limits, NodeStatus, Push, Requeued, ShardStatus, Status};
use crate::error::{Error, Result};

/// The queue as all shards that answer see it. The home shard must: it knows the generator.
pub(super) fn status(looks: Vec<(Option<String>, Result<Status>)>) -> Result<Status> {
    let (mut whole, mut none): (Option<Status>, _) = (None, None);
    let mut shards = Vec::with_capacity(looks.len());
    for (shard, (place, look)) in looks.into_iter().enumerate() {
        match look {
            Ok(mut look) => {
                look.published = look.published.saturating_sub(first_number(shard));
                shards.push(ShardStatus::of(&look, place));
                match &mut whole {
                    Some(whole) => add(whole, look),
                    None => whole = Some(look),
                }
            }
            // Nobody has put anything there yet.
            Err(error @ Error::NoQueue { .. }) => {
                none = Some(error);
                shards.push(ShardStatus {
                    place,
                    ..ShardStatus::default()
                });
            }
            Err(error) if shard == 0 => return Err(error),
            Err(error) => shards.push(ShardStatus {
                place,
                away: Some(error.to_string()),
                ..ShardStatus::default()
            }),
        }
    }
    let mut whole = whole.ok_or_else(|| none.unwrap_or_else(super::nothing))?;
    whole.generator = whole.generator.map(|node| process_of(&node).to_string());
    whole.limits = Limits::of_part(whole.limits, shards.len());
    whole.nodes = merged(std::mem::take(&mut whole.nodes));
    mark_hot(&mut shards);
    whole.shards = shards;
    Ok(whole)
}

/// With fewer messages than this no shard is hot.
const HOT_MIN: u64 = 100;

/// Marks the shards in which more messages wait than in the others: somebody pushes most of them there, or nobody handles them.
fn mark_hot(shards: &mut [ShardStatus]) {
    let count = shards.iter().filter(|shard| shard.away.is_none()).count() as u64;
    let all: u64 = shards.iter().map(|shard| shard.queued).sum();
    for shard in shards.iter_mut() {
        shard.hot = shard.queued >= HOT_MIN && 2 * shard.queued * count > 3 * all;
    }
}

/// Adds what a shard has. Generator, epoch and what is paused are as the home shard says.
fn add(whole: &mut Status, look: Status) {
    whole.published += look.published;
    whole.queued += look.queued;
    whole.in_hand += look.in_hand;
    whole.later += look.later;
    whole.done += look.done;
    whole.failed += look.failed;
    whole.errors += look.errors;
    whole.requeued += look.requeued;
    whole.trimmed += look.trimmed;
    whole.rewinds += look.rewinds;
    whole.damaged += look.damaged;
    whole.missing += look.missing;
    whole.cancels += look.cancels;
    add_groups(&mut whole.groups, look.groups);
    whole.nodes.extend(look.nodes);
}

/// A group is in one shard.
fn add_groups(whole: &mut GroupFigures, look: GroupFigures) {
    let most = whole.longest.len().max(look.longest.len());
    whole.groups += look.groups;
    whole.messages += look.messages;
    whole.longest.extend(look.longest);
    whole.longest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    whole.longest.truncate(most);
    whole.paused.extend(look.paused);
    whole.paused.sort_unstable();
}

/// One entry for each process. It is alive if it is in any shard.
fn merged(members: Vec<NodeStatus>) -> Vec<NodeStatus> {
    let mut nodes: BTreeMap<String, NodeStatus> = BTreeMap::new();
    for member in members {
        let process = process_of(&member.node).to_string();
        match nodes.get_mut(&process) {
            None => {
                let node = process.clone();
                nodes.insert(process, NodeStatus { node, ..member });
            }
            Some(node) => {
                node.in_hand += member.in_hand;
                node.done += member.done;
                node.failed += member.failed;
                node.age_ms = node.age_ms.max(member.age_ms);
                node.lease_in_ms = node.lease_in_ms.max(member.lease_in_ms);
                node.silent_ms = node.silent_ms.min(member.silent_ms);
                node.watched |= member.watched;
                node.report = node.report.take().or(member.report);
            }
        }
    }
    nodes.into_values().collect()
}

/// The part of a push for each shard, with the places of its messages. A group is in one shard. Apart from that, a key is always
/// pushed to the same shard, where it is remembered; and what has neither goes with the first that has, or where the id of the call says, so that a repeat
/// of the call goes there, too.
pub(super) fn parts(push: &Push, shards: usize) -> Vec<(usize, Push, Vec<usize>)> {
    let mut parts: BTreeMap<usize, (Push, Vec<usize>)> = BTreeMap::new();
    let fixed = push.items.iter().find_map(|item| shard_for(item, shards));
    let free = fixed.unwrap_or_else(|| spread(&push.call, shards));
    for (place, item) in push.items.iter().enumerate() {
        let shard = shard_for(item, shards).unwrap_or(free);
        let (part, places) = parts.entry(shard).or_insert_with(|| {
            let part = Push {
                call: push.call.clone(),
                keep_ms: push.keep_ms,
                backlog_max: push.backlog_max.div_ceil(shards as u64),
                birth: push.birth.clone(),
                step_ms: push.step_ms,
                server: push.server.clone(),
                items: Vec::new(),
            };
            (part, Vec::new())
        });
        part.items.push(item.clone());
        places.push(place);
    }
    parts
        .into_iter()
        .map(|(shard, (part, places))| (shard, part, places))
        .collect()
}

/// The shard of a message that is in a group, or has a key.
pub(super) fn shard_for(item: &Item, shards: usize) -> Option<usize> {
    let text = item.group.as_deref().or(item.key.as_deref());
    text.map(|text| spread(text, shards))
}

/// The shard of a text: the same in every process and version.
pub(super) fn spread(text: &str, shards: usize) -> usize {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write(text.as_bytes());
    usize::try_from(hash.finish() % shards as u64).unwrap_or(0)
}

/// FNV-1a, with a last stir: its lower bits alone spread short texts badly.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}

/// Requeues numbers of several shards, all of them.
pub(super) async fn requeue_each<E: Engine<Shard = E>>(queue: &Sharded<E>, numbers: &[u64]) -> Result<Requeued> {
    let mut put_in = Vec::new();
    for (shard, part) in queue.by_shard(numbers) {
        let mut rest = &part[..];
        while !rest.is_empty() {
            let done = match queue.shards[shard].requeue(rest).await {
                Err(Error::NoQueue { .. }) => break,
                done => done?,
            };
            put_in.extend(done.numbers);
            rest = &rest[done.looked.clamp(1, rest.len())..];
        }
    }
    Ok(Requeued {
        numbers: put_in,
        looked: numbers.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::shard_of;
    use super::*;

    fn push(call: &str, keys: &[Option<&str>]) -> Push {
        let item = |key: Option<&str>| match key {
            Some(key) => Item::new("x").key(key),
            None => Item::new("x"),
        };
        Push {
            call: call.into(),
            keep_ms: 1,
            backlog_max: 10,
            birth: "b".into(),
            step_ms: 1,
            server: String::new(),
            items: keys.iter().copied().map(item).collect(),
        }
    }

    #[test]
    fn a_key_goes_to_one_shard_and_a_call_without_keys_too() {
        let of = |call: &str, key: &str| parts(&push(call, &[Some(key)]), 5)[0].0;
        assert_eq!(of("one", "same"), of("other", "same"));
        let whole = parts(&push("call", &[None; 9]), 5);
        assert_eq!((whole.len(), whole[0].2.len(), whole[0].1.backlog_max), (1, 9, 2));
        let mixed = parts(&push("call", &[Some("a"), None, Some("b"), Some("c"), Some("d")]), 5);
        let mut places: Vec<usize> = mixed.iter().flat_map(|part| part.2.clone()).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4]);
        // Whatever its key is, a message is where its group is.
        let mut grouped = push("call", &[Some("a"), Some("b"), Some("c"), None]);
        for item in &mut grouped.items {
            item.group = Some("customer-7".into());
        }
        let grouped = parts(&grouped, 5);
        assert_eq!((grouped.len(), grouped[0].0), (1, spread("customer-7", 5)));
    }

    #[test]
    fn texts_spread_evenly() {
        let mut counts = [0_i32; 7];
        for i in 0..70_000 {
            counts[spread(&format!("customer-{i}"), 7)] += 1;
        }
        assert!(counts.iter().all(|count| (count - 10_000).abs() < 500), "{counts:?}");
    }

    #[test]
    fn a_shard_is_hot_if_half_as_many_again_wait_there_as_on_average() {
        let hot = |queued: &[u64], away: usize| {
            let shard = |(number, queued): (usize, &u64)| ShardStatus {
                queued: *queued,
                away: (number == away).then(String::new),
                ..ShardStatus::default()
            };
            let mut shards: Vec<ShardStatus> = queued.iter().enumerate().map(shard).collect();
            mark_hot(&mut shards);
            shards.iter().map(|shard| shard.hot).collect::<Vec<_>>()
        };
        assert_eq!(hot(&[1000, 1000, 1000], 9), [false; 3]);
        assert_eq!(hot(&[1000, 1000, 3000], 9), [false, false, true]);
        assert_eq!(hot(&[1499, 1000, 500], 9), [false; 3]);
        assert_eq!(hot(&[90, 0, 0], 9), [false; 3], "a few are no reason");
        // One that is away says nothing of the others.
        assert_eq!(hot(&[1000, 1000, 0, 0], 3), [false; 4]);
        assert_eq!(hot(&[500], 9), [false]);
    }

    #[test]
    fn numbers_stay_where_every_program_counts_exactly() {
        let last = first_number(crate::engine::sharded::SHARDS_MAX) - 1;
        assert!(last < 1 << 53, "{last}");
        assert_eq!(shard_of(last), crate::engine::sharded::SHARDS_MAX - 1);
    }

    #[test]
    fn a_number_tells_its_shard() {
        assert_eq!(
            (shard_of(7), shard_of(first_number(3)), shard_of(first_number(3) + 5)),
            (0, 3, 3)
        );
    }
}
