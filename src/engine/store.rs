//! What the rules need of a place that keeps a queue: plain reads and writes, inside one step (a lock, a transaction) that the
//! caller has opened.
//!
//! [`Store`] is the sum of small traits, one for each group of things that are kept.

mod cancels;
mod endings;
mod groups;
mod limit;

use std::collections::BTreeMap;

use super::history::{Bucket, Crowned, LastReport, Range};
use super::limits::GRAIN_START;
use super::{Chained, Failed, LAYOUT, NodeId, Paused, Receipt, Wake};
use crate::error::Result;
use crate::message::{Effect, Pack};
use crate::settings::Names;

pub use cancels::Kept;
pub use endings::{Asked, Endings, Waits};
pub use groups::{GroupRules, Groups, Turn};
pub use limit::Gate;

/// What a queue knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// Random, made when the queue was created.
    pub birth: String,
    pub layout: u64,
    /// The key names that the queue was created with.
    pub names: String,
    /// The hive clock, and the wall clock when it was last moved.
    pub clock: u64,
    pub wall: u64,
    /// The furthest that one look may move the hive clock, as the leases of the generator and of all members allow.
    pub step: u64,
    /// How far each member would let it move.
    pub steps: StepCounts,
    /// Empty: nobody.
    pub generator: NodeId,
    pub epoch: u64,
    /// When the crown's lease ends.
    pub crown: u64,
    pub heirs: Vec<NodeId>,
    /// The next number.
    pub seq: u64,
    /// How many messages generators have made.
    pub made: u64,
    /// The next tick of the grid.
    pub due: u64,
    pub grain: u64,
    /// Whether `again` may hold something.
    pub again: bool,
    /// The number at the head of the queue when it was last looked up.
    pub head: u64,
    /// Settled by nodes that have left. The same in the next one.
    pub done: u64,
    pub failed: u64,
    pub requeued: u64,
    /// How often the store was found to have gone back in time.
    pub rewinds: u64,
    pub paused: Paused,
    /// When a generator last beat, by the time of day.
    pub ruled: u64,
    /// Who is to be crowned next: a node, `*` for any other than the generator, or nobody.
    pub chosen: String,
    /// How much the generator likes to be one.
    pub rank: u64,
    /// Numbers that were raised over, and belong to no message.
    pub skipped: u64,
    /// Errors that were removed because there were too many.
    pub trimmed: u64,
    /// Until then, on the hive clock, no other node begins to empty its hand for a message on its last delivery.
    pub clearing: u64,
    /// Which run of which server members last spoke to; empty: it is not known.
    pub server: String,
    /// For how long pushes have waited for members to speak to it, and the time of day when that was last counted.
    pub waited: u64,
    pub waited_at: u64,
    /// How fast messages may be taken, if that is limited or groups still rest by a limit that was.
    pub limit: Option<Gate>,
    /// Messages that are to end as errors when they are taken.
    pub cancels: Kept,
}

impl Meta {
    /// Of a queue that is created now.
    #[must_use]
    pub fn new(names: &Names, birth: &str, wall_ms: u64, step_ms: u64) -> Self {
        Self {
            birth: birth.to_string(),
            layout: LAYOUT,
            names: names.line(),
            wall: wall_ms,
            step: step_ms,
            grain: GRAIN_START,
            ..Self::default()
        }
    }

    /// The same, of a shard whose numbers begin here: the ones below belong to others, and to no message of its own.
    #[must_use]
    pub fn from(self, first_number: u64) -> Self {
        Self {
            seq: first_number,
            head: first_number,
            skipped: first_number,
            ..self
        }
    }
}

/// What a generator that waits for replicas may publish again after a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replay {
    /// The epoch of the generator that keeps what replicas may lack; 0: nobody does.
    pub epoch: u64,
    /// Others have seen numbers from the first on and below the second, which this store lacks: it may fill them.
    pub hole: Option<(u64, u64)>,
}

/// How many members let one look move the hive clock by how much: a third of a lease. A member beats four times in it, so its
/// beats alone keep the clock going, and after a pause of the store it has time to come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepCounts(BTreeMap<u64, u64>);

impl StepCounts {
    /// Of a member with this lease.
    #[must_use]
    pub fn of(lease_ms: u64) -> u64 {
        lease_ms / 3
    }

