//! How far the one sequence of a generator has come, where its messages are spread over several shards.
//!
//! A shard stores packs and cursor in one step, but no step spans two shards. So each publish carries a **record** as its cursor: how far the
//! sequence has come *with this publish*, and which parts before it may be missing. Whoever generates next claims the shards, which ends
//! all that the generator before can write there, and takes the record with the highest serial number: it knows of every publish that
//! was sent before it.
//!
//! - A publish that was sent and is not answered is in **doubt**: the record has the shard that it went to, and its serial number. Whoever claims the
//!   shard sees whether its last record has a lower one: then this publish is not there. With `--replicas` a publish is in doubt until replicas have it: a
//!   shard that goes back in time takes its record back, too.
//! - What is not there is a **hole**: it is made again from the cursor before it, and published first.
//! - The next publish is sent when the last one is answered. Only if that takes long does it overtake: then the shard that does not answer is
//!   **closed**, and the record says so. A shard is sent nothing more until it has answered *and* a record in another shard, which replicas have, tells
//!   that it is open again. So a generator that cannot claim a shard may begin without it if the highest record has it closed: no higher one is there.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes};

use crate::error::{Error, Result};
use crate::mutants::guard;

/// How many reigns a record remembers.
const REIGNS_MAX: usize = 16;
/// With more bytes of missing parts than this no other may be missing.
const RECORD_BYTES_MAX: usize = 128 * 1024;
/// What a record has of a missing part besides its cursor.
const PART_BYTES: usize = 32;
const VERSION: u8 = 1;

/// A part of the sequence that may not be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// How many messages were made before it, and how many it has.
    pub from: u64,
    pub count: u64,
    /// The cursor before it.
    pub before: Bytes,
    /// It was sent to this shard, with a record of this serial number. None: it is not published.
    pub doubt: Option<(u32, u64)>,
    /// The shard has published it, and replicas may lack it. Not stored.
    answered: bool,
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
    /// Shards from this one on get nothing new. Not stored.
    retired: Option<u32>,
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
    pub(super) fn begin(epoch: u64, records: &[Option<Bytes>]) -> Result<Option<Self>> {
        let (mut course, mut serials) = (Self::default(), Vec::with_capacity(records.len()));
        for record in records {
            let found = record.as_ref().map(Self::decode).transpose()?;
            serials.push(found.as_ref().map(|found| found.serial));
            if let Some(found) = found.filter(|found| found.serial > course.serial) {
                course = found;
            }
        }
        for (shard, claimed) in (0..).zip(&serials) {
            let is_known = claimed.is_some() || course.closed.contains(&shard);
            if !is_known && guard("claims-all") {
                return Ok(None);
            }
        }
        for (shard, claimed) in (0..).zip(serials) {
            match claimed {
                Some(serial) => course.claimed(shard, serial),
                None => drop(course.closed.insert(shard)),
            }
        }
        course.reigns.push((epoch, course.first_missing()));
        let old = course.reigns.len().saturating_sub(REIGNS_MAX);
        course.reigns.drain(..old);
        Ok(Some(course))
    }

    /// Shards from this one on get nothing new, so every record from now on has them closed: one that goes away keeps nobody from beginning.
    pub(super) fn retire(&mut self, from: u32, shards: u32) {
        self.retired = Some(from);
        self.closed.extend(from..shards);
        self.opening.retain(|(shard, _)| *shard < from);
    }

    /// A shard was claimed, and its last record has this serial number: what was in doubt there is known now.
    pub(super) fn claimed(&mut self, shard: u32, last: u64) {
        self.missing.retain_mut(|missing| match missing.doubt {
            Some((of, serial)) if of == shard => {
                missing.doubt = None;
                last < serial || !guard("doubt-known")
            }
            _ => true,
        });
        self.join_holes();
        self.answers(shard);
    }

    /// Holes that follow each other are one, and the first comes first: each record tells of all of them.
    fn join_holes(&mut self) {
        let mut holes: Vec<Missing> = self.missing.extract_if(.., |missing| missing.doubt.is_none()).collect();
        holes.sort_unstable_by_key(|hole| hole.from);
        let mut joined: Vec<Missing> = Vec::with_capacity(holes.len());
        for hole in holes {
            match joined.last_mut() {
                Some(last) if last.from + last.count == hole.from => last.count += hole.count,
                _ => joined.push(hole),
            }
        }
        self.missing.splice(..0, joined);
    }

    /// A shard answers: it is open once another shard has a record that tells so.
    fn answers(&mut self, shard: u32) {
        if self.retired.is_none_or(|from| shard < from) && self.closed.remove(&shard) {
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

    /// So many messages, which begin at [`next`](Self::next) and leave this cursor, are sent to a shard. Returns the record that is stored with
    /// them, and its serial number.
    pub(super) fn send(&mut self, shard: u32, count: u64, cursor: &Bytes) -> (Bytes, u64) {
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
            doubt: Some((shard, self.serial)),
            answered: false,
        });
        (record, self.serial)
    }

    /// What was sent to this shard is published; replicas may lack it.
    pub(super) fn published(&mut self, shard: u32) {
        let answered = self.missing.iter_mut().find(|missing| is_sent_to(missing, shard));
        if let Some(answered) = answered {
            answered.answered = true;
        }
        if !guard("kept-doubt") {
            self.missing.retain(|missing| !missing.answered);
        }
        if !guard("kept-open") {
            self.opens(shard, self.serial);
        }
    }

    /// What was sent to this shard with this record is there to stay.
    pub(super) fn kept(&mut self, shard: u32, serial: u64) {
        self.missing.retain(|missing| missing.doubt != Some((shard, serial)));
        if self.untold(shard) == 0 {
            self.answers(shard);
        }
        self.opens(shard, serial);
    }

    /// A shard has a record with this serial number, and tells that others are open.
    fn opens(&mut self, shard: u32, serial: u64) {
        self.opening
            .retain(|(opening, from)| *opening == shard || *from > serial);
    }

    /// How many publishes to this shard are not known to be there to stay.
    pub(super) fn untold(&self, shard: u32) -> usize {
        let of = |missing: &&Missing| missing.doubt.is_some_and(|(of, _)| of == shard);
        self.missing.iter().filter(of).count()
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
            self.join_holes();
        }
        if self.untold(shard) == 0 {
            self.answers(shard);
        }
    }

    /// Whether one more part may be in doubt: a record has its cursor, and each record is stored and told as a whole.
    pub(super) fn has_room(&self) -> bool {
        let in_doubt = self.missing.iter().filter(|missing| missing.doubt.is_some());
        let bytes: usize = in_doubt.map(|missing| PART_BYTES + missing.before.len()).sum();
        bytes == 0 || bytes + self.cursor.len() < RECORD_BYTES_MAX
    }

    /// What was sent to this shard is not answered, or not kept, for long: others go on, and nothing more is sent there.
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
            let (shard, serial) = missing.doubt.unwrap_or((u32::MAX, 0));
            out.put_u32_le(shard);
            out.put_u64_le(serial);
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

/// Whether it is on its way there.
fn is_sent_to(missing: &Missing, shard: u32) -> bool {
    !missing.answered && missing.doubt.is_some_and(|(of, _)| of == shard)
}

/// The serial number of a record; 0: there is none.
pub(super) fn serial(record: &Bytes) -> Result<u64> {
    Course::decode(record).map(|course| course.serial)
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
        let (shard, serial) = (from.try_get_u32_le().ok()?, from.try_get_u64_le().ok()?);
        course.missing.push(Missing {
            from: start,
            count,
            before,
            doubt: (shard != u32::MAX).then_some((shard, serial)),
            answered: false,
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
