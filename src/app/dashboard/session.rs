//! `/api/v1/session`: logging in with the token, and out.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::SET_COOKIE;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::reply::{Answer, Refusal, ok};
use super::request::body;

/// A wrong token is answered late, which makes guessing slow.
const WRONG_TOKEN_WAIT: Duration = Duration::from_millis(500);

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
    pub(super) async fn log_in_or_out(&self, request: Request<Incoming>) -> Answer {
        let mut admitted = self.knows(request.headers());
        let mut cookie = None;
        if request.method() == Method::POST {
            let login: Login = body(request).await?;
            cookie = self.log_in(&login.token);
            if cookie.is_none() && self.wants_token() {
                tokio::time::sleep(WRONG_TOKEN_WAIT).await;
                let line = "this is not the token";
                return Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", line));
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
