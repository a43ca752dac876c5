//! `--handle http://…`: a POST for each message, with the payload as its body.
//!
//! 2xx is done. 429 and 503 ask for another try, after the time in `Retry-After` if there is one. A service that cannot be
//! reached, or hangs up, is tried again as well: that is the service's trouble, not the message's. Everything else is a
//! failure, redirects included.
//!
//! A service that has effects answers 2xx with the type [`ANSWER_TYPE`] and what a child would write as its line. Whatever else it
//! says beside 2xx is its own affair.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;

use super::{Secrets, answer};
use crate::app::args::url::Url;
use crate::message::{CANCELLED, Message};
use crate::node::event::escape;
use crate::node::handle::{Failure, Handle, Handled};

/// So much of an answer is read; who says more is hung up on.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// So much of one that has effects: these are bounded apart, and may be longer in JSON.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The type of an answer that has effects.
const ANSWER_TYPE: &str = "application/vnd.queenright+json";
/// So much of it is kept in the text of an error.
const BODY_SHOWN: usize = 500;
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// A service that never answers must not hold its messages for ever.
const ANSWER_TIME: Duration = Duration::from_mins(1);
/// A service that asks for more is asked again after this: a mistake of its clock must not lose messages for years.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Posts messages to a service.
pub struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Url,
    queue: HeaderValue,
    timeout: Duration,
    secrets: Secrets,
}

impl Http {
    /// Fails where TLS is asked for and this machine has no certificates to trust.
    pub fn new(url: Url, queue: &str, timeout: Option<Duration>, secrets: Secrets) -> std::io::Result<Self> {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT_TIME));
        let provider = rustls::crypto::ring::default_provider();
        let builder = HttpsConnectorBuilder::new();
        let builder = if url.is_https() {
            builder.with_provider_and_native_roots(provider)?
        } else {
            let none = rustls::ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .map_err(std::io::Error::other)?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder.with_tls_config(none)
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(plain);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            url,
            queue: HeaderValue::from_bytes(queue.as_bytes()).map_err(std::io::Error::other)?,
            timeout: timeout.unwrap_or(ANSWER_TIME),
            secrets,
        })
    }

    fn request(&self, message: &Message) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(message.payload.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert("queenright-queue", self.queue.clone());
        headers.insert("queenright-number", message.number.into());
        headers.insert("queenright-deliveries", message.deliveries.into());
        headers.insert("queenright-failures", message.failures.into());
        headers.insert("queenright-epoch", message.epoch.into());
        // A header has no line ends and no other control characters.
        let group = message.group().map(|group| HeaderValue::from_bytes(group.as_bytes()));
        if let Some(Ok(group)) = group {
            headers.insert("queenright-group", group);
        }
        for (name, value) in message.headers().iter() {
            // Only a trace context goes under its own name: any other might be one that the service trusts.
            let name = match name {
                "traceparent" | "tracestate" => name.to_string(),
                name => format!("queenright-header-{name}"),
            };
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_bytes(value.as_bytes()),
            ) {
                headers.insert(name, value);
            }
        }
        if let Some(authorization) = &self.url.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }

    async fn post(&self, message: &Message) -> Handled {
        let response = self.client.request(self.request(message)).await;
        let response = response.map_err(|error| Failure::retry(reason(&error)))?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| {
            let text = value.to_str().ok()?;
            retry_after(text, Timestamp::now())
        });
        let is_answer = status.is_success() && is_answer(&response);
        let Some(body) = whole(response, if is_answer { ANSWER_BYTES_MAX } else { BODY_BYTES_MAX }).await else {
            return if is_answer {
                // It may have been cut off: whether it has effects is not known.
                Err(Failure::retry(format!(
                    "{:?} answered with more than {ANSWER_BYTES_MAX} bytes, or was cut off",
                    self.url
                )))
            } else if status.is_success() {
                Ok(Vec::new())
            } else {
                self.failure(status, b"", after)
            };
        };
        if is_answer {
            let (number, handled) =
                answer::read(&body).map_err(|reason| format!("{:?} answered: {reason}", self.url))?;
            if number.is_some_and(|number| number != message.number) {
                return Err(format!("{:?} answered for another message", self.url).into());
            }
            return handled;
        }
        if status.is_success() {
            return Ok(Vec::new());
        }
        self.failure(status, &body, after)
    }

    fn failure(&self, status: StatusCode, body: &[u8], after: Option<Duration>) -> Handled {
        let mut error = format!("HTTP {status}");
        let body = self.secrets.hide(body.trim_ascii());
        let shown = escape(&body[..body.len().min(BODY_SHOWN)]);
        if !shown.is_empty() {
            error = format!("{error}: {shown}");
        }
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Err(Failure::Retry { error, after }),
            _ => Err(error.into()),
        }
    }
}

impl Handle for Http {
    async fn handle(&self, message: Message) -> Handled {
        let (time, cancellation) = (self.timeout, message.cancellation());
        tokio::select! {
            biased;
            posted = tokio::time::timeout(time, self.post(&message)) => posted
                .unwrap_or_else(|_| Err(format!("{:?} did not answer within {time:?} (--timeout)", self.url).into())),
            () = cancellation.cancelled() => Err(CANCELLED.into()),
        }
    }
}

fn is_answer(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(ANSWER_TYPE)
}

/// Reads the answer to its end, so that the connection can be used again. None: it is too long, or was cut off.
async fn whole(response: Response<Incoming>, bytes_max: usize) -> Option<Bytes> {
    let read = Limited::new(response.into_body(), bytes_max).collect().await;
    read.ok().map(http_body_util::Collected::to_bytes)
}

/// A chain of causes as one line.
fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Seconds, or a date; an hour at most.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let after = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_or(Duration::MAX, Duration::from_secs)
    } else {
        let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
    };
    Some(after.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_minute_unless_another_time_is_given() {
        let url = || Url::parse("http://localhost").unwrap();
        let time = |given| Http::new(url(), "q", given, Secrets::default()).unwrap().timeout;
        assert_eq!(time(None), Duration::from_mins(1));
        assert_eq!(time(Some(Duration::from_mins(5))), Duration::from_mins(5));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        assert_eq!(retry_after("120", now), Some(Duration::from_mins(2)));
        assert_eq!(retry_after(" 0 ", now), Some(Duration::ZERO));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(retry_after(date, now), Some(Duration::from_secs(37)));
        let later: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(retry_after(date, later), Some(Duration::ZERO), "it has passed");
        for long in [
            "3601",
            "99999999999999",
            "99999999999999999999999",
            "Sat, 06 Nov 2094 08:49:37 GMT",
        ] {
            assert_eq!(retry_after(long, now), Some(RETRY_AFTER_MAX), "{long}");
        }
        for wrong in ["", "soon", "-1", "1.5"] {
            assert_eq!(retry_after(wrong, now), None, "{wrong}");
        }
    }
}
