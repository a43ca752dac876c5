//! Who may: the Host and the Origin of a request, the token, and the sessions of those who gave it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};
use tokio::sync::Mutex;

use super::Options;
use super::reply::Refusal;
use super::session::{SESSION_TIME, Sessions};
use crate::app::args::token::{Right, Tokens};
use crate::app::http::host::{Hosts, WrongHost};
use crate::app::output::log::Log;

/// Wrong tokens are answered one after the other, each so late: whoever guesses has two guesses a second, however many
/// connections it opens.
const WRONG_TOKEN_WAIT: Duration = Duration::from_millis(500);

pub(super) struct Access {
    tokens: Tokens,
    pub read_only: bool,
    hosts: Hosts,
    /// One for each port, since browsers do not keep the cookies of ports apart.
    cookie: String,
    /// The browser sees TLS: ours, or that of a proxy.
    secure: bool,
    sessions: Arc<Sessions>,
    /// Held while a wrong token is answered.
    guess: Mutex<()>,
    log: Arc<Log>,
}

/// Who asks.
#[derive(Clone)]
pub(super) enum Person {
    /// No token is needed.
    Anyone,
    Token(Right),
    Session(Right, String, Arc<Sessions>),
}

impl Person {
    /// False once this session has ended: streams end with it.
    pub fn is_still_admitted(&self) -> bool {
        match self {
            Self::Anyone | Self::Token(_) => true,
            Self::Session(_, id, sessions) => sessions.right(id).is_some(),
        }
    }

    pub fn right(&self) -> Right {
        match self {
            Self::Anyone => Right::Rule,
            Self::Token(right) | Self::Session(right, ..) => *right,
        }
    }

    /// How it was admitted, for the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::Token(right) => right.token_name(),
            Self::Session(..) => "session",
        }
    }
}

impl Access {
    pub fn new(options: &Options, port: u16, log: Arc<Log>) -> Self {
        Self {
            tokens: options.tokens.clone(),
            read_only: options.read_only,
            hosts: Hosts::new(&options.hosts),
            cookie: format!("queenright_{port}"),
            secure: options.tls.is_some() || options.behind_tls,
            sessions: Arc::default(),
            guess: Mutex::default(),
            log,
        }
    }

    pub fn wants_token(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// A page of another site must neither read (under a name that it let point here) nor change anything.
    pub fn check_place<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = self.hosts.check(request.uri(), headers).map_err(|wrong| match wrong {
            WrongHost::NotOne => Refusal::bad(wrong.to_string()),
            WrongHost::Foreign(_) => Refusal::new(StatusCode::FORBIDDEN, "host", wrong.to_string()),
        })?;
        let foreign = headers
            .get_all(ORIGIN)
            .iter()
            .any(|origin| !self.is_same(origin, &host));
        // A link from elsewhere may lead to the page, but to nothing behind it.
        let follows_link = request.method() == Method::GET && !request.uri().path().starts_with("/api/");
        if foreign || (!follows_link && is_cross_site(headers)) {
            let line = "the request comes from a page of another origin";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "origin", line));
        }
        Ok(())
    }

    /// The origin is the place that was asked, or one that was allowed, which a proxy may serve under another name.
    fn is_same(&self, origin: &HeaderValue, host: &Authority) -> bool {
        let Some((scheme, place)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
            return false;
        };
        let same = place.eq_ignore_ascii_case(host.as_str());
        matches!(scheme, "http" | "https") && (same || self.hosts.allows(place))
    }

    /// Admits a request that carries a token with this right, or the cookie of such a session.
    pub async fn check_person(&self, from: SocketAddr, headers: &HeaderMap, wanted: Right) -> Result<Person, Refusal> {
        if let Some(person) = self.person(headers) {
            let may = person.right().includes(wanted);
            return if may { Ok(person) } else { Err(lacks(person.right())) };
        }
        if bearer(headers).is_some() {
            return Err(self.wrong_token(from).await);
        }
        let line = "a token is needed: log in, or send it as Authorization: Bearer";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", line))
    }

    /// Late, one after the other, and logged.
    pub async fn wrong_token(&self, from: SocketAddr) -> Refusal {
        let _turn = self.guess.lock().await;
        self.log.say(true, "wrong_token", &[("from", &from.ip().to_string())]);
        tokio::time::sleep(WRONG_TOKEN_WAIT).await;
        Refusal::new(StatusCode::UNAUTHORIZED, "token", "this is not the token")
    }

    pub fn person(&self, headers: &HeaderMap) -> Option<Person> {
        if self.tokens.is_empty() {
            return Some(Person::Anyone);
        }
        if let Some(given) = bearer(headers) {
            return self.tokens.right(given).map(Person::Token);
        }
        let given = self.session(headers)?;
        let right = self.sessions.right(given)?;
        Some(Person::Session(right, given.into(), self.sessions.clone()))
    }

    /// Writes down a change: who made it, and from where.
    pub fn note(&self, person: &Person, from: SocketAddr, change: &str) {
        let fields = [
            ("by", person.kind()),
            ("from", &from.ip().to_string()),
            ("change", change),
        ];
        self.log.say(false, "dashboard_change", &fields);
    }

    /// A cookie for who has this right.
    pub fn log_in(&self, from: SocketAddr, right: Right) -> Option<HeaderValue> {
        let cookie = self.set_cookie(&self.sessions.begin(right)?, SESSION_TIME);
        let fields = [("by", right.token_name()), ("from", &from.ip().to_string())];
        self.log.say(false, "dashboard_login", &fields);
        cookie
    }

    pub fn right(&self, given: &str) -> Option<Right> {
        self.tokens.right(given)
    }

    pub fn log_out(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if let Some(given) = self.session(headers) {
            self.sessions.end(given);
        }
        self.set_cookie("", Duration::ZERO)
    }

    fn session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find_map(|(name, value)| (name == self.cookie).then_some(value))
    }

    fn set_cookie(&self, value: &str, lives: Duration) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let (name, seconds) = (&self.cookie, lives.as_secs());
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
        HeaderValue::try_from(cookie).ok()
    }
}

