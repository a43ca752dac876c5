//! The queue in Redis or Valkey: one Lua script per verb, everything of a verb in one step.
//!
//! - [`keys`]: every key of a queue; `rights`: what the user of a node must be allowed
//! - `place`: how a server is found and who connects; `locator`: which one has the queue now (`sentinel`: who says so)
//! - `link`: connections, and what is sent on them (`stream`: over which bytes flow, `tls`, `bounds`: how many may come back,
//!   `password`: one that does not last, `greeting`: what a server says first); `refusal`: what the server's errors mean
//! - `kept`: whether replicas have what was written
//! - `scripts`: their texts, from `lua/`; `reply`: their answers; `bodies`: the bytes of large packs
//! - one file per group of verbs: `membership`, `publish`, `push`, `exchange` (with `settles`), `errors`, `manage`, `report`,
//!   `status` (with `info`), `endings`, `unsettled`; `watching`: who is connected

mod bodies;
mod bounds;
mod cancel;
#[cfg(feature = "mutants")]
mod dump;
mod endings;
mod errors;
mod exchange;
mod greeting;
mod info;
mod kept;
pub mod keys;
mod link;
mod locator;
mod manage;
mod membership;
mod password;
pub(crate) mod place;
mod publish;
mod push;
mod refusal;
mod reply;
mod report;
pub(crate) mod rights;
mod scripts;
mod sentinel;
mod settles;
mod slots;
mod status;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod unsettled;
mod watching;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::engine::history::{History, Range, Report, Reported};
use crate::engine::redis::keys::Keys;
use crate::engine::url::{RedisUrl, StoreUrl};
use crate::engine::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, Held, Join, Joined, Limits, NodeId, Paused, PausedGroup, Publish, Published, Purged, Push, Pushed, Reap,
    Reaped, Renewed, Requeued, Sights, Status, StoreInfo, Ticket, Wake, check_layout, verbs,
};
use crate::error::{Absence, Error, Result};
use crate::settings::Settings;
use kept::Keeper;
use link::Link;
use link::signs::Signs;
use locator::Locator;
use reply::Reply;

#[cfg(feature = "cli")]
pub(crate) use exchange::exchange_bytes;
#[cfg(feature = "cli")]
pub(crate) use info::Info;
pub use link::Server;
pub use password::Password;
pub use place::{HostPort, Place, Sentinels, Tls, Via};
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
    /// Joins, beats, reaps, reports: all of it small, so that no beat waits behind the bytes of messages. The beat opens it, where no
    /// handler can block it.
    control: Arc<Link>,
    /// Publishes and exchanges, with the bytes of messages; and an idle lane waits there for the bell.
    exchange: Link,
    /// For waits that cannot share that one.
    bell: Link,
    crown: Link,
    keeper: Keeper,
    /// For whom the last beat had nothing to do: the next one only renews the lease. A join begins anew.
    calm: Mutex<BTreeMap<NodeId, membership::Calm>>,
    /// Whose connections were seen.
    sights: Sights,
    /// The bodies of packs of this size are stored separately.
    body_bytes_min: usize,
    /// Bodies come with their packs, however near the server is.
    bodies_come: bool,
    unreadable: exchange::Unreadable,
    groups: exchange::Met,
    asked: exchange::Met,
    /// The last publish found the queue full.
    full: AtomicBool,
    /// Looks and readers of errors.
    aside: Link,
    /// Hears of messages that ended, for whoever waits for them.
    ears: Box<Link>,
    /// Where the server is.
    locator: Arc<Locator>,
}

impl RedisEngine {
    /// The queue of these settings at a URL (`redis://`, `rediss://`, `unix:`); nothing is sent yet.
    pub fn open(url: &str, settings: &Settings) -> Result<Self> {
        let StoreUrl::Redis(url) = StoreUrl::parse(url)? else {
            return Err(Error::Setting {
                setting: "url",
                reason: "this is no address of a Redis".into(),
            });
        };
        Self::at(*url, settings)
    }

    /// The queue of these settings at a URL that was read; nothing is sent yet.
    pub(super) fn at(url: RedisUrl, settings: &Settings) -> Result<Self> {
        let address = url.shown();
        let server = Server::new(url.place()?, address, settings);
        Self::new(&server, Keys::new(&settings.queue, &settings.names))
    }

