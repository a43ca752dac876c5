//! What nodes tell of themselves, and what is kept of it: the last report of each member, sums over time in three rings
//! of fixed size, and the last reigns.

use super::NodeId;

/// Upper bounds of the classes of a [`Times`], in microseconds: three a decade, from 10 µs to 100 s. What is longer falls
/// into one more class.
pub const BOUNDS_US: [u64; 22] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];
/// The classes of a [`Times`].
pub const CLASSES: usize = BOUNDS_US.len() + 1;
/// How many reigns are remembered.
pub const REIGNS_MAX: usize = 100;
/// In a fleet of up to this size someone looks at the whole queue every five seconds, in a larger one every minute: a look
/// takes longer the more nodes there are.
pub const LOOK_NODES_MAX: u64 = 500;

/// The class that a time belongs to.
#[must_use]
pub fn class(us: u64) -> usize {
    /// Where to begin for a number of so many bits: at most two bounds have the same.
    const BEGIN: [u8; 28] = {
        let (mut begin, mut bits) = ([0; 28], 0);
        while bits < 28 {
            // The least number of so many bits.
            let least = if bits == 0 { 0 } else { 1 << (bits - 1) };
            let mut at = 0;
            while at < BOUNDS_US.len() && BOUNDS_US[at] < least {
                at += 1;
            }
            #[expect(clippy::cast_possible_truncation, reason = "there are 22 of them")]
            {
                begin[bits] = at as u8;
            }
            bits += 1;
        }
        begin
    };
    let bits = (64 - us.leading_zeros()) as usize;
    let mut at = usize::from(BEGIN[bits.min(27)]);
    while at < BOUNDS_US.len() && BOUNDS_US[at] < us {
        at += 1;
    }
    at
}

/// How long something took, how often: a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub counts: [u64; CLASSES],
    pub sum_us: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            counts: [0; CLASSES],
            sum_us: 0,
        }
    }
}

impl Times {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that this share (0 to 1) of all stayed within, in microseconds: straight between the bounds of its class.
    /// None, if there were none. What is beyond the last bound is told as that bound.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * total as f64;
        let mut below = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            if count > 0 && (below + count) as f64 >= rank {
                let low = if at == 0 { 0 } else { BOUNDS_US[at - 1] };
                let high = BOUNDS_US.get(at).copied().unwrap_or(low);
                let part = ((rank - below as f64) / count as f64).clamp(0.0, 1.0);
                return Some(low + ((high - low) as f64 * part) as u64);
            }
            below += count;
        }
        BOUNDS_US.last().copied()
    }

    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    fn each(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = change(*mine, theirs);
        }
        self.sum_us = change(self.sum_us, other.sum_us);
    }
}

/// What a node did, or all of them, in some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub published: u64,
    pub done: u64,
    pub failed: u64,
    /// Failed, and put off to be tried again.
    pub retried: u64,
    /// What handlers took for a message.
    pub handle: Times,
    /// From publishing to the start of handling, as exact as milliseconds are.
    pub wait: Times,
}

impl Figures {
    /// How many numbers they are.
    pub const LEN: usize = 6 + 2 * CLASSES;

    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    /// What was added since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since.each(before, u64::saturating_sub);
        since
    }

    fn each(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        self.published = change(self.published, other.published);
        self.done = change(self.done, other.done);
        self.failed = change(self.failed, other.failed);
        self.retried = change(self.retried, other.retried);
        self.handle.each(&other.handle, change);
        self.wait.each(&other.wait, change);
    }

    /// All of them in a row, as they are stored.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        let heads = [
            self.published,
            self.done,
            self.failed,
            self.retried,
            self.handle.sum_us,
            self.wait.sum_us,
        ];
        heads.into_iter().chain(self.handle.counts).chain(self.wait.counts)
    }

    /// From such a row.
    pub(super) fn of<E>(mut next: impl FnMut() -> Result<u64, E>) -> Result<Self, E> {
        let mut figures = Self {
            published: next()?,
            done: next()?,
            failed: next()?,
            retried: next()?,
            ..Self::default()
        };
        figures.handle.sum_us = next()?;
        figures.wait.sum_us = next()?;
        for count in figures.handle.counts.iter_mut().chain(&mut figures.wait.counts) {
            *count = next()?;
        }
        Ok(figures)
    }
}

/// How much there was of each at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    pub queued: u64,
    pub in_hand: u64,
    pub later: u64,
    pub errors: u64,
}

/// What a node tells of itself, and what it did since it last did so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub node: NodeId,
    /// One more for each report of this membership, from 1. The same again is not counted again.
    pub number: u64,
    pub live: Live,
    pub figures: Figures,
    /// If the answer to the report before asked for a look.
    pub gauges: Option<Gauges>,
}

/// A node as it sees itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    pub generates: bool,
    /// When the process started, by its own clock.
    pub started_ms: u64,
    pub in_hand: u64,
    /// Messages settled per 1000 seconds, lately.
    pub rate_milli: u64,
    /// Since the process started, whatever its memberships. The same in the next three.
    pub published: u64,
    pub done: u64,
    pub failed: u64,
    pub retried: u64,
}

