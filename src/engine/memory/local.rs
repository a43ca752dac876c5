//! The state behind a lock, as an engine: for tests of one's own handlers, without a store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::State;
use crate::engine::history::{History, Range, Report, Reported};
use crate::engine::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Join, Joined, NodeId, Publish, Published, Push,
    Pushed, Reap, Reaped, Renewed, Status, Wake,
};
use crate::engine::{Handover, Paused, Purged};
use crate::engine::{Held, Requeued, StoreInfo};
use crate::error::{Error, Result};
use crate::settings::Names;

/// A queue inside this process. Clones share it.
///
/// [`Local::with_clock`] takes a clock that a test moves, so that leases run out without waiting:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use queenright::engine::{Engine, state::Local};
/// use queenright::{Message, Node, Settings, generate::Next, shutdown};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queenright::Result<()> {
/// let now_ms = Arc::new(AtomicU64::new(0));
/// let clock = now_ms.clone();
/// let engine = Arc::new(Local::with_clock("jobs", move || clock.load(Ordering::Relaxed)));
/// let generate = |_: Next| b"work".to_vec();
/// let handle = |_: Message| async { Ok(Vec::new()) };
/// let settings = Settings { interval: Duration::from_millis(1), ..Settings::default() };
///
/// // The first node becomes the generator. As time stands still, it stays that.
/// let (stopper, shutdown) = shutdown::channel();
/// let node = Node::new(engine.clone(), settings.clone(), generate, handle);
/// let running = tokio::spawn(node.run(shutdown));
/// while engine.status().await.map_or(0, |status| status.published) < 3 {
///     tokio::time::sleep(Duration::from_millis(1)).await;
/// }
/// let status = engine.status().await?;
/// assert_eq!((status.epoch, status.nodes.len()), (1, 1));
///
/// // It leaves; the test lets an hour pass; what it published is still there.
/// stopper.stop();
/// running.await.expect("the node does not panic")?;
/// now_ms.store(3_600_000, Ordering::Relaxed);
/// let status = engine.status().await?;
/// assert_eq!((status.generator, status.queued), (None, status.published));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Local {
    state: Arc<Mutex<State>>,
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    rung: Arc<Notify>,
}

impl Local {
    /// A queue whose clock is tokio's: real in a program, and moved by the test under a paused runtime.
    #[must_use]
    pub fn new(queue: &str) -> Self {
        let start = tokio::time::Instant::now();
        Self::with_clock(queue, move || {
            u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// A queue with a clock of one's own, in milliseconds.
    #[must_use]
    pub fn with_clock(queue: &str, now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(queue, &Names::default()))),
            now_ms: Arc::new(now_ms),
            rung: Arc::new(Notify::new()),
        }
    }

    /// The whole state, to look at or to change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn no_queue(&self) -> Error {
        Error::NoQueue {
            queue: self.state().queue_name.clone(),
        }
    }

    /// Runs one verb and wakes those who listen.
    fn call<T>(&self, verb: impl FnOnce(&mut State, u64) -> T) -> T {
        let now_ms = (self.now_ms)();
        let mut state = self.state();
        let answer = verb(&mut state, now_ms);
        if state.bell || state.crown_bell {
            self.rung.notify_waiters();
        }
        answer
    }
}

impl Engine for Local {
    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo {
            kind: "memory".into(),
            persistence: "none".into(),
            ..StoreInfo::default()
        })
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.state().unsettled())
    }

    async fn join(&self, join: &Join) -> Result<Joined> {
        self.call(|state, now| state.join(now, join))
    }

    async fn beat(&self, beat: &Beat) -> Result<Renewed> {
        Ok(self.call(|state, now| state.beat(now, beat)))
    }

    async fn publish(&self, publish: &Publish) -> Result<Published> {
        self.call(|state, now| state.publish(now, publish))
    }

    async fn push(&self, push: &Push) -> Result<Pushed> {
        self.call(|state, now| state.push(now, push))
    }

    async fn exchange(&self, exchange: &Exchange) -> Result<Exchanged> {
        Ok(self.call(|state, now| state.exchange(now, exchange)))
    }

    async fn reap(&self, reap: &Reap) -> Result<Reaped> {
        Ok(self.call(|state, now| state.reap(now, reap)))
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        self.call(|state, _| state.leave(node));
        Ok(())
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        let heard = async {
            loop {
                let next = self.rung.notified();
                tokio::pin!(next);
                next.as_mut().enable();
                // Not through `call`: while the other bell stays rung, that would wake this very loop for ever.
                let rung = {
                    let mut state = self.state();
                    std::mem::take(match wake {
                        Wake::Bell => &mut state.bell,
                        Wake::Crown => &mut state.crown_bell,
                    })
                };
                if rung {
                    return;
                }
                next.await;
            }
        };
        Ok(tokio::time::timeout(at_most, heard).await.is_ok())
    }

    async fn collect(&self, collect: &Collect) -> Result<Collected> {
        Ok(self.call(|state, now| state.collect(now, collect)))
    }

    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        Ok(self.call(|state, now| state.hold(now, reader, lease_ms)))
    }

    async fn release(&self, reader: &str, expired: bool) -> Result<()> {
        self.call(|state, now| state.release(now, reader, expired));
        Ok(())
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        Ok(self.call(|state, _| state.failed(from, limit)))
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        Ok(self.call(|state, _| state.latest(below, limit)))
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        Ok(self.call(|state, _| state.held(node, limit)))
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        Ok(self.call(|state, _| state.requeue(numbers)))
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        Ok(self.call(|state, _| state.discard(numbers)))
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        Ok(self.call(|state, _| state.trim(keep)))
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        let paused = self.call(|state, _| state.pause(generator, handlers));
        paused.ok_or_else(|| self.no_queue())
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let answer = self.call(|state, now| state.handover(now, to));
        answer.ok_or_else(|| self.no_queue())
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        let purged = self.call(|state, now| state.remove(now, force));
        purged.ok_or_else(|| self.no_queue())
    }

    async fn report(&self, report: &Report) -> Result<Reported> {
        Ok(self.call(|state, now| state.report(now, report)))
    }

    async fn history(&self, range: Range) -> Result<History> {
        let history = self.call(|state, now| state.history(now, range));
        history.ok_or_else(|| self.no_queue())
    }

    async fn status(&self) -> Result<Status> {
        self.call(State::status)?.ok_or_else(|| self.no_queue())
    }
}