    pub(super) fn add(&mut self, step: u64) {
        *self.0.entry(step).or_default() += 1;
    }

    pub(super) fn remove(&mut self, step: u64) {
        if let Some(members) = self.0.get_mut(&step) {
            *members -= 1;
            self.0.retain(|_, members| *members > 0);
        }
    }

    /// The longest lease of a member, to a few milliseconds; 0: there are no members.
    pub(super) fn longest_lease_ms(&self) -> u64 {
        self.0.keys().next_back().map_or(0, |step| 3 * (step + 1))
    }

    /// `None`: there are no members.
    pub(super) fn least(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    /// As it is stored: `66=1 666=3`.
    #[must_use]
    pub fn line(&self) -> String {
        let each = self.0.iter().map(|(step, members)| format!("{step}={members}"));
        each.collect::<Vec<_>>().join(" ")
    }

    /// From what is stored.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let each = line.split_whitespace().filter_map(|each| each.split_once('='));
        Self(
            each.filter_map(|(step, members)| Some((step.parse().ok()?, members.parse().ok()?)))
                .collect(),
        )
    }
}

/// What is kept of a node besides its lanes and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub concurrency: u32,
    pub deliveries_max: u16,
    /// Of how many reshards of its shard it knew when it joined.
    pub reshards: u32,
    /// On the hive clock.
    pub joined: u64,
    /// What tells a repeat of its join.
    pub token: String,
    /// How far it lets one look move the hive clock.
    pub step: u64,
    /// Messages in hand on the delivery before their last one.
    pub suspects: u64,
    /// [`About::CLEARS`] or [`About::ALONE`], mostly neither.
    pub alone: u64,
    /// Once deposed: how many messages are still to be handed on.
    pub held: Option<u64>,
}

/// How often a message was delivered, beside how often it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// As good as new.
    Early,
    /// The one before the last.
    Suspect,
    /// If the node dies with it, it becomes an error.
    Last,
}

impl About {
    /// The node takes nothing until its hand is empty: then it gets a message on its last delivery.
    pub const CLEARS: u64 = 1;
    /// It holds one, and nothing else.
    pub const ALONE: u64 = 2;

    /// What it means for this node to take a pack.
    pub(super) fn delivery(&self, pack: &Pack) -> Delivery {
        match pack.deliveries() {
            1 => Delivery::Early,
            deliveries if deliveries >= self.deliveries_max => Delivery::Last,
            deliveries if deliveries + 1 == self.deliveries_max => Delivery::Suspect,
            _ => Delivery::Early,
        }
    }

    /// Counts what the node takes into its hand.
    pub(super) fn took(&mut self, pack: &Pack) {
        match self.delivery(pack) {
            Delivery::Early => {}
            Delivery::Suspect => self.suspects += pack.count() as u64,
            Delivery::Last => self.alone = Self::ALONE,
        }
    }

    /// Counts what leaves its hand: so many messages of this pack.
    pub(super) fn gave(&mut self, pack: &Pack, count: u64) {
        match self.delivery(pack) {
            Delivery::Suspect => self.suspects = self.suspects.saturating_sub(count),
            Delivery::Last if count > 0 => self.alone = 0,
            Delivery::Early | Delivery::Last => {}
        }
    }
}

/// The last call of a lane, with its answer, and the lane's counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    pub call: u64,
    pub done: u64,
    pub failed: u64,
    /// Messages taken less messages settled: below zero if this lane settles what other lanes of the node took.
    pub held: i64,
    /// The first numbers of the packs in the answer.
    pub pieces: Vec<u64>,
    pub refused: Vec<(u64, String)>,
    pub chained: Chained,
}

/// Who holds a lease. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lessee {
    Node = 0,
    Reader = 1,
}

/// Where packs wait. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Queue = 0,
    Again = 1,
}

/// What a key that effects write to holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Value,
    Hash,
    List,
}

/// A place that keeps a queue.
pub trait Store: Leases + Nodes + Lines + Groups + Pushes + Endings + Errors + Reports + Effects {
    fn queue_name(&self) -> &str;
    fn names(&self) -> &Names;

    /// The number of the first message of a queue that is created here.
    fn first_number(&self) -> u64 {
        super::sharded::first_number(self.names().shard as usize)
    }

