//! The protocol: one method per verb. Every engine behind the trait gives the same answers to the same calls.
//!
//! | engine | where the queue lives |
//! | --- | --- |
//! | [`redis`] | in Redis or Valkey, one Lua script per verb: what production runs on |
//! | `sqlite` | in a file on one machine, one transaction per verb: nothing to install |
//! | [`memory`] | in memory, no I/O, time passed in: the oracle of the tests, and the engine for users' own tests |
//!
//! Every verb may be repeated after a lost reply, verbatim, and is then applied once. Every verb checks everything
//! before it writes anything.

pub mod any;
pub mod history;
pub mod memory;
mod record;
pub mod redis;
mod rules;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[doc(hidden)]
pub mod store;
mod store_info;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::message::{Outcome, Pack};

pub use history::{Figures, Gauges, History, LastReport, Live, Range, Report, Reported};
pub use store_info::StoreInfo;

/// What this program writes into a queue. A queue written by a newer layout is refused.
pub const LAYOUT: u64 = 1;
/// How many nodes watch the crown closely. Everyone else looks once per beat.
pub const HEIRS_MAX: usize = 5;
/// The grain of a new queue: packs are cut to this until handlers ask for less.
pub const GRAIN_START: u64 = crate::message::PACK_MESSAGES_MAX as u64;
/// How many packs a publish carries at most: bounds the time of one script.
pub const PUBLISH_PACKS_MAX: usize = 1024;
/// How many packs a take returns, before it stops.
pub const TAKE_PACKS_MAX: usize = 256;
/// A take stops once it has this many bytes.
pub const TAKE_BYTES_MAX: usize = 1024 * 1024;
/// And one that has so much does not cut a pack to get more.
pub const TAKE_CUT_BYTES: usize = 32 * 1024;

/// A take of fewer messages is always filled to the last one.
const TAKE_EXACT: u64 = 64;

/// Whether less than an eighth is missing: then nothing more is looked for.
pub(crate) fn take_is_enough(total: u64, want: u64) -> bool {
    want >= TAKE_EXACT && 8 * want.saturating_sub(total) < want
}

/// How many messages are cut off a pack that does not fit. To cut copies the pack. So whoever has half of what it wants leaves it
/// whole, and whoever has less is content with half: a take that filled itself up would leave a rest, and be out of step with the
/// packs for ever after.
pub(crate) fn take_cut(total: u64, want: u64) -> u64 {
    if want < TAKE_EXACT || total == 0 {
        want - total
    } else {
        want.div_ceil(2).saturating_sub(total)
    }
}
/// How many pieces one exchange settles at most (Lua's `unpack` ends at 8,000).
pub const SETTLES_PER_CALL_MAX: usize = 1000;
/// How many packs one reap moves.
pub const REAP_PACKS_MAX: usize = 1000;
/// A reap stops once it has moved this many bytes.
pub const REAP_BYTES_MAX: usize = 1024 * 1024;
/// How many messages that are due one beat moves back to be taken.
pub const DUE_MAX: usize = 1000;
/// A beat stops once it has moved this many bytes of them.
pub const DUE_BYTES_MAX: usize = 1024 * 1024;
/// Nothing is put off for longer than this: 366 days.
pub const DELAY_MS_MAX: u64 = 366 * 24 * 3600 * 1000;
/// The largest cursor of a generator.
pub const CURSOR_BYTES_MAX: usize = 64 * 1024;
/// How many errors one call requeues or discards.
pub const ERRORS_PER_CALL_MAX: usize = 500;
/// How many errors one call removes because there are too many.
pub const TRIM_MAX: usize = 1000;
/// How many messages one push carries.
pub const PUSH_ITEMS_MAX: usize = 1000;
/// The longest key of a pushed message.
pub const KEY_BYTES_MAX: usize = 256;
/// How long the store remembers a push, so that a repeat after a lost reply is answered and not applied: a minute,
/// several times what anyone waits for a store that is away.
pub const CALL_MS: u64 = 60_000;
/// So much of a payload in hand is told.
pub const HELD_START_BYTES: usize = 200;
/// A batch of errors stops growing once it has this many bytes.
pub const COLLECT_BYTES_MAX: usize = 1024 * 1024;

