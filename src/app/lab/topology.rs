//! Several servers that keep one queue between them: a primary with replicas behind sentinels, or a cluster.
//!
//! They are real processes on free ports of loopback, and each may be harmed.

mod start;

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value};
use rustix::process::Signal;

use super::copy;
pub use super::server::Fsync;
use super::server::{LOG, Server};
use crate::app::output::time::now_ms;
use crate::engine::redis::keys::Keys;
use crate::node::id::new_id;
use crate::settings::Names;

/// What the sentinels call the primary.
const NAME: &str = "queen";
/// How long servers may take to agree.
const AGREE_MAX: Duration = Duration::from_mins(1);
const ASK_AGAIN: Duration = Duration::from_secs(6);
const AGAIN: Duration = Duration::from_millis(20);
/// How long replicas may take to say that they have something.
const COUNTED_MAX: Duration = Duration::from_millis(100);

/// Which servers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A primary, its replicas and three sentinels.
    Sentinel,
    /// Three primaries, each with a replica.
    Cluster,
}

/// How the primary is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failover {
    /// In good order: `SENTINEL FAILOVER`, `CLUSTER FAILOVER`.
    Asked,
    /// `CLUSTER FAILOVER FORCE`: the replica does not wait for the primary. Behind sentinels as [`Failover::Asked`].
    Forced,
    /// `CLUSTER FAILOVER TAKEOVER`: nor does it ask the others. Behind sentinels as [`Failover::Asked`].
    Takeover,
    /// kill -9 of the primary; it is started anew once another has its place.
    Killed,
}

impl Failover {
    pub const ALL: [Self; 4] = [Self::Asked, Self::Forced, Self::Takeover, Self::Killed];
}

/// The servers, and what is known of them. They end when this is dropped.
pub struct Topology {
    kind: Kind,
    password: String,
    /// The one whose directory the others are beside.
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    /// One that is frozen answers nobody.
    frozen: Cell<Option<usize>>,
    /// When another primary was last seen.
    ready_ms: Cell<u64>,
    /// Which shard of a queue is meant, and how many it has.
    shard: Cell<(usize, usize)>,
}

type Answer<T> = Result<T, redis::RedisError>;

impl Topology {
    /// Starts them in a directory that nobody else can look into, and waits until they agree.
    ///
    /// Behind sentinels the primary has so many replicas; in a cluster each has one.
    pub fn start(kind: Kind, replicas: usize, directory: &Path, fsync: Fsync) -> io::Result<Self> {
        let program =
            Server::program().ok_or_else(|| io::Error::other("no redis-server and no valkey-server on PATH"))?;
        let mut topology = Self {
            kind,
            password: new_id(),
            servers: Vec::new(),
            sentinels: Vec::new(),
            frozen: Cell::new(None),
            ready_ms: Cell::new(0),
            shard: Cell::new((0, 1)),
        };
        match kind {
            Kind::Sentinel => topology.behind_sentinels(&program, replicas, directory, fsync)?,
            Kind::Cluster => topology.as_cluster(&program, directory, fsync)?,
        }
        Ok(topology)
    }

    /// As a node is told where the queue is.
    #[must_use]
    pub fn url(&self) -> String {
        let (asked, end) = match self.kind {
            Kind::Sentinel => (&self.sentinels, format!("/{NAME}/0?sentinel_pass={}", self.password)),
            Kind::Cluster => (&self.servers, String::new()),
        };
        let hosts: Vec<String> = asked.iter().map(|server| server.address().to_string()).collect();
        let via = match self.kind {
            Kind::Sentinel => "sentinel",
            Kind::Cluster => "cluster",
        };
        format!("redis+{via}://:{}@{}{end}", self.password, hosts.join(","))
    }

    /// One server alone, as a plain URL has it.
    #[must_use]
    pub fn url_of(&self, server: usize) -> String {
        format!("redis://:{}@{}", self.password, self.servers[server].address())
    }

