//! What is kept of messages whose outcomes are asked for.

use crate::engine::Ending;
use crate::error::Result;

/// What is known of a message whose outcome is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It has not ended. It was put off until `due_ms`, by the time of day; 0: it never was.
    Waits {
        due_ms: u64,
    },
    Ended(Ending),
}

/// Where a message waits, as far as a look through the first of each place tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    Now,
    /// Put off until then, by the time of day.
    Until(u64),
    Nowhere,
    /// More waits than is looked through.
    Unseen,
}

/// Messages whose outcomes are asked for, and where any message waits.
pub trait Endings {
    fn asked(&mut self, number: u64) -> Result<Option<Asked>>;
    fn set_asked(&mut self, number: u64, asked: &Asked) -> Result<()>;
    fn forget_asked(&mut self, number: u64) -> Result<()>;
    /// Those that ended first, and when; of two that ended together, by number.
    fn first_endings(&mut self, limit: usize) -> Result<Vec<(u64, u64)>>;
    /// How many have ended.
    fn endings_count(&mut self) -> Result<u64>;
    /// Looks through [`FOUND_MAX`](crate::engine::FOUND_MAX) packs of each place, and finds the place of its number in a queue that is longer.
    fn waits(&mut self, number: u64) -> Result<Waits>;
}
