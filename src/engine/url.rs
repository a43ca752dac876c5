//! Where a queue is, as a URL says it.
//!
//! No complaint here repeats the URL, since a password may be in it.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::redis::place::{HostPort, Place, Sentinels, Tls, Via, shown};
#[cfg(feature = "sqlite")]
use super::sqlite::Database;
use crate::error::{Error, Result};

const SCHEMES: &str = "write redis://host:port/db, rediss://host:port/db (TLS), redis+sentinel://host:port,host:port/name, \
                       redis+cluster://host:port,host:port, unix:/path or sqlite:/path";
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a queue is.
#[derive(Debug, Clone)]
pub enum StoreUrl {
    /// `redis://` (or `valkey://`), `rediss://` (TLS), `redis+sentinel://`, `redis+cluster://`, `unix:`.
    Redis(Box<RedisUrl>),
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
            Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => {
                RedisUrl::parse(&format!("redis://{text}")).map(|url| Self::Redis(Box::new(url)))
            }
            _ => RedisUrl::parse(text).map(|url| Self::Redis(Box::new(url))),
        };
        found.map_err(|reason| Error::Setting { setting: "url", reason })
    }
}

/// A name or an IPv4 address, as in `localhost:6379`.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The address of a Redis server, and what its URL says besides. What it leaves out is `None`, so that another source can add it.
#[derive(Clone)]
pub struct RedisUrl {
    pub addr: ConnectionAddr,
    pub protocol: ProtocolVersion,
    pub user: Option<String>,
    pub pass: Option<String>,
    pub db: Option<i64>,
    /// More servers, or sentinels, that may be asked where the queue is.
    pub others: Vec<HostPort>,
    pub via: Via,
    pub tls: Tls,
}

/// Without user and password: what is printed for debugging ends up in logs.
impl fmt::Debug for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("RedisUrl").field(&self.shown()).finish()
    }
}

