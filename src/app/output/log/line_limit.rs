//! When a person watches: lines while they can be read, a rate when they cannot.

use crate::node::event::Event;

/// More messages than this in a second cannot be read.
const LINES_MAX: u64 = 200;
const WINDOW_MS: u64 = 1000;

/// Per second.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rate {
    pub published: u64,
    pub done: u64,
    pub errors: u64,
}

/// Counts messages in windows of a second.
#[derive(Default)]
pub struct LineLimit {
    start_ms: u64,
    seen: u64,
    counts: Rate,
    flooded: bool,
}

impl LineLimit {
    pub fn new(now_ms: u64) -> Self {
        Self {
            start_ms: now_ms,
            ..Self::default()
        }
    }

    /// Counts a message, and says whether it gets a line of its own.
    pub fn admits(&mut self, event: &Event) -> bool {
        self.seen += 1;
        match event {
            Event::Published { .. } => self.counts.published += 1,
            Event::Done { .. } => self.counts.done += 1,
            Event::Error { .. } => self.counts.errors += 1,
            _ => {}
        }
        self.flooded |= self.seen > LINES_MAX;
        !self.flooded
    }

    /// Ends the window if it is over. During a flood it answers with the rate; a calm window ends the flood.
    pub fn turn(&mut self, now_ms: u64) -> Option<Rate> {
        // A clock that was set back begins a new window rather than waiting for the old time to return.
        let elapsed = now_ms.checked_sub(self.start_ms).unwrap_or(WINDOW_MS);
        if elapsed < WINDOW_MS {
            return None;
        }
        let per_second = |count: u64| count.saturating_mul(1000).div_ceil(elapsed);
        let rate = self.flooded.then(|| Rate {
            published: per_second(self.counts.published),
            done: per_second(self.counts.done),
            errors: per_second(self.counts.errors),
        });
        let flooded = self.flooded && per_second(self.seen) > LINES_MAX;
        *self = Self {
            flooded,
            ..Self::new(now_ms)
        };
        rate
    }
}
