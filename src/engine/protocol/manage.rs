//! What an operator asks for: pause, handover, purge.

/// What stands still for the time being. What is in hand is finished all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paused {
    /// Nothing is published but what is pushed.
    pub generator: bool,
    /// Nothing is taken.
    pub handlers: bool,
}

impl Paused {
    #[cfg(feature = "sqlite")]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generator) + 2 * u64::from(self.handlers)
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self {
            generator: bits % 2 == 1,
            handlers: bits / 2 % 2 == 1,
        }
    }
}

/// What became of a request to move the crown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// The next beat of whoever was asked for takes it.
    Asked,
    /// This node has it already.
    Reigns,
    /// There is no such member.
    Unknown,
}

/// The answer to a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purged {
    /// The queue was removed.
    Gone,
    /// So many nodes are alive. Nothing was removed.
    Alive(u64),
}
