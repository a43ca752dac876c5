//! What becomes of a pack: delivered once more, failed, put off.

use bytes::BytesMut;

use super::Pack;

/// How a pack stands to the order of numbers.
const ORDERED: u8 = 0;
const UNORDERED: u8 = 1;
/// Put off, and its group goes on without it.
pub(super) const LEFT_GROUP: u8 = 2;
/// Put off, and not in the line of its group yet.
pub(super) const BEFORE_LINE: u8 = 3;

impl Pack {
    /// The same messages, delivered once more.
    #[must_use]
    pub fn next_attempt(&self) -> Self {
        let mut out = BytesMut::from(&self.bytes[..]);
        out[2..4].copy_from_slice(&self.deliveries().saturating_add(1).to_le_bytes());
        self.with(out)
    }

    /// The same messages, marked as out of the order of numbers.
    #[must_use]
    pub fn marked_unordered(&self) -> Self {
        self.marked(UNORDERED)
    }

    /// The same messages, put off without a failure.
    #[must_use]
    pub fn put_off(&self) -> Self {
        self.marked(self.bytes[6].max(UNORDERED))
    }

    /// The same message, which its group does not wait for any more.
    #[must_use]
    pub fn marked_left(&self) -> Self {
        self.marked(LEFT_GROUP)
    }

    /// The same message, to be put into the line of its group when it is due.
    #[must_use]
    pub fn marked_before_line(&self) -> Self {
        self.marked(BEFORE_LINE)
    }

    /// The same message, as it stands in the line of its group.
    #[must_use]
    pub fn in_line(&self) -> Self {
        self.marked(ORDERED)
    }

    fn marked(&self, mark: u8) -> Self {
        let mut out = BytesMut::from(&self.bytes[..]);
        out[6] = mark;
        self.with(out)
    }

    /// The same messages, failed once more.
    #[must_use]
    pub fn next_failure(&self) -> Self {
        let mut out = BytesMut::from(&self.bytes[..]);
        out[4..6].copy_from_slice(&self.failures().saturating_add(1).to_le_bytes());
        out[6] = out[6].max(UNORDERED);
        self.with(out)
    }
}
