//! What an operator asks for: pause, handover, purge.

/// What is paused. Messages in hand are finished all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paused {
    /// Generators publish nothing; pushes go on.
    pub generator: bool,
    /// Handlers take nothing.
    pub handlers: bool,
}

impl Paused {
    /// As the scripts store it.
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
    /// The member that was asked for takes it with its next beat.
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
    /// This many nodes are alive. Nothing was removed.
    Alive(u64),
}

/// The answer to pausing a group, or letting it go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausedGroup {
    /// It is as was asked for; so many messages wait in its line.
    Ok { waiting: u64 },
    /// [`PAUSED_GROUPS_MAX`](crate::engine::PAUSED_GROUPS_MAX) are paused. Nothing was changed.
    TooMany,
}

/// What became of a request to cancel a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It is an error when it is taken next; if it is in work, its handler is told. It may have ended already, where the store cannot tell.
    Asked,
    /// It has ended.
    Ended,
    /// There is no such number yet.
    Unpublished,
    /// [`CANCELS_MAX`](crate::engine::CANCELS_MAX) cancels are pending. Nothing was changed for this one.
    TooMany,
}

/// What became of a request to cancel a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelledGroup {
    /// All of its messages that were published before this are cancelled; so many wait in its line.
    Asked { waiting: u64 },
    /// [`CANCELLED_GROUPS_MAX`](crate::engine::CANCELLED_GROUPS_MAX) groups are cancelled. Nothing was changed.
    TooMany,
}

/// The answer to a [`reshard_to`](crate::engine::Engine::reshard_to).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resharded {
    /// How many shards got new messages before, and get them now.
    pub before: usize,
    pub now: usize,
    /// How many there are in all: those beyond get no new messages, and run empty.
    pub in_all: usize,
}