    /// A sentinel, as if it were a Redis.
    #[must_use]
    pub fn url_of_a_sentinel(&self) -> String {
        format!("redis://:{}@{}", self.password, self.sentinels[0].address())
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many servers keep data.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// From now on a queue stands for this one of its shards.
    pub fn of_shard(&self, shard: usize, shards: usize) {
        self.shard.set((shard, shards));
    }

    fn keys(&self, queue: &str) -> Keys {
        let (shard, shards) = self.shard.get();
        Keys::new(queue, &Names::default().of_shard(shard, shards))
    }

    /// One command on a server.
    pub fn ask<T: FromRedisValue>(&self, server: usize, command: &[&str]) -> Answer<T> {
        redis::from_redis_value(self.servers[server].command(command)?).map_err(Into::into)
    }

    /// The server that has the queue now, if one says so.
    #[must_use]
    pub fn primary(&self, queue: &str) -> Option<usize> {
        match self.kind {
            Kind::Sentinel => {
                let port = self.said_primary()?;
                let found = self.servers.iter().position(|server| server.port() == port)?;
                self.is_primary(found).then_some(found)
            }
            Kind::Cluster => {
                // The others say MOVED.
                let meta = self.keys(queue).meta;
                (0..self.servers.len()).find(|at| {
                    self.servers[*at].is_running()
                        && self.frozen.get() != Some(*at)
                        && self.is_primary(*at)
                        && self.ask::<Value>(*at, &["EXISTS", &meta]).is_ok()
                })
            }
        }
    }

    fn said_primary(&self) -> Option<u16> {
        self.said_primaries().next()
    }

    /// The port that each sentinel names.
    fn said_primaries(&self) -> impl Iterator<Item = u16> {
        let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
        let said = self
            .sentinels
            .iter()
            .filter_map(move |sentinel| sentinel.command(&asked).ok());
        said.filter_map(|said| redis::from_redis_value::<(String, u16)>(said).ok())
            .map(|(_, port)| port)
    }

    fn is_primary(&self, server: usize) -> bool {
        self.said(server, "replication").contains("role:master")
    }

    fn said(&self, server: usize, section: &str) -> String {
        self.ask(server, &["INFO", section]).unwrap_or_default()
    }

    /// Lets another server have the queue, and waits until it does; what was killed is started anew, and follows it.
    pub fn fail_over(&mut self, queue: &str, how: Failover) -> io::Result<()> {
        let old = self.agreed(queue)?;
        let replica = self.replica_of(old);
        if how == Failover::Killed {
            self.servers[old].kill();
        }
        // Servers refuse while the one before is under way, and give up one that takes them too long.
        let asked = Cell::new(None::<Instant>);
        self.until("another primary", |all| {
            if how != Failover::Killed && asked.get().is_none_or(|at| at.elapsed() > ASK_AGAIN) {
                asked.set(Some(Instant::now()));
                all.ask_for_another(how, replica);
            }
            all.primary(queue).is_some_and(|now| now != old)
        })?;
        self.ready_ms.set(now_ms());
        if how == Failover::Killed {
            self.restart(old)?;
        }
        // Sentinels would do it after some ten seconds.
        if let (Kind::Sentinel, Some(now)) = (self.kind, self.primary(queue)) {
            let port = self.servers[now].port().to_string();
            let _ = self.ask::<Value>(old, &["REPLICAOF", "127.0.0.1", &port]);
        }
        self.agreed(queue).map(drop)
    }

    fn ask_for_another(&self, how: Failover, replica: Option<usize>) {
        let (Kind::Cluster, Some(replica)) = (self.kind, replica) else {
            let asked = ["SENTINEL", "FAILOVER", NAME];
            let _ = self.sentinels.iter().any(|sentinel| sentinel.command(&asked).is_ok());
            return;
        };
        let further = match how {
            Failover::Forced => Some("FORCE"),
            Failover::Takeover => Some("TAKEOVER"),
            _ => None,
        };
        let command: Vec<&str> = ["CLUSTER", "FAILOVER"].into_iter().chain(further).collect();
        let _ = self.ask::<Value>(replica, &command);
    }

    /// The primary, once all others follow one.
    pub fn agreed(&self, queue: &str) -> io::Result<usize> {
        self.until("all servers agree", |all| {
            let Some(primary) = all.primary(queue) else {
                return false;
            };
            (0..all.servers.len()).all(|at| {
                let said = all.said(at, "replication");
                said.contains("role:master") || said.contains("master_link_status:up")
            }) && all.is_counted_on(primary, queue)
                && match all.kind {
                    Kind::Sentinel => {
                        let masters = (0..all.servers.len()).filter(|at| all.is_primary(*at)).count();
                        masters == 1 && all.sentinels_see_all()
                    }
                    Kind::Cluster => (0..all.servers.len()).all(|at| {
                        all.ask::<String>(at, &["CLUSTER", "INFO"])
                            .is_ok_and(|said| said.contains("cluster_state:ok"))
                    }),
                }
        })?;
        for at in 0..self.servers.len() {
            let _ = self.ask::<Value>(at, &["CONFIG", "SET", "replica-priority", "100"]);
        }
        self.primary(queue).ok_or_else(|| io::Error::other("no primary"))
    }

    /// Whether `WAIT` counts the replicas of this server: it does from their next word on, which may come a second after they are in step.
    fn is_counted_on(&self, primary: usize, queue: &str) -> bool {
        let replicas = match self.kind {
            Kind::Sentinel => self.servers.len() - 1,
            Kind::Cluster => 1,
        };
        let beside = format!("{}lab", self.keys(queue).prefix);
        self.servers[primary].is_kept_by(replicas, &beside, COUNTED_MAX)
    }

    fn sentinels_see_all(&self) -> bool {
        self.sentinels.iter().all(|sentinel| {
            let Ok(said) = sentinel.command(&["SENTINEL", "MASTER", NAME]) else {
                return !sentinel.is_running();
            };
            let said: Vec<String> = redis::from_redis_value(said).unwrap_or_default();
            let field = |name: &str| {
                said.iter()
                    .position(|word| word == name)
                    .and_then(|at| said.get(at + 1))
            };
            let replicas = self.servers.len() - 1;
            field("num-slaves") == Some(&replicas.to_string()) && field("flags").is_some_and(|flags| flags == "master")
        })
    }

    /// A replica of this server.
    #[must_use]
    pub fn replica_of(&self, primary: usize) -> Option<usize> {
        let port = format!("master_port:{}", self.servers[primary].port());
        (0..self.servers.len()).find(|at| self.said(*at, "replication").lines().any(|line| line.trim() == port))
    }

    /// kill -9.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    /// Starts one that was killed, once no sentinel calls it the primary: it may come back empty, and a node that has just asked would go there. Nor
    /// is it promoted before all [agree](Self::agreed).
    pub fn restart(&mut self, server: usize) -> io::Result<()> {
        if self.kind == Kind::Cluster {
            return self.servers[server].run();
        }
        let port = self.servers[server].port();
        self.until("no sentinel calls it the primary", |all| {
            all.said_primaries().all(|said| said != port)
        })?;
        self.servers[server].run_unpromotable()
    }

    /// Cuts the primary of the queue off from its replicas: what it acknowledges now, they lack. Returns it.
    pub fn detach(&self, queue: &str) -> io::Result<usize> {
        let primary = self.agreed(queue)?;
        for at in (0..self.servers.len()).filter(|at| *at != primary) {
            let wrong = ["CONFIG", "SET", "masterauth", "wrong"];
            self.ask::<Value>(at, &wrong).map_err(io::Error::other)?;
        }
        let cut = self.ask::<Value>(primary, &["CLIENT", "KILL", "TYPE", "slave"]);
        cut.map_err(io::Error::other)?;
        Ok(primary)
    }

    /// Replicas can follow again; all servers must be running.
    pub fn attach(&self) -> io::Result<()> {
        let right = ["CONFIG", "SET", "masterauth", &self.password];
        self.until("all servers take it", |all| {
            // Sentinels let a server write down how it is set, also the wrong word.
            (0..all.servers.len())
                .all(|at| all.ask::<Value>(at, &right).is_ok() && all.ask::<Value>(at, &["CONFIG", "REWRITE"]).is_ok())
        })
    }

    /// Waits until another server than this one has the queue.
    pub fn replaced(&self, queue: &str, old: usize) -> io::Result<()> {
        self.until("another primary", |all| {
            all.primary(queue).is_some_and(|now| now != old)
        })?;
        self.ready_ms.set(now_ms());
        Ok(())
    }

    /// When another primary was last seen, in milliseconds since 1970.
    #[must_use]
    pub fn ready_ms(&self) -> u64 {
        self.ready_ms.get()
    }

    /// kill -9 of a sentinel.
    pub fn kill_sentinel(&mut self, sentinel: usize) {
        self.sentinels[sentinel].kill();
    }

    pub fn restart_sentinel(&mut self, sentinel: usize) -> io::Result<()> {
        self.sentinels[sentinel].run()
    }

    /// SIGSTOP, or SIGCONT.
    pub fn freeze(&self, server: usize, frozen: bool) {
        self.frozen.set(frozen.then_some(server));
        if let Some(pid) = self.servers[server].pid() {
            copy::signal(pid, if frozen { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Moves the slot of the queue to another primary while it is used, key by key.
    pub fn migrate(&self, queue: &str) -> io::Result<()> {
        let failed = io::Error::other::<redis::RedisError>;
        let from = self.agreed(queue)?;
        let to = (0..self.servers.len())
            .find(|at| *at != from && self.is_primary(*at))
            .ok_or_else(|| io::Error::other("no other primary"))?;
        let meta = self.keys(queue).meta;
        let slot: u64 = self.ask(from, &["CLUSTER", "KEYSLOT", &meta]).map_err(failed)?;
        let slot = slot.to_string();
        let id = |at| self.ask::<String>(at, &["CLUSTER", "MYID"]).map_err(failed);
        let (from_id, to_id) = (id(from)?, id(to)?);
        let set = |at, what: &[&str]| {
            let command = [&["CLUSTER", "SETSLOT", slot.as_str()], what].concat();
            self.ask::<Value>(at, &command).map_err(failed).map(drop)
        };
        set(to, &["IMPORTING", &from_id])?;
        set(from, &["MIGRATING", &to_id])?;
        let port = self.servers[to].port().to_string();
        loop {
            let keys = ["CLUSTER", "GETKEYSINSLOT", slot.as_str(), "10"];
            let keys: Vec<String> = self.ask(from, &keys).map_err(failed)?;
            if keys.is_empty() {
                break;
            }
            for key in keys {
                let login = ["AUTH", &self.password, "KEYS", &key];
                let command = [&["MIGRATE", "127.0.0.1", port.as_str(), "", "0", "5000"], &login[..]].concat();
                self.ask::<Value>(from, &command).map_err(failed)?;
            }
        }
        set(to, &["NODE", &to_id])?;
        set(from, &["NODE", &to_id])?;
        for at in (0..self.servers.len()).filter(|at| *at != from && *at != to && self.is_primary(*at)) {
            set(at, &["NODE", &to_id])?;
        }
        Ok(())
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + AGREE_MAX;
        while !is_so(self) {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("waited for too long: {what}")));
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }
}
