//! What outsiders push: with keys and groups, for later, again, and once more after an answer that was lost.

use std::collections::BTreeSet;
use std::time::Duration;

use queenright::engine::{Item, Push};

use super::history::{History, both};
use super::link::Lost;
use crate::conformance::Bench;

/// As many as a look shows the longest lines of.
const GROUPS_MAX: usize = 10;
/// So many at once get new messages, if there are as many.
const GROUPS_OPEN: usize = 4;
const KEYS: u32 = 5;
/// What becomes of a message, each time that it is handled: done, done with another message published, error, tried again, returned. In the end it is done.
const SCRIPTS: [&str; 14] = [
    "d", "d", "d", "d", "e", "ed", "eed", "te", "td", "rd", "rted", "p", "tp", "tttd",
];

/// Where the messages of a group are, and what may be done with it so that its order is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has had messages since the last reshard only: all are in one shard.
    Fresh,
    /// Something of it was put off or had failed at a reshard, and stays in its shard. Nobody pushes into it any more, so all of it is in one shard.
    Frozen,
    /// Its messages wait, or are in flight, in the shard of before, and new ones go there until nothing does. What is pushed for later, or requeued, would stay there, or
    /// come there too late: neither is done.
    Moving,
}

#[derive(Debug, Clone)]
pub struct Group {
    name: String,
    standing: Standing,
    /// It has had a message.
    pub is_used: bool,
}

impl Group {
    pub fn name(&self) -> String {
        self.name.clone()
    }

    fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Fresh | Standing::Moving)
    }
}

impl<B: Bench> History<B> {
    /// Of a new message.
    pub(super) fn payload(&mut self) -> String {
        self.named += 1;
        format!("{}:{}", self.named, SCRIPTS[self.rng.usize(..SCRIPTS.len())])
    }

    pub(super) fn standing(&self, group: &str) -> Standing {
        let group = self.groups.iter().find(|other| other.name == group);
        group.map_or(Standing::Fresh, |group| group.standing)
    }

    /// One that gets new messages.
    fn open_group(&mut self) -> Option<String> {
        let open = self.groups.iter().filter(|group| group.is_open()).count();
        if open < GROUPS_OPEN && self.groups.len() < GROUPS_MAX {
            let name = format!("g{}", self.groups.len());
            self.groups.push(Group {
                name: name.clone(),
                standing: Standing::Fresh,
                is_used: false,
            });
            return Some(name);
        }
        let open: Vec<&Group> = self.groups.iter().filter(|group| group.is_open()).collect();
        self.rng.choice(open).map(Group::name)
    }

    /// One that may have messages, or none yet.
    pub(super) fn any_group(&mut self) -> String {
        let any: Vec<String> = self.groups.iter().map(Group::name).collect();
        let any = self.rng.choice(any);
        any.or_else(|| self.open_group()).expect("one of them")
    }

    /// The groups of which something is put off, or has failed: that stays where it is.
    fn staying(&self) -> BTreeSet<String> {
        let state = self.state();
        let later = state.later.values().filter_map(|pack| pack.group().map(str::to_string));
        let failed = state.errors.values().filter_map(|failed| failed.group.clone());
        later.chain(failed).collect()
    }

    /// Since a reshard a group may be in another shard.
    pub(super) fn groups_may_move(&mut self) {
        let staying = self.staying();
        for group in self.groups.iter_mut().filter(|group| group.is_used) {
            group.standing = match group.standing {
                Standing::Fresh if staying.contains(&group.name) => Standing::Frozen,
                Standing::Fresh => Standing::Moving,
                other => other,
            };
        }
    }

    fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        for _ in 0..self.rng.u32(1..7) {
            let mut item = Item::new(self.payload());
            let group = if self.rng.bool() { self.open_group() } else { None };
            // One group, or none, for each key.
            let keys = group.as_deref().unwrap_or("none").to_string();
            if self.rng.bool() {
                item = item.key(format!("{keys} {}", self.rng.u32(..KEYS)));
            }
            let stands = group
                .as_deref()
                .is_none_or(|group| self.standing(group) == Standing::Fresh);
            if stands && self.chance(4) {
                item = item.delay(Duration::from_millis(self.rng.u64(..2000)));
            }
            if let Some(group) = group {
                item = item.group(group);
            }
            if self.chance(4) {
                item = item.header("trace", self.rng.u64(..).to_string());
            }
            if self.chance(8) {
                item = item.expires(Duration::from_millis(self.rng.u64(1..3000)));
            }
            if self.chance(3) {
                item = item.ask();
            }
            items.push(item);
        }
        items
    }

    /// If the number of shards was changed meanwhile, by which handle.
    pub(super) async fn push(&mut self) -> Option<usize> {
        self.named += 1;
        let mut push = Push {
            call: format!("call {}", self.named),
            keep_ms: [0, 500, 5000, 3_600_000][self.rng.usize(..4)],
            backlog_max: 1_000_000,
            birth: format!("birth {}", self.named),
            step_ms: 200,
            server: String::new(),
            only_known: false,
            items: self.items(),
        };
        if self.chance(12) {
            // No room at all: nothing of it is put in anywhere.
            push.backlog_max = 0;
            for item in &mut push.items {
                (item.key, item.delay_ms) = (None, 0);
            }
            both!(self.push(&push)).expect_err("there is no room");
            return None;
        }
        let via = self.rng.usize(..self.many.handles.len());
        self.note(format!("push {push:?} by {via}"));
        if self.chance(3) {
            let what = if self.rng.bool() { Lost::Request } else { Lost::Answer };
            self.losses.lose(self.rng.u32(..3), what);
        }
        let one = self.one.push(0, &push).await;
        let mut many = self.many.push(via, &push).await;
        self.losses.end();
        if many == Err("it is away") {
            self.note("an answer was lost".into());
            let resharded = if self.chance(3) {
                self.reshard_while(via, &push).await
            } else {
                None
            };
            many = self.many.push(via, &push).await;
            self.agree(&one, &many);
            self.took(&push, one.as_ref().expect("it is pushed"));
            return resharded;
        }
        self.agree(&one, &many);
        self.took(&push, one.as_ref().expect("it is pushed"));
        if self.reshards == 0 && self.chance(4) {
            let again = both!(self.push(&push));
            self.agree(&one, &again);
        }
        None
    }

    /// The number of shards is changed while a push has no answer: its groups may have been put in there, or not. Then nothing of these may have to stay where it is.
    async fn reshard_while(&mut self, via: usize, push: &Push) -> Option<usize> {
        let staying = self.staying();
        let names: BTreeSet<&str> = push.items.iter().filter_map(|item| item.group.as_deref()).collect();
        if names.iter().any(|group| staying.contains(*group)) {
            return None;
        }
        for group in self.groups.iter_mut().filter(|group| names.contains(&*group.name)) {
            group.is_used = true;
        }
        self.reshard(Some(via)).await
    }

    fn took(&mut self, push: &Push, told: &[(String, bool)]) {
        for (item, (payload, is_repeated)) in push.items.iter().zip(told) {
            if *is_repeated {
                continue;
            }
            if let Some(name) = &item.group {
                let group = self.groups.iter_mut().find(|group| group.name == *name);
                group.expect("it is known").is_used = true;
            }
            self.messages.push((payload.clone(), item.group.clone()));
        }
    }
}
