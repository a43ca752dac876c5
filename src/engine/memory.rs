//! The queue in memory: no I/O, time passed in.
//!
//! This is the oracle that the other engines must match, call for call and in every stored detail, and, behind a lock
//! ([`Local`]), the engine for tests that need no store.

mod local;

use std::collections::{BTreeMap, VecDeque};

use super::history::{Bucket, Crowned, History, LastReport, REIGNS_MAX, Range, Report, Reported};
use super::rules::Rules;
use super::store::{About, Kind, Lane, Lessee, Line, Meta, Store};
use super::{
    Beat, Collect, Collected, Exchange, Exchanged, Failed, Join, Joined, NodeId, Publish, Published, Push, Pushed,
    Reap, Reaped, Receipt, Renewed, Status, Wake,
};
use crate::engine::{Handover, Paused, Purged};
use crate::engine::{Held, Requeued};
use crate::error::Result;
use crate::message::{Effect, Pack};
use crate::settings::Names;

pub use local::Local;

/// A queue. Two of them are equal if a store would hold the same for both.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub queue_name: String,
    pub names: Names,
    pub meta: Option<Meta>,
    pub queue: VecDeque<Pack>,
    pub again: VecDeque<Pack>,
    /// Put off: by the time when each is due, and by number.
    pub later: BTreeMap<(u64, u64), Pack>,
    /// What the last generator left for the next one.
    pub cursor: Vec<u8>,
    /// What was answered to keys and calls of pushes, and until when that is remembered.
    pub once: BTreeMap<String, (u64, Vec<Receipt>)>,
    /// Members and when their leases end, on the hive clock.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Deposed or departed, and still holding something.
    pub dead: VecDeque<NodeId>,
    pub taken: BTreeMap<NodeId, Taken>,
    pub errors: BTreeMap<u64, Failed>,
    pub readers: BTreeMap<String, u64>,
    /// What each reader is printing, and the call that gave it that.
    pub reading: BTreeMap<String, (u64, Vec<Failed>)>,
    /// What was, by ring and slot.
    pub history: BTreeMap<(u64, u64), Bucket>,
    /// The last reigns, the newest first.
    pub reigns: VecDeque<Crowned>,
    pub bell: bool,
    pub crown_bell: bool,
    /// What effects have written.
    pub stored: BTreeMap<String, Stored>,
    /// The guard that is taken out, to show that a test notices.
    #[cfg(feature = "mutants")]
    pub without: Option<String>,
}

/// What a node holds, and its lanes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    pub about: About,
    pub lanes: BTreeMap<u32, Lane>,
    pub pieces: BTreeMap<u64, Pack>,
    /// What it last told of itself.
    pub report: Option<LastReport>,
}

/// What an effect has written under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    Value(Vec<u8>),
    Hash(BTreeMap<String, Vec<u8>>),
    List(Vec<Vec<u8>>),
}

/// Nothing can fail in memory but what the verbs themselves refuse.
const IN_MEMORY: &str = "memory does not fail";

impl State {
    #[must_use]
    pub fn new(queue_name: &str, names: &Names) -> Self {
        Self {
            queue_name: queue_name.to_string(),
            names: names.clone(),
            meta: None,
            queue: VecDeque::new(),
            again: VecDeque::new(),
            later: BTreeMap::new(),
            cursor: Vec::new(),
            once: BTreeMap::new(),
            nodes: BTreeMap::new(),
            dead: VecDeque::new(),
            taken: BTreeMap::new(),
            errors: BTreeMap::new(),
            readers: BTreeMap::new(),
            reading: BTreeMap::new(),
            history: BTreeMap::new(),
            reigns: VecDeque::new(),
            bell: false,
            crown_bell: false,
            stored: BTreeMap::new(),
            #[cfg(feature = "mutants")]
            without: None,
        }
    }

    pub fn join(&mut self, wall_ms: u64, join: &Join) -> Result<Joined> {
        Rules::join(self, wall_ms, join)
    }

