//! Whether what this node publishes gets out.
//!
//! Beats have a connection of their own, since a beat must not wait behind a megabyte on a slow link. So beats may be answered
//! while no publish gets through: and a node that cannot publish must not keep the crown.

use std::time::Duration;

use tokio::time::Instant;

/// What is seen of publishes at each beat that is answered.
#[derive(Debug)]
pub(super) struct Outlet {
    /// How many bytes had moved when last looked at.
    moved: u64,
    /// For how long a publish has been on its way since then, and nothing has moved.
    still: Duration,
    /// When the last beat was answered.
    answered: Instant,
    /// When it was found that nothing gets out.
    blocked: Option<Instant>,
}

impl Outlet {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            moved: 0,
            still: Duration::ZERO,
            answered: now,
            blocked: None,
        }
    }

    /// A beat was answered. `moved` is told while a publish is on its way: how many bytes have moved so far.
    pub(super) fn look(&mut self, moved: Option<u64>, lease: Duration, now: Instant) {
        // While the store stands still, so does everything: of such a time only a part counts, as on the hive clock.
        let since = now.saturating_duration_since(self.answered).min(lease / 8);
        self.answered = now;
        match moved {
            Some(moved) if moved == self.moved => self.still += since,
            _ => (self.moved, self.still) = (moved.unwrap_or(self.moved), Duration::ZERO),
        }
        // Longer than it takes to send a packet again that was lost.
        if self.still >= lease / 2 {
            (self.still, self.blocked) = (Duration::ZERO, Some(now));
        }
    }

    /// Whether publishes get out, as far as is known. After one that did not, others have their turn for a lease.
    pub(super) fn is_open(&self, lease: Duration, now: Instant) -> bool {
        self.blocked.is_none_or(|at| now >= at + lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    /// Beats that are answered so many milliseconds after the one before, and what had moved by then.
    fn after(beats: &[(u64, Option<u64>)]) -> (Outlet, Instant) {
        let mut now = Instant::now();
        let mut outlet = Outlet::new(now);
        for (ms, moved) in beats {
            now += Duration::from_millis(*ms);
            outlet.look(*moved, LEASE, now);
        }
        (outlet, now)
    }

    #[test]
    fn a_publish_that_does_not_move_for_half_a_lease_closes_it_for_a_lease() {
        let mut beats = vec![(80, Some(7))];
        beats.extend([(250, Some(7)); 3]);
        let (outlet, now) = after(&beats);
        assert!(outlet.is_open(LEASE, now));
        beats.push((250, Some(7)));
        let (outlet, now) = after(&beats);
        assert!(!outlet.is_open(LEASE, now));
        assert!(!outlet.is_open(LEASE, now + LEASE - Duration::from_millis(1)));
        assert!(outlet.is_open(LEASE, now + LEASE));
    }

    #[test]
    fn what_moves_or_is_not_on_its_way_or_waits_with_the_whole_store_keeps_it_open() {
        let moving: Vec<_> = (1..20).map(|turn| (100, Some(turn))).collect();
        let idle = [(100, None); 20];
        let stalled = [
            (100, Some(3)),
            (5_000, Some(3)),
            (5_000, Some(3)),
            (80, Some(4)),
            (5_000, Some(4)),
        ];
        for beats in [&moving[..], &idle, &stalled] {
            let (outlet, now) = after(beats);
            assert!(outlet.is_open(LEASE, now), "{beats:?}");
        }
    }
}
