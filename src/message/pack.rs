//! Packs: how messages are stored and moved, many at a time.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::Message;
use crate::error::{Error, Result};

/// The most messages one pack holds.
pub const PACK_MESSAGES_MAX: usize = 1000;
/// A pack of several messages holds at most this much payload: splitting one copies its bytes.
pub const PACK_BYTES_MAX: usize = 64 * 1024;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 36;
const OFFSET_BYTES: usize = 4;

/// A run of consecutive messages, stored and moved as one piece.
///
/// Little-endian: version u8, flags u8, deliveries u16, failures u16, unordered u16, first number u64, epoch u64,
/// published-at u64, count u32, then count + 1 offsets u32 and the payloads. The offsets of a piece are those of
/// the pack that it was cut from, so that cutting copies bytes and computes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    bytes: Bytes,
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
        if bytes[0] != VERSION || bytes[1] != 0 {
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
        Ok(Self { bytes })
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

    /// The payload of the message at `index`, sharing the pack's memory.
    ///
    /// # Panics
    /// If `index` is not below [`Pack::count`].
    #[must_use]
    #[inline]
    pub fn payload(&self, index: usize) -> Bytes {
        self.bytes.slice(self.payloads(index, 1))
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

    /// The message at `index`.
    #[must_use]
    pub fn message(&self, index: usize) -> Message {
        Message {
            number: self.first() + index as u64,
            deliveries: self.deliveries(),
            failures: self.failures(),
            epoch: self.epoch(),
            published_ms: self.published_ms(),
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
        Self { bytes: out.freeze() }
    }

    /// The same messages, delivered once more.
    #[must_use]
    pub fn next_attempt(&self) -> Self {
        let mut out = BytesMut::from(&self.bytes[..]);
        out[2..4].copy_from_slice(&self.deliveries().saturating_add(1).to_le_bytes());
        Self { bytes: out.freeze() }
    }

    /// The same messages, marked as out of the order of numbers.
    #[must_use]
    pub fn marked_unordered(&self) -> Self {
        let mut out = BytesMut::from(&self.bytes[..]);
        out[6] = 1;
        Self { bytes: out.freeze() }
    }

    /// The same messages, failed once more.
    #[must_use]
    pub fn next_failure(&self) -> Self {
        let mut out = BytesMut::from(&self.bytes[..]);
        out[4..6].copy_from_slice(&self.failures().saturating_add(1).to_le_bytes());
        out[6] = 1;
        Self { bytes: out.freeze() }
    }
}

/// Collects payloads into a pack.
#[derive(Debug, Default)]
pub struct PackBuilder {
    /// As they are stored.
    offsets: Vec<[u8; OFFSET_BYTES]>,
    /// The payloads, in the first `used` bytes of a buffer that only grows: bytes are copied into it without a call that may or may not be
    /// inlined, depending on how the compiler has cut this crate into units.
    payloads: Vec<u8>,
    used: usize,
}

impl PackBuilder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages it has.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.offsets.len()
    }

    /// Whether nothing was added yet.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Whether one more payload of this size still belongs into the pack.
    #[must_use]
    #[inline]
    pub fn has_room(&self, payload_bytes: usize) -> bool {
        self.is_empty() || (self.count() < PACK_MESSAGES_MAX && self.used + payload_bytes <= PACK_BYTES_MAX)
    }

    /// Adds a message.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) {
        let offset = u32::try_from(self.used).expect("bounded by has_room");
        let end = self.used + payload.len();
        if end > self.payloads.len() {
            self.grow(end);
        }
        self.payloads[self.used..end].copy_from_slice(payload);
        self.used = end;
        self.offsets.push(offset.to_le_bytes());
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        self.payloads.resize(least.max(2 * self.payloads.len()), 0);
    }

    /// Forgets what was pushed.
    pub fn clear(&mut self) {
        self.offsets.clear();
        self.used = 0;
    }

    /// The pack, at its first deliveries; the builder is empty again and keeps its memory.
    ///
    /// # Panics
    /// If nothing was pushed.
    pub fn build(&mut self, first: u64, epoch: u64, published_ms: u64) -> Pack {
        assert!(!self.is_empty(), "a pack has messages");
        let (count, payloads) = (self.count(), &self.payloads[..self.used]);
        let mut out = BytesMut::with_capacity(HEADER_BYTES + OFFSET_BYTES * (count + 1) + payloads.len());
        out.put_slice(&[VERSION, 0]);
        out.put_u16_le(1);
        out.put_u32_le(0);
        out.put_u64_le(first);
        out.put_u64_le(epoch);
        out.put_u64_le(published_ms);
        out.put_u32_le(u32::try_from(count).expect("at most PACK_MESSAGES_MAX"));
        out.put_slice(self.offsets.as_flattened());
        out.put_u32_le(u32::try_from(payloads.len()).expect("bounded by has_room"));
        out.put_slice(payloads);
        self.clear();
        Pack { bytes: out.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(payloads: &[&[u8]]) -> Pack {
        let mut builder = PackBuilder::new();
        for payload in payloads {
            builder.push(payload);
        }
        builder.build(7, 3, 99)
    }

    #[test]
    fn a_piece_of_a_piece_still_finds_its_payloads() {
        let whole = pack(&[b"a", b"", b"ccc", b"dd", b"e"]);
        let tail = whole.piece(1, 4);
        let middle = tail.piece(1, 2);
        assert_eq!(middle.first(), 9);
        assert_eq!(middle.payload(0), "ccc");
        assert_eq!(middle.payload(1), "dd");
        assert_eq!(Pack::decode(middle.bytes().clone()).unwrap(), middle);
        assert_eq!(whole.piece(0, 5), whole);
    }

    #[test]
    fn a_piece_from_behind_a_large_payload_can_be_read() {
        let tail = pack(&[&[0; 5000], b"last"]).piece(1, 1);
        assert_eq!(Pack::decode(tail.bytes().clone()).unwrap().payload(0), "last");
        assert_eq!(tail.piece(0, 1), tail);
    }

    #[test]
    fn the_next_attempt_changes_nothing_else() {
        let whole = pack(&[b"a", b"b"]);
        let again = whole.next_attempt();
        assert_eq!(again.deliveries(), 2);
        assert_eq!(again.message(1).payload, "b");
        assert_eq!(again.epoch(), 3);
        assert_eq!(again.published_ms(), 99);
        assert_eq!(
            (again.next_failure().deliveries(), again.next_failure().failures()),
            (2, 1)
        );
        assert_eq!(again.next_failure().message(1).payload, "b");
    }

    #[test]
    fn broken_bytes_are_refused_at_every_length_and_never_panic() {
        let whole = pack(&[b"hello", b"world"]);
        for end in 0..whole.bytes().len() {
            assert!(Pack::decode(whole.bytes().slice(..end)).is_err(), "{end}");
        }
        for i in 0..whole.bytes().len() {
            for bit in 0..8 {
                let mut bytes = whole.bytes().to_vec();
                bytes[i] ^= 1 << bit;
                if let Ok(pack) = Pack::decode(bytes.into()) {
                    for index in 0..pack.count() {
                        let _ = pack.message(index);
                    }
                }
            }
        }
    }
}
