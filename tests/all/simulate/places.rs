//! Where everything is: the messages, and those that failed.

use std::collections::BTreeMap;

use queenright::message::Pack;

use super::checks::{Glance, Place, Shelf, count_of};
use super::world::Inner;
use crate::oracle::Call;

/// What readers of errors have for a lease.
pub const READER_LEASE_MS: u64 = 2000;

impl Inner {
    /// In one place, and on the way from one to the next only by the one call that may move it.
    pub fn every_message_is_in_one_place(&mut self, call: Option<&Call>) {
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        let mut found = vec![(Place::Unborn, 0u16); usize::try_from(seq).expect("few")];
        let mut twice = None;
        let mut put = |pack: &Pack, place| {
            for number in pack.first()..pack.first() + pack.count() as u64 {
                let at = usize::try_from(number).expect("few");
                match found.get_mut(at) {
                    Some(free) if free.0 == Place::Unborn => *free = (place, pack.attempt()),
                    _ => twice = Some(number),
                }
            }
        };
        for pack in self.state.queue.iter().chain(&self.state.again) {
            put(pack, Place::Waiting);
        }
        for (node, taken) in self.state.taken.iter().filter(|(_, taken)| !taken.pieces.is_empty()) {
            let next = u32::try_from(self.book.holders.len()).expect("few");
            let holder = *self.book.holders.entry(node.clone()).or_insert(next);
            for pack in taken.pieces.values() {
                put(pack, Place::Held(holder));
            }
        }
        if let Some(number) = twice {
            return self.fail(&format!("message {number} is in two places, or has no number"));
        }
        let of = |node: &String| self.book.holders.get(node).copied();
        let (settler, reaped) = match call {
            Some(Call::Exchange(exchange)) => (of(&exchange.node), None),
            Some(Call::Reap(reap)) => (None, of(&reap.victim)),
            _ => (None, None),
        };
        let births = matches!(call, Some(Call::Publish(_)) | None);
        let mut wrong = None;
        let mut redelivered = 0;
        self.book
            .places
            .resize(found.len().max(self.book.places.len()), (Place::Unborn, 0));
        if self.book.places.len() > found.len() {
            return self.fail("the next number goes back");
        }
        for (number, (was, is)) in self.book.places.iter_mut().zip(&found).enumerate() {
            let error = self.state.errors.get(&(number as u64));
            let new = match (was.0, is.0) {
                (Place::Unborn, Place::Waiting) if births && is.1 == 1 => *is,
                (Place::Unborn, Place::Unborn) if matches!(call, Some(Call::Beat(_) | Call::Join(_))) => {
                    (Place::Skipped, 0)
                }
                (Place::Waiting, Place::Waiting) if was.1 == is.1 => *is,
                (Place::Waiting, Place::Held(holder)) if Some(holder) == settler && was.1 == is.1 => *is,
                (Place::Held(a), Place::Held(b)) if a == b && was.1 == is.1 => *is,
                (Place::Held(a), Place::Waiting) if Some(a) == settler && was.1 == is.1 => *is,
                (Place::Held(a), Place::Waiting) if Some(a) == reaped && was.1 + 1 == is.1 => {
                    redelivered += 1;
                    *is
                }
                (Place::Held(a), Place::Unborn) if Some(a) == settler || (Some(a) == reaped && error.is_some()) => {
                    let worn_out = error.is_some_and(|failed| failed.error.starts_with(b"delivered"));
                    let succeeds = self.plan.deed(number as u64).succeeds();
                    let right = match (error, worn_out) {
                        (_, true) => was.1 >= self.plan.settings.deliveries_max && Some(a) == reaped,
                        (Some(_), false) => !succeeds,
                        (None, false) => succeeds,
                    };
                    if Some(a) == settler {
                        self.book.settlers.insert(number as u64, a);
                    }
                    if !right {
                        wrong = Some((number, *was, *is));
                    }
                    (if error.is_some() { Place::Failed } else { Place::Done }, was.1)
                }
                (Place::Done | Place::Failed | Place::Skipped, Place::Unborn) => *was,
                _ => {
                    wrong = Some((number, *was, *is));
                    *is
                }
            };
            *was = new;
        }
        self.told.redelivered += redelivered;
        if let Some((number, was, is)) = wrong {
            self.fail(&format!("message {number} went from {was:?} to {is:?} by {call:?}"));
        }
        self.it_adds_up();
    }

    /// done + failed + queued + in hand = published.
    fn it_adds_up(&mut self) {
        let Some(meta) = &self.state.meta else { return };
        let lanes = || self.state.taken.values().flat_map(|taken| taken.lanes.values());
        let done = meta.done + lanes().map(|lane| lane.done).sum::<u64>();
        let failed = meta.failed + lanes().map(|lane| lane.failed).sum::<u64>();
        let count = |place: fn(&Place) -> bool| self.book.places.iter().filter(|(at, _)| place(at)).count() as u64;
        let counted = [
            (done, count(|place| *place == Place::Done), "done"),
            (failed, count(|place| *place == Place::Failed), "failed"),
            (meta.skipped, count(|place| *place == Place::Skipped), "skipped"),
        ];
        let forgotten = self
            .state
            .taken
            .keys()
            .find(|node| self.state.nodes.contains_key(*node) == self.state.dead.contains(*node));
        let wrong = counted.iter().find(|(said, is, _)| said != is);
        if let Some((said, is, what)) = wrong {
            self.fail(&format!("the store counts {said} {what}, there are {is}"));
        } else if let Some(node) = forgotten.cloned() {
            self.fail(&format!("{node} is neither a member nor dead, or both"));
        } else if self.calls.is_multiple_of(64) {
            let wall_ms = self.wall();
            if let Ok(Some(status)) = self.state.status(wall_ms) {
                let sum = status.done + status.failed + status.queued + status.in_hand;
                let waiting = count_of(self.state.queue.iter().chain(&self.state.again));
                if status.published != sum + self.state.meta.as_ref().map_or(0, |meta| meta.skipped)
                    || status.queued != waiting
                {
                    self.fail(&format!(
                        "done + failed + queued + in hand is not published: {status:?}"
                    ));
                }
            }
        }
    }

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
        for (number, shelf) in &mut self.book.shelves {
            let now = found.remove(number).unwrap_or(Shelf::Confirmed);
            let is_by = |reader: &String| matches!(call, Call::Drain(drain) if drain.reader == *reader);
            match (&*shelf, &now) {
                (a, b) if a == b => {}
                (Shelf::Errors, Shelf::Reading(reader)) if is_by(reader) => {}
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
        if let Some(wrong) = wrong {
            self.fail(&wrong);
        }
    }
}
