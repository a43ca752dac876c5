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
//!
//! In reading order:
//!
//! - this file: the verbs; `protocol`: what each is given and answers; `limits`: how much one call may carry
//! - [`rules`]: the verbs in plain Rust, over any [`store`]; `memory` and `sqlite` are two such stores
//! - [`redis`]: the same verbs as Lua scripts
//! - [`sharded`]: one queue over many stores
//! - [`any`]: an engine by its URL

pub mod any;
pub mod history;
mod layout;
mod limits;
pub mod memory;
#[cfg(any(feature = "sqlite", feature = "tls"))]
pub(crate) mod private;
mod protocol;
mod record;
pub mod redis;
mod requeue;
pub mod rules;
pub mod sharded;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;
mod store_info;
mod url;
mod watching;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::settings::Names;

pub use history::{Figures, Gauges, History, LastReport, Live, Range, Report, Reported};
pub use layout::LAYOUT;
use layout::check_layout;
pub use limits::*;
pub use protocol::*;
pub(crate) use requeue::requeue;
pub use store_info::StoreInfo;
pub use watching::{Gone, Sights};

/// Hands the list of verbs to the macro `then`: each with the module of the Redis engine that has its script.
macro_rules! verbs {
    ($then:ident) => {
        $then! {
            info::check() -> ();
            status::store_info() -> StoreInfo;
            membership::join(join: &Join) -> Joined;
            membership::beat(beat: &Beat) -> Renewed;
            membership::leave(node: &NodeId) -> ();
            membership::reap(reap: &Reap) -> Reaped;
            membership::listen(wake: Wake, at_most: Duration) -> bool;
            watching::gone(of: Option<&NodeId>) -> Option<Gone>;
            publish::publish(publish: &Publish) -> Published;
            push::push(push: &Push) -> Pushed;
            exchange::exchange(exchange: &Exchange) -> Exchanged;
            exchange::await_work(exchange: &Exchange, at_most: Duration) -> Exchanged;
            errors::collect(collect: &Collect) -> Collected;
            errors::hold(reader: &str, lease_ms: u64) -> bool;
            errors::release(reader: &str, expired: bool) -> ();
            errors::failed(from: u64, limit: u32) -> Vec<Failed>;
            errors::latest(below: u64, limit: u32) -> Vec<Failed>;
            errors::requeue(numbers: &[u64]) -> Requeued;
            errors::discard(numbers: &[u64]) -> Vec<u64>;
            errors::trim(keep: u64) -> Vec<u64>;
            manage::pause(generator: Option<bool>, handlers: Option<bool>) -> Paused;
            manage::pause_group(group: &str, paused: bool) -> PausedGroup;
            manage::limit(limits: &Limits) -> ();
            manage::reshard(server: &str) -> bool;
            cancel::cancel(numbers: &[u64]) -> Vec<Cancelled>;
            cancel::cancel_group(group: &str) -> CancelledGroup;
            manage::handover(to: Option<&str>) -> Handover;
            manage::purge(force: bool) -> Purged;
            report::report(report: &Report) -> Reported;
            report::history(range: Range) -> History;
            status::published() -> u64;
            status::status() -> Status;
            status::held(node: &str, limit: u32) -> Vec<Held>;
            endings::endings(numbers: &[u64]) -> Vec<Option<Ending>>;
            endings::await_ending(number: u64, at_most: Duration) -> bool;
            endings::find(number: u64) -> Found;
            unsettled::unsettled() -> Vec<(u64, u64)>;
        }
    };
}
use verbs;

/// The names that the home shard has, if the queue is made of shards; and its shards, the home shard first.
pub type MadeOf<E> = (Option<Names>, Vec<Arc<E>>);

