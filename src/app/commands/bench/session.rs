//! One run of `bench`: its test bed on a Redis, fresh queues there, and waiting that can be interrupted.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, ConnectionInfo};

use super::socket::Socket;
use crate::app::args::Invocation;
use crate::app::args::sources::{Resolved, Store};
use crate::app::commands::status_if_any;
use crate::app::exit::Failure;
use crate::app::lab::server::{Fsync, Server};
use crate::app::lab::test_bed::{Directory, Own, TestBed, is_named_anywhere, refuse_queue};
use crate::app::run::{on_signals, runtime};
use crate::engine::redis::keys::Keys;
use crate::engine::redis::{Place, RedisEngine, Server as RedisAt};
use crate::engine::sharded::Sharded;
use crate::engine::{Engine, Status};
use crate::node::id::new_id;
use crate::settings::Settings;

/// Nothing that is waited for here takes longer.
const PATIENCE: Duration = Duration::from_mins(3);

/// Among so many names one is on each server of a cluster.
const NAMES_MAX: usize = 10_000;

pub(super) struct Session {
    bed: TestBed,
    pub(super) info: ConnectionInfo,
    /// Host and port.
    pub(super) at: (String, u16),
    /// What is on a server of a cluster depends on its name: queues are named until they are on this one, and the keys of plain sockets
    /// belong to this queue.
    is_cluster: bool,
    home: String,
    /// What copies and plain sockets go through, if it is not to be the shortest way.
    link: Option<SocketAddr>,
    pub(super) runtime: tokio::runtime::Runtime,
    interrupted: Arc<AtomicBool>,
}

/// What the figures were measured on.
pub(super) struct About {
    machine: String,
    address: String,
    is_own: bool,
}

const RELEASE: &str = concat!("queenright ", env!("CARGO_PKG_VERSION"));

impl About {
    /// For the head of a table.
    pub(super) fn now(&self) -> String {
        format!("{} at {}, {RELEASE}", self.machine, self.address)
    }

    /// For a file that stays: the port of a server of our own says nothing.
    pub(super) fn on_the_day(&self, day: &str) -> String {
        let address = if self.is_own {
            "a redis-server of its own"
        } else {
            &self.address
        };
        format!("{day}: {} at {address}, {RELEASE}\n\n", self.machine)
    }
}

impl Session {
    pub(super) fn prepare(asked: &Invocation, resolved: &Resolved) -> Result<Self, Failure> {
        refuse_queue("bench", asked, "queues of its own, which it removes")?;
        if resolved.settings.replicas > 0 {
            return Err(Failure::usage(
                "--replicas: bench --regime replicas measures that, on servers of its own; leave it out",
            ));
        }
        let named = is_named_anywhere(asked).then_some(resolved);
        let bed = TestBed::prepare(
            "bench",
            named,
            Directory::temporary("bench")?,
            Own::Server(Fsync::Never),
        )?;
        // Set by ^C and SIGTERM: whoever waits ends, copies and queues are removed on the way out.
        let interrupted = Arc::new(AtomicBool::new(false));
        let session = Self::on(bed, interrupted.clone())?;
        on_signals(move || interrupted.store(true, Ordering::Relaxed), || {})?;
        // Asked through the engine, which has the words for a server that is away, or refuses.
        session.runtime.block_on(status_if_any(&session.queue()?.engine))?;
        Ok(session)
    }

