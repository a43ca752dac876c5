//! The queue in Redis or Valkey: one Lua script per verb, everything of a verb in one step.
//!
//! - [`keys`]: every key of a queue; `rights`: what the user of a node must be allowed
//! - `link`: connections, and what is sent on them; `refusal`: what the server's errors mean
//! - `scripts`: their texts, from `lua/`; `reply`: their answers; `bodies`: the bytes of large packs
//! - one file per group of verbs: `membership`, `publish`, `push`, `exchange` (with `settles`), `errors`, `manage`, `report`,
//!   `status` (with `info`), `unsettled`

mod bodies;
#[cfg(feature = "mutants")]
mod dump;
mod errors;
mod exchange;
mod info;
pub mod keys;
mod link;
mod manage;
mod membership;
mod publish;
mod push;
mod refusal;
mod reply;
mod report;
pub(crate) mod rights;
mod scripts;
mod settles;
mod status;
mod unsettled;

use std::time::Duration;

use crate::engine::history::{History, Range, Report, Reported};
use crate::engine::redis::keys::Keys;
use crate::engine::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Handover, Held, Join, Joined, NodeId, Paused,
    Publish, Published, Purged, Push, Pushed, Reap, Reaped, Renewed, Requeued, Status, StoreInfo, Wake, check_layout,
};
use crate::error::{Error, Result};
use crate::settings::Settings;
use link::Link;
use reply::Reply;

#[cfg(feature = "cli")]
pub(crate) use exchange::exchange_bytes;
#[cfg(feature = "cli")]
pub(crate) use info::Info;
pub use link::Server;
pub use rights::ACL_LINE;
#[cfg(not(feature = "mutants"))]
use scripts::Scripts;
#[cfg(feature = "mutants")]
pub use scripts::{Script, Scripts};

/// How often a look is repeated when nodes come and go under it.
const LOOKS_MAX: u32 = 20;

/// A queue in Redis.
pub struct RedisEngine {
    keys: Keys,
    /// In a box: the texts of many scripts would make every future that holds an engine a large one.
    scripts: Box<Scripts>,
    address: String,
    /// Joins, beats, publishes, reaps: a publish path that is cut off cannot keep the crown.
    control: Link,
    exchange: Link,
    bell: Link,
    crown: Link,
    /// The bodies of packs of this size are stored separately.
    body_bytes_min: usize,
    /// Looks, reports and readers of errors. The control connection must be made by the beat, where no handler can block it.
    aside: Link,
}

impl RedisEngine {
    /// The queue of these settings at a URL (`redis://`, `rediss://`, `unix:`); nothing is sent yet.
    pub fn open(url: &str, settings: &Settings) -> Result<Self> {
        let info = redis::IntoConnectionInfo::into_connection_info(url).map_err(|error| Error::Setting {
            setting: "url",
            reason: error.to_string(),
        })?;
        let address = info.addr().to_string();
        let keys = Keys::new(&settings.queue, &settings.names);
        Self::new(&Server::new(info, address, settings), keys)
    }

    /// The queue with these keys on a server; nothing is sent yet.
    pub fn new(server: &Server, keys: Keys) -> Result<Self> {
        Ok(Self {
            keys,
            scripts: Box::new(Scripts::new()),
            address: server.address.clone(),
            control: Link::new(server)?,
            exchange: Link::new(server)?,
            bell: Link::new(server)?,
            crown: Link::new(server)?,
            body_bytes_min: bodies::BODY_BYTES_MIN,
            aside: Link::new(server)?,
        })
    }

    /// The same with other scripts: for tests that take a guard out or set the clock.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_scripts(self, scripts: Scripts) -> Self {
        Self {
            scripts: Box::new(scripts),
            ..self
        }
    }

    /// The same with the bodies of packs of this size stored separately: for tests, whose packs are small.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_bodies_from(self, body_bytes_min: usize) -> Self {
        Self { body_bytes_min, ..self }
    }

    /// The keys of this queue.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// One plain command: for `doctor`.
    #[cfg(feature = "cli")]
    pub(crate) async fn ask(&self, cmd: &redis::Cmd) -> Result<redis::Value> {
        self.aside.query(cmd).await
    }

    fn no_queue(&self) -> Error {
        Error::NoQueue {
            queue: self.keys.queue_name.clone(),
        }
    }

    fn away(&self, reason: String) -> Error {
        Error::Away {
            store: format!("Redis at {}", self.address),
            reason,
        }
    }

    fn restless(&self) -> Error {
        self.away("nodes come and go too fast for a consistent look".into())
    }

    /// Why a queue was refused, or a key that something else has.
    fn not_ours(&self, answer: &str, mut reply: Reply) -> Error {
        let mut why = || match answer {
            "other" => check_layout(
                &self.keys.queue_name,
                &self.keys.names,
                reply.next()?,
                &reply.next::<String>()?,
            ),
            "type" => Err(Error::ForeignKey {
                key: reply.next()?,
                found: reply.next()?,
            }),
            _ => Ok(()),
        };
        why().err().unwrap_or_else(|| unknown(answer))
    }
}

fn unknown(answer: &str) -> Error {
    broken(format!("unknown answer {answer:?}"))
}

fn broken(detail: String) -> Error {
    Error::Protocol { detail }
}

/// A number that is stored as digits.
fn number(text: &[u8]) -> Result<u64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| broken(format!("no number: {}", String::from_utf8_lossy(text))))
}

impl Engine for RedisEngine {
    async fn check(&self) -> Result<()> {
        info::check(self).await
    }

    async fn join(&self, join: &Join) -> Result<Joined> {
        membership::join(self, join).await
    }

    async fn beat(&self, beat: &Beat) -> Result<Renewed> {
        membership::beat(self, beat).await
    }

    async fn reap(&self, reap: &Reap) -> Result<Reaped> {
        membership::reap(self, reap).await
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        membership::leave(self, node).await
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        membership::listen(self, wake, at_most).await
    }

    async fn publish(&self, publish: &Publish) -> Result<Published> {
        publish::publish(self, publish).await
    }

    async fn push(&self, push: &Push) -> Result<Pushed> {
        push::push(self, push).await
    }

    async fn exchange(&self, exchange: &Exchange) -> Result<Exchanged> {
        exchange::exchange(self, exchange).await
    }

    async fn await_work(&self, exchange: &Exchange, at_most: Duration) -> Result<Exchanged> {
        exchange::await_work(self, exchange, at_most).await
    }

    async fn collect(&self, collect: &Collect) -> Result<Collected> {
        errors::collect(self, collect).await
    }

    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        errors::hold(self, reader, lease_ms).await
    }

    async fn release(&self, reader: &str, expired: bool) -> Result<()> {
        errors::release(self, reader, expired).await
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        errors::failed(self, from, limit).await
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        errors::latest(self, below, limit).await
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        errors::requeue(self, numbers).await
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        errors::discard(self, numbers).await
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        errors::trim(self, keep).await
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        manage::pause(self, generator, handlers).await
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        manage::handover(self, to).await
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        manage::purge(self, force).await
    }

    async fn report(&self, report: &Report) -> Result<Reported> {
        report::report(self, report).await
    }

    async fn history(&self, range: Range) -> Result<History> {
        report::history(self, range).await
    }

    async fn status(&self) -> Result<Status> {
        status::status(self).await
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        status::held(self, node, limit).await
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        status::store_info(self).await
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        unsettled::unsettled(self).await
    }
}
