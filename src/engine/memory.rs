//! The queue in memory: no I/O, time passed in.
//!
//! [`State`] is the oracle: the other engines must match it, call for call and in every stored detail. Behind a lock ([`Local`])
//! it is the engine for tests that need no store.

mod endings;
mod groups;
mod local;
mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::history::{Bucket, Crowned, LastReport};
use super::store::{About, Asked, GroupRules, Lane, Meta, Replay, Turn};
use super::{Failed, NodeId, Receipt};
use crate::message::Pack;
use crate::settings::Names;

pub use local::Local;

/// Everything that is kept of a queue. Two states are equal if a store would hold the same for both.
///
/// The [rules](super::rules) are functions of a state and the time:
///
/// ```
/// use queenright::engine::memory::State;
/// use queenright::engine::rules;
/// use queenright::settings::Names;
///
/// let mut state = State::new("jobs", &Names::default());
/// assert!(rules::status(&mut state, 0).is_err(), "nobody has joined yet");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    pub queue_name: String,
    pub names: Names,
    pub meta: Option<Meta>,
    pub queue: VecDeque<Pack>,
    pub again: VecDeque<Pack>,
    /// Put off: by the time when each is due, and by number.
    pub later: BTreeMap<(u64, u64), Pack>,
    /// The lines of groups: by group and number.
    pub lines: BTreeMap<(String, u64), Pack>,
    /// The groups whose turn it is.
    pub ready: VecDeque<String>,
    /// How each group stands of which something is in flight, or that waits for its turn, or is paused.
    pub turns: BTreeMap<String, Turn>,
    pub group_rules: GroupRules,
    /// Groups that rest, and until when on the clock of the limit.
    pub resting: BTreeMap<String, u64>,
    /// What the last generator left for the next one.
    pub cursor: Vec<u8>,
    /// What was answered to keys and calls of pushes, and until when that is remembered.
    pub once: BTreeMap<String, (u64, Vec<Receipt>)>,
    /// Messages whose outcomes are asked for, and of those that ended, when.
    pub asked: BTreeMap<u64, Asked>,
    pub endings: BTreeSet<(u64, u64)>,
    /// Members and when their leases end, on the hive clock.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Deposed or departed, and still holding something.
    pub dead: VecDeque<NodeId>,
    pub taken: BTreeMap<NodeId, Taken>,
    pub errors: BTreeMap<u64, Failed>,
    pub readers: BTreeMap<String, u64>,
    /// What each reader is printing, and the call that gave it that.
    pub reading: BTreeMap<String, (u64, Vec<Failed>)>,
    /// The sums over time, by ring and slot.
    pub history: BTreeMap<(u64, u64), Bucket>,
    /// The last reigns, the newest first.
    pub reigns: VecDeque<Crowned>,
    pub bell: bool,
    pub crown_bell: bool,
    /// Nodes that show that they are there. A test lets one die by removing it.
    pub connected: Connected,
    /// What is remembered of removed queues.
    pub purged: (u64, Vec<String>),
    pub unheard: Vec<NodeId>,
    pub replay: Replay,
    /// What effects have written.
    pub stored: BTreeMap<String, Stored>,
    /// The guard that a test has taken out.
    #[cfg(feature = "mutants")]
    pub without: Option<String>,
}

/// Nodes that are seen to be there. No store keeps that: all are equal.
#[derive(Debug, Clone, Default)]
pub struct Connected(pub BTreeSet<NodeId>);

impl PartialEq for Connected {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Connected {}

/// What is kept of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    pub about: About,
    pub lanes: BTreeMap<u32, Lane>,
    pub pieces: BTreeMap<u64, Pack>,
    /// Its last report.
    pub report: Option<LastReport>,
}

/// What an effect has written under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    Value(Vec<u8>),
    Hash(BTreeMap<String, Vec<u8>>),
    List(Vec<Vec<u8>>),
}

impl State {
    /// No queue yet: the first join or push creates it.
    #[must_use]
    pub fn new(queue_name: &str, names: &Names) -> Self {
        Self {
            queue_name: queue_name.to_string(),
            names: names.clone(),
            ..Self::default()
        }
    }

    /// Every message without an outcome, as runs of numbers (first, count), sorted.
    #[must_use]
    pub fn unsettled(&self) -> Vec<(u64, u64)> {
        let held = self.taken.values().flat_map(|taken| taken.pieces.values());
        let packs = self
            .queue
            .iter()
            .chain(&self.again)
            .chain(self.later.values())
            .chain(self.lines.values())
            .chain(held);
        let mut runs: Vec<_> = packs.map(|pack| (pack.first(), pack.count() as u64)).collect();
        runs.sort_unstable();
        runs
    }
}
