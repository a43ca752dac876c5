//! Tells on stderr what happens: one line per event, as text for people or as JSON for programs.
//!
//! A batch of events is one write. On a terminal, a flood of messages becomes a `rate` line a second.

pub mod line;
mod line_limit;
mod stamp;

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::app::args::sources::LogFormat;
use crate::app::output::time::now_ms;
use crate::node::event::{Event, Observer};
use line::{Field, Level, LineFormat};
use line_limit::LineLimit;
use stamp::Stamp;

/// Milliseconds since 1970.
type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

pub struct Log {
    format: LineFormat,
    quiet: bool,
    starts: bool,
    /// More bytes of a payload are not told.
    payload_bytes_max: usize,
    clock: Clock,
    inner: Mutex<Inner>,
}

struct Inner {
    out: Box<dyn Write + Send>,
    /// Kept, so that a batch allocates nothing.
    buffer: String,
    stamp: Stamp,
    /// Only where a person watches.
    limit: Option<LineLimit>,
    /// The last node that logged something, for the `rate` line.
    node: String,
}

impl Log {
    /// To stderr. `no_color` is the variable `NO_COLOR`: colours are off when it is set and not empty.
    #[must_use]
    pub fn to_stderr(format: LogFormat, quiet: bool, no_color: Option<&str>) -> Self {
        let watched = format == LogFormat::Text && std::io::stderr().is_terminal();
        let format = match format {
            LogFormat::Json => LineFormat::Json,
            LogFormat::Text => LineFormat::Text {
                colour: watched && no_color.is_none_or(str::is_empty),
            },
        };
        Self::new(Box::new(std::io::stderr()), format, quiet, watched, Box::new(now_ms))
    }

    fn new(out: Box<dyn Write + Send>, format: LineFormat, quiet: bool, watched: bool, clock: Clock) -> Self {
        let limit = watched.then(|| LineLimit::new(clock()));
        Self {
            format,
            quiet,
            starts: false,
            payload_bytes_max: usize::MAX,
            clock,
            inner: Mutex::new(Inner {
                out,
                buffer: String::new(),
                stamp: Stamp::default(),
                limit,
                node: String::new(),
            }),
        }
    }

    /// Also tells what is started.
    #[must_use]
    pub fn with_starts(mut self, starts: bool) -> Self {
        self.starts = starts;
        self
    }

    /// Tells so many bytes of a payload at most.
    #[must_use]
    pub fn with_payloads_to(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// A warning that no node is behind.
    pub fn note(&self, text: &str) {
        self.say(true, "note", &[("message", text)]);
    }

    /// Something about the program itself, such as where it connects to.
    pub fn say(&self, warn: bool, event: &str, fields: &[(&'static str, &str)]) {
        let level = if warn { Level::Warn } else { Level::Info };
        let mut inner = self.lock();
        let Inner { buffer, stamp, .. } = &mut *inner;
        let fields: Vec<_> = fields.iter().map(|(name, text)| (*name, Field::Text(text))).collect();
        self.format
            .line(buffer, stamp.text((self.clock)()), level, event, &fields);
        inner.flush();
    }

    /// To be called about once a second, so that the last `rate` line of a flood does not wait for the next event.
    pub fn tick(&self) {
        let now = (self.clock)();
        let mut inner = self.lock();
        inner.rate(now, self.format);
        inner.flush();
    }

    /// A panic elsewhere while logging must not silence the log.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Log {
    fn wants_messages(&self) -> bool {
        !self.quiet
    }

    fn wants_starts(&self) -> bool {
        self.starts && !self.quiet
    }

    fn observe(&self, node: &str, events: &[Event]) {
        let now = (self.clock)();
        let mut inner = self.lock();
        inner.rate(now, self.format);
        if inner.node != node {
            inner.node = node.to_string();
        }
        let Inner {
            buffer, stamp, limit, ..
        } = &mut *inner;
        let stamp = stamp.text(now);
        let mut fields = Vec::with_capacity(8);
        for event in events {
            if matches!(event, Event::Started { .. }) && !self.starts {
                continue;
            }
            if event.is_per_message() {
                let shown = limit.as_mut().is_none_or(|limit| limit.admits(event));
                if self.quiet || !shown {
                    continue;
                }
            }
            fields.clear();
            fields.push(("node", Field::Text(node)));
            line::fields(event, &mut fields);
            line::cut_payload(&mut fields, self.payload_bytes_max);
            self.format
                .line(buffer, stamp, line::level(event), event.name(), &fields);
        }
        inner.flush();
    }
}

impl Inner {
    fn rate(&mut self, now: u64, format: LineFormat) {
        let Some(rate) = self.limit.as_mut().and_then(|limit| limit.turn(now)) else {
            return;
        };
        let fields = [
            ("node", Field::Text(&self.node)),
            ("published", Field::Number(rate.published)),
            ("done", Field::Number(rate.done)),
            ("errors", Field::Number(rate.errors)),
        ];
        format.line(&mut self.buffer, self.stamp.text(now), Level::Info, "rate", &fields);
    }

    /// A log that cannot be written must not stop the work.
    fn flush(&mut self) {
        if !self.buffer.is_empty() {
            let _ = self.out.write_all(self.buffer.as_bytes());
            let _ = self.out.flush();
            self.buffer.clear();
            // One huge payload should not be paid for ever after.
            self.buffer.shrink_to(1024 * 1024);
        }
    }
}

#[cfg(test)]
mod tests;
