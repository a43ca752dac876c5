//! The words of the protocol: what each verb is given, and what it answers. One file per group of verbs, as in `rules`.

mod ending;
mod errors;
mod exchange;
mod manage;
mod membership;
mod publish;
mod push;
mod status;

use std::sync::Arc;

pub use crate::settings::{Limits, Rate};

pub use ending::{Ended, Ending, Found};
pub use errors::{Collect, Collected, Failed, Requeued};
pub use exchange::{Chained, Exchange, Exchanged, Link, Run, Settle};
pub use manage::{Cancelled, CancelledGroup, Handover, Paused, PausedGroup, Purged, Resharded};
pub use membership::{Beat, Join, Joined, Member, NodeId, Reap, Reaped, Renewed, Seen};
pub use publish::{Publish, Published};
pub use push::{Item, Push, Pushed, Receipt};
pub use status::{GroupFigures, Held, NodeStatus, ShardStatus, Status};

/// A call whose writes replicas may lack yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Where the call left its mark.
    pub key: Arc<str>,
    /// The number that it left there.
    pub number: u64,
    /// The history of writes of which the call became part; empty, if the store does not tell.
    pub history: Arc<str>,
    /// Little waits for it: others may be asked for first.
    pub at_leisure: bool,
}

/// What one can wait for without asking again and again. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Work waits.
    Bell = 0,
    /// The crown was given up.
    Crown = 1,
}
