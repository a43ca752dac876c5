//! An engine by the URL of its queue.

use std::time::Duration;

use super::redis::RedisEngine;
#[cfg(feature = "sqlite")]
use super::sqlite::{Database, SqliteEngine};
use super::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Handover, Held, History, Join, Joined, NodeId,
    Paused, Publish, Published, Purged, Push, Pushed, Range, Reap, Reaped, Renewed, Report, Reported, Requeued, Status,
    StoreInfo, Wake,
};
#[cfg(not(feature = "sqlite"))]
use crate::error::Error;
use crate::error::Result;
use crate::settings::Settings;

/// A queue in Redis, or in a file.
pub enum AnyEngine {
    /// `redis://`, `rediss://`, `unix:`.
    Redis(Box<RedisEngine>),
    /// `sqlite:PATH`.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteEngine),
}

impl AnyEngine {
    /// Opens the queue of these settings there; nothing is sent to a server yet.
    pub fn open(url: &str, settings: &Settings) -> Result<Self> {
        match url.strip_prefix("sqlite:") {
            #[cfg(feature = "sqlite")]
            Some(path) => {
                let database = Database {
                    path: path.into(),
                    full: false,
                };
                SqliteEngine::open(database, &settings.queue, &settings.names).map(Self::Sqlite)
            }
            #[cfg(not(feature = "sqlite"))]
            Some(_) => Err(Error::Setting {
                setting: "url",
                reason: "this program was built without the feature sqlite".into(),
            }),
            None => RedisEngine::open(url, settings).map(Box::new).map(Self::Redis),
        }
    }
}

macro_rules! delegate {
    ($($verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Engine for AnyEngine {
            $(async fn $verb(&self, $($name: $type),*) -> Result<$answer> {
                match self {
                    Self::Redis(engine) => engine.$verb($($name),*).await,
                    #[cfg(feature = "sqlite")]
                    Self::Sqlite(engine) => engine.$verb($($name),*).await,
                }
            })*
        }
    };
}

delegate! {
    check() -> ();
    store_info() -> StoreInfo;
    join(join: &Join) -> Joined;
    beat(beat: &Beat) -> Renewed;
    publish(publish: &Publish) -> Published;
    push(push: &Push) -> Pushed;
    exchange(exchange: &Exchange) -> Exchanged;
    reap(reap: &Reap) -> Reaped;
    leave(node: &NodeId) -> ();
    listen(wake: Wake, at_most: Duration) -> bool;
    await_work(exchange: &Exchange, at_most: Duration) -> Exchanged;
    collect(collect: &Collect) -> Collected;
    hold(reader: &str, lease_ms: u64) -> bool;
    release(reader: &str, expired: bool) -> ();
    failed(from: u64, limit: u32) -> Vec<Failed>;
    latest(below: u64, limit: u32) -> Vec<Failed>;
    held(node: &str, limit: u32) -> Vec<Held>;
    requeue(numbers: &[u64]) -> Requeued;
    discard(numbers: &[u64]) -> Vec<u64>;
    trim(keep: u64) -> Vec<u64>;
    pause(generator: Option<bool>, handlers: Option<bool>) -> Paused;
    handover(to: Option<&str>) -> Handover;
    purge(force: bool) -> Purged;
    report(report: &Report) -> Reported;
    history(range: Range) -> History;
    status() -> Status;
    unsettled() -> Vec<(u64, u64)>;
}
