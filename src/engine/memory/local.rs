//! The state behind a lock, as an engine: to test one's own handlers without a store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::State;
use crate::engine::rules::{Link, Steps};
use crate::engine::store::Asked;
use crate::engine::{Sights, StoreInfo, Wake};
use crate::error::Result;
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
/// use queenright::engine::{Engine, memory::Local};
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
    /// Something was done: a message may have ended.
    stepped: Arc<Notify>,
    sights: Arc<Sights>,
    /// What this clone knows of the queue's names and shards, if that is not what the first one knows.
    names: Option<Names>,
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
            stepped: Arc::new(Notify::new()),
            sights: Arc::default(),
            names: None,
        }
    }

    /// The same queue, as someone sees it who knows these names and shards.
    #[must_use]
    pub fn named(&self, names: &Names) -> Self {
        Self {
            names: Some(names.clone()),
            ..self.clone()
        }
    }

    /// The same as a shard of a queue that has so many; 0 is the home shard.
    #[must_use]
    pub fn shard(self, shard: usize, shards: usize) -> Self {
        let mut state = self.state();
        state.names = state.names.of_shard(shard, shards);
        drop(state);
        self
    }

    /// The whole state, to look at or to change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps for Local {
    type Store<'a> = State;

    /// Runs one verb and wakes those who listen.
    async fn step<A, T, F>(&self, link: Link, args: &A, verb: F) -> Result<T>
    where
        A: ToOwned<Owned: Send> + Sync + ?Sized + 'static,
        T: Send + 'static,
        F: FnOnce(&mut State, u64, &A) -> Result<T> + Send + 'static,
    {
        let now_ms = (self.now_ms)();
        let mut state = self.state();
        if let Some(names) = &self.names {
            state.names.clone_from(names);
        }
        let answer = verb(&mut state, now_ms, args);
        if state.bell || state.crown_bell {
            self.rung.notify_waiters();
        }
        // Looks change nothing.
        if link != Link::Aside {
            self.stepped.notify_waiters();
        }
        answer
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        let heard = async {
            loop {
                let next = self.rung.notified();
                tokio::pin!(next);
                next.as_mut().enable();
                // Not in a step: while the other bell stays rung, that would wake this very loop for ever.
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

    async fn await_ending(&self, number: u64, at_most: Duration) -> Result<bool> {
        let heard = async {
            loop {
                let mut next = std::pin::pin!(self.stepped.notified());
                next.as_mut().enable();
                if matches!(self.state().asked.get(&number), Some(Asked::Ended(_))) {
                    return;
                }
                next.await;
            }
        };
        Ok(tokio::time::timeout(at_most, heard).await.is_ok())
    }

    fn sights(&self) -> Option<&Sights> {
        Some(&self.sights)
    }

    async fn show(&self, node: &str, shows: bool) -> Result<()> {
        let mut state = self.state();
        if shows {
            state.connected.0.insert(node.to_string());
        } else {
            state.connected.0.remove(node);
        }
        Ok(())
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo {
            kind: "memory".into(),
            persistence: "none".into(),
            ..StoreInfo::default()
        })
    }
}
