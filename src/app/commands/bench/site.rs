//! Where it runs: on the Redis that was named, in fresh queues, or on a redis-server of our own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, ConnectionInfo};

use super::socket::Socket;
use crate::app::args::Invocation;
use crate::app::args::sources::{Resolved, Store};
use crate::app::commands::verify::place::{is_named, random, redis_url};
use crate::app::exit::Failure;
use crate::app::lab::server::{Fsync, Server};
use crate::app::run::runtime;
use crate::engine::redis::{RedisEngine, Server as RedisAt};
use crate::engine::{Engine, Status};
use crate::settings::Settings;

/// Nothing that is waited for here takes longer.
const PATIENCE: Duration = Duration::from_mins(3);

pub(super) struct Site {
    pub(super) info: ConnectionInfo,
    address: String,
    server: Option<Server>,
    pub(super) directory: PathBuf,
    pub(super) runtime: tokio::runtime::Runtime,
    interrupted: Arc<AtomicBool>,
}

impl Site {
    pub(super) fn prepare(asked: &Invocation, resolved: &Resolved) -> Result<Self, Failure> {
        if asked.shared.queue.is_some() {
            return Err(Failure::usage(
                "bench works in queues of its own, which it removes; leave out --queue",
            ));
        }
        let directory = std::env::temp_dir().join(format!("queenright-bench-{}", random()));
        std::fs::create_dir_all(&directory).map_err(|error| Failure::cannot("create a directory", error))?;
        let runtime = runtime()?;
        let mut site = Self {
            info: redis::IntoConnectionInfo::into_connection_info("redis://localhost").expect("an address"),
            address: resolved.address.clone(),
            server: None,
            directory,
            runtime,
            interrupted: listen_to_signals().map_err(|error| Failure::cannot("listen to signals", error))?,
        };
        match &resolved.store {
            Store::Redis(info) if is_named(asked) => site.info = (**info).clone(),
            Store::Sqlite(_) if is_named(asked) => {
                return Err(Failure::usage(
                    "bench compares with plain Redis; give the address of one, or none for one of its own",
                ));
            }
            _ => site = site.with_own(Fsync::Never)?,
        }
        if !matches!(site.info.addr(), ConnectionAddr::Tcp(..)) {
            return Err(Failure::usage(
                "bench compares with plain sockets; give an address without TLS, host and port",
            ));
        }
        site.answers()?;
        Ok(site)
    }

    /// Asked through the engine, which has the words for a server that is away, or refuses.
    fn answers(&self) -> Result<(), Failure> {
        match self.runtime.block_on(self.queue()?.engine.status()) {
            Ok(_) | Err(crate::Error::NoQueue { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn with_own(mut self, fsync: Fsync) -> Result<Self, Failure> {
        let Some(program) = Server::program() else {
            return Err(Failure::no_redis(
                "no redis-server is on the PATH; install one, or name a Redis with --url",
            ));
        };
        let server = Server::start(&program, &self.directory, fsync)
            .map_err(|error| Failure::cannot("start a redis-server", error))?;
        let url = format!("redis://{}", server.address());
        self.info = redis::IntoConnectionInfo::into_connection_info(url.as_str()).expect("an address is a URL");
        self.address = format!("a redis-server of its own ({url})");
        self.server = Some(server);
        Ok(self)
    }

    /// Another place like this one, with a server of its own that writes to disk.
    pub(super) fn durable(&self, fsync: Fsync) -> Result<Self, Failure> {
        let directory = self.directory.join(random());
        std::fs::create_dir_all(&directory).map_err(|error| Failure::cannot("create a directory", error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let site = Self {
            info: self.info.clone(),
            address: String::new(),
            server: None,
            directory,
            runtime: runtime.map_err(|error| Failure::cannot("start", error))?,
            interrupted: self.interrupted.clone(),
        };
        site.with_own(fsync)
    }

    /// What the figures were measured on.
    pub(super) fn about(&self) -> String {
        let version = self
            .socket()
            .and_then(|mut socket| socket.info("server"))
            .ok()
            .and_then(|info| info.text("redis_version"))
            .unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "{cores} cores, Redis {version} at {}, queenright {}",
            self.address,
            env!("CARGO_PKG_VERSION")
        )
    }

    pub(super) fn url(&self) -> String {
        redis_url(&self.info, None)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    pub(super) fn socket(&self) -> Result<Socket, Failure> {
        Socket::connect(&self.info).map_err(|error| Failure::no_redis(format!("no Redis at {}: {error}", self.address)))
    }

    /// A fresh queue, removed when dropped.
    pub(super) fn queue(&self) -> Result<Queue<'_>, Failure> {
        let settings = Settings {
            queue: format!("bench-{}", random()),
            ..Settings::default()
        };
        let mut server = RedisAt::new(self.info.clone(), self.address.clone(), &settings);
        server.answer_timeout = Duration::from_secs(10);
        let keys = crate::engine::redis::keys::Keys::new(&settings.queue, &settings.names);
        let engine = RedisEngine::new(&server, keys)?;
        Ok(Queue {
            site: self,
            engine,
            name: settings.queue,
        })
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

impl Drop for Site {
    fn drop(&mut self) {
        self.server = None;
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A queue of ours.
pub(super) struct Queue<'a> {
    pub(super) site: &'a Site,
    engine: RedisEngine,
    pub(super) name: String,
}

impl Queue<'_> {
    /// None: nobody has joined yet.
    pub(super) fn status(&self) -> Result<Option<Status>, Failure> {
        match self.site.runtime.block_on(self.engine.status()) {
            Ok(status) => Ok(Some(status)),
            Err(crate::Error::NoQueue { .. }) => Ok(None),
            Err(error) if error.is_away() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn until<T>(
        &self,
        what: &str,
        every: Duration,
        mut look: impl FnMut(&Status) -> Option<T>,
    ) -> Result<T, Failure> {
        self.site
            .until(what, every, || Ok(self.status()?.as_ref().and_then(&mut look)))
    }

    pub(super) fn keys(&self) -> &crate::engine::redis::keys::Keys {
        self.engine.keys()
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        let _ = self.site.runtime.block_on(self.engine.purge(true));
    }
}

/// Set by ^C and SIGTERM: whoever waits ends, copies and queues are removed on the way out.
fn listen_to_signals() -> std::io::Result<Arc<AtomicBool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    drop(entered);
    let told = interrupted.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        });
        told.store(true, Ordering::Relaxed);
    })?;
    Ok(interrupted)
}
