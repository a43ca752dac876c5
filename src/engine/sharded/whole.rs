//! Of the answers of all shards, that of the queue; and of a push the part of each shard.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use super::{Sharded, first_number, process_of};
use crate::engine::{
    CancelledGroup, Engine, GroupFigures, Item, LONGEST_GROUPS, Limits, NodeStatus, Push, Requeued, ShardStatus, Status,
};
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
    whole.limits = Limits::of_part(whole.limits, now);
    whole.nodes = merged(std::mem::take(&mut whole.nodes));
    shards.iter_mut().skip(now).for_each(|shard| shard.retired = true);
    mark_hot(&mut shards);
    whole.shards = shards;
    Ok(whole)
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

/// One round of a push.
pub(super) struct Round {
    /// How many shards there are, or were then.
    shards: usize,
    /// After how many reshards that was.
    reshards: usize,
    /// After how many reshards the push is sent, or was.
    sent: usize,
    /// How many shards there are when it is sent.
    now: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The call was sent then, and is not answered: what came of it, or that nothing will.
    Again,
    /// Messages that have a key, and are where their group is: whether the key is remembered. A line in which the group waits says nothing of that.
    Look,
    /// Messages whose group or key was elsewhere then are put in there if they have to be.
    Before,
    /// Puts in what is left.
    Now,
}

/// The rounds of a push: where its messages may have been, or belong, as the number of shards was before each reshard; then where they belong now. No step
/// spans two shards, but whoever comes to an older shard in such a round leaves it the later number of shards, so that nobody puts anything new in there after it.
///
/// One that was sent before, after fewer reshards, and is not answered, is first sent again just as it was then, each time: so it is answered what it did.
pub(super) fn rounds(names: &Names, sent_at: &[usize]) -> Vec<Round> {
    let counts: Vec<usize> = names.shard_counts().collect();
    let last = counts.len() - 1;
    let as_sent = |sent: usize| {
        let of = |reshards: usize, kind| Round {
            shards: counts[reshards],
            reshards,
            sent,
            now: counts[sent],
            kind,
        };
        let put_in = if sent < last { Kind::Again } else { Kind::Now };
        let looks: Vec<Round> = if sent > 0 {
            (0..=sent).map(|reshards| of(reshards, Kind::Look)).collect()
        } else {
            Vec::new()
        };
        let before: Vec<Round> = (0..sent).map(|reshards| of(reshards, Kind::Before)).collect();
        looks.into_iter().chain(before).chain([of(sent, put_in)])
    };
    let before = sent_at.iter().copied().filter(|sent| *sent < last);
    before.chain([last]).flat_map(as_sent).collect()
}

/// The part of a push for each shard in a round, of the messages at these places, with the places of those that it has. A group is in one shard. Apart from
/// that, a key is always pushed to the same shard, where it is remembered; and what has neither goes with the first that has, or where the id of the call says, so
/// that a repeat of the call goes there, too.
pub(super) fn parts(push: &Push, left: &[usize], round: &Round) -> Vec<(usize, Push, Vec<usize>)> {
    let mut parts: BTreeMap<usize, (Push, Vec<usize>)> = BTreeMap::new();
    let Round { shards, now, kind, .. } = *round;
    let fixed = left.iter().find_map(|place| shard_for(&push.items[*place], shards));
    let free = fixed.unwrap_or_else(|| spread(&push.call, shards));
    for place in left {
        let item = &push.items[*place];
        let of = shard_for(item, shards);
        if kind == Kind::Before && (of.is_none() || of == shard_for(item, now)) {
            continue;
        }
        let is_looked_for = item.key.is_some() && item.group.is_some();
        if kind == Kind::Look && !is_looked_for {
            continue;
        }
        let (part, places) = parts.entry(of.unwrap_or(free)).or_insert_with(|| {
            let part = Push {
                call: call_of(push, round),
                backlog_max: push.backlog_max.div_ceil(now as u64),
                only_known: kind != Kind::Now,
                items: Vec::new(),
                ..push.clone()
            };
            (part, Vec::new())
        });
        let mut item = item.clone();
        if kind == Kind::Look {
            item.group = None;
        }
        part.items.push(item);
        places.push(*place);
    }
    parts
        .into_iter()
        .map(|(shard, (part, places))| (shard, part, places))
        .collect()
}