    pub fn beat(&mut self, wall_ms: u64, beat: &Beat) -> Renewed {
        Rules::beat(self, wall_ms, beat).expect(IN_MEMORY)
    }

    pub fn publish(&mut self, wall_ms: u64, publish: &Publish) -> Result<Published> {
        Rules::publish(self, wall_ms, publish)
    }

    pub fn push(&mut self, wall_ms: u64, push: &Push) -> Result<Pushed> {
        Rules::push(self, wall_ms, push)
    }

    pub fn exchange(&mut self, wall_ms: u64, exchange: &Exchange) -> Exchanged {
        Rules::exchange(self, wall_ms, exchange).expect(IN_MEMORY)
    }

    pub fn reap(&mut self, wall_ms: u64, reap: &Reap) -> Reaped {
        Rules::reap(self, wall_ms, reap).expect(IN_MEMORY)
    }

    pub fn leave(&mut self, node: &NodeId) {
        Rules::leave(self, node).expect(IN_MEMORY);
    }

    pub fn collect(&mut self, wall_ms: u64, collect: &Collect) -> Collected {
        Rules::collect(self, wall_ms, collect).expect(IN_MEMORY)
    }

    pub fn hold(&mut self, wall_ms: u64, reader: &str, lease_ms: u64) -> bool {
        Rules::hold(self, wall_ms, reader, lease_ms).expect(IN_MEMORY)
    }

    pub fn release(&mut self, wall_ms: u64, reader: &str, only_expired: bool) {
        Rules::release(self, wall_ms, reader, only_expired).expect(IN_MEMORY);
    }

    pub fn requeue(&mut self, numbers: &[u64]) -> Requeued {
        Rules::requeue(self, numbers).expect(IN_MEMORY)
    }

    pub fn discard(&mut self, numbers: &[u64]) -> Vec<u64> {
        Rules::discard(self, numbers).expect(IN_MEMORY)
    }

    pub fn trim(&mut self, keep: u64) -> Vec<u64> {
        Rules::trim(self, keep).expect(IN_MEMORY)
    }

    /// None: there is no queue. The same in the next two.
    pub fn pause(&mut self, generator: Option<bool>, handlers: Option<bool>) -> Option<Paused> {
        Rules::pause(self, generator, handlers).expect(IN_MEMORY)
    }

    pub fn handover(&mut self, wall_ms: u64, to: Option<&str>) -> Option<Handover> {
        Rules::handover(self, wall_ms, to).expect(IN_MEMORY)
    }

    pub fn remove(&mut self, wall_ms: u64, force: bool) -> Option<Purged> {
        Rules::remove(self, wall_ms, force).expect(IN_MEMORY)
    }

    pub fn report(&mut self, wall_ms: u64, report: &Report) -> Reported {
        Rules::take_report(self, wall_ms, report).expect(IN_MEMORY)
    }

    pub fn history(&mut self, wall_ms: u64, range: Range) -> Option<History> {
        Rules::history(self, wall_ms, range).expect(IN_MEMORY)
    }

    pub fn failed(&mut self, from: u64, limit: u32) -> Vec<Failed> {
        Rules::failed(self, from, limit).expect(IN_MEMORY)
    }

    pub fn latest(&mut self, below: u64, limit: u32) -> Vec<Failed> {
        Rules::latest(self, below, limit).expect(IN_MEMORY)
    }

    pub fn held(&mut self, node: &str, limit: u32) -> Vec<Held> {
        Rules::held(self, node, limit).expect(IN_MEMORY)
    }

    /// One consistent look; none if there is no queue.
    pub fn status(&mut self, wall_ms: u64) -> Result<Option<Status>> {
        Rules::status(self, wall_ms)
    }

    /// Every message without an outcome, as runs of numbers (first, count), sorted.
    #[must_use]
    pub fn unsettled(&self) -> Vec<(u64, u64)> {
        let held = self.taken.values().flat_map(|taken| taken.pieces.values());
        let packs = self
            .queue
            .iter()
            .chain(&self.again)
            .chain(self.later.values())
            .chain(held);
        let mut runs: Vec<_> = packs.map(|pack| (pack.first(), pack.count() as u64)).collect();
        runs.sort_unstable();
        runs
    }

