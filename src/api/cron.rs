//! Messages at the times that a cron pattern names.
//!
//! The time of the last tick is stored in the same step as its message, in front of the generator's own cursor. So a tick
//! is published once, whichever node dies when, and the next generator knows which ticks were missed.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::node::generate::{Draft, Election, Generate, Made, Next};

/// A clock that was set, or a machine that slept, is noticed after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A tick that is later than this counts as missed.
const LATE_MS: u64 = 10_000;
const MARK: &[u8] = b"cron ";

/// A cron pattern in a time zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

/// What becomes of ticks at which no node was running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missed {
    /// The latest of them is published at once.
    #[default]
    Once,
    /// They are skipped.
    Skip,
}

impl Cron {
    /// Five fields (minute, hour, day, month, weekday), or six with seconds in front, in the time zone of this name. Says
    /// what is wrong otherwise.
    pub fn new(pattern: &str, zone: &str) -> Result<Self, String> {
        let cron = croner::Cron::from_str(pattern).map_err(|error| {
            format!("'{pattern}' is no cron pattern: {error}; write '*/5 * * * *' for every five minutes")
        })?;
        let cron = Self {
            pattern: cron,
            zone: Self::zone(zone)?,
        };
        if cron.after(0).is_none() {
            return Err(format!("'{pattern}' names no time that ever comes"));
        }
        Ok(cron)
    }

    /// The same pattern in the time zone of this name.
    pub fn in_zone(self, name: &str) -> Result<Self, String> {
        let zone = Self::zone(name)?;
        Ok(Self { zone, ..self })
    }

    /// The time zone of this name, or what is wrong with it.
    pub fn zone(name: &str) -> Result<TimeZone, String> {
        TimeZone::get(name).map_err(|_| format!("'{name}' is no time zone: write UTC, or a name such as Europe/Berlin"))
    }

    fn at(&self, ms: u64) -> Option<Zoned> {
        let time = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }

    /// The first tick after this time, both in milliseconds since 1970.
    fn after(&self, ms: u64) -> Option<u64> {
        let next = self.pattern.find_next_occurrence(&self.at(ms)?, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond())
            .ok()
            .filter(|next| *next > ms)
    }

    /// The last tick until this time.
    fn until(&self, ms: u64) -> Option<u64> {
        let last = self.pattern.find_previous_occurrence(&self.at(ms)?, true).ok()?;
        u64::try_from(last.timestamp().as_millisecond()).ok()
    }

    /// The tick that is next, if the last one that was published or passed over is `last`.
    fn next(&self, last: Option<u64>, now: u64, missed: Missed) -> Option<u64> {
        let due = last.and_then(|last| self.after(last)).filter(|due| *due <= now);
        if due.is_none() {
            // The clock may have been set back: no tick twice.
            return self.after(now.max(last.unwrap_or(0)));
        }
        let latest = self.until(now)?;
        if missed == Missed::Skip && now - latest > LATE_MS {
            return self.after(now);
        }
        Some(latest)
    }
}

/// Asks a generator for a message at each tick. To be used with an interval of zero.
#[derive(Debug)]
pub struct Scheduled<G> {
    cron: Cron,
    missed: Missed,
    generate: G,
    /// A tick for which there was no message.
    passed: u64,
    /// The last tick that was asked for, and as which message of which reign: asked again, it is the same tick.
    asked: (u64, u64, u64),
}

impl<G> Scheduled<G> {
    /// Messages of `generate` at the times of `cron`.
    pub fn new(cron: Cron, missed: Missed, generate: G) -> Self {
        Self {
            cron,
            missed,
            generate,
            passed: 0,
            asked: (0, 0, 0),
        }
    }
}

impl<G: Generate> Generate for Scheduled<G> {
    fn elected(&mut self, election: &Election) {
        let (_, cursor) = split(&election.cursor);
        let cursor = election.cursor.slice_ref(cursor);
        self.generate.elected(&Election {
            cursor,
            ..election.clone()
        });
    }

    fn deposed(&mut self, confirmed: u64) {
        self.generate.deposed(confirmed);
    }

    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        // A tick waits for its time, and is published by itself.
        if next.others_wait {
            return Made::Nothing;
        }
        let (last, inner) = split(&draft.cursor);
        let last = last.max((self.passed > 0).then_some(self.passed));
        let now = now_ms();
        let again = (next.epoch, next.made) == (self.asked.0, self.asked.1) && last < Some(self.asked.2);
        let tick = if again {
            Some(self.asked.2)
        } else {
            self.cron.next(last, now, self.missed)
        };
        let Some(tick) = tick else {
            return Made::End;
        };
        sleep_until(tick).await;
        self.asked = (next.epoch, next.made, tick);
        let before = draft.cursor.clone();
        draft.cursor = inner.to_vec();
        let made = self.generate.generate(Next { due_ms: tick, ..next }, draft).await;
        if made == Made::Message {
            draft.cursor = join(tick, &draft.cursor);
        } else {
            draft.cursor = before;
            self.passed = tick;
        }
        made
    }
}

