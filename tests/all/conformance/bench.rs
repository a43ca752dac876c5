//! An engine, with a wall clock that the check sets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use queenright::engine::memory::{Local, State, Stored};
use queenright::engine::redis::keys::Keys;
use queenright::engine::redis::{RedisEngine, Scripts, Server};
use queenright::engine::sqlite::{Database, SqliteEngine};
use queenright::engine::{Beat, Engine, Join, Joined, Push, Pushed, Renewed, Status};
use queenright::error::Result;
use queenright::settings::Names;

use crate::fleet::PATIENCE;
use crate::server::RedisServer;

/// The queue of every check.
pub const QUEUE: &str = "bench";

/// Opens the shard of these names.
pub type Opener<E> = Box<dyn Fn(&Names) -> Result<E> + Send + Sync>;

pub trait Bench: Sized {
    type Engine: Engine;
    /// What outlives a check.
    type Store;
    /// Whether it can lose what it has acknowledged to a failover, and get it back.
    const HAS_REPLICAS: bool = true;

    fn store() -> Self::Store;
    /// An empty queue, perhaps with a guard taken out.
    async fn fresh(store: &Self::Store, without: Option<&str>) -> Self;
    fn engine(&self) -> &Self::Engine;
    async fn set_wall(&self, wall_ms: u64);
    /// Everything that is stored.
    async fn state(&self) -> State;
    /// As if a newer program had written the queue.
    async fn set_layout(&self, layout: u64);
    /// As if the program had other key names.
    async fn join_with(&self, names: &Names, join: &Join) -> Result<Joined>;
    async fn push_with(&self, names: &Names, push: &Push) -> Result<Pushed>;
    /// As if the program knew of other shards.
    async fn beat_with(&self, names: &Names, beat: &Beat) -> Result<Renewed>;
    async fn reshard_with(&self, names: &Names, server: &str) -> Result<bool>;
    async fn status_with(&self, names: &Names) -> Result<Status>;
    /// A value that someone else wrote.
    async fn put(&self, key: &str, value: &[u8]);
    /// Whoever listens has heard the bells.
    async fn hush(&self);
    /// Whoever is told of the crown's bell otherwise leaves it hanging.
    async fn hush_crown(&self) {}
    /// As if the process of this node had died, and its connections were closed.
    async fn hide(&self, node: &str);
    /// Opens the shards of one queue, beside the queue of this bench: each in a store of its own, with the same clock.
    fn opener(&self) -> Opener<Self::Engine>;
    /// Everything that is stored in one of them.
    async fn dump(shard: &Self::Engine) -> State;
}

/// The queue in memory.
pub struct LocalBench {
    engine: Local,
    wall_ms: Arc<AtomicU64>,
}

impl Bench for LocalBench {
    type Engine = Local;
    type Store = ();

    fn store() {}

    async fn fresh((): &(), without: Option<&str>) -> Self {
        let wall_ms = Arc::new(AtomicU64::new(0));
        let clock = wall_ms.clone();
        let engine = Local::with_clock(QUEUE, move || clock.load(Ordering::Relaxed));
        #[cfg(feature = "mutants")]
        {
            engine.state().without = without.map(str::to_string);
        }
        #[cfg(not(feature = "mutants"))]
        assert!(without.is_none(), "needs the feature mutants");
        Self { engine, wall_ms }
    }

    fn engine(&self) -> &Local {
        &self.engine
    }

    async fn set_wall(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::Relaxed);
    }

    async fn state(&self) -> State {
        self.engine.state().clone()
    }

    async fn set_layout(&self, layout: u64) {
        self.engine.state().meta.as_mut().expect("a queue").layout = layout;
    }

    async fn join_with(&self, names: &Names, join: &Join) -> Result<Joined> {
        let own = std::mem::replace(&mut self.engine.state().names, names.clone());
        let answer = self.engine.join(join).await;
        self.engine.state().names = own;
        answer
    }

    async fn push_with(&self, names: &Names, push: &Push) -> Result<Pushed> {
        let own = std::mem::replace(&mut self.engine.state().names, names.clone());
        let answer = self.engine.push(push).await;
        self.engine.state().names = own;
        answer
    }

    async fn beat_with(&self, names: &Names, beat: &Beat) -> Result<Renewed> {
        let own = std::mem::replace(&mut self.engine.state().names, names.clone());
        let answer = self.engine.beat(beat).await;
        self.engine.state().names = own;
        answer
    }

    async fn reshard_with(&self, names: &Names, server: &str) -> Result<bool> {
        let own = std::mem::replace(&mut self.engine.state().names, names.clone());
        let answer = self.engine.reshard(server).await;
        self.engine.state().names = own;
        answer
    }

    async fn status_with(&self, names: &Names) -> Result<Status> {
        let own = std::mem::replace(&mut self.engine.state().names, names.clone());
        let answer = self.engine.status().await;
        self.engine.state().names = own;
        answer
    }

    async fn put(&self, key: &str, value: &[u8]) {
        self.engine
            .state()
            .stored
            .insert(key.into(), Stored::Value(value.into()));
    }

    async fn hush(&self) {
        let mut state = self.engine.state();
        (state.bell, state.crown_bell) = (false, false);
    }

    async fn hide(&self, node: &str) {
        self.engine.state().connected.0.remove(node);
    }

    fn opener(&self) -> Opener<Local> {
        let (wall_ms, shards) = (self.wall_ms.clone(), Mutex::new(BTreeMap::new()));
        Box::new(move |names| {
            let mut shards = shards.lock().unwrap_or_else(PoisonError::into_inner);
            let shard = shards.entry(names.shard).or_insert_with(|| {
                let clock = wall_ms.clone();
                Local::with_clock(QUEUE, move || clock.load(Ordering::Relaxed))
            });
            Ok(shard.named(names))
        })
    }

    async fn dump(shard: &Local) -> State {
        shard.state().clone()
    }
}

