//! Waiting for a replica (`--replicas 1`), beside not waiting for the same replica.

use std::time::Duration;

use super::measure::{GENERATOR, HANDLER, HANDLERS, compared, through};
use super::row::Row;
use super::row::Target::RatioAtLeast;
use super::session::Session;
use super::single;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::proxy::Proxy;
use crate::app::lab::server::{Fsync, Server};

/// How much later the bytes of the far replica arrive, each way.
const AWAY: Duration = Duration::from_millis(5);

pub(super) fn replicas(session: &Session, load: Load) -> Rows {
    if Server::program().is_none() {
        let row = Row::new("replicas", "messages/s", Vec::new());
        return Ok(vec![row.note("not measured: no redis-server on the PATH")]);
    }
    let mut rows = Vec::new();
    for (where_, delay, target) in [("beside", Duration::ZERO, 0.8), ("5 ms away", AWAY, 0.6)] {
        let session = session.durable(Fsync::Never)?;
        let follower = Follower::start(&session, delay)?;
        let (flat, single) = load.of((3_000_000, 200_000), (20_000, 2_000));
        let flat_out = |replicas: &str| {
            let generator = format!("{GENERATOR} {replicas}");
            through(&session, flat, &generator, (HANDLERS, &format!("{HANDLER} {replicas}")))
        };
        let one_by_one = |replicas: &str| {
            let generator = format!("{} {replicas}", single::generator());
            through(
                &session,
                single,
                &generator,
                (1, &format!("{} {replicas}", single::HANDLER)),
            )
        };
        for (what, move_all) in [
            ("flat-out", &flat_out as &dyn Fn(&str) -> Result<_, Failure>),
            ("one-by-one", &one_by_one),
        ] {
            // What nobody waited for must not be waited for by the next.
            let measured = |replicas: &str| {
                let moved = follower.catch_up().and_then(|()| move_all(replicas));
                moved.map_err(|failure| follower.explained(failure))
            };
            let ours = || measured("--replicas 1");
            let row = compared(&format!("replicas {where_}, {what}"), load.rounds, ours, || {
                Ok(measured("")?.0)
            })?;
            let row = row.target(RatioAtLeast(target)).moonshot(RatioAtLeast(0.95));
            rows.push(row.note("baseline: the same replica, not waited for"));
        }
    }
    Ok(rows)
}

/// A replica of the session's server.
struct Follower<'a> {
    session: &'a Session,
    replica: Server,
    /// What is between the two, if it is far away.
    _link: Option<Proxy>,
}

impl<'a> Follower<'a> {
    fn start(session: &'a Session, delay: Duration) -> Result<Self, Failure> {
        let failing = |error: std::io::Error| Failure::cannot("start a replica", error);
        let primary = primary(session)?;
        let replica = primary.replica().map_err(failing)?;
        // On no disk: its own pace is not what is measured.
        ask(&replica, &["CONFIG", "SET", "appendonly", "no"])?;
        let mut link = None;
        if !delay.is_zero() {
            let proxy = link.insert(Proxy::start(primary.address()).map_err(failing)?);
            proxy.delay(delay);
            let port = proxy.address().port().to_string();
            ask(&replica, &["REPLICAOF", "127.0.0.1", &port])?;
        }
        let follower = Self {
            session,
            replica,
            _link: link,
        };
        follower.catch_up()?;
        Ok(follower)
    }

    /// Copies that wait for a replica wait for as long as it is gone: that is said, too.
    fn explained(&self, mut failure: Failure) -> Failure {
        let said = ask(&self.replica, &["INFO", "replication"]).ok();
        let said: String = said
            .and_then(|said| redis::from_redis_value(said).ok())
            .unwrap_or_default();
        if !said.contains("master_link_status:up") {
            failure
                .line
                .push_str("; the replica has lost its link to the primary, and the copies wait for it");
        }
        failure
    }

    /// Until it has all that its primary has now.
    fn catch_up(&self) -> Result<(), Failure> {
        let offset = |server: &Server, name: &str| -> Result<Option<u64>, Failure> {
            let told: String = redis::from_redis_value(ask(server, &["INFO", "replication"])?)
                .map_err(|error| Failure::cannot("read what a server says", error))?;
            let told = told.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
            Ok(told)
        };
        let wanted = offset(primary(self.session)?, "master_repl_offset:")?;
        self.session
            .until("the replica has it all", Duration::from_millis(20), || {
                let follows = offset(&self.replica, "slave_repl_offset:")?;
                Ok((follows.is_some() && follows >= wanted).then_some(()))
            })
    }
}

fn primary(session: &Session) -> Result<&Server, Failure> {
    session
        .own_server()
        .ok_or_else(|| Failure::failed("no server of its own"))
}

fn ask(server: &Server, command: &[&str]) -> Result<redis::Value, Failure> {
    server
        .command(command)
        .map_err(|error| Failure::cannot("set up a replica", error))
}
