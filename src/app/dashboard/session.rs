//! `/api/v1/session`: logging in with the token, and out; the sessions of those who did.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::SET_COOKIE;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::access::{Access, Person, lacks};
use super::reply::{Answer, Refusal, ok};
use super::request::body_up_to;
use crate::app::args::token::Right;

/// How many browsers stay logged in with each kind of token; beyond that, the oldest session is forgotten.
const SESSIONS_MAX: usize = 100;
/// How long a browser stays logged in.
pub(super) const SESSION_TIME: Duration = Duration::from_hours(24);
/// Whoever logs in is not known yet: more than a token is not read.
const LOGIN_BYTES_MAX: usize = 4 * 1024;

/// The sessions that were begun and not ended, the oldest first.
#[derive(Default)]
pub(super) struct Sessions(Mutex<VecDeque<Begun>>);

struct Begun {
    id: String,
    right: Right,
    at: Instant,
}

impl Sessions {
    /// A new one; none, if the system has no random bits.
    pub fn begin(&self, right: Right) -> Option<String> {
        let id = random()?;
        let mut sessions = self.lock();
        // Who may less must not end the sessions of those who may more.
        let same = |begun: &Begun| begun.right == right;
        if sessions.iter().filter(|begun| same(begun)).count() >= SESSIONS_MAX
            && let Some(oldest) = sessions.iter().position(same)
        {
            sessions.remove(oldest);
        }
        sessions.push_back(Begun {
            id: id.clone(),
            right,
            at: Instant::now(),
        });
        Some(id)
    }

    pub fn end(&self, id: &str) {
        self.lock().retain(|known| known.id != id);
    }

    /// What whoever has this session may do; none: it has ended.
    pub fn right(&self, id: &str) -> Option<Right> {
        let mut sessions = self.lock();
        sessions.retain(|begun| begun.at.elapsed() < SESSION_TIME);
        // All are compared, so that the time tells nothing.
        sessions.iter().fold(None, |found, begun| {
            let same = bool::from(begun.id.as_bytes().ct_eq(id.as_bytes()));
            if same { Some(begun.right) } else { found }
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Begun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

#[derive(Serialize)]
struct Session {
    /// Whether a token is needed.
    token: bool,
    /// Whether this client is admitted.
    admitted: bool,
    read_only: bool,
    version: &'static str,
}

fn no_entropy() -> Refusal {
    let line = "the system has no random bits for a session";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "entropy", line)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

impl Access {
    pub(super) async fn log_in_or_out(&self, from: SocketAddr, request: Request<Incoming>) -> Answer {
        let mut right = self.person(request.headers()).as_ref().map(Person::right);
        let mut cookie = None;
        if request.method() == Method::POST {
            let login: Login = body_up_to(LOGIN_BYTES_MAX, request).await?;
            if self.wants_token() {
                right = self.right(&login.token);
                cookie = match right {
                    // The page could show it nothing.
                    Some(Right::Push) => return Err(lacks(Right::Push)),
                    Some(right) => Some(self.log_in(from, right).ok_or_else(no_entropy)?),
                    None => return Err(self.wrong_token(from).await),
                };
            }
        } else if request.method() == Method::DELETE {
            cookie = self.log_out(request.headers());
            right = (!self.wants_token()).then_some(Right::Rule);
        }
        let mut reply = ok(&Session {
            token: self.wants_token(),
            admitted: right.is_some(),
            read_only: self.read_only || right == Some(Right::Read),
            version: env!("CARGO_PKG_VERSION"),
        });
        if let Some(cookie) = cookie {
            reply.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_by_itself_after_its_time() {
        let sessions = Sessions::default();
        let id = sessions.begin(Right::Read).expect("random bits");
        tokio::time::advance(SESSION_TIME / 2).await;
        assert_eq!(
            (sessions.right(&id), sessions.right("another")),
            (Some(Right::Read), None)
        );
        tokio::time::advance(SESSION_TIME / 2).await;
        assert_eq!(sessions.right(&id), None);
    }

    #[test]
    fn only_so_many_stay_logged_in() {
        let sessions = Sessions::default();
        let first = sessions.begin(Right::Read).expect("random bits");
        for _ in 0..SESSIONS_MAX {
            sessions.begin(Right::Read).expect("random bits");
        }
        assert_eq!(sessions.right(&first), None);
        let ruler = sessions.begin(Right::Rule).expect("random bits");
        for _ in 0..SESSIONS_MAX {
            sessions.begin(Right::Read).expect("random bits");
        }
        assert_eq!(
            sessions.right(&ruler),
            Some(Right::Rule),
            "those who only look end no other session"
        );
    }
}
