//! How a connection is made: to the first server that answers, with a password of now, and with a look at who that is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionInfo, RedisResult};
use tokio::time::timeout;

use super::super::greeting::{self, Greeting, Mode};
use super::super::locator::Targets;
use super::super::place::{host_port, shown};
use super::super::refusal::{self, classify};
use super::super::stream::Connection;
use super::kept::Mark;
use super::{Link, Open, silent};
use crate::error::{Absence, Error, Result};

impl Link {
    pub(super) async fn connect(&self) -> Result<Open> {
        let password = match &self.password {
            Some(password) => Some(
                password
                    .ask(self.answer_timeout)
                    .await
                    .map_err(|error| self.without_password(&error))?,
            ),
            None => None,
        };
        let targets = self.locator.targets().await?;
        let changes = targets.changes;
        let connected = self.open_first(targets, password).await;
        if connected.as_ref().is_err_and(Error::is_away) {
            self.locator.doubt(changes);
        }
        match (&self.password, connected) {
            (Some(password), Err(error)) if error.is_about_credentials() && password.was_admitted() => {
                Err(self.without_password(&error))
            }
            (Some(password), Ok(connection)) => {
                password.admitted();
                Ok(connection)
            }
            (_, connected) => connected,
        }
    }

    /// The next try may have another password.
    fn without_password(&self, why: &impl std::fmt::Display) -> Error {
        Error::Away {
            store: format!("Redis at {}", self.address),
            absence: Absence::Unable,
            reason: format!("there is no password for it: {why}"),
        }
    }

    /// The first of several servers that answers. Each next one is tried when the one before has failed, or has been silent for
    /// some time.
    async fn open_first(&self, targets: Targets, password: Option<String>) -> Result<Open> {
        let Targets { infos, changes } = targets;
        let patience = self.answer_timeout / 8;
        let mut tries = FuturesUnordered::new();
        let mut infos = infos.into_iter();
        let mut last = None;
        loop {
            if let Some(info) = infos.next() {
                let info = match &password {
                    Some(password) => {
                        let settings = info.redis_settings().clone().set_password(password);
                        info.set_redis_settings(settings)
                    }
                    None => info,
                };
                tries.push(self.open(info, changes));
            }
            let has_more = infos.len() > 0;
            match timeout(if has_more { patience } else { Duration::MAX }, tries.next()).await {
                Ok(Some(Ok(open))) => return Ok(open),
                Ok(Some(Err(error))) => last = Some(error),
                Ok(None) => return Err(last.unwrap_or_else(|| classify(&self.address, &silent()))),
                Err(_) => {}
            }
        }
    }

    async fn open(&self, info: ConnectionInfo, changes: u64) -> Result<Open> {
        let address = self.address_of(&info);
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        let greeted = self.greet(&info, serial).await;
        let (connection, greeting) = greeted.map_err(|error| classify(&address, &error))?;
        self.heed(&greeting, &address)?;
        let is_replica = greeting.is_replica && !self.locator.replicas_redirect();
        Ok(Open {
            connection,
            to: Arc::new(info),
            changes,
            mark: self
                .marks
                .as_deref()
                .map(|prefix| Mark::under(prefix, &greeting.history)),
            serial,
            is_replica,
        })
    }

    /// Connects, and asks what there is to know. What a server does not want to say is not needed.
    async fn greet(&self, info: &ConnectionInfo, serial: u64) -> RedisResult<(Connection, Greeting)> {
        let patience = self.answer_timeout;
        let mut connection = self.connect_stream(info, serial).await?;
        let mut greeting = Greeting::default();
        let mut pipe = redis::pipe();
        pipe.cmd("ROLE");
        if self.run.is_some() {
            pipe.cmd("INFO").arg("server");
        }
        if self.marks.is_some() {
            pipe.cmd("INFO").arg("replication");
        }
        let told = timeout(patience, connection.redis.send_packed_commands(&pipe, 0, pipe.len()));
        let mut told = told.await.unwrap_or_else(|_| Err(silent()))?.into_iter();
        greeting.is_replica = told.next().is_some_and(|role| greeting::is_replica(&role));
        let server = self.run.as_ref().and_then(|_| told.next());
        (greeting.run, greeting.mode) = greeting::server(server);
        greeting.history = greeting::history(told.next());
        if let (Mode::Cluster, Some((host, _))) = (greeting.mode, host_port(info.addr())) {
            let mut slots = redis::cmd("CLUSTER");
            slots.arg("SLOTS");
            let told = timeout(patience, connection.redis.send_packed_command(&slots)).await;
            let told = told.unwrap_or_else(|_| Err(silent()))?;
            greeting.members = greeting::members(&host, &told);
        }
        Ok((connection, greeting))
    }

    fn heed(&self, greeting: &Greeting, address: &str) -> Result<()> {
        match greeting.mode {
            Mode::Sentinel => {
                return Err(Error::Away {
                    store: format!("Redis at {address}"),
                    absence: Absence::Elsewhere,
                    reason: "it is a sentinel, which keeps no queue: write redis+sentinel://HOST:PORT/NAME, with the name of \
                             the primary that it watches"
                        .into(),
                });
            }
            Mode::Cluster => self.locator.remember(&greeting.members),
            Mode::Plain => {}
        }
        let may_look = self.may_look_at_a_replica && !self.locator.has_sentinels();
        if greeting.is_replica && !may_look && !self.locator.replicas_redirect() {
            return Err(self.at_a_replica(address));
        }
        if let Some(run) = &self.run {
            (*run.lock().unwrap_or_else(PoisonError::into_inner)).clone_from(&greeting.run);
        }
        Ok(())
    }

    /// What calls itself a replica is not written to, whatever it would allow.
    pub(super) fn at_a_replica(&self, address: &str) -> Error {
        let reason = if self.locator.has_sentinels() {
            "it is a replica: the sentinels have not agreed on a new primary yet"
        } else {
            refusal::REPLICA
        };
        Error::Away {
            store: format!("Redis at {address}"),
            absence: Absence::Unable,
            reason: reason.into(),
        }
    }

    /// For people: where a server is, if it is not where the URL says.
    pub(super) fn address_of(&self, info: &ConnectionInfo) -> String {
        match host_port(info.addr()) {
            Some(at) if self.locator.shown().is_some() => format!("{} ({})", shown(&at), self.address),
            _ => self.address.clone(),
        }
    }
}