/// The last tick, and the cursor of the generator inside.
fn split(cursor: &[u8]) -> (Option<u64>, &[u8]) {
    let found = || {
        let rest = cursor.strip_prefix(MARK)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let tick = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        Some((tick, &rest[end + 1..]))
    };
    found().map_or((None, cursor), |(tick, inner)| (Some(tick), inner))
}

fn join(tick: u64, inner: &[u8]) -> Vec<u8> {
    let mut cursor = MARK.to_vec();
    cursor.extend(tick.to_string().bytes());
    cursor.push(b'\n');
    cursor.extend_from_slice(inner);
    cursor
}

/// The clock of this machine: a pattern names times of day, and a reign may last for months, in which a clock that is not
/// set again and again goes wrong. No guarantee depends on it: the last tick is in the store.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    crate::settings::ms(since)
}

/// Looks at the clock again and again, since a machine that sleeps does not count that time.
async fn sleep_until(then_ms: u64) {
    loop {
        let left = then_ms.saturating_sub(now_ms());
        if left == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(left).min(LOOK_AGAIN)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> u64 {
        let time: Timestamp = text.parse().unwrap();
        u64::try_from(time.as_millisecond()).unwrap()
    }

    fn cron(pattern: &str, zone: &str) -> Cron {
        Cron::new(pattern, zone).unwrap()
    }

    #[test]
    fn ticks_are_where_the_pattern_says_in_its_time_zone() {
        let five = cron("*/5 * * * *", "UTC");
        let now = ms("2026-03-28T11:58:30Z");
        assert_eq!(five.next(None, now, Missed::Once), Some(ms("2026-03-28T12:00:00Z")));
        let last = Some(ms("2026-03-28T11:55:00Z"));
        assert_eq!(five.next(last, now, Missed::Once), Some(ms("2026-03-28T12:00:00Z")));
        // The clocks go forward in the night: three o'clock is there, half past two is not.
        let berlin = cron("0 3 * * *", "Europe/Berlin");
        let last = Some(ms("2026-03-28T02:00:00Z"));
        assert_eq!(berlin.next(last, now, Missed::Once), Some(ms("2026-03-29T01:00:00Z")));
        let seconds = cron("*/10 * * * * *", "UTC");
        assert_eq!(seconds.next(None, now, Missed::Once), Some(now + 10_000));
    }

    #[test]
    fn missed_ticks_are_made_up_for_once_or_not_at_all() {
        let five = cron("*/5 * * * *", "UTC");
        let last = Some(ms("2026-03-28T10:00:00Z"));
        let now = ms("2026-03-28T11:58:30Z");
        assert_eq!(five.next(last, now, Missed::Once), Some(ms("2026-03-28T11:55:00Z")));
        assert_eq!(five.next(last, now, Missed::Skip), Some(ms("2026-03-28T12:00:00Z")));
        let just = ms("2026-03-28T11:55:03Z");
        assert_eq!(
            five.next(last, just, Missed::Skip),
            Some(ms("2026-03-28T11:55:00Z")),
            "late, not missed"
        );
        let back = ms("2026-03-28T09:00:00Z");
        assert_eq!(
            five.next(last, back, Missed::Once),
            Some(ms("2026-03-28T10:05:00Z")),
            "no tick twice"
        );
    }

    #[test]
    fn the_last_tick_stands_before_the_cursor_of_the_generator() {
        assert_eq!(split(&join(17, b"a\nb")), (Some(17), &b"a\nb"[..]));
        assert_eq!(split(&join(17, b"")), (Some(17), &b""[..]));
        for plain in [&b""[..], b"a", b"cron", b"cron x\na", b"cron 1"] {
            assert_eq!(split(plain), (None, plain));
        }
    }

    #[tokio::test]
    async fn a_tick_that_is_late_waits_for_its_turn_and_is_the_same_when_it_is_asked_for_again() {
        let mut scheduled = Scheduled::new(cron("* * * * * *", "UTC"), Missed::Once, |next: Next| {
            next.due_ms.to_string().into_bytes()
        });
        let ask = |others_wait| Next {
            number: 7,
            epoch: 1,
            made: 7,
            confirmed: 7,
            others_wait,
            due_ms: 0,
        };
        let last = join(now_ms() - 5_000, b"");
        let draft = || Draft {
            payload: Vec::new(),
            cursor: last.clone(),
        };
        let mut beside = draft();
        assert_eq!(scheduled.generate(ask(true), &mut beside).await, Made::Nothing);
        assert_eq!(beside.cursor, last, "no tick has passed");
        let (mut first, mut second) = (draft(), draft());
        assert_eq!(scheduled.generate(ask(false), &mut first).await, Made::Message);
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(scheduled.generate(ask(false), &mut second).await, Made::Message);
        assert_eq!((first.payload, first.cursor), (second.payload, second.cursor));
    }

    #[test]
    fn wrong_patterns_and_zones_are_named() {
        for (pattern, zone, word) in [
            ("every day", "UTC", "every day"),
            ("", "UTC", "cron pattern"),
            ("61 * * * *", "UTC", "61"),
            ("0 0 30 2 *", "UTC", "ever comes"),
            ("* * * * *", "Mars/Olympus", "Mars/Olympus"),
        ] {
            let said = Cron::new(pattern, zone).unwrap_err();
            assert!(said.contains(word) && !said.contains('\n'), "{said}");
        }
    }
}
