//! The rounds of a push into a queue whose number of shards was changed: where its messages may have been, or belong, as that number was before each reshard, and where
//! they belong now. No step spans two shards, so the order of the rounds has to do it:
//!
//! 1. **Looks** in the shards of before put nothing in. They tell whether a key is remembered there, and leave the later number of shards, so that nobody who knows
//!    less puts anything new in there after it.
//! 2. **Lines**: a message goes after those of its group that wait or are in flight, from the shard of now back to the oldest. In this order, because what was put off
//!    or requeued in an older shard stays there, and those that came after it may wait in a newer one.
//! 3. What is left goes where it belongs **now**.

use std::collections::BTreeMap;

use super::whole::{shard_for, spread};
use crate::engine::{Item, Push};
use crate::settings::Names;

/// One round of a push.
pub(super) struct Round {
    /// How many shards got new messages, before the first reshard and after each, up to when the push is sent or was.
    counts: Vec<usize>,
    /// After how many reshards belongs what it looks for.
    reshards: usize,
    kind: Kind,
    /// The push was sent then and is not answered: what came of it is asked, and nothing is put in any more.
    is_asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Look,
    Line,
    Now,
}

impl Round {
    /// How many shards there are when the push is sent, or were.
    fn now(&self) -> usize {
        self.counts[self.counts.len() - 1]
    }

    /// Whether this message is one of the round. Where it belonged to one shard at several times, that shard is asked once.
    fn has(&self, item: &Item) -> bool {
        let at = |shards: &usize| shard_for(item, *shards);
        let of = at(&self.counts[self.reshards]);
        let is_newer = self.counts[self.reshards + 1..].iter().all(|shards| at(shards) != of);
        let has_moved = || self.counts.iter().any(|shards| at(shards) != of);
        match self.kind {
            Kind::Now => true,
            Kind::Look => of.is_some() && is_newer,
            Kind::Line if self.reshards + 1 == self.counts.len() => item.group.is_some() && has_moved(),
            Kind::Line => item.group.is_some() && is_newer,
        }
    }

    /// A shard answers a call once: each round is one of its own. Which messages it has follows from when the push was sent.
    fn call_of(&self, push: &Push) -> String {
        let (reshards, sent) = (self.reshards, self.counts.len() - 1);
        match self.kind {
            Kind::Look => format!("{}?{reshards}~{sent}", push.call),
            Kind::Line => format!("{}.{reshards}~{sent}", push.call),
            Kind::Now if sent == 0 => push.call.clone(),
            Kind::Now => format!("{}~{sent}", push.call),
        }
    }
}

/// The rounds of a push. One that was sent before, after fewer reshards, and is not answered, is first asked for just as it was sent then, each time: so it is answered what
/// it did, and does nothing any more if it comes late.
pub(super) fn rounds(names: &Names, sent_at: &[usize]) -> Vec<Round> {
    let counts: Vec<usize> = names.shard_counts().collect();
    let last = counts.len() - 1;
    let as_sent = |sent: usize| {
        let of = |reshards: usize, kind| Round {
            counts: counts[..=sent].to_vec(),
            reshards,
            kind,
            is_asked: sent < last,
        };
        let looks: Vec<Round> = (0..sent).map(|reshards| of(reshards, Kind::Look)).collect();
        let in_line = if sent > 0 { sent + 1 } else { 0 };
        let lines: Vec<Round> = (0..in_line).rev().map(|reshards| of(reshards, Kind::Line)).collect();
        looks.into_iter().chain(lines).chain([of(sent, Kind::Now)])
    };
    let before = sent_at.iter().copied().filter(|sent| *sent < last);
    before.chain([last]).flat_map(as_sent).collect()
}

