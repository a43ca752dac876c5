//! Where it is verified: on the store that was named, in a fresh queue; otherwise on a redis-server of our own, or in
//! a file.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redis::{ConnectionAddr, ConnectionInfo};

use super::PATIENCE;
use super::plan::Reach;
use crate::app::args::sources::{Resolved, Store};
use crate::app::args::{Invocation, Verify};
use crate::app::exit::Failure;
use crate::app::lab::ledger::effects;
use crate::app::lab::server::{Fsync, Server};
use crate::engine::Engine;
use crate::engine::redis::keys::Keys;
use crate::engine::sqlite::Database;
use crate::settings::Names;

/// Variables that name a store.
const NAMING: [&str; 5] = ["REDIS_URL", "REDISURL", "REDIS_HOST", "REDIS_PORT", "QUEENRIGHT_CONFIG"];
/// How many counters one command reads, or how many keys it removes.
const KEYS_PER_CALL: usize = 500;

pub(super) struct Place {
    pub(super) directory: PathBuf,
    pub(super) keys: Keys,
    pub(super) store: Store,
    /// For people: never with user or password.
    pub(super) address: String,
    pub(super) server: Option<Server>,
    /// Others use this store too: what we put into it is removed afterwards.
    shared: bool,
    kept: bool,
}

impl Place {
    pub(super) fn prepare(asked: &Invocation, resolved: &Resolved, flags: &Verify) -> Result<Self, Failure> {
        if asked.shared.queue.is_some() {
            return Err(Failure::usage(
                "verify works in a queue of its own, which it removes; leave out --queue",
            ));
        }
        let name = random();
        let directory = match &flags.keep {
            Some(path) => path.clone(),
            None => std::env::temp_dir().join(format!("queenright-verify-{name}")),
        };
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&directory);
        made.map_err(|error| Failure::cannot(&format!("create {}", directory.display()), error))?;
        if std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Failure::usage(format!(
                "--keep: {} is not empty; name a new directory",
                directory.display()
            )));
        }
        // Paths are handed to processes that may work elsewhere.
        let directory = directory
            .canonicalize()
            .map_err(|error| Failure::cannot(&format!("use {}", directory.display()), error))?;
        let queue = format!("verify-{name}");
        let keys = Keys::new(&queue, &Names::default());
        let place = |store, address, server| Self {
            directory: directory.clone(),
            keys,
            store,
            address,
            server,
            shared: false,
            kept: flags.keep.is_some() || flags.chaos,
        };
        if is_named(asked) {
            let mut place = place(resolved.store.clone(), resolved.address.clone(), None);
            place.shared = true;
            return Ok(place);
        }
        if let Some(program) = Server::program() {
            let fsync = if flags.chaos { Fsync::Always } else { Fsync::Never };
            let server = Server::start(&program, &directory, fsync)
                .map_err(|error| Failure::cannot("start a redis-server", error))?;
            let url = format!("redis://{}", server.address());
            let info = redis::IntoConnectionInfo::into_connection_info(url.as_str()).expect("an address is a URL");
            let address = format!("a redis-server of its own ({url})");
            return Ok(place(Store::Redis(Box::new(info)), address, Some(server)));
        }
        let database = Database {
            path: directory.join("queue.db"),
            full: false,
        };
        let address = format!("sqlite:{} (no redis-server is on the PATH)", database.path.display());
        Ok(place(Store::Sqlite(database), address, None))
    }

    pub(super) fn reach(&self) -> Reach {
        Reach {
            connections: self.upstream().is_some(),
            server: self.server.is_some(),
        }
    }

    /// Where a proxy can stand in between: not in TLS, which would notice, and not on a socket file.
    pub(super) fn upstream(&self) -> Option<SocketAddr> {
        match &self.store {
            Store::Redis(info) => match info.addr() {
                ConnectionAddr::Tcp(host, port) => (host.as_str(), *port).to_socket_addrs().ok()?.next(),
                _ => None,
            },
            Store::Sqlite(_) => None,
        }
    }

    /// The store as a URL for a copy, with the password in it, through a proxy if there is one.
    pub(super) fn url(&self, proxy: Option<SocketAddr>) -> String {
        match &self.store {
            Store::Redis(info) => redis_url(info, proxy),
            Store::Sqlite(database) => {
                let full = if database.full { "?synchronous=full" } else { "" };
                format!("sqlite:{}{full}", database.path.display())
            }
        }
    }

    pub(super) fn effects_prefix(&self) -> String {
        // Not under the queue's own prefix, where effects are refused, but in its slot.
        format!("{{qr:{}}}-effects:", self.keys.queue_name)
    }

    /// The counters of the effects, by block.
    pub(super) async fn effects(&self, published: u64) -> Result<BTreeMap<u64, i64>, Failure> {
        let prefix = self.effects_prefix();
        let names: Vec<String> = (0..=published / effects::BLOCK)
            .map(|block| effects::key(&prefix, block))
            .collect();
        let values: Vec<Option<i64>> = match &self.store {
            Store::Redis(info) => {
                let mut connection = connect(info).await?;
                let mut values = Vec::new();
                for names in names.chunks(KEYS_PER_CALL) {
                    let read: Vec<Option<i64>> = redis::cmd("MGET")
                        .arg(names)
                        .query_async(&mut connection)
                        .await
                        .map_err(away)?;
                    values.extend(read);
                }
                values
            }
            Store::Sqlite(database) => {
                let connection = rusqlite::Connection::open(&database.path).map_err(unreadable)?;
                let read = |name: &String| {
                    let sql = "SELECT CAST(value AS INTEGER) FROM effect_values WHERE key = ?";
                    match connection.query_row(sql, [name], |row| row.get(0)) {
                        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
                        found => found.map(Some),
                    }
                };
                names.iter().map(read).collect::<Result<_, _>>().map_err(unreadable)?
            }
        };
        let sums = (0u64..).zip(values);
        Ok(sums.filter_map(|(block, sum)| Some((block, sum?))).collect())
    }

    /// Removes what was put into a store that others use: the queue, with whoever was killed in it, and the effects.
    pub(super) async fn clean(&self, engine: &impl Engine, published: u64) -> Result<(), Failure> {
        if !self.shared {
            return Ok(());
        }
        engine.purge(true).await?;
        let prefix = self.effects_prefix();
        let counters: Vec<String> = (0..=published / effects::BLOCK)
            .map(|block| effects::key(&prefix, block))
            .collect();
        match &self.store {
            Store::Redis(info) => {
                let mut connection = connect(info).await?;
                for keys in counters.chunks(KEYS_PER_CALL) {
                    let removed: Result<u64, _> = redis::cmd("UNLINK").arg(keys).query_async(&mut connection).await;
                    removed.map_err(away)?;
                }
            }
            Store::Sqlite(database) => {
                let mut connection = rusqlite::Connection::open(&database.path).map_err(unreadable)?;
                let transaction = connection.transaction().map_err(unreadable)?;
                for counter in counters {
                    let sql = "DELETE FROM effect_values WHERE key = ?";
                    transaction.execute(sql, [counter]).map_err(unreadable)?;
                }
                transaction.commit().map_err(unreadable)?;
            }
        }
        Ok(())
    }

    /// Whether the directory stays: asked for, or worth a bug report.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    pub(super) fn kept(&self) -> Option<&Path> {
        self.kept.then_some(&self.directory)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.server = None;
        if !self.kept {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

pub(in crate::app::commands) fn is_named(asked: &Invocation) -> bool {
    let shared = &asked.shared;
    let flags = [&shared.url, &shared.host, &shared.port];
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    flags.iter().any(|flag| flag.is_some()) || shared.config.is_some() || shared.env.is_some() || NAMING.iter().any(set)
}

async fn connect(info: &ConnectionInfo) -> Result<redis::aio::MultiplexedConnection, Failure> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let client = redis::Client::open(info.clone()).map_err(away)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.map_err(away)
}

