//! The queue in an SQLite file, for one machine: nothing to install, no server whose death would stop the rest.
//!
//! Any number of processes share the file. Each verb is one `BEGIN IMMEDIATE` transaction over the same packs, epochs,
//! fences and leases as in Redis; the logic is that of the `verbs` module, the tables are in
//! `sqlite/tables.rs`. With `synchronous` NORMAL (the default) a killed process loses nothing, and a power cut may take
//! back the last transactions, never tear one; with FULL it takes nothing back.
//!
//! One limit: a process that is frozen (SIGSTOP) *inside* its transaction holds up all others until it goes on or is
//! killed. Transactions take microseconds, and whoever waits long says who holds the lock.

mod dump;
mod file;
mod tables;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::history::{History, Range, Report, Reported};
use super::rules::Rules;
use super::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Join, Joined, NodeId, Publish, Published, Push,
    Pushed, Reap, Reaped, Renewed, Status, Wake,
};
use crate::engine::{Handover, Paused, Purged};
use crate::engine::{Held, Requeued, StoreInfo};
use crate::error::{Error, Result};
use crate::settings::Names;
use file::refuse;
use tables::Tables;

pub use file::Database;

/// Between two looks at the bell. A look is a read of shared memory, no transaction.
const LOOK: Duration = Duration::from_millis(1);
/// How many free pages the generator gives back to the file system per beat, and how much log it leaves.
const VACUUM_PAGES: u32 = 256;

/// A queue in a file.
pub struct SqliteEngine {
    queue: Arc<Queue>,
    /// As in Redis: the beat's calls never wait behind an exchange of the same process.
    control: Arc<Mutex<Connection>>,
    exchange: Arc<Mutex<Connection>>,
    bell: Arc<Mutex<Connection>>,
    crown: Arc<Mutex<Connection>>,
}

struct Queue {
    database: Database,
    name: String,
    names: Names,
    #[cfg(feature = "mutants")]
    without: Option<String>,
    /// Instead of the clock of the machine, for tests.
    clock: Option<Arc<dyn Fn() -> u64 + Send + Sync>>,
}

impl SqliteEngine {
    /// Opens the file, and creates it if there is none.
    pub fn open(database: Database, queue: &str, names: &Names) -> Result<Self> {
        Self::with(Queue {
            database,
            name: queue.to_string(),
            names: names.clone(),
            #[cfg(feature = "mutants")]
            without: None,
            clock: None,
        })
    }

    /// The same with a clock of one's own and perhaps a guard taken out: for tests.
    #[doc(hidden)]
    pub fn for_tests(
        database: Database,
        queue: &str,
        names: &Names,
        clock: Arc<dyn Fn() -> u64 + Send + Sync>,
        without: Option<String>,
    ) -> Result<Self> {
        #[cfg(not(feature = "mutants"))]
        drop(without);
        Self::with(Queue {
            database,
            name: queue.to_string(),
            names: names.clone(),
            #[cfg(feature = "mutants")]
            without,
            clock: Some(clock),
        })
    }

    fn with(queue: Queue) -> Result<Self> {
        let connect = || {
            queue
                .database
                .connect()
                .map(|connection| Arc::new(Mutex::new(connection)))
        };
        Ok(Self {
            control: connect()?,
            exchange: connect()?,
            bell: connect()?,
            crown: connect()?,
            queue: Arc::new(queue),
        })
    }

    /// Runs one verb as one transaction, on a thread that may wait for the lock.
    async fn step<T: Send + 'static>(
        &self,
        connection: &Arc<Mutex<Connection>>,
        verb: impl FnOnce(&mut Tables, u64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (queue, connection) = (self.queue.clone(), connection.clone());
        blocking(move || queue.step(&connection, verb)).await
    }

    /// The whole queue as the state that it stands for: what the tests compare with the oracle.
    #[doc(hidden)]
    pub async fn dump(&self) -> Result<super::memory::State> {
        self.step(&self.control, |tables, _| tables.dump()).await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Error::Protocol {
            detail: format!("a transaction crashed: {error}"),
        })
    })
}

