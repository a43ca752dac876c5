//! How far away the server is.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// How many calls are remembered: of a beat twice a second, those of four seconds.
const CALLS: usize = 8;

/// How long the last calls of a link took. The least of them tells the way; the others waited for something else as well.
#[derive(Debug, Default)]
pub(super) struct Trips {
    /// In microseconds; 0: none yet.
    took: [AtomicU32; CALLS],
    next: AtomicUsize,
}

impl Trips {
    pub(super) fn took(&self, time: Duration) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % CALLS;
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        self.took[at].store(micros, Ordering::Relaxed);
    }

    /// Zero, before the first.
    pub(super) fn least(&self) -> Duration {
        let all = self.took.iter().map(|took| took.load(Ordering::Relaxed));
        let least = all.filter(|took| *took > 0).min().unwrap_or(0);
        Duration::from_micros(least.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_last_calls_tells_the_way() {
        let (trips, ms) = (Trips::default(), Duration::from_millis);
        assert_eq!(trips.least(), Duration::ZERO);
        for took in [50, 900, 51, 70] {
            trips.took(ms(took));
        }
        assert_eq!(trips.least(), ms(50));
        for _ in 0..CALLS {
            trips.took(ms(200));
        }
        assert_eq!(trips.least(), ms(200), "it has become another way");
    }
}
