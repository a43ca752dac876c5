//! `POST /api/v1/messages`: one message, or many.

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::reply::{Answer, Refusal, json, ok};
use super::request::{BODY_BYTES_MAX, Whole, kind, read, wrong_kind};
use crate::api::push::{KEEP, check, push_with};
use crate::app::args::explain;
use crate::app::args::item::Written;
use crate::app::args::json::Object;
use crate::app::lab::ledger::hash_of;
use crate::app::otel::Traces;
use crate::app::output::found::FoundView;
use crate::engine::{Engine, Found, Item, KEY_BYTES_MAX, Receipt};
use crate::error::Error;
use crate::message::Headers;
use crate::settings::Settings;

/// The most messages of one request. What they need in memory is bounded with them.
const MESSAGES_MAX: usize = 10_000;
/// Makes a request that is sent again one that changes nothing.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Begins the keys of requests: no key of a message does by chance.
const OF_REQUEST: char = '\u{1}';
/// Within a key, before and behind what the client gave.
const KEY_ROOM: usize = 32;

/// What a message got.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Pushed {
    number: u64,
    repeated: bool,
}

impl From<&Receipt> for Pushed {
    fn from(receipt: &Receipt) -> Self {
        Self {
            number: receipt.number,
            repeated: receipt.repeated,
        }
    }
}

#[derive(Serialize)]
struct All<'a> {
    messages: &'a [Pushed],
}

/// What is in so far, written down in the end, however that comes: also if the client has gone.
struct Noted<N: Fn(&str)> {
    messages: Vec<Pushed>,
    /// The store was asked for more, and has not said whether they are in.
    open: bool,
    note: N,
}

impl<N: Fn(&str)> Drop for Noted<N> {
    fn drop(&mut self) {
        let known = match &self.messages[..] {
            [] if !self.open => return,
            [] => "none that is known".to_string(),
            [only] => format!("message {}", only.number),
            [first, .., last] => {
                let count = self.messages.len();
                format!("{count} messages, {} to {}", first.number, last.number)
            }
        };
        let more = if self.open {
            ", and no answer says whether more"
        } else {
            ""
        };
        (self.note)(&format!("pushed: {known}{more}"));
    }
}

/// Where a message is, and how it ended.
pub(super) async fn find<E: Engine>(engine: &E, number: u64) -> Answer {
    let found = engine.find(number).await?;
    if found == Found::Unpublished {
        return Err(Refusal::missing(format!("no message has the number {number} yet")));
    }
    Ok(ok(&FoundView::of(number, &found)))
}

/// Either no message is taken for a fault of its own, or all are; where the store refuses in the midst of them, the answer says
/// which are in.
pub(super) async fn push<E: Engine>(
    engine: &E,
    settings: &Settings,
    traces: Option<&Traces>,
    request: Request<Incoming>,
    note: impl Fn(&str),
) -> Answer {
    let key = idempotency_key(request.headers())?;
    let trace = trace(request.headers());
    let kind = kind(&request);
    let Whole { bytes, room: _room } = match &*kind {
        "application/json" | "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
            read(BODY_BYTES_MAX, request).await?
        }
        _ => return Err(wrong_kind("the body must be application/json or application/x-ndjson")),
    };
    let is_list = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let written = match (&*kind, is_list) {
        ("application/json", false) => vec![one(&bytes).map_err(|error| Refusal::bad(format!("the body: {error}")))?],
        ("application/json", true) => {
            let Many(written) =
                serde_json::from_slice(&bytes).map_err(|error| Refusal::bad(format!("the body: {error}")))?;
            written
        }
        _ => lines(&bytes)?,
    };
    let is_one = kind == "application/json" && !is_list;
    let mut items = Vec::with_capacity(written.len());
    for (at, written) in written.into_iter().enumerate() {
        let item = written.item().and_then(|item| {
            let mut item = with_key(item, key.as_deref(), at);
            item.headers.follow(&trace);
            check(&item).map_err(|error| explain(&error))?;
            Ok(item)
        });
        let place = |why| {
            if is_one {
                why
            } else {
                format!("message {}: {why}", at + 1)
            }
        };
        items.push(item.map_err(|why| Refusal::bad(place(why)))?);
    }
    drop(bytes);
    let mut noted = Noted {
        messages: Vec::with_capacity(items.len()),
        open: true,
        note,
    };
    let mut spans = traces.map(|traces| traces.publish(&mut items));
    let told = |receipts: &[Receipt]| {
        if let Some(spans) = &mut spans {
            spans.told(receipts);
        }
        noted.messages.extend(receipts.iter().map(Pushed::from));
    };
    let pushed = push_with(engine, settings, KEEP, &items, told).await;
    let refused = matches!(
        pushed,
        Err(Error::Full { .. } | Error::Setting { .. } | Error::TooLarge { .. })
    );
    noted.open = pushed.is_err() && !refused;
    if let Err(error) = pushed {
        return Err(Refusal {
            messages: noted.messages.clone(),
            ..Refusal::from(error)
        });
    }
    Ok(match &noted.messages[..] {
        [only] if is_one => json(StatusCode::CREATED, only),
        messages => json(StatusCode::CREATED, &All { messages }),
    })
}