#[allow(clippy::needless_pass_by_value)] // It is what map_err hands over.
fn away(error: redis::RedisError) -> Failure {
    Failure::no_redis(format!("cannot look at the store: {error}"))
}

fn unreadable(error: rusqlite::Error) -> Failure {
    Failure::cannot("look at the file", &std::io::Error::other(error))
}

pub(in crate::app::commands) fn redis_url(info: &ConnectionInfo, proxy: Option<SocketAddr>) -> String {
    let redis = info.redis_settings();
    let user = redis.username().map(escaped).unwrap_or_default();
    let pass = redis.password().map(escaped);
    let login = match (user.as_str(), pass) {
        ("", None) => String::new(),
        (user, pass) => format!("{user}:{}@", pass.unwrap_or_default()),
    };
    let db = redis.db();
    match (proxy, info.addr()) {
        (Some(address), _) => format!("redis://{login}{address}/{db}"),
        (None, ConnectionAddr::TcpTls { host, port, .. }) => format!("rediss://{login}{}:{port}/{db}", host_of(host)),
        (None, ConnectionAddr::Unix(path)) => {
            let pass = redis.password().map(|pass| format!("&pass={}", escaped(pass)));
            let user = redis.username().map(|user| format!("&user={}", escaped(user)));
            let path = path.display();
            format!(
                "unix:{path}?db={db}{}{}",
                user.unwrap_or_default(),
                pass.unwrap_or_default()
            )
        }
        (None, ConnectionAddr::Tcp(host, port)) => format!("redis://{login}{}:{port}/{db}", host_of(host)),
        (None, other) => format!("redis://{login}{other}/{db}"),
    }
}

fn host_of(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_string()
    }
}

/// Percent-encoded, as a part of a URL.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            use std::fmt::Write as _;
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

pub(in crate::app::commands) fn random() -> String {
    (0..8).map(|_| fastrand::lowercase()).collect()
}