/// What a store keeps of a member's last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastReport {
    pub number: u64,
    /// By the store's time of day.
    pub time_ms: u64,
    pub live: Live,
}

/// The answer to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    Stored {
        /// Nobody has told yet how full the queue is in this stretch of time: please look, and tell.
        look: bool,
    },
    /// From someone who is no member. Nothing was written.
    Stranger,
}

/// A stretch of time that history tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// The last five minutes, in steps of five seconds.
    Minutes,
    /// The last hour, in steps of a minute.
    Hour,
    /// The last day, in steps of a quarter of an hour.
    Day,
}

impl Range {
    pub const ALL: [Self; 3] = [Self::Minutes, Self::Hour, Self::Day];

    /// The length of a step.
    #[must_use]
    pub fn step_ms(self) -> u64 {
        match self {
            Self::Minutes => 5_000,
            Self::Hour => 60_000,
            Self::Day => 900_000,
        }
    }

    /// How many steps are kept: what is older is overwritten in its place.
    #[must_use]
    pub fn steps(self) -> u64 {
        match self {
            Self::Minutes | Self::Hour => 60,
            Self::Day => 96,
        }
    }

    /// Its number, as it is stored.
    pub(super) fn ring(self) -> u64 {
        self as u64
    }
}

/// What all nodes together did in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Times the length of a step, this is when it began, in milliseconds since 1970.
    pub index: u64,
    pub figures: Figures,
    /// The last look in this step, if there was one.
    pub gauges: Option<Gauges>,
}

/// The beginning of a reign, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowned {
    pub epoch: u64,
    pub node: NodeId,
    pub time_ms: u64,
    /// The last beat of the reign before; 0, if there was none.
    pub before_ms: u64,
}

/// A reign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reign {
    pub epoch: u64,
    pub node: NodeId,
    pub began_ms: u64,
    /// The last beat of its generator.
    pub last_ms: u64,
    /// From there to the next reign; none for the last one.
    pub gap_ms: Option<u64>,
}

/// What was, by the store's time of day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub now_ms: u64,
    pub step_ms: u64,
    /// The steps in which anything was told, the oldest first.
    pub buckets: Vec<Bucket>,
    /// The oldest first.
    pub reigns: Vec<Reign>,
}

impl History {
    /// From what is stored: the slots of a ring in any order, the reigns with the newest first, and the last beat of a
    /// generator. What a clock that was set back left in the future is left out.
    pub(super) fn of(now_ms: u64, range: Range, mut slots: Vec<Bucket>, crowned: &[Crowned], ruled_ms: u64) -> Self {
        let now = now_ms / range.step_ms();
        slots.retain(|slot| slot.index <= now && slot.index + range.steps() > now);
        slots.sort_unstable_by_key(|slot| slot.index);
        let mut reigns: Vec<Reign> = Vec::with_capacity(crowned.len());
        for reign in crowned.iter().rev() {
            if let Some(before) = reigns.last_mut() {
                before.last_ms = reign.before_ms.max(before.began_ms);
                before.gap_ms = Some(reign.time_ms.saturating_sub(before.last_ms));
            }
            reigns.push(Reign {
                epoch: reign.epoch,
                node: reign.node.clone(),
                began_ms: reign.time_ms,
                last_ms: ruled_ms.max(reign.time_ms),
                gap_ms: None,
            });
        }
        Self {
            now_ms,
            step_ms: range.step_ms(),
            buckets: slots,
            reigns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_class_whose_bound_it_does_not_pass() {
        let slowly = |us| BOUNDS_US.iter().take_while(|bound| **bound < us).count();
        for bound in BOUNDS_US {
            for us in [bound - 1, bound, bound + 1, bound * 3 / 2] {
                assert_eq!(class(us), slowly(us), "{us}");
            }
        }
        for us in (0..64).map(|bits| 1u64 << bits).chain([0, u64::MAX]) {
            assert_eq!(class(us), slowly(us), "{us}");
        }
    }

    #[test]
    fn quantiles_lie_within_the_class_that_they_fall_into() {
        let mut times = Times::default();
        assert_eq!(times.quantile_us(0.5), None);
        times.counts[class(300)] = 98;
        times.counts[class(1_500_000)] = 2;
        assert!((200..=500).contains(&times.quantile_us(0.5).unwrap()));
        assert!((1_000_000..=2_000_000).contains(&times.quantile_us(0.99).unwrap()));
        let mut long = Times::default();
        long.counts[CLASSES - 1] = 1;
        assert_eq!(long.quantile_us(0.5), Some(100_000_000));
    }

    #[test]
    fn what_was_added_since_is_told() {
        let figures = |done| Figures {
            done,
            ..Figures::default()
        };
        let mut before = figures(3);
        before.handle.counts[2] = 3;
        let mut now = before.clone();
        let mut more = figures(2);
        more.handle.counts[4] = 2;
        now.add(&more);
        assert_eq!(now.since(&before), more);
        assert_eq!(now.numbers().count(), Figures::LEN);
        let mut numbers = now.numbers();
        let read = Figures::of(|| numbers.next().ok_or("cut off"));
        assert_eq!(read, Ok(now.clone()));
    }
}