/// A file, with a clock of the check's.
pub struct SqliteBench {
    engine: SqliteEngine,
    path: PathBuf,
    wall_ms: Arc<AtomicU64>,
    without: Option<String>,
}

impl SqliteBench {
    fn open(&self, names: &Names) -> Result<SqliteEngine> {
        open(&self.path, names, &self.wall_ms, self.without.clone())
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) {
        let connection = rusqlite::Connection::open(&self.path).expect("the file opens");
        connection.execute(sql, params).expect("executed");
    }
}

fn open(path: &Path, names: &Names, wall_ms: &Arc<AtomicU64>, without: Option<String>) -> Result<SqliteEngine> {
    let clock = wall_ms.clone();
    let database = Database {
        path: path.into(),
        full: false,
    };
    let now_ms = move || clock.load(Ordering::Relaxed);
    #[cfg(feature = "mutants")]
    return SqliteEngine::mutant(database, QUEUE, names, now_ms, without);
    #[cfg(not(feature = "mutants"))]
    {
        assert!(without.is_none(), "needs the feature mutants");
        SqliteEngine::with_clock(database, QUEUE, names, now_ms)
    }
}

impl Bench for SqliteBench {
    type Engine = SqliteEngine;
    type Store = tempfile::TempDir;
    const HAS_REPLICAS: bool = false;

    fn store() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    async fn fresh(store: &tempfile::TempDir, without: Option<&str>) -> Self {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let path = store
            .path()
            .join(format!("{}.db", FILES.fetch_add(1, Ordering::Relaxed)));
        let (wall_ms, without) = (Arc::new(AtomicU64::new(0)), without.map(str::to_string));
        let engine = open(&path, &Names::default(), &wall_ms, without.clone()).expect("the file opens");
        Self {
            engine,
            path,
            wall_ms,
            without,
        }
    }

    fn engine(&self) -> &SqliteEngine {
        &self.engine
    }

    async fn set_wall(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::Relaxed);
    }

    async fn state(&self) -> State {
        self.engine.dump().await.expect("readable")
    }

    async fn set_layout(&self, layout: u64) {
        self.execute("UPDATE meta SET layout = ?", [layout.cast_signed()]);
    }

    async fn join_with(&self, names: &Names, join: &Join) -> Result<Joined> {
        self.open(names)?.join(join).await
    }

    async fn push_with(&self, names: &Names, push: &Push) -> Result<Pushed> {
        self.open(names)?.push(push).await
    }

    async fn beat_with(&self, names: &Names, beat: &Beat) -> Result<Renewed> {
        self.open(names)?.beat(beat).await
    }

    async fn reshard_with(&self, names: &Names, server: &str) -> Result<bool> {
        self.open(names)?.reshard(server).await
    }

    async fn status_with(&self, names: &Names) -> Result<Status> {
        self.open(names)?.status().await
    }

    async fn put(&self, key: &str, value: &[u8]) {
        let sql = "INSERT OR REPLACE INTO effect_values (key, value) VALUES (?, ?)";
        self.execute(sql, rusqlite::params![key, value]);
    }

    async fn hush(&self) {
        self.execute("UPDATE bells SET rung = 0", []);
    }

    async fn hide(&self, node: &str) {
        self.engine.hide(node);
    }

    fn opener(&self) -> Opener<SqliteEngine> {
        let (path, wall_ms) = (self.path.clone(), self.wall_ms.clone());
        Box::new(move |names| {
            let path = path.with_extension(format!("shard-{}.db", names.shard));
            open(&path, names, &wall_ms, None)
        })
    }

    async fn dump(shard: &SqliteEngine) -> State {
        shard.dump().await.expect("readable")
    }
}

/// The scripts in a real server, with TIME read from a key.
pub struct RedisBench {
    pub engine: RedisEngine,
    pub server: Arc<RedisServer>,
    pub scripts: Scripts,
    connection: redis::aio::MultiplexedConnection,
}