    fn line(&mut self, line: Line) -> &mut VecDeque<Pack> {
        match line {
            Line::Queue => &mut self.queue,
            Line::Again => &mut self.again,
        }
    }

    fn lessees(&mut self, lessee: Lessee) -> &mut BTreeMap<String, u64> {
        match lessee {
            Lessee::Node => &mut self.nodes,
            Lessee::Reader => &mut self.readers,
        }
    }

    fn taken(&mut self, node: &str) -> &mut Taken {
        self.taken.entry(node.to_string()).or_default()
    }
}

impl Store for State {
    fn queue_name(&self) -> &str {
        &self.queue_name
    }

    fn names(&self) -> &Names {
        &self.names
    }

    #[cfg(feature = "mutants")]
    fn guard(&self, name: &str) -> bool {
        self.without.as_deref() != Some(name)
    }

    fn meta(&mut self) -> Result<Option<Meta>> {
        Ok(self.meta.clone())
    }

    fn set_meta(&mut self, meta: &Meta) -> Result<()> {
        self.meta = Some(meta.clone());
        Ok(())
    }

    fn cursor(&mut self) -> Result<Vec<u8>> {
        Ok(self.cursor.clone())
    }

    fn set_cursor(&mut self, cursor: &[u8]) -> Result<()> {
        self.cursor = cursor.to_vec();
        Ok(())
    }

    fn lease(&mut self, lessee: Lessee, name: &str) -> Result<Option<u64>> {
        Ok(self.lessees(lessee).get(name).copied())
    }

    fn set_lease(&mut self, lessee: Lessee, name: &str, until: u64) -> Result<()> {
        self.lessees(lessee).insert(name.to_string(), until);
        Ok(())
    }

    fn end_lease(&mut self, lessee: Lessee, name: &str) -> Result<()> {
        self.lessees(lessee).remove(name);
        Ok(())
    }

    fn leases(&mut self, lessee: Lessee) -> Result<Vec<(String, u64)>> {
        let mut leases: Vec<_> = self.lessees(lessee).clone().into_iter().collect();
        leases.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        Ok(leases)
    }

    fn first_lease(&mut self, lessee: Lessee) -> Result<Option<(String, u64)>> {
        let leases = self.lessees(lessee).iter();
        let first = leases.min_by_key(|(name, until)| (**until, *name));
        Ok(first.map(|(name, until)| (name.clone(), *until)))
    }

    fn dead(&mut self) -> Result<Vec<NodeId>> {
        Ok(self.dead.iter().cloned().collect())
    }

    fn add_dead(&mut self, node: &str) -> Result<()> {
        self.dead.push_back(node.to_string());
        Ok(())
    }

    fn remove_dead(&mut self, node: &str) -> Result<()> {
        self.dead.retain(|other| other != node);
        Ok(())
    }

    fn about(&mut self, node: &str) -> Result<Option<About>> {
        Ok(self.taken.get(node).map(|taken| taken.about.clone()))
    }

    fn set_about(&mut self, node: &str, about: &About) -> Result<()> {
        self.taken(node).about = about.clone();
        Ok(())
    }

    fn forget(&mut self, node: &str) -> Result<()> {
        self.taken.remove(node);
        Ok(())
    }

    fn lane(&mut self, node: &str, lane: u32) -> Result<Option<Lane>> {
        Ok(self.taken.get(node).and_then(|taken| taken.lanes.get(&lane).cloned()))
    }

    fn set_lane(&mut self, node: &str, lane: u32, record: &Lane) -> Result<()> {
        self.taken(node).lanes.insert(lane, record.clone());
        Ok(())
    }

    fn lanes(&mut self, node: &str) -> Result<Vec<Lane>> {
        let lanes = self
            .taken
            .get(node)
            .map(|taken| taken.lanes.values().cloned().collect());
        Ok(lanes.unwrap_or_default())
    }