    /// Always true, but for the guard that a test has taken out.
    fn guard(&self, _name: &str) -> bool {
        true
    }

    /// The time of day, for people, where the clock that leases run on is another.
    fn time_ms(&self, wall_ms: u64) -> u64 {
        wall_ms
    }

    /// How much time has passed between two looks at the wall clock, as far as that can be told.
    fn passed_ms(&self, before_ms: u64, wall_ms: u64) -> u64 {
        wall_ms.saturating_sub(before_ms)
    }

    fn meta(&mut self) -> Result<Option<Meta>>;
    fn set_meta(&mut self, meta: &Meta) -> Result<()>;

    /// What the last generator left for the next one.
    fn cursor(&mut self) -> Result<Vec<u8>>;
    fn set_cursor(&mut self, cursor: &[u8]) -> Result<()>;

    fn ring(&mut self, wake: Wake) -> Result<()>;

    /// Whether a connection shows that this node is there; if it cannot be told, one may.
    fn is_connected(&mut self, _node: &str) -> Result<bool> {
        Ok(true)
    }

    /// How many pieces could not be read and were set aside.
    fn damaged_count(&mut self) -> Result<u64>;

    /// Every message without an outcome, as runs of numbers (first, count), sorted. Reads the whole queue.
    fn unsettled(&mut self) -> Result<Vec<(u64, u64)>>;

    /// Removes everything of the queue but what effects wrote, and what is remembered of removed queues.
    fn purge(&mut self) -> Result<()>;

    /// The birth ids of the last queues of this name that were removed under their members, the newest first, and until when
    /// that is remembered.
    fn purged(&mut self) -> Result<(u64, Vec<String>)>;
    fn set_purged(&mut self, until_ms: u64, births: &[String]) -> Result<()>;

    /// Members that have not spoken to this server yet.
    fn unheard(&mut self) -> Result<Vec<NodeId>>;
    fn set_unheard(&mut self, nodes: &[NodeId]) -> Result<()>;

    /// What may be published again; nothing, in a store that has no replicas.
    fn replay(&mut self) -> Result<Replay> {
        Ok(Replay::default())
    }
    fn set_replay(&mut self, _: Replay) -> Result<()> {
        Ok(())
    }
}

/// The leases of nodes and of readers of errors.
pub trait Leases {
    /// When it ends, on the hive clock.
    fn lease(&mut self, lessee: Lessee, name: &str) -> Result<Option<u64>>;
    fn set_lease(&mut self, lessee: Lessee, name: &str, until: u64) -> Result<()>;
    fn end_lease(&mut self, lessee: Lessee, name: &str) -> Result<()>;
    /// All leases, in the order in which they end; of two that end together, by name.
    fn leases(&mut self, lessee: Lessee) -> Result<Vec<(String, u64)>>;
    /// The first of them.
    fn first_lease(&mut self, lessee: Lessee) -> Result<Option<(String, u64)>>;
}

/// What is kept of each node: who it is, its lanes, and the packs in its hand.
pub trait Nodes {
    /// Deposed or departed nodes that still hold something, in that order.
    fn dead(&mut self) -> Result<Vec<NodeId>>;
    fn add_dead(&mut self, node: &str) -> Result<()>;
    fn remove_dead(&mut self, node: &str) -> Result<()>;

    fn about(&mut self, node: &str) -> Result<Option<About>>;
    fn set_about(&mut self, node: &str, about: &About) -> Result<()>;
    /// Forgets a node, its lanes and its pieces.
    fn forget(&mut self, node: &str) -> Result<()>;

    fn lane(&mut self, node: &str, lane: u32) -> Result<Option<Lane>>;
    fn set_lane(&mut self, node: &str, lane: u32, record: &Lane) -> Result<()>;
    fn lanes(&mut self, node: &str) -> Result<Vec<Lane>>;
    fn close_lanes(&mut self, node: &str) -> Result<()>;

    /// The pack in a node's hand that begins with this number.
    fn piece(&mut self, node: &str, first: u64) -> Result<Option<Pack>>;
    /// The pack in its hand that begins with this number, or with the next one below.
    fn piece_from(&mut self, node: &str, number: u64) -> Result<Option<Pack>>;
    fn put_piece(&mut self, node: &str, pack: &Pack) -> Result<()>;
    fn remove_piece(&mut self, node: &str, first: u64) -> Result<()>;
    /// What a node has in hand, the smallest numbers first: as much as has `bytes_max` together, one piece at least.
    fn pieces(&mut self, node: &str, limit: usize, bytes_max: usize) -> Result<Vec<Pack>>;
}

