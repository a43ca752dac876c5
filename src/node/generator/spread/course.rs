//! How far the one sequence of a generator has come, where its messages are spread over several shards.
//!
//! A shard stores packs and cursor in one step, but no step spans two shards. So each publish carries a **record** as its cursor: how far the
//! sequence has come *with this publish*, and which parts before it may be missing. Whoever generates next claims the shards, which ends
//! all that the generator before can write there, and takes the record with the highest serial number: it knows of every publish that
//! was sent before it.
//!
//! - A publish that was sent and is not answered is in **doubt**: the record has the shard that it went to, and how many messages that shard had then.
//!   Whoever claims the shard sees whether it has more: then it has this publish.
//! - What is not there is a **hole**: it is made again from the cursor before it, and published first.
//! - The next publish is sent when the last one is answered. Only if that takes long does it overtake: then the shard that does not answer is
//!   **closed**, and the record says so. A shard is sent nothing more until it has answered *and* a record in another shard tells that it is
//!   open again. So a generator that cannot claim a shard may begin without it if the highest record has it closed: no higher one is there.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes};

use crate::error::{Error, Result};
use crate::mutants::guard;

/// How many reigns a record remembers.
const REIGNS_MAX: usize = 16;
/// With more bytes of cursors than this no part is overtaken.
const RECORD_BYTES_MAX: usize = 128 * 1024;
const VERSION: u8 = 1;

/// A part of the sequence that may not be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// How many messages were made before it, and how many it has.
    pub from: u64,
    pub count: u64,
    /// The cursor before it.
    pub before: Bytes,
    /// It was sent to this shard when that had so many messages of generators. None: it is not published.
    pub doubt: Option<(u32, u64)>,
    /// The serial number of the record that was sent with it. Not stored.
    serial: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Of the last record.
    serial: u64,
    /// How many messages were made, in all reigns, with those that are missing.
    pub made: u64,
    /// What the last of them left for the next.
    pub cursor: Bytes,
    missing: Vec<Missing>,
    closed: BTreeSet<u32>,
    /// Epochs, and how many messages had been made when each began; the newest last.
    reigns: Vec<(u64, u64)>,
    /// Shards that answer again, and the serial number of the first record that tells of it. Not stored.
    opening: Vec<(u32, u64)>,
}

/// What a claim told of a shard.
#[derive(Debug, Clone)]
pub(super) struct Claimed {
    /// How many messages of generators it has.
    pub made: u64,
    /// The record of the last of them.
    pub record: Bytes,
}

/// Where the next messages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub made: u64,
    pub cursor: Bytes,
    /// So many are missing here. None: this is the end of the sequence.
    pub hole: Option<u64>,
}

impl Course {
    /// Where a reign begins. None: a shard that may know more was not claimed yet.
    pub(super) fn begin(epoch: u64, shards: &[Option<Claimed>]) -> Result<Option<Self>> {
        let mut course = Self::default();
        for claimed in shards.iter().flatten() {
            let found = Self::decode(&claimed.record)?;
            if found.serial > course.serial {
                course = found;
            }
        }
        for (shard, claimed) in (0..).zip(shards) {
            let is_known = claimed.is_some() || course.closed.contains(&shard);
            if !is_known && guard("claims-all") {
                return Ok(None);
            }
        }
        for (shard, claimed) in (0..).zip(shards) {
            match claimed {
                Some(claimed) => course.claimed(shard, claimed.made),
                None => drop(course.closed.insert(shard)),
            }
        }
        course.reigns.push((epoch, course.first_missing()));
        let old = course.reigns.len().saturating_sub(REIGNS_MAX);
        course.reigns.drain(..old);
        Ok(Some(course))
    }

    /// A shard was claimed, and has so many messages of generators: what was in doubt there is known now.
    pub(super) fn claimed(&mut self, shard: u32, made: u64) {
        self.missing.retain_mut(|missing| match missing.doubt {
            Some((of, before)) if of == shard => {
                missing.doubt = None;
                made <= before || !guard("doubt-known")
            }
            _ => true,
        });
        self.answers(shard);
    }

    /// A shard answers: it is open once another shard has a record that tells so.
    fn answers(&mut self, shard: u32) {
        if self.closed.remove(&shard) {
            self.opening.push((shard, self.serial + 1));
        }
    }

    /// How many had been made when another reign followed this one.
    pub(super) fn made_before(&self, reigned: u64) -> Option<u64> {
        let is_known = self.reigns.iter().any(|(epoch, _)| *epoch <= reigned);
        let followed = self.reigns.iter().find(|(epoch, _)| *epoch > reigned);
        followed.filter(|_| is_known && reigned > 0).map(|(_, made)| *made)
    }

    /// All messages before this one are published.
    pub(super) fn first_missing(&self) -> u64 {
        self.missing
            .iter()
            .map(|missing| missing.from)
            .min()
            .unwrap_or(self.made)
    }

    /// What is to be made next: holes first.
    pub(super) fn next(&self) -> Next {
        let hole = self.missing.iter().find(|missing| missing.doubt.is_none());
        match hole {
            Some(hole) => Next {
                made: hole.from,
                cursor: hole.before.clone(),
                hole: Some(hole.count),
            },
            None => Next {
                made: self.made,
                cursor: self.cursor.clone(),
                hole: None,
            },
        }
    }

    /// Whether nothing may be sent to a shard: what was sent is not answered, or others do not know yet that it is open again.
    pub(super) fn is_shut(&self, shard: u32) -> bool {
        let opens = self.opening.iter().any(|(opening, _)| *opening == shard);
        self.closed.contains(&shard) || (opens && guard("told-open"))
    }

