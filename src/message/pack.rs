//! Packs: how messages are stored and moved, many at a time. How they are made is in `build`, what becomes of them in `marks`.

mod build;
mod marks;

use std::ops::Range;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{Envelope, Message, Sealed, envelope};
use crate::error::{Error, Result};
pub use build::PackBuilder;
use marks::{BEFORE_LINE, LEFT_GROUP};

/// The most messages one pack holds.
pub const PACK_MESSAGES_MAX: usize = 1000;
/// A pack of several messages holds at most this much payload: splitting one copies its bytes.
pub const PACK_BYTES_MAX: usize = 64 * 1024;

const VERSION: u8 = 1;
/// The same, but an envelope stands before the payload. Such a pack has one message.
const ENVELOPED: u8 = 2;
const HEADER_BYTES: usize = 36;

const OFFSET_BYTES: usize = 4;

/// A run of consecutive messages, stored and moved as one piece.
///
/// Little-endian: version u8, flags u8, deliveries u16, failures u16, unordered u16, first number u64, epoch u64,
/// published-at u64, count u32, then count + 1 offsets u32 and the payloads. The offsets of a piece are those of
/// the pack that it was cut from, so that cutting copies bytes and computes nothing.
///
/// A message with an [`Envelope`] is a pack of its own, of the version 2: so a script finds its group where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    bytes: Bytes,
    /// How many bytes of its data stand before the payload of its message: those of an envelope. To add it costs less than to ask for it.
    front: usize,
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Pack {
    /// Checks everything that the accessors rely on, so that bytes from the store cannot make them panic.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let broken = |detail: &str| Error::Protocol {
            detail: format!("pack of {} bytes: {detail}", bytes.len()),
        };
        if bytes.len() < HEADER_BYTES + 2 * OFFSET_BYTES {
            return Err(broken("too short"));
        }
        if !matches!(bytes[0], VERSION | ENVELOPED) || bytes[1] != 0 {
            return Err(broken("unknown version or flags"));
        }
        let count = u32_at(&bytes, 32) as usize;
        if count == 0 || count > PACK_MESSAGES_MAX {
            return Err(broken("impossible count"));
        }
        if u64_at(&bytes, 8).saturating_add(count as u64 - 1) > (1 << 53) {
            return Err(broken("impossible number"));
        }
        let data = HEADER_BYTES + OFFSET_BYTES * (count + 1);
        if bytes.len() < data {
            return Err(broken("offsets cut off"));
        }
        let base = u32_at(&bytes, HEADER_BYTES);
        let mut last = base;
        for i in 1..=count {
            let next = u32_at(&bytes, HEADER_BYTES + OFFSET_BYTES * i);
            if next < last {
                return Err(broken("offsets go back"));
            }
            last = next;
        }
        if data + (last - base) as usize != bytes.len() {
            return Err(broken("length does not match offsets"));
        }
        let front = if bytes[0] == ENVELOPED {
            let envelope = (count == 1).then(|| Envelope::decode(&bytes[data..])).flatten();
            envelope.ok_or_else(|| broken("no envelope"))?.1
        } else {
            0
        };
        Ok(Self { bytes, front })
    }

    /// The same messages, or some of them, in these bytes.
    fn with(&self, bytes: BytesMut) -> Self {
        Self {
            bytes: bytes.freeze(),
            front: self.front,
        }
    }

    #[inline]
    fn head(&self) -> &[u8; HEADER_BYTES] {
        self.bytes.first_chunk().expect("checked when it was decoded")
    }

    /// As it is stored.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Which delivery this is, from 1.
    #[must_use]
    #[inline]
    pub fn deliveries(&self) -> u16 {
        u16::from_le_bytes([self.head()[2], self.head()[3]])
    }

    /// How often its messages have failed.
    #[must_use]
    #[inline]
    pub fn failures(&self) -> u16 {
        u16::from_le_bytes([self.head()[4], self.head()[5]])
    }

    /// Whether it is out of the order of numbers. Such a pack never goes back into the queue: the number at the head of the
    /// queue tells the backlog.
    #[must_use]
    pub fn unordered(&self) -> bool {
        self.bytes[6] != 0
    }

    /// The number of its first message.
    #[must_use]
    #[inline]
    pub fn first(&self) -> u64 {
        u64_at(self.head(), 8)
    }

    /// The reign in which it was published.
    #[must_use]
    #[inline]
    pub fn epoch(&self) -> u64 {
        u64_at(self.head(), 16)
    }

    /// When it was published, by the store's time of day.
    #[must_use]
    #[inline]
    pub fn published_ms(&self) -> u64 {
        u64_at(self.head(), 24)
    }

    /// How many messages it has.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        u32_at(self.head(), 32) as usize
    }

    /// Whether this message is one of them.
    pub(crate) fn has(&self, number: u64) -> bool {
        number >= self.first() && number - self.first() < self.count() as u64
    }

    /// The payload of the message at `index`, sharing the pack's memory.
    ///
    /// # Panics
    /// If `index` is not below [`Pack::count`].
    #[must_use]
    #[inline]
    pub fn payload(&self, index: usize) -> Bytes {
        let place = self.payloads(index, 1);
        self.bytes.slice(place.start + self.front..place.end)
    }

    /// How many bytes the payload of the message at `index` has.
    #[inline]
    pub(crate) fn payload_bytes(&self, index: usize) -> usize {
        self.payloads(index, 1).len() - self.front
    }

    /// Whether an envelope stands before its payload.
    #[must_use]
    #[inline]
    pub fn is_enveloped(&self) -> bool {
        self.front > 0
    }

    /// The group of its message, if it belongs to one.
    #[must_use]
    #[inline]
    pub fn group(&self) -> Option<&str> {
        if !self.is_enveloped() {
            return None;
        }
        envelope::group(&self.bytes[self.payloads(0, 1)])
    }

    /// Whether its pusher asks for the outcome of its message.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.is_enveloped() && envelope::is_asked(&self.bytes[self.payloads(0, 1)])
    }

    /// The group that waits for its outcome: its message belongs to one, and has not left it to be tried again.
    #[must_use]
    pub fn holds_up(&self) -> Option<&str> {
        self.group().filter(|_| self.bytes[6] != LEFT_GROUP)
    }

    /// Whether it is put off, and has not stood in the line of its group yet.
    #[must_use]
    pub fn is_before_its_line(&self) -> bool {
        self.bytes[6] == BEFORE_LINE
    }

    /// Where the payloads of the messages `from .. from + count` are. A piece begins with the offset that it had in the whole.
    #[inline]
    fn payloads(&self, from: usize, count: usize) -> Range<usize> {
        assert!(from + count <= self.count(), "within the pack");
        let data = HEADER_BYTES + OFFSET_BYTES * (self.count() + 1);
        let offsets = &self.bytes[HEADER_BYTES..data];
        let base = u32_at(offsets, 0);
        let place = |index| data + (u32_at(offsets, OFFSET_BYTES * index) - base) as usize;
        place(from)..place(from + count)
    }

    /// What its message carries besides the payload. Most carry nothing.
    #[must_use]
    #[inline]
    pub fn envelope(&self) -> Sealed {
        if self.is_enveloped() {
            self.enveloped()
        } else {
            Sealed::default()
        }
    }

    #[cold]
    fn enveloped(&self) -> Sealed {
        let decoded = Envelope::decode(&self.bytes[self.payloads(0, 1)]);
        decoded.map_or_else(Sealed::default, |(envelope, _)| envelope.into())
    }

    /// The message at `index`.
    #[must_use]
    pub fn message(&self, index: usize) -> Message {
        Message {
            number: self.first() + index as u64,
            deliveries: self.deliveries(),
            failures: self.failures(),
            epoch: self.epoch(),
            published_ms: self.published_ms(),
            envelope: self.envelope(),
            payload: self.payload(index),
        }
    }

    /// The messages `from .. from + count` as a pack of their own.
    ///
    /// # Panics
    /// If the range is empty or not within the pack.
    #[must_use]
    pub fn piece(&self, from: usize, count: usize) -> Self {
        assert!(count > 0, "a pack has messages");
        let payloads = self.payloads(from, count);
        let mut out = BytesMut::with_capacity(HEADER_BYTES + OFFSET_BYTES * (count + 1) + payloads.len());
        out.put_slice(&self.bytes[..8]);
        out.put_u64_le(self.first() + from as u64);
        out.put_slice(&self.bytes[16..32]);
        out.put_u32_le(u32::try_from(count).expect("at most PACK_MESSAGES_MAX"));
        let offsets = HEADER_BYTES + OFFSET_BYTES * from;
        out.put_slice(&self.bytes[offsets..offsets + OFFSET_BYTES * (count + 1)]);
        out.put_slice(&self.bytes[payloads]);
        self.with(out)
    }
}

#[cfg(test)]
mod tests;
