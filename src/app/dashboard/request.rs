//! Requests: what stands behind the question mark, and what is in the body.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::reply::Refusal;
use crate::app::args::json::{NUMBER_MAX, Object};
use crate::app::args::value;
use crate::message::PAYLOAD_BYTES_MAX;

/// The largest payload, escaped or in base64, with something around it.
pub(super) const BODY_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_MAX;
/// Bodies that have no more than this need no room: there are no more of them than connections. So neither who logs in nor who rules waits behind
/// others that send slowly.
const SMALL_BYTES_MAX: usize = 4 * 1024;
/// How long a body may take, with the wait for its room.
const BODY_TIME: Duration = Duration::from_secs(20);
/// The bytes of all bodies that are being read or looked at; further ones wait for their room.
static ROOM: Semaphore = Semaphore::const_new(8 * BODY_BYTES_MAX);

/// The parameters of a query, each once.
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Refuses what is not known: a misspelt filter would mean everything.
    pub fn of(query: Option<&'a str>, known: &[&str]) -> Result<Self, Refusal> {
        let mut found: Vec<(Cow<str>, Cow<str>)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&&*name) {
                let line = format!("unknown parameter {name:?}; there are {}", known.join(", "));
                return Err(Refusal::bad(line));
            }
            if found.iter().any(|(before, _)| *before == name) {
                return Err(Refusal::bad(format!("{name} is given twice")));
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = || Refusal::bad(format!("{name} must be a whole number up to 2^53"));
        number(text).map(Some).ok_or_else(wrong)
    }
}

/// Digits only, up to the largest number.
pub(super) fn number(text: &str) -> Option<u64> {
    value::whole(text).ok().filter(|number| *number <= NUMBER_MAX)
}

/// `%41` is A, `+` is a space.
pub(super) fn decode(text: &str) -> Result<Cow<'_, str>, Refusal> {
    if !text.contains(['%', '+']) {
        return Ok(text.into());
    }
    let wrong = || Refusal::bad("the query is not well encoded");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let code = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                u8::try_from(code.ok_or_else(wrong)?).expect("two digits")
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| wrong())
}

/// Reads a body of JSON, up to its limit in bytes and time. No form of another site can send this type.
pub(super) async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refusal> {
    body_up_to(BODY_BYTES_MAX, request).await
}

/// The same, of fewer bytes.
pub(super) async fn body_up_to<T: DeserializeOwned>(most: usize, request: Request<Incoming>) -> Result<T, Refusal> {
    if kind(&request) != "application/json" {
        return Err(wrong_kind("the body must be application/json"));
    }
    parse(&read(most, request).await?.bytes)
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let parsed: serde_json::Result<Object<T>> = serde_json::from_slice(bytes);
    let Object(parsed) = parsed.map_err(|error| Refusal::bad(format!("the body: {error}")))?;
    Ok(parsed)
}

/// The type of the body, without its parameters.
pub(super) fn kind(request: &Request<Incoming>) -> String {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

pub(super) fn wrong_kind(line: &str) -> Refusal {
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", line)
}

/// A body, and its room.
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    /// To be kept for as long as what was in the body.
    pub(super) room: Option<SemaphorePermit<'static>>,
}

/// Reads a whole body, up to its limit in bytes and time.
pub(super) async fn read(most: usize, request: Request<Incoming>) -> Result<Whole, Refusal> {
    let large = || {
        let line = format!("the body has more than {most} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", line)
    };
    let hint = request.body().size_hint();
    if hint.lower() > most as u64 {
        return Err(large());
    }
    let slow = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body took too long");
    let read = async {
        // Without a stated length it may become as large as it may.
        let expected = hint.upper().unwrap_or(most as u64).min(most as u64);
        let room = if expected <= SMALL_BYTES_MAX as u64 {
            None
        } else {
            let bytes = u32::try_from(expected).expect("bounded");
            Some(ROOM.acquire_many(bytes).await.expect("never closed"))
        };
        let collected = Limited::new(request.into_body(), most).collect().await;
        (room, collected)
    };
    let (room, collected) = tokio::time::timeout(BODY_TIME, read).await.map_err(|_| slow())?;
    match collected {
        Ok(collected) => Ok(Whole {
            bytes: collected.to_bytes(),
            room,
        }),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(large()),
        Err(_) => Err(Refusal::bad("the body was cut off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_known_and_given_once() {
        let query = Query::of(Some("text=a+b%26%C3%A9&from=17&to="), &["text", "from", "to"]).unwrap();
        assert_eq!(query.text("text"), Some("a b&é"));
        assert_eq!(query.number("from").unwrap(), Some(17));
        assert!(query.number("to").is_err());
        for wrong in ["form=1", "from=1&from=2", "text=%", "text=%+1", "text=%ff", "text=%zz"] {
            assert!(Query::of(Some(wrong), &["text", "from"]).is_err(), "{wrong}");
        }
        for wrong in [
            "from=-1",
            "from=1.5",
            "from=+1",
            "from=9007199254740993",
            "from=99999999999999999999",
        ] {
            let query = Query::of(Some(wrong), &["from"]).unwrap();
            assert!(query.number("from").is_err(), "{wrong}");
        }
    }
}
