//! Where `demo`, `verify` and `bench` work: a directory of its own, and the store that was named, in a fresh queue.
//! Where none was named: a redis-server of our own, or a file.

mod url;

use std::fs::DirBuilder;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::server::{Fsync, Server};
use crate::app::args::Invocation;
use crate::app::args::options::Opt;
use crate::app::args::options::connection::{HOST_NAME, PORT_NUMBER, QUEUE, URL};
use crate::app::args::options::sources::{CONFIG, ENV};
use crate::app::args::sources::{Resolved, Store};
use crate::app::exit::Failure;
use crate::engine::sqlite::Database;

/// The options that name a store, or a file that may.
static NAMING: [&Opt; 5] = [&URL, &HOST_NAME, &PORT_NUMBER, &CONFIG, &ENV];

/// What to work on where no store was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app) enum Own {
    Server(Fsync),
    /// A file where no redis-server is installed.
    ServerOrFile(Fsync),
    File,
}

pub(in crate::app) struct TestBed {
    /// The command that works here: part of the names of directory and queues.
    command: &'static str,
    pub(in crate::app) store: Store,
    /// For people: never with user or password.
    pub(in crate::app) address: String,
    /// Ended before the directory is removed.
    pub(in crate::app) server: Option<Server>,
    /// Others use this store too: what we put into it is to be removed afterwards.
    pub(in crate::app) is_shared: bool,
    pub(in crate::app) directory: Directory,
}

impl TestBed {
    /// On the store that was named, if one was.
    pub(in crate::app) fn prepare(
        command: &'static str,
        named: Option<&Resolved>,
        directory: Directory,
        own: Own,
    ) -> Result<Self, Failure> {
        if let Some(named) = named {
            return Ok(Self {
                command,
                store: named.store.clone(),
                address: named.address.clone(),
                server: None,
                is_shared: true,
                directory,
            });
        }
        match (own, Server::program()) {
            (Own::Server(fsync) | Own::ServerOrFile(fsync), Some(program)) => {
                Self::on_own_server(command, directory, &program, fsync)
            }
            (Own::Server(_), None) => Err(Failure::no_redis(
                "no redis-server is on the PATH; install one, or name a Redis with --url",
            )),
            (Own::ServerOrFile(_), None) => Ok(Self::on_file(command, directory, " (no redis-server is on the PATH)")),
            (Own::File, _) => Ok(Self::on_file(command, directory, "")),
        }
    }

    fn on_own_server(
        command: &'static str,
        directory: Directory,
        program: &Path,
        fsync: Fsync,
    ) -> Result<Self, Failure> {
        let server = Server::start(program, &directory.path, fsync)
            .map_err(|error| Failure::cannot("start a redis-server", error))?;
        let url = format!("redis://{}", server.address());
        let info = url.as_str().into_connection_info().expect("an address is a URL");
        Ok(Self {
            command,
            store: Store::Redis(Box::new(info)),
            address: format!("a redis-server of its own ({url})"),
            server: Some(server),
            is_shared: false,
            directory,
        })
    }

    fn on_file(command: &'static str, directory: Directory, why: &str) -> Self {
        let database = Database {
            path: directory.path.join("queue.db"),
            full: false,
        };
        Self {
            command,
            address: format!("sqlite:{}{why}", database.path.display()),
            store: Store::Sqlite(database),
            server: None,
            is_shared: false,
            directory,
        }
    }

    /// A name that no other queue has.
    pub(in crate::app) fn fresh_queue(&self) -> String {
        format!("{}-{}", self.command, random())
    }

    /// Where a proxy can stand in between: not in TLS, which would notice, and not on a socket file.
    pub(in crate::app) fn upstream(&self) -> Option<SocketAddr> {
        match &self.store {
            Store::Redis(info) => match info.addr() {
                ConnectionAddr::Tcp(host, port) => (host.as_str(), *port).to_socket_addrs().ok()?.next(),
                _ => None,
            },
            Store::Sqlite(_) => None,
        }
    }

    /// The store as a URL for a copy, with the password in it, through a proxy if there is one.
    pub(in crate::app) fn url(&self, proxy: Option<SocketAddr>) -> String {
        match &self.store {
            Store::Redis(info) => url::of_redis(info, proxy),
            Store::Sqlite(database) => {
                let full = if database.full { "?synchronous=full" } else { "" };
                format!("sqlite:{}{full}", database.path.display())
            }
        }
    }
}

/// A directory of our own, removed in the end unless it is to be kept.
pub(in crate::app) struct Directory {
    pub(in crate::app) path: PathBuf,
    is_kept: bool,
}

impl Directory {
    /// In the directory for temporary files.
    pub(in crate::app) fn temporary(command: &str) -> Result<Self, Failure> {
        let parent = std::env::temp_dir();
        let path = parent.join(format!("queenright-{command}-{}", random()));
        let _ = std::fs::create_dir_all(parent);
        Self::create(&path, false)
    }

    /// The one that was asked for, which must be empty, and stays.
    pub(in crate::app) fn named(flag: &str, path: &Path) -> Result<Self, Failure> {
        let directory = Self::create(path, true)?;
        if std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            let line = format!("{flag}: {} is not empty; name a new directory", path.display());
            return Err(Failure::usage(line));
        }
        Ok(directory)
    }

    fn create(path: &Path, is_kept: bool) -> Result<Self, Failure> {
        // One in a place that all may write to must not have been there before.
        let made = DirBuilder::new().mode(0o700).recursive(is_kept).create(path);
        made.map_err(|error| Failure::cannot(&format!("create {}", path.display()), error))?;
        // Paths are handed to processes that may work elsewhere.
        let path = path
            .canonicalize()
            .map_err(|error| Failure::cannot(&format!("use {}", path.display()), error))?;
        Ok(Self { path, is_kept })
    }

    pub(in crate::app) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// None: it is removed in the end.
    pub(in crate::app) fn kept(&self) -> Option<&Path> {
        self.is_kept.then_some(&self.path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Whether the command line names a store, itself or in a file.
pub(in crate::app) fn is_named(asked: &Invocation) -> bool {
    NAMING.iter().any(|option| asked.flags.has(option))
}

/// The same, or the environment does.
pub(in crate::app) fn is_named_anywhere(asked: &Invocation) -> bool {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_named(asked) || NAMING.iter().flat_map(|option| option.variables).any(set)
}

/// Refuses `--queue`: what is in that queue would be lost.
pub(in crate::app) fn refuse_queue(command: &str, asked: &Invocation, queues: &str) -> Result<(), Failure> {
    if asked.flags.has(&QUEUE) {
        return Err(Failure::usage(format!(
            "{command} works in {queues}; leave out --queue"
        )));
    }
    Ok(())
}

pub(in crate::app) fn random() -> String {
    (0..8).map(|_| fastrand::lowercase()).collect()
}
