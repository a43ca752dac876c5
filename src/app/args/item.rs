//! A message to be pushed, as JSON: a line of `push --json`, a body of `POST /api/v1/messages`.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::json::counted;
use super::value::duration;
use crate::app::base64;
use crate::engine::Item;

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Any JSON: of a text its characters, of all else what stands there. None: it does not stand there; null is JSON, too.
    #[serde(default, deserialize_with = "there")]
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    key: Option<String>,
    group: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    /// Its outcome is kept.
    #[serde(default)]
    ask: bool,
    /// "10m".
    expires: Option<String>,
    #[serde(default, deserialize_with = "counted")]
    expires_ms: Option<u64>,
    /// "5s".
    delay: Option<String>,
    #[serde(default, deserialize_with = "counted")]
    delay_ms: Option<u64>,
    // What `errors export` writes besides: it can be pushed again as it is.
    #[serde(rename = "number")]
    _number: Option<IgnoredAny>,
    #[serde(rename = "error")]
    _error: Option<IgnoredAny>,
    #[serde(rename = "deliveries")]
    _deliveries: Option<IgnoredAny>,
    #[serde(rename = "failures")]
    _failures: Option<IgnoredAny>,
    #[serde(rename = "node")]
    _node: Option<IgnoredAny>,
    #[serde(rename = "time")]
    _time: Option<IgnoredAny>,
}

/// What a JSON value stands for: of a text its characters, of all else what stands there.
pub fn written(value: &RawValue) -> Result<Vec<u8>, String> {
    if value.get().starts_with('"') {
        let text: String = serde_json::from_str(value.get()).map_err(|error| error.to_string())?;
        return Ok(text.into_bytes());
    }
    Ok(value.get().as_bytes().to_vec())
}

/// None: it does not stand there; null is JSON, too.
pub fn there<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(value).map(Some)
}

impl Written {
    /// Says what is wrong.
    pub fn item(self) -> Result<Item, String> {
        let payload = match (self.payload, self.payload_base64) {
            (Some(value), None) => written(&value)?,
            // What some programs write for nothing.
            (payload, Some(text)) if payload.as_ref().is_none_or(|value| value.get() == "null") => {
                base64::decode(&text).ok_or("\"payload_base64\" is no base64")?
            }
            _ => return Err("needs either \"payload\" or \"payload_base64\"".into()),
        };
        let mut item = Item::new(payload);
        item.key = self.key;
        item.group = self.group;
        item.headers = self.headers.into_iter().flatten().collect();
        item.asked = self.ask;
        match (self.expires, self.expires_ms) {
            (Some(expires), None) => {
                item = item.expires(duration(&expires).map_err(|why| format!("\"expires\": {why}"))?);
            }
            (None, expires_ms) => item.expires_ms = expires_ms,
            _ => return Err("needs either \"expires\" or \"expires_ms\"".into()),
        }
        match (self.delay, self.delay_ms) {
            (Some(delay), None) => item = item.delay(duration(&delay).map_err(|why| format!("\"delay\": {why}"))?),
            (None, delay_ms) => item.delay_ms = delay_ms.unwrap_or(0),
            _ => return Err("needs either \"delay\" or \"delay_ms\"".into()),
        }
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_message_is_an_object_of_known_fields() {
        let read = |text: &str| {
            let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
            written.item()
        };
        assert_eq!(read(r#"{"payload":"a b"}"#), Ok(Item::new("a b")));
        assert_eq!(read(r#"{"payload":"\u00e9"}"#), Ok(Item::new("é")));
        assert_eq!(
            read(r#"{"payload": {"z":1, "a": 12345678901234567890.10} }"#),
            Ok(Item::new(r#"{"z":1, "a": 12345678901234567890.10}"#))
        );
        assert_eq!(read(r#"{"payload":17}"#), Ok(Item::new("17")));
        assert_eq!(read(r#"{"payload":null}"#), Ok(Item::new("null")));
        assert_eq!(
            read(r#"{"payload_base64":"/w==","payload":null}"#),
            Ok(Item::new(&b"\xff"[..]))
        );
        let whole = Item::new("x").key("k").delay(Duration::from_secs(5));
        assert_eq!(read(r#"{"payload":"x","key":"k","delay":"5s"}"#), Ok(whole.clone()));
        assert_eq!(read(r#"{"payload":"x","key":"k","delay_ms":5000.0}"#), Ok(whole));
        assert_eq!(read(r#"{"payload":"x","group":"g"}"#), Ok(Item::new("x").group("g")));
        let full = Item::new("x").expires(Duration::from_mins(10)).header("trace", "7");
        assert_eq!(
            read(r#"{"payload":"x","expires":"10m","headers":{"Trace":"7"}}"#),
            Ok(full.clone())
        );
        assert_eq!(
            read(r#"{"payload":"x","expires_ms":600000,"headers":{"trace":"7"}}"#),
            Ok(full)
        );
        assert_eq!(read(r#"{"payload":"x","ask":true}"#), Ok(Item::new("x").ask()));
        let exported = r#"{"number":7,"payload":"x","error":"no","deliveries":1,"failures":0,"node":"n","time":"t"}"#;
        assert_eq!(read(exported), Ok(Item::new("x")));
        for wrong in [
            "",
            "7",
            "{}",
            r#"{"payload_base64":null}"#,
            r#"{"payload":"x","payload_base64":"eA=="}"#,
            r#"{"payload_base64":"?"}"#,
            r#"{"payload":"x","delay":5}"#,
            r#"{"payload":"x","delay":"5"}"#,
            r#"{"payload":"x","delay":"5s","delay_ms":5}"#,
            r#"{"payload":"x","delay_ms":-1}"#,
            r#"{"payload":"x","key":7}"#,
            r#"{"payload":"x","group":7}"#,
            r#"{"payload":"x","ask":1}"#,
            r#"{"payload":"x","expires":7}"#,
            r#"{"payload":"x","expires":"7s","expires_ms":7}"#,
            r#"{"payload":"x","headers":{"a":7}}"#,
            r#"{"payload":"x","headers":["a"]}"#,
            r#"{"payload":"x","colour":7}"#,
            r#"{"payload":"x","payload":"y"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