    fn on(bed: TestBed, interrupted: Arc<AtomicBool>) -> Result<Self, Failure> {
        let Store::Redis(place) = &bed.store else {
            return Err(Failure::usage(
                "bench compares with plain Redis; give the address of one, or none for one of its own",
            ));
        };
        let runtime = runtime()?;
        if !matches!(place.info.addr(), ConnectionAddr::Tcp(..)) {
            return Err(Failure::usage(
                "bench compares with plain sockets; give an address without TLS, host and port",
            ));
        }
        // Sentinels say where it is; of a cluster, one server is measured: the one that would have a queue of this name.
        let home = bed.fresh_queue();
        let settings = Settings::default();
        let server = RedisAt::new((**place).clone(), bed.address.clone(), &settings);
        let engine = RedisEngine::new(&server, Keys::new(&home, &settings.names))?;
        let info = runtime.block_on(engine.primary())?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(Failure::failed("a server without a port"));
        };
        Ok(Self {
            at: (host.clone(), *port),
            link: None,
            is_cluster: engine.primary_is_of_a_cluster(),
            home,
            info,
            bed,
            runtime,
            interrupted,
        })
    }

    /// None: nobody has joined yet, or the store is away.
    pub(super) fn status_of(&self, engine: &impl Engine) -> Result<Option<Status>, Failure> {
        match self.runtime.block_on(status_if_any(engine)) {
            Err(error) if error.is_away() => Ok(None),
            status => Ok(status?),
        }
    }

    /// Another session like this one, with a server of its own that writes to disk.
    pub(super) fn durable(&self, fsync: Fsync) -> Result<Self, Failure> {
        let bed = TestBed::prepare("bench", None, Directory::temporary("bench")?, Own::Server(fsync))?;
        Self::on(bed, self.interrupted.clone())
    }

    pub(super) fn directory(&self) -> &Path {
        &self.bed.directory.path
    }

    /// What the figures were measured on.
    pub(super) fn about(&self) -> About {
        let info = self.socket().and_then(|mut socket| socket.info("server"));
        let server = info.map_or("Redis".into(), |info| info.server());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        About {
            machine: format!("{cores} cores, {server}"),
            address: self.bed.address.clone(),
            is_own: self.bed.server.is_some(),
        }
    }

    pub(super) fn url(&self) -> String {
        self.bed.url(self.link)
    }

    /// The same, where copies and plain sockets go through this; looks and counts do not.
    pub(super) fn over(self, link: SocketAddr) -> Self {
        Self {
            link: Some(link),
            ..self
        }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    pub(super) fn connect(&self) -> io::Result<Socket> {
        let at = self.link.map(|link| (link.ip().to_string(), link.port()));
        Socket::connect(at.as_ref().unwrap_or(&self.at), self.info.redis_settings())
    }

    /// The server that this run has started, if it has.
    pub(super) fn own_server(&self) -> Option<&Server> {
        self.bed.server.as_ref()
    }

    pub(super) fn socket(&self) -> Result<Socket, Failure> {
        Socket::connect(&self.at, self.info.redis_settings())
            .map_err(|error| Failure::no_redis(format!("no Redis at {}: {error}", self.bed.address)))
    }

    /// A fresh queue, removed when dropped.
    pub(super) fn queue(&self) -> Result<Queue<'_>, Failure> {
        let settings = Settings::default();
        let mut server = RedisAt::new(Place::at(self.info.clone()), self.bed.address.clone(), &settings);
        server.answer_timeout = Duration::from_secs(10);
        for _ in 0..NAMES_MAX {
            let name = self.bed.fresh_queue();
            let engine = RedisEngine::new(&server, Keys::new(&name, &settings.names))?;
            if !self.is_cluster || self.runtime.block_on(engine.primary())?.addr() == self.info.addr() {
                let parts = vec![(self, engine.keys().clone())];
                return Ok(Queue {
                    session: self,
                    engine,
                    name,
                    parts,
                });
            }
        }
        let line = format!("{} has no slots of its cluster any more", self.bed.address);
        Err(Failure::failed(line))
    }

    /// A fresh queue with a shard on the server of each of these sessions, which need not be of a cluster; removed when dropped.
    pub(super) fn sharded<'a>(servers: &[&'a Self]) -> Result<Queue<'a, Sharded<RedisEngine>>, Failure> {
        let name = servers[0].bed.fresh_queue();
        let settings = Settings::default();
        let (mut engines, mut parts) = (Vec::new(), Vec::new());
        for (shard, session) in servers.iter().enumerate() {
            let names = settings.names.of_shard(shard, servers.len());
            let server = RedisAt::new(Place::at(session.info.clone()), session.bed.address.clone(), &settings);
            let engine = RedisEngine::new(&server, Keys::new(&name, &names))?;
            parts.push((*session, engine.keys().clone()));
            engines.push(Arc::new(engine));
        }
        Ok(Queue {
            session: servers[0],
            engine: Sharded::new(engines)?,
            name,
            parts,
        })
    }

    /// A key for plain sockets, on the same server.
    pub(super) fn plain_key(&self) -> String {
        format!("bench-raw-{}{{qr:{}}}", new_id(), self.home)
    }

    /// Waits until `look` finds something, looking every so often.
    pub(super) fn until<T>(
        &self,
        what: &str,
        every: Duration,
        mut look: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if self.is_interrupted() || Instant::now() >= deadline {
                let why = if self.is_interrupted() {
                    "interrupted"
                } else {
                    "not reached"
                };
                return Err(Failure::failed(format!("{what}: {why}")));
            }
            std::thread::sleep(every);
        }
    }

    /// Sleeps, unless interrupted.
    pub(super) fn pause(&self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        self.until("pause", Duration::from_millis(10).min(time), || {
            Ok((Instant::now() >= end).then_some(()))
        })
    }
}

/// A queue of ours.
pub(super) struct Queue<'a, E: Engine = RedisEngine> {
    pub(super) session: &'a Session,
    pub(super) engine: E,
    pub(super) name: String,
    /// Its shards: the server of each, and the keys there.
    pub(super) parts: Vec<(&'a Session, Keys)>,
}

impl<'a, E: Engine> Queue<'a, E> {
    /// None: nobody has joined yet.
    pub(super) fn status(&self) -> Result<Option<Status>, Failure> {
        self.session.status_of(&self.engine)
    }

    pub(super) fn until<T>(
        &self,
        what: &str,
        every: Duration,
        mut look: impl FnMut(&Status) -> Option<T>,
    ) -> Result<T, Failure> {
        self.session
            .until(what, every, || Ok(self.status()?.as_ref().and_then(&mut look)))
    }

    /// Each once: several shards may be on one.
    pub(super) fn servers(&self) -> Vec<&'a Session> {
        let mut servers: Vec<&Session> = Vec::new();
        for (server, _) in &self.parts {
            if !servers.iter().any(|other| std::ptr::eq(*other, *server)) {
                servers.push(server);
            }
        }
        servers
    }

    /// The servers as copies are told of them.
    pub(super) fn url(&self) -> String {
        let urls: Vec<String> = self.servers().into_iter().map(Session::url).collect();
        urls.join(" ")
    }
}

impl<E: Engine> Drop for Queue<'_, E> {
    /// With what a purge leaves behind for members that come back: here none do.
    fn drop(&mut self) {
        if self.session.runtime.block_on(self.engine.purge(true)).is_err() {
            return;
        }
        for (server, keys) in &self.parts {
            let removed = server
                .socket()
                .map(|mut socket| socket.call(&[b"UNLINK", keys.purged.as_bytes()]));
            // Whoever has no connection any more has other worries.
            drop(removed);
        }
    }
}
