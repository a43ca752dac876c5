//! The verbs in plain Rust, over any [`Store`]: each a function that is called inside one step, with the wall clock passed in.
//! They follow the scripts of the Redis engine line by line.
//!
//! [`Steps`] makes an engine of a store: whoever can run a function in one step (under a lock, in a transaction) gets all verbs
//! from here.

mod cancel;
mod clock;
mod election;
mod endings;
mod errors;
mod exchange;
mod groups;
mod limit;
mod manage;
mod membership;
mod numbering;
mod publish;
mod push;
mod report;
mod reshard;
mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::history::{History, Range, Report, Reported};
use super::store::Store;
use super::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, Held, Join, Joined, Limits, NodeId, Paused, PausedGroup, Publish, Published, Purged, Push, Pushed, Reap,
    Reaped, Renewed, Requeued, Sights, Status, StoreInfo, Ticket, Wake,
};
use crate::error::{Error, Result};

pub use cancel::{cancel, cancel_group};
pub use election::beat;
pub use endings::{endings, find};
pub use errors::{collect, discard, failed, hold, latest, release, requeue, trim};
pub(crate) use exchange::counter;
pub use exchange::exchange;
pub use groups::pause_group;
pub use limit::limit;
pub use manage::{handover, pause, purge};
pub use membership::{connected, join, leave, reap};
pub use publish::publish;
pub use push::push;
pub use report::{history, report};
pub use reshard::reshard;
pub use status::{held, published, status};

/// Which of its connections an engine uses for a call, if it has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Beats and publishes. They never wait behind an exchange of the same node.
    Control,
    /// Exchanges.
    Exchange,
    /// Reports, which must not hold up a beat while they wait.
    Aside,
}

/// Where nothing tells that a message has ended, so often one looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// There is only one, and it is never made anew.
const CONNECTION: u64 = 1;