    /// The queue with these keys on a server; nothing is sent yet.
    pub fn new(server: &Server, keys: Keys) -> Result<Self> {
        let locator = Locator::new(server);
        let link = || Link::new(server, &locator);
        let signs = server
            .watch
            .then(|| Signs::new(&keys.alive(), &keys.crown, server.answer_timeout));
        let control = Arc::new(link().asking_for_the_run().that_shows(signs));
        let exchange = link()
            .asking_for_the_run()
            .that_marks(&keys.replicated)
            .that_waits(&keys.prefix, &control);
        let ears = Signs::new(&keys.alive(), &keys.crown, server.answer_timeout);
        Ok(Self {
            keys,
            scripts: Box::new(Scripts::new()),
            address: server.address.clone(),
            control,
            exchange,
            bell: link(),
            crown: link(),
            keeper: Keeper::new(link()),
            calm: Mutex::default(),
            sights: Sights::default(),
            body_bytes_min: bodies::BODY_BYTES_MIN,
            bodies_come: false,
            unreadable: exchange::Unreadable::default(),
            groups: exchange::Met::default(),
            asked: exchange::Met::default(),
            ears: Box::new(link().that_shows(Some(ears))),
            full: AtomicBool::new(false),
            aside: link().asking_for_the_run().that_may_look_at_a_replica(),
            locator,
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

    /// The same with bodies that come with their packs, as from a server that is far away: for tests.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_bodies_that_come(self) -> Self {
        Self {
            bodies_come: true,
            ..self
        }
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

    /// The server that has the queue now.
    #[cfg(feature = "cli")]
    pub(crate) async fn primary(&self) -> Result<redis::ConnectionInfo> {
        self.ask(redis::cmd("TYPE").arg(&self.keys.meta)).await?;
        Ok(self.locator.primary())
    }

    /// Whether that is one of a cluster.
    #[cfg(feature = "cli")]
    pub(crate) fn primary_is_of_a_cluster(&self) -> bool {
        self.locator.replicas_redirect()
    }

    /// Until replicas have what was written.
    async fn keep(&self, ticket: Option<Ticket>) -> Result<()> {
        match ticket {
            Some(ticket) if !self.keeper.kept(&ticket).await? => {
                Err(self.away("a failover has taken back what was written".into()))
            }
            _ => Ok(()),
        }
    }

    fn no_queue(&self) -> Error {
        Error::NoQueue {
            queue: self.keys.queue_name.clone(),
        }
    }

    fn away(&self, reason: String) -> Error {
        Error::Away {
            store: format!("Redis at {}", self.address),
            absence: Absence::Unable,
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

/// Each verb is a function of the module that has its script.
macro_rules! by_module {
    ($($module:ident::$verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        impl Engine for RedisEngine {
            type Shard = Self;

            fn shards(queue: &Arc<Self>) -> Vec<Arc<Self>> {
                vec![queue.clone()]
            }

            $(async fn $verb(&self, $($name: $type),*) -> Result<$answer> {
                $module::$verb(self, $($name),*).await
            })+

            async fn publish_ahead(&self, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
                publish::publish_ahead(self, publish).await
            }

            async fn exchange_ahead(&self, exchange: &Exchange) -> Result<(Exchanged, Option<Ticket>)> {
                exchange::exchange_ahead(self, exchange).await
            }

            async fn kept(&self, ticket: &Ticket) -> Result<bool> {
                self.keeper.kept(ticket).await
            }

            fn is_watched(&self) -> bool {
                self.control.signs().is_some_and(|signs| signs.tells(Instant::now()))
            }

            async fn cut_off(&self) {
                let lost = async {
                    match self.control.signs() {
                        Some(signs) => signs.lost().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = lost => {}
                    () = self.control.left_behind() => {}
                }
            }

            fn moved(&self) -> Option<u64> {
                Some(self.exchange.moved())
            }

            fn trip(&self) -> Duration {
                self.control.trip()
            }

            fn place(&self) -> Option<String> {
                self.locator.shown()
            }
        }
    };
}

verbs!(by_module);
