//! Where `demo`, `verify` and `bench` work: a directory of its own, and the store that was named, in a fresh queue.
//! Where none was named: a redis-server of our own, or a file.

mod url;

use std::fs::DirBuilder;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::proxy::Proxy;
use super::server::{Fsync, Server};
use super::topology::{Kind, Topology};
use crate::app::args::Invocation;
use crate::app::args::options::Opt;
use crate::app::args::options::connection::{HOST_NAME, PORT_NUMBER, QUEUE, URL};
use crate::app::args::options::sources::{CONFIG, ENV};
use crate::app::args::sources::{Resolved, Store};
use crate::app::exit::Failure;
use crate::app::password;
use crate::engine::any::StoreUrl;
use crate::engine::redis::rights::{ACL_LINE, FOR_EFFECTS, words};
use crate::engine::redis::{Place, Via};
use crate::engine::sqlite::Database;
use crate::node::id::new_id;

/// The options that name a store, or a file that may.
static NAMING: [&Opt; 5] = [&URL, &HOST_NAME, &PORT_NUMBER, &CONFIG, &ENV];

/// What to work on where no store was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    Server(Fsync),
    /// A file where no redis-server is installed.
    ServerOrFile(Fsync),
    File,
}

/// Where Linux keeps files in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Who the copies are on a server of our own.
pub const USER: &str = "copies";

pub struct TestBed {
    /// The command that works here: part of the names of directory and queues.
    command: &'static str,
    pub store: Store,
    /// For people: never with user or password.
    pub address: String,
    /// Ended before the directory is removed.
    pub server: Option<Server>,
    /// Follows the server, and may take its place.
    pub replica: Option<Server>,
    /// The same store as copies reach it, where they are a user of their own.
    for_copies: Option<Store>,
    /// Stands before the server of our own, so that another can take its place.
    front: Option<Proxy>,
    /// Of a queue with shards, where the others are.
    pub beside: Vec<Beside>,
    /// Several servers of our own, in the place of one.
    pub topology: Option<Arc<Mutex<Topology>>>,
    /// Others use this store too: what we put into it is to be removed afterwards.
    pub is_shared: bool,
    pub directory: Directory,
}

/// One more store of a queue with shards.
pub struct Beside {
    pub store: Store,
    pub address: String,
    /// If it is our own,
    pub server: Option<Server>,
    /// with what stands before it,
    pub front: Option<Proxy>,
    /// and as copies reach it.
    for_copies: Option<Store>,
}

impl TestBed {
    /// On the store that was named, if one was.
    pub fn prepare(
        command: &'static str,
        named: Option<&Resolved>,
        directory: Directory,
        own: Own,
    ) -> Result<Self, Failure> {
        let on_file = |why| {
            let path = directory.path.join("queue.db");
            let address = format!("sqlite:{}{why}", path.display());
            Ok((Store::Sqlite(Database { path, full: false }), address, None))
        };
        let (store, address, server) = match (named, own, Server::program()) {
            (Some(named), _, _) => Ok((password::fixed(named)?, named.address.clone(), None)),
            (None, Own::Server(fsync) | Own::ServerOrFile(fsync), Some(program)) => {
                let server = Server::start(&program, &directory.path, fsync);
                let server = server.map_err(|error| Failure::cannot("start a redis-server", error))?;
                let address = format!("a redis-server of its own (redis://{})", server.address());
                Ok((server_at(&server, server.address()), address, Some(server)))
            }
            (None, Own::Server(_), None) => Err(Failure::no_redis(
                "no redis-server is on the PATH; install one, or name a Redis with --url",
            )),
            (None, Own::ServerOrFile(_), None) => on_file(" (no redis-server is on the PATH)"),
            (None, Own::File, _) => on_file(""),
        }?;
        Ok(Self {
            command,
            store,
            address,
            server,
            replica: None,
            for_copies: None,
            front: None,
            beside: named
                .iter()
                .flat_map(|named| &named.others)
                .map(Beside::named)
                .collect(),
            topology: None,
            is_shared: named.is_some(),
            directory,
        })
    }

    /// A queue with so many shards has a server or a file of our own for each, where no store was named.
    pub fn add_shards(&mut self, shards: usize, fsync: Fsync) -> Result<(), Failure> {
        if self.is_shared || self.topology.is_some() || shards < 2 {
            return Ok(());
        }
        let Some(program) = Server::program().filter(|_| self.server.is_some()) else {
            self.beside = (1..shards).map(|shard| Beside::file(&self.directory, shard)).collect();
            self.address = format!("{shards} files of its own in {}", self.directory.path.display());
            return Ok(());
        };
        for shard in 1..shards {
            let directory = self.directory.path.join(format!("shard-{shard}"));
            let started =
                Directory::create(&directory, true).map(|directory| Server::start(&program, &directory.path, fsync));
            let server = started?.map_err(|error| Failure::cannot("start a redis-server", error))?;
            self.beside.push(Beside {
                store: server_at(&server, server.address()),
                address: format!("redis://{}", server.address()),
                server: Some(server),
                front: None,
                for_copies: None,
            });
        }
        self.address = format!("{shards} redis-servers of its own");
        Ok(())
    }