/// The token is known, but not for this.
pub(super) fn lacks(right: Right) -> Refusal {
    let line = match right {
        Right::Push => "this token is for pushing messages only",
        Right::Read | Right::Rule => "this token is for looking only",
    };
    Refusal::new(StatusCode::FORBIDDEN, "right", line)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, given) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
}

/// What the browser itself says of where a request comes from; other clients say nothing.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    sites.any(|site| site != "same-origin" && site != "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::args::sources::LogFormat;
    use crate::app::args::token::Token;

    fn access(options: &Options) -> Access {
        let log = Log::to_stderr(LogFormat::Json, true, None);
        Access::new(options, 8077, Arc::new(log))
    }

    fn request(method: Method, path: &str, pairs: &[(&'static str, &'static str)]) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        for (name, value) in pairs {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        request
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        request(Method::GET, "/", pairs).headers().clone()
    }

    #[test]
    fn only_the_same_origin_or_an_allowed_one_may_ask() {
        let access = access(&Options {
            hosts: vec!["dash.example.org".into()],
            ..Options::default()
        });
        let admits = |host: &'static str, origin: &'static str| {
            let request = request(Method::GET, "/", &[("host", host), ("origin", origin)]);
            access.check_place(&request).is_ok()
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
    fn what_a_browser_sends_for_another_site_reaches_the_page_and_nothing_behind_it() {
        let access = access(&Options::default());
        let admits = |method: Method, path: &str, site: &'static str| {
            let request = request(method, path, &[("host", "localhost"), ("sec-fetch-site", site)]);
            access.check_place(&request).is_ok()
        };
        for site in ["cross-site", "same-site", "nonsense"] {
            assert!(admits(Method::GET, "/", site), "a link to the page");
            assert!(!admits(Method::GET, "/api/v1/status", site), "{site}");
            assert!(!admits(Method::POST, "/api/v1/pause", site), "{site}");
        }
        for site in ["same-origin", "none"] {
            assert!(admits(Method::POST, "/api/v1/pause", site), "{site}");
        }
    }

    #[test]
    fn a_session_is_for_who_gave_the_token_and_until_it_is_ended() {
        let mut tokens = Tokens::default();
        tokens.set(Right::Rule, Token::new("0123456789abcdef").unwrap());
        tokens.set(Right::Push, Token::new("only-for-pushing").unwrap());
        let access = access(&Options {
            tokens,
            behind_tls: true,
            ..Options::default()
        });
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let knows = |headers: &HeaderMap| access.person(headers).is_some();
        assert!(!knows(&HeaderMap::new()));
        let cookie = access.log_in(from, Right::Read).unwrap();
        let text = cookie.to_str().unwrap();
        for part in [
            "HttpOnly",
            "SameSite=Strict",
            "Secure",
            "Max-Age=86400",
            "queenright_8077=",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("0123456789abcdef;"), "the token itself is in no cookie");
        let mut with = HeaderMap::new();
        with.insert(COOKIE, text.split(';').next().unwrap().parse().unwrap());
        let person = access.person(&with).unwrap();
        assert!(person.is_still_admitted() && person.right() == Right::Read);
        access.log_out(&with);
        assert!(!knows(&with) && !person.is_still_admitted());
        let bearer = |value: &'static str| knows(&headers(&[("authorization", value)]));
        assert!(bearer("Bearer 0123456789abcdef") && bearer("bearer 0123456789abcdef"));
        let pusher = access.person(&headers(&[("authorization", "Bearer only-for-pushing")]));
        assert_eq!(pusher.map(|pusher| pusher.right()), Some(Right::Push));
        assert!(!bearer("Bearer 0123456789abcde") && !bearer("Basic 0123456789abcdef") && !bearer("Bearer "));
    }
}