fn one(bytes: &[u8]) -> serde_json::Result<Written> {
    serde_json::from_slice(bytes).map(|Object(written)| written)
}

fn too_many() -> String {
    format!("more than {MESSAGES_MAX} messages; send them in several requests")
}

/// Lines of JSON; empty ones are none.
fn lines(bytes: &[u8]) -> Result<Vec<Written>, Refusal> {
    let is_written = |line: &&[u8]| !line.trim_ascii().is_empty();
    let mut written = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(is_written) {
        if written.len() == MESSAGES_MAX {
            return Err(Refusal::bad(too_many()));
        }
        let wrong = |error| Refusal::bad(format!("message {}: {error}", written.len() + 1));
        written.push(one(line).map_err(wrong)?);
    }
    Ok(written)
}

/// A list of objects.
struct Many(Vec<Written>);

impl<'de> Deserialize<'de> for Many {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Vec<Written>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut written = Vec::new();
                while let Some(Object(next)) = list.next_element()? {
                    if written.len() == MESSAGES_MAX {
                        return Err(serde::de::Error::custom(too_many()));
                    }
                    written.push(next);
                }
                Ok(written)
            }
        }
        reader.deserialize_seq(List).map(Self)
    }
}

/// The trace that the request belongs to: so do its messages, unless they name another.
fn trace(headers: &HeaderMap) -> Headers {
    let found = Headers::TRACE.into_iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name, value))
    });
    found.collect()
}

/// What the client calls this request, with or without quotation marks; an empty one is none.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    // Headers are bytes; as letters they are told apart.
    let text: String = value.as_bytes().iter().copied().map(char::from).collect();
    let text = text.trim();
    let text = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    // A byte of a header may need two in a key.
    let most = (KEY_BYTES_MAX - KEY_ROOM) / 2;
    if text.chars().count() > most || given.next().is_some() {
        return Err(Refusal::bad(format!(
            "Idempotency-Key must be one text of at most {most} characters"
        )));
    }
    Ok((!text.is_empty()).then(|| text.to_string()))
}

/// A key of its own counts before that of the request. The place and the payload are part of it: other messages under the same key
/// are other messages, and none is dropped.
fn with_key(item: Item, request: Option<&str>, at: usize) -> Item {
    match (&item.key, request) {
        (None, Some(request)) => {
            let print = hash_of(&item.payload);
            item.key(format!("{OF_REQUEST}{request}:{at}:{print:x}"))
        }
        _ => item,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_request_has_one_key_at_most() {
        let key = |values: &[&str]| idempotency_key(&headers(values)).map_err(|refusal| refusal.status);
        assert_eq!(key(&[]), Ok(None));
        assert_eq!(key(&["\"8e03 978e\""]), Ok(Some("8e03 978e".into())));
        assert_eq!(key(&["8e03"]), Ok(Some("8e03".into())));
        let long = "x".repeat(KEY_BYTES_MAX);
        assert_eq!((key(&[""]), key(&["\"\""])), (Ok(None), Ok(None)));
        for wrong in [&["a", "b"][..], &[&long]] {
            assert_eq!(key(wrong), Err(StatusCode::BAD_REQUEST), "{wrong:?}");
        }
    }

    #[test]
    fn a_list_is_of_objects_and_has_an_end() {
        let read = |text: &str| serde_json::from_str::<Many>(text).map(|Many(written)| written.len());
        assert_eq!(read(r#"[{"payload":1}, {"payload":"x"}]"#).unwrap(), 2);
        assert!(read(r#"[["x"]]"#).is_err() && read("{}").is_err());
        let of = |count: usize| format!("[{}]", vec![r#"{"payload":1}"#; count].join(","));
        assert_eq!(read(&of(MESSAGES_MAX)).unwrap(), MESSAGES_MAX);
        assert!(read(&of(MESSAGES_MAX + 1)).is_err());
        let lines = |text: &str| {
            lines(text.as_bytes())
                .map(|written| written.len())
                .map_err(|refusal| refusal.line)
        };
        assert_eq!(lines("{\"payload\":1}\r\n\n{\"payload\":2}\n"), Ok(2));
        assert!(lines("{\"payload\":1}\nx\n").unwrap_err().starts_with("message 2: "));
    }
}
