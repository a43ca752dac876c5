//! Opens the engine that keeps a queue, and runs a command's work on it: the same work, whichever engine that is.

use std::sync::Arc;
use std::time::Duration;

use std::future::ready;

use futures_util::future::{BoxFuture, join_all};

use crate::app::args::sources::{PasswordFrom, Resolved, Shards, Store};
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

    /// The same, of work that opens other queues of the store as well.
    async fn run_among<E: Engine>(self, engine: Arc<E>, _others: Opener<E>) -> Result<Self::Output, Failure>
    where
        Self: Sized,
    {
        self.run(engine).await
    }
}

/// Opens the queue of this name in the same store, with as many shards as it has.
pub(in crate::app) type Opener<E> = Arc<dyn Fn(&str) -> BoxFuture<'static, Result<Arc<E>, Failure>> + Send + Sync>;

/// Where a queue is kept.
#[derive(Clone, Copy)]
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
    /// It has as many shards as it has, whatever number was given.
    pub(in crate::app) any_shards: bool,
}

/// The same, kept for queues that are opened later.
struct Kept {
    store: Store,
    password: Option<PasswordFrom>,
    address: String,
    others: Vec<(Store, String)>,
    settings: Settings,
    answer_min: Duration,
    only_looks: bool,
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
            any_shards: resolved.shards == Shards::Recorded,
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
        let keys = Keys::new(&self.settings.queue, names);
        Ok(RedisEngine::new(&self.server(place, address), keys)?)
    }

    fn server(&self, place: &Place, address: &str) -> Server {
        let mut server = Server::new(place.clone(), address.to_string(), self.settings);
        server.password = self.password.map(password::provider);
        server.answer_timeout = server.answer_timeout.max(self.answer_min);
        server
    }

    /// The queue on servers, each shard on the next of them, in turn.
    pub(in crate::app) async fn servers(&self) -> Result<Sharded<RedisEngine>, Failure> {
        let servers: Vec<Server> = self
            .stores()
            .map(|(store, address)| match store {
                Store::Redis(place) => Ok(self.server(place, address)),
                Store::Sqlite(_) => Err(mixed()),
            })
            .collect::<Result<_, _>>()?;
        let queue = self.settings.queue.clone();
        let at = move |names: &Names, server: usize| {
            RedisEngine::new(&servers[server % servers.len()], Keys::new(&queue, names))
        };
        let open = at.clone();
        let whole = self.opened(move |names| open(names, names.shard as usize))?;
        if self.others.is_empty() {
            return Ok(whole);
        }
        // A shard that is not where it should be may be on another of the servers.
        let whole = Arc::new(whole);
        let _ = whole.published().await;
        let names = Sharded::names(&whole).unwrap_or_default();
        let looks = Sharded::shards(&whole).into_iter().enumerate();
        let looks = looks.map(|(shard, engine)| {
            let (names, at) = (names.in_shard(shard), &at);
            async move {
                match engine.published().await {
                    Err(Error::NoQueue { .. }) => self.look_elsewhere(&names, at).await,
                    _ => Ok(()),
                }
            }
        });
        join_all(looks).await.into_iter().collect::<Result<(), _>>()?;
        Arc::into_inner(whole).ok_or_else(|| Failure::failed("the queue is in use"))
    }

    /// Then the order of the servers is another one than that of the other copies.
    async fn look_elsewhere(
        &self,
        names: &Names,
        at: impl Fn(&Names, usize) -> crate::Result<RedisEngine>,
    ) -> Result<(), Failure> {
        let (servers, shard) = (self.others.len() + 1, names.shard as usize);
        for server in (0..servers).filter(|server| *server != shard % servers) {
            let found = at(names, server)?.published().await;
            // It is there as well if it tells of a reshard, or has another number of shards than was given.
            if matches!(found, Ok(_) | Err(Error::Resharded { .. } | Error::OtherShards { .. })) {
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

    /// The queue in files, each shard in one of its own.
    fn files<E: Engine<Shard = E>>(
        &self,
        open: impl Fn(&Database, &Names) -> crate::Result<E> + Send + Sync + 'static,
    ) -> Result<Sharded<E>, Failure> {
        let files: Vec<Database> = self
            .stores()
            .map(|(store, _)| match store {
                Store::Sqlite(database) => Ok(database.clone()),
                Store::Redis(_) => Err(mixed()),
            })
            .collect::<Result<_, _>>()?;
        self.opened(move |names| match files.get(names.shard as usize) {
            Some(file) => open(file, names),
            None => Err(Error::Setting {
                setting: "shards",
                reason: format!("each shard needs a file of its own, and there are {}", files.len()),
            }),
        })
    }

    fn opened<E: Engine<Shard = E>>(
        &self,
        open: impl Fn(&Names) -> crate::Result<E> + Send + Sync + 'static,
    ) -> Result<Sharded<E>, Failure> {
        let places = self.stores().map(|(_, address)| address.to_string()).collect();
        let urls = self.others.len() + 1;
        Ok(Sharded::open(&self.settings.names, open)?.over(urls).at(places))
    }

    /// All stores, with their addresses for people.
    fn stores(&self) -> impl Iterator<Item = (&Store, &str)> {
        let others = self.others.iter().map(|(store, address)| (store, address.as_str()));
        std::iter::once((self.store, self.address)).chain(others)
    }

    /// The store that a shard is on, in turn, and its address for people.
    pub(in crate::app) fn at(&self, shard: usize) -> (&Store, &str) {
        match shard % (self.others.len() + 1) {
            0 => (self.store, self.address),
            other => (&self.others[other - 1].0, &self.others[other - 1].1),
        }
    }

    pub(in crate::app) fn run<W: OnEngine>(&self, work: W) -> Result<W::Output, Failure> {
        let runtime = runtime()?;
        let ended = match self.store {
            Store::Redis(_) => runtime.block_on(self.work(work, |at| Box::pin(async move { at.servers().await }))),
            Store::Sqlite(_) if self.settings.replicas > 0 && !self.only_looks => {
                return Err(Failure::usage(
                    "--replicas: a file has none; leave it out, or name a Redis",
                ));
            }
            Store::Sqlite(_) if self.only_looks => runtime.block_on(self.work(work, |at| {
                let queue = at.settings.queue.clone();
                let look = move |file: &Database, names: &Names| Ok(SqliteLook::new(file.clone(), &queue, names));
                Box::pin(ready(at.files(look)))
            })),
            Store::Sqlite(_) => runtime.block_on(self.work(work, |at| {
                let (queue, watch) = (at.settings.queue.clone(), at.settings.watch);
                let open = move |file: &Database, names: &Names| {
                    SqliteEngine::open(file.clone(), &queue, names).map(|engine| engine.watching(watch))
                };
                Box::pin(ready(at.files(open)))
            })),
        };
        // A write to a pipe that nobody reads may still hang in a thread: leave without it.
        runtime.shutdown_timeout(Duration::ZERO);
        ended
    }
}

impl QueueAt<'_> {
    /// Does the work on the queue that `open` opens.
    async fn work<W: OnEngine, E: Engine<Shard = E>>(&self, work: W, open: Open<E>) -> Result<W::Output, Failure> {
        let kept = Arc::new(Kept {
            store: self.store.clone(),
            password: self.password.cloned(),
            address: self.address.to_string(),
            others: self.others.to_vec(),
            settings: self.settings.clone(),
            answer_min: self.answer_min,
            only_looks: self.only_looks,
        });
        let others: Opener<Sharded<E>> = Arc::new(move |queue| {
            let (kept, queue) = (kept.clone(), queue.to_string());
            Box::pin(async move { kept.any(queue, open).await })
        });
        let queue = if self.any_shards {
            self.as_it_is(open).await?
        } else {
            Arc::new(open(*self).await?)
        };
        work.run_among(queue, others).await
    }

    /// The queue with as many shards as its home shard says, if they are here.
    async fn as_it_is<E: Engine<Shard = E>>(&self, open: Open<E>) -> Result<Arc<Sharded<E>>, Failure> {
        let given = Arc::new(open(*self).await?);
        let (shards, refused) = match Sharded::shards(&given)[0].published().await {
            Err(error @ Error::OtherShards { recorded, .. }) => (recorded, error),
            // Nobody knows how many it has.
            Err(error) if error.is_away() => return Err(error.into()),
            _ => return Ok(given),
        };
        let mut settings = self.settings.clone();
        settings.names.shards = shards;
        let whole = QueueAt {
            settings: &settings,
            ..*self
        };
        let whole = match open(whole).await {
            // There is one place, and this queue needs several.
            Err(_) if self.others.is_empty() => return Err(refused.into()),
            whole => Arc::new(whole?),
        };
        // With the number of a reshard it finds the shards once it is told of that.
        let _ = whole.published().await;
        // Those of a young queue may not be made yet. With one URL they may also be on servers that were not named.
        if !self.others.is_empty() {
            return Ok(whole);
        }
        for shard in Sharded::shards(&whole) {
            if let Err(Error::NoQueue { .. }) = shard.published().await {
                return Err(refused.into());
            }
        }
        Ok(whole)
    }
}

impl Kept {
    async fn any<E: Engine<Shard = E>>(&self, queue: String, open: Open<E>) -> Result<Arc<Sharded<E>>, Failure> {
        let settings = Settings {
            queue,
            ..self.settings.clone()
        };
        let at = QueueAt {
            store: &self.store,
            password: self.password.as_ref(),
            address: &self.address,
            others: &self.others,
            settings: &settings,
            answer_min: self.answer_min,
            only_looks: self.only_looks,
            any_shards: true,
        };
        at.as_it_is(open).await
    }
}

/// Opens a queue with as many shards as its settings say.
type Open<E> = for<'a> fn(QueueAt<'a>) -> BoxFuture<'a, Result<Sharded<E>, Failure>>;

fn mixed() -> Failure {
    Failure::usage("--url: some shards are files, and others are not")
}
