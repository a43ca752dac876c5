//! Under which names this may be reached. A page of another site can let a name of its own point here and then read what is
//! served (DNS rebinding): so only addresses, `localhost` and names that were allowed are answered to.

use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;

/// The names that are answered to, besides addresses and `localhost`.
pub(in crate::app) struct Hosts(Vec<String>);

/// Why a request is not answered.
#[derive(Debug)]
pub(in crate::app) enum WrongHost {
    /// None, several, or none that can be read.
    NotOne,
    Foreign(String),
}

impl std::fmt::Display for WrongHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotOne => f.write_str("one Host is needed"),
            Self::Foreign(name) => write!(
                f,
                "not served under the name {name:?}; start with --allow-host NAME to allow it"
            ),
        }
    }
}

impl Hosts {
    pub(in crate::app) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// The name under which a request asks, if that is one of ours.
    pub(in crate::app) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Authority, WrongHost> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host: Authority = match (host.parse(), hosts.next()) {
            (Ok(host), None) => host,
            _ => return Err(WrongHost::NotOne),
        };
        for name in [Some(&host), uri.authority()].into_iter().flatten() {
            if !self.is_ours(name) {
                return Err(WrongHost::Foreign(name.host().into()));
            }
        }
        Ok(host)
    }

    /// A name can be made to point anywhere by who owns it, an address cannot.
    fn is_ours(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<Ipv4Addr>().is_ok()
            || (host.starts_with('[') && bare.parse::<Ipv6Addr>().is_ok())
            || self.allows(host)
            || self.allows(authority.as_str())
    }

    /// Whether this name was allowed.
    pub(in crate::app) fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(hosts: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_static(host));
        }
        headers
    }

    #[test]
    fn only_addresses_and_allowed_names_are_served() {
        let hosts = Hosts::new(&["dash.example.org".into()]);
        let admits = |host: &'static str| hosts.check(&Uri::from_static("/"), &headers(&[host])).is_ok();
        for ours in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8077",
            "[::1]:8077",
            "192.168.1.7",
            "Dash.Example.org:80",
        ] {
            assert!(admits(ours), "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "a b",
            "0x7f000001",
            "::1",
        ] {
            assert!(!admits(foreign), "{foreign}");
        }
        let twice = headers(&["localhost", "evil.example"]);
        assert!(hosts.check(&Uri::from_static("/"), &twice).is_err());
        let absolute = Uri::from_static("http://evil.example/");
        assert!(hosts.check(&absolute, &headers(&["localhost"])).is_err());
    }
}
