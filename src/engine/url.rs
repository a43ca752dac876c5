//! Where a queue is, as a URL says it.
//!
//! No complaint here repeats the URL, since a password may be in it.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

#[cfg(feature = "sqlite")]
use super::sqlite::Database;
use crate::error::{Error, Result};

const SCHEMES: &str = "write redis://host:port/db, rediss://host:port/db (TLS), unix:/path or sqlite:/path";

/// Where a queue is.
#[derive(Debug, Clone)]
pub enum StoreUrl {
    /// `redis://` (or `valkey://`), `rediss://` (TLS), `unix:`.
    Redis(RedisUrl),
    /// `sqlite:PATH`, with `?synchronous=full` to wait for the disk at every commit.
    #[cfg(feature = "sqlite")]
    Sqlite(Database),
    /// `memory:`, for tests.
    Memory,
}

impl StoreUrl {
    /// Reads a URL. An [`Error::Setting`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let found = match text.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", rest)) => file(rest).map(Self::Sqlite),
            #[cfg(not(feature = "sqlite"))]
            Some(("sqlite", _)) => Err("this program was built without the feature sqlite".into()),
            Some(("memory", "")) => Ok(Self::Memory),
            _ => RedisUrl::parse(text).map(Self::Redis),
        };
        found.map_err(|reason| Error::Setting { setting: "url", reason })
    }
}

/// The address of a Redis server, and what its URL says besides. What it leaves out is `None`, so that another source can add it.
#[derive(Clone)]
pub struct RedisUrl {
    pub addr: ConnectionAddr,
    pub protocol: ProtocolVersion,
    pub user: Option<String>,
    pub pass: Option<String>,
    pub db: Option<i64>,
}

/// Without user and password: what is printed for debugging ends up in logs.
impl fmt::Debug for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("RedisUrl").field(&self.shown()).finish()
    }
}

impl RedisUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let unix = match scheme.as_deref() {
            Some("redis" | "rediss" | "valkey" | "valkeys") => false,
            Some("unix" | "redis+unix" | "valkey+unix") => true,
            _ => return Err(format!("this is no address of a Redis: {SCHEMES}")),
        };
        let url = redis::parse_redis_url(text).ok_or_else(|| {
            format!("the URL cannot be read (special characters in a password are written as %40 for @): {SCHEMES}")
        })?;
        let parameters: &[&str] = if unix {
            &["db", "user", "pass", "protocol"]
        } else {
            &["protocol"]
        };
        if url.query_pairs().any(|(name, _)| !parameters.contains(&name.as_ref())) {
            return Err(format!("after ? only these are known: {}", parameters.join(", ")));
        }
        if url.fragment().is_some() {
            return Err("nothing may follow # (in a password, write # as %23)".into());
        }
        let has_db = if unix {
            url.query_pairs().any(|(name, _)| name == "db")
        } else {
            !url.path().trim_matches('/').is_empty()
        };
        let info = url.into_connection_info().map_err(|error| {
            let detail = error.to_string();
            let detail = detail.split(" - ").next().unwrap_or_default();
            format!("{}: {SCHEMES}", detail.to_lowercase())
        })?;
        let redis = info.redis_settings();
        if redis.db() < 0 {
            return Err("the number of the database must not be negative".into());
        }
        if let ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } = info.addr()
            && host.is_empty()
        {
            return Err(format!("the URL names no host: {SCHEMES}"));
        }
        Ok(Self {
            addr: info.addr().clone(),
            protocol: redis.protocol(),
            user: redis.username().map(String::from),
            pass: redis.password().map(String::from),
            db: has_db.then(|| redis.db()),
        })
    }

    /// As the client takes it.
    pub fn connection(self) -> Result<ConnectionInfo> {
        let wrong = |reason: &str| Error::Setting {
            setting: "url",
            reason: reason.into(),
        };
        let mut redis = RedisConnectionInfo::default().set_protocol(self.protocol);
        redis = redis.set_db(self.db.unwrap_or(0));
        if self.lacks_password() {
            return Err(wrong("a user needs a password (anything, if the user has none)"));
        }
        if let Some(name) = self.user {
            redis = redis.set_username(name);
        }
        if let Some(password) = self.pass {
            redis = redis.set_password(password);
        }
        let info = self.addr.into_connection_info().map_err(|_| wrong(SCHEMES))?;
        Ok(info.set_redis_settings(redis))
    }

    /// Whether there is a user without a password: the client would silently connect as another user, the default one.
    #[must_use]
    pub fn lacks_password(&self) -> bool {
        self.pass.is_none() && self.user.as_deref().is_some_and(|name| name != "default")
    }

    /// For people: where, and which database unless it is the first. Never the password.
    #[must_use]
    pub fn shown(&self) -> String {
        let joined = |host: &str, port: u16| {
            // Version 6 of IP.
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        };
        let place = match &self.addr {
            ConnectionAddr::Tcp(host, port) => joined(host, *port),
            ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}", joined(host, *port)),
            ConnectionAddr::Unix(path) => format!("unix:{}", path.display()),
            _ => "Redis".into(),
        };
        match (self.db.unwrap_or(0), &self.addr) {
            (0, _) => place,
            (db, ConnectionAddr::Unix(_)) => format!("{place}?db={db}"),
            (db, _) => format!("{place}/{db}"),
        }
    }
}

