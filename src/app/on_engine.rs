//! Opens the engine that keeps a queue, and runs a command's work on it: the same work, whichever engine that is.

use std::sync::Arc;
use std::time::Duration;

use crate::app::args::sources::{PasswordFrom, Resolved, Store};
use crate::app::exit::Failure;
use crate::app::password;
use crate::app::run::runtime;
use crate::engine::Engine;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::{Place, RedisEngine, Server};
use crate::engine::sqlite::{SqliteEngine, SqliteLook};
use crate::settings::Settings;

/// Work on a queue.
pub(in crate::app) trait OnEngine {
    type Output;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Self::Output, Failure>;
}

/// Where a queue is kept.
pub(in crate::app) struct QueueAt<'a> {
    pub(in crate::app) store: &'a Store,
    /// Where the password comes from, if it is not in `store`.
    pub(in crate::app) password: Option<&'a PasswordFrom>,
    /// For people: never with user or password.
    pub(in crate::app) address: &'a str,
    pub(in crate::app) settings: &'a Settings,
    /// How long an answer may take at least; nodes give up sooner, since their leases depend on it.
    pub(in crate::app) answer_min: Duration,
    /// The work only looks: nothing is created, and no right to write is needed.
    pub(in crate::app) only_looks: bool,
}

impl<'a> QueueAt<'a> {
    pub(in crate::app) fn of(resolved: &'a Resolved, answer_min: Duration) -> Self {
        Self {
            store: &resolved.store,
            password: resolved.password.as_ref(),
            address: &resolved.address,
            settings: &resolved.settings,
            answer_min,
            only_looks: false,
        }
    }

    pub(in crate::app) fn looking(self, only_looks: bool) -> Self {
        Self { only_looks, ..self }
    }

    /// The engine of the queue in this Redis.
    pub(in crate::app) fn redis(&self, place: &Place) -> Result<RedisEngine, Failure> {
        let mut server = Server::new(place.clone(), self.address.to_string(), self.settings);
        server.password = self.password.map(password::provider);
        server.answer_timeout = server.answer_timeout.max(self.answer_min);
        let keys = Keys::new(&self.settings.queue, &self.settings.names);
        Ok(RedisEngine::new(&server, keys)?)
    }

    pub(in crate::app) fn run<W: OnEngine>(&self, work: W) -> Result<W::Output, Failure> {
        let (queue, names) = (&self.settings.queue, &self.settings.names);
        let runtime = runtime()?;
        let ended = match self.store {
            Store::Redis(place) => {
                let engine = self.redis(place)?;
                runtime.block_on(work.run(Arc::new(engine)))
            }
            Store::Sqlite(database) if self.only_looks => {
                let engine = SqliteLook::new(database.clone(), queue, names);
                runtime.block_on(work.run(Arc::new(engine)))
            }
            Store::Sqlite(_) if self.settings.replicas > 0 => {
                return Err(Failure::usage(
                    "--replicas: a file has none; leave it out, or name a Redis",
                ));
            }
            Store::Sqlite(database) => {
                let engine = SqliteEngine::open(database.clone(), queue, names)?;
                runtime.block_on(work.run(Arc::new(engine)))
            }
        };
        // A write to a pipe that nobody reads may still hang in a thread: leave without it.
        runtime.shutdown_timeout(Duration::ZERO);
        ended
    }
}
