//! When to come back to a queue with a limit.
//!
//! The store tells when there may be more. If all who wait came at that moment, most of them would come in vain: so whoever did stays away for
//! twice as long, and twice as long again. Whoever gets something comes as told.
//!
//! Far away several calls are on their way at once. The first of them that a limit cuts short tells how things stand; those that were made before
//! it was heard came in vain together, not one after the other, and what they brought says nothing about what is left.

use std::time::Duration;

use tokio::time::Instant;

/// Calls are not made more often than this for a limit: they bring more at once instead.
const LEAST: Duration = Duration::from_millis(10);
/// Nobody stays away for longer than this beyond what it was told.
const MORE_MAX: Duration = Duration::from_secs(1);
/// What is told for longer is asked for again: a bell may be lost.
const MOST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Patience {
    until: Option<Instant>,
    /// How often in a row it came in vain.
    vain: u32,
    /// How many words of a limit were heard.
    heard: u64,
}

impl Patience {
    /// What a take was told, whether it brought nothing, and how many words had been heard when it was made. False: a later word counts.
    pub(super) fn told(&mut self, wait_ms: Option<u64>, is_vain: bool, heard: u64) -> bool {
        let is_news = heard == self.heard;
        let Some(wait_ms) = wait_ms else {
            if is_news {
                (self.until, self.vain) = (None, 0);
            }
            return is_news;
        };
        if is_news {
            self.vain = if is_vain && wait_ms > 0 { self.vain + 1 } else { 0 };
            self.until = None;
            self.heard += 1;
        }
        // Of two words the longer one: by then there was something for both.
        let until = (wait_ms > 0).then(|| Instant::now() + pause(wait_ms, self.vain, fastrand::f64()));
        self.until = self.until.max(until);
        is_news
    }

    /// How many words of a limit were heard.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Until then there is no more.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// How long to wait for the bell.
    pub(super) fn at_most(&self, otherwise: Duration) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(otherwise, |left| left.min(otherwise))
    }
}

/// How long to stay away. Nobody who has come in vain only once has waited for others: that may be the end of its own last take.
fn pause(wait_ms: u64, vain: u32, chance: f64) -> Duration {
    let told = Duration::from_millis(wait_ms).clamp(LEAST, MOST);
    let doubled = told.saturating_mul((1 << vain.saturating_sub(1).min(16)) - 1);
    told + doubled.min(MORE_MAX).mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_in_vain_stays_away_for_longer() {
        let ms = |wait_ms, vain| pause(wait_ms, vain, 1.0).as_millis();
        assert_eq!([0, 1, 2, 3, 4].map(|vain| ms(100, vain)), [100, 100, 200, 400, 800]);
        assert_eq!(ms(1, 0), 10, "never more often than a hundred times a second");
        assert_eq!(ms(100, 1_000), 1_100, "at most a second longer");
        assert_eq!(ms(3_600_000, 0), 10_000, "a bell may be lost");
        assert_eq!(pause(100, 3, 0.0).as_millis(), 250, "not all at once");
    }

    #[test]
    fn whoever_gets_something_comes_as_told() {
        let mut patience = Patience::default();
        for heard in 0..5 {
            assert!(patience.told(Some(100), true, heard));
        }
        assert_eq!(patience.vain, 5);
        patience.told(Some(100), false, 5);
        assert_eq!(patience.vain, 0);
        patience.told(Some(0), true, 6);
        assert_eq!(patience.until(), None, "it calls at once");
        patience.told(None, true, 7);
        assert_eq!(patience.at_most(Duration::from_secs(2)), Duration::from_secs(2));
    }

    #[test]
    fn calls_that_were_on_their_way_together_came_in_vain_once() {
        let mut patience = Patience::default();
        let heard = patience.heard();
        assert!(patience.told(Some(50), true, heard));
        let first = patience.until();
        for _ in 0..3 {
            assert!(!patience.told(Some(80), true, heard));
        }
        assert_eq!(patience.vain, 1);
        assert!(patience.until() > first, "the longer of two words counts");
        let until = patience.until();
        assert!(
            !patience.told(None, false, heard),
            "it was made before anybody knew of the limit"
        );
        assert_eq!(patience.until(), until);
        assert!(patience.told(None, false, patience.heard()));
        assert_eq!(patience.until(), None);
    }
}
