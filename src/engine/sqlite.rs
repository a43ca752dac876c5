//! The queue in an SQLite file, for one machine: nothing to install, no server whose death would stop the rest.
//!
//! Any number of processes share the file. Each verb is one `BEGIN IMMEDIATE` transaction over the same packs, epochs,
//! fences and leases as in Redis; the logic is that of [`rules`](super::rules), the queue is kept in the tables of
//! `sqlite/tables`. With `synchronous` NORMAL (the default) a killed process loses nothing, and a power cut may take
//! back the last transactions, never tear one; with FULL it takes nothing back.
//!
//! One limit: a process that is frozen (SIGSTOP) *inside* its transaction holds up all others until it goes on or is
//! killed. Transactions take microseconds, and a process that waits long says who holds the lock.

mod alive;
mod dump;
mod file;
mod look;
mod tables;

use std::borrow::Borrow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::memory::State;
use super::rules::{Link, Steps};
use super::{Sights, StoreInfo, Wake};
use crate::error::{Error, Result};
use crate::settings::Names;
use alive::Alive;
use file::refuse;
use tables::Tables;

pub use file::Database;
pub use look::SqliteLook;

/// Between two looks at the bell. A look is a read of shared memory, no transaction.
const LOOK: Duration = Duration::from_millis(1);
/// A wait for an outcome looks around after this time.
const LISTEN_MAX: Duration = Duration::from_secs(1);
/// How many free pages the generator gives back to the file system per beat, and how much log it leaves.
const VACUUM_PAGES: u32 = 256;

/// A clock, in milliseconds.
type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A queue in a file.
pub struct SqliteEngine {
    queue: Arc<Queue>,
    /// As in Redis: the beat's calls never wait behind an exchange of the same process.
    control: Arc<Mutex<Connection>>,
    exchange: Arc<Mutex<Connection>>,
    bell: Arc<Mutex<Connection>>,
    /// Waits for the crown, and carries reports.
    crown: Arc<Mutex<Connection>>,
    alive: Arc<Alive>,
    watches: bool,
}

struct Queue {
    database: Database,
    name: String,
    names: Names,
    /// Instead of the clock of the machine, for tests.
    clock: Option<Clock>,
    #[cfg(feature = "mutants")]
    without: Option<String>,
}

impl SqliteEngine {
    /// Opens the file, and creates it if there is none.
    pub fn open(database: Database, queue: &str, names: &Names) -> Result<Self> {
        Self::connect(Queue::new(database, queue, names, None))
    }

    /// The same with a clock of one's own, in milliseconds, so that a test can let leases run out without waiting.
    pub fn with_clock(
        database: Database,
        queue: &str,
        names: &Names,
        now_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::connect(Queue::new(database, queue, names, Some(Arc::new(now_ms))))
    }

    /// The same with a clock of one's own and a guard taken out.
    #[cfg(feature = "mutants")]
    pub fn mutant(
        database: Database,
        queue: &str,
        names: &Names,
        now_ms: impl Fn() -> u64 + Send + Sync + 'static,
        without: Option<String>,
    ) -> Result<Self> {
        Self::connect(Queue {
            without,
            ..Queue::new(database, queue, names, Some(Arc::new(now_ms)))
        })
    }

    fn connect(queue: Queue) -> Result<Self> {
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
            alive: Arc::default(),
            watches: true,
        })
    }

    /// Whether its nodes are seen to be there by a file that each holds, and look at those of others.
    #[must_use]
    pub fn watching(self, watches: bool) -> Self {
        Self { watches, ..self }
    }

    /// Lets go of what shows that a node is there, as if its process had died: for tests.
    #[cfg(feature = "mutants")]
    pub fn hide(&self, node: &str) {
        self.alive.show(&self.queue.database.path, node, false);
    }

    /// Everything that is kept of the queue, to be compared with the oracle. Reads all of it: not for production.
    pub async fn dump(&self) -> Result<State> {
        self.step(Link::Control, &(), |tables, _, ()| tables.dump()).await
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        &self.queue.database.path
    }
}

impl Steps for SqliteEngine {
    type Store<'a> = Tables<'a>;

