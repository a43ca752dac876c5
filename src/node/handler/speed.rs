//! How fast messages are handled here, and how much to fetch ahead at that speed.

use std::time::Duration;

use super::stretch::nanos;
use crate::engine::LANES;
use crate::message::PACK_MESSAGES_MAX;

/// The most messages that one call asks for. It is high because a call costs about the same however many it brings.
pub(super) const TAKE_MESSAGES_MAX: usize = 4 * PACK_MESSAGES_MAX;
/// The same where the store is far away, and calls are few: what a megabyte holds of small ones.
pub(super) const FAR_MESSAGES_MAX: usize = 96 * PACK_MESSAGES_MAX;
/// A store that answers sooner is near.
const FAR: Duration = Duration::from_millis(2);
/// How much work is fetched ahead: no message waits longer than this behind others here while another handler may be idle.
const AHEAD: Duration = Duration::from_millis(5);
/// While messages line up in the store, no handler is idle. Then up to sixteen may wait here, for at most this part of the
/// time that they have waited there, so that not each of them costs a call.
const LATE_PART: u32 = 4;
const LATE_MAX: Duration = Duration::from_millis(100);
pub(super) const LATE_MESSAGES_MAX: usize = 16;
/// If no slot became free for this long, and for this many times as long as a message takes, the messages that wait are
/// given back.
const STUCK: Duration = Duration::from_millis(20);
const STUCK_MESSAGES: u64 = 4;
/// A message that takes this many times as long as usual may only have been kept from the processor.
const SLOW: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct Speed {
    /// How long one message takes in nanoseconds, as a moving average; none before the first. A whole number, since every
    /// stretch divides by it.
    message_ns: Option<u64>,
    /// How many messages in a row took far longer than that.
    slow: u32,
    /// How long the message that was started last had waited in the store.
    waited: Duration,
    /// The last take left messages in the store.
    behind: bool,
    /// How long a call takes there and back.
    trip: Duration,
}

impl Speed {
    /// Whether anything was handled yet.
    pub(super) fn is_known(&self) -> bool {
        self.message_ns.is_some()
    }

    /// `count` messages took `took_ns` together. Slow ones count for little at first, then for more and more: one must not
    /// change how many messages are asked for, but a few in a row do.
    pub(super) fn took(&mut self, count: u32, took_ns: u64) {
        let each = took_ns / u64::from(count.max(1));
        let mut average = self.message_ns.unwrap_or(each);
        let usual = average.max(100);
        self.slow = if each > usual.saturating_mul(SLOW) {
            self.slow + 1
        } else {
            0
        };
        let each = each.min(usual.saturating_mul(SLOW.saturating_pow(self.slow.max(1))));
        for _ in 0..count {
            average = average - average / 8 + each / 8;
        }
        self.message_ns = Some(average);
    }

    /// A message was started that had waited for `time`.
    pub(super) fn waited(&mut self, time: Duration) {
        self.waited = time;
    }

    /// Whether the last take emptied the queue.
    pub(super) fn took_all(&mut self, all: bool) {
        self.behind = !all;
    }

    /// A call to the store takes so long.
    pub(super) fn reaches(&mut self, trip: Duration) {
        self.trip = trip;
    }

    pub(super) fn is_far(&self) -> bool {
        self.trip >= FAR
    }

    /// The most messages that one call asks for, and settles.
    pub(super) fn most(&self) -> usize {
        if self.is_far() {
            FAR_MESSAGES_MAX
        } else {
            TAKE_MESSAGES_MAX
        }
    }

    /// What is done while a call is on its way, and as much again that it brings, since the next one is sent when it returns; and once
    /// more, since calls take longer than the way. Only where messages line up in the store: otherwise someone may be idle.
    fn way(&self) -> Duration {
        if self.behind { 3 * self.trip } else { Duration::ZERO }
    }

    /// How long a message may wait here behind others, and an outcome may wait for the next call.
    pub(super) fn patience(&self) -> Duration {
        if self.behind {
            (self.waited / LATE_PART).clamp(AHEAD, LATE_MAX)
        } else {
            AHEAD
        }
    }

