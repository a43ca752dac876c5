//! How fast messages may be taken: by the whole fleet, and of each group.

use std::fmt;
use std::str::FromStr;

/// So many messages in so many milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub messages: u32,
    pub per_ms: u32,
}

/// A second, a minute, an hour and a day, each with its letter.
const PERIODS: [(&str, u32); 4] = [("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Rate {
    /// The most messages of a rate.
    pub const MESSAGES_MAX: u32 = 1_000_000;
    /// The most messages per second of one group: its times are kept to the microsecond.
    pub const GROUP_MAX: u32 = 1000;

    /// Says what is wrong with it.
    fn wrong(self) -> Option<&'static str> {
        (self.messages == 0 || self.messages > Self::MESSAGES_MAX).then_some("must be 1 to 1000000 messages")
    }

    /// How far two messages are apart, in microseconds.
    pub(crate) fn apart_us(self) -> u64 {
        let (messages, per_us) = (u64::from(self.messages), u64::from(self.per_ms) * 1000);
        (per_us + messages / 2) / messages
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "must be a rate such as 500/s, 30/m, 1000/h or 5/d".to_string();
        let (messages, period) = text.split_once('/').ok_or_else(wrong)?;
        let (_, per_ms) = PERIODS
            .iter()
            .find(|(letter, _)| *letter == period.trim())
            .ok_or_else(wrong)?;
        let messages = messages.trim();
        if messages.is_empty() || !messages.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let rate = Self {
            messages: messages.parse().unwrap_or(u32::MAX),
            per_ms: *per_ms,
        };
        rate.wrong().map_or(Ok(rate), |why| Err(why.into()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PERIODS.iter().find(|(_, per_ms)| *per_ms == self.per_ms) {
            Some((letter, _)) => write!(f, "{}/{letter}", self.messages),
            None => write!(f, "{}/{}ms", self.messages, self.per_ms),
        }
    }
}

/// How fast messages may be taken. What is none is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// By the whole fleet.
    pub rate: Option<Rate>,
    /// How many of these may be taken at once after a time in which fewer were wanted; 0: as many as a tenth of a second brings, and one
    /// at least.
    pub burst: u32,
    /// Of each group.
    pub group: Option<Rate>,
}

impl Limits {
    /// Nothing is limited.
    pub const NONE: Self = Self {
        rate: None,
        burst: 0,
        group: None,
    };

    /// Says what is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        if let Some(why) = self.rate.and_then(Rate::wrong) {
            return Err(format!("the rate {why}"));
        }
        if self.burst > Rate::MESSAGES_MAX {
            return Err("the burst must be at most 1000000".into());
        }
        if self.burst > 0 && self.rate.is_none() {
            return Err("a burst needs a rate".into());
        }
        let per_second =
            |rate: Rate| u64::from(rate.messages) * 1000 > u64::from(Rate::GROUP_MAX) * u64::from(rate.per_ms);
        if let Some(why) = self.group.and_then(Rate::wrong) {
            return Err(format!("the rate of a group {why}"));
        }
        if self.group.is_some_and(per_second) {
            return Err("the rate of a group must be at most 1000/s".into());
        }
        Ok(())
    }

    /// The part of each of so many shards. A group is in one shard, and has its rate there.
    pub(crate) fn shared_by(self, shards: usize) -> Result<Self, String> {
        let mut part = self.with_burst();
        let count = u32::try_from(shards).unwrap_or(u32::MAX);
        if let Some(rate) = &mut part.rate {
            // Each shard has as many in a longer time: so the sum is exact.
            let per_ms = rate.per_ms.checked_mul(count);
            rate.per_ms = per_ms.ok_or_else(|| format!("{rate} is too little to be shared by {shards} shards"))?;
            part.burst = part.burst.div_ceil(count);
        }
        Ok(part)
    }

    /// Of the part that one of so many shards has, the whole.
    pub(crate) fn of_part(part: Self, shards: usize) -> Self {
        let count = u32::try_from(shards).unwrap_or(u32::MAX).max(1);
        let rate = part.rate.map(|rate| Rate {
            per_ms: (rate.per_ms / count).max(1),
            ..rate
        });
        Self {
            rate,
            burst: part.burst.saturating_mul(count),
            group: part.group,
        }
    }

    /// With the burst that counts.
    pub(crate) fn with_burst(mut self) -> Self {
        if let Some(rate) = self.rate.filter(|_| self.burst == 0) {
            self.burst = (rate.messages / (rate.per_ms / 100)).max(1);
        }
        self
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rate, self.group) {
            (None, None) => write!(f, "none"),
            (Some(rate), None) => write!(f, "{rate}, {} at once", self.burst),
            (None, Some(group)) => write!(f, "{group} of each group"),
            (Some(rate), Some(group)) => write!(f, "{rate}, {} at once; {group} of each group", self.burst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_a_limit_and_together_have_all_of_it() {
        let rate = |text: &str| text.parse::<Rate>().expect(text);
        let all = Limits {
            rate: Some(rate("500/s")),
            burst: 100,
            group: Some(rate("3/s")),
        };
        let part = all.shared_by(4).expect("a part");
        assert_eq!(
            (part.rate.map(|rate| (rate.messages, rate.per_ms)), part.burst),
            (Some((500, 4000)), 25)
        );
        assert_eq!((part.group, Limits::of_part(part, 4)), (all.group, all));
        assert_eq!(Limits::NONE.shared_by(256), Ok(Limits::NONE));
        let little = Limits {
            rate: Some(rate("1/d")),
            ..Limits::NONE
        };
        let refused = little.shared_by(256).expect_err("refused");
        assert_eq!(refused, "1/d is too little to be shared by 256 shards");
    }

    #[test]
    fn a_rate_is_read_as_it_is_shown() {
        for text in ["500/s", "30/m", "1000/h", "5/d", "1000000/s"] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
        for wrong in [
            "",
            "500",
            "500/",
            "/s",
            "0/s",
            "1000001/s",
            "-1/s",
            "5/w",
            "5 per s",
            "99999999999/s",
            "+5/s",
        ] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_that_cannot_be_kept_say_so() {
        let rate = |text: &str| Some(text.parse::<Rate>().expect("a rate"));
        let limits = |rate, burst, group| Limits { rate, burst, group };
        for kept in [
            Limits::NONE,
            limits(rate("500/s"), 0, None),
            limits(rate("500/s"), 1_000_000, rate("1000/s")),
            limits(None, 0, rate("60000/m")),
        ] {
            assert_eq!(kept.check(), Ok(()), "{kept}");
        }
        for wrong in [
            limits(None, 5, None),
            limits(rate("1/s"), 1_000_001, None),
            limits(None, 0, rate("1001/s")),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_tenth_of_a_second_may_come_at_once_and_one_message_at_least() {
        for (text, burst) in [("500/s", 50), ("3/s", 1), ("1/d", 1), ("60000/m", 100)] {
            let rate = Some(text.parse().expect("a rate"));
            assert_eq!(Limits { rate, ..Limits::NONE }.with_burst().burst, burst, "{text}");
        }
    }
}
