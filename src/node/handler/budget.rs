//! How many bytes to take at once: no more than the link brings in a fraction of the lease.
//!
//! What is on its way to this node nobody works on, and what is finished here waits until it has come. So a take over a slow
//! link is small, and grows again where takes of that size come quickly.

use std::time::Duration;

use crate::engine::TAKE_BYTES_MAX;

/// The first take: 128 KB come within a quarter of a second at 4 Mbit/s.
const START: usize = 128 * 1024;
/// Less makes no difference on any link on which a node can live; one message comes in any case.
const LEAST: usize = 4 * 1024;
/// A take should come within this part of the lease.
const LEASE_PARTS: u32 = 8;
/// What does not arrive at all is tried with this part of it.
const LOST_PARTS: usize = 8;

#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    /// How long a take should need at most.
    soon: Duration,
    /// How long a call takes that brings next to nothing; none before the first.
    trip: Option<Duration>,
}

impl Budget {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            bytes: START,
            soon: lease / LEASE_PARTS,
            trip: None,
        }
    }

    pub(super) fn bytes(&self) -> u32 {
        u32::try_from(self.bytes).expect("at most a megabyte")
    }

    /// A call brought so many bytes in this time.
    pub(super) fn took(&mut self, bytes: usize, time: Duration) {
        let trip = self.trip.get_or_insert(time);
        // Far is not slow: what a small call takes is no matter of bytes.
        *trip = if bytes <= LEAST {
            (*trip * 7 + time) / 8
        } else {
            (*trip).min(time)
        };
        let time = time.saturating_sub(*trip);
        if time > self.soon {
            let within = bytes as u128 * self.soon.as_micros() / time.as_micros();
            // A small part of what might have come says little about the link.
            if bytes >= self.bytes / 4 {
                self.bytes = usize::try_from(within).map_or(self.bytes, |within| self.bytes.min(within).max(LEAST));
            }
        } else if time <= self.soon / 2 && bytes >= self.bytes / 2 {
            self.bytes = (self.bytes * 2).min(TAKE_BYTES_MAX);
        }
    }

    /// A call was not answered.
    pub(super) fn lost(&mut self) {
        self.bytes = (self.bytes / LOST_PARTS).max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken at once after a while on a link of this speed and round trip, where there is always more.
    fn on(bytes_per_s: u64, trip: Duration) -> usize {
        let mut budget = Budget::new(Duration::from_secs(2));
        budget.took(0, trip);
        for _ in 0..50 {
            let bytes = budget.bytes;
            budget.took(bytes, trip + time(bytes, bytes_per_s));
        }
        budget.bytes
    }

    fn time(bytes: usize, bytes_per_s: u64) -> Duration {
        Duration::from_micros(bytes as u64 * 1_000_000 / bytes_per_s)
    }

    #[test]
    fn a_take_comes_within_an_eighth_of_the_lease_however_slow_the_link() {
        for trip in [Duration::ZERO, Duration::from_millis(300)] {
            for bytes_per_s in [20_000, 100_000, 800_000, 2_000_000] {
                let bytes = on(bytes_per_s, trip);
                let time = time(bytes, bytes_per_s).as_millis();
                assert!((100..=260).contains(&time), "{bytes} at {bytes_per_s} B/s");
            }
            assert_eq!(on(1_000_000_000, trip), TAKE_BYTES_MAX, "{trip:?}");
            assert!(on(1_000, trip) <= 2 * LEAST, "{trip:?}");
        }
    }

    #[test]
    fn small_calls_that_were_late_say_nothing_about_the_link() {
        let mut budget = Budget::new(Duration::from_secs(2));
        for _ in 0..10 {
            budget.took(100, Duration::from_secs(3));
        }
        assert_eq!(budget.bytes, START);
    }

    #[test]
    fn what_does_not_arrive_is_tried_smaller_and_grows_again() {
        let mut budget = Budget::new(Duration::from_secs(2));
        budget.lost();
        assert_eq!(budget.bytes, START / 8);
        for _ in 0..9 {
            budget.lost();
        }
        assert_eq!(budget.bytes, LEAST);
        for _ in 0..8 {
            budget.took(budget.bytes, Duration::from_millis(1));
        }
        assert_eq!(budget.bytes, TAKE_BYTES_MAX);
    }
}