/// The part of a push for each shard in a round, of the messages at these places, with the places of those that it has. A group is in one shard. Apart from
/// that, a key is always pushed to the same shard, where it is remembered; and what has neither goes with the first that has, or where the id of the call says, so
/// that a repeat of the call goes there, too.
pub(super) fn parts(push: &Push, left: &[usize], round: &Round) -> Vec<(usize, Push, Vec<usize>)> {
    let mut parts: BTreeMap<usize, (Push, Vec<usize>)> = BTreeMap::new();
    let shards = round.counts[round.reshards];
    let fixed = left.iter().find_map(|place| shard_for(&push.items[*place], shards));
    let free = fixed.unwrap_or_else(|| spread(&push.call, shards));
    for place in left {
        let item = &push.items[*place];
        if !round.has(item) {
            continue;
        }
        let of = shard_for(item, shards);
        let (part, places) = parts.entry(of.unwrap_or(free)).or_insert_with(|| {
            let part = Push {
                call: round.call_of(push),
                backlog_max: push.backlog_max.div_ceil(round.now() as u64),
                only_known: round.is_asked || round.kind != Kind::Now,
                items: Vec::new(),
                ..push.clone()
            };
            (part, Vec::new())
        });
        let is_look = round.kind == Kind::Look;
        if is_look && item.key.is_none() {
            // Only that this shard hears of the reshards.
            continue;
        }
        part.items.push(if is_look || round.is_asked {
            only_key(item)
        } else {
            item.clone()
        });
        places.push(*place);
    }
    parts
        .into_iter()
        .map(|(shard, (part, places))| (shard, part, places))
        .collect()
}

/// Of a message what tells whether it is there, and puts nothing in.
fn only_key(item: &Item) -> Item {
    Item {
        key: item.key.clone(),
        ..Item::new("")
    }
}

#[cfg(test)]
mod tests {
    use super::super::whole::places_of;
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

    fn parts(push: &Push, shards: usize) -> Vec<(usize, Push, Vec<usize>)> {
        let left: Vec<usize> = (0..push.items.len()).collect();
        let rounds = rounds(&Names::default().of_shard(0, shards), &[]);
        assert_eq!(rounds.len(), 1);
        super::parts(push, &left, &rounds[0])
    }

    /// Of a round: the id of its call, whether only what is known is put in, and the shard of each message.
    type Told = (String, bool, Vec<(usize, usize)>);

    fn told(push: &Push, names: &Names, sent_at: &[usize]) -> Vec<Told> {
        let left: Vec<usize> = (0..push.items.len()).collect();
        let of = |round: &Round| {
            let parts = super::parts(push, &left, round);
            let (_, first, _) = parts.first()?;
            let (call, only) = (first.call.clone(), first.only_known);
            let is_same = |part: &(usize, Push, Vec<usize>)| part.1.call == call && part.1.only_known == only;
            assert!(parts.iter().all(is_same));
            let at = |part: &(usize, Push, Vec<usize>)| part.2.iter().map(|place| (*place, part.0)).collect::<Vec<_>>();
            let mut at: Vec<_> = parts.iter().flat_map(at).collect();
            at.sort_unstable();
            Some((call, only, at))
        };
        rounds(names, sent_at).iter().filter_map(of).collect()
    }

    fn calls(told: &[Told]) -> Vec<&str> {
        told.iter().map(|round| &*round.0).collect()
    }

    fn three_five_two() -> Names {
        Names::default().of_shard(0, 3).resharded(5, 1).resharded(2, 1)
    }

