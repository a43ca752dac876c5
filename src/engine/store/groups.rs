//! What is kept of groups.

use crate::engine::Join;
use crate::error::Result;
use crate::message::Pack;

/// How groups are served. What the last node that joined has set counts for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRules {
    /// How many messages of a group may be in flight at once.
    pub concurrency: u64,
    /// A message that is put off leaves its group, which goes on without it.
    pub skips_retries: bool,
    /// Of what a small take wants, groups get the odd one before the queue does; the next time it is the other way round.
    pub groups_first: bool,
}

impl Default for GroupRules {
    fn default() -> Self {
        Self {
            concurrency: 1,
            skips_retries: false,
            groups_first: false,
        }
    }
}

impl GroupRules {
    /// What a node that joins asks for.
    #[must_use]
    pub fn of_join(join: &Join) -> Self {
        Self {
            concurrency: u64::from(join.group_concurrency.max(1)),
            skips_retries: join.group_skip_retries,
            groups_first: false,
        }
    }

    /// As one number, as it is stored.
    #[must_use]
    pub fn number(self) -> u64 {
        4 * self.concurrency + 2 * u64::from(self.skips_retries) + u64::from(self.groups_first)
    }

    /// From what is stored.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self {
            concurrency: (number / 4).max(1),
            skips_retries: number / 2 % 2 == 1,
            groups_first: number % 2 == 1,
        }
    }
}

/// How a group stands. Kept as long as any of it is not as in the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// Messages that were taken from its line and have no outcome yet, wherever they are.
    pub in_flight: u64,
    /// Nothing more is taken from its line.
    pub paused: bool,
    /// It is among those whose turn it is.
    pub ready: bool,
}

impl Turn {
    /// As one number, as it is stored.
    #[must_use]
    pub fn number(self) -> u64 {
        4 * self.in_flight + 2 * u64::from(self.paused) + u64::from(self.ready)
    }

    /// From what is stored.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self {
            in_flight: number / 4,
            paused: number / 2 % 2 == 1,
            ready: number % 2 == 1,
        }
    }
}

/// Groups: the line of each, whose turn it is, and how many of each are in flight.
pub trait Groups {
    fn group_rules(&mut self) -> Result<GroupRules>;
    fn set_group_rules(&mut self, rules: GroupRules) -> Result<()>;

    fn turn(&mut self, group: &str) -> Result<Turn>;
    fn set_turn(&mut self, group: &str, turn: Turn) -> Result<()>;
    /// The groups that are paused, by name.
    fn paused_groups(&mut self) -> Result<Vec<String>>;

    /// Puts a message into the line of its group, at the place that its number gives it.
    fn enter_line(&mut self, group: &str, message: &Pack) -> Result<()>;
    fn first_in_line(&mut self, group: &str) -> Result<Option<Pack>>;
    fn leave_line(&mut self, group: &str, number: u64) -> Result<()>;
    /// How many wait in the line of a group.
    fn line_length(&mut self, group: &str) -> Result<u64>;
    /// How many wait in all lines.
    fn grouped_count(&mut self) -> Result<u64>;
    /// How many groups wait, and which are the longest, with their lengths: of two of one length, the one that comes last by name.
    fn longest_lines(&mut self, limit: usize) -> Result<(u64, Vec<(String, u64)>)>;

    /// The groups whose turn it is, in this order.
    fn pop_ready(&mut self) -> Result<Option<String>>;
    fn push_ready(&mut self, group: &str) -> Result<()>;
    /// Gives back what was popped.
    fn unpop_ready(&mut self, group: &str) -> Result<()>;
    fn ready_count(&mut self) -> Result<u64>;

    /// When a group that rests may have its next message taken, on the limit's clock.
    fn rest(&mut self, group: &str) -> Result<Option<u64>>;
    fn set_rest(&mut self, group: &str, until_us: u64) -> Result<()>;
    fn end_rest(&mut self, group: &str) -> Result<()>;
    /// Those that rest no longer then, the first ones first; of two at the same time by name.
    fn rested(&mut self, until_us: u64, limit: usize) -> Result<Vec<(String, u64)>>;
    /// When the first of all rests no longer.
    fn first_rest(&mut self) -> Result<Option<u64>>;
}
