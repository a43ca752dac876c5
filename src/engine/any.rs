//! An engine by the URL of its queue.

use std::sync::Arc;
use std::time::Duration;

use super::memory::Local;
use super::redis::RedisEngine;
use super::sharded::Sharded;
#[cfg(feature = "sqlite")]
use super::sqlite::SqliteEngine;
use super::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, Held, History, Join, Joined, Limits, NodeId, Paused, PausedGroup, Publish, Published, Purged, Push,
    Pushed, Range, Reap, Reaped, Renewed, Report, Reported, Requeued, Status, StoreInfo, Ticket, Wake, verbs,
};
use crate::error::{Error, Result};
use crate::settings::{Names, Settings};

pub use super::url::{RedisUrl, StoreUrl};

/// Whichever engine a URL names.
///
/// ```
/// use queenright::Settings;
/// use queenright::engine::any::AnyEngine;
///
/// # fn main() -> queenright::Result<()> {
/// let engine = AnyEngine::open("redis://localhost", &Settings::default())?;
/// assert!(matches!(engine, AnyEngine::Redis(_)));
/// # Ok(())
/// # }
/// ```
pub enum AnyEngine {
    Redis(Box<RedisEngine>),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteEngine),
    Memory(Local),
}

impl AnyEngine {
    /// The queue of these settings at a URL: `redis://`, `rediss://` (TLS), `unix:`, `sqlite:PATH`, or `memory:` for a queue in
    /// this process that nobody else sees. A file is opened, and created if there is none; to a server nothing is sent yet.
    pub fn open(url: &str, settings: &Settings) -> Result<Self> {
        if settings.names.shards > 1 {
            return Err(Error::Setting {
                setting: "shards",
                reason: "this opens one store: AnyEngine::open_shards opens all".into(),
            });
        }
        Self::open_shard(url, settings)
    }

    /// The queue of these settings with [as many shards](crate::settings::Names::shards) as they say, each at the next of these URLs, in turn. It follows a
    /// reshard; more URLs than shards are for that.
    ///
    /// ```
    /// use queenright::Settings;
    /// use queenright::engine::any::AnyEngine;
    ///
    /// # fn main() -> queenright::Result<()> {
    /// let mut settings = Settings::default();
    /// settings.names.shards = 4;
    /// let queue = AnyEngine::open_shards(&["redis://one", "redis://two"], &settings)?;
    /// assert_eq!(queue.count(), 4);
    /// assert!(AnyEngine::open("redis://one", &settings).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_shards(urls: &[&str], settings: &Settings) -> Result<Sharded<Self>> {
        if urls.is_empty() {
            return Err(Error::Setting {
                setting: "shards",
                reason: "no URL is given".into(),
            });
        }
        let urls: Vec<String> = urls.iter().map(ToString::to_string).collect();
        let (count, settings) = (urls.len(), settings.clone());
        let names = settings.names.clone();
        Sharded::open(&names, move |names| {
            let settings = Settings {
                names: names.clone(),
                ..settings.clone()
            };
            Self::open_shard(&urls[names.shard as usize % urls.len()], &settings)
        })
        .map(|queue| queue.over(count))
    }

    fn open_shard(url: &str, settings: &Settings) -> Result<Self> {
        let url = StoreUrl::parse(url)?;
        if settings.replicas > 0 && !matches!(url, StoreUrl::Redis(_)) {
            return Err(Error::Setting {
                setting: "replicas",
                reason: "only Redis has replicas".into(),
            });
        }
        Ok(match url {
            StoreUrl::Redis(url) => Self::Redis(Box::new(RedisEngine::at(*url, settings)?)),
            #[cfg(feature = "sqlite")]
            StoreUrl::Sqlite(database) => {
                let engine = SqliteEngine::open(database, &settings.queue, &settings.names)?;
                Self::Sqlite(engine.watching(settings.watch))
            }
            StoreUrl::Memory => {
                let Names { shard, shards, .. } = settings.names;
                Self::Memory(Local::new(&settings.queue).shard(shard as usize, shards as usize))
            }
        })
    }
}

/// Hands each verb on to the engine that is there.
macro_rules! hand_on {
    ($($module:ident::$verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        impl Engine for AnyEngine {
            type Shard = Self;

            fn shards(queue: &Arc<Self>) -> Vec<Arc<Self>> {
                vec![queue.clone()]
            }

            $(async fn $verb(&self, $($name: $type),*) -> Result<$answer> {
                match self {
                    Self::Redis(engine) => engine.$verb($($name),*).await,
                    #[cfg(feature = "sqlite")]
                    Self::Sqlite(engine) => engine.$verb($($name),*).await,
                    Self::Memory(engine) => engine.$verb($($name),*).await,
                }
            })+

            async fn publish_ahead(&self, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
                match self {
                    Self::Redis(engine) => engine.publish_ahead(publish).await,
                    _ => Ok((self.publish(publish).await?, None)),
                }
            }


            async fn exchange_ahead(&self, exchange: &Exchange) -> Result<(Exchanged, Option<Ticket>)> {
                match self {
                    Self::Redis(engine) => engine.exchange_ahead(exchange).await,
                    _ => Ok((self.exchange(exchange).await?, None)),
                }
            }

            async fn kept(&self, ticket: &Ticket) -> Result<bool> {
                match self {
                    Self::Redis(engine) => engine.kept(ticket).await,
                    _ => Ok(true),
                }
            }

            fn is_watched(&self) -> bool {
                match self {
                    Self::Redis(engine) => engine.is_watched(),
                    _ => false,
                }
            }

            async fn cut_off(&self) {
                match self {
                    Self::Redis(engine) => engine.cut_off().await,
                    _ => std::future::pending().await,
                }
            }

            fn moved(&self) -> Option<u64> {
                match self {
                    Self::Redis(engine) => engine.moved(),
                    #[cfg(feature = "sqlite")]
                    Self::Sqlite(engine) => engine.moved(),
                    Self::Memory(engine) => engine.moved(),
                }
            }

            fn trip(&self) -> Duration {
                match self {
                    Self::Redis(engine) => engine.trip(),
                    #[cfg(feature = "sqlite")]
                    Self::Sqlite(engine) => engine.trip(),
                    Self::Memory(engine) => engine.trip(),
                }
            }

            fn place(&self) -> Option<String> {
                match self {
                    Self::Redis(engine) => engine.place(),
                    #[cfg(feature = "sqlite")]
                    Self::Sqlite(engine) => engine.place(),
                    Self::Memory(engine) => engine.place(),
                }
            }
        }
    };
}

verbs!(hand_on);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_names_the_engine() {
        let settings = Settings::default();
        let memory = AnyEngine::open("memory:", &settings).expect("in memory");
        assert!(matches!(memory, AnyEngine::Memory(_)));
        assert!(matches!(memory.status().await, Err(Error::NoQueue { .. })));
        for url in ["redis://localhost/1", "unix:/run/redis.sock"] {
            let redis = AnyEngine::open(url, &settings).expect("a URL");
            assert!(matches!(redis, AnyEngine::Redis(_)), "{url}");
        }
        let error = AnyEngine::open("postgres://localhost", &settings).err();
        assert!(
            matches!(error, Some(Error::Setting { setting: "url", .. })),
            "{error:?}"
        );
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_file_is_a_queue_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("queue.db").display());
        let file = AnyEngine::open(&url, &Settings::default()).expect("a file");
        assert_eq!(file.store_info().await.expect("it tells").kind, "SQLite");
        assert!(matches!(file.status().await, Err(Error::NoQueue { .. })));
    }
}