    #[test]
    fn after_a_reshard_a_key_is_looked_for_where_it_was_first() {
        let texts: Vec<String> = (0..40).map(|i| format!("k{i}")).collect();
        let keyed: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).chain([None]).collect();
        let (names, push) = (three_five_two(), push("call", &keyed));
        let rounds = told(&push, &names, &[]);
        let only: Vec<bool> = rounds.iter().map(|round| round.1).collect();
        assert_eq!(calls(&rounds), ["call?0~2", "call?1~2", "call~2"]);
        assert_eq!(only, [true, true, false]);
        for (reshards, shards, later) in [(0, 3, &[5, 2][..]), (1, 5, &[2])] {
            let at = |place: &usize, shards| spread(&texts[*place], shards);
            let is_elsewhere = |place: &usize| later.iter().all(|later| at(place, *later) != at(place, shards));
            let expected: Vec<(usize, usize)> = (0..40)
                .filter(is_elsewhere)
                .map(|place| (place, at(&place, shards)))
                .collect();
            assert_eq!(rounds[reshards].2, expected, "only what was elsewhere");
        }
        assert_eq!(rounds[2].2.len(), 41);
        // What was sent before a reshard, and not answered, is asked for as it was sent.
        let again = told(&push, &names, &[0]);
        assert_eq!((again[0].0.as_str(), again[0].1, again[0].2.len()), ("call", true, 41));
        assert_eq!(again[1..], rounds[..]);
        assert_eq!(told(&push, &names, &[2]), rounds);
        // And so each time that it was sent.
        let again = told(&push, &names, &[0, 1]);
        assert_eq!(
            calls(&again),
            ["call", "call?0~1", "call~1", "call?0~2", "call?1~2", "call~2"]
        );
        let moved = (0..40).filter(|place| spread(&texts[*place], 3) != spread(&texts[*place], 5));
        assert_eq!(again[1].2.len(), moved.count(), "as it was sent then");
        assert_eq!(places_of("k1", &names)[0], spread("k1", 2));
    }

    /// A message of a group that was in these shards, one after the other.
    fn grouped(key: Option<&str>, at: [usize; 3]) -> Push {
        let is_there = |group: &String| [3, 5, 2].map(|shards| spread(group, shards)) == at;
        let group = (0..10_000)
            .map(|i| format!("g{i}"))
            .find(is_there)
            .expect("one of them");
        let mut push = push("call", &[key]);
        push.items[0] = Item {
            group: Some(group),
            ..push.items[0].clone()
        };
        push
    }

    #[test]
    fn a_message_goes_into_the_line_of_its_group_that_is_the_newest_and_every_older_shard_hears_of_it_first() {
        let names = three_five_two();
        for key in [None, Some("k")] {
            let push = grouped(key, [2, 4, 1]);
            let rounds: Vec<_> = rounds(&names, &[])
                .iter()
                .flat_map(|round| super::parts(&push, &[0], round))
                .map(|(shard, part, _)| {
                    let of = part.items.first();
                    assert!(of.is_none_or(|item| item.key.as_deref() == key));
                    let is_in_group = of.is_some_and(|item| item.group.is_some());
                    (part.call, shard, part.only_known, is_in_group, part.items.len())
                })
                .collect();
            let looked = usize::from(key.is_some());
            let expected = [
                ("call?0~2", 2, true, false, looked),
                ("call?1~2", 4, true, false, looked),
                ("call.2~2", 1, true, true, 1),
                ("call.1~2", 4, true, true, 1),
                ("call.0~2", 2, true, true, 1),
                ("call~2", 1, false, true, 1),
            ];
            assert_eq!(
                rounds,
                expected.map(|(call, shard, only, group, items)| (call.to_string(), shard, only, group, items))
            );
        }
        // A shard in which it belonged twice is asked once, and one in which it always belonged at once.
        let (twice, always) = (grouped(None, [1, 4, 1]), grouped(None, [1, 1, 1]));
        let expected = ["call?1~2", "call.2~2", "call.1~2", "call~2"];
        assert_eq!(calls(&told(&twice, &names, &[])), expected);
        assert_eq!(calls(&told(&always, &names, &[])), ["call~2"]);
    }

    #[test]
    fn what_is_only_asked_for_is_put_in_nowhere() {
        let (names, push) = (three_five_two(), grouped(Some("k"), [2, 4, 1]));
        for round in rounds(&names, &[0, 1]).iter().filter(|round| round.is_asked) {
            for (_, part, places) in super::parts(&push, &[0], round) {
                assert!(part.only_known && part.items[0].group.is_none());
                assert_eq!((places, part.items[0].key.as_deref()), (vec![0], Some("k")));
            }
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
}
