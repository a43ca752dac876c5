//! A connection written as a URL again, for a copy that is to use it.

use std::fmt::Write as _;
use std::net::SocketAddr;

use redis::{ConnectionAddr, ConnectionInfo};

pub(super) fn of_redis(info: &ConnectionInfo, proxy: Option<SocketAddr>) -> String {
    let redis = info.redis_settings();
    let user = redis.username().map(escaped).unwrap_or_default();
    let pass = redis.password().map(escaped);
    let login = match (user.as_str(), pass) {
        ("", None) => String::new(),
        (user, pass) => format!("{user}:{}@", pass.unwrap_or_default()),
    };
    let db = redis.db();
    match (proxy, info.addr()) {
        (Some(address), _) => format!("redis://{login}{address}/{db}"),
        (None, ConnectionAddr::TcpTls { host, port, .. }) => format!("rediss://{login}{}:{port}/{db}", host_of(host)),
        (None, ConnectionAddr::Unix(path)) => {
            let pass = redis.password().map(|pass| format!("&pass={}", escaped(pass)));
            let user = redis.username().map(|user| format!("&user={}", escaped(user)));
            let path = path.display();
            format!(
                "unix:{path}?db={db}{}{}",
                user.unwrap_or_default(),
                pass.unwrap_or_default()
            )
        }
        (None, ConnectionAddr::Tcp(host, port)) => format!("redis://{login}{}:{port}/{db}", host_of(host)),
        (None, other) => format!("redis://{login}{other}/{db}"),
    }
}

fn host_of(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_string()
    }
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
