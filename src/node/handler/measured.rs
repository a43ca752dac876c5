//! How long messages waited, and how long their handling took.

use std::time::Duration;

use crate::engine::history::{Figures, Times, class};
use crate::node::meter::Meter;
use crate::settings::ms;

use super::stretch::Stretch;

/// What was measured since [`add_to`](Self::add_to) was last called.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// How long handling took. The sum is kept beside it, in nanoseconds.
    handle: Times,
    handle_ns: u64,
    wait: Times,
}

impl Measured {
    /// `count` messages took `took_ns` together. Several are told at once only if they take next to no time, hardly ever more
    /// together than the first class of times. If they did take more, one of them was held up: the others count as fast.
    pub(super) fn handled(&mut self, count: u32, took_ns: u64) {
        self.handle.counts[0] += u64::from(count) - 1;
        self.handle.counts[class(took_ns / 1000)] += 1;
        self.handle_ns = self.handle_ns.wrapping_add(took_ns);
    }

    /// How long the messages that a stretch started had waited. None for those that were tried before: they waited for
    /// something else than a slot.
    pub(super) fn waited(&mut self, stretch: &Stretch, meter: &Meter) -> Option<Duration> {
        let (1.., Some(published_ms)) = (stretch.started, stretch.published_ms) else {
            return None;
        };
        // Less than a millisecond cannot be told from one.
        let waited = meter.since(published_ms, stretch.began).max(Duration::from_millis(1));
        let us = 1000 * ms(waited);
        self.wait.counts[class(us)] += stretch.started;
        self.wait.sum_us = self.wait.sum_us.saturating_add(us.saturating_mul(stretch.started));
        Some(waited)
    }

    /// Adds everything to `figures`, and begins anew.
    pub(super) fn add_to(&mut self, figures: &mut Figures) {
        self.handle.sum_us = self.handle_ns / 1000;
        self.handle_ns %= 1000;
        figures.handle.add(&std::mem::take(&mut self.handle));
        figures.wait.add(&std::mem::take(&mut self.wait));
    }
}
