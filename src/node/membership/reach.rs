//! How far away the store is, as a generator's beats find it: its crown must outlast the way there and back.
//!
//! A beat is sent when the one before was answered and a pause is over. So beats reach the store as far apart as the pause and all
//! that was waited for meanwhile: the answer, and what was reaped or removed after it. The crown's lease grows by that. Beats keep
//! their own connection; nothing else is on it that they could wait behind.

use std::time::Duration;

use tokio::time::Instant;

use crate::settings::{Settings, ms};

/// Of the crown's lease, this part is there for what comes late: hiccups of a machine, and a link of a city's width.
const SPARE_PARTS: u32 = 8;
/// The crown's lease never grows by more than this part of a node's lease: a node that is silent for that is given up.
const LEASE_PARTS: u32 = 2;
/// What is late no more is forgotten by this part with each beat.
const FORGET_PARTS: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Reach {
    /// When the last beat was sent, and for how long this node meant to pause after it.
    sent: Option<(Instant, Duration)>,
    /// How much further apart than the pauses beats were lately.
    late: Duration,
}

impl Reach {
    /// A call to the store took so long: all that is known before the first beat.
    pub(super) fn took(&mut self, time: Duration) {
        self.late = self.late.max(time);
    }

    /// A beat is sent.
    pub(super) fn sends(&mut self, now: Instant) {
        if let Some((sent, paused)) = self.sent {
            let late = now.saturating_duration_since(sent).saturating_sub(paused);
            self.late = late.max(self.late * (FORGET_PARTS - 1) / FORGET_PARTS);
        }
        self.sent = Some((now, Duration::ZERO));
    }

    /// The node pauses, for so long at most.
    pub(super) fn pauses(&mut self, time: Duration) {
        if let Some((_, pause)) = &mut self.sent {
            *pause = time;
        }
    }

    /// The last beat failed: what follows it says nothing about the way.
    pub(super) fn fails(&mut self) {
        self.sent = None;
    }

    /// The crown's lease.
    pub(super) fn crown_ms(&self, settings: &Settings) -> u64 {
        let crown = Duration::from_millis(settings.crown_ms());
        ms(crown + self.longer(crown, settings.lease))
    }

    /// By how much it is longer than at a store that is near.
    fn longer(&self, crown: Duration, lease: Duration) -> Duration {
        self.late.saturating_sub(crown / SPARE_PARTS).min(lease / LEASE_PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROWN: Duration = Duration::from_millis(333);
    const LEASE: Duration = Duration::from_secs(2);
    const PAUSE: Duration = Duration::from_millis(83);

    /// How much longer the crown's lease is after beats that were answered so late, in milliseconds.
    fn longer(beats: &[u64]) -> u128 {
        let (mut reach, mut now) = (Reach::default(), Instant::now());
        for ms in beats {
            reach.sends(now);
            reach.pauses(PAUSE);
            now += Duration::from_millis(*ms) + PAUSE;
        }
        reach.sends(now);
        reach.longer(CROWN, LEASE).as_millis()
    }

    #[test]
    fn the_crown_outlasts_the_way_there_and_back_and_a_near_store_changes_nothing() {
        assert_eq!(longer(&[]), 0);
        assert_eq!(longer(&[1, 1, 30, 1]), 0, "a hiccup");
        for trip in [50, 300, 500, 900] {
            let longer = longer(&[trip; 20]);
            assert!(longer + 42 >= trip.into() && longer <= trip.into(), "{trip}: {longer}");
        }
        assert_eq!(longer(&[5000; 3]), 1000, "no longer than half a lease");
    }

    #[test]
    fn what_was_late_once_is_forgotten() {
        let after = |beats: usize| longer(&[&[500][..], &vec![1; beats]].concat());
        assert!(after(1) > 380 && after(8) < 200, "{} {}", after(1), after(8));
        assert_eq!(after(30), 0);
    }

    #[test]
    fn a_beat_that_failed_says_nothing_and_the_join_is_known_at_once() {
        let (mut reach, now) = (Reach::default(), Instant::now());
        reach.took(Duration::from_millis(300));
        assert!(reach.longer(CROWN, LEASE) > Duration::from_millis(250));
        reach.sends(now);
        reach.fails();
        reach.sends(now + 20 * LEASE);
        assert!(reach.longer(CROWN, LEASE) < Duration::from_millis(300));
    }
}
