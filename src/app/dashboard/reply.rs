//! Answers: JSON, streams, refusals, and the headers that all of them carry.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;

use super::messages::Pushed;
use crate::app::args::explain;
use crate::app::http::Body;
use crate::error::Error;

pub(super) type Reply = Response<Body>;
pub(super) type Answer = Result<Reply, Refusal>;

/// The browser loads nothing from elsewhere, runs no inline script, and shows the page in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Why something was not done: a line for people, a word for programs.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    #[serde(skip)]
    pub status: StatusCode,
    pub code: &'static str,
    #[serde(rename = "error")]
    pub line: String,
    /// Of several messages those that were pushed before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Pushed>,
    /// Of several errors those that were requeued or deleted before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u64>,
    /// The methods that would be served, where the method was wrong.
    #[serde(skip)]
    pub allow: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, line: impl Into<String>) -> Self {
        Self {
            status,
            code,
            line: line.into(),
            messages: Vec::new(),
            numbers: Vec::new(),
            allow: None,
        }
    }

    pub fn bad(line: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", line)
    }

    pub fn missing(line: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", line)
    }

    pub fn method(allow: &'static str) -> Self {
        let line = format!("only {allow} is served here");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", line)
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (status, code) = match &error {
            Error::Away { .. } => (StatusCode::SERVICE_UNAVAILABLE, "away"),
            Error::NoQueue { .. } => (StatusCode::NOT_FOUND, "no_queue"),
            Error::Full { .. } => (StatusCode::CONFLICT, "full"),
            Error::Setting { .. } | Error::TooLarge { .. } => (StatusCode::BAD_REQUEST, "bad_request"),
            _ => (StatusCode::BAD_GATEWAY, "store"),
        };
        Self::new(status, code, explain(&error))
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let mut reply = json(refusal.status, &refusal);
        if let Some(allow) = refusal.allow {
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        if refusal.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            reply.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        reply
    }
}

pub(super) use crate::app::http::answer as whole;

pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Reply {
    let bytes = serde_json::to_vec(value).expect("keys are texts, and numbers are numbers");
    whole(status, "application/json", bytes)
}

pub(super) fn ok<T: Serialize>(value: &T) -> Reply {
    json(StatusCode::OK, value)
}

/// What is sent piece by piece. An error cuts the connection, so that the client does not take a part for the whole.
pub(super) type Pieces = mpsc::Sender<io::Result<Bytes>>;

/// A streamed answer: the caller sends pieces, as fast as the client reads them.
pub(super) fn stream(kind: &'static str) -> (Pieces, Reply) {
    let (pieces, receiver) = mpsc::channel(2);
    let mut reply = Response::new(Flow(receiver).boxed());
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    (pieces, reply)
}

struct Flow(mpsc::Receiver<io::Result<Bytes>>);

impl HttpBody for Flow {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map_ok(Frame::data)
    }
}

/// What every answer says to the browser.
pub(super) fn protect(reply: &mut Reply, serves_tls: bool) {
    let headers = reply.headers_mut();
    if serves_tls {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(HeaderName::from_static("strict-transport-security"), year);
    }
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}