/// A shard answers a call once: each round is one of its own. Which messages it has follows from when it was sent.
fn call_of(push: &Push, round: &Round) -> String {
    match (round.kind, round.reshards) {
        (Kind::Look, reshards) => format!("{}?{reshards}~{}", push.call, round.sent),
        (Kind::Before, reshards) => format!("{}.{reshards}~{}", push.call, round.sent),
        (_, 0) => push.call.clone(),
        (_, reshards) => format!("{}~{reshards}", push.call),
    }
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

/// What was cancelled of a group in several shards.
pub(super) fn cancelled(before: Option<CancelledGroup>, told: CancelledGroup) -> CancelledGroup {
    match (before, told) {
        (Some(CancelledGroup::Asked { waiting }), CancelledGroup::Asked { waiting: more }) => CancelledGroup::Asked {
            waiting: waiting + more,
        },
        (_, told) => told,
    }
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
            only_known: false,
            items: keys.iter().copied().map(item).collect(),
        }
    }

    /// Of a round: the id of its call, whether only what is known is put in, and the shard of each message.
    type Told = (String, bool, Vec<(usize, usize)>);

    fn parts(push: &Push, shards: usize) -> Vec<(usize, Push, Vec<usize>)> {
        let left: Vec<usize> = (0..push.items.len()).collect();
        let rounds = rounds(&Names::default().of_shard(0, shards), &[]);
        assert_eq!(rounds.len(), 1);
        super::parts(push, &left, &rounds[0])
    }

    #[test]
    fn after_a_reshard_what_was_elsewhere_is_looked_for_there_first() {
        let names = Names::default().of_shard(0, 3).resharded(5, 1).resharded(2, 1);
        let texts: Vec<String> = (0..40).map(|i| format!("k{i}")).collect();
        let keyed: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).chain([None]).collect();
        let push = push("call", &keyed);
        let left: Vec<usize> = (0..push.items.len()).collect();
        let told = |sent_at: &[usize]| -> Vec<Told> {
            let of = |round: &Round| {
                let parts = super::parts(&push, &left, round);
                let (call, only) = (parts[0].1.call.clone(), parts[0].1.only_known);
                assert!(
                    parts
                        .iter()
                        .all(|part| part.1.call == call && part.1.only_known == only)
                );
                let at =
                    |part: &(usize, Push, Vec<usize>)| part.2.iter().map(|place| (*place, part.0)).collect::<Vec<_>>();
                (call, only, parts.iter().flat_map(at).collect())
            };
            let rounds = rounds(&names, sent_at);
            // Nobody here has a key and a group.
            rounds.iter().filter(|round| round.kind != Kind::Look).map(of).collect()
        };
        let rounds = told(&[]);
        let calls: Vec<(&str, bool)> = rounds.iter().map(|round| (round.0.as_str(), round.1)).collect();
        assert_eq!(calls, [("call.0~2", true), ("call.1~2", true), ("call~2", false)]);
        for (reshards, shards) in [(0, 3), (1, 5)] {
            let moved = (0..40).filter(|place| spread(&texts[*place], shards) != spread(&texts[*place], 2));
            let mut expected: Vec<(usize, usize)> = moved.map(|place| (place, spread(&texts[place], shards))).collect();
            let mut found = rounds[reshards].2.clone();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "only what was elsewhere");
        }
        assert_eq!(rounds[2].2.len(), 41);
        // What was sent before a reshard, and not answered, is asked for as it was sent.
        let again = told(&[0]);
        assert_eq!((again[0].0.as_str(), again[0].1, again[0].2.len()), ("call", true, 41));
        assert_eq!(again[1..], rounds[..]);
        assert_eq!(told(&[2]), rounds);
        // A key of a message of a group is looked for everywhere first, without the group: in whose line it would be put in.
        let mut grouped = push.clone();
        grouped.items[7].group = Some("g".into());
        let all = super::rounds(&names, &[]);
        let looks = all.iter().filter(|round| round.kind == Kind::Look);
        let looks: Vec<_> = looks.flat_map(|round| super::parts(&grouped, &left, round)).collect();
        let places: Vec<usize> = looks.iter().map(|(shard, ..)| *shard).collect();
        assert_eq!(places, [3, 5, 2].map(|shards| spread("g", shards)));
        for (_, part, places) in looks {
            assert_eq!((part.only_known, places, &part.items[0].group), (true, vec![7], &None));
        }
        // And so each time that it was sent.
        let again = told(&[0, 1]);
        let calls: Vec<&str> = again.iter().map(|round| &*round.0).collect();
        assert_eq!(calls, ["call", "call.0~1", "call~1", "call.0~2", "call.1~2", "call~2"]);
        let moved = (0..40).filter(|place| spread(&texts[*place], 3) != spread(&texts[*place], 5));
        assert_eq!(again[1].2.len(), moved.count(), "as it was sent then");
        assert_eq!(places_of("k1", &names)[0], spread("k1", 2));
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
