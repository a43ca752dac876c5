//! What is kept of messages that are cancelled.

use std::collections::BTreeMap;

use crate::engine::limits::{CANCEL_MS, CANCELLED_GROUPS_MAX, CANCELS_MAX};
use crate::message::{Cancels, Pack};

/// Numbers and groups that are cancelled, each with the time on the hive clock from which on it is forgotten once nothing can match it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    pub numbers: BTreeMap<u64, u64>,
    /// The last number of the group that is cancelled, and until when.
    pub groups: BTreeMap<String, (u64, u64)>,
    /// Messages of these groups that were requeued since, each with its group.
    pub spared: BTreeMap<u64, String>,
}

impl Kept {
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.groups.is_empty()
    }

    /// How many cancels are pending.
    pub(in crate::engine) fn count(&self) -> u64 {
        (self.numbers.len() + self.groups.len()) as u64
    }

    pub(in crate::engine) fn has_room(&self) -> bool {
        self.numbers.len() < CANCELS_MAX
    }

    pub(in crate::engine) fn has_room_for_group(&self) -> bool {
        self.groups.len() < CANCELLED_GROUPS_MAX
    }

    /// As nodes are told.
    pub(in crate::engine) fn told(&self) -> Cancels {
        Cancels {
            numbers: self.numbers.keys().copied().collect(),
            groups: self
                .groups
                .iter()
                .map(|(group, (last, _))| (group.clone(), *last))
                .collect(),
            spared: self.spared.keys().copied().collect(),
        }
    }

    /// A message has its outcome.
    pub(in crate::engine) fn ended(&mut self, number: u64) {
        self.numbers.remove(&number);
        self.spared.remove(&number);
    }

    /// A message that may be cancelled was put off for so long: what is kept for it must outlast that.
    pub(in crate::engine) fn put_off(&mut self, pack: &Pack, until: u64) {
        let until = until + CANCEL_MS;
        if let Some(kept) = self.numbers.get_mut(&pack.first()) {
            *kept = until.max(*kept);
        }
        if let Some((last, kept)) = pack.group().and_then(|group| self.groups.get_mut(group))
            && pack.first() <= *last
        {
            *kept = until.max(*kept);
        }
    }

    /// Where no group is cancelled, nothing has to be spared.
    pub(in crate::engine) fn tidy(&mut self) {
        if self.groups.is_empty() {
            self.spared.clear();
        }
    }
}
