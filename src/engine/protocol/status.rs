//! A queue, its nodes and what they hold, at one moment.

use super::{Limits, NodeId, Paused};
use crate::engine::history::LastReport;
use crate::engine::limits::HELD_START_BYTES;
use crate::message::Pack;

/// A queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub birth: String,
    /// The store's time of day.
    pub time_ms: u64,
    /// None: nobody has the crown, or whoever has it was not heard of for longer than its lease.
    pub generator: Option<NodeId>,
    /// How long ago a generator was last heard of, by the store's time of day; none: there never was one.
    pub generator_heard_ago_ms: Option<u64>,
    pub epoch: u64,
    /// Numbers given out.
    pub published: u64,
    pub queued: u64,
    pub in_hand: u64,
    /// Put off: waiting to be tried again, or delayed.
    pub later: u64,
    pub done: u64,
    pub failed: u64,
    /// Failed messages that are kept: read by nobody yet, or being read.
    pub errors: u64,
    /// Errors that were withdrawn and put in again: done + failed + queued + in hand + later + missing = published +
    /// requeued.
    pub requeued: u64,
    pub paused: Paused,
    /// How fast messages may be taken.
    pub limits: Limits,
    /// How many cancels are pending: of messages, and of groups.
    pub cancels: u64,
    /// Errors that were removed because there were too many.
    pub trimmed: u64,
    /// How often the store was found to have gone back in time.
    pub rewinds: u64,
    /// Pieces of the queue that could not be read, since someone else wrote there, and were set aside.
    pub damaged: u64,
    /// Messages that are counted and are nowhere: they were in what could not be read, or someone has removed them. Known once
    /// nothing waits any more; until then they are among those queued.
    pub missing: u64,
    pub grain: u64,
    pub groups: GroupFigures,
    pub nodes: Vec<NodeStatus>,
    /// The shards of the queue, the home shard first; none, if it is not made of shards.
    pub shards: Vec<ShardStatus>,
}

/// A shard at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardStatus {
    pub published: u64,
    pub queued: u64,
    pub in_hand: u64,
    pub later: u64,
    pub done: u64,
    pub failed: u64,
    pub errors: u64,
    /// How many copies are alive here: fewer than in others, for a moment, after a reshard.
    pub nodes: u64,
    /// No new messages come here since a reshard: it runs empty.
    pub retired: bool,
    /// Where it is, without user or password.
    pub place: Option<String>,
    /// What is paused here.
    pub paused: Paused,
    /// The limit of the queue, if all shards have such a part of it as this one.
    pub limits: Limits,
    /// One of these is not as in the home shard: a command was stopped half-way, or this shard was away.
    pub differs: bool,
    /// More messages wait here than in the others: more than half as many again as the shards have on average, and not just a few.
    pub hot: bool,
    /// Why it does not answer. Then its messages are not among those of the queue.
    pub away: Option<String>,
}

impl ShardStatus {
    pub(in crate::engine) fn of(look: &Status, place: Option<String>) -> Self {
        Self {
            published: look.published,
            queued: look.queued,
            in_hand: look.in_hand,
            later: look.later,
            done: look.done,
            failed: look.failed,
            errors: look.errors,
            nodes: look.nodes.iter().filter(|node| node.is_alive()).count() as u64,
            retired: false,
            place,
            paused: look.paused,
            limits: look.limits,
            differs: false,
            hot: false,
            away: None,
        }
    }
}

/// What waits in groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFigures {
    /// How many groups have messages in line.
    pub groups: u64,
    /// How many messages wait in all lines: they are among those queued.
    pub messages: u64,
    /// The groups with the longest lines, the longest first.
    pub longest: Vec<(String, u64)>,
    /// The groups that are paused, by name.
    pub paused: Vec<String>,
}

impl Status {
    /// Whether messages wait, handling is not paused, and no handler is alive: a generator counts as one while it has
    /// something in hand.
    #[must_use]
    pub fn nobody_handles(&self) -> bool {
        let generates = |node: &NodeStatus| self.generator.as_ref() == Some(&node.node);
        let handles = |node: &NodeStatus| node.is_alive() && (!generates(node) || node.in_hand > 0);
        self.queued > 0 && !self.paused.handlers && !self.nodes.iter().any(handles)
    }

    /// A store keeps sums over the nodes that are gone, and numbers that belong to no message (`skipped`). This adds what the
    /// members have to these sums. A message that is neither settled nor in hand nor put off is queued, if any waits.
    pub(in crate::engine) fn with_members(mut self, skipped: u64, waits: bool) -> Self {
        for node in &self.nodes {
            self.in_hand += node.in_hand;
            self.done += node.done;
            self.failed += node.failed;
        }
        let elsewhere = skipped + self.done + self.failed + self.in_hand + self.later;
        let rest = (self.published + self.requeued).saturating_sub(elsewhere);
        (self.queued, self.missing) = if waits { (rest, 0) } else { (0, rest) };
        self
    }
}

impl NodeStatus {
    /// Whether it was heard of within its lease.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.silent_ms == 0
    }
}

/// A member at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    pub node: NodeId,
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub concurrency: u32,
    pub age_ms: u64,
    pub in_hand: u64,
    pub done: u64,
    pub failed: u64,
    /// Until its lease ends, unless it beats; by the store's time of day, since the hive clock stands still while nobody beats.
    pub lease_in_ms: u64,
    /// For how long its lease has been over, by the same time; 0: it is alive.
    pub silent_ms: u64,
    /// Its connection is seen: if it dies, that is noticed at once, and not when its lease has run out.
    pub watched: bool,
    /// It joined before the number of shards was changed, and has not followed yet.
    pub behind: bool,
    /// Its last report.
    pub report: Option<LastReport>,
}

/// A pack in a node's hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The number of its first message.
    pub first: u64,
    /// How many messages it has.
    pub count: u64,
    pub deliveries: u16,
    pub failures: u16,
    pub published_ms: u64,
    /// The beginning of the first payload.
    pub start: Vec<u8>,
}

impl Held {
    pub(crate) fn of(pack: &Pack) -> Self {
        let payload = pack.payload(0);
        Self {
            first: pack.first(),
            count: pack.count() as u64,
            deliveries: pack.deliveries(),
            failures: pack.failures(),
            published_ms: pack.published_ms(),
            start: payload[..payload.len().min(HELD_START_BYTES)].to_vec(),
        }
    }
}
