//! Of the answers of all shards, that of the queue; and to which shard a message belongs.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use super::{Sharded, first_number, process_of};
use crate::engine::{Engine, GroupFigures, Item, LONGEST_GROUPS, Limits, NodeStatus, Requeued, ShardStatus, Status};
use crate::error::{Error, Result};
use crate::settings::Names;

/// The queue as all shards that answer see it. The home shard must: it knows the generator.
pub(super) fn status(mut looks: Vec<(Option<String>, Result<Status>)>, now: usize) -> Result<Status> {
    if looks.len() == 1
        && let Some((_, look)) = looks.pop()
    {
        return look;
    }
    let (mut whole, mut none): (Option<Status>, _) = (None, None);
    let mut shards = Vec::with_capacity(looks.len());
    for (shard, (place, look)) in looks.into_iter().enumerate() {
        match look {
            Ok(mut look) => {
                look.published = look.published.saturating_sub(first_number(shard));
                look.limits = Limits::of_part(look.limits, now);
                let differs = whole.as_ref().is_some_and(|home| differ(home, &look));
                shards.push(ShardStatus {
                    differs,
                    ..ShardStatus::of(&look, place)
                });
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
            Err(error) if shard == 0 || matches!(error, Error::Resharded { .. }) => return Err(error),
            Err(error) => shards.push(ShardStatus {
                place,
                away: Some(error.to_string()),
                ..ShardStatus::default()
            }),
        }
    }
    let mut whole = whole.ok_or_else(|| none.unwrap_or_else(super::nothing))?;
    whole.generator = whole.generator.map(|node| process_of(&node).to_string());
    whole.nodes = merged(std::mem::take(&mut whole.nodes));
    shards.iter_mut().skip(now).for_each(|shard| shard.retired = true);
    mark_hot(&mut shards);
    whole.shards = shards;
    Ok(whole)
}

/// Whether a shard has another pause or limit than the home shard.
fn differ(home: &Status, shard: &Status) -> bool {
    (home.paused, home.limits) != (shard.paused, shard.limits)
}

/// With fewer messages than this no shard is hot.
const HOT_MIN: u64 = 100;

/// Marks the shards in which more messages wait than in the others: somebody pushes most of them there, or nobody handles them. Those that get no new messages
/// since a reshard run empty, and are no measure for the others.
fn mark_hot(shards: &mut [ShardStatus]) {
    let used = |shard: &&ShardStatus| shard.away.is_none() && !shard.retired;
    let count = shards.iter().filter(used).count() as u64;
    let all: u64 = shards.iter().filter(used).map(|shard| shard.queued).sum();
    for shard in shards.iter_mut().filter(|shard| !shard.retired) {
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

/// A group is in one shard, but paused in all in which it may be.
fn add_groups(whole: &mut GroupFigures, look: GroupFigures) {
    whole.groups += look.groups;
    whole.messages += look.messages;
    whole.longest.extend(look.longest);
    whole.longest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    whole.longest.truncate(LONGEST_GROUPS);
    whole.paused.extend(look.paused);
    whole.paused.sort_unstable();
    whole.paused.dedup();
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
                node.behind |= member.behind && member.is_alive();
                node.report = node.report.take().or(member.report);
            }
        }
    }
    nodes.into_values().collect()
}

/// The shards in which a group or a key may be: that of now first, then those in which it was before a reshard.
pub(super) fn places_of(text: &str, names: &Names) -> Vec<usize> {
    let mut places = Vec::new();
    for shards in names.shard_counts().rev() {
        let place = spread(text, shards);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
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
    let (list, mut put_in) = (queue.fresh().await?, Vec::new());
    for (shard, part) in Sharded::by_shard(&list, numbers) {
        let mut rest = &part[..];
        while !rest.is_empty() {
            let done = match list.shards[shard].requeue(rest).await {
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
    fn a_shard_that_gets_no_new_messages_is_not_hot_and_makes_no_other_hot() {
        let shard = |queued, retired| ShardStatus {
            queued,
            retired,
            ..ShardStatus::default()
        };
        let mut shards = [shard(500, false), shard(0, true), shard(9000, true)];
        mark_hot(&mut shards);
        assert_eq!(shards.map(|shard| shard.hot), [false; 3]);
    }

    #[test]
    fn a_look_shows_the_longest_lines_of_all_shards_and_a_paused_group_once() {
        let of = |group: &str, waiting| GroupFigures {
            groups: 1,
            messages: waiting,
            longest: vec![(group.into(), waiting)],
            paused: vec!["moved".into()],
        };
        let mut whole = of("a", 3);
        for (group, waiting) in [("b", 5), ("c", 1), ("d", 3)] {
            add_groups(&mut whole, of(group, waiting));
        }
        let longest = [("b", 5), ("d", 3), ("a", 3), ("c", 1)].map(|(group, waiting)| (group.to_string(), waiting));
        assert_eq!(whole.longest, longest);
        assert_eq!(
            (whole.groups, whole.messages, whole.paused),
            (4, 12, vec!["moved".to_string()])
        );
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