/// The scripts as a test runs them: the clock is a key, and one guard may be missing.
pub fn scripts(without: Option<&str>) -> Scripts {
    let edit = |line: &str| line.replace("redis.call('TIME')", "redis.call('HMGET', 'test:time', 's', 'us')");
    match without {
        Some(guard) => Scripts::without(guard, edit),
        None => Scripts::edited(|line| Some(edit(line))),
    }
}

/// A connection that waits for longer than the client would by itself, which is half a second.
pub async fn patient(client: &redis::Client) -> redis::aio::MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.expect("the server answers")
}

impl RedisBench {
    fn named(&self, names: &Names) -> Result<RedisEngine> {
        let keys = Keys::new(QUEUE, names);
        Ok(RedisEngine::new(&self.server.server(), keys)?.with_scripts(self.scripts.clone()))
    }

    pub async fn command(&self, args: &[&str]) -> redis::Value {
        let mut cmd = redis::cmd(args[0]);
        for arg in &args[1..] {
            cmd.arg(arg);
        }
        cmd.query_async(&mut self.connection.clone())
            .await
            .expect("the server answers")
    }
}

/// Packs in tests are small: of this size are most, but no single message.
const BODY_BYTES_MIN: usize = 52;

static ENGINES: AtomicUsize = AtomicUsize::new(0);

/// An engine that stores the bodies of some packs separately.
pub fn engine(server: &Server, keys: Keys, scripts: &Scripts) -> RedisEngine {
    let engine = RedisEngine::new(server, keys).expect("a URL");
    let engine = engine.with_scripts(scripts.clone()).with_bodies_from(BODY_BYTES_MIN);
    // Every other one gets bodies with their packs, as if it were far away.
    if ENGINES.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
        return engine.with_bodies_that_come();
    }
    engine
}

impl Bench for RedisBench {
    type Engine = RedisEngine;
    type Store = Arc<RedisServer>;

    fn store() -> Arc<RedisServer> {
        Arc::new(RedisServer::start())
    }

    async fn fresh(server: &Arc<RedisServer>, without: Option<&str>) -> Self {
        let scripts = scripts(without);
        let keys = Keys::new(QUEUE, &Names::default());
        let client = redis::Client::open(server.url()).expect("a URL");
        let connection = patient(&client).await;
        let bench = Self {
            engine: engine(&server.server(), keys, &scripts),
            server: server.clone(),
            scripts,
            connection,
        };
        bench.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
        bench
            .command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
            .await;
        bench.command(&["REPLICAOF", "NO", "ONE"]).await;
        bench.command(&["FLUSHALL"]).await;
        bench
    }

    fn engine(&self) -> &RedisEngine {
        &self.engine
    }

    async fn set_wall(&self, wall_ms: u64) {
        let (s, us) = (wall_ms / 1000, wall_ms % 1000 * 1000);
        self.command(&["HSET", "test:time", "s", &s.to_string(), "us", &us.to_string()])
            .await;
    }

    async fn state(&self) -> State {
        self.engine.dump().await.expect("readable")
    }

    async fn set_layout(&self, layout: u64) {
        self.command(&["HSET", &self.engine.keys().meta, "layout", &layout.to_string()])
            .await;
    }

    async fn join_with(&self, names: &Names, join: &Join) -> Result<Joined> {
        self.named(names)?.join(join).await
    }

    async fn push_with(&self, names: &Names, push: &Push) -> Result<Pushed> {
        self.named(names)?.push(push).await
    }

    async fn beat_with(&self, names: &Names, beat: &Beat) -> Result<Renewed> {
        self.named(names)?.beat(beat).await
    }

    async fn reshard_with(&self, names: &Names, server: &str) -> Result<bool> {
        self.named(names)?.reshard(server).await
    }

    async fn status_with(&self, names: &Names) -> Result<Status> {
        self.named(names)?.status().await
    }

    async fn put(&self, key: &str, value: &[u8]) {
        self.command(&["SET", key, std::str::from_utf8(value).expect("text")])
            .await;
    }

    async fn hush(&self) {
        let keys = self.engine.keys();
        self.command(&["DEL", &keys.bell, &keys.crown]).await;
    }

    async fn hush_crown(&self) {
        self.command(&["DEL", &self.engine.keys().crown]).await;
    }

    async fn hide(&self, node: &str) {
        self.engine.show(node, false).await.expect("the server answers");
    }

    fn opener(&self) -> Opener<RedisEngine> {
        let (server, scripts) = (self.server.clone(), self.scripts.clone());
        Box::new(move |names| Ok(engine(&server.server(), Keys::new(QUEUE, names), &scripts)))
    }

    async fn dump(shard: &RedisEngine) -> State {
        shard.dump().await.expect("readable")
    }
}
