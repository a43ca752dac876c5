//! What is kept of a limit.

use crate::engine::{Limits, Rate};

/// A limit, its clock, and its bucket. As it is stored: ten numbers with spaces between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// With the burst that counts.
    pub limits: Limits,
    /// The limit's own time: it goes forward as the wall clock does, and never back.
    pub clock_ms: u64,
    /// The wall clock when it was last looked at.
    pub seen_ms: u64,
    /// What is in the bucket: a message takes as much as its rate has milliseconds, and each millisecond brings as much as its rate has messages.
    pub level: u64,
    /// Whoever took last wanted more than was there.
    pub short: bool,
    /// Groups may be resting.
    pub resting: bool,
}

impl Gate {
    /// As it is stored.
    #[must_use]
    pub fn line(&self) -> String {
        let of = |rate: Option<Rate>| rate.map_or((0, 1), |rate| (rate.messages, rate.per_ms));
        let ((messages, per_ms), (group, group_ms)) = (of(self.limits.rate), of(self.limits.group));
        format!(
            "{messages} {per_ms} {} {group} {group_ms} {} {} {} {} {}",
            self.limits.burst,
            self.clock_ms,
            self.seen_ms,
            self.level,
            u8::from(self.short),
            u8::from(self.resting)
        )
    }

    /// From what is stored; none, if it is something else.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [
            messages,
            per_ms,
            burst,
            group,
            group_ms,
            clock_ms,
            seen_ms,
            level,
            short,
            resting,
        ] = numbers[..]
        else {
            return None;
        };
        let rate = |messages: u64, per_ms: u64| {
            let (messages, per_ms) = (u32::try_from(messages).ok()?, u32::try_from(per_ms).ok()?);
            Some(Rate { messages, per_ms }).filter(|rate| rate.per_ms > 0)
        };
        Some(Self {
            limits: Limits {
                rate: Some(rate(messages, per_ms)?).filter(|rate| rate.messages > 0),
                burst: u32::try_from(burst).ok()?,
                group: Some(rate(group, group_ms)?).filter(|rate| rate.messages > 0),
            },
            clock_ms,
            seen_ms,
            level,
            short: short == 1,
            resting: resting == 1,
        })
    }

    /// The limit's own time, in microseconds.
    pub(in crate::engine) fn clock_us(&self) -> u64 {
        self.clock_ms.saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_was_stored() {
        let rate = |text: &str| Some(text.parse().expect("a rate"));
        for limits in [
            Limits::NONE,
            Limits {
                rate: rate("500/s"),
                burst: 50,
                group: rate("7/m"),
            },
        ] {
            let gate = Gate {
                limits,
                clock_ms: 3,
                seen_ms: 1_700_000_000_000,
                level: 49_000,
                short: true,
                resting: false,
            };
            assert_eq!(Gate::parse(&gate.line()), Some(gate));
        }
        for wrong in [
            "",
            "1",
            "1 2 3 4 5 6 7 8 9",
            "1 0 3 4 5 6 7 8 9 0",
            "1 2 3 4 5 6 7 8 9 x",
        ] {
            assert_eq!(Gate::parse(wrong), None, "{wrong}");
        }
    }
}