impl Queue {
    fn step<T>(&self, connection: &Mutex<Connection>, verb: impl FnOnce(&mut Tables, u64) -> Result<T>) -> Result<T> {
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| refuse(&self.database, &error))?;
        // Read after the lock is held: a wait for it must not count twice.
        let now_ms = self.clock.as_ref().map_or_else(file::uptime_ms, |clock| clock());
        let mut tables = Tables::new(&transaction, &self.database, &self.name, &self.names);
        tables.tells_time = self.clock.is_none();
        #[cfg(feature = "mutants")]
        tables.without.clone_from(&self.without);
        let answer = verb(&mut tables, now_ms)?;
        transaction.commit().map_err(|error| refuse(&self.database, &error))?;
        Ok(answer)
    }

    /// Waits until a bell rings. Other processes' commits show in shared memory; only then the bell is looked at.
    fn listen(&self, connection: &Mutex<Connection>, wake: Wake, until: Instant) -> Result<bool> {
        let mut seen = None;
        loop {
            let version = {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                connection
                    .pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))
                    .map_err(|error| refuse(&self.database, &error))?
            };
            if seen != Some(version) {
                seen = Some(version);
                let rung = {
                    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    tables::rings(&connection, &self.name, wake).map_err(|error| refuse(&self.database, &error))?
                };
                if rung && self.step(connection, |tables, _| tables.answer(wake))? {
                    return Ok(true);
                }
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Engine for SqliteEngine {
    /// Opening the file has checked it.
    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo {
            kind: "SQLite".into(),
            version: rusqlite::version().into(),
            persistence: "a file".into(),
            ..StoreInfo::default()
        })
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.dump().await?.unsettled())
    }

    async fn join(&self, join: &Join) -> Result<Joined> {
        let join = join.clone();
        self.step(&self.control, move |tables, now| tables.join(now, &join))
            .await
    }

    async fn beat(&self, beat: &Beat) -> Result<Renewed> {
        let beat = beat.clone();
        let pulse = self
            .step(&self.control, move |tables, now| tables.beat(now, &beat))
            .await?;
        if matches!(&pulse, Renewed::Alive(member) if member.generator) {
            let (queue, connection) = (self.queue.clone(), self.control.clone());
            blocking(move || {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                queue.database.tidy(&connection, VACUUM_PAGES);
                Ok(())
            })
            .await?;
        }
        Ok(pulse)
    }

    async fn publish(&self, publish: &Publish) -> Result<Published> {
        let publish = publish.clone();
        self.step(&self.control, move |tables, now| tables.publish(now, &publish))
            .await
    }

    async fn push(&self, push: &Push) -> Result<Pushed> {
        let push = push.clone();
        self.step(&self.control, move |tables, now| tables.push(now, &push))
            .await
    }

    async fn exchange(&self, exchange: &Exchange) -> Result<Exchanged> {
        let exchange = exchange.clone();
        self.step(&self.exchange, move |tables, now| tables.exchange(now, &exchange))
            .await
    }

    async fn reap(&self, reap: &Reap) -> Result<Reaped> {
        let reap = reap.clone();
        self.step(&self.control, move |tables, now| tables.reap(now, &reap))
            .await
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        let node = node.clone();
        self.step(&self.control, move |tables, _| tables.leave(&node)).await
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        let connection = match wake {
            Wake::Bell => self.bell.clone(),
            Wake::Crown => self.crown.clone(),
        };
        let (queue, until) = (self.queue.clone(), Instant::now() + at_most);
        blocking(move || queue.listen(&connection, wake, until)).await
    }

    async fn collect(&self, collect: &Collect) -> Result<Collected> {
        let collect = collect.clone();
        self.step(&self.control, move |tables, now| tables.collect(now, &collect))
            .await
    }

    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        let reader = reader.to_string();
        self.step(&self.control, move |tables, now| tables.hold(now, &reader, lease_ms))
            .await
    }

    async fn release(&self, reader: &str, expired: bool) -> Result<()> {
        let reader = reader.to_string();
        self.step(&self.control, move |tables, now| tables.release(now, &reader, expired))
            .await
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        self.step(&self.control, move |tables, _| Rules::failed(tables, from, limit))
            .await
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        self.step(&self.control, move |tables, _| Rules::latest(tables, below, limit))
            .await
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        let node = node.to_string();
        self.step(&self.control, move |tables, _| Rules::held(tables, &node, limit))
            .await
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        let numbers = numbers.to_vec();
        self.step(&self.control, move |tables, _| Rules::requeue(tables, &numbers))
            .await
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        let numbers = numbers.to_vec();
        self.step(&self.control, move |tables, _| Rules::discard(tables, &numbers))
            .await
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        self.step(&self.control, move |tables, _| Rules::trim(tables, keep))
            .await
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        let step = self.step(&self.control, move |tables, _| tables.pause(generator, handlers));
        step.await?.ok_or_else(|| self.no_queue())
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let to = to.map(str::to_string);
        let step = self.step(&self.control, move |tables, now| tables.handover(now, to.as_deref()));
        step.await?.ok_or_else(|| self.no_queue())
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        let step = self.step(&self.control, move |tables, now| tables.remove(now, force));
        step.await?.ok_or_else(|| self.no_queue())
    }

    /// Not on the beat's connection: a report that waits for the lock must not keep a beat.
    async fn report(&self, report: &Report) -> Result<Reported> {
        let report = report.clone();
        self.step(&self.crown, move |tables, now| tables.take_report(now, &report))
            .await
    }

    async fn history(&self, range: Range) -> Result<History> {
        let step = self.step(&self.control, move |tables, now| Rules::history(tables, now, range));
        step.await?.ok_or_else(|| self.no_queue())
    }

    async fn status(&self) -> Result<Status> {
        let status = self.step(&self.control, |tables, now| tables.status(now)).await?;
        status.ok_or_else(|| self.no_queue())
    }
}

impl SqliteEngine {
    fn no_queue(&self) -> Error {
        Error::NoQueue {
            queue: self.queue.name.clone(),
        }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        &self.queue.database.path
    }
}