/// Something that runs a function on a [`Store`] as one step: nothing of it is seen before all of it is done, and nothing is left
/// of it if it fails. This is all that an engine in Rust has to bring; the verbs are the same for all of them.
pub trait Steps: Send + Sync + 'static {
    /// The store, inside a step.
    type Store<'a>: Store;

    /// Runs one verb with the time now, in milliseconds. An engine that runs it on another thread takes a copy of `args`.
    fn step<A, T, F>(&self, link: Link, args: &A, verb: F) -> impl Future<Output = Result<T>> + Send
    where
        A: ToOwned<Owned: Send> + Sync + ?Sized + 'static,
        T: Send + 'static,
        F: FnOnce(&mut Self::Store<'_>, u64, &A) -> Result<T> + Send + 'static;

    /// As [`Engine::listen`].
    fn listen(&self, wake: Wake, at_most: Duration) -> impl Future<Output = Result<bool>> + Send;

    /// As [`Engine::await_ending`]. It may return too early, and says whether there is something to be seen.
    fn await_ending(&self, _number: u64, at_most: Duration) -> impl Future<Output = Result<bool>> + Send {
        async move {
            tokio::time::sleep(at_most.min(LOOK_AGAIN)).await;
            Ok(false)
        }
    }

    /// As [`Engine::store_info`].
    fn store_info(&self) -> impl Future<Output = Result<StoreInfo>> + Send;

    /// Whom looks have shown to be connected. None: this store does not tell.
    fn sights(&self) -> Option<&Sights> {
        None
    }

    /// Whether a look has shown this node.
    fn has_seen(&self, node: &str) -> bool {
        self.sights().is_some_and(|sights| sights.has_seen(CONNECTION, node))
    }

    /// Lets others see that a node is there, or not any more.
    fn show(&self, _node: &str, _shows: bool) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Where replicas are to have what counts: what tells when they have the last step that this task has run.
    fn ticket(&self) -> Option<Ticket> {
        None
    }

    /// As [`Engine::kept`].
    fn replicated(&self, _: &Ticket) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(true) }
    }

    /// Called after each beat of the generator, to give back room that is not needed any more.
    fn tidy(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// A verb is one step: on which link, with what it is given, and what is run.
macro_rules! steps {
    ($($verb:ident($($name:ident: $type:ty),*) -> $answer:ty = $link:ident, $args:expr, $run:expr;)+) => {$(
        async fn $verb(&self, $($name: $type),*) -> Result<$answer> {
            self.step(Link::$link, $args, $run).await
        }
    )+};
}

impl<S: Steps> Engine for S {
    type Shard = Self;

    fn shards(queue: &Arc<Self>) -> Vec<Arc<Self>> {
        vec![queue.clone()]
    }

    /// A store that could be opened can be used.
    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Steps::store_info(self).await
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        Steps::listen(self, wake, at_most).await
    }

    async fn await_ending(&self, number: u64, at_most: Duration) -> Result<bool> {
        let (until, mut was_told) = (tokio::time::Instant::now() + at_most, false);
        loop {
            let found = Engine::endings(self, &[number]).await?;
            if found.first().is_some_and(Option::is_some) {
                return Ok(true);
            }
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            // It is kept no more, and nobody has removed it yet.
            if was_told {
                tokio::time::sleep(LOOK_AGAIN.min(left)).await;
            }
            was_told = Steps::await_ending(self, number, left).await?;
        }
    }

    async fn beat(&self, args: &Beat) -> Result<Renewed> {
        let mut args = args.clone();
        if !self.has_seen(&args.gone) {
            args.gone = NodeId::new();
        }
        let step = self.step(Link::Control, &args, |store, now, args| beat(store, now, args));
        let renewed = step.await?;
        match &renewed {
            Renewed::Alive(member) if member.generator => self.tidy().await?,
            Renewed::Alive(_) => {}
            Renewed::Deposed => self.show(&args.node, false).await?,
        }
        Ok(renewed)
    }

    async fn join(&self, args: &Join) -> Result<Joined> {
        // Before it is a member, so that nobody sees one without.
        self.show(&args.node, true).await?;
        let step = self.step(Link::Control, args, |store, now, args| join(store, now, args));
        let joined = step.await?;
        if joined == Joined::Taken {
            self.show(&args.node, false).await?;
        }
        Ok(joined)
    }

    async fn reap(&self, args: &Reap) -> Result<Reaped> {
        let mut args = args.clone();
        args.gone = args.gone && self.has_seen(&args.victim);
        let step = self.step(Link::Control, &args, |store, now, args| reap(store, now, args));
        step.await
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        let step = self.step(Link::Control, node, |store, _, node| leave(store, node));
        step.await?;
        self.show(node, false).await
    }

    async fn gone(&self, of: Option<&NodeId>) -> Result<Option<Gone>> {
        let Some(sights) = self.sights() else { return Ok(None) };
        let of = of.cloned();
        let step = self.step(Link::Control, &of, |store, _, of| connected(store, of.as_ref()));
        Ok(Some(sights.look(CONNECTION, of.is_none(), step.await?)))
    }

    async fn publish_ahead(&self, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
        let published = self.publish(publish).await?;
        Ok((published, self.ticket()))
    }

    async fn exchange_ahead(&self, exchange: &Exchange) -> Result<(Exchanged, Option<Ticket>)> {
        let exchanged = self.exchange(exchange).await?;
        Ok((exchanged, self.ticket()))
    }

    async fn kept(&self, ticket: &Ticket) -> Result<bool> {
        self.replicated(ticket).await
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let to = to.map(str::to_string);
        self.step(Link::Control, &to, |store, now, to| handover(store, now, to.as_deref()))
            .await
    }

    /// Where replicas are waited for, it is made once they have it.
    async fn reshard(&self, server: &str) -> Result<bool> {
        let is_heard = self
            .step(Link::Control, server, |store, now, server| reshard(store, now, server))
            .await?;
        match self.ticket() {
            Some(ticket) if is_heard => self.replicated(&ticket).await,
            _ => Ok(is_heard),
        }
    }

    steps! {
        publish(args: &Publish) -> Published = Control, args, |store, now, args| publish(store, now, args);
        push(args: &Push) -> Pushed = Control, args, |store, now, args| push(store, now, args);
        exchange(args: &Exchange) -> Exchanged = Exchange, args, |store, now, args| exchange(store, now, args);
        collect(args: &Collect) -> Collected = Control, args, |store, now, args| collect(store, now, args);
        hold(reader: &str, lease_ms: u64) -> bool =
            Control, reader, move |store, now, reader| hold(store, now, reader, lease_ms);
        release(reader: &str, expired: bool) -> () =
            Control, reader, move |store, now, reader| release(store, now, reader, expired);
        failed(from: u64, limit: u32) -> Vec<Failed> = Control, &(), move |store, _, ()| failed(store, from, limit);
        latest(below: u64, limit: u32) -> Vec<Failed> = Control, &(), move |store, _, ()| latest(store, below, limit);
        held(node: &str, limit: u32) -> Vec<Held> = Control, node, move |store, _, node| held(store, node, limit);
        endings(numbers: &[u64]) -> Vec<Option<Ending>> =
            Aside, numbers, |store, now, numbers| endings(store, now, numbers);
        find(number: u64) -> Found = Aside, &(), move |store, now, ()| find(store, now, number);
        requeue(numbers: &[u64]) -> Requeued = Control, numbers, |store, _, numbers| requeue(store, numbers);
        discard(numbers: &[u64]) -> Vec<u64> = Control, numbers, |store, _, numbers| discard(store, numbers);
        trim(keep: u64) -> Vec<u64> = Control, &(), move |store, _, ()| trim(store, keep);
        pause(generator: Option<bool>, handlers: Option<bool>) -> Paused =
            Control, &(), move |store, _, ()| pause(store, generator, handlers);
        pause_group(group: &str, paused: bool) -> PausedGroup =
            Control, group, move |store, _, group| pause_group(store, group, paused);
        limit(limits: &Limits) -> () = Control, limits, |store, now, limits| limit(store, now, limits);
        cancel(numbers: &[u64]) -> Vec<Cancelled> = Control, numbers, |store, now, numbers| cancel(store, now, numbers);
        cancel_group(group: &str) -> CancelledGroup =
            Control, group, |store, now, group| cancel_group(store, now, group);
        purge(force: bool) -> Purged = Control, &(), move |store, now, ()| purge(store, now, force);
        report(args: &Report) -> Reported = Aside, args, |store, now, args| report(store, now, args);
        history(range: Range) -> History = Control, &(), move |store, now, ()| history(store, now, range);
        published() -> u64 = Control, &(), |store, _, ()| published(store);
        status() -> Status = Control, &(), |store, now, ()| status(store, now);
        unsettled() -> Vec<(u64, u64)> = Control, &(), |store, _, ()| store.unsettled();
    }
}

fn no_queue(store: &impl Store) -> Error {
    Error::NoQueue {
        queue: store.queue_name().to_string(),
    }
}
