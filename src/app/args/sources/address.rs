//! Which Redis: a URL or host and port, with user, password and database.
//!
//! No complaint here repeats an address, since a password may be inside.

use std::net::Ipv6Addr;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use super::layer::{Given, Layer, Stack, either};
use crate::app::args::options::Opt;
use crate::app::args::options::connection::{DB, HOST_NAME, PASS, PORT_NUMBER, URL, USER};
use crate::app::args::resolved::{HOST, PORT, Store};
use crate::app::args::{Usage, value};
use crate::engine::sqlite::Database;

const SCHEMES: &str = "write redis://host:port/db, rediss://host:port/db (TLS), unix:/path or sqlite:/path";
const VISIBLE: &str = "a password on the command line can be seen by other users of this machine: \
                       pass it in REDIS_PASS or REDIS_URL instead";

pub struct Address {
    pub store: Store,
    pub shown: String,
}

enum Found {
    Server(ServerAddress),
    File(Database),
}

/// An address before user, password and database of other sources are added.
struct ServerAddress {
    /// The index of the layer that names it.
    depth: usize,
    addr: ConnectionAddr,
    protocol: redis::ProtocolVersion,
    user: Option<String>,
    pass: Option<String>,
    db: Option<i64>,
}

pub fn choose(stack: &Stack, notes: &mut Vec<String>) -> Result<Address, Usage> {
    let place = match place(stack)? {
        Found::Server(place) => place,
        Found::File(database) => {
            return Ok(Address {
                shown: format!("sqlite:{}", database.path.display()),
                store: Store::Sqlite(database),
            });
        }
    };
    let by_flag = |option| stack.0.iter().find(|layer| layer.is_flags)?.get(option);
    let in_url = place.pass.is_some() && stack.0.get(place.depth).is_some_and(|layer| layer.is_flags);
    if in_url || by_flag(&PASS).is_some_and(|given| !given.text().is_empty()) {
        notes.push(VISIBLE.into());
    }
    // A password in the URL belongs to the user in the URL, so a less specific source cannot add another user.
    let user = part(stack, &place, &USER, place.user.is_some() || place.pass.is_some());
    let pass = part(stack, &place, &PASS, place.pass.is_some());
    let db = part(stack, &place, &DB, place.db.is_some());
    let filled = |given: Option<&Given>, own: &Option<String>| match given {
        Some(given) => Some(given.text().to_string()).filter(|text| !text.is_empty()),
        None => own.clone(),
    };
    let db = db
        .map(|given| given.parse(value::db))
        .transpose()?
        .or(place.db)
        .unwrap_or(0);
    let mut redis = RedisConnectionInfo::default().set_protocol(place.protocol).set_db(db);
    let password = filled(pass, &place.pass);
    if let Some(name) = filled(user, &place.user) {
        // Without a password the client would silently connect as another user, the default one.
        if password.is_none() && name != "default" {
            return Err(Usage::new(
                "a user needs a password: set REDIS_PASS (to anything if the user has none)",
            ));
        }
        redis = redis.set_username(name);
    }
    if let Some(password) = password {
        redis = redis.set_password(password);
    }
    let shown = shown(&place.addr, db);
    let server = place
        .addr
        .into_connection_info()
        .map_err(|_| Usage::new(SCHEMES))?
        .set_redis_settings(redis);
    Ok(Address {
        store: Store::Redis(Box::new(server)),
        shown,
    })
}

/// The most specific value of a part. Once the URL has that part, only sources at least as specific count.
fn part<'a>(stack: &'a Stack, place: &ServerAddress, option: &Opt, in_url: bool) -> Option<&'a Given> {
    let until = if in_url { place.depth + 1 } else { stack.0.len() };
    stack.0.iter().take(until).find_map(|layer| layer.get(option))
}

/// The first URL, unless host or port come before it: these displace it as a whole.
fn place(stack: &Stack) -> Result<Found, Usage> {
    let (mut host, mut port, mut depth_found) = (None, None, None);
    for (depth, layer) in stack.0.iter().enumerate() {
        let rivals = (layer.get(&HOST_NAME), layer.get(&PORT_NUMBER));
        if let Some(given) = layer.get(&URL) {
            if depth_found.is_some() {
                break;
            }
            refuse_both(layer, given, rivals)?;
            let text = given.text().trim();
            let found = match text.strip_prefix("sqlite:") {
                Some(path) => file(path).map(Found::File),
                None => from_url(text, depth).map(Found::Server),
            };
            return found.map_err(|reason| given.wrong(&reason));
        }
        host = host.or(rivals.0);
        port = port.or(rivals.1);
        if host.is_some() || port.is_some() {
            depth_found = depth_found.or(Some(depth));
        }
    }
    let host = host.map(|given| given.parse(host_only)).transpose()?;
    let port = port.map(|given| given.parse(value::port)).transpose()?;
    Ok(Found::Server(ServerAddress {
        depth: depth_found.unwrap_or(stack.0.len()),
        addr: ConnectionAddr::Tcp(host.unwrap_or_else(|| HOST.into()), port.unwrap_or(PORT)),
        protocol: redis::ProtocolVersion::default(),
        user: None,
        pass: None,
        db: None,
    }))
}

/// `sqlite:PATH`, with `?synchronous=full` to wait for the disk at every commit.
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

fn refuse_both(layer: &Layer, url: &Given, rivals: (Option<&Given>, Option<&Given>)) -> Result<(), Usage> {
    match rivals.0.or(rivals.1) {
        Some(rival) if !layer.is_environment => Err(either(url, rival)),
        _ => Ok(()),
    }
}

fn from_url(text: &str, depth: usize) -> Result<ServerAddress, String> {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let unix = match scheme.as_deref() {
        Some("redis" | "rediss") => false,
        Some("unix" | "redis+unix") => true,
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
    Ok(ServerAddress {
        depth,
        addr: info.addr().clone(),
        protocol: redis.protocol(),
        user: redis.username().map(String::from),
        pass: redis.password().map(String::from),
        db: has_db.then(|| redis.db()),
    })
}

/// A host as `--host` takes it: a name, an IPv4 or an IPv6 address.
fn host_only(text: &str) -> Result<String, String> {
    if text.contains("://") || text.starts_with("unix:") || text.contains('@') {
        return Err("this takes a host name: give a URL with --url or REDIS_URL".into());
    }
    if text.starts_with('/') {
        return Err("this takes a host name: give a socket as --url unix:/path".into());
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok(text.into());
    }
    match host_and_port(text) {
        Some((host, None)) => Ok(host.into()),
        Some((_, Some(_))) => Err("this takes a host name: give the port with --port or REDIS_PORT".into()),
        None => Err("this is no host name".into()),
    }
}

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`; `None` if it is none of these.
pub fn host_and_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let named = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let numbered = port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    (named && numbered).then_some((host, port))
}

/// The URL of a bare host and port.
pub fn url(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("redis://[{host}]:{port}")
    } else {
        format!("redis://{host}:{port}")
    }
}

/// For people: where, and which database unless it is the first.
fn shown(addr: &ConnectionAddr, db: i64) -> String {
    let joined = |host: &str, port: u16| {
        let v6 = host.contains(':');
        if v6 {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    };
    let place = match addr {
        ConnectionAddr::Tcp(host, port) => joined(host, *port),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}", joined(host, *port)),
        ConnectionAddr::Unix(path) => format!("unix:{}", path.display()),
        _ => "Redis".into(),
    };
    match (db, addr) {
        (0, _) => place,
        (db, ConnectionAddr::Unix(_)) => format!("{place}?db={db}"),
        (db, _) => format!("{place}/{db}"),
    }
}
