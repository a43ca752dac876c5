//! What the rules read and write, in memory.

use std::collections::{BTreeMap, VecDeque};

use super::{State, Stored, Taken};
use crate::engine::history::{Bucket, Crowned, LastReport, REIGNS_MAX, Range};
use crate::engine::rules::counter;
use crate::engine::store::{
    About, Effects, Errors, Kind, Lane, Leases, Lessee, Line, Lines, Meta, Nodes, Pushes, Replay, Reports, Store,
};
use crate::engine::{Failed, NodeId, Receipt, Wake, record};
use crate::error::Result;
use crate::message::{Effect, Pack};
use crate::settings::Names;

/// Copies of as many as have `bytes_max` together, one at least.
fn within<'a, T: Clone + 'a>(all: impl Iterator<Item = &'a T>, bytes_max: usize, len: impl Fn(&T) -> usize) -> Vec<T> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for each in all {
        bytes += len(each);
        if !kept.is_empty() && bytes > bytes_max {
            break;
        }
        kept.push(each.clone());
    }
    kept
}

impl State {
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

    /// Nobody else can write here.
    fn is_connected(&mut self, node: &str) -> Result<bool> {
        Ok(self.connected.0.contains(node))
    }

    fn damaged_count(&mut self) -> Result<u64> {
        Ok(0)
    }

    fn set_cursor(&mut self, cursor: &[u8]) -> Result<()> {
        self.cursor = cursor.to_vec();
        Ok(())
    }

    fn ring(&mut self, wake: Wake) -> Result<()> {
        match wake {
            Wake::Bell => self.bell = true,
            Wake::Crown => self.crown_bell = true,
        }
        Ok(())
    }

    fn unsettled(&mut self) -> Result<Vec<(u64, u64)>> {
        Ok(State::unsettled(self))
    }

    fn purge(&mut self) -> Result<()> {
        let mut empty = Self::new(&self.queue_name, &self.names);
        empty.stored = std::mem::take(&mut self.stored);
        empty.purged = std::mem::take(&mut self.purged);
        #[cfg(feature = "mutants")]
        {
            empty.without = self.without.take();
        }
        *self = empty;
        Ok(())
    }

    fn purged(&mut self) -> Result<(u64, Vec<String>)> {
        Ok(self.purged.clone())
    }

    fn set_purged(&mut self, until_ms: u64, births: &[String]) -> Result<()> {
        self.purged = (until_ms, births.to_vec());
        Ok(())
    }

    fn unheard(&mut self) -> Result<Vec<NodeId>> {
        Ok(self.unheard.clone())
    }

    fn set_unheard(&mut self, nodes: &[NodeId]) -> Result<()> {
        self.unheard = nodes.to_vec();
        Ok(())
    }

    fn replay(&mut self) -> Result<Replay> {
        Ok(self.replay)
    }

    fn set_replay(&mut self, replay: Replay) -> Result<()> {
        self.replay = replay;
        Ok(())
    }
}

impl Leases for State {
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
}

impl Nodes for State {
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
        let lanes = self.taken.get(node).map(|taken| &taken.lanes);
        Ok(lanes.map_or_else(Vec::new, |lanes| lanes.values().cloned().collect()))
    }

    fn close_lanes(&mut self, node: &str) -> Result<()> {
        self.taken(node).lanes.clear();
        Ok(())
    }

    fn piece(&mut self, node: &str, first: u64) -> Result<Option<Pack>> {
        Ok(self.taken.get(node).and_then(|taken| taken.pieces.get(&first).cloned()))
    }

    fn piece_from(&mut self, node: &str, number: u64) -> Result<Option<Pack>> {
        let taken = self.taken.get(node);
        let piece = taken.and_then(|taken| taken.pieces.range(..=number).next_back());
        Ok(piece.map(|(_, pack)| pack.clone()))
    }

    fn put_piece(&mut self, node: &str, pack: &Pack) -> Result<()> {
        self.taken(node).pieces.insert(pack.first(), pack.clone());
        Ok(())
    }

    fn remove_piece(&mut self, node: &str, first: u64) -> Result<()> {
        self.taken(node).pieces.remove(&first);
        Ok(())
    }

    fn pieces(&mut self, node: &str, limit: usize, bytes_max: usize) -> Result<Vec<Pack>> {
        let pieces = self.taken.get(node).into_iter().flat_map(|taken| taken.pieces.values());
        Ok(within(pieces.take(limit), bytes_max, |pack| pack.bytes().len()))
    }
}

impl Lines for State {
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

    fn pop_due(&mut self, until_ms: u64) -> Result<Option<Pack>> {
        let first = self.later.first_entry().filter(|entry| entry.key().0 <= until_ms);
        Ok(first.map(std::collections::btree_map::OccupiedEntry::remove))
    }

    fn last_due(&mut self) -> Result<Option<u64>> {
        Ok(self.later.last_key_value().map(|((due_ms, _), _)| *due_ms))
    }

    fn later_count(&mut self) -> Result<u64> {
        Ok(self.later.len() as u64)
    }
}

impl Pushes for State {
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
}

impl Errors for State {
    fn add_failed(&mut self, failed: &Failed) -> Result<()> {
        self.errors.insert(failed.number, failed.clone());
        Ok(())
    }

    fn remove_failed(&mut self, number: u64) -> Result<()> {
        self.errors.remove(&number);
        Ok(())
    }

    fn failed_numbers(&mut self, from: u64, below: u64, limit: usize) -> Result<Vec<u64>> {
        let between = self.errors.range(from..below.max(from)).take(limit);
        Ok(between.map(|(number, _)| *number).collect())
    }

    fn failed_between(&mut self, from: u64, below: u64, limit: usize, bytes_max: usize) -> Result<Vec<Failed>> {
        let between = self.errors.range(from..below.max(from)).take(limit);
        let records = between.map(|(_, failed)| failed);
        Ok(within(records, bytes_max, |failed| record::encode(failed).len()))
    }

    fn failed_below(&mut self, below: u64, limit: usize, bytes_max: usize) -> Result<Vec<Failed>> {
        let latest = self.errors.range(..below).rev().take(limit);
        let records = latest.map(|(_, failed)| failed);
        Ok(within(records, bytes_max, |failed| record::encode(failed).len()))
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
}

impl Reports for State {
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
}

impl Effects for State {
    fn stored(&mut self, key: &str) -> Result<Option<(Kind, Option<Vec<u8>>)>> {
        Ok(self.stored.get(key).map(|stored| match stored {
            Stored::Value(value) => (Kind::Value, Some(value.clone())),
            Stored::Hash(_) => (Kind::Hash, None),
            Stored::List(_) => (Kind::List, None),
        }))
    }

    fn apply(&mut self, effect: &Effect) -> Result<()> {
        let Some(key) = effect.key().map(str::to_string) else {
            return Ok(());
        };
        let held = self.stored.remove(&key);
        let new = match effect {
            Effect::Set { value, .. } => Stored::Value(value.clone()),
            Effect::Add { by, .. } => {
                let old = match &held {
                    Some(Stored::Value(text)) => counter(text).unwrap_or(0),
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
            // It goes into the queue, not under a key.
            Effect::Publish { .. } | Effect::Result { .. } => return Ok(()),
        };
        self.stored.insert(key, new);
        Ok(())
    }
}