/// Whether a queue that was found so is one that this program can work on.
fn check_layout(queue: &str, names: &crate::settings::Names, layout: u64, recorded: &str) -> Result<()> {
    if layout > LAYOUT {
        return Err(Error::NewerLayout {
            queue: queue.to_string(),
            found: layout,
            known: LAYOUT,
        });
    }
    if recorded != names.line() {
        return Err(Error::OtherNames {
            queue: queue.to_string(),
            recorded: recorded.to_string(),
            given: names.line(),
        });
    }
    Ok(())
}

/// A running process, under the id of its present membership. Random, and never used twice.
pub type NodeId = String;

/// What a node has seen of the queue, so that a store which went back in time is noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub birth: String,
    pub seq: u64,
    pub epoch: u64,
}

/// "I want to be a member."
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    pub node: NodeId,
    /// How many lanes the node will use, numbered from 0.
    pub lanes: u32,
    pub lease_ms: u64,
    /// The furthest that one look may move the hive clock.
    pub step_ms: u64,
    pub seen: Seen,
    /// Used as the birth id if this join creates the queue.
    pub birth: String,
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub concurrency: u32,
}

/// The answer to a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    pub birth: String,
    /// The store was behind what this node had seen, and was raised.
    pub rewound: bool,
}

/// "I am alive."
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    pub node: NodeId,
    pub lease_ms: u64,
    pub crown_ms: u64,
    /// Whether this node may be crowned. A generator that is not resigns.
    pub eligible: bool,
    /// How much it would like to be: one that ranks higher takes the crown from one that ranks lower.
    pub rank: u8,
    pub seen: Seen,
}

/// The answer to a beat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// A member, whose lease was renewed.
    Alive(Member),
    /// Not a member (any more): join again under a new id. Nothing was written.
    Deposed,
}

/// What a member is told with each beat.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the store says yes or no to unrelated questions"
)]
pub struct Member {
    pub generator: bool,
    pub epoch: u64,
    /// The next number.
    pub seq: u64,
    /// How many messages generators have made.
    pub made: u64,
    /// Packs are to be cut to this many messages.
    pub grain: u64,
    /// Until the next tick of the grid.
    pub due_in_ms: u64,
    /// Until the crown's lease ends, unless it is renewed.
    pub crown_in_ms: u64,
    /// Whether this node is among the few who watch the crown closely.
    pub heir: bool,
    /// The store's wall clock, for time stamps only.
    pub wall_ms: u64,
    /// Whoever keeps house is to reap this one: the generator, or any member while there is none.
    pub victim: Option<NodeId>,
    /// What the last message left for the next generator; told only to a generator that has not seen this reign yet.
    pub cursor: Option<Bytes>,
    pub paused: Paused,
    /// More messages are due than one beat moves: beat again at once.
    pub more_due: bool,
    pub rewound: bool,
}

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

/// A part of a held pack, with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Index within the piece.
    pub from: u32,
    pub count: u32,
    pub outcome: Outcome,
}

/// Runs of one held piece, ascending; what is not named is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The first number of the held piece.
    pub piece: u64,
    pub runs: Vec<Run>,
}

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

/// Messages from outside, numbered with the generated ones. Creates the queue if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Random, and the same in every copy of this call: a repeat within a minute gets the same answer.
    pub call: String,
    /// How long keys are remembered.
    pub keep_ms: u64,
    pub backlog_max: u64,
    /// As in a join, if this creates the queue.
    pub birth: String,
    pub step_ms: u64,
    pub items: Vec<Item>,
}

/// A message to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub payload: Bytes,
    /// A message with the same key that is pushed while this one is remembered is not put in again.
    pub key: Option<String>,
    /// Handled only after this time, by the store's time of day.
    pub delay_ms: u64,
}

impl Item {
    /// A message to be handled as soon as may be.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            key: None,
            delay_ms: 0,
        }
    }

    /// With a key that makes a repeat a no-op.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Not before this time has passed.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay_ms = crate::settings::ms(delay);
        self
    }
}

/// The answer to a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// What became of each message, in the order given.
    Ok(Vec<Receipt>),
    /// The backlog is full. Nothing was written.
    Full,
}

/// What became of a pushed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub number: u64,
    /// Its key was pushed before: this is the number that it has, and nothing was put in.
    pub repeated: bool,
}

/// A node to be given up if its lease has run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reap {
    pub victim: NodeId,
    pub deliveries_max: u16,
}

/// The answer to a reap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// What stands still for the time being. What is in hand is finished all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paused {
    /// Nothing is published but what is pushed.
    pub generator: bool,
    /// Nothing is taken.
    pub handlers: bool,
}

