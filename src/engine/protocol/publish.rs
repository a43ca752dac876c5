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
    /// Time between two ticks; 0 leaves the grid of ticks as it is.
    pub interval_ms: u64,
    /// The generator's cursor, stored in the same step for the next generator; `None` leaves what is stored.
    pub cursor: Option<Bytes>,
    /// As in a beat.
    pub server: String,
    /// It was published before, and a failover has taken it back: it may fill the numbers that it left.
    pub again: bool,
    pub packs: Vec<Pack>,
}

impl Publish {
    /// How many messages it carries.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.packs.iter().map(|pack| pack.count() as u64).sum()
    }
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
    /// Pushes took these numbers: number the messages anew, from `seq` on.
    Moved { seq: u64 },
    /// The backlog is full.
    Full,
    /// Generating is paused.
    Paused,
    /// Would pass the last number: [`Publish::messages`].
    Finished,
    /// This is another server than before, or has started anew: it may lack the last writes, and members that saw more have not
    /// spoken to it yet. Nothing was published: publish again.
    Unheard,
}
