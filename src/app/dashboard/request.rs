//! Requests: what stands behind the question mark, and what is in the body.

use std::borrow::Cow;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::reply::Refusal;
use crate::app::args::value;
use crate::message::PAYLOAD_BYTES_MAX;

/// The largest payload, escaped or in base64, with something around it.
const BODY_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_MAX;
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(20);

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

/// What JSON readers count exactly up to.
pub(super) const NUMBER_MAX: u64 = 1 << 53;

/// `%41` is A, `+` is a space.
fn decode(text: &str) -> Result<Cow<'_, str>, Refusal> {
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
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        let line = "the body must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", line));
    }
    let large = || {
        let line = format!("the body has more than {BODY_BYTES_MAX} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", line)
    };
    if request.body().size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(large());
    }
    let read = tokio::time::timeout(BODY_TIME, Limited::new(request.into_body(), BODY_BYTES_MAX).collect());
    let bytes = match read.await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(large()),
        Ok(Err(_)) => return Err(Refusal::bad("the body was cut off")),
        Err(_) => {
            let line = "the body took too long";
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", line));
        }
    };
    // A list of values would do for an object, too, if it were not asked.
    let object: Map<String, Value> = fits(serde_json::from_slice(&bytes))?;
    fits(serde_json::from_value(whole(object.into())))
}

/// To JSON 17.0 is as whole as 17.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is whole and small"
            )]
            Some(float)
                if number.is_f64() && float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float) =>
            {
                (float as u64).into()
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, whole(value))).collect(),
        other => other,
    }
}

fn fits<T>(read: serde_json::Result<T>) -> Result<T, Refusal> {
    read.map_err(|error| Refusal::bad(format!("the body: {error}")))
}

/// Numbers that every JSON reader counts exactly.
pub(super) fn counted<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(reader)? {
        Some(number) if number > NUMBER_MAX => Err(D::Error::custom("a number must be at most 2^53")),
        number => Ok(number),
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
