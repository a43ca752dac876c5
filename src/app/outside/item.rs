//! What a generator prints: a payload as it is, or with `--generate-json` an object with payload, cursor and group.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::app::args::value::duration;
use crate::app::base64;
use crate::engine::CURSOR_BYTES_MAX;
use crate::message::{Headers, PAYLOAD_BYTES_MAX, wrong_group};
use crate::node::generate::Draft;

/// A message that a generator printed, and the cursor behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub payload: Vec<u8>,
    pub cursor: Option<Vec<u8>>,
    pub group: Option<String>,
    pub expires: Option<Duration>,
    pub headers: Headers,
}

impl Item {
    /// A line as it is. The next generator is told the last message that fits into a variable.
    pub(super) fn plain(payload: Vec<u8>) -> Self {
        let fits = payload.len() <= CURSOR_BYTES && !payload.contains(&0);
        let cursor = fits.then(|| payload.clone());
        Self {
            payload,
            cursor,
            group: None,
            expires: None,
            headers: Headers::new(),
        }
    }

    pub(super) fn fill(&self, draft: &mut Draft) {
        draft.payload.extend_from_slice(&self.payload);
        if let Some(cursor) = &self.cursor {
            draft.cursor.clone_from(cursor);
        }
        draft.group.clone_from(&self.group);
        draft.expires = self.expires;
        draft.headers.clone_from(&self.headers);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    payload: Option<Value>,
    payload_base64: Option<String>,
    cursor: Option<Value>,
    group: Option<String>,
    expires: Option<String>,
    headers: Option<BTreeMap<String, String>>,
}

/// The largest cursor of a command: `--cron` puts its own mark before it.
const CURSOR_BYTES: usize = CURSOR_BYTES_MAX - 64;

const FORM: &str =
    r#"with --generate-json a message is {"payload":…}, perhaps with "cursor", "group", "expires" and "headers""#;

/// A line, its end still on it.
pub(super) fn read(mut line: Vec<u8>, is_json: bool) -> Result<Item, String> {
    let item = if is_json {
        let object: Object = serde_json::from_slice(&line).map_err(|error| format!("{FORM} ({error})"))?;
        let payload = match (object.payload, object.payload_base64) {
            (Some(value), None) => text(value),
            (None, Some(text)) => base64::decode(&text).ok_or(FORM)?,
            _ => return Err(FORM.into()),
        };
        let (cursor, group) = (object.cursor.map(text), object.group);
        if let Some(why) = group.as_deref().and_then(wrong_group) {
            return Err(format!("\"group\" {why}"));
        }
        let expires = object.expires.as_deref().map(duration).transpose();
        let headers: Headers = object.headers.into_iter().flatten().collect();
        if let Some(why) = headers.wrong() {
            return Err(format!("\"headers\" {why}"));
        }
        Item {
            payload,
            cursor,
            group,
            expires: expires.map_err(|why| format!("\"expires\": {why}"))?,
            headers,
        }
    } else {
        if line.last() == Some(&b'\n') {
            line.pop();
            line.truncate(line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len));
        }
        Item::plain(line)
    };
    if item.payload.len() > PAYLOAD_BYTES_MAX {
        return Err(format!("a message has more than {PAYLOAD_BYTES_MAX} bytes"));
    }
    let cursor = item.cursor.as_deref().unwrap_or_default();
    if cursor.len() > CURSOR_BYTES {
        return Err(format!("a cursor has more than {CURSOR_BYTES} bytes"));
    }
    if cursor.contains(&0) {
        return Err("a cursor with a zero byte fits into no variable".into());
    }
    Ok(item)
}

/// A text is itself, everything else its JSON.
fn text(value: Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: &str, json: bool) -> Item {
        read(line.into(), json).unwrap()
    }

    #[test]
    fn a_line_is_a_payload_and_its_own_cursor() {
        for (line, payload) in [("a b\n", "a b"), ("a\r\n", "a"), ("\n", ""), ("a\rb", "a\rb"), ("", "")] {
            let item = item(line, false);
            assert_eq!(
                (&item.payload[..], item.cursor.as_deref()),
                (payload.as_bytes(), Some(payload.as_bytes()))
            );
        }
        for line in [&"x".repeat(CURSOR_BYTES + 1), "a\0b"] {
            assert_eq!(item(line, false).cursor, None, "it fits into no variable");
        }
    }

    #[test]
    fn an_object_has_payload_and_cursor_as_text_or_json() {
        let plain = item(r#"{"payload":"a\nb"}"#, true);
        assert_eq!((&plain.payload[..], plain.cursor), (&b"a\nb"[..], None));
        let grouped = item(r#"{"payload":"a","group":"tenant 7"}"#, true);
        assert_eq!(grouped.group.as_deref(), Some("tenant 7"));
        let full = item(r#"{"payload":"a","expires":"10m","headers":{"Trace":"7"}}"#, true);
        assert_eq!(
            (full.expires, full.headers.get("trace")),
            (Some(Duration::from_mins(10)), Some("7"))
        );
        let both = item(r#"{"cursor":17,"payload":{"b":[1],"a":null}}"#, true);
        assert_eq!(both.cursor.as_deref(), Some(&b"17"[..]));
        let payload: Value = serde_json::from_slice(&both.payload).unwrap();
        assert_eq!(payload, serde_json::json!({"b": [1], "a": null}));
        assert_eq!(
            item(r#"{"payload_base64":"//77","cursor":"x"}"#, true).payload,
            [0xff, 0xfe, 0xfb]
        );
        for wrong in [
            "",
            "a",
            "1",
            "{}",
            r#"{"payload":"a","payload_base64":"Zg=="}"#,
            r#"{"payload":"a","curser":1}"#,
            r#"{"payload":"a","group":""}"#,
            r#"{"payload":"a","group":7}"#,
            r#"{"payload":"a","expires":7}"#,
            r#"{"payload":"a","headers":{"a b":"7"}}"#,
        ] {
            assert!(read(wrong.into(), true).is_err(), "{wrong}");
        }
        let long = format!(r#"{{"payload":"a","cursor":"{}"}}"#, "x".repeat(CURSOR_BYTES + 1));
        assert!(read(long.into(), true).is_err());
        assert!(read(br#"{"payload":"a","cursor":"\u0000"}"#.to_vec(), true).is_err());
        assert!(read(vec![b'x'; PAYLOAD_BYTES_MAX + 1], false).is_err());
    }
}