    fn close_lanes(&mut self, node: &str) -> Result<()> {
        self.taken(node).lanes.clear();
        Ok(())
    }

    fn piece(&mut self, node: &str, first: u64) -> Result<Option<Pack>> {
        Ok(self.taken.get(node).and_then(|taken| taken.pieces.get(&first).cloned()))
    }

    fn put_piece(&mut self, node: &str, pack: &Pack) -> Result<()> {
        self.taken(node).pieces.insert(pack.first(), pack.clone());
        Ok(())
    }

    fn remove_piece(&mut self, node: &str, first: u64) -> Result<()> {
        self.taken(node).pieces.remove(&first);
        Ok(())
    }

    fn first_piece(&mut self, node: &str) -> Result<Option<Pack>> {
        let pieces = self.taken.get(node).map(|taken| &taken.pieces);
        Ok(pieces.and_then(|pieces| pieces.values().next().cloned()))
    }

    fn pieces(&mut self, node: &str, limit: usize) -> Result<Vec<Pack>> {
        let pieces = self.taken.get(node).map(|taken| &taken.pieces);
        Ok(pieces.map_or_else(Vec::new, |pieces| pieces.values().take(limit).cloned().collect()))
    }

    fn front(&mut self, line: Line) -> Result<Option<Pack>> {
        Ok(self.line(line).front().cloned())
    }

    fn pop(&mut self, line: Line) -> Result<Option<Pack>> {
        Ok(self.line(line).pop_front())
    }

    fn push_front(&mut self, line: Line, pack: &Pack) -> Result<()> {
        self.line(line).push_front(pack.clone());
        Ok(())
    }

    fn push_back(&mut self, line: Line, pack: &Pack) -> Result<()> {
        self.line(line).push_back(pack.clone());
        Ok(())
    }

    fn is_empty(&mut self, line: Line) -> Result<bool> {
        Ok(self.line(line).is_empty())
    }

    fn put_off(&mut self, due_ms: u64, message: &Pack) -> Result<()> {
        self.later.insert((due_ms, message.first()), message.clone());
        Ok(())
    }

    fn pop_due(&mut self, until_ms: u64, limit: usize) -> Result<Vec<Pack>> {
        let mut due = Vec::new();
        while due.len() < limit
            && let Some(entry) = self.later.first_entry()
            && entry.key().0 <= until_ms
        {
            due.push(entry.remove());
        }
        Ok(due)
    }

    fn later_count(&mut self) -> Result<u64> {
        Ok(self.later.len() as u64)
    }

    fn once(&mut self, name: &str) -> Result<Option<(u64, Vec<Receipt>)>> {
        Ok(self.once.get(name).cloned())
    }

    fn set_once(&mut self, name: &str, until_ms: u64, receipts: &[Receipt]) -> Result<()> {
        self.once.insert(name.to_string(), (until_ms, receipts.to_vec()));
        Ok(())
    }

    fn forget_once(&mut self, now_ms: u64, limit: usize) -> Result<()> {
        let ended = self.once.iter().filter(|(_, (until_ms, _))| *until_ms <= now_ms);
        let mut old: Vec<_> = ended.map(|(name, (until_ms, _))| (*until_ms, name.clone())).collect();
        old.sort_unstable();
        for (_, name) in old.into_iter().take(limit) {
            self.once.remove(&name);
        }
        Ok(())
    }

    fn add_failed(&mut self, failed: &Failed) -> Result<()> {
        self.errors.insert(failed.number, failed.clone());
        Ok(())
    }

    fn remove_failed(&mut self, number: u64) -> Result<()> {
        self.errors.remove(&number);
        Ok(())
    }

    fn failed_between(&mut self, from: u64, below: u64, limit: usize) -> Result<Vec<Failed>> {
        let range = from..below.max(from);
        Ok(self
            .errors
            .range(range)
            .take(limit)
            .map(|(_, failed)| failed.clone())
            .collect())
    }

