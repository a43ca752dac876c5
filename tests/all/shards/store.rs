//! A shard in memory, behind a link that loses requests and answers, and that is away at times; and who uses it may be dead.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queenright::engine::memory::{Local, State};
use queenright::engine::rules::{Link, Steps};
use queenright::engine::sharded::process_of;
use queenright::engine::{StoreInfo, Wake};
use queenright::error::{Absence, Error, Result};

/// What all links have in common.
pub struct Weather {
    away: Vec<AtomicBool>,
    /// Of a thousand calls so many requests, and so many answers, are lost.
    lost: AtomicU32,
    unanswered: AtomicU32,
    /// How many exchanges were made.
    pub exchanges: AtomicU64,
    /// Which process has joined under which name.
    joined: Mutex<Vec<(String, Arc<AtomicBool>)>>,
}

impl Weather {
    pub fn new(shards: usize) -> Self {
        Self {
            away: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            lost: AtomicU32::new(0),
            unanswered: AtomicU32::new(0),
            exchanges: AtomicU64::new(0),
            joined: Mutex::default(),
        }
    }

    pub fn set(&self, lost: u32, unanswered: u32) {
        self.lost.store(lost, Ordering::Relaxed);
        self.unanswered.store(unanswered, Ordering::Relaxed);
    }

    /// A shard goes away, or comes back.
    pub fn toggle(&self, shard: usize) {
        self.away[shard].fetch_xor(true, Ordering::Relaxed);
    }

    pub fn clear(&self) {
        self.set(0, 0);
        self.away.iter().for_each(|away| away.store(false, Ordering::Relaxed));
    }

    /// The one of these processes that has this name.
    pub fn process_of(&self, node: &str, processes: &[Arc<AtomicBool>]) -> Option<usize> {
        let joined = self.joined.lock().expect("whole");
        let (_, process) = joined.iter().find(|(name, _)| *name == process_of(node))?;
        processes.iter().position(|other| Arc::ptr_eq(other, process))
    }
}

pub struct Store {
    pub local: Local,
    pub shard: usize,
    pub weather: Arc<Weather>,
    pub dead: Arc<AtomicBool>,
}

fn chance(of_thousand: u32) -> bool {
    fastrand::u32(..1000) < of_thousand
}

fn is_away(reason: &str) -> Error {
    Error::Away {
        store: "a shard".into(),
        absence: Absence::Silent,
        reason: reason.into(),
    }
}

impl Store {
    /// The way there, or back.
    async fn travel(&self, lost: u32) -> Result<()> {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..1500))).await;
        if self.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.weather.away[self.shard].load(Ordering::Relaxed) || chance(lost) {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..30))).await;
            return Err(is_away("nobody answers"));
        }
        Ok(())
    }
}

impl Steps for Store {
    type Store<'a> = State;

    async fn step<A, T, F>(&self, link: Link, args: &A, verb: F) -> Result<T>
    where
        A: ToOwned<Owned: Send> + Sync + ?Sized + 'static,
        T: Send + 'static,
        F: FnOnce(&mut State, u64, &A) -> Result<T> + Send + 'static,
    {
        self.travel(self.weather.lost.load(Ordering::Relaxed)).await?;
        if matches!(link, Link::Exchange) {
            self.weather.exchanges.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.local.state().queue.back().map(|pack| (pack.first(), pack.epoch()));
        // A process has names that begin alike in all shards: those of the home shard tell.
        let is_home = self.shard == 0;
        let members: Vec<String> = if is_home {
            self.local.state().nodes.keys().cloned().collect()
        } else {
            Vec::new()
        };
        let answer = Steps::step(&self.local, link, args, verb).await;
        {
            let state = self.local.state();
            // What an old generator wrote comes before the claim, what the new one writes after it.
            if let (Some((first, epoch)), Some(last)) = (before, state.queue.back()) {
                assert!(
                    last.first() < first || last.epoch() >= epoch,
                    "epochs go up along numbers"
                );
            }
            for node in state.nodes.keys().filter(|node| is_home && !members.contains(node)) {
                let named = (process_of(node).to_string(), self.dead.clone());
                self.weather.joined.lock().expect("whole").push(named);
            }
        }
        self.travel(self.weather.unanswered.load(Ordering::Relaxed)).await?;
        answer
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        self.travel(0).await?;
        Steps::listen(&self.local, wake, at_most).await
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo::default())
    }
}
