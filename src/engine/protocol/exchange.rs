//! What a handler settles and takes.

use super::NodeId;
use crate::message::{Outcome, Pack};

/// What is finished goes in, what comes next comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub node: NodeId,
    pub lane: u32,
    /// One more than the last call of this lane that was answered.
    pub call: u64,
    pub settles: Vec<Settle>,
    /// How many messages to take at most.
    pub want: u32,
    /// The bell led here: ring for the next one if work is left.
    pub woken: bool,
}

/// Runs of one held piece, ascending; what is not named is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The first number of the held piece.
    pub piece: u64,
    pub runs: Vec<Run>,
}

/// A part of a held pack, with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Index within the piece.
    pub from: u32,
    pub count: u32,
    pub outcome: Outcome,
}

/// The answer to an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchanged {
    /// Applied, now or by an earlier copy of the same call.
    Ok {
        packs: Vec<Pack>,
        /// Messages whose effects were refused, and why: they became errors.
        refused: Vec<(u64, String)>,
    },
    /// The node was given up, or the store went back in time. Nothing was written.
    Deposed,
    /// An old copy of a call that was answered long ago. Nothing was written.
    Stale,
    /// Names something that this node does not hold. Nothing was written.
    Unheld,
}
