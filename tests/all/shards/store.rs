//! A shard in memory, behind a link that loses requests and answers, and that is away at times; and who uses it may be dead. Its replica follows some
//! milliseconds behind, may be cut off, and may take its place.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queenright::engine::memory::{Local, State};
use queenright::engine::rules::{Link, Steps};
use queenright::engine::sharded::process_of;
use queenright::engine::{StoreInfo, Ticket, Wake};
use queenright::error::{Absence, Error, Result};
use tokio::time::Instant;

/// What all links have in common.
pub struct Weather {
    away: Vec<AtomicBool>,
    /// Of a thousand calls so many requests, and so many answers, are lost.
    lost: AtomicU32,
    unanswered: AtomicU32,
    /// Of each shard, if they have one.
    replicas: Vec<Mutex<Replica>>,
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
            replicas: Vec::new(),
            exchanges: AtomicU64::new(0),
            joined: Mutex::default(),
        }
    }

    /// The same, and each shard has a replica that is so far behind.
    pub fn with_replicas(mut self, shards: &[Local], lag: Duration) -> Self {
        let replica = |shard: &Local| {
            Mutex::new(Replica {
                lag,
                has: (0, shard.state().clone()),
                calls: 0,
                on_their_way: VecDeque::new(),
                is_cut_off: false,
                lost: Vec::new(),
            })
        };
        self.replicas = shards.iter().map(replica).collect();
        self
    }

    /// The replica of a shard gets nothing more, or again.
    pub fn cut_off(&self, shard: usize, is_cut_off: bool) {
        if let Some(replica) = self.replicas.get(shard) {
            replica.lock().expect("whole").is_cut_off = is_cut_off;
        }
    }

    /// The replica of a shard takes its place, with what it has, and another one follows it.
    pub fn go_back(&self, shard: usize, local: &Local) {
        if let Some(replica) = self.replicas.get(shard) {
            *local.state() = replica.lock().expect("whole").promote();
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
        (0..self.replicas.len()).for_each(|shard| self.cut_off(shard, false));
    }

    /// The one of these processes that has this name.
    pub fn process_of(&self, node: &str, processes: &[Arc<AtomicBool>]) -> Option<usize> {
        let joined = self.joined.lock().expect("whole");
        let (_, process) = joined.iter().find(|(name, _)| *name == process_of(node))?;
        processes.iter().position(|other| Arc::ptr_eq(other, process))
    }
}

/// What the replica of a shard has.
struct Replica {
    lag: Duration,
    /// How many calls the shard has carried out, in all its lives.
    calls: u64,
    /// Up to which call the replica has them, and what it looks like.
    has: (u64, State),
    /// What it does not have yet, and when it gets it.
    on_their_way: VecDeque<(Instant, u64, State)>,
    is_cut_off: bool,
    /// Calls behind the first number, up to the second, were lost.
    lost: Vec<(u64, u64)>,
}

impl Replica {
    fn follow(&mut self, state: &State) -> u64 {
        self.calls += 1;
        let at = Instant::now() + self.lag;
        self.on_their_way.push_back((at, self.calls, state.clone()));
        self.arrive();
        self.calls
    }

    fn arrive(&mut self) {
        let now = Instant::now();
        while !self.is_cut_off && self.on_their_way.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, call, state) = self.on_their_way.pop_front().expect("one");
            self.has = (call, state);
        }
    }

    fn promote(&mut self) -> State {
        self.arrive();
        self.on_their_way.clear();
        self.lost.push((self.has.0, self.calls));
        (self.has.0, self.is_cut_off) = (self.calls, false);
        self.has.1.clone()
    }

    /// None: it may still get it.
    fn fate(&mut self, call: u64) -> Option<bool> {
        self.arrive();
        let is_lost = |(kept, until): &(u64, u64)| call > *kept && call <= *until;
        if self.lost.iter().any(is_lost) {
            return Some(false);
        }
        (self.has.0 >= call).then_some(true)
    }
}

pub struct Store {
    pub local: Local,
    pub shard: usize,
    pub weather: Arc<Weather>,
    pub dead: Arc<AtomicBool>,
    /// The last call of each task.
    pub called: Mutex<HashMap<Option<tokio::task::Id>, u64>>,
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
            if let Some(replica) = self.weather.replicas.get(self.shard) {
                let call = replica.lock().expect("whole").follow(&state);
                self.called.lock().expect("whole").insert(tokio::task::try_id(), call);
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

    fn ticket(&self) -> Option<Ticket> {
        let called = self.called.lock().expect("whole").get(&tokio::task::try_id()).copied();
        called.map(|number| Ticket {
            key: "calls".into(),
            number,
            history: "".into(),
            at_leisure: false,
        })
    }

    async fn replicated(&self, ticket: &Ticket) -> Result<bool> {
        for _ in 0..10 {
            self.travel(0).await?;
            let replica = &self.weather.replicas[self.shard];
            let fate = replica.lock().expect("whole").fate(ticket.number);
            if let Some(fate) = fate {
                return Ok(fate);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(is_away("0 of 1 replicas have what was written"))
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo::default())
    }
}
