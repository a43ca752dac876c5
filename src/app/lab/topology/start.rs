//! How they are started, and made to know each other.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::Value;

use super::{Fsync, LOG, NAME, Server, Topology};

/// When a server is held to be gone by a cluster,
const GONE: Duration = Duration::from_secs(1);
/// and by sentinels. They first speak to a new primary a second after they have heard of it, and count from then: with a second, one that was just
/// promoted is held to be gone, and replaced by the one that was killed.
const GONE_FOR_SENTINELS: Duration = Duration::from_millis(1500);
const SLOTS: u32 = 16_384;
const SENTINELS: usize = 3;
/// Primaries of a cluster; each has one replica.
const PRIMARIES: usize = 3;

impl Topology {
    fn beside(directory: &Path, name: &str, at: usize) -> io::Result<PathBuf> {
        let directory = directory.join(format!("{name}-{at}"));
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    pub(super) fn behind_sentinels(
        &mut self,
        program: &Path,
        replicas: usize,
        directory: &Path,
        fsync: Fsync,
    ) -> io::Result<()> {
        for at in 0..=replicas {
            let directory = Self::beside(directory, "server", at)?;
            let follows = self
                .servers
                .first()
                .map(|first| format!("replicaof 127.0.0.1 {}", first.port()));
            let further: Vec<&str> = follows.iter().map(String::as_str).collect();
            let server = Server::on_free_port(|port| {
                Server::with_settings(program, &directory, fsync, self.password.clone(), port, &further)
            })?;
            self.servers.push(server);
        }
        let primary = self.servers[0].port();
        for at in 0..SENTINELS {
            let directory = Self::beside(directory, "sentinel", at)?;
            let sentinel = Server::on_free_port(|port| {
                let settings = self.of_sentinel(port, primary);
                Server::configured(program, &directory, port, self.password.clone(), settings)
            })?;
            self.sentinels.push(sentinel);
        }
        self.agreed("none").map(drop)
    }

    fn of_sentinel(&self, port: u16, primary: u16) -> Vec<String> {
        let (password, gone) = (&self.password, GONE_FOR_SENTINELS.as_millis());
        vec![
            format!("port {port}"),
            "bind 127.0.0.1".into(),
            format!("requirepass {password}"),
            format!("user lab on >{password} ~* &* +@all"),
            format!("sentinel sentinel-pass {password}"),
            format!("sentinel monitor {NAME} 127.0.0.1 {primary} 2"),
            format!("sentinel auth-user {NAME} lab"),
            format!("sentinel auth-pass {NAME} {password}"),
            format!("sentinel down-after-milliseconds {NAME} {gone}"),
            format!("sentinel failover-timeout {NAME} 4000"),
            format!("logfile {LOG}"),
        ]
    }

    pub(super) fn as_cluster(&mut self, program: &Path, directory: &Path, fsync: Fsync) -> io::Result<()> {
        let failed = io::Error::other::<redis::RedisError>;
        let gone = format!("cluster-node-timeout {}", GONE.as_millis());
        for at in 0..2 * PRIMARIES {
            let directory = Self::beside(directory, "server", at)?;
            let further = [
                "cluster-enabled yes",
                gone.as_str(),
                "cluster-replica-validity-factor 0",
            ];
            let server = Server::on_free_port(|port| {
                Server::with_settings(program, &directory, fsync, self.password.clone(), port, &further)
            })?;
            self.servers.push(server);
        }
        let share = SLOTS.div_ceil(u32::try_from(PRIMARIES).expect("few"));
        for at in 0..PRIMARIES {
            let first = share * u32::try_from(at).expect("few");
            let slots: Vec<String> = (first..SLOTS.min(first + share)).map(|slot| slot.to_string()).collect();
            let mut command = vec!["CLUSTER", "ADDSLOTS"];
            command.extend(slots.iter().map(String::as_str));
            self.ask::<Value>(at, &command).map_err(failed)?;
        }
        let first = self.servers[0].port().to_string();
        for at in 1..self.servers.len() {
            self.ask::<Value>(at, &["CLUSTER", "MEET", "127.0.0.1", &first])
                .map_err(failed)?;
        }
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        self.until("all servers know all", |all| {
            (0..all.servers.len()).all(|at| {
                all.ask::<String>(at, &["CLUSTER", "INFO"])
                    .is_ok_and(|said| said.contains(&known))
            })
        })?;
        for at in 0..PRIMARIES {
            let id: String = self.ask(at, &["CLUSTER", "MYID"]).map_err(failed)?;
            self.until("a replica knows its primary", |all| {
                all.ask::<Value>(at + PRIMARIES, &["CLUSTER", "REPLICATE", &id]).is_ok()
            })?;
        }
        self.agreed("none").map(drop)
    }
}