    /// On several servers of our own.
    pub fn several(
        command: &'static str,
        kind: Kind,
        replicas: usize,
        directory: Directory,
        fsync: Fsync,
    ) -> Result<Self, Failure> {
        if Server::program().is_none() {
            return Err(Failure::no_redis("no redis-server is on the PATH; install one"));
        }
        let topology = Topology::start(kind, replicas, &directory.path, fsync);
        let topology = topology.map_err(|error| Failure::cannot("start several servers", error))?;
        let StoreUrl::Redis(url) = StoreUrl::parse(&topology.url())? else {
            unreachable!("a Redis")
        };
        let address = format!("servers of its own ({})", url.shown());
        Ok(Self {
            command,
            store: Store::Redis(Box::new(url.place()?)),
            address,
            server: None,
            replica: None,
            for_copies: None,
            front: None,
            beside: Vec::new(),
            topology: Some(Arc::new(Mutex::new(topology))),
            is_shared: false,
            directory,
        })
    }

    /// From now on the server of our own is reached through a proxy, so that another can take its place.
    pub fn stand_before(&mut self) -> std::io::Result<()> {
        if let Some(server) = &self.server {
            let front = Proxy::start(server.address())?;
            self.store = server_at(server, front.address());
            self.front = Some(front);
        }
        for beside in &mut self.beside {
            if let Some(server) = &beside.server {
                let front = Proxy::start(server.address())?;
                beside.store = server_at(server, front.address());
                beside.front = Some(front);
            }
        }
        Ok(())
    }

    /// How many servers of our own may be harmed, and one of them.
    pub fn servers(&self) -> usize {
        usize::from(self.server.is_some()) + self.beside.iter().filter(|beside| beside.server.is_some()).count()
    }

    pub fn server_of(&mut self, shard: usize) -> Option<&mut Server> {
        match shard.checked_sub(1) {
            None => self.server.as_mut(),
            Some(at) => self.beside.get_mut(at)?.server.as_mut(),
        }
    }

    /// What stands before a server of our own.
    pub fn front_of(&self, shard: usize) -> Option<&Proxy> {
        match shard.checked_sub(1) {
            None => self.front.as_ref(),
            Some(at) => self.beside.get(at)?.front.as_ref(),
        }
    }

    /// The stores of further shards, as a queue is opened on them.
    pub fn others(&self) -> Vec<(Store, String)> {
        let other = |beside: &Beside| (beside.store.clone(), beside.address.clone());
        self.beside.iter().map(other).collect()
    }

    /// The store of a shard.
    pub fn store_of(&self, shard: usize) -> &Store {
        match (shard % (self.beside.len() + 1)).checked_sub(1) {
            None => &self.store,
            Some(at) => &self.beside[at].store,
        }
    }

    /// From now on the copies are a user of their own on the server of our own, who may do what nodes need on this queue, and
    /// what effects need on the keys with this prefix. Not before Redis 7: there, scripts cannot ask what they may do.
    pub fn limit_copies(&mut self, queue: &str, effects: &str) -> std::io::Result<()> {
        let further = format!(" ~{effects}* {}", words(FOR_EFFECTS));
        if let Some(server) = &mut self.server {
            self.for_copies = limited(server, &self.store, queue, &further)?;
        }
        // The keys of further shards, and of their effects, begin so.
        let further = format!(" ~{{qs:{queue}/* &{{qs:{queue}/* {}", words(FOR_EFFECTS));
        for beside in &mut self.beside {
            if let Some(server) = &mut beside.server {
                beside.for_copies = limited(server, &beside.store, queue, &further)?;
            }
        }
        Ok(())
    }

    /// Which servers of our own there are, if there are several.
    pub fn several_kind(&self) -> Option<Kind> {
        let topology = self.topology.as_ref()?;
        Some(topology.lock().unwrap_or_else(PoisonError::into_inner).kind())
    }

    /// Whether rights can be taken away from the copies alone.
    pub fn are_copies_limited(&self) -> bool {
        self.for_copies.is_some()
    }

    /// The server is killed, and its replica takes its place.
    pub fn promote(&mut self) {
        if let (Some(replica), Some(front)) = (self.replica.take(), &self.front) {
            front.upstream(replica.address());
            // The old one is killed with this.
            self.server = Some(replica);
            front.cut();
        }
    }

    /// A name that no other queue has.
    pub fn fresh_queue(&self) -> String {
        format!("{}-{}", self.command, new_id())
    }

    /// Where proxies can stand in between, one before each store: not in TLS, which would notice, and not on a socket file. None can, or all.
    pub fn upstreams(&self) -> Vec<SocketAddr> {
        let stores = std::iter::once(&self.store).chain(self.beside.iter().map(|beside| &beside.store));
        stores.map(upstream).collect::<Option<_>>().unwrap_or_default()
    }

    /// The store as a URL for a copy, with the password in it, through a proxy if there is one.
    pub fn url(&self, proxy: Option<SocketAddr>) -> String {
        url_of(self.for_copies.as_ref().unwrap_or(&self.store), proxy)
    }

