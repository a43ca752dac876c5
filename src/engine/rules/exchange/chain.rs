//! Messages that effects publish: the next of a chain gets its number in the settle of the one before.

use crate::engine::limits::DELAY_MS_MAX;
use crate::engine::rules::numbering::Numbering;
use crate::engine::store::{Line, Meta, Store};
use crate::engine::{Chained, Link};
use crate::error::Result;
use crate::message::Effect;

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
    pub(super) fn room(&mut self, store: &mut impl Store, effects: &[Effect]) -> Result<Room> {
        let (count, soon) = (
            published(effects).count() as u64,
            published(effects).filter(|(_, delay)| *delay == 0),
        );
        if soon.count() == 0 {
            return Ok(Room::Fits);
        }
        if count > self.backlog_max && store.guard("chain-never") {
            let most = self.backlog_max;
            return Ok(Room::Never(format!(
                "it publishes {count} messages, and {most} may wait"
            )));
        }
        let behind = self.numbering.seq + count;
        if behind - self.head > self.backlog_max && !self.is_head_sure {
            self.head = store.front(Line::Queue)?.map_or(self.from, |pack| pack.first());
            self.is_head_sure = true;
        }
        let fits = behind - self.head <= self.backlog_max || !store.guard("chain-full");
        Ok(if fits { Room::Fits } else { Room::Crowded })
    }

    /// Numbers what the effects of a message publish.
    pub(super) fn follow(&mut self, cause: u64, effects: &[Effect]) {
        let first = self.numbering.seq;
        for (payload, delay_ms) in published(effects) {
            self.numbering.add(payload, delay_ms.min(DELAY_MS_MAX));
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

    /// Puts them in. True: someone should be woken, if they are still there.
    pub(super) fn write(&self, store: &mut impl Store, meta: &mut Meta) -> Result<bool> {
        if !self.told.links.is_empty() {
            self.numbering.write(store, meta)?;
            meta.head = self.head;
            store.set_meta(meta)?;
        }
        Ok(!self.numbering.packs.is_empty())
    }
}

/// The messages that effects publish, and for how long each is put off.
fn published(effects: &[Effect]) -> impl Iterator<Item = (&[u8], u64)> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Publish { payload, delay_ms } => Some((&payload[..], *delay_ms)),
        _ => None,
    })
}
