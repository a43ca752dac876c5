//! The verbs in plain Rust, over any [`Store`]: each a function that is called inside one step, with the wall clock passed in.
//! They follow the scripts of the Redis engine line by line.
//!
//! [`Steps`] makes an engine of a store: whoever can run a function in one step (under a lock, in a transaction) gets all verbs
//! from here.

mod clock;
mod election;
mod errors;
mod exchange;
mod manage;
mod membership;
mod publish;
mod push;
mod report;
mod status;

use std::future::Future;
use std::time::Duration;

use super::history::{History, Range, Report, Reported};
use super::store::Store;
use super::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Handover, Held, Join, Joined, NodeId, Paused,
    Publish, Published, Purged, Push, Pushed, Reap, Reaped, Renewed, Requeued, Status, StoreInfo, Wake,
};
use crate::error::{Error, Result};

pub use election::beat;
pub use errors::{collect, discard, failed, hold, latest, release, requeue, trim};
pub(crate) use exchange::counter;
pub use exchange::exchange;
pub use manage::{handover, pause, purge};
pub use membership::{join, leave, reap};
pub use publish::publish;
pub use push::push;
pub use report::{history, report};
pub use status::{held, status};

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

    /// As [`Engine::store_info`].
    fn store_info(&self) -> impl Future<Output = Result<StoreInfo>> + Send;

    /// Called after each beat of the generator, to give back room that is not needed any more.
    fn tidy(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

impl<S: Steps> Engine for S {
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

    async fn join(&self, args: &Join) -> Result<Joined> {
        self.step(Link::Control, args, |store, now, args| join(store, now, args))
            .await
    }

    async fn beat(&self, args: &Beat) -> Result<Renewed> {
        let step = self.step(Link::Control, args, |store, now, args| beat(store, now, args));
        let renewed = step.await?;
        if matches!(&renewed, Renewed::Alive(member) if member.generator) {
            self.tidy().await?;
        }
        Ok(renewed)
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        self.step(Link::Control, node, |store, _, node| leave(store, node))
            .await
    }

    async fn reap(&self, args: &Reap) -> Result<Reaped> {
        self.step(Link::Control, args, |store, now, args| reap(store, now, args))
            .await
    }

    async fn publish(&self, args: &Publish) -> Result<Published> {
        self.step(Link::Control, args, |store, now, args| publish(store, now, args))
            .await
    }

    async fn push(&self, args: &Push) -> Result<Pushed> {
        self.step(Link::Control, args, |store, now, args| push(store, now, args))
            .await
    }

    async fn exchange(&self, args: &Exchange) -> Result<Exchanged> {
        self.step(Link::Exchange, args, |store, now, args| exchange(store, now, args))
            .await
    }

    async fn collect(&self, args: &Collect) -> Result<Collected> {
        self.step(Link::Control, args, |store, now, args| collect(store, now, args))
            .await
    }

    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        let verb = move |store: &mut S::Store<'_>, now, reader: &str| hold(store, now, reader, lease_ms);
        self.step(Link::Control, reader, verb).await
    }

    async fn release(&self, reader: &str, expired: bool) -> Result<()> {
        let verb = move |store: &mut S::Store<'_>, now, reader: &str| release(store, now, reader, expired);
        self.step(Link::Control, reader, verb).await
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        self.step(Link::Control, &(), move |store, _, ()| failed(store, from, limit))
            .await
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        self.step(Link::Control, &(), move |store, _, ()| latest(store, below, limit))
            .await
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        self.step(Link::Control, node, move |store, _, node| held(store, node, limit))
            .await
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        self.step(Link::Control, numbers, |store, _, numbers| requeue(store, numbers))
            .await
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        self.step(Link::Control, numbers, |store, _, numbers| discard(store, numbers))
            .await
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        self.step(Link::Control, &(), move |store, _, ()| trim(store, keep))
            .await
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        self.step(Link::Control, &(), move |store, _, ()| {
            pause(store, generator, handlers)
        })
        .await
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let to = to.map(str::to_string);
        self.step(Link::Control, &to, |store, now, to| handover(store, now, to.as_deref()))
            .await
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        self.step(Link::Control, &(), move |store, now, ()| purge(store, now, force))
            .await
    }

    async fn report(&self, args: &Report) -> Result<Reported> {
        self.step(Link::Aside, args, |store, now, args| report(store, now, args))
            .await
    }

    async fn history(&self, range: Range) -> Result<History> {
        self.step(Link::Control, &(), move |store, now, ()| history(store, now, range))
            .await
    }

    async fn status(&self) -> Result<Status> {
        self.step(Link::Control, &(), |store, now, ()| status(store, now)).await
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        self.step(Link::Control, &(), |store, _, ()| store.unsettled()).await
    }
}

fn no_queue(store: &impl Store) -> Error {
    Error::NoQueue {
        queue: store.queue_name().to_string(),
    }
}
