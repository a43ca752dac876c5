//! Who may: the Host and the Origin of a request, the token, and the sessions of those who gave it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};
use subtle::ConstantTimeEq;

use super::reply::Refusal;
use crate::app::args::token::Token;

/// How many browsers stay logged in; beyond that, the oldest session is forgotten.
const SESSIONS_MAX: usize = 100;

pub(super) struct Access {
    token: Option<Token>,
    pub read_only: bool,
    /// Names under which this may be reached, besides addresses and localhost.
    hosts: Vec<String>,
    /// One for each port, since browsers do not keep the cookies of ports apart.
    cookie: String,
    /// Sent over TLS only.
    secure: bool,
    sessions: Mutex<VecDeque<String>>,
}

impl Access {
    pub fn new(token: Option<Token>, read_only: bool, hosts: &[String], port: u16, secure: bool) -> Self {
        Self {
            token,
            read_only,
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            cookie: format!("queenright_{port}"),
            secure,
            sessions: Mutex::default(),
        }
    }

    pub fn wants_token(&self) -> bool {
        self.token.is_some()
    }

    /// A page of another site must neither read (under a name that it let point here) nor change anything.
    pub fn check_place(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host: Authority = match (host.parse(), hosts.next()) {
            (Ok(host), None) => host,
            _ => return Err(Refusal::bad("one Host is needed")),
        };
        let named = [Some(&host), uri.authority()];
        if let Some(foreign) = named.into_iter().flatten().find(|name| !self.is_ours(name)) {
            let name = foreign.host();
            let line = format!("not served under the name {name:?}; start with --allow-host NAME to allow it");
            return Err(Refusal::new(StatusCode::FORBIDDEN, "host", line));
        }
        for origin in headers.get_all(ORIGIN) {
            if !self.is_same(origin, &host) {
                let line = "the request comes from a page of another origin";
                return Err(Refusal::new(StatusCode::FORBIDDEN, "origin", line));
            }
        }
        Ok(())
    }

    /// A name can be made to point anywhere by who owns it, an address cannot.
    fn is_ours(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<Ipv4Addr>().is_ok()
            || (host.starts_with('[') && bare.parse::<Ipv6Addr>().is_ok())
            || self.is_allowed(host)
            || self.is_allowed(authority.as_str())
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// The origin is the place that was asked, or one that was allowed, which a proxy may serve under another name.
    fn is_same(&self, origin: &HeaderValue, host: &Authority) -> bool {
        let Some((scheme, place)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
            return false;
        };
        let same = place.eq_ignore_ascii_case(host.as_str());
        matches!(scheme, "http" | "https") && (same || self.is_allowed(place))
    }

    /// Admits a request that carries the token, or the cookie of a session.
    pub fn check_person(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.knows(headers) {
            return Ok(());
        }
        let line = "a token is needed: log in, or send it as Authorization: Bearer";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", line))
    }

    pub fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if let Some((_, given)) = bearer {
            return token.is(given.trim());
        }
        self.session(headers).is_some_and(|given| {
            let sessions = self.sessions();
            // All are compared, so that the time tells nothing.
            sessions.iter().fold(false, |found, known| {
                found | bool::from(known.as_bytes().ct_eq(given.as_bytes()))
            })
        })
    }

    /// A cookie, if the token is right.
    pub fn log_in(&self, given: &str) -> Option<HeaderValue> {
        if !self.token.as_ref().is_some_and(|token| token.is(given)) {
            return None;
        }
        let session = random()?;
        let cookie = self.set_cookie(&session, "");
        let mut sessions = self.sessions();
        if sessions.len() == SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(session);
        cookie
    }

    pub fn log_out(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if let Some(given) = self.session(headers) {
            self.sessions().retain(|known| known != given);
        }
        self.set_cookie("", "; Max-Age=0")
    }

    fn session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find_map(|(name, value)| (name == self.cookie).then_some(value))
    }

    fn set_cookie(&self, value: &str, more: &str) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = &self.cookie;
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{more}");
        HeaderValue::try_from(cookie).ok()
    }

    fn sessions(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 256 random bits.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_addresses_and_allowed_names_are_served() {
        let access = Access::new(None, false, &["dash.example.org".into()], 8077, false);
        let admits = |host: &'static str| {
            let uri = Uri::from_static("/");
            access.check_place(&uri, &headers(&[("host", host)])).is_ok()
        };
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
        let twice = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(access.check_place(&Uri::from_static("/"), &twice).is_err());
        let absolute = Uri::from_static("http://evil.example/");
        assert!(
            access
                .check_place(&absolute, &headers(&[("host", "localhost")]))
                .is_err()
        );
    }

    #[test]
    fn only_the_same_origin_or_an_allowed_one_may_ask() {
        let access = Access::new(None, false, &["dash.example.org".into()], 8077, false);
        let admits = |host: &'static str, origin: &'static str| {
            let headers = headers(&[("host", host), ("origin", origin)]);
            access.check_place(&Uri::from_static("/"), &headers).is_ok()
        };
        assert!(admits("localhost:8077", "http://localhost:8077"));
        assert!(admits("127.0.0.1:8077", "https://dash.example.org"), "through a proxy");
        for foreign in [
            "null",
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:8077",
            "http://evil.example",
            "file://localhost:8077",
            "https://dash.example.org:444",
        ] {
            assert!(!admits("localhost:8077", foreign), "{foreign}");
        }
    }

    #[test]
    fn a_session_is_for_who_gave_the_token_and_until_it_is_ended() {
        let token = Token::new("0123456789abcdef").unwrap();
        let access = Access::new(Some(token), false, &[], 8077, true);
        assert!(!access.knows(&HeaderMap::new()));
        assert!(access.log_in("0123456789abcdeX").is_none() && access.log_in("").is_none());
        let cookie = access.log_in("0123456789abcdef").unwrap();
        let text = cookie.to_str().unwrap();
        for part in ["HttpOnly", "SameSite=Strict", "Secure", "queenright_8077="] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("0123456789abcdef;"), "the token itself is in no cookie");
        let mut with = HeaderMap::new();
        with.insert(COOKIE, text.split(';').next().unwrap().parse().unwrap());
        assert!(access.knows(&with));
        access.log_out(&with);
        assert!(!access.knows(&with));
        let bearer = |value: &'static str| access.knows(&headers(&[("authorization", value)]));
        assert!(bearer("Bearer 0123456789abcdef") && bearer("bearer 0123456789abcdef"));
        assert!(!bearer("Bearer 0123456789abcde") && !bearer("Basic 0123456789abcdef") && !bearer("Bearer "));
    }
}