impl RedisUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').ok_or_else(no_address)?;
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "redis" | "rediss" | "valkey" | "valkeys" => Self::server(text, &["protocol", "ca", "cert", "key", "sni"]),
            "unix" | "redis+unix" | "valkey+unix" => Self::server(text, &["db", "user", "pass", "protocol"]),
            _ => {
                let (plain, via) = scheme.split_once('+').ok_or_else(no_address)?;
                let known = ["redis", "rediss", "valkey", "valkeys"].contains(&plain);
                match via {
                    "sentinel" if known => Self::behind_sentinels(plain, rest),
                    "cluster" if known => Self::in_a_cluster(plain, rest),
                    _ => Err(no_address()),
                }
            }
        }
    }

    /// A URL of one server.
    fn server(text: &str, parameters: &[&str]) -> Result<Self, String> {
        let url = redis::parse_redis_url(text).ok_or_else(|| {
            format!("the URL cannot be read (special characters in a password are written as %40 for @): {SCHEMES}")
        })?;
        if url.query_pairs().any(|(name, _)| !parameters.contains(&name.as_ref())) {
            return Err(format!("after ? only these are known: {}", parameters.join(", ")));
        }
        if url.fragment().is_some() {
            return Err("nothing may follow # (in a password, write # as %23)".into());
        }
        let given = |wanted: &str| {
            let mut pairs = url.query_pairs();
            pairs.find_map(|(name, value)| (name == wanted && !value.is_empty()).then(|| value.into_owned()))
        };
        let tls = Tls {
            ca: given("ca").map(Into::into),
            cert: given("cert").map(Into::into),
            key: given("key").map(Into::into),
            sni: given("sni"),
        };
        let sentinels = Sentinels {
            name: String::new(),
            user: given("sentinel_user"),
            pass: given("sentinel_pass"),
            tls: given("sentinel_tls").map(|text| yes_or_no(&text)).transpose()?,
        };
        let has_db = if parameters.contains(&"db") {
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
            others: Vec::new(),
            via: if parameters.contains(&"sentinel_user") {
                Via::Sentinel(sentinels)
            } else {
                Via::Address
            },
            tls,
        })
    }

    /// `redis+sentinel://user:password@host:port,host:port/NAME/DB`
    fn behind_sentinels(plain: &str, rest: &str) -> Result<Self, String> {
        let parts = Several::of(rest, SENTINEL_PORT)?;
        let mut path = parts.path.split('/').filter(|part| !part.is_empty());
        let name = path
            .next()
            .ok_or("name the primary that the sentinels watch: redis+sentinel://host:26379/NAME")?;
        let db = path.next().unwrap_or_default();
        if path.next().is_some() {
            return Err(
                "after the sentinels come the name of the primary and the database: redis+sentinel://host:26379/NAME/0"
                    .into(),
            );
        }
        let known = [
            "protocol",
            "ca",
            "cert",
            "key",
            "sni",
            "sentinel_user",
            "sentinel_pass",
            "sentinel_tls",
        ];
        let mut url = Self::server(&parts.first(plain, db), &known)?;
        if let Via::Sentinel(sentinels) = &mut url.via {
            sentinels.name = percent_decoded(name)?;
        }
        url.others = parts.others()?;
        Ok(url)
    }

    /// `redis+cluster://user:password@host:port,host:port`
    fn in_a_cluster(plain: &str, rest: &str) -> Result<Self, String> {
        let parts = Several::of(rest, REDIS_PORT)?;
        let db = parts.path.trim_matches('/');
        if !["", "0"].contains(&db) {
            return Err("a cluster has database 0 only: leave out the number".into());
        }
        let url = Self::server(&parts.first(plain, db), &["protocol", "ca", "cert", "key", "sni"])?;
        Ok(Self {
            others: parts.others()?,
            via: Via::Cluster,
            ..url
        })
    }

    /// As the engine takes it.
    pub fn place(self) -> Result<Place> {
        let wrong = |reason: &str| Error::Setting {
            setting: "url",
            reason: reason.into(),
        };
        let mut redis = RedisConnectionInfo::default().set_protocol(self.protocol);
        redis = redis.set_db(self.db.unwrap_or(0));
        if self.lacks_password() {
            return Err(wrong("a user needs a password (anything, if the user has none)"));
        }
        if let Via::Sentinel(sentinels) = &self.via
            && sentinels.user.is_some()
            && sentinels.pass.is_none()
        {
            return Err(wrong("a user at the sentinels needs a password: REDIS_SENTINEL_PASS"));
        }
        if self.tls.cert.is_none() && self.tls.key.is_some() {
            return Err(wrong("a key needs its certificate: give both"));
        }
        if self.tls != Tls::default() && !matches!(self.addr, ConnectionAddr::TcpTls { .. }) {
            return Err(wrong("a certificate is for TLS: write rediss:// instead of redis://"));
        }
        if self.via == Via::Cluster && self.db.unwrap_or(0) != 0 {
            return Err(wrong("a cluster has database 0 only"));
        }
        if let Some(name) = self.user {
            redis = redis.set_username(name);
        }
        if let Some(password) = self.pass {
            redis = redis.set_password(password);
        }
        let info = self.addr.into_connection_info().map_err(|_| wrong(SCHEMES))?;
        Ok(Place {
            info: info.set_redis_settings(redis),
            others: self.others,
            via: self.via,
            tls: self.tls,
        })
    }

    /// Whether there is a user without a password: the client would silently connect as another user, the default one.
    #[must_use]
    pub fn lacks_password(&self) -> bool {
        self.pass.is_none() && self.user.as_deref().is_some_and(|name| name != "default")
    }

    /// For people: where, and which database unless it is the first. Never the password.
    #[must_use]
    pub fn shown(&self) -> String {
        let is_tls = matches!(self.addr, ConnectionAddr::TcpTls { .. });
        let mut all = match &self.addr {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                shown(&(host.clone(), *port))
            }
            ConnectionAddr::Unix(path) => format!("unix:{}", path.display()),
            _ => "Redis".into(),
        };
        for other in &self.others {
            all = format!("{all},{}", shown(other));
        }
        let s = if is_tls { "s" } else { "" };
        let place = match &self.via {
            Via::Address if is_tls => format!("rediss://{all}"),
            Via::Address => all,
            Via::Sentinel(sentinels) => format!("redis{s}+sentinel://{all}/{}", sentinels.name),
            Via::Cluster => format!("redis{s}+cluster://{all}"),
        };
        match (self.db.unwrap_or(0), &self.addr) {
            (0, _) => place,
            (db, ConnectionAddr::Unix(_)) => format!("{place}?db={db}"),
            (db, _) => format!("{place}/{db}"),
        }
    }
}

