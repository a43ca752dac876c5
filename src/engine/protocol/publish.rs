//! What a generator publishes.

use bytes::Bytes;

use super::NodeId;
use crate::message::Pack;

/// New messages of a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    pub node: NodeId,
    pub epoch: u64,
    /// How many messages generators had made before this call.
    pub made: u64,
    /// The number of the first message here.
    pub first: u64,
    /// Numbers stay below this.
    pub messages: Option<u64>,
    pub backlog_max: u64,
    /// The distance of ticks; 0 leaves the grid alone.
    pub interval_ms: u64,
    /// Kept for the next generator, in the same step; `None` leaves what is there.
    pub cursor: Option<Bytes>,
    pub packs: Vec<Pack>,
}

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// Applied, now or by an earlier copy of the same call.
    Ok {
        seq: u64,
        made: u64,
        grain: u64,
        due_in_ms: u64,
    },
    /// Not the generator of this epoch, or its lease has run out.
    Fenced,
    /// The store knows of fewer messages than this call builds on: it went back in time.
    Gap,
    /// Others took the numbers: number anew from here.
    Moved { seq: u64 },
    /// The backlog is full.
    Full,
    /// Generating is paused.
    Paused,
    /// Would pass the last number that is wanted.
    Finished,
}