impl Paused {
    #[cfg(feature = "sqlite")]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generator) + 2 * u64::from(self.handlers)
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self {
            generator: bits % 2 == 1,
            handlers: bits / 2 % 2 == 1,
        }
    }
}

/// What became of a request to move the crown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// The next beat of whoever was asked for takes it.
    Asked,
    /// This node has it already.
    Reigns,
    /// There is no such member.
    Unknown,
}

/// The answer to a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purged {
    /// The queue was removed.
    Gone,
    /// So many nodes are alive. Nothing was removed.
    Alive(u64),
}

/// What one can wait for without asking again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Work waits.
    Bell,
    /// The crown was given up.
    Crown,
}

/// One call of a reader of errors: confirms the batch of the call before, and takes the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collect {
    pub reader: String,
    /// From 1, one more for each batch.
    pub call: u64,
    /// The numbers of the batch of the call before: that batch and no other is confirmed.
    pub shown: Vec<u64>,
    /// Only numbers below this.
    pub below: u64,
    /// 0: confirm and leave.
    pub want: u32,
    pub lease_ms: u64,
}

/// The answer to a collect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collected {
    /// The reader's next errors; none are left if there are none.
    Batch {
        failed: Vec<Failed>,
        /// Other readers who hold errors.
        others: u64,
        /// A reader whose lease has run out: release it.
        victim: Option<String>,
    },
    /// Given up: what was not confirmed has gone back to the errors.
    Deposed,
}

/// What became of errors that were to be requeued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requeued {
    /// Those that were among the errors, and are in the queue now.
    pub numbers: Vec<u64>,
    /// How many of the given numbers were looked at: large messages end a step early. Ask again with the rest.
    pub looked: usize,
}

/// A failed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub number: u64,
    pub attempt: u16,
    /// How often it had failed before, and was tried again.
    pub failures: u16,
    pub epoch: u64,
    pub published_ms: u64,
    /// When it failed.
    pub time_ms: u64,
    pub node: NodeId,
    pub error: Vec<u8>,
    pub payload: Vec<u8>,
}

/// A piece in a node's hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The number of its first message.
    pub first: u64,
    /// How many messages it has.
    pub count: u64,
    pub attempt: u16,
    pub failures: u16,
    pub published_ms: u64,
    /// The beginning of the first payload.
    pub start: Vec<u8>,
}

impl Held {
    fn of(pack: &Pack) -> Self {
        let payload = pack.payload(0);
        Self {
            first: pack.first(),
            count: pack.count() as u64,
            attempt: pack.attempt(),
            failures: pack.failures(),
            published_ms: pack.published_ms(),
            start: payload[..payload.len().min(HELD_START_BYTES)].to_vec(),
        }
    }
}

/// A queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub birth: String,
    /// The store's time of day.
    pub time_ms: u64,
    pub generator: Option<NodeId>,
    pub epoch: u64,
    /// Numbers given out.
    pub published: u64,
    pub queued: u64,
    pub in_hand: u64,
    /// Put off: waiting to be tried again, or delayed.
    pub later: u64,
    pub done: u64,
    pub failed: u64,
    /// Waiting to be drained.
    pub errors: u64,
    /// Errors that were withdrawn and got a new life: done + failed + queued + in hand + later = published + requeued.
    pub requeued: u64,
    pub paused: Paused,
    /// Errors that were removed because there were too many.
    pub trimmed: u64,
    /// How often the store was found to have gone back in time.
    pub rewinds: u64,
    pub grain: u64,
    pub nodes: Vec<NodeStatus>,
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
    /// Until its lease ends, unless it beats.
    pub lease_in_ms: u64,
    /// What it last told of itself.
    pub report: Option<LastReport>,
}