    /// How many messages may wait here for one of `slots` slots.
    pub(super) fn ahead(&self, slots: usize) -> usize {
        let Some(each) = self.message_ns else {
            return 0;
        };
        let within = |time| {
            let ahead = nanos(time).saturating_mul(slots as u64) / each.max(1);
            usize::try_from(ahead).unwrap_or(usize::MAX)
        };
        // Messages that would be given back before they are started are not fetched.
        let is_quick = each.saturating_mul(STUCK_MESSAGES) <= nanos(LATE_MAX);
        let few = if is_quick { within(self.patience()) } else { 0 };
        let starts = 2 * each <= nanos(self.stuck_max());
        let way = if starts { self.way() } else { Duration::ZERO };
        let calls = if self.is_far() { LANES as usize } else { 2 };
        within(AHEAD + way)
            .max(few.min(LATE_MESSAGES_MAX))
            .min(calls * self.most())
    }

    /// What waits behind others for longer is given back, whatever they usually take. To give back takes a call, too.
    fn stuck_max(&self) -> Duration {
        LATE_MAX + self.way()
    }

    /// When no slot has become free for this long, none will soon.
    pub(super) fn stuck_after(&self) -> Duration {
        let usual = STUCK_MESSAGES.saturating_mul(self.message_ns.unwrap_or(0));
        Duration::from_nanos(usual).clamp(STUCK, self.stuck_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(each_ns: u64) -> Speed {
        let mut speed = Speed::default();
        speed.took(1, each_ns);
        speed
    }

    #[test]
    fn five_milliseconds_of_work_are_fetched_ahead() {
        assert_eq!(Speed::default().ahead(1000), 0, "nothing is known yet");
        assert_eq!(at(MS).ahead(1), 5);
        assert_eq!(at(10 * MS).ahead(1), 0);
        assert_eq!(at(10 * MS).ahead(1000), 500);
        assert_eq!(at(100).ahead(1), 2 * TAKE_MESSAGES_MAX);
    }

    #[test]
    fn far_away_three_round_trips_more_are_fetched_ahead_where_messages_line_up() {
        let far = |each, behind: bool| {
            let mut speed = at(each);
            speed.reaches(Duration::from_millis(50));
            speed.took_all(!behind);
            speed.ahead(1)
        };
        assert_eq!((far(MS, true), far(MS, false)), (155, 5));
        assert_eq!(far(100, true), LANES as usize * FAR_MESSAGES_MAX);
        assert_eq!(
            (far(120 * MS, true), far(130 * MS, true)),
            (1, 0),
            "it would be given back"
        );
    }

    #[test]
    fn a_few_more_are_fetched_where_messages_line_up_and_have_waited_for_long() {
        let mut speed = at(10 * MS);
        for (waited, ahead) in [(0, 0), (20, 0), (40, 1), (200, 5), (400, 10), (3_600_000, 10)] {
            speed.waited(Duration::from_millis(waited));
            speed.took_all(false);
            assert_eq!(speed.ahead(1), ahead, "after {waited} ms");
            speed.took_all(true);
            assert_eq!(speed.ahead(1), 0, "someone may be idle");
        }
        speed.took_all(false);
        let mut slow = at(30 * MS);
        slow.waited(Duration::from_hours(1));
        slow.took_all(false);
        assert_eq!(slow.ahead(1), 0, "it would be given back before it is started");
        assert_eq!(speed.ahead(2), LATE_MESSAGES_MAX);
        assert_eq!(speed.ahead(1000), 500, "many slots need no more than before");
    }

    #[test]
    fn one_slow_message_changes_little_and_five_in_a_row_are_the_new_speed() {
        let mut speed = at(1000);
        speed.took(1, 1000 * MS);
        assert!(speed.ahead(1) > 2000, "{}", speed.ahead(1));
        speed.took(20, 20_000);
        for _ in 0..5 {
            speed.took(1, 20 * MS);
        }
        assert!(speed.ahead(1) < 4, "{}", speed.ahead(1));
        speed.took(80, 80_000);
        assert!(speed.ahead(1) > 1000, "{}", speed.ahead(1));
    }

    #[test]
    fn what_is_stuck_takes_far_longer_than_a_message_does() {
        let stuck = |each| at(each).stuck_after();
        assert_eq!(stuck(100), STUCK);
        assert_eq!(stuck(10 * MS), Duration::from_millis(40));
        assert_eq!(stuck(5000 * MS), LATE_MAX);
    }
}
