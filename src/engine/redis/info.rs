//! What the server says of itself.

use std::collections::BTreeMap;

use redis::Value;

use super::RedisEngine;
#[cfg(feature = "cli")]
use super::greeting;
#[cfg(feature = "cli")]
use super::place::{Place, host_port};
use crate::engine::StoreInfo;
use crate::error::{Error, Refusal, Result};

/// The fields of `INFO`.
#[derive(Default)]
pub(crate) struct Info {
    fields: BTreeMap<String, String>,
}

impl Info {
    fn of(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_string(), value.trim().to_string()));
        Self {
            fields: fields.collect(),
        }
    }

    /// Empty, if the server does not say it.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// Older than 6.2, which is the first to pop several elements of a list at once. Valkey says 7.2 here, and its own
    /// version elsewhere.
    pub(crate) fn is_too_old(&self) -> bool {
        // One that does not tell is none that is known to be.
        if self.get("redis_version").is_empty() {
            return false;
        }
        let mut parts = self.get("redis_version").split('.').map(str::parse::<u32>);
        let mut part = || parts.next().and_then(Result::ok).unwrap_or(0);
        (part(), part()) < (6, 2)
    }

    /// Whether the server may delete messages when its memory is full.
    pub(crate) fn evicts(&self) -> bool {
        self.may_evict() && self.number("maxmemory") > 0
    }

    /// Whether it would, if its memory were limited.
    pub(crate) fn may_evict(&self) -> bool {
        self.get("maxmemory_policy").starts_with("allkeys-")
    }

    /// The same for people.
    pub(super) fn store_info(&self) -> StoreInfo {
        let said = |name: &str| self.fields.get(name).cloned();
        let number = |name: &str| self.get(name).parse::<u64>().ok();
        let valkey = said("valkey_version");
        // INFO says neither how often the log is synced nor whether snapshots are configured.
        let persistence = match self.get("aof_enabled") {
            "1" => "append-only file",
            _ => "no append-only file",
        };
        StoreInfo {
            kind: if valkey.is_some() { "Valkey" } else { "Redis" }.into(),
            version: valkey.or_else(|| said("redis_version")).unwrap_or_default(),
            memory_bytes: number("used_memory"),
            memory_max_bytes: number("maxmemory").filter(|bytes| *bytes > 0),
            policy: said("maxmemory_policy"),
            persistence: persistence.into(),
            replicas: number("connected_slaves"),
            uptime_ms: number("uptime_in_seconds").map(|seconds| seconds.saturating_mul(1000)),
            round_trip_us: None,
        }
    }

    /// Too old a server, or one that may evict our keys, is refused.
    fn check(&self, address: &str) -> Result<()> {
        let store = format!("Redis at {address}");
        if self.is_too_old() {
            return Err(Error::OldServer {
                store,
                found: self.get("redis_version").to_string(),
            });
        }
        if self.evicts() {
            return Err(Error::Evicts {
                store,
                policy: self.get("maxmemory_policy").to_string(),
            });
        }
        Ok(())
    }
}

/// What a server does not tell is no reason to refuse it: managed services hide INFO.
pub(super) async fn check(engine: &RedisEngine) -> Result<()> {
    // A question about a key first: in a cluster it leads to the server that has the queue.
    engine.aside.query(redis::cmd("TYPE").arg(&engine.keys.meta)).await?;
    match engine.info().await {
        Err(Error::Refused {
            refusal: Refusal::Command,
            ..
        }) => Ok(()),
        info => info?.check(&engine.address),
    }
}

impl RedisEngine {
    /// The servers of the cluster that have slots, each alone; none, if there is no cluster, or it does not tell.
    #[cfg(feature = "cli")]
    pub(crate) async fn primaries(&self) -> Vec<Place> {
        let Ok(told) = self.aside.query(redis::cmd("CLUSTER").arg("SLOTS")).await else {
            return Vec::new();
        };
        let asked = host_port(self.locator.primary().addr()).map_or(String::new(), |(host, _)| host);
        let primaries = greeting::primaries(&asked, &told);
        primaries.iter().map(|at| self.locator.alone(at)).collect()
    }

    /// What the server says of itself.
    pub(crate) async fn info(&self) -> Result<Info> {
        match self.aside.query(&redis::cmd("INFO")).await? {
            Value::BulkString(text) => Ok(Info::of(&String::from_utf8_lossy(&text))),
            Value::VerbatimString { text, .. } => Ok(Info::of(&text)),
            other => Err(super::broken(format!("INFO: {other:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Info;

    #[test]
    fn servers_on_which_the_promises_would_not_hold_are_refused() {
        let info = |version: &str, maxmemory: &str, policy: &str| {
            let info = format!("redis_version:{version}\r\nmaxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n");
            Info::of(&info).check("here")
        };
        assert!(info("6.2.0", "0", "noeviction").is_ok());
        assert!(info("10.0.1", "0", "noeviction").is_ok());
        assert!(info("6.0.16", "0", "noeviction").is_err());
        assert!(info("7.0.15", "0", "allkeys-lru").is_ok());
        assert!(info("7.0.15", "1000000", "allkeys-lfu").is_err());
        assert!(info("7.0.15", "1000000", "volatile-lru").is_ok());
    }

    #[test]
    fn info_is_read_whoever_says_it() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:61\r\nused_memory:1048576\r\nmaxmemory:0\r\n\
                     maxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:2\r\n";
        let read = Info::of(redis).store_info();
        assert_eq!(
            (&*read.kind, &*read.version, &*read.persistence),
            ("Redis", "7.0.15", "append-only file")
        );
        assert_eq!((read.memory_bytes, read.memory_max_bytes), (Some(1 << 20), None));
        assert_eq!((read.replicas, read.uptime_ms), (Some(2), Some(61_000)));
        let valkey = Info::of("redis_version:7.2.4\r\nvalkey_version:8.1.8\r\naof_enabled:0\r\n").store_info();
        assert_eq!((&*valkey.kind, &*valkey.version), ("Valkey", "8.1.8"));
        assert_eq!(Info::of("nonsense").store_info().version, "");
    }
}
