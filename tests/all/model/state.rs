//! What there is in the model: the store, the nodes, and what is on the wire between them.

/// Most ids that mean something at one time, messages, and calls that are on the wire.
pub const IDS: usize = 7;
pub const NUMBERS: usize = 3;
pub const WIRE: usize = 3;
/// Most publishes of one process that wait to be told.
pub const LINE: usize = 4;

/// Numbers of messages, a bit for each.
pub type Set = u8;

pub fn bit(number: u8) -> Set {
    1 << number
}

/// An id, as a place in the list of nodes.
pub type Id = u8;

/// The whole world between two steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub meta: Meta,
    pub nodes: [Node; IDS],
    /// Calls that were sent, whose answer will not be heard.
    pub wire: [Option<Call>; WIRE],
    /// The store as it was, to which it may yet go back.
    pub saved: Option<Meta>,
    /// What may still go wrong.
    pub faults: Faults,
    /// What only the properties look at.
    pub witness: Witness,
}

/// One queue, apart from what is kept by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Meta {
    pub generator: Option<Id>,
    pub epoch: u8,
    /// Whether the crown's lease runs.
    pub crown: bool,
    pub seq: u8,
    pub made: u8,
    pub queue: Set,
    pub again: Set,
    pub done: Set,
    pub failed: Set,
    /// Numbers that were raised over, and belong to no message.
    pub skipped: Set,
    pub attempts: [u8; NUMBERS],
    /// How often the effect of each message was applied.
    pub effects: [u8; NUMBERS],
    /// The epoch of the newest message.
    pub newest: u8,
    /// The epoch of each message that is not settled.
    pub epochs: [u8; NUMBERS],
    /// The generator's reign, for the witness.
    pub nth: u8,
    /// With replicas: numbers, from the first to below the second, that the generator may publish again.
    pub hole: Option<(u8, u8)>,
    /// With replicas: which message each number is. See `Reign::mark`.
    pub marks: [u8; NUMBERS],
}

/// One id: what the store keeps under it, and the process that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Node {
    pub record: Record,
    pub saved: Record,
    pub process: Process,
}

impl Node {
    /// Neither is there such a process, nor does the store know of it.
    pub fn is_nobody(&self) -> bool {
        self.process.life == Life::None && self.record == Record::default() && self.saved == Record::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Record {
    pub lease: Lease,
    pub dead: bool,
    pub lane: Option<Lane>,
    pub hand: Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Lease {
    /// No member.
    #[default]
    None,
    Runs,
    Ended,
}

/// A lane's last call, and what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lane {
    pub call: u8,
    pub given: Set,
}

/// What a process knows. One that was killed knows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Process {
    pub life: Life,
    pub seen: Seen,
    /// The last call of its lane that was answered, and the one that was sent and not answered.
    pub call: u8,
    pub unanswered: Option<Said>,
    pub holds: Set,
    pub reign: Option<Reign>,
    /// The nodes, a bit for each, of which it was told that they are to be given up.
    pub victims: u8,
    /// With replicas: what it has published and not told, the oldest first.
    pub untold: [Option<Untold>; LINE],
    /// Why it may be refused, for the witness.
    pub lapse: Lapse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Lapse {
    #[default]
    None,
    /// Its lease has ended since its last beat.
    Silent,
    /// It was given up because of that.
    GivenUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Life {
    #[default]
    None,
    Joining,
    Member,
    /// Refused: leaves, to come back under another id.
    Refused,
    /// Told to stop: leaves, and another process is started.
    Stopping,
}

/// The highest next number, and epoch, that a process has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seen {
    pub seq: u8,
    pub epoch: u8,
}

/// How far a generator has come in its reign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reign {
    pub epoch: u8,
    /// Counts reigns even where a store that went back gives an epoch a second time.
    pub nth: u8,
    pub seq: u8,
    pub made: u8,
}

/// Published by a reign that nobody remembers.
pub const SOMEBODY: u8 = u8::MAX;

impl Reign {
    /// The message that it publishes next, told from every other.
    pub fn mark(self) -> u8 {
        self.nth << 4 | self.made
    }
}

/// A publish that was answered. It is told when replicas have it, and published again if a failover took it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Untold {
    pub reign: Reign,
    /// The next number, as the store answered.
    pub behind: u8,
    /// Whether it was published under the id that the process has.
    pub own: bool,
}

/// What an exchange says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Said {
    pub settle: Option<(u8, Outcome)>,
    pub want: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Done,
    Error,
    Return,
}

/// A call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    Join { node: Id, seen: Seen },
    Beat { node: Id, seen: Seen },
    Publish { node: Id, reign: Reign, again: bool },
    Exchange { node: Id, call: u8, said: Said },
    Reap { node: Id, victim: Id },
    Leave { node: Id },
}

impl Call {
    /// Whom it names: who sent it, and whom it is about.
    pub fn names(self) -> [Id; 2] {
        match self {
            Self::Reap { node, victim } => [node, victim],
            Self::Join { node, .. }
            | Self::Beat { node, .. }
            | Self::Publish { node, .. }
            | Self::Exchange { node, .. }
            | Self::Leave { node } => [node, node],
        }
    }

    pub fn rename(&mut self, name: impl Fn(Id) -> Id) {
        match self {
            Self::Reap { node, victim } => (*node, *victim) = (name(*node), name(*victim)),
            Self::Join { node, .. }
            | Self::Beat { node, .. }
            | Self::Publish { node, .. }
            | Self::Exchange { node, .. }
            | Self::Leave { node } => *node = name(*node),
        }
    }
}

/// How many of each fault there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Faults {
    /// kill -9. Another process is started.
    pub kills: u8,
    /// Leases that end although their owner lives: it was stopped, or cut off.
    pub pauses: u8,
    /// Calls that are not answered. Each may be carried out at any time later: at once, then only its reply was lost;
    /// after later calls, which are repeats of it; or after everything, which is as good as never.
    pub unanswered: u8,
    /// Processes that are told to stop.
    pub stops: u8,
    /// Messages that are given back.
    pub returns: u8,
    /// Times that the store goes back to any earlier state.
    pub rewinds: u8,
}

/// What really happened, which no node and no store knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Witness {
    /// How many reigns there were.
    pub reigns: u8,
    /// Who published each number: see `Reign::mark`.
    pub published_by: [u8; NUMBERS],
    /// With replicas: the message that was told as published under each number; 0: none.
    pub told_of: [u8; NUMBERS],
    pub rewound: bool,
    /// The highest next number that the store was told of since it went back.
    pub told: u8,
    /// Broken promises, a bit for each.
    pub broken: u16,
}