    /// Runs one verb as one transaction, on a thread that may wait for the lock.
    async fn step<A, T, F>(&self, link: Link, args: &A, verb: F) -> Result<T>
    where
        A: ToOwned<Owned: Send> + Sync + ?Sized + 'static,
        T: Send + 'static,
        F: FnOnce(&mut Tables<'_>, u64, &A) -> Result<T> + Send + 'static,
    {
        let connection = match link {
            Link::Control => self.control.clone(),
            Link::Exchange => self.exchange.clone(),
            Link::Aside => self.crown.clone(),
        };
        let (queue, args) = (self.queue.clone(), args.to_owned());
        blocking(move || queue.step(&connection, |tables, now| verb(tables, now, args.borrow()))).await
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        let connection = match wake {
            Wake::Bell => self.bell.clone(),
            Wake::Crown => self.crown.clone(),
        };
        let (queue, until) = (self.queue.clone(), Instant::now() + at_most);
        blocking(move || queue.listen(&connection, wake, until)).await
    }

    async fn await_ending(&self, number: u64, at_most: Duration) -> Result<bool> {
        // A thread of its own waits: not for long, should its caller give up.
        let until = Instant::now() + at_most.min(LISTEN_MAX);
        let (queue, connection) = (self.queue.clone(), self.crown.clone());
        blocking(move || queue.await_ending(&connection, number, until)).await
    }

    fn sights(&self) -> Option<&Sights> {
        self.watches.then_some(&self.alive.sights)
    }

    async fn show(&self, node: &str, shows: bool) -> Result<()> {
        if !self.watches {
            return Ok(());
        }
        let (alive, path, node) = (self.alive.clone(), self.path().clone(), node.to_string());
        blocking(move || {
            alive.show(&path, &node, shows);
            Ok(())
        })
        .await
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(store_info())
    }

    async fn tidy(&self) -> Result<()> {
        let (queue, connection) = (self.queue.clone(), self.control.clone());
        blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            queue.database.tidy(&connection, VACUUM_PAGES);
            Ok(())
        })
        .await
    }
}

fn store_info() -> StoreInfo {
    StoreInfo {
        kind: "SQLite".into(),
        version: rusqlite::version().into(),
        persistence: "a file".into(),
        ..StoreInfo::default()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Error::Crashed {
            what: "a transaction".into(),
        })
    })
}

impl Queue {
    fn new(database: Database, queue: &str, names: &Names, clock: Option<Clock>) -> Self {
        Self {
            database,
            name: queue.to_string(),
            names: names.clone(),
            clock,
            #[cfg(feature = "mutants")]
            without: None,
        }
    }

    fn step<T>(&self, connection: &Mutex<Connection>, verb: impl FnOnce(&mut Tables, u64) -> Result<T>) -> Result<T> {
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        self.within(&mut connection, TransactionBehavior::Immediate, verb)
    }

    fn within<T>(
        &self,
        connection: &mut Connection,
        behavior: TransactionBehavior,
        verb: impl FnOnce(&mut Tables, u64) -> Result<T>,
    ) -> Result<T> {
        let transaction = connection
            .transaction_with_behavior(behavior)
            .map_err(|error| refuse(&self.database, &error))?;
        // Read after the lock is held: a wait for it must not count twice.
        let now_ms = self.clock.as_ref().map_or_else(file::uptime_ms, |clock| clock());
        let mut tables = Tables {
            transaction: &transaction,
            database: &self.database,
            queue: &self.name,
            names: &self.names,
            tells_time: self.clock.is_none(),
            #[cfg(feature = "mutants")]
            without: self.without.as_deref(),
        };
        let answer = verb(&mut tables, now_ms)?;
        transaction.commit().map_err(|error| refuse(&self.database, &error))?;
        Ok(answer)
    }

    /// Waits until a message has ended, by the same looks.
    fn await_ending(&self, connection: &Mutex<Connection>, number: u64, until: Instant) -> Result<bool> {
        let mut seen = None;
        loop {
            let ended = {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                let mut look = || -> rusqlite::Result<bool> {
                    let version = connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))?;
                    Ok(seen.replace(version) != Some(version) && tables::has_ended(&connection, &self.name, number)?)
                };
                look().map_err(|error| refuse(&self.database, &error))?
            };
            if ended || Instant::now() >= until {
                return Ok(ended);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until a bell rings. Other processes' commits show in shared memory; only then the bell is looked at.
    fn listen(&self, connection: &Mutex<Connection>, wake: Wake, until: Instant) -> Result<bool> {
        let mut seen = None;
        loop {
            let rung = {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                let mut look = || -> rusqlite::Result<bool> {
                    let version = connection.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))?;
                    Ok(seen.replace(version) != Some(version) && tables::rings(&connection, &self.name, wake)?)
                };
                look().map_err(|error| refuse(&self.database, &error))?
            };
            if rung && self.step(connection, |tables, _| tables.answer(wake))? {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
    }
}
