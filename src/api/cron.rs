//! Messages at the times that a cron pattern names.
//!
//! The time of the last tick is stored in the same step as its message, in front of the generator's own cursor. So a tick
//! is published once, whichever node dies when, and the next generator knows which ticks were missed.
//!
//! Ticks go by the store's time of day ([`Next::due_ms`]), which is one for the whole fleet. A node's own clock may be wrong by
//! a day, and no other node would wait for a tick that such a node calls today's.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::node::generate::{Draft, Election, Generate, Made, Next};

/// The store's time is asked for again after this time: its clock may be set, and in a reign of months others go wrong.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A last tick that is further ahead of the store's time than this comes from a clock that was wrong. Less may be the difference
/// between the clocks of two servers: then no tick is published twice.
const AHEAD_MS: u64 = 60_000;
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

/// Told of a last tick that is ahead of the store's time, in one line.
type Told = Box<dyn FnMut(&str) + Send>;

/// Asks a generator for a message at each tick. To be used with an interval of zero.
pub struct Scheduled<G> {
    cron: Cron,
    missed: Missed,
    generate: G,
    /// A tick for which there was no message.
    passed: u64,
    /// The last tick that was asked for, and as which message of which reign: asked again, it is the same tick.
    asked: (u64, u64, u64),
    /// None, once it was told.
    tell: Option<Told>,
}

impl<G: fmt::Debug> fmt::Debug for Scheduled<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduled")
            .field("cron", &self.cron)
            .field("missed", &self.missed)
            .field("generate", &self.generate)
            .finish_non_exhaustive()
    }
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
            tell: None,
        }
    }

    /// The same, and `tell` is called once if the last tick in the store is ahead of the store's time: such a tick is ignored.
    #[must_use]
    pub fn telling(self, tell: impl FnMut(&str) + Send + 'static) -> Self {
        Self {
            tell: Some(Box::new(tell)),
            ..self
        }
    }

    /// The last tick, unless a clock that was wrong has left it in the future: it would silence the whole fleet until then.
    fn last(&mut self, last: Option<u64>, now: u64) -> Option<u64> {
        let wrong = last?;
        if wrong <= now.saturating_add(AHEAD_MS) {
            return last;
        }
        if let Some(mut tell) = self.tell.take() {
            let (wrong, now) = (self.cron.at(wrong), self.cron.at(now));
            let shown =
                |time: Option<Zoned>| time.map_or_else(|| "the far future".into(), |time| time.timestamp().to_string());
            tell(&format!(
                "the last tick of --cron in the store is {}, but the store's time is {}: a clock was wrong; that tick is ignored",
                shown(wrong),
                shown(now)
            ));
        }
        None
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
        let now = next.due_ms;
        let (last, inner) = split(&draft.cursor);
        let last = self
            .last(last, now)
            .max(self.last((self.passed > 0).then_some(self.passed), now));
        let asked = self.last(Some(self.asked.2), now);
        let again = (next.epoch, next.made) == (self.asked.0, self.asked.1) && last < asked;
        let tick = if again {
            Some(self.asked.2)
        } else {
            self.cron.next(last, now, self.missed)
        };
        let Some(tick) = tick else {
            return Made::End;
        };
        let left = Duration::from_millis(tick.saturating_sub(now));
        if left > LOOK_AGAIN {
            // Asked again, this is told what time it is then.
            tokio::time::sleep(LOOK_AGAIN).await;
            return Made::Nothing;
        }
        tokio::time::sleep(left).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

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
        let now = ms("2026-03-28T11:58:30Z");
        let ask = |others_wait, due_ms| Next {
            number: 7,
            epoch: 1,
            made: 7,
            confirmed: 7,
            others_wait,
            due_ms,
        };
        let last = join(now - 5_000, b"");
        let draft = || Draft {
            payload: Vec::new(),
            cursor: last.clone(),
            group: None,
            expires: None,
            headers: Headers::new(),
        };
        let mut beside = draft();
        assert_eq!(scheduled.generate(ask(true, now), &mut beside).await, Made::Nothing);
        assert_eq!(beside.cursor, last, "no tick has passed");
        let (mut first, mut second) = (draft(), draft());
        assert_eq!(scheduled.generate(ask(false, now), &mut first).await, Made::Message);
        assert_eq!(
            scheduled.generate(ask(false, now + 1_100), &mut second).await,
            Made::Message
        );
        assert_eq!(
            first.payload,
            now.to_string().into_bytes(),
            "by the store's time, not this machine's"
        );
        assert_eq!((first.payload, first.cursor), (second.payload, second.cursor));
    }

    #[tokio::test(start_paused = true)]
    async fn a_last_tick_that_a_wrong_clock_left_in_the_future_silences_nobody_and_is_told_once() {
        let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let lines = told.clone();
        let mut scheduled = Scheduled::new(cron("0 * * * *", "UTC"), Missed::Once, |next: Next| {
            next.due_ms.to_string().into_bytes()
        })
        .telling(move |line| lines.lock().unwrap().push(line.to_string()));
        let ask = |due_ms| Next {
            number: 7,
            epoch: 1,
            made: 7,
            confirmed: 7,
            others_wait: false,
            due_ms,
        };
        let mut draft = Draft {
            payload: Vec::new(),
            cursor: join(ms("2026-03-29T11:00:00Z"), b"inner"),
            group: None,
            expires: None,
            headers: Headers::new(),
        };
        let before = draft.cursor.clone();
        // A tick that is far away is waited for a while at a time, with nothing changed.
        assert_eq!(
            scheduled.generate(ask(ms("2026-03-28T11:58:30Z")), &mut draft).await,
            Made::Nothing
        );
        assert_eq!(draft.cursor, before);
        assert_eq!(
            scheduled.generate(ask(ms("2026-03-28T11:59:58Z")), &mut draft).await,
            Made::Message
        );
        let noon = ms("2026-03-28T12:00:00Z");
        assert_eq!(draft.payload, noon.to_string().into_bytes());
        assert_eq!(draft.cursor, join(noon, b"inner"), "and what was wrong is gone");
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("2026-03-29T11:00:00Z") && told[0].contains("2026-03-28T11:58:30Z"),
            "{told:?}"
        );
    }

    #[test]
    fn a_last_tick_that_is_a_little_ahead_is_not_published_twice() {
        let mut scheduled = Scheduled::new(cron("* * * * *", "UTC"), Missed::Once, |_: Next| Vec::<u8>::new());
        let now = ms("2026-03-28T11:59:58Z");
        assert_eq!(scheduled.last(Some(now + 2_000), now), Some(now + 2_000));
        assert_eq!(scheduled.last(Some(now + AHEAD_MS + 1), now), None);
        assert_eq!(scheduled.last(None, now), None);
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
