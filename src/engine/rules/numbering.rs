//! Giving numbers to messages that no generator made: those that are pushed, and those that effects publish.

use super::groups::line_up;
use crate::engine::store::{Line, Meta, Store};
use crate::error::Result;
use crate::message::{Envelope, Pack, PackBuilder};

/// Messages from the next number on, in packs. Worked out before anything is written.
pub(super) struct Numbering {
    /// The next number.
    pub(super) seq: u64,
    /// Of the pack that is being filled.
    first: u64,
    epoch: u64,
    grain: u64,
    time_ms: u64,
    builder: PackBuilder,
    pub(super) packs: Vec<Pack>,
    /// To be put into the lines of their groups.
    pub(super) grouped: Vec<Pack>,
    later: Vec<(u64, Pack)>,
}

impl Numbering {
    pub(super) fn new(meta: &Meta, time_ms: u64) -> Self {
        Self {
            seq: meta.seq,
            first: meta.seq,
            epoch: meta.epoch,
            grain: meta.grain,
            time_ms,
            builder: PackBuilder::new(),
            packs: Vec::new(),
            grouped: Vec::new(),
            later: Vec::new(),
        }
    }

    /// One with an envelope is a pack of its own. If it is of a group and for later, it gets into its line when it is due.
    pub(super) fn add_with(&mut self, envelope: &Envelope, payload: &[u8], delay_ms: u64) {
        if envelope.is_empty() {
            return self.add(payload, delay_ms);
        }
        self.close();
        let pack = Pack::of_one(envelope, payload, self.seq, self.epoch, self.time_ms);
        let is_grouped = envelope.group.is_some();
        if delay_ms > 0 {
            let pack = if is_grouped {
                pack.marked_before_line()
            } else {
                pack.marked_unordered()
            };
            self.later.push((self.time_ms + delay_ms, pack));
        } else if is_grouped {
            self.grouped.push(pack);
        } else {
            self.packs.push(pack);
        }
        self.seq += 1;
        self.first = self.seq;
    }

    /// One for later has a pack of its own.
    pub(super) fn add(&mut self, payload: &[u8], delay_ms: u64) {
        if delay_ms > 0 {
            self.close();
            self.builder.push(payload);
            let pack = self.builder.build(self.seq, self.epoch, self.time_ms);
            self.later.push((self.time_ms + delay_ms, pack.marked_unordered()));
            self.seq += 1;
            self.first = self.seq;
            return;
        }
        if !self.builder.has_room(payload.len()) || self.builder.count() as u64 >= self.grain {
            self.close();
        }
        self.builder.push(payload);
        self.seq += 1;
    }

    /// The last pack is full enough.
    pub(super) fn close(&mut self) {
        if !self.builder.is_empty() {
            self.packs
                .push(self.builder.build(self.first, self.epoch, self.time_ms));
        }
        self.first = self.seq;
    }

    /// Puts them in.
    pub(super) fn write(&self, store: &mut impl Store, meta: &mut Meta) -> Result<()> {
        for pack in &self.packs {
            store.push_back(Line::Queue, pack)?;
        }
        for pack in &self.grouped {
            line_up(store, pack)?;
        }
        for (due_ms, pack) in &self.later {
            store.put_off(*due_ms, pack)?;
        }
        meta.seq = self.seq;
        Ok(())
    }
}
