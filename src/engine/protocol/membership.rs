//! Membership and leader election: join, beat, leave, reap.

use bytes::Bytes;

use super::Paused;
use crate::message::Cancels;

/// A running process, under the id of its present membership. Random, and never used twice.
pub type NodeId = String;

/// What a node has seen of the queue, so that a store which went back in time is noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub birth: String,
    pub seq: u64,
    pub epoch: u64,
    /// How many messages generators have made. Pushes do not move it, and so cannot hide that it went back.
    pub made: u64,
}

/// Asks to become a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    pub node: NodeId,
    /// How many lanes the node will use, numbered from 0.
    pub lanes: u32,
    pub lease_ms: u64,
    pub seen: Seen,
    /// Random, and the same in every copy of this join: the birth id, if it creates the queue; and what tells a repeat from
    /// another node that has drawn the same id.
    pub token: String,
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub concurrency: u32,
    /// A message that this node takes for the so many-th time, and gets no outcome from it, becomes an error.
    pub deliveries_max: u16,
    /// How many messages of one group may be in flight at once. What the last node that joined has set counts for all.
    pub group_concurrency: u32,
    /// A message that is put off leaves its group, which goes on without it. As above.
    pub group_skip_retries: bool,
}

/// The answer to a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// A member.
    Ok {
        birth: String,
        /// The store had gone back in time behind what this node has seen, and was raised to that: it lacked so many numbers.
        rewound: Option<u64>,
        /// The queue that this node knew was removed on purpose: nothing that it has seen holds any more.
        purged: bool,
    },
    /// Another node has this id: join again under a new one. Nothing was written.
    Taken,
}

/// Says that a member is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    pub node: NodeId,
    pub lease_ms: u64,
    pub crown_ms: u64,
    /// Whether this node may be the generator. A generator that may not be one any more resigns with this.
    pub eligible: bool,
    /// How much it would like to be the generator: a node of a higher rank takes the crown from one of a lower rank.
    pub rank: u8,
    pub seen: Seen,
    /// Which run of which server this is sent to; empty: the engine finds out, if it can.
    pub server: String,
    /// The last epoch in which this process was the generator; 0: none.
    pub reigned: u64,
    /// As generator it keeps what replicas may lack, below this number, and publishes it again if a failover loses it. None: it keeps
    /// nothing.
    pub replays: Option<u64>,
    /// A generator whose connection this node has seen, and sees no more: it may have died, and the store looks itself. Empty: none.
    pub gone: NodeId,
    /// Takes the crown of a shard in which nobody is elected: the epoch in which this node was elected in the home shard; 0: none. Only
    /// an epoch that is higher than all before takes it.
    pub claims: u64,
}

/// The answer to a beat.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every beat is answered by it")]
pub enum Renewed {
    /// A member, whose lease was renewed.
    Alive(Member),
    /// Not a member (any more): join again under a new id. Nothing was written.
    Deposed,
}

/// What a beat tells a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub generator: bool,
    pub epoch: u64,
    /// The next number.
    pub seq: u64,
    /// How many messages generators have made.
    pub made: u64,
    /// Packs are to be cut to this many messages. Only a generator is told.
    pub grain: u64,
    /// Until the next tick of the grid. Only a generator is told, and heirs, who look more closely then.
    pub due_in_ms: u64,
    /// Until the crown's lease ends, unless it is renewed.
    pub crown_in_ms: u64,
    /// Whether this node is among the few who watch the crown closely.
    pub heir: bool,
    /// How many heirs come before this one.
    pub before: u64,
    /// Who has the crown; empty: nobody.
    pub crowned: NodeId,
    /// The store's wall clock, for time stamps only.
    pub wall_ms: u64,
    /// A node that this member is to reap. Only the generator is told one, or any member while there is no generator.
    pub victim: Option<NodeId>,
    /// The cursor that the last generator left. Only a generator that does not know of this reign yet is told.
    pub cursor: Option<Bytes>,
    /// How many messages had been made when the reign began that followed [`Beat::reigned`]. Told together with the cursor, if
    /// it is still known.
    pub made_before: Option<u64>,
    pub paused: Paused,
    /// More messages are due than one beat moves: beat again at once.
    pub more_due: bool,
    /// The store had gone back in time behind what this node has seen, and was raised to that: it lacked so many numbers.
    pub rewound: Option<u64>,
    /// How many pieces of the queue could not be read so far. Told to those who may be told of a victim.
    pub damaged: Option<u64>,
    /// What is cancelled: of what the node has in hand, handlers are to be told.
    pub cancels: Cancels,
    /// A key of the queue in whose place someone else has put something of another type.
    pub wrong: Option<String>,
    /// The line of names and shards of the queue, if the number of shards was changed since this node opened it: it is not crowned before it has opened
    /// the queue anew.
    pub resharded: Option<String>,
}

/// Names a node that is to be given up if its lease has run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reap {
    pub victim: NodeId,
    /// Its connection was seen, and is seen no more: then its lease may still run. The store looks itself.
    pub gone: bool,
}

impl Reap {
    /// Of a node whose lease has run out.
    #[must_use]
    pub fn of(victim: &str) -> Self {
        Self {
            victim: victim.into(),
            gone: false,
        }
    }
}

/// The answer to a reap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Messages that were handed on.
    pub redelivered: u64,
    /// Messages that had been delivered too often and became errors.
    pub failed: u64,
    /// Whether the victim still holds more.
    pub more: bool,
    /// Whether this very call ended its membership.
    pub deposed: bool,
}