/// What follows `sqlite:`.
#[cfg(feature = "sqlite")]
fn file(text: &str) -> Result<Database, String> {
    let (path, parameters) = text
        .split_once('?')
        .map_or((text, None), |(path, rest)| (path, Some(rest)));
    let full = match parameters {
        None | Some("synchronous=normal") => false,
        Some("synchronous=full") => true,
        Some(_) => return Err("after ? only synchronous=normal and synchronous=full are known".into()),
    };
    // A URL with two slashes has an empty host.
    let path = path
        .strip_prefix("//")
        .filter(|path| path.starts_with('/'))
        .unwrap_or(path);
    if path.is_empty() {
        return Err("name a file: sqlite:/path/to/file".into());
    }
    Ok(Database {
        path: path.into(),
        full,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(text: &str) -> RedisUrl {
        match StoreUrl::parse(text) {
            Ok(StoreUrl::Redis(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_url_says_where_the_queue_is_and_what_it_leaves_out() {
        let url = redis("redis://me:secret@example.org/3");
        assert!(!format!("{url:?}").contains("secret"), "{url:?}");
        assert_eq!(
            (url.user.as_deref(), url.pass.as_deref(), url.db),
            (Some("me"), Some("secret"), Some(3))
        );
        assert_eq!(url.shown(), "example.org:6379/3");
        let url = redis(" rediss://[::1]:7000 ");
        assert_eq!((url.shown().as_str(), url.db), ("rediss://[::1]:7000", None));
        assert_eq!(redis("unix:/run/redis.sock?db=2").shown(), "unix:/run/redis.sock?db=2");
        assert!(matches!(StoreUrl::parse("memory:"), Ok(StoreUrl::Memory)));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_file_may_be_relative_and_may_wait_for_the_disk() {
        for (text, path, full) in [
            ("sqlite:queue.db", "queue.db", false),
            ("sqlite:///var/lib/q.db?synchronous=full", "/var/lib/q.db", true),
        ] {
            let Ok(StoreUrl::Sqlite(database)) = StoreUrl::parse(text) else {
                panic!("{text}")
            };
            assert_eq!((database.path.to_str(), database.full), (Some(path), full));
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (text, word) in [
            ("", "no address"),
            ("http://me:secret@host", "no address"),
            ("redis://me:secret@host?x=1", "protocol"),
            ("redis://me:secret@host#1", "%23"),
            ("redis://:secret@", "host"),
            ("sqlite:q?secret", "synchronous"),
            ("sqlite:", "name a file"),
            ("memory:secret", "no address"),
        ] {
            let error = StoreUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(word) && !error.contains("secret"), "{text}: {error}");
        }
        let error = redis("redis://me@host")
            .connection()
            .expect_err("no password")
            .to_string();
        assert!(error.contains("a user needs a password"), "{error}");
    }
}
