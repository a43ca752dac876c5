//! Which Redis: a URL or host and port, with user, password and database.
//!
//! No complaint here repeats an address, since a password may be inside.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use redis::ProtocolVersion;

use super::layer::{Given, Stack, either};
use crate::app::args::options::Opt;
use crate::app::args::options::connection::{
    CA, CERT, CERT_KEY, DB, HOST_NAME, PASS, PASSWORD_COMMAND, PASSWORD_FILE, PORT_NUMBER, SENTINEL_PASS,
    SENTINEL_USER, SHARDS, SNI, URL, USER,
};
use crate::app::args::program::Program;
use crate::app::args::resolved::{HOST, PORT, PasswordFrom, Store};
use crate::app::args::{Usage, value};
use crate::engine::any::{RedisUrl, StoreUrl};
use crate::engine::redis::place::addressed;
use crate::engine::redis::{Tls, Via};
use crate::engine::sqlite::Database;
use crate::error::Error;

const VISIBLE: &str = "a password on the command line can be seen by other users of this machine: \
                       pass it in REDIS_PASS or REDIS_URL instead";

const NOT_SHARED: &str =
    "a queue in memory belongs to one process, and ends with it: name a Redis, or a file with sqlite:/path";

enum Place {
    /// Before user, password and database of other sources are added; and the index of the layer that names it.
    Server(usize, Box<RedisUrl>),
    File(Database),
}

/// The store that the sources name.
pub struct Chosen {
    pub store: Store,
    /// Its address for people: never with user or password.
    pub shown: String,
    pub password: Option<PasswordFrom>,
}

/// All stores that the sources name: one; or, where a number of shards is given, all URLs of one source.
pub fn choose_all(stack: &Stack, notes: &mut Vec<String>) -> Result<Vec<Chosen>, Usage> {
    let (first, count) = choose(stack, 0, notes)?;
    if count > 1 && stack.get(&SHARDS).is_none() {
        return Err(Usage::new(format!(
            "{count} URLs are for a queue with shards: say with --shards how many it has (1, if it has none yet), or give one URL"
        )));
    }
    let mut all = vec![first];
    for number in 1..count {
        // What there is to note has been noted.
        all.push(choose(stack, number, &mut Vec::new())?.0);
    }
    Ok(all)
}

/// The URL with this number, and how many there are.
fn choose(stack: &Stack, number: usize, notes: &mut Vec<String>) -> Result<(Chosen, usize), Usage> {
    let (place, count) = place(stack, number)?;
    let (depth, url) = match place {
        Place::Server(depth, url) => (depth, *url),
        Place::File(database) => {
            let shown = format!("sqlite:{}", database.path.display());
            let chosen = Chosen {
                store: Store::Sqlite(database),
                shown,
                password: None,
            };
            return Ok((chosen, count));
        }
    };
    let by_flag = |option| stack.0.iter().find(|layer| layer.is_flags)?.get(option);
    let at_sentinels = matches!(&url.via, Via::Sentinel(sentinels) if sentinels.pass.is_some());
    let in_url = (url.pass.is_some() || at_sentinels) && stack.0.get(depth).is_some_and(|layer| layer.is_flags);
    if in_url || by_flag(&PASS).is_some_and(|given| !given.text().is_empty()) {
        notes.push(VISIBLE.into());
    }
    let filled = |given: Option<&Given>, own: Option<String>| match given {
        Some(given) => Some(given.text().to_string()).filter(|text| !text.is_empty()),
        None => own,
    };
    // A password in the URL belongs to the user in the URL, so a less specific source cannot add another user.
    let user = part(stack, depth, &USER, url.user.is_some() || url.pass.is_some());
    let pass = part(stack, depth, &PASS, url.pass.is_some());
    let password = password(stack, depth, url.pass.is_some())?;
    let db = part(stack, depth, &DB, url.db.is_some());
    let url = RedisUrl {
        user: filled(user, url.user),
        pass: filled(pass, url.pass),
        db: db.map(|given| given.parse(value::db)).transpose()?.or(url.db),
        tls: tls(stack, depth, url.tls),
        via: via(stack, depth, url.via),
        ..url
    };
    if url.lacks_password() && password.is_none() {
        return Err(Usage::new(
            "a user needs a password: set REDIS_PASS (to anything if the user has none)",
        ));
    }
    let shown = url.shown();
    // A stand-in: each connection asks for its own.
    let pass = if password.is_some() {
        Some(String::new())
    } else {
        url.pass
    };
    let server = RedisUrl { pass, ..url }
        .place()
        .map_err(|error| Usage::new(reason(error)))?;
    let chosen = Chosen {
        store: Store::Redis(Box::new(server)),
        shown,
        password,
    };
    Ok((chosen, count))
}

