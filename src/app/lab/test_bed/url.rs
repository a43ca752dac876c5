//! A connection written as a URL again, for a copy that is to use it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use redis::ConnectionAddr;

use crate::engine::redis::place::shown;
use crate::engine::redis::{Place, Via};

pub(super) fn of_redis(place: &Place, proxy: Option<SocketAddr>) -> String {
    let info = &place.info;
    let redis = info.redis_settings();
    let user = redis.username().map(escaped).unwrap_or_default();
    let pass = redis.password().map(escaped);
    let login = match (user.as_str(), pass) {
        ("", None) => String::new(),
        (user, pass) => format!("{user}:{}@", pass.unwrap_or_default()),
    };
    let db = redis.db();
    let (plain, host, port) = match (proxy, info.addr()) {
        (Some(address), _) => return format!("redis://{login}{address}/{db}"),
        (None, ConnectionAddr::Unix(path)) => {
            let pass = redis.password().map(|pass| format!("&pass={}", escaped(pass)));
            let user = redis.username().map(|user| format!("&user={}", escaped(user)));
            let path = path.display();
            return format!(
                "unix:{path}?db={db}{}{}",
                user.unwrap_or_default(),
                pass.unwrap_or_default()
            );
        }
        (None, ConnectionAddr::TcpTls { host, port, .. }) => ("rediss", host, port),
        (None, ConnectionAddr::Tcp(host, port)) => ("redis", host, port),
        (None, other) => return format!("redis://{login}{other}/{db}"),
    };
    let mut hosts = shown(&(host.clone(), *port));
    for other in &place.others {
        hosts = format!("{hosts},{}", shown(other));
    }
    let file = |name: &str, file: &Option<PathBuf>| file.as_ref().map(|file| given(name, &file.to_string_lossy()));
    let tls = &place.tls;
    let mut parameters = vec![file("ca", &tls.ca), file("cert", &tls.cert), file("key", &tls.key)];
    parameters.push(tls.sni.as_ref().map(|sni| given("sni", sni)));
    let (via, path) = match &place.via {
        Via::Address => ("", format!("{db}")),
        Via::Cluster => ("+cluster", String::new()),
        Via::Sentinel(sentinels) => {
            parameters.push(sentinels.user.as_ref().map(|user| given("sentinel_user", user)));
            parameters.push(sentinels.pass.as_ref().map(|pass| given("sentinel_pass", pass)));
            let tls = sentinels
                .tls
                .map(|tls| given("sentinel_tls", if tls { "yes" } else { "no" }));
            parameters.push(tls);
            ("+sentinel", format!("{}/{db}", escaped(&sentinels.name)))
        }
    };
    let parameters: Vec<String> = parameters.into_iter().flatten().collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{plain}{via}://{login}{hosts}/{path}{mark}{}", parameters.join("&"))
}

fn given(name: &str, value: &str) -> String {
    format!("{name}={}", escaped(value))
}

/// Percent-encoded, as a part of a URL.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