/// A store that speaks the protocol.
pub trait Engine: Send + Sync + 'static {
    /// What a queue is made of: itself, or shards.
    type Shard: Engine;
    /// The shards of a queue, the home shard first. Each is a queue of its own, in which a node has a membership of its own.
    fn shards(queue: &Arc<Self>) -> Vec<Arc<Self::Shard>>;
    /// The same with the names that the home shard has, if the queue is made of shards: they tell how many there are, and of how many before each reshard. Both are
    /// of one moment, whoever else follows a reshard meanwhile.
    #[must_use]
    fn made_of(queue: &Arc<Self>) -> MadeOf<Self::Shard> {
        (None, Self::shards(queue))
    }
    /// The names alone.
    #[must_use]
    fn names(queue: &Arc<Self>) -> Option<Names> {
        Self::made_of(queue).0
    }
    /// Refuses a store that cannot be used, or on which the promises would not hold.
    fn check(&self) -> impl Future<Output = Result<()>> + Send;
    /// What the store says of itself: for people.
    fn store_info(&self) -> impl Future<Output = Result<StoreInfo>> + Send;
    /// Becomes a member. The only way to become one.
    fn join(&self, join: &Join) -> impl Future<Output = Result<Joined>> + Send;
    /// "I am alive": renews the lease, and elects.
    fn beat(&self, beat: &Beat) -> impl Future<Output = Result<Renewed>> + Send;
    /// Appends messages, if the caller is the generator.
    fn publish(&self, publish: &Publish) -> impl Future<Output = Result<Published>> + Send;
    /// Puts in messages from outside.
    fn push(&self, push: &Push) -> impl Future<Output = Result<Pushed>> + Send;
    /// The shard in which a message has to be, if it has to be in a certain one: whoever pushes puts into one call what can be in one shard, since no step
    /// spans two.
    fn shard_for(&self, _: &Item) -> Option<usize> {
        None
    }
    /// Settles what is finished and takes what comes next.
    fn exchange(&self, exchange: &Exchange) -> impl Future<Output = Result<Exchanged>> + Send;
    /// Gives up a member whose lease has run out, and hands on what it held.
    fn reap(&self, reap: &Reap) -> impl Future<Output = Result<Reaped>> + Send;
    /// Ends a membership in good order; what is still held is handed on.
    fn leave(&self, node: &NodeId) -> impl Future<Output = Result<()>> + Send;
    /// Waits for a bell to ring, at most this long; another call of this engine may end the wait. A ring may be lost: it only wakes.
    fn listen(&self, wake: Wake, at_most: Duration) -> impl Future<Output = Result<bool>> + Send;
    /// Whose connection this engine has seen, and sees no more: of all members, or of one. Whoever is named may have died, or be
    /// back already; the store looks itself before it does anything about it. None: the store does not tell.
    fn gone(&self, of: Option<&NodeId>) -> impl Future<Output = Result<Option<Gone>>> + Send;
    /// Whether others see at once when this process dies, as far as this engine knows.
    fn is_watched(&self) -> bool {
        false
    }
    /// Returns when the connection is lost by which others see this node: the next beat makes it anew.
    fn cut_off(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
    /// Waits for the bell, at most this long, and then makes this exchange, which settles nothing; another call of this engine may end
    /// the wait. A caller that stops waiting
    /// does not know whether the exchange was made: its next call must have the same number.
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
    /// Failed messages below `below`, the largest number first, without taking them.
    fn latest(&self, below: u64, limit: u32) -> impl Future<Output = Result<Vec<Failed>>> + Send;
    /// What a node has in hand, the smallest numbers first. Costs as much as the node holds, never what is queued.
    fn held(&self, node: &str, limit: u32) -> impl Future<Output = Result<Vec<Held>>> + Send;
    /// How these messages ended, at most [`ENDINGS_PER_CALL_MAX`] of them. None: it has not ended, was not asked for, or is not kept any more. Where replicas are waited for, they
    /// have what is told.
    fn endings(&self, numbers: &[u64]) -> impl Future<Output = Result<Vec<Option<Ending>>>> + Send;
    /// Waits until it is known how a message ended, at most this long, without asking again and again. False: it is not, or not yet.
    fn await_ending(&self, number: u64, at_most: Duration) -> impl Future<Output = Result<bool>> + Send;
    /// Where a message is, as far as the store can tell without looking through the queue.
    fn find(&self, number: u64) -> impl Future<Output = Result<Found>> + Send;
    /// Withdraws errors and puts their messages in again: a new life, deliveries and failures from the start.
    fn requeue(&self, numbers: &[u64]) -> impl Future<Output = Result<Requeued>> + Send;
    /// Removes errors for good. Returns those that were there.
    fn discard(&self, numbers: &[u64]) -> impl Future<Output = Result<Vec<u64>>> + Send;
    /// Removes the oldest errors until `keep` are left, [`TRIM_MAX`] at most in one call, and counts them. Returns which.
    fn trim(&self, keep: u64) -> impl Future<Output = Result<Vec<u64>>> + Send;
    /// Pauses (`Some(true)`) or resumes (`Some(false)`) generating and handling: while paused, nothing is published, or nothing
    /// is taken. Returns what is paused now.
    fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> impl Future<Output = Result<Paused>> + Send;
    /// Pauses a group, or lets it go on: while it is paused, nothing is taken from its line. What is in flight is finished all the same.
    fn pause_group(&self, group: &str, paused: bool) -> impl Future<Output = Result<PausedGroup>> + Send;
    /// Sets how fast messages may be taken, by the whole fleet and of each group. What is none is not limited.
    fn limit(&self, limits: &Limits) -> impl Future<Output = Result<()>> + Send;
    /// Changes how many shards the queue has to what the names of this engine say: they go on from those that are recorded. The reign ends, and members
    /// that know of fewer reshards are told with their next beat. False: it is to be asked again, since members that have not spoken yet to this server may know of another reshard, or since replicas lost it.
    fn reshard(&self, server: &str) -> impl Future<Output = Result<bool>> + Send;
    /// Changes how many shards get new messages, while the queue is in use.
    fn reshard_to(&self, shards: u32) -> impl Future<Output = Result<Resharded>> + Send {
        let _ = shards;
        async {
            Err(Error::Setting {
                setting: "shards",
                reason: "this engine has opened one store: AnyEngine::open_shards opens all shards of a queue".into(),
            })
        }
    }
    /// Cancels messages, at most [`CANCELS_MAX`] in one call: what is not in work yet is an error when it is taken, and handlers that are at work with
    /// one are told.
    fn cancel(&self, numbers: &[u64]) -> impl Future<Output = Result<Vec<Cancelled>>> + Send;
    /// Cancels all messages of a group that were published before this.
    fn cancel_group(&self, group: &str) -> impl Future<Output = Result<CancelledGroup>> + Send;
    /// Lets this member take the crown with its next beat; `None`: any but the generator; empty: withdraws the request.
    fn handover(&self, to: Option<&str>) -> impl Future<Output = Result<Handover>> + Send;
    /// Removes the queue with all that is in it; unless forced, only if no node is alive. What effects wrote stays.
    fn purge(&self, force: bool) -> impl Future<Output = Result<Purged>> + Send;
    /// Stores what a member reports of itself, and adds it to the sums over all nodes. It renews no lease.
    fn report(&self, report: &Report) -> impl Future<Output = Result<Reported>> + Send;
    /// Sums over time, and the last reigns.
    fn history(&self, range: Range) -> impl Future<Output = Result<History>> + Send;
    /// How many numbers were given out. Costs the same however large the queue and the fleet are. As [`status`](Self::status), it
    /// refuses a queue that this program cannot work on.
    fn published(&self) -> impl Future<Output = Result<u64>> + Send;
    /// One consistent look at everything.
    fn status(&self) -> impl Future<Output = Result<Status>> + Send;
    /// The same as [`publish`](Self::publish), but replicas that are to have it may lack it yet: what then tells when they have.
    fn publish_ahead(&self, publish: &Publish) -> impl Future<Output = Result<(Published, Option<Ticket>)>> + Send {
        async move { Ok((self.publish(publish).await?, None)) }
    }
    /// The same of [`exchange`](Self::exchange).
    fn exchange_ahead(&self, exchange: &Exchange) -> impl Future<Output = Result<(Exchanged, Option<Ticket>)>> + Send {
        async move { Ok((self.exchange(exchange).await?, None)) }
    }
    /// Returns when as many replicas as wanted have what a call wrote. False: the store has it no more.
    fn kept(&self, _: &Ticket) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(true) }
    }
    /// How many bytes publishes and exchanges have moved: one that is not answered yet may still make progress. None: there is
    /// no link that could be slow or cut off.
    fn moved(&self) -> Option<u64> {
        None
    }
    /// How long a small call takes there and back, at the least of late: so much is to be fetched ahead, and sent ahead. Only a hint.
    fn trip(&self) -> Duration {
        Duration::ZERO
    }
    /// Where the store is now, for people, if that is not where it was said to be: a cluster or sentinels have led elsewhere.
    fn place(&self) -> Option<String> {
        None
    }
    /// Every message without an outcome, as runs of numbers (first, count), sorted. Reads the whole queue: for checks of a
    /// queue that nobody works on, not for production.
    fn unsettled(&self) -> impl Future<Output = Result<Vec<(u64, u64)>>> + Send;
}
