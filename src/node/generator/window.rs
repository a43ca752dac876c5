//! How many publishes may be on their way at once.
//!
//! Beside the store one is enough: the next is made meanwhile. Far away the line would be idle for most of a round trip, so more
//! are sent before the first is answered: as many as come back in hardly more time than one alone. Over a link that carries few
//! bytes, one takes that long by itself, and there it comes down to one.

use std::time::Duration;

/// A store that answers sooner is near.
const FAR: Duration = Duration::from_millis(2);
/// The most calls on their way,
const CALLS_MAX: usize = 64;
/// and the most bytes, about: they are kept until they are answered.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// So many are sent before anything is known of the way, if they are small.
const CALLS_START: usize = 6;
const BYTES_START: usize = 512 * 1024;
/// For each that comes back quickly, so many more are sent: five times as many in each round trip.
const MORE: usize = 4;

#[derive(Debug)]
pub(super) struct Window {
    calls: usize,
    bytes: usize,
}

impl Window {
    /// A small call takes `trip` there and back.
    pub(super) fn new(trip: Duration) -> Self {
        Self {
            calls: if trip < FAR { 1 } else { CALLS_START },
            bytes: BYTES_START,
        }
    }

    /// Whether one more may be sent while so many are on their way, of so many bytes together.
    pub(super) fn has_room(&self, calls: usize, bytes: usize) -> bool {
        calls == 0 || calls < self.calls && bytes < self.bytes
    }

    /// A call was answered after this time; a small one takes `trip` there and back.
    pub(super) fn answered(&mut self, took: Duration, trip: Duration) {
        if trip < FAR {
            self.calls = 1;
        } else if took <= trip + trip / 2 {
            self.calls = (self.calls + MORE).min(CALLS_MAX);
            self.bytes = BYTES_MAX;
        } else if took > 2 * trip {
            self.calls = (self.calls - 1).max(1);
        }
    }

    /// Others pushed, and all that was on its way has to be made anew. If they push as often as that takes, nothing would ever be published.
    pub(super) fn moved(&mut self) {
        self.calls = (self.calls / 2).max(1);
    }

    /// A call was not answered.
    pub(super) fn failed(&mut self) {
        self.calls = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(50);

    /// How many are on their way after a while, where each call takes the line for so long.
    fn on_their_way(trip: Duration, each: Duration) -> usize {
        let mut window = Window::new(trip);
        for _ in 0..1000 {
            let queued = (u32::try_from(window.calls).expect("few") * each).max(trip + each);
            window.answered(queued, trip);
        }
        window.calls
    }

    #[test]
    fn far_away_as_many_are_sent_as_the_way_holds_and_nearby_one() {
        let each = Duration::from_millis(2);
        let (far, near) = (on_their_way(TRIP, each), on_their_way(Duration::from_millis(1), each));
        assert!((25..=51).contains(&far), "{far}");
        assert_eq!(near, 1);
        assert_eq!(on_their_way(TRIP, Duration::from_micros(100)), CALLS_MAX);
        assert_eq!(on_their_way(TRIP, 8 * TRIP), 1, "the line is slow, not only far");
    }

    #[test]
    fn bytes_are_bounded_and_one_may_always_be_sent() {
        let mut window = Window::new(TRIP);
        assert!(window.has_room(3, 1000) && !window.has_room(3, BYTES_START) && !window.has_room(CALLS_START, 0));
        for _ in 0..10 {
            window.answered(TRIP, TRIP);
        }
        assert!(window.has_room(5, 1000) && !window.has_room(5, BYTES_MAX));
        assert!(window.has_room(0, usize::MAX));
        assert!(!window.has_room(CALLS_START + 10 * MORE, 0));
        window.failed();
        assert!(!window.has_room(1, 0));
    }

    #[test]
    fn where_others_push_fewer_are_on_their_way_at_once() {
        let mut window = Window {
            calls: 12,
            ..Window::new(TRIP)
        };
        let calls = [(); 5].map(|()| {
            window.moved();
            window.calls
        });
        assert_eq!(calls, [6, 3, 1, 1, 1]);
    }
}
