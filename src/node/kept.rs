//! With `--replicas`, what was written is told when replicas have it. The work goes on meanwhile: what is not told yet waits in a line,
//! and one wait for the replicas serves many calls.
//!
//! A failover may take back what was not told. Messages of a generator that still reigns are then published again, with the same
//! numbers and the same bytes: it has kept them until now. An outcome that was taken back is given anew by whoever gets the message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::engine::{Engine, Publish, Published, Ticket};
use crate::error::Result;
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::context::Context;
use crate::node::event::Event;
use crate::node::meter::Meter;

/// So many publishes may wait to be told: 16 MB of messages.
pub(crate) const PUBLISHES_MAX: usize = 64;
/// And so many exchanges,
pub(crate) const EXCHANGES_MAX: usize = 1024;
/// with so many outcomes in all: somewhat more than a lane settles while replicas are asked once.
const OUTCOMES_MAX: u32 = 1 << 17;

/// A call that was answered, and is told when replicas have it.
pub(crate) struct Untold {
    pub ticket: Ticket,
    /// How many outcomes it has.
    pub outcomes: u32,
    /// What is published again if it was taken back.
    pub publish: Option<Publish>,
    /// Is told what became of it.
    pub tell: Box<dyn FnOnce(Fate, Option<Publish>) + Send>,
}

impl Untold {
    /// How many messages and outcomes are told with it.
    fn count(&self) -> u64 {
        u64::from(self.outcomes) + self.publish.as_ref().map_or(0, Publish::count)
    }
}

/// What is asked of an engine here.
pub(crate) trait Keeps: Send + Sync + 'static {
    fn kept(&self, ticket: &Ticket) -> impl Future<Output = Result<bool>> + Send;
    fn publish_again(&self, publish: &Publish) -> impl Future<Output = Result<(Published, Option<Ticket>)>> + Send;
}

impl<E: Engine> Keeps for E {
    fn kept(&self, ticket: &Ticket) -> impl Future<Output = Result<bool>> + Send {
        Engine::kept(self, ticket)
    }

    async fn publish_again(&self, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
        let publish = Publish {
            again: true,
            ..publish.clone()
        };
        self.publish_ahead(&publish).await
    }
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    TakenBack,
}

/// The line of calls that wait to be told.
pub(crate) struct Line {
    calls: Option<mpsc::Sender<(Untold, OwnedSemaphorePermit)>>,
    room: Arc<Semaphore>,
    telling: JoinHandle<()>,
    meter: Arc<Meter>,
    grace: Duration,
}

impl Line {
    /// None: nothing has to wait.
    pub(crate) fn of<E: Keeps>(context: &Context<E>, calls_max: usize) -> Option<Self> {
        if context.settings.replicas == 0 {
            return None;
        }
        let (calls, waiting) = mpsc::channel(calls_max);
        let telling = Telling::new(context.clone());
        Some(Self {
            calls: Some(calls),
            room: Arc::new(Semaphore::new(OUTCOMES_MAX as usize)),
            telling: tokio::spawn(telling.run(waiting)),
            meter: context.meter.clone(),
            grace: context.settings.grace,
        })
    }

    /// Waits while the line is full.
    pub(crate) async fn add(&self, untold: Untold) {
        let outcomes = untold.outcomes.min(OUTCOMES_MAX);
        self.meter.untold.fetch_add(untold.count(), Ordering::Relaxed);
        let room = self.room.clone().acquire_many_owned(outcomes).await;
        if let (Some(calls), Ok(room)) = (&self.calls, room) {
            let _ = calls.send((untold, room)).await;
        }
    }

    /// Until all is told; after an error, which is to end the node, no longer than it may take to stop.
    pub(crate) async fn told(&mut self, ended: &Result<()>) {
        self.calls = None;
        let telling = &mut self.telling;
        if ended.is_ok() {
            let _ = telling.await;
        } else {
            let _ = tokio::time::timeout(self.grace, telling).await;
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

struct Telling<E> {
    context: Context<E>,
    /// Too few replicas were told of.
    waits: bool,
    /// How many messages were published again.
    replayed: u64,
    /// How many could not be.
    unknown: u64,
}

impl<E: Keeps> Telling<E> {
    fn new(context: Context<E>) -> Self {
        Self {
            context,
            waits: false,
            replayed: 0,
            unknown: 0,
        }
    }

    async fn run(mut self, mut waiting: mpsc::Receiver<(Untold, OwnedSemaphorePermit)>) {
        while let Some((untold, _room)) = waiting.recv().await {
            let count = untold.count();
            let Untold {
                ticket, publish, tell, ..
            } = untold;
            let fate = self.fate(ticket, publish.as_ref()).await;
            if fate == Fate::Kept && std::mem::take(&mut self.waits) {
                self.context.tell_own(Event::Reconnected);
            }
            if let (Fate::TakenBack, Some(publish)) = (fate, &publish) {
                self.unknown += publish.count();
            }
            tell(fate, publish);
            self.context.meter.untold.fetch_sub(count, Ordering::Relaxed);
            if self.replayed + self.unknown > 0 && waiting.is_empty() {
                let (messages, unknown) = (std::mem::take(&mut self.replayed), std::mem::take(&mut self.unknown));
                self.context.tell_own(Event::Replayed { messages, unknown });
            }
        }
    }

    /// Waits until it is known.
    async fn fate(&mut self, mut ticket: Ticket, publish: Option<&Publish>) -> Fate {
        let mut backoff = Backoff::new(&self.context.settings);
        if !guard("kept-first") {
            return Fate::Kept;
        }
        loop {
            match self.context.engine.kept(&ticket).await {
                Ok(true) => return Fate::Kept,
                Ok(false) => match publish {
                    Some(publish) => match self.replay(publish).await {
                        Some(Some(again)) => ticket = again,
                        Some(None) => return Fate::Kept,
                        None => return Fate::TakenBack,
                    },
                    None => return Fate::TakenBack,
                },
                // Whatever it is: what was done is done, and may be told when the store says so.
                Err(error) => {
                    // The beat tells of a store that is away.
                    if !self.waits && !backoff.is_fresh() && error.is_unable() {
                        self.waits = true;
                        let reason = error.to_string();
                        self.context.tell_own(Event::Away { reason });
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    /// Publishes the same messages again. None: others reign, or have taken the numbers.
    async fn replay(&mut self, publish: &Publish) -> Option<Option<Ticket>> {
        let mut backoff = Backoff::new(&self.context.settings);
        // Everything that the node publishes waits behind this.
        let mut hearing = Backoff::up_to(Duration::from_millis(self.context.settings.crown_ms() / 8));
        loop {
            let reigns = {
                let standing = self.context.standing.borrow();
                let reign = standing.reign.as_ref();
                standing.node == publish.node && reign.is_some_and(|reign| reign.epoch == publish.epoch)
            };
            if !reigns {
                return None;
            }
            match self.context.engine.publish_again(publish).await {
                Ok((Published::Ok { .. }, ticket)) => {
                    self.replayed += publish.count();
                    return Some(ticket);
                }
                // The beat finds out whether this node still reigns, and is heard by another server.
                Ok((Published::Fenced | Published::Gap | Published::Unheard, _)) => {
                    if hearing.is_fresh() {
                        self.context.requests.beat_now();
                    }
                    hearing.wait().await;
                }
                Ok((Published::Full | Published::Paused, _)) => backoff.wait().await,
                Err(error) if error.may_be_mended() => backoff.wait().await,
                Ok((Published::Moved { .. } | Published::Finished, _)) | Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests;
