//! Where the failed messages are.

use std::collections::BTreeMap;

use super::checks::{Glance, Shelf};
use super::world::Inner;
use crate::oracle::Call;

/// What readers of errors have for a lease.
pub const READER_LEASE_MS: u64 = 2000;

impl Inner {
    /// A failed message is among the errors, or in one reader's hand, until that reader has shown and confirmed it.
    pub fn errors_are_kept_until_they_are_shown(&mut self, call: &Call, before: &Glance) {
        let mut found: BTreeMap<u64, Shelf> = BTreeMap::new();
        let mut wrong = None;
        for number in self.state.errors.keys() {
            found.insert(*number, Shelf::Errors);
        }
        for (reader, (_, batch)) in &self.state.reading {
            for failed in batch {
                if found.insert(failed.number, Shelf::Reading(reader.clone())).is_some() {
                    wrong = Some(format!("error {} is in two places", failed.number));
                }
            }
        }
        if !self.state.readers.keys().eq(self.state.reading.keys()) {
            wrong = Some("a reader holds without a lease, or the other way round".into());
        }
        let oldest = self.state.errors.keys().next().copied();
        for (number, shelf) in &mut self.book.shelves {
            let gone = match shelf {
                Shelf::Errors | Shelf::Removed => Shelf::Removed,
                _ => Shelf::Confirmed,
            };
            let now = found.remove(number).unwrap_or(gone);
            let is_by = |reader: &String| matches!(call, Call::Collect(collect) if collect.reader == *reader);
            match (&*shelf, &now) {
                (a, b) if a == b => {}
                (Shelf::Errors, Shelf::Reading(reader)) if is_by(reader) => {}
                (Shelf::Errors, Shelf::Removed) => match call {
                    Call::Discard(numbers) if numbers.contains(number) => {}
                    // The oldest, and no more than have to go.
                    Call::Trim(keep)
                        if self.state.errors.len() as u64 >= *keep && oldest.is_none_or(|oldest| *number < oldest) =>
                    {
                        self.book.trimmed += 1;
                    }
                    _ => wrong = Some(format!("error {number} is removed by {call:?}")),
                },
                (Shelf::Reading(reader), Shelf::Confirmed) if is_by(reader) => {
                    let process = self.members.get(reader);
                    let shown = self.told.shown.get(number);
                    if !shown.is_some_and(|shown| shown.iter().any(|(by, _)| Some(by) == process)) {
                        wrong = Some(format!("error {number} is swallowed"));
                    }
                }
                (Shelf::Reading(reader), Shelf::Errors) => {
                    if let Call::Release(released, expired) = call
                        && released == reader
                    {
                        let holder = self.members.get(reader).map(|process| &self.processes[*process]);
                        let since = before.now.saturating_sub(READER_LEASE_MS * 3 / 2);
                        let innocent = holder.is_some_and(|holder| {
                            holder.is_calm(since) && holder.ended.is_none() && holder.node == *reader
                        });
                        if *expired && before.lease.is_some_and(|until| until > before.clock) {
                            wrong = Some(format!("{reader} is given up before its lease ends"));
                        }
                        if *expired && innocent && self.store_trouble < since && !self.rewound {
                            wrong = Some(format!("{reader} is given up although nothing has befallen it"));
                        }
                    } else {
                        wrong = Some(format!("error {number} is taken from {reader}"));
                    }
                }
                (from, to) => wrong = Some(format!("error {number} went from {from:?} to {to:?}")),
            }
            *shelf = now;
        }
        self.book.shelves.extend(found);
        let trimmed = self.state.meta.as_ref().map_or(0, |meta| meta.trimmed);
        if trimmed != self.book.trimmed {
            wrong = Some(format!(
                "{} errors were trimmed, the store says {trimmed}",
                self.book.trimmed
            ));
        }
        if let Some(wrong) = wrong {
            self.fail(&wrong);
        }
    }
}
