//! One event as one line. Both formats have the same names for events and fields.

use std::fmt::Write;

use crate::app::output::json;
use crate::node::event::{Event, escape};

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
                        Field::Text(text) => quoted(out, text.as_bytes()),
                        Field::Bytes(bytes) => quoted(out, bytes),
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
        | Event::Trimmed { .. }
        | Event::Away { .. } => Level::Warn,
        _ => Level::Info,
    }
}

/// The fields of an event, in the order in which they are logged.
pub fn fields<'a>(event: &'a Event, to: &mut Vec<(&'static str, Field<'a>)>) {
    match event {
        Event::Joined | Event::Reconnected | Event::Resumed | Event::Left => {}
        Event::Elected { epoch, next_number } => {
            to.extend([
                ("epoch", Field::Number(*epoch)),
                ("next_number", Field::Number(*next_number)),
            ]);
        }
        Event::Deposed { epoch } => to.extend(epoch.map(|epoch| ("epoch", Field::Number(epoch)))),
        Event::Published { epoch, number, payload } => to.extend([
            ("epoch", Field::Number(*epoch)),
            ("number", Field::Number(*number)),
            ("payload", Field::Bytes(payload)),
        ]),
        Event::Started {
            epoch,
            number,
            attempt,
            payload,
        }
        | Event::Done {
            epoch,
            number,
            attempt,
            payload,
        }
        | Event::Redelivered {
            epoch,
            number,
            attempt,
            payload,
        }
        | Event::Error {
            epoch,
            number,
            attempt,
            payload,
            ..
        } => {
            to.extend([
                ("epoch", Field::Number(*epoch)),
                ("number", Field::Number(*number)),
                ("attempt", Field::Number(u64::from(*attempt))),
                ("payload", Field::Bytes(payload)),
            ]);
            if let Event::Error { error, .. } = event {
                to.push(("error", Field::Text(error)));
            }
        }
        Event::Retried {
            epoch,
            number,
            attempt,
            failures,
            payload,
            error,
            after_ms,
        } => to.extend([
            ("epoch", Field::Number(*epoch)),
            ("number", Field::Number(*number)),
            ("attempt", Field::Number(u64::from(*attempt))),
            ("failures", Field::Number(u64::from(*failures))),
            ("payload", Field::Bytes(payload)),
            ("error", Field::Text(error)),
            ("after_ms", Field::Number(*after_ms)),
        ]),
        Event::Reaped {
            victim,
            redelivered,
            failed,
        } => to.extend([
            ("victim", Field::Text(victim)),
            ("redelivered", Field::Number(*redelivered)),
            ("failed", Field::Number(*failed)),
        ]),
        Event::Trimmed { errors, first, last } => to.extend([
            ("errors", Field::Number(*errors)),
            ("first", Field::Number(*first)),
            ("last", Field::Number(*last)),
        ]),
        Event::Paused { generator, handlers } => {
            let what = match (generator, handlers) {
                (true, true) => "both",
                (true, false) => "generator",
                (false, _) => "handlers",
            };
            to.push(("what", Field::Text(what)));
        }
        Event::Rewound { next_number } => to.push(("next_number", Field::Number(*next_number))),
        Event::Away { reason } => to.push(("reason", Field::Text(reason))),
    }
}

/// A value that a reader can split at spaces: in quotes where it has to be.
fn quoted(out: &mut String, bytes: &[u8]) {
    let text = escape(bytes);
    if !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"' || c == '=') {
        out.push_str(&text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        if c == '"' {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
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