    /// So many messages, which begin at [`next`](Self::next) and leave this cursor, are sent to a shard that has so many. Returns the record that
    /// is stored with them.
    pub(super) fn send(&mut self, shard: u32, made: u64, count: u64, cursor: &Bytes) -> Bytes {
        let next = self.next();
        if let Some(hole) = self.missing.iter_mut().find(|missing| missing.doubt.is_none()) {
            hole.from += count;
            hole.count = hole.count.saturating_sub(count);
            hole.before = cursor.clone();
        } else {
            self.made += count;
            self.cursor = cursor.clone();
        }
        self.missing.retain(|missing| missing.count > 0);
        self.serial += 1;
        let record = self.encode();
        self.missing.push(Missing {
            from: next.made,
            count,
            before: next.cursor,
            doubt: Some((shard, made)),
            serial: self.serial,
        });
        record
    }

    /// What was sent to this shard is published.
    pub(super) fn published(&mut self, shard: u32) {
        let sent = self.missing.iter().find(|missing| is_sent_to(missing, shard));
        let serial = sent.map_or(0, |sent| sent.serial);
        self.missing.retain(|missing| !is_sent_to(missing, shard));
        self.answers(shard);
        // This shard has a record that tells of them.
        self.opening
            .retain(|(opening, from)| *opening == shard || *from > serial);
    }

    /// What was sent to this shard is not published, and will not be.
    pub(super) fn refused(&mut self, shard: u32) {
        let Some(at) = self.missing.iter().position(|missing| is_sent_to(missing, shard)) else {
            return;
        };
        let refused = self.missing[at].clone();
        if refused.from + refused.count == self.made {
            // Nothing was sent behind it: the sequence ends before it.
            self.missing.remove(at);
            (self.made, self.cursor) = (refused.from, refused.before);
        } else {
            self.missing[at].doubt = None;
        }
        self.answers(shard);
    }

    /// Whether one more part may be in doubt: a record has its cursor, and each record is stored and told as a whole.
    pub(super) fn has_room(&self) -> bool {
        let cursors = self.missing.iter().map(|missing| missing.before.len());
        cursors.sum::<usize>() + self.cursor.len() < RECORD_BYTES_MAX
    }

    /// What was sent to this shard is not answered for long: others go on, and nothing more is sent there.
    pub(super) fn overtake(&mut self, shard: u32) {
        self.opening.retain(|(opening, _)| *opening != shard);
        self.closed.insert(shard);
    }

    /// The source has no more messages for a hole.
    pub(super) fn give_up_hole(&mut self) {
        if let Some(at) = self.missing.iter().position(|missing| missing.doubt.is_none()) {
            self.missing.remove(at);
        }
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64 + self.cursor.len());
        out.put_u8(VERSION);
        out.put_u64_le(self.serial);
        out.put_u64_le(self.made);
        put_bytes(&mut out, &self.cursor);
        let missing: &[Missing] = if guard("in-doubt") { &self.missing } else { &[] };
        out.put_u32_le(length(missing.len()));
        for missing in missing {
            out.put_u64_le(missing.from);
            out.put_u64_le(missing.count);
            put_bytes(&mut out, &missing.before);
            let (shard, made) = missing.doubt.unwrap_or((u32::MAX, 0));
            out.put_u32_le(shard);
            out.put_u64_le(made);
        }
        out.put_u32_le(length(self.closed.len()));
        for shard in &self.closed {
            out.put_u32_le(*shard);
        }
        out.put_u32_le(length(self.reigns.len()));
        for (epoch, made) in &self.reigns {
            out.put_u64_le(*epoch);
            out.put_u64_le(*made);
        }
        out.into()
    }

    /// Nothing was published yet, if there is none.
    fn decode(record: &Bytes) -> Result<Self> {
        if record.is_empty() {
            return Ok(Self::default());
        }
        read(record.clone()).ok_or_else(|| Error::Protocol {
            detail: "the cursor is not one of a queue with shards".into(),
        })
    }
}

fn is_sent_to(missing: &Missing, shard: u32) -> bool {
    missing.doubt.is_some_and(|(of, _)| of == shard)
}

fn length(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(length(bytes.len()));
    out.put_slice(bytes);
}

fn get_bytes(from: &mut Bytes) -> Option<Bytes> {
    let length = from.try_get_u32_le().ok()? as usize;
    (length <= from.len()).then(|| from.split_to(length))
}

fn read(mut from: Bytes) -> Option<Course> {
    if from.try_get_u8().ok()? != VERSION {
        return None;
    }
    let mut course = Course {
        serial: from.try_get_u64_le().ok()?,
        made: from.try_get_u64_le().ok()?,
        cursor: get_bytes(&mut from)?,
        ..Course::default()
    };
    for _ in 0..from.try_get_u32_le().ok()? {
        let (start, count) = (from.try_get_u64_le().ok()?, from.try_get_u64_le().ok()?);
        let before = get_bytes(&mut from)?;
        let (shard, made) = (from.try_get_u32_le().ok()?, from.try_get_u64_le().ok()?);
        course.missing.push(Missing {
            from: start,
            count,
            before,
            doubt: (shard != u32::MAX).then_some((shard, made)),
            serial: 0,
        });
    }
    for _ in 0..from.try_get_u32_le().ok()? {
        course.closed.insert(from.try_get_u32_le().ok()?);
    }
    for _ in 0..from.try_get_u32_le().ok()? {
        let reign = (from.try_get_u64_le().ok()?, from.try_get_u64_le().ok()?);
        course.reigns.push(reign);
    }
    Some(course)
}

#[cfg(test)]
mod tests;
