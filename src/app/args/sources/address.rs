//! Which Redis: a URL or host and port, with user, password and database.
//!
//! No complaint here repeats an address, since a password may be inside.

use std::net::Ipv6Addr;

use redis::{ConnectionAddr, ProtocolVersion};

use super::layer::{Given, Layer, Stack, either};
use crate::app::args::options::Opt;
use crate::app::args::options::connection::{DB, HOST_NAME, PASS, PORT_NUMBER, URL, USER};
use crate::app::args::resolved::{HOST, PORT, Store};
use crate::app::args::{Usage, explain, value};
use crate::engine::any::{RedisUrl, StoreUrl};
use crate::engine::sqlite::Database;
use crate::error::Error;

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
    url: RedisUrl,
}

pub fn choose(stack: &Stack, notes: &mut Vec<String>) -> Result<Address, Usage> {
    let server = match find(stack)? {
        Found::Server(server) => server,
        Found::File(database) => {
            return Ok(Address {
                shown: format!("sqlite:{}", database.path.display()),
                store: Store::Sqlite(database),
            });
        }
    };
    let by_flag = |option| stack.0.iter().find(|layer| layer.is_flags)?.get(option);
    let in_url = server.url.pass.is_some() && stack.0.get(server.depth).is_some_and(|layer| layer.is_flags);
    if in_url || by_flag(&PASS).is_some_and(|given| !given.text().is_empty()) {
        notes.push(VISIBLE.into());
    }
    // A password in the URL belongs to the user in the URL, so a less specific source cannot add another user.
    let url = &server.url;
    let user = part(stack, &server, &USER, url.user.is_some() || url.pass.is_some());
    let pass = part(stack, &server, &PASS, url.pass.is_some());
    let db = part(stack, &server, &DB, url.db.is_some());
    let filled = |given: Option<&Given>, own: &Option<String>| match given {
        Some(given) => Some(given.text().to_string()).filter(|text| !text.is_empty()),
        None => own.clone(),
    };
    let db = db.map(|given| given.parse(value::db)).transpose()?;
    let whole = RedisUrl {
        user: filled(user, &url.user),
        pass: filled(pass, &url.pass),
        db: db.or(url.db),
        ..url.clone()
    };
    // Without a password the client would silently connect as another user, the default one.
    if whole.pass.is_none() && whole.user.as_deref().is_some_and(|name| name != "default") {
        return Err(Usage::new(
            "a user needs a password: set REDIS_PASS (to anything if the user has none)",
        ));
    }
    let shown = whole.shown();
    let connection = whole.connection().map_err(|error| Usage::new(explain(&error)))?;
    Ok(Address {
        store: Store::Redis(Box::new(connection)),
        shown,
    })
}

/// The most specific value of a part. Once the URL has that part, only sources at least as specific count.
fn part<'a>(stack: &'a Stack, server: &ServerAddress, option: &Opt, in_url: bool) -> Option<&'a Given> {
    let until = if in_url { server.depth + 1 } else { stack.0.len() };
    stack.0.iter().take(until).find_map(|layer| layer.get(option))
}

/// The first URL, unless host or port come before it: these displace it as a whole.
fn find(stack: &Stack) -> Result<Found, Usage> {
    let (mut host, mut port, mut depth_found) = (None, None, None);
    for (depth, layer) in stack.0.iter().enumerate() {
        let rivals = (layer.get(&HOST_NAME), layer.get(&PORT_NUMBER));
        if let Some(given) = layer.get(&URL) {
            if depth_found.is_some() {
                break;
            }
            refuse_both(layer, given, rivals)?;
            let url = match StoreUrl::parse(given.text()) {
                Ok(StoreUrl::Redis(url)) => url,
                Ok(StoreUrl::Sqlite(database)) => return Ok(Found::File(database)),
                Ok(StoreUrl::Memory) => {
                    return Err(given.wrong("what is in memory is gone with this process: write redis:// or sqlite:"));
                }
                Err(Error::Setting { reason, .. }) => return Err(given.wrong(&reason)),
                Err(error) => return Err(given.wrong(&explain(&error))),
            };
            return Ok(Found::Server(ServerAddress { depth, url }));
        }
        host = host.or(rivals.0);
        port = port.or(rivals.1);
        if host.is_some() || port.is_some() {
            depth_found = depth_found.or(Some(depth));
        }
    }
    let host = host.map(|given| given.parse(host_only)).transpose()?;
    let port = port.map(|given| given.parse(value::port)).transpose()?;
    let url = RedisUrl {
        addr: ConnectionAddr::Tcp(host.unwrap_or_else(|| HOST.into()), port.unwrap_or(PORT)),
        protocol: ProtocolVersion::default(),
        user: None,
        pass: None,
        db: None,
    };
    let depth = depth_found.unwrap_or(stack.0.len());
    Ok(Found::Server(ServerAddress { depth, url }))
}

fn refuse_both(layer: &Layer, url: &Given, rivals: (Option<&Given>, Option<&Given>)) -> Result<(), Usage> {
    match rivals.0.or(rivals.1) {
        Some(rival) if !layer.is_environment => Err(either(url, rival)),
        _ => Ok(()),
    }
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