/// The packs that wait: in the queue, to be taken again, or put off until a time.
pub trait Lines {
    fn front(&mut self, line: Line) -> Result<Option<Pack>>;
    fn pop(&mut self, line: Line) -> Result<Option<Pack>>;
    fn push_front(&mut self, line: Line, pack: &Pack) -> Result<()>;
    fn push_back(&mut self, line: Line, pack: &Pack) -> Result<()>;
    fn is_empty(&mut self, line: Line) -> Result<bool>;

    /// Puts a message off until `due_ms`, by the time of day.
    fn put_off(&mut self, due_ms: u64, message: &Pack) -> Result<()>;
    /// Takes out the first that was put off until then or earlier: the earliest, of two at the same time by number.
    fn pop_due(&mut self, until_ms: u64) -> Result<Option<Pack>>;
    /// When the last of those is due that are put off.
    fn last_due(&mut self) -> Result<Option<u64>>;
    /// How many messages are put off.
    fn later_count(&mut self) -> Result<u64>;
}

/// What was answered to pushes, so that a repeat is applied once.
pub trait Pushes {
    /// What was answered to a key or a call of a push, and until when that is remembered.
    fn once(&mut self, name: &str) -> Result<Option<(u64, Vec<Receipt>)>>;
    fn set_once(&mut self, name: &str, until_ms: u64, receipts: &[Receipt]) -> Result<()>;
    /// Forgets some of those whose time has passed: the earliest first, of two at the same time by name.
    fn forget_once(&mut self, now_ms: u64, limit: usize) -> Result<()>;
}

/// The failed messages, and what their readers are printing.
pub trait Errors {
    fn add_failed(&mut self, failed: &Failed) -> Result<()>;
    fn remove_failed(&mut self, number: u64) -> Result<()>;
    /// The numbers from `from` on and below `below`.
    fn failed_numbers(&mut self, from: u64, below: u64, limit: usize) -> Result<Vec<u64>>;
    /// By number, from `from` on and below `below`: as many as have records of `bytes_max` together, one at least.
    fn failed_between(&mut self, from: u64, below: u64, limit: usize, bytes_max: usize) -> Result<Vec<Failed>>;
    /// The same below `below`, the largest first.
    fn failed_below(&mut self, below: u64, limit: usize, bytes_max: usize) -> Result<Vec<Failed>>;
    fn failed_count(&mut self) -> Result<u64>;

    /// What a reader is printing, and the call that gave it that.
    fn reading(&mut self, reader: &str) -> Result<Option<(u64, Vec<Failed>)>>;
    fn set_reading(&mut self, reader: &str, call: u64, batch: &[Failed]) -> Result<()>;
    fn remove_reading(&mut self, reader: &str) -> Result<()>;
    /// How many errors readers are printing.
    fn reading_count(&mut self) -> Result<u64>;
}

/// The last report of each node, the sums over time, and the last reigns.
pub trait Reports {
    fn report(&mut self, node: &str) -> Result<Option<LastReport>>;
    fn set_report(&mut self, node: &str, report: &LastReport) -> Result<()>;
    fn drop_report(&mut self, node: &str) -> Result<()>;
    /// What is in a slot of a ring.
    fn slot(&mut self, range: Range, slot: u64) -> Result<Option<Bucket>>;
    fn set_slot(&mut self, range: Range, slot: u64, bucket: &Bucket) -> Result<()>;
    /// The last reigns, the newest first.
    fn reigns(&mut self) -> Result<Vec<Crowned>>;
    /// One more, in the place of the oldest if there are [`REIGNS_MAX`](super::history::REIGNS_MAX).
    fn add_reign(&mut self, reign: &Crowned) -> Result<()>;
}

/// What effects have written.
pub trait Effects {
    /// What a key holds, with its value if it is one.
    fn stored(&mut self, key: &str) -> Result<Option<(Kind, Option<Vec<u8>>)>>;
    /// Applies an effect that was admitted.
    fn apply(&mut self, effect: &Effect) -> Result<()>;
}
