//! What a handler settles and takes.

use super::NodeId;
use crate::message::{Outcome, Pack};

/// Settles what is finished, and takes what comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    pub node: NodeId,
    pub lane: u32,
    /// One more than the last call of this lane that was answered.
    pub call: u64,
    pub settles: Vec<Settle>,
    /// How many messages to take at most. A repeat of the call that wants none gives back what the call had taken, and whose
    /// answer did not arrive.
    pub want: u32,
    /// How many bytes to take at most, but one message in any case: what the caller's link brings in good time.
    pub want_bytes: u32,
    /// The bell woke the caller: if work is left, the store rings again for the next handler.
    pub woken: bool,
    /// For effects that publish: how many messages may wait then, and the server as in a beat.
    pub backlog_max: u64,
    pub server: String,
}

impl Exchange {
    /// Whether one of its effects publishes.
    #[must_use]
    pub fn publishes(&self) -> bool {
        let runs = self.settles.iter().flat_map(|settle| &settle.runs);
        runs.into_iter().any(|run| run.outcome.publishes())
    }
}

/// What became of a pack in hand: runs of its messages, ascending. Messages that no run names stay in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The first number of the pack in hand.
    pub piece: u64,
    pub runs: Vec<Run>,
}

/// Consecutive messages of a pack in hand that ended alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Index of the first of them within the pack.
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
        /// What its effects published.
        chained: Chained,
        /// A limit kept back some of what was wanted: in so many milliseconds there is more.
        wait_ms: Option<u64>,
        /// Messages of these packs that are cancelled: they are to be settled as errors, and no handler is to see them.
        cancelled: Vec<u64>,
    },
    /// The node was given up, or the store went back in time. Nothing was written.
    Deposed,
    /// An old copy of a call that was answered long ago. Nothing was written.
    Stale,
    /// Names something that this node does not hold. Nothing was written.
    Unheld,
    /// Its effects publish, and members may have seen more numbers than this server knows of: see [`Published::Unheard`]. Nothing was
    /// settled or taken: make the same call again.
    ///
    /// [`Published::Unheard`]: super::Published::Unheard
    Unheard,
}

/// What the effects of an exchange published.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chained {
    /// In which epoch, if anything was.
    pub epoch: u64,
    pub links: Vec<Link>,
    /// Messages whose effects publish more than the backlog has room for: nothing of them was applied, and they are put off for
    /// [`CROWDED_MS`](crate::engine::CROWDED_MS).
    pub crowded: Vec<u64>,
}

impl Chained {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.crowded.is_empty()
    }

    /// How many messages were published.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.links.iter().map(|link| link.count).sum()
    }
}

/// What the effects of one message published: numbers in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The message that is done.
    pub cause: u64,
    pub first: u64,
    pub count: u64,
}
