//! What the server says of itself.

use std::collections::BTreeMap;

use redis::Value;

use super::RedisEngine;
use crate::error::{Error, Result};

/// The fields of `INFO`.
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

    /// Too old a server, or one that may evict our keys, is refused.
    fn check(&self, address: &str) -> Result<()> {
        let store = format!("Redis at {address}");
        if self.is_too_old() {
            let found = match self.get("redis_version") {
                "" => "an unknown version",
                version => version,
            };
            return Err(Error::OldServer {
                store,
                found: found.to_string(),
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

pub(super) async fn check(engine: &RedisEngine) -> Result<()> {
    engine.info().await?.check(&engine.address)
}

impl RedisEngine {
    /// What the server says of itself.
    pub(crate) async fn info(&self) -> Result<Info> {
        Ok(Info::of(&self.info_text().await?))
    }

    pub(super) async fn info_text(&self) -> Result<String> {
        match self.aside.query(&redis::cmd("INFO")).await? {
            Value::BulkString(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Value::VerbatimString { text, .. } => Ok(text),
            other => Err(Error::Protocol {
                detail: format!("INFO: {other:?}"),
            }),
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
}
