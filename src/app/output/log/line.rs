//! One event as one line. Both formats have the same names for events and fields.

use std::fmt::Write;

use crate::app::output::{json, quote};
use crate::node::event::Event;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// A value of an event.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    Number(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// What lines format like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    Text { colour: bool },
    Json,
}

impl LineFormat {
    /// Appends a line.
    pub fn line(self, out: &mut String, stamp: &str, level: Level, event: &str, fields: &[(&'static str, Field<'_>)]) {
        match self {
            Self::Text { colour } => {
                let (on, off) = if colour { colours(level, event) } else { ("", "") };
                // Writing to a String cannot fail.
                let _ = write!(out, "{stamp} {on}{event}{off}");
                for (name, value) in fields {
                    let _ = write!(out, " {name}=");
                    match value {
                        Field::Number(number) => _ = write!(out, "{number}"),
                        Field::Text(text) => quote::value(out, text.as_bytes()),
                        Field::Bytes(bytes) => quote::value(out, bytes),
                    }
                }
            }
            Self::Json => {
                out.push('{');
                json::text(out, "ts", stamp);
                json::text(out, "level", level.name());
                json::text(out, "event", event);
                for (name, value) in fields {
                    match value {
                        Field::Number(number) => json::number(out, name, *number),
                        Field::Text(text) => json::text(out, name, text),
                        Field::Bytes(bytes) => json::bytes(out, name, bytes),
                    }
                }
                out.push('}');
            }
        }
        out.push('\n');
    }
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

pub fn level(event: &Event) -> Level {
    match event {
        Event::Error { .. } => Level::Error,
        Event::Deposed { .. }
        | Event::Retried { .. }
        | Event::Redelivered { .. }
        | Event::Reaped { .. }
        | Event::Rewound { .. }
        | Event::Replayed { .. }
        | Event::Untold { .. }
        | Event::Purged
        | Event::Trimmed { .. }
        | Event::Unhandled { .. }
        | Event::GivenUp { .. }
        | Event::Blocked { .. }
        | Event::Damaged { .. }
        | Event::Away { .. } => Level::Warn,
        _ => Level::Info,
    }
}

/// Adds fields, each under the name of the variable that holds its value.
macro_rules! add {
    ($to:ident: $($name:ident $kind:ident),+) => {
        $to.extend([$((stringify!($name), $kind($name))),+])
    };
}

/// The fields of an event, in the order in which they are logged.
pub fn fields<'a>(event: &'a Event, to: &mut Vec<(&'static str, Field<'a>)>) {
    use Field::{Bytes, Text};
    fn count<'a>(number: &(impl Copy + Into<u64>)) -> Field<'a> {
        Field::Number((*number).into())
    }
    match event {
        Event::Joined | Event::Purged | Event::Reconnected | Event::Resumed | Event::Left => {}
        Event::Relocated { server } => add!(to: server Text),
        Event::Elected { epoch, next_number } => add!(to: epoch count, next_number count),
        Event::Deposed { epoch } => to.extend(epoch.map(|epoch| ("epoch", Field::Number(epoch)))),
        Event::Published {
            epoch,
            number,
            payload,
            cause,
        } => {
            add!(to: epoch count, number count);
            to.extend(cause.map(|cause| ("cause", Field::Number(cause))));
            add!(to: payload Bytes);
        }
        Event::Started {
            epoch,
            number,
            deliveries,
            payload,
        }
        | Event::Done {
            epoch,
            number,
            deliveries,
            payload,
        }
        | Event::Redelivered {
            epoch,
            number,
            deliveries,
            payload,
        } => add!(to: epoch count, number count, deliveries count, payload Bytes),
        Event::Error {
            epoch,
            number,
            deliveries,
            payload,
            error,
        } => add!(to: epoch count, number count, deliveries count, payload Bytes, error Text),
        Event::Retried {
            epoch,
            number,
            deliveries,
            failures,
            payload,
            error,
            after_ms,
        } => add!(
            to: epoch count, number count, deliveries count, failures count, payload Bytes, error Text, after_ms count
        ),
        Event::Reaped {
            victim,
            redelivered,
            failed,
        } => add!(to: victim Text, redelivered count, failed count),
        Event::Trimmed { errors, first, last } => add!(to: errors count, first count, last count),
        Event::Paused { generator, handlers } => {
            let what = match (generator, handlers) {
                (true, true) => "both",
                (true, false) => "generator",
                (false, _) => "handlers",
            };
            add!(to: what Text);
        }
        Event::Rewound { next_number, lacked } => add!(to: next_number count, lacked count),
        Event::Unhandled { queued } => {
            let hint = "this copy generates and no other is alive to handle: start another, or give --also-handle";
            to.extend([("queued", count(queued)), ("hint", Text(hint))]);
        }
        Event::Stopping { in_hand } | Event::Resharded { in_hand } => add!(to: in_hand count),
        Event::GivenUp { messages } | Event::Untold { messages } => add!(to: messages count),
        Event::Replayed { messages, unknown } => add!(to: messages count, unknown count),
        Event::Blocked { why } => add!(to: why Text),
        Event::Damaged { what } => add!(to: what Text),
        Event::Away { reason } => add!(to: reason Text),
    }
}

/// Leaves so many bytes of the payload, and says how many there are if that is less; none at all are not told.
pub fn cut_payload(fields: &mut Vec<(&'static str, Field<'_>)>, bytes_max: usize) {
    let is_payload = |(name, _): &(&'static str, Field<'_>)| *name == "payload";
    let Some(place) = fields.iter().position(is_payload) else {
        return;
    };
    let Field::Bytes(payload) = fields[place].1 else { return };
    if bytes_max == 0 {
        fields.remove(place);
    } else if payload.len() > bytes_max {
        // Half a character would be shown as bytes.
        let end = (0..=bytes_max.min(3))
            .map(|back| bytes_max - back)
            .find(|end| payload[*end] & 0xc0 != 0x80)
            .unwrap_or(bytes_max);
        fields[place].1 = Field::Bytes(&payload[..end]);
        fields.insert(place + 1, ("payload_bytes", Field::Number(payload.len() as u64)));
    }
}

/// Only what is rare or wrong stands out.
fn colours(level: Level, event: &str) -> (&'static str, &'static str) {
    match (level, event) {
        (Level::Error, _) => ("\x1b[31m", "\x1b[0m"),
        (Level::Warn, _) => ("\x1b[33m", "\x1b[0m"),
        (Level::Info, "elected" | "rate") => ("\x1b[32m", "\x1b[0m"),
        (Level::Info, _) => ("", ""),
    }
}