    fn failed_below(&mut self, below: u64, limit: usize) -> Result<Vec<Failed>> {
        let latest = self.errors.range(..below).rev().take(limit);
        Ok(latest.map(|(_, failed)| failed.clone()).collect())
    }

    fn failed_count(&mut self) -> Result<u64> {
        Ok(self.errors.len() as u64)
    }

    fn reading(&mut self, reader: &str) -> Result<Option<(u64, Vec<Failed>)>> {
        Ok(self.reading.get(reader).cloned())
    }

    fn set_reading(&mut self, reader: &str, call: u64, batch: &[Failed]) -> Result<()> {
        self.reading.insert(reader.to_string(), (call, batch.to_vec()));
        Ok(())
    }

    fn remove_reading(&mut self, reader: &str) -> Result<()> {
        self.reading.remove(reader);
        Ok(())
    }

    fn reading_count(&mut self) -> Result<u64> {
        Ok(self.reading.values().map(|(_, batch)| batch.len() as u64).sum())
    }

    fn purge(&mut self) -> Result<()> {
        let mut empty = Self::new(&self.queue_name, &self.names);
        empty.stored = std::mem::take(&mut self.stored);
        #[cfg(feature = "mutants")]
        {
            empty.without = self.without.take();
        }
        *self = empty;
        Ok(())
    }

    fn report(&mut self, node: &str) -> Result<Option<LastReport>> {
        Ok(self.taken.get(node).and_then(|taken| taken.report.clone()))
    }

    fn set_report(&mut self, node: &str, report: &LastReport) -> Result<()> {
        self.taken(node).report = Some(report.clone());
        Ok(())
    }

    fn drop_report(&mut self, node: &str) -> Result<()> {
        self.taken(node).report = None;
        Ok(())
    }

    fn slot(&mut self, range: Range, slot: u64) -> Result<Option<Bucket>> {
        Ok(self.history.get(&(range.ring(), slot)).cloned())
    }

    fn set_slot(&mut self, range: Range, slot: u64, bucket: &Bucket) -> Result<()> {
        self.history.insert((range.ring(), slot), bucket.clone());
        Ok(())
    }

    fn reigns(&mut self) -> Result<Vec<Crowned>> {
        Ok(self.reigns.iter().cloned().collect())
    }

    fn add_reign(&mut self, reign: &Crowned) -> Result<()> {
        self.reigns.push_front(reign.clone());
        self.reigns.truncate(REIGNS_MAX);
        Ok(())
    }

    fn ring(&mut self, wake: Wake) -> Result<()> {
        match wake {
            Wake::Bell => self.bell = true,
            Wake::Crown => self.crown_bell = true,
        }
        Ok(())
    }

    fn stored(&mut self, key: &str) -> Result<Option<(Kind, Option<Vec<u8>>)>> {
        Ok(self.stored.get(key).map(|stored| match stored {
            Stored::Value(value) => (Kind::Value, Some(value.clone())),
            Stored::Hash(_) => (Kind::Hash, None),
            Stored::List(_) => (Kind::List, None),
        }))
    }

    fn apply(&mut self, effect: &Effect) -> Result<()> {
        let key = effect.key().to_string();
        let held = self.stored.remove(&key);
        let new = match effect {
            Effect::Set { value, .. } => Stored::Value(value.clone()),
            Effect::Add { by, .. } => {
                let old = match &held {
                    Some(Stored::Value(text)) => super::rules::counter(text).unwrap_or(0),
                    _ => 0,
                };
                Stored::Value((old + by).to_string().into_bytes())
            }
            Effect::SetField { field, value, .. } => {
                let mut hash = match held {
                    Some(Stored::Hash(hash)) => hash,
                    _ => BTreeMap::new(),
                };
                hash.insert(field.clone(), value.clone());
                Stored::Hash(hash)
            }
            Effect::Push { value, .. } => {
                let mut list = match held {
                    Some(Stored::List(list)) => list,
                    _ => Vec::new(),
                };
                list.push(value.clone());
                Stored::List(list)
            }
        };
        self.stored.insert(key, new);
        Ok(())
    }
}