    /// The same of all stores of a queue with shards.
    pub fn urls(&self, proxies: &[SocketAddr]) -> Vec<String> {
        let mut urls = vec![self.url(proxies.first().copied())];
        for (at, beside) in self.beside.iter().enumerate() {
            let store = beside.for_copies.as_ref().unwrap_or(&beside.store);
            urls.push(url_of(store, proxies.get(at + 1).copied()));
        }
        urls
    }
}

impl Beside {
    fn file(directory: &Directory, shard: usize) -> Self {
        let path = directory.path.join(format!("queue-{shard}.db"));
        Self {
            address: format!("sqlite:{}", path.display()),
            store: Store::Sqlite(Database { path, full: false }),
            server: None,
            front: None,
            for_copies: None,
        }
    }

    fn named((store, address): &(Store, String)) -> Self {
        Self {
            store: store.clone(),
            address: address.clone(),
            server: None,
            front: None,
            for_copies: None,
        }
    }
}

fn url_of(store: &Store, proxy: Option<SocketAddr>) -> String {
    match store {
        Store::Redis(place) => url::of_redis(place, proxy),
        Store::Sqlite(database) => {
            let full = if database.full { "?synchronous=full" } else { "" };
            format!("sqlite:{}{full}", database.path.display())
        }
    }
}

/// This server as a user of the copies' own reaches it, who may do what nodes need on this queue, and what is added. None: not before Redis 7.
fn limited(server: &mut Server, store: &Store, queue: &str, further: &str) -> std::io::Result<Option<Store>> {
    let Some(address) = upstream(store) else {
        return Ok(None);
    };
    if server.command(&["ACL", "DRYRUN", "default", "PING"]).is_err() {
        return Ok(None);
    }
    let password = new_id();
    let line = ACL_LINE.replace("NAME", USER).replace("PASSWORD", &password);
    let line = line.replace("QUEUE", queue) + further;
    // Without `ACL SETUSER`.
    let user: Vec<String> = line.split(' ').skip(2).map(String::from).collect();
    server.admit(&user)?;
    let url = format!("redis://{USER}:{password}@{address}");
    let info = url.as_str().into_connection_info().expect("an address is a URL");
    Ok(Some(Store::Redis(Box::new(Place::at(info)))))
}

fn server_at(server: &Server, address: SocketAddr) -> Store {
    Store::Redis(Box::new(Place::at(server.reached_at(address))))
}

fn upstream(store: &Store) -> Option<SocketAddr> {
    match store {
        // What sentinels or a cluster say would lead past it.
        Store::Redis(place) if place.via != Via::Address => None,
        Store::Redis(place) => match place.info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.as_str(), *port).to_socket_addrs().ok()?.next(),
            _ => None,
        },
        Store::Sqlite(_) => None,
    }
}

/// A directory of our own, removed in the end unless it is to be kept.
pub struct Directory {
    pub path: PathBuf,
    pub is_kept: bool,
}

impl Directory {
    /// In the directory for temporary files.
    pub fn temporary(command: &str) -> Result<Self, Failure> {
        let name = format!("queenright-{command}-{}", new_id());
        let parent = std::env::temp_dir();
        let _ = std::fs::create_dir_all(&parent);
        let made = Self::create(&parent.join(&name), false);
        // A container whose disk is read-only still has memory to share.
        made.or_else(|failure| Self::create(&Path::new(SHARED_MEMORY).join(&name), false).map_err(|_| failure))
    }

    /// The one that was asked for, which must be new, and stays.
    pub fn named(flag: &str, path: &Path) -> Result<Self, Failure> {
        if path.symlink_metadata().is_ok() {
            let line = format!("{flag}: {} is there already; name a new directory", path.display());
            return Err(Failure::usage(line));
        }
        if let Some(parent) = path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        Self::create(path, true)
    }

    fn create(path: &Path, is_kept: bool) -> Result<Self, Failure> {
        // One that was there before may belong to others, or may be a link of theirs.
        let made = DirBuilder::new().mode(0o700).create(path);
        made.map_err(|error| Failure::cannot(&format!("create {}", path.display()), error))?;
        // Paths are handed to processes that may work elsewhere.
        let path = path
            .canonicalize()
            .map_err(|error| Failure::cannot(&format!("use {}", path.display()), error))?;
        Ok(Self { path, is_kept })
    }

    /// None: it is removed in the end.
    pub fn kept(&self) -> Option<&Path> {
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
pub fn is_named(asked: &Invocation) -> bool {
    NAMING.iter().any(|option| asked.flags.has(option))
}

/// The same, or the environment does.
pub fn is_named_anywhere(asked: &Invocation) -> bool {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_named(asked) || NAMING.iter().flat_map(|option| option.variables).any(set)
}

/// Refuses `--queue`: what is in that queue would be lost.
pub fn refuse_queue(command: &str, asked: &Invocation, queues: &str) -> Result<(), Failure> {
    if asked.flags.has(&QUEUE) {
        return Err(Failure::usage(format!(
            "{command} works in {queues}; leave out --queue"
        )));
    }
    Ok(())
}