/// A store that speaks the protocol.
pub trait Engine: Send + Sync + 'static {
    /// Refuses a store that cannot be used, or on which the promises would not hold.
    fn check(&self) -> impl Future<Output = Result<()>> + Send;
    /// What the store tells of itself, for people.
    fn store_info(&self) -> impl Future<Output = Result<StoreInfo>> + Send;
    /// Becomes a member. The only way to become one.
    fn join(&self, join: &Join) -> impl Future<Output = Result<Joined>> + Send;
    /// "I am alive": renews the lease, and elects.
    fn beat(&self, beat: &Beat) -> impl Future<Output = Result<Renewed>> + Send;
    /// Appends messages, if the caller is the generator.
    fn publish(&self, publish: &Publish) -> impl Future<Output = Result<Published>> + Send;
    /// Puts in messages from outside.
    fn push(&self, push: &Push) -> impl Future<Output = Result<Pushed>> + Send;
    /// Settles what is finished and takes what comes next.
    fn exchange(&self, exchange: &Exchange) -> impl Future<Output = Result<Exchanged>> + Send;
    /// Gives up a member whose lease has run out, and hands on what it held.
    fn reap(&self, reap: &Reap) -> impl Future<Output = Result<Reaped>> + Send;
    /// Ends a membership in good order; what is still held is handed on.
    fn leave(&self, node: &NodeId) -> impl Future<Output = Result<()>> + Send;
    /// Waits for a ring, at most so long. A ring may be lost: it only wakes.
    fn listen(&self, wake: Wake, at_most: Duration) -> impl Future<Output = Result<bool>> + Send;
    /// Waits for the bell, at most so long, and then makes this call, which settles nothing. Whoever gives up waiting does not
    /// know whether it was made: the call with this number, and no other, comes next.
    fn await_work(&self, exchange: &Exchange, at_most: Duration) -> impl Future<Output = Result<Exchanged>> + Send {
        async move {
            self.listen(Wake::Bell, at_most).await?;
            self.exchange(exchange).await
        }
    }
    /// Confirms what a reader of errors has printed, and takes its next batch.
    fn collect(&self, collect: &Collect) -> impl Future<Output = Result<Collected>> + Send;
    /// Renews a reader's lease while its output blocks. False: it was given up.
    fn hold(&self, reader: &str, lease_ms: u64) -> impl Future<Output = Result<bool>> + Send;
    /// Puts back what a reader took and did not confirm; if `expired`, only when its lease has run out.
    fn release(&self, reader: &str, expired: bool) -> impl Future<Output = Result<()>> + Send;
    /// Failed messages from `from` on, in the order of their numbers, without taking them.
    fn failed(&self, from: u64, limit: u32) -> impl Future<Output = Result<Vec<Failed>>> + Send;
    /// The same downwards: those below `below`, the largest number first.
    fn latest(&self, below: u64, limit: u32) -> impl Future<Output = Result<Vec<Failed>>> + Send;
    /// What a node has in hand, the smallest numbers first. Costs as much as the node holds, never what is queued.
    fn held(&self, node: &str, limit: u32) -> impl Future<Output = Result<Vec<Held>>> + Send;
    /// Withdraws errors and puts their messages in again: a new life, attempts and failures from the start.
    fn requeue(&self, numbers: &[u64]) -> impl Future<Output = Result<Requeued>> + Send;
    /// Removes errors for good. Returns those that were there.
    fn discard(&self, numbers: &[u64]) -> impl Future<Output = Result<Vec<u64>>> + Send;
    /// Removes the oldest errors beyond so many, [`TRIM_MAX`] at most, and counts them. Returns which.
    fn trim(&self, keep: u64) -> impl Future<Output = Result<Vec<u64>>> + Send;
    /// Pauses (`Some(true)`) or resumes (`Some(false)`) generating and handling; from then on nothing is published or
    /// taken. Tells what is paused now.
    fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> impl Future<Output = Result<Paused>> + Send;
    /// Lets this member take the crown with its next beat; `None`: any but the generator; empty: nobody after all.
    fn handover(&self, to: Option<&str>) -> impl Future<Output = Result<Handover>> + Send;
    /// Removes the queue with all that is in it; unless forced, only if no node is alive. What effects wrote stays.
    fn purge(&self, force: bool) -> impl Future<Output = Result<Purged>> + Send;
    /// Keeps what a member tells of itself, and adds it to what is known of all. Nobody joins or lives longer by it.
    fn report(&self, report: &Report) -> impl Future<Output = Result<Reported>> + Send;
    /// What was: sums over time, and the last reigns.
    fn history(&self, range: Range) -> impl Future<Output = Result<History>> + Send;
    /// One consistent look at everything.
    fn status(&self) -> impl Future<Output = Result<Status>> + Send;
    /// Every message without an outcome, as runs of numbers (first, count). Walks over everything: to check a queue that
    /// nobody works on, not for production.
    fn unsettled(&self) -> impl Future<Output = Result<Vec<(u64, u64)>>> + Send;
}
