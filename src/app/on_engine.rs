//! Opens the engine that keeps a queue, and runs a command's work on it: the same work, whichever engine that is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::app::args::sources::{PasswordFrom, Resolved, Store};
use crate::app::exit::Failure;
use crate::app::password;
use crate::app::run::runtime;
use crate::engine::Engine;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::{Place, RedisEngine, Server};
use crate::engine::sharded::Sharded;
use crate::engine::sqlite::{Database, SqliteEngine, SqliteLook};
use crate::error::Error;
use crate::settings::{Names, Settings};

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
    /// Further stores of a queue with shards.
    pub(in crate::app) others: &'a [(Store, String)],
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
            others: &resolved.others,
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
        self.redis_at(place, self.address, &self.settings.names)
    }

    pub(in crate::app) fn redis_at(&self, place: &Place, address: &str, names: &Names) -> Result<RedisEngine, Failure> {
        let mut server = Server::new(place.clone(), address.to_string(), self.settings);
        server.password = self.password.map(password::provider);
        server.answer_timeout = server.answer_timeout.max(self.answer_min);
        Ok(RedisEngine::new(&server, Keys::new(&self.settings.queue, names))?)
    }

    /// A queue with shards: each on the next of the servers, in turn.
    pub(in crate::app) async fn sharded(&self) -> Result<Sharded<RedisEngine>, Failure> {
        let count = self.settings.names.shards as usize;
        let shards: Vec<_> = (0..count)
            .map(|shard| self.shard(shard, shard).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let looks = shards.iter().enumerate().map(|(shard, engine)| async move {
            match engine.published().await {
                Err(Error::NoQueue { .. }) => self.look_elsewhere(shard).await,
                _ => Ok(()),
            }
        });
        join_all(looks).await.into_iter().collect::<Result<(), _>>()?;
        let places = (0..count).map(|shard| self.at(shard).1.to_string()).collect();
        Ok(Sharded::new(shards)?.at(places))
    }

    /// The store that a shard is on, in turn, and its address for people.
    pub(in crate::app) fn at(&self, shard: usize) -> (&Store, &str) {
        match shard % (self.others.len() + 1) {
            0 => (self.store, self.address),
            other => (&self.others[other - 1].0, &self.others[other - 1].1),
        }
    }

    /// A queue with shards, each in a file of its own.
    fn files<E: Engine<Shard = E>>(
        &self,
        open: impl Fn(&Database, &Names) -> Result<E, Failure>,
    ) -> Result<Sharded<E>, Failure> {
        let count = self.settings.names.shards as usize;
        let engine = |shard: usize| match self.at(shard).0 {
            Store::Sqlite(database) => open(database, &self.settings.names.of_shard(shard, count)).map(Arc::new),
            Store::Redis(_) => Err(Failure::usage("--url: some shards are files, and others are not")),
        };
        let shards = (0..count).map(engine).collect::<Result<_, _>>()?;
        let places = (0..count).map(|shard| self.at(shard).1.to_string()).collect();
        Ok(Sharded::new(shards)?.at(places))
    }

    /// The engine of a shard on one of the servers.
    fn shard(&self, shard: usize, server: usize) -> Result<RedisEngine, Failure> {
        let names = self.settings.names.of_shard(shard, self.settings.names.shards as usize);
        let (store, address) = self.at(server);
        match store {
            Store::Redis(place) => self.redis_at(place, address, &names),
            Store::Sqlite(_) => Err(Failure::usage("--url: some shards are files, and others are not")),
        }
    }

    /// A shard that is not where it should be may be on another of the servers: then their order is another one than that of the other copies.
    async fn look_elsewhere(&self, shard: usize) -> Result<(), Failure> {
        let servers = self.others.len() + 1;
        for server in (0..servers).filter(|server| *server != shard % servers) {
            if self.shard(shard, server)?.published().await.is_ok() {
                return Err(Failure::usage(format!(
                    "--url: shard {shard} of queue {:?} is at URL {}, and belongs at URL {}: give the URLs in the order in which the queue was made",
                    self.settings.queue,
                    server + 1,
                    shard % servers + 1
                )));
            }
        }
        Ok(())
    }

    pub(in crate::app) fn run<W: OnEngine>(&self, work: W) -> Result<W::Output, Failure> {
        let (queue, names) = (&self.settings.queue, &self.settings.names);
        let runtime = runtime()?;
        let ended = match self.store {
            Store::Redis(_) if names.shards > 1 => {
                runtime.block_on(async { work.run(Arc::new(self.sharded().await?)).await })
            }
            Store::Redis(place) => {
                let engine = self.redis(place)?;
                runtime.block_on(work.run(Arc::new(engine)))
            }
            Store::Sqlite(_) if self.settings.replicas > 0 && !self.only_looks => {
                return Err(Failure::usage(
                    "--replicas: a file has none; leave it out, or name a Redis",
                ));
            }
            Store::Sqlite(_) if names.shards > 1 && self.only_looks => {
                let look = |database: &Database, names: &Names| Ok(SqliteLook::new(database.clone(), queue, names));
                runtime.block_on(work.run(Arc::new(self.files(look)?)))
            }
            Store::Sqlite(_) if names.shards > 1 => {
                let open = |database: &Database, names: &Names| Ok(SqliteEngine::open(database.clone(), queue, names)?);
                runtime.block_on(work.run(Arc::new(self.files(open)?)))
            }
            Store::Sqlite(database) if self.only_looks => {
                let engine = SqliteLook::new(database.clone(), queue, names);
                runtime.block_on(work.run(Arc::new(engine)))
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
