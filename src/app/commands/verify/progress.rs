//! The line on stderr while it runs.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use super::sampler::Snapshot;

/// Between two lines of progress: on a terminal, and elsewhere.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// How wide the bar is.
const BAR: usize = 24;
pub(super) struct Progress {
    messages: Option<u64>,
    length: Option<Duration>,
    begun: Instant,
    next: Instant,
    on_terminal: bool,
}

impl Progress {
    pub(super) fn new(messages: Option<u64>, length: Option<Duration>) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let begun = Instant::now();
        Self {
            messages,
            length,
            begun,
            next: begun + if on_terminal { SHOWN_EVERY } else { TOLD_EVERY },
            on_terminal,
        }
    }

    pub(super) fn show(&mut self, seen: Option<&Snapshot>, faults: u64) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + if self.on_terminal { SHOWN_EVERY } else { TOLD_EVERY };
        let sample = seen.map(|seen| seen.sample).unwrap_or_default();
        let (published, settled) = (sample.published, sample.settled());
        let seconds = self.begun.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss)]
        let (settled_f, wanted) = (settled as f64, self.messages.unwrap_or(1) as f64);
        let part = self
            .length
            .map_or(settled_f / wanted, |length| seconds / length.as_secs_f64());
        let (part, rate) = (part.clamp(0.0, 1.0), settled_f / seconds);
        let left = if part > 0.0 { seconds / part - seconds } else { 0.0 };
        let faults = match faults {
            0 => String::new(),
            faults => format!(", {faults} faults"),
        };
        let line = format!(
            "{} {:3.0} %  published {published}, settled {settled}, {rate:.0}/s{faults}, {left:.0} s left",
            bar(part),
            part * 100.0
        );
        self.say(&line);
    }

    /// The last word of the line.
    pub(super) fn end(&mut self, what: &str) {
        if self.on_terminal || self.begun.elapsed() > TOLD_EVERY {
            self.say(what);
        }
        if self.on_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn say(&self, line: &str) {
        // Nobody may be listening.
        let _ = if self.on_terminal {
            write!(std::io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
    }
}

fn bar(part: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let full = (part * BAR as f64).round() as usize;
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR.saturating_sub(full)))
}
