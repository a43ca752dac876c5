//! A shard behind a link that may lose a push on its way there, or the answer on its way back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use queenright::engine::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, Held, History, Join, Joined, Limits, NodeId, Paused, PausedGroup, Publish, Published, Purged, Push,
    Pushed, Range, Reap, Reaped, Renewed, Report, Reported, Requeued, Status, StoreInfo, Wake,
};
use queenright::error::{Absence, Error, Result};

/// What is lost of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Request,
    Answer,
}

/// What the links of one queue lose.
#[derive(Default)]
pub struct Losses(Mutex<Option<(u32, Lost)>>);

impl Losses {
    /// Of the pushes into shards from now on, the one after so many others is lost.
    pub fn lose(&self, after: u32, what: Lost) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((after, what));
    }

    /// Nothing is lost any more.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn next(&self) -> Option<Lost> {
        let mut lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *lost {
            Some((0, _)) => lost.take().map(|(_, what)| what),
            Some((after, _)) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }
}

pub struct Link<E> {
    pub engine: E,
    pub losses: Arc<Losses>,
}

fn away() -> Error {
    Error::Away {
        store: "a shard".into(),
        absence: Absence::Silent,
        reason: "the link lost it".into(),
    }
}

/// What only goes through.
macro_rules! hand_on {
    ($($verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        impl<E: Engine> Engine for Link<E> {
            type Shard = Self;

            fn shards(queue: &Arc<Self>) -> Vec<Arc<Self>> {
                vec![queue.clone()]
            }

            async fn push(&self, push: &Push) -> Result<Pushed> {
                match self.losses.next() {
                    None => self.engine.push(push).await,
                    Some(Lost::Request) => Err(away()),
                    Some(Lost::Answer) => {
                        self.engine.push(push).await?;
                        Err(away())
                    }
                }
            }

            $(async fn $verb(&self, $($name: $type),*) -> Result<$answer> {
                self.engine.$verb($($name),*).await
            })+
        }
    };
}

hand_on! {
    check() -> ();
    store_info() -> StoreInfo;
    join(join: &Join) -> Joined;
    beat(beat: &Beat) -> Renewed;
    leave(node: &NodeId) -> ();
    reap(reap: &Reap) -> Reaped;
    listen(wake: Wake, at_most: Duration) -> bool;
    gone(of: Option<&NodeId>) -> Option<Gone>;
    publish(publish: &Publish) -> Published;
    exchange(exchange: &Exchange) -> Exchanged;
    collect(collect: &Collect) -> Collected;
    hold(reader: &str, lease_ms: u64) -> bool;
    release(reader: &str, expired: bool) -> ();
    failed(from: u64, limit: u32) -> Vec<Failed>;
    latest(below: u64, limit: u32) -> Vec<Failed>;
    requeue(numbers: &[u64]) -> Requeued;
    discard(numbers: &[u64]) -> Vec<u64>;
    trim(keep: u64) -> Vec<u64>;
    pause(generator: Option<bool>, handlers: Option<bool>) -> Paused;
    pause_group(group: &str, paused: bool) -> PausedGroup;
    limit(limits: &Limits) -> ();
    reshard(server: &str) -> bool;
    cancel(numbers: &[u64]) -> Vec<Cancelled>;
    cancel_group(group: &str) -> CancelledGroup;
    handover(to: Option<&str>) -> Handover;
    purge(force: bool) -> Purged;
    report(report: &Report) -> Reported;
    history(range: Range) -> History;
    published() -> u64;
    status() -> Status;
    held(node: &str, limit: u32) -> Vec<Held>;
    endings(numbers: &[u64]) -> Vec<Option<Ending>>;
    await_ending(number: u64, at_most: Duration) -> bool;
    find(number: u64) -> Found;
    unsettled() -> Vec<(u64, u64)>;
}
