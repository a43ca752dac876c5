//! What nodes report of themselves, and what is kept of it: the last report of each member, sums over time in three rings of
//! fixed size, and the last reigns.

mod times;

use super::NodeId;

pub use times::{BOUNDS_US, CLASSES, Times, class};

/// How many reigns are remembered.
pub const REIGNS_MAX: usize = 100;
/// In a fleet of up to this size one node counts the whole queue every five seconds, in a larger one every minute: the more nodes,
/// the longer a count takes.
pub const LOOK_NODES_MAX: u64 = 500;

/// What one node did, or all of them, in a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub published: u64,
    pub done: u64,
    pub failed: u64,
    /// Failed, and put off to be tried again.
    pub retried: u64,
    /// How long handlers took for a message.
    pub handle: Times,
    /// How long messages waited from publishing to handling; measured in milliseconds.
    pub wait: Times,
}

impl Figures {
    /// How many numbers they are when they are stored.
    pub const LEN: usize = 6 + 2 * CLASSES;

    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    /// What was added since `before`.
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

/// How many messages were where, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    pub queued: u64,
    pub in_hand: u64,
    pub later: u64,
    pub errors: u64,
}

/// A node as it sees itself, and what it did since its last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub node: NodeId,
    /// One more for each report of this membership, from 1. The same again is not counted again.
    pub number: u64,
    pub live: Live,
    pub figures: Figures,
    /// Given if the answer to the last report asked for it.
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
        /// No report has said yet how full the queue is in this stretch of time: the node is to find out, and to say so with its
        /// next report.
        look: bool,
    },
    /// From someone who is no member. Nothing was written.
    Stranger,
}

/// How far history goes back.
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
    /// Multiplied by the length of a step: when it began, in milliseconds since 1970.
    pub index: u64,
    pub figures: Figures,
    /// How full the queue was, if a report of this step said so.
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
    /// How many messages generators had made until then.
    pub made: u64,
}

/// A reign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reign {
    pub epoch: u64,
    pub node: NodeId,
    pub began_ms: u64,
    /// The last beat of its generator.
    pub last_ms: u64,
    /// From then to the next reign; `None` for the last one.
    pub gap_ms: Option<u64>,
}

/// Sums over time, and the last reigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The store's time of day.
    pub now_ms: u64,
    pub step_ms: u64,
    /// The steps in which anything was reported, the oldest first.
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
