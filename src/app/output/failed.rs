//! A failed message as `get-errors` and `errors` print it, and as the API tells it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::time::utc;
use super::{json, quote};
use crate::app::base64;
use crate::engine::Failed;
use crate::node::event::escape;

/// How much of a payload and of an error a list has.
const START_BYTES: usize = 160;

/// The message first; everything on one line, which is read in one way whatever it contains.
pub fn text_line(out: &mut String, failed: &Failed) {
    quote::value(out, &failed.payload);
    // Writing to a String cannot fail.
    let _ = write!(out, " number={} deliveries={} error=", failed.number, failed.deliveries);
    quote::quoted(out, &failed.error);
    out.push_str(" node=");
    quote::value(out, failed.node.as_bytes());
    if let Some(group) = &failed.group {
        out.push_str(" group=");
        quote::value(out, group.as_bytes());
    }
    let _ = writeln!(out, " time={}", utc(failed.time_ms));
}

pub fn json_line(out: &mut String, failed: &Failed) {
    let mut line = String::from("{");
    json::number(&mut line, "number", failed.number);
    json::bytes(&mut line, "payload", &failed.payload);
    json::text(&mut line, "error", &String::from_utf8_lossy(&failed.error));
    json::number(&mut line, "deliveries", failed.deliveries.into());
    json::number(&mut line, "failures", failed.failures.into());
    json::text(&mut line, "node", &failed.node);
    if let Some(group) = &failed.group {
        json::text(&mut line, "group", group);
    }
    if failed.asked {
        line.push_str(",\"ask\":true");
    }
    if let Some(expires_ms) = failed.expires_ms {
        json::number(&mut line, "expires_ms", expires_ms);
    }
    if !failed.headers.is_empty() {
        let headers: BTreeMap<&str, &str> = failed.headers.iter().collect();
        let _ = write!(line, ",\"headers\":{}", json::for_terminal(&headers));
    }
    json::text(&mut line, "time", &utc(failed.time_ms));
    line.push_str("}\n");
    out.push_str(&line);
}

/// Many, as JSON or as text.
pub fn lines<'a>(all: impl IntoIterator<Item = &'a Failed>, json: bool) -> String {
    let write = if json { json_line } else { text_line };
    let mut out = String::new();
    for failed in all {
        write(&mut out, failed);
    }
    out
}

fn times(count: u16) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        count => format!("{count} times"),
    }
}

/// One in full, for people.
pub(in crate::app) fn describe(failed: &Failed) -> String {
    let group = failed.group.as_ref();
    let mut group = group.map_or_else(String::new, |group| {
        format!("group      {}\n", escape(group.as_bytes()))
    });
    for (name, value) in failed.headers.iter() {
        // Writing to a String cannot fail.
        let _ = writeln!(group, "header     {name}: {}", escape(value.as_bytes()));
    }
    format!(
        "number     {}\n{group}error      {}\nfailed     {}  on {}\npublished  {}  epoch {}\ndelivered  {}, failed before {}\npayload    {}\n",
        failed.number,
        escape(&failed.error),
        utc(failed.time_ms),
        escape(failed.node.as_bytes()),
        utc(failed.published_ms),
        failed.epoch,
        times(failed.deliveries),
        times(failed.failures),
        escape(&failed.payload),
    )
}

/// What a list and the full view of the API have in common.
#[derive(Serialize)]
struct About {
    number: u64,
    error: String,
    failed_ms: u64,
    published_ms: u64,
    node: String,
    epoch: u64,
    deliveries: u16,
    failures: u16,
    /// Present if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

impl About {
    fn new(failed: &Failed, error_bytes_max: usize) -> Self {
        Self {
            number: failed.number,
            error: start(&failed.error, error_bytes_max),
            failed_ms: failed.time_ms,
            published_ms: failed.published_ms,
            node: failed.node.clone(),
            epoch: failed.epoch,
            deliveries: failed.deliveries,
            failures: failed.failures,
            group: failed.group.clone(),
        }
    }
}

fn start(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}

/// A failed message in a list of the API.
#[derive(Serialize)]
pub(in crate::app) struct FailedRow {
    #[serde(flatten)]
    about: About,
    /// How the payload begins, as text.
    start: String,
    payload_bytes: usize,
}

impl From<&Failed> for FailedRow {
    fn from(failed: &Failed) -> Self {
        Self {
            about: About::new(failed, START_BYTES),
            start: start(&failed.payload, START_BYTES),
            payload_bytes: failed.payload.len(),
        }
    }
}

/// All that the API knows of one.
#[derive(Serialize)]
pub(in crate::app) struct FailedInFull {
    #[serde(flatten)]
    about: About,
    /// Present if the payload is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    payload_base64: String,
}

impl From<&Failed> for FailedInFull {
    fn from(failed: &Failed) -> Self {
        Self {
            about: About::new(failed, usize::MAX),
            payload: std::str::from_utf8(&failed.payload).ok().map(str::to_string),
            payload_base64: base64::encode(&failed.payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    #[test]
    fn no_failed_message_forges_a_field_of_its_line() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let mut bytes = || quote::hostile::bytes(&mut random);
            let failed = Failed {
                number: 7,
                deliveries: 2,
                failures: 0,
                epoch: 1,
                published_ms: 0,
                time_ms: 0,
                node: String::from_utf8_lossy(&bytes()).into_owned(),
                error: bytes(),
                group: None,
                asked: false,
                expires_ms: None,
                headers: Headers::new(),
                payload: bytes(),
            };
            let mut line = String::new();
            text_line(&mut line, &failed);
            let parts = quote::read::parts(line.strip_suffix('\n').unwrap());
            let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                names,
                ["", "number", "deliveries", "error", "node", "time"],
                "seed {seed}: {line}"
            );
            let read = (&parts[0].1, &parts[3].1, parts[4].1.as_slice());
            assert_eq!(
                read,
                (&failed.payload, &failed.error, failed.node.as_bytes()),
                "seed {seed}: {line}"
            );
        }
    }

    #[test]
    fn an_error_with_escapes_stays_on_one_harmless_line() {
        let failed = Failed {
            number: 7,
            deliveries: 2,
            failures: 0,
            epoch: 1,
            published_ms: 0,
            time_ms: 1_763_197_200_123,
            node: "n".into(),
            error: b"bad \"thing\"\x1b[2J\n".to_vec(),
            group: None,
            asked: false,
            expires_ms: None,
            headers: Headers::new(),
            payload: b"\x1b]0;x\x07\xff".to_vec(),
        };
        let mut text = String::new();
        text_line(&mut text, &failed);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.trim_end().chars().any(char::is_control), "{text}");
        assert!(text.ends_with("node=n time=2025-11-15T09:00:00.123Z\n"), "{text}");
        let mut line = String::new();
        json_line(&mut line, &failed);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["error"], "bad \"thing\"\u{1b}[2J\n");
        assert!(read.get("payload").is_none() && read["payload_base64"].is_string());
    }
}
