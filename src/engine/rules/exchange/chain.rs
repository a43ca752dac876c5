//! Messages that effects publish: the next of a chain gets its number in the settle of the one before.

use crate::engine::limits::DELAY_MS_MAX;
use crate::engine::rules::numbering::Numbering;
use crate::engine::store::{Line, Meta, Store};
use crate::engine::{Chained, Link};
use crate::error::Result;
use crate::message::{Effect, Envelope};

/// What an exchange publishes, worked out before anything is written.
pub(super) struct Chain {
    numbering: Numbering,
    backlog_max: u64,
    /// The number at the head of the queue, and whether that was looked up now.
    head: u64,
    is_head_sure: bool,
    /// Where numbers begin.
    from: u64,
    pub(super) told: Chained,
}

/// Whether what the effects of a message publish can be put in.
pub(super) enum Room {
    Fits,
    /// Not now: the backlog is full.
    Crowded,
    /// Never: it is more than may wait.
    Never(String),
}

impl Chain {
    pub(super) fn new(meta: &Meta, time_ms: u64, backlog_max: u64) -> Self {
        Self {
            numbering: Numbering::new(meta, time_ms),
            backlog_max,
            head: meta.head,
            is_head_sure: false,
            from: meta.seq,
            told: Chained::default(),
        }
    }

    /// As with a push: a message that publishes only for later always has room.
    /// One that holds up its group is not put off because lines are full: it may be what fills them, and then nothing would ever go on.
    pub(super) fn room(&mut self, store: &mut impl Store, effects: &[Effect], holds_up: bool) -> Result<Room> {
        let count = published(effects).count() as u64;
        let soon = || published(effects).filter(|link| link.delay_ms == 0);
        let grouped = soon().filter(|link| link.envelope.group.is_some()).count() as u64;
        let plain = soon().count() as u64 - grouped;
        if plain + grouped == 0 {
            return Ok(Room::Fits);
        }
        if count > self.backlog_max && store.guard("chain-never") {
            let most = self.backlog_max;
            return Ok(Room::Never(format!(
                "it publishes {count} messages, and {most} may wait"
            )));
        }
        let behind = self.numbering.seq + count;
        if plain > 0 && behind - self.head > self.backlog_max && !self.is_head_sure {
            self.head = store.front(Line::Queue)?.map_or(self.from, |pack| pack.first());
            self.is_head_sure = true;
        }
        let in_lines = store.grouped_count()? + self.numbering.grouped.len() as u64 + grouped;
        let holds_up = holds_up && store.guard("chain-group");
        let are_lines_full = grouped > 0 && !holds_up && in_lines > self.backlog_max;
        let is_full = plain > 0 && behind - self.head > self.backlog_max || are_lines_full;
        let fits = !is_full || !store.guard("chain-full");
        Ok(if fits { Room::Fits } else { Room::Crowded })
    }

    /// Numbers what the effects of a message publish.
    pub(super) fn follow(&mut self, cause: u64, effects: &[Effect]) {
        let first = self.numbering.seq;
        for link in published(effects) {
            let delay_ms = link.delay_ms.min(DELAY_MS_MAX);
            self.numbering.add_with(&link.envelope, link.payload, delay_ms);
        }
        let count = self.numbering.seq - first;
        if count > 0 {
            self.told.links.push(Link { cause, first, count });
        }
    }

    /// All of them are numbered.
    pub(super) fn close(&mut self, epoch: u64) {
        self.numbering.close();
        if !self.told.is_empty() {
            self.told.epoch = epoch;
        }
    }

    /// Puts them in. True: someone should be woken if they are still there, in the queue or in the lines of groups.
    pub(super) fn write(&self, store: &mut impl Store, meta: &mut Meta) -> Result<(bool, bool)> {
        if !self.told.links.is_empty() {
            self.numbering.write(store, meta)?;
            meta.head = self.head;
            store.set_meta(meta)?;
        }
        Ok((!self.numbering.packs.is_empty(), !self.numbering.grouped.is_empty()))
    }
}

/// A message that an effect publishes.
struct Next<'a> {
    payload: &'a [u8],
    delay_ms: u64,
    envelope: Envelope,
}

fn published(effects: &[Effect]) -> impl Iterator<Item = Next<'_>> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Publish { payload, delay_ms, .. } => Some(Next {
            payload,
            delay_ms: *delay_ms,
            envelope: effect.envelope(),
        }),
        _ => None,
    })
}
