//! `/api/v1/session`: logging in with the token, and out; the sessions of those who did.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::SET_COOKIE;
use hyper::{Method, Request};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::access::Access;
use super::reply::{Answer, ok};
use super::request::body_up_to;

/// How many browsers stay logged in; beyond that, the oldest session is forgotten.
const SESSIONS_MAX: usize = 100;
/// How long a browser stays logged in.
pub(super) const SESSION_TIME: Duration = Duration::from_hours(24);
/// Whoever logs in is not known yet: more than a token is not read.
const LOGIN_BYTES_MAX: usize = 4 * 1024;

/// The sessions that were begun and not ended, the oldest first.
#[derive(Default)]
pub(super) struct Sessions(Mutex<VecDeque<(String, Instant)>>);

impl Sessions {
    /// A new one; none, if the system has no random bits.
    pub fn begin(&self) -> Option<String> {
        let id = random()?;
        let mut sessions = self.lock();
        if sessions.len() == SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back((id.clone(), Instant::now()));
        Some(id)
    }

    pub fn end(&self, id: &str) {
        self.lock().retain(|(known, _)| known != id);
    }

    pub fn knows(&self, id: &str) -> bool {
        let mut sessions = self.lock();
        sessions.retain(|(_, begun)| begun.elapsed() < SESSION_TIME);
        // All are compared, so that the time tells nothing.
        sessions.iter().fold(false, |found, (known, _)| {
            found | bool::from(known.as_bytes().ct_eq(id.as_bytes()))
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Instant)>> {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

impl Access {
    pub(super) async fn log_in_or_out(&self, from: SocketAddr, request: Request<Incoming>) -> Answer {
        let mut admitted = self.person(request.headers()).is_some();
        let mut cookie = None;
        if request.method() == Method::POST {
            let login: Login = body_up_to(LOGIN_BYTES_MAX, request).await?;
            cookie = self.log_in(from, &login.token);
            if cookie.is_none() && self.wants_token() {
                return Err(self.wrong_token(from).await);
            }
            admitted = true;
        } else if request.method() == Method::DELETE {
            cookie = self.log_out(request.headers());
            admitted = !self.wants_token();
        }
        let mut reply = ok(&Session {
            token: self.wants_token(),
            admitted,
            read_only: self.read_only,
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
        let id = sessions.begin().expect("random bits");
        tokio::time::advance(SESSION_TIME / 2).await;
        assert!(sessions.knows(&id) && !sessions.knows("another"));
        tokio::time::advance(SESSION_TIME / 2).await;
        assert!(!sessions.knows(&id));
    }

    #[test]
    fn only_so_many_stay_logged_in() {
        let sessions = Sessions::default();
        let first = sessions.begin().expect("random bits");
        for _ in 0..SESSIONS_MAX {
            sessions.begin().expect("random bits");
        }
        assert!(!sessions.knows(&first));
    }
}