/// Whom TLS trusts, and as whom it connects.
fn tls(stack: &Stack, depth: usize, own: Tls) -> Tls {
    let file = |option, own: Option<PathBuf>| part(stack, depth, option, own.is_some()).map(Given::path).or(own);
    Tls {
        ca: file(&CA, own.ca),
        cert: file(&CERT, own.cert),
        key: file(&CERT_KEY, own.key),
        sni: part(stack, depth, &SNI, own.sni.is_some())
            .map(|given| given.text().to_string())
            .or(own.sni),
    }
}

/// Who we are at the sentinels.
fn via(stack: &Stack, depth: usize, own: Via) -> Via {
    let Via::Sentinel(mut sentinels) = own else {
        return own;
    };
    let text = |given: &Given| given.text().to_string();
    let user = part(stack, depth, &SENTINEL_USER, sentinels.user.is_some());
    let pass = part(stack, depth, &SENTINEL_PASS, sentinels.pass.is_some());
    sentinels.user = user.map(text).or(sentinels.user);
    sentinels.pass = pass.map(text).or(sentinels.pass);
    Via::Sentinel(sentinels)
}

/// The most specific of the three ways to give a password, if it is one of these two. Two ways in one source are a mistake.
fn password(stack: &Stack, depth: usize, in_url: bool) -> Result<Option<PasswordFrom>, Usage> {
    for (at, layer) in stack.0.iter().enumerate() {
        let ways = [&PASS, &PASSWORD_FILE, &PASSWORD_COMMAND].map(|option| layer.get(option));
        let mut given = ways.iter().flatten();
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return Err(either(one, other));
        }
        match ways {
            [_, Some(file), _] => return Ok(Some(PasswordFrom::File(file.path()))),
            [_, _, Some(command)] => return command.parse(Program::parse).map(|it| Some(PasswordFrom::Command(it))),
            [Some(_), ..] => return Ok(None),
            _ if in_url && at == depth => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
}

/// The most specific value of a part. Once the URL has that part, only sources at least as specific count.
fn part<'a>(stack: &'a Stack, depth: usize, option: &Opt, in_url: bool) -> Option<&'a Given> {
    let until = if in_url { depth + 1 } else { stack.0.len() };
    stack.0.iter().take(until).find_map(|layer| layer.get(option))
}

/// The URL with this number of the first source that has any, and how many it has, unless host or port come before it: these displace it as a whole.
fn place(stack: &Stack, number: usize) -> Result<(Place, usize), Usage> {
    let (mut host, mut port, mut depth_found) = (None, None, None);
    for (depth, layer) in stack.0.iter().enumerate() {
        let rivals = (layer.get(&HOST_NAME), layer.get(&PORT_NUMBER));
        if let Some(given) = layer.get(&URL) {
            if depth_found.is_some() {
                break;
            }
            if let Some(rival) = rivals.0.or(rivals.1).filter(|_| !layer.is_environment) {
                return Err(either(given, rival));
            }
            let mut urls: Vec<&str> = given.texts().collect();
            // A variable or a file has one text: there, spaces are between the URLs. In the path of a file they may be part of it.
            let parts = || given.text().split_whitespace();
            let is_url = |part: &str| part.contains("://") || part.starts_with("sqlite:");
            if urls.len() == 1 && (stack.get(&SHARDS).is_some() || parts().all(is_url)) {
                urls = parts().collect();
            }
            let url = urls.get(number).copied().unwrap_or(given.text());
            let place = match StoreUrl::parse(url) {
                Ok(StoreUrl::Redis(url)) => Place::Server(depth, url),
                Ok(StoreUrl::Sqlite(database)) => Place::File(database),
                Ok(StoreUrl::Memory) => return Err(given.wrong(NOT_SHARED)),
                Err(error) => return Err(given.wrong(&reason(error))),
            };
            return Ok((place, urls.len().max(1)));
        }
        host = host.or(rivals.0);
        port = port.or(rivals.1);
        if host.is_some() || port.is_some() {
            depth_found = depth_found.or(Some(depth));
        }
    }
    let host = host.map(|given| given.parse(host_only)).transpose()?;
    let port = port.map(|given| given.parse(value::port)).transpose()?;
    // There is no other word for TLS beside a host and a port.
    let is_tls = [&CA, &CERT, &SNI]
        .iter()
        .any(|option| part(stack, 0, option, false).is_some());
    let url = RedisUrl {
        addr: addressed(&host.unwrap_or_else(|| HOST.into()), port.unwrap_or(PORT), is_tls),
        protocol: ProtocolVersion::default(),
        user: None,
        pass: None,
        db: None,
        others: Vec::new(),
        via: Via::Address,
        tls: Tls::default(),
    };
    let place = Place::Server(depth_found.unwrap_or(stack.0.len()), Box::new(url));
    Ok((place, 1))
}

/// Why a URL is refused.
fn reason(error: Error) -> String {
    match error {
        Error::Setting { reason, .. } => reason,
        other => other.to_string(),
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