fn no_address() -> String {
    format!("this is no address of a Redis: {SCHEMES}")
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        _ => Err("sentinel_tls is yes or no".into()),
    }
}

fn percent_decoded(text: &str) -> Result<String, String> {
    // The parser of URLs undoes it in a user's name.
    let url = redis::parse_redis_url(&format!("redis://host?name={}", text.replace('+', "%2B")));
    let name = url.and_then(|url| url.query_pairs().next().map(|(_, name)| name.into_owned()));
    name.ok_or_else(|| "the name of the primary cannot be read".into())
}

/// The parts of a URL that names several hosts.
struct Several<'a> {
    /// User and password, with the `@`.
    login: &'a str,
    hosts: Vec<&'a str>,
    path: &'a str,
    /// With the `?`.
    query: &'a str,
    port: u16,
}

impl<'a> Several<'a> {
    fn of(rest: &'a str, port: u16) -> Result<Self, String> {
        let rest = rest.strip_prefix("//").ok_or_else(no_address)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(at);
        let query = after.find(['?', '#']).unwrap_or(after.len());
        let (path, query) = after.split_at(query);
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.iter().any(|host| host.is_empty()) {
            return Err(format!("the URL names no host: {SCHEMES}"));
        }
        Ok(Self {
            login,
            hosts,
            path,
            query,
            port,
        })
    }

    /// The first host as a URL of its own.
    fn first(&self, scheme: &str, db: &str) -> String {
        let host = self.hosts[0];
        // The last colon of an address of version 6 is inside its brackets.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if has_port {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        format!("{scheme}://{}{host}{port}/{db}{}", self.login, self.query)
    }

    fn others(&self) -> Result<Vec<HostPort>, String> {
        let read = |host: &&str| {
            let alone = Several {
                login: "",
                hosts: vec![*host],
                query: "",
                ..*self
            };
            match RedisUrl::server(&alone.first("redis", ""), &[])?.addr {
                ConnectionAddr::Tcp(host, port) => Ok((host, port)),
                _ => Err(no_address()),
            }
        };
        self.hosts.iter().skip(1).map(read).collect()
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
            Ok(StoreUrl::Redis(url)) => *url,
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

    #[test]
    fn sentinels_and_clusters_are_several_hosts() {
        let url = redis(
            "rediss+sentinel://me:s%2Fecret@a,b:1,[::1]:2/my%2Dmaster/3?sentinel_pass=secret&ca=/ca&sentinel_tls=no",
        );
        assert!(!format!("{url:?}").contains("ecret"), "{url:?}");
        assert_eq!(url.shown(), "rediss+sentinel://a:26379,b:1,[::1]:2/my-master/3");
        let place = url.place().expect("a place");
        assert_eq!(place.passwords(), ["s/ecret", "secret"]);
        assert_eq!(place.tls.ca.as_deref(), Some(std::path::Path::new("/ca")));
        assert!(matches!(&place.via, Via::Sentinel(it) if it.name == "my-master" && it.tls == Some(false)));
        let url = redis("redis+cluster://:secret@a:7000,b");
        assert_eq!(
            (url.shown().as_str(), url.via),
            ("redis+cluster://a:7000,b:6379", Via::Cluster)
        );
        for (text, word) in [
            ("redis+sentinel://:secret@host:26379", "NAME"),
            ("redis+sentinel://:secret@host/name/0/more", "database"),
            ("redis+sentinel://:secret@,host/name", "no host"),
            ("redis+sentinel://:secret@host,bad host/name", "read"),
            ("redis+sentinel://:secret@host/name?sentinel_tls=perhaps", "yes or no"),
            ("redis+sentinel://:secret@host/name/x", "database"),
            ("redis+cluster://:secret@host/1", "database 0 only"),
            ("redis+cluster://:secret@host?sentinel_pass=secret", "only these"),
            ("redis+cluster:secret", "no address"),
            ("redis+ring://:secret@host", "no address"),
        ] {
            let error = StoreUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(word) && !error.contains("secret"), "{text}: {error}");
        }
        let error = redis("redis://host?ca=/ca").place().expect_err("no TLS").to_string();
        assert!(error.contains("rediss://"), "{error}");
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
        let error = redis("redis://me@host").place().expect_err("no password").to_string();
        assert!(error.contains("a user needs a password"), "{error}");
    }
}
