//! How packs are made.

use bytes::{BufMut as _, BytesMut};

use super::{ENVELOPED, HEADER_BYTES, OFFSET_BYTES, PACK_BYTES_MAX, PACK_MESSAGES_MAX, Pack, VERSION};
use crate::message::Envelope;

/// Collects payloads into a pack.
#[derive(Debug, Default)]
pub struct PackBuilder {
    count: usize,
    /// As they are stored.
    offsets: Vec<u8>,
    payloads: Vec<u8>,
}

impl PackBuilder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether nothing was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one more payload of this size still belongs into the pack.
    #[must_use]
    #[inline]
    pub fn has_room(&self, payload_bytes: usize) -> bool {
        self.is_empty() || (self.count() < PACK_MESSAGES_MAX && self.payloads.len() + payload_bytes <= PACK_BYTES_MAX)
    }

    /// Adds a message.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) {
        let offset = u32::try_from(self.payloads.len()).expect("bounded by has_room");
        self.offsets.extend_from_slice(&offset.to_le_bytes());
        self.payloads.extend_from_slice(payload);
        self.count += 1;
    }

    /// Forgets what was pushed.
    pub fn clear(&mut self) {
        self.count = 0;
        self.offsets.clear();
        self.payloads.clear();
    }

    /// The pack, at its first deliveries; the builder is empty again and keeps its memory.
    ///
    /// # Panics
    /// If nothing was pushed.
    pub fn build(&mut self, first: u64, epoch: u64, published_ms: u64) -> Pack {
        assert!(!self.is_empty(), "a pack has messages");
        let count = self.count;
        let mut out = BytesMut::with_capacity(HEADER_BYTES + OFFSET_BYTES * (count + 1) + self.payloads.len());
        out.put_slice(&[VERSION, 0]);
        out.put_u16_le(1);
        out.put_u32_le(0);
        out.put_u64_le(first);
        out.put_u64_le(epoch);
        out.put_u64_le(published_ms);
        out.put_u32_le(u32::try_from(count).expect("at most PACK_MESSAGES_MAX"));
        out.put_slice(&self.offsets);
        out.put_u32_le(u32::try_from(self.payloads.len()).expect("bounded by has_room"));
        out.put_slice(&self.payloads);
        self.clear();
        Pack {
            bytes: out.freeze(),
            front: 0,
        }
    }
}

impl Pack {
    /// A message with an envelope, at its first delivery: a pack of its own. Without anything in the envelope it is one like any other.
    #[must_use]
    pub fn of_one(envelope: &Envelope, payload: &[u8], first: u64, epoch: u64, published_ms: u64) -> Self {
        let mut builder = PackBuilder::new();
        if envelope.is_empty() {
            builder.push(payload);
            return builder.build(first, epoch, published_ms);
        }
        let front = envelope.encode();
        builder.push(&[&front[..], payload].concat());
        let mut out = BytesMut::from(&builder.build(first, epoch, published_ms).bytes[..]);
        out[0] = ENVELOPED;
        Self {
            bytes: out.freeze(),
            front: front.len(),
        }
    }
}
