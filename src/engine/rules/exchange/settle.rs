//! What an exchange settles.

use super::super::endings::note;
use super::super::groups::ended;
use super::chain::{Chain, Room};
use super::effects::{Known, admit};
use crate::engine::limits::{CROWDED_MS, DELAY_MS_MAX};
use crate::engine::store::{About, Asked, Line, Meta, Store};
use crate::engine::{Ended, Ending, Exchange, Failed, Run};
use crate::error::Result;
use crate::message::{Effect, Outcome, Pack};

/// What the settles of an exchange are going to change, worked out before anything is written.
pub(super) struct Plan<'a> {
    /// Pieces that are settled, whole or in part, and what is left of them.
    gone: Vec<u64>,
    kept: Vec<Pack>,
    /// Messages that are put off, and until when.
    later: Vec<(u64, Pack)>,
    /// Runs of messages that have ended: the first number, and how many.
    pub(super) over: Vec<(u64, u64)>,
    effects: Vec<&'a Effect>,
    pub(super) chain: Chain,
    /// What goes back to the head of the queue, or to the head of what is taken again.
    back: Vec<Pack>,
    pub(super) back_again: Vec<Pack>,
    pub(super) errors: Vec<Failed>,
    pub(super) refused: Vec<(u64, String)>,
    /// What became of messages whose outcomes are asked for.
    asked: Vec<(u64, Asked)>,
    time_ms: u64,
    /// The groups of which a message ended, or is not waited for any more: of messages that are simply done, of those that were delivered
    /// before or are asked for, and of all others. In this order scripts come to them.
    ended: [Vec<String>; 3],
    /// Counts of messages.
    pub(super) done: u64,
    pub(super) returned: u64,
}

impl<'a> Plan<'a> {
    /// None: the exchange names something that the node does not hold. `about` is told what leaves the node's hand.
    pub(super) fn of(
        store: &mut impl Store,
        meta: &Meta,
        time_ms: u64,
        exchange: &'a Exchange,
        about: &mut About,
    ) -> Result<Option<Self>> {
        let mut known = Known::new();
        let mut plan = Self {
            gone: Vec::new(),
            kept: Vec::new(),
            later: Vec::new(),
            over: Vec::new(),
            effects: Vec::new(),
            chain: Chain::new(meta, time_ms, exchange.backlog_max),
            back: Vec::new(),
            back_again: Vec::new(),
            errors: Vec::new(),
            refused: Vec::new(),
            asked: Vec::new(),
            time_ms,
            ended: [const { Vec::new() }; 3],
            done: 0,
            returned: 0,
        };
        let node = &exchange.node;
        for settle in &exchange.settles {
            if store.guard("named-once") && plan.gone.contains(&settle.piece) {
                return Ok(None);
            }
            let Some(pack) = store.piece(node, settle.piece)? else {
                return Ok(None);
            };
            let (mut at, mut released) = (0, 0);
            for run in &settle.runs {
                let (from, count) = (run.from as usize, run.count as usize);
                let fits = count > 0 && from >= at && from + count <= pack.count();
                if !fits && (store.guard("runs") || count == 0 || from + count > pack.count()) {
                    return Ok(None);
                }
                if from > at {
                    plan.kept.push(pack.piece(at, from - at));
                }
                plan.add(store, &mut known, time_ms, node, &pack, run)?;
                at = from + count;
                released += count as u64;
            }
            if at < pack.count() {
                plan.kept.push(pack.piece(at, pack.count() - at));
            }
            plan.gone.push(settle.piece);
            about.gave(&pack, released);
        }
        plan.chain.close(meta.epoch);
        Ok(Some(plan))
    }

    /// One run of messages of a pack, all with the same outcome.
    fn add(
        &mut self,
        store: &mut impl Store,
        known: &mut Known,
        time_ms: u64,
        node: &str,
        pack: &Pack,
        run: &'a Run,
    ) -> Result<()> {
        let (from, count) = (run.from as usize, run.count as usize);
        let indices = from..from + count;
        let grouped = pack.group().is_some();
        let skips = grouped && store.group_rules()?.skips_retries && store.guard("group-skips");
        let ends = match &run.outcome {
            Outcome::Done(_) | Outcome::Error(_) => true,
            Outcome::Retry { .. } => skips,
            Outcome::Return => false,
        };
        // What has left its group before is not waited for.
        let group = if store.guard("group-left") {
            pack.holds_up()
        } else {
            pack.group()
        };
        let order = match &run.outcome {
            outcome if !outcome.is_plain() => 2,
            _ => usize::from(pack.deliveries() > 1 || pack.is_asked()),
        };
        let over = group.filter(|_| ends).map(str::to_string);
        let failed = |index, text: &str| Failed::of(pack, index, time_ms, node, text);
        // One whose outcome is asked for is a pack of its own.
        let ends = |how| {
            pack.is_asked()
                .then(|| (pack.first(), Asked::Ended(Ending::of(pack, time_ms, node, how))))
        };
        let tells_later = pack.is_asked() && store.guard("ending-later");
        let waits = |due_ms| tells_later.then(|| (pack.first(), Asked::Waits { due_ms }));
        match &run.outcome {
            Outcome::Done(effects) => {
                let mut numbers = indices.clone().map(|index| pack.first() + index as u64);
                let why = match self.chain.room(store, effects, group.is_some())? {
                    Room::Fits => admit(store, known, effects)?,
                    Room::Never(why) => Some(why),
                    // Nobody has failed: it is tried again as it is.
                    Room::Crowded => {
                        self.chain.told.crowded.extend(numbers);
                        let due_ms = time_ms + CROWDED_MS;
                        let again = indices.map(|index| (due_ms, pack.piece(index, 1).put_off()));
                        self.later.extend(again);
                        self.asked.extend(waits(due_ms));
                        // It stays in flight: its group waits for it.
                        return Ok(());
                    }
                };
                if let Some(why) = why {
                    let text = format!("effect refused: {why}");
                    self.asked.extend(ends(Ended::Failed(text.clone().into_bytes())));
                    self.errors.extend(indices.map(|index| failed(index, &text)));
                    self.refused.extend(numbers.map(|number| (number, text.clone())));
                } else {
                    self.done += count as u64;
                    if pack.is_asked() && store.guard("ending-done") {
                        let result = run.outcome.result().map(|result| result.to_vec());
                        self.asked.extend(ends(Ended::Done(result)));
                    }
                    self.effects
                        .extend(effects.iter().filter(|effect| effect.key().is_some()));
                    self.chain.follow(numbers.next().unwrap_or_default(), effects);
                }
            }
            Outcome::Error(text) => {
                self.errors.extend(indices.map(|index| failed(index, text)));
                self.asked.extend(ends(Ended::Failed(text.clone().into_bytes())));
            }
            Outcome::Retry { after_ms, .. } => {
                let due_ms = time_ms + after_ms.min(&DELAY_MS_MAX);
                let counts = store.guard("failures");
                self.asked.extend(waits(due_ms));
                self.later.extend(indices.map(|index| {
                    let message = pack.piece(index, 1);
                    let message = if counts { message.next_failure() } else { message };
                    (due_ms, if skips { message.marked_left() } else { message })
                }));
            }
            Outcome::Return => {
                // A message of a group stays in flight: nobody is to take it from its line.
                let grouped = grouped && store.guard("group-returns");
                let back = if pack.deliveries() > 1 || pack.unordered() || grouped {
                    &mut self.back_again
                } else {
                    &mut self.back
                };
                back.push(pack.piece(from, count));
                self.returned += count as u64;
            }
        }
        if matches!(run.outcome, Outcome::Done(_) | Outcome::Error(_)) {
            self.over.push((pack.first() + from as u64, count as u64));
        }
        self.ended[order].extend(over);
        Ok(())
    }

    /// Messages that are put off, and for how long.
    pub(super) fn put_off(&self) -> Vec<(u64, &Pack)> {
        let after = |due_ms: u64| due_ms.saturating_sub(self.time_ms);
        self.later.iter().map(|(due_ms, pack)| (after(*due_ms), pack)).collect()
    }

    /// How many messages leave the node's hand.
    pub(super) fn released(&self) -> u64 {
        self.done + self.errors.len() as u64 + self.later.len() as u64 + self.returned
    }

    /// Returns whether a group has become ready by it.
    pub(super) fn write(&self, store: &mut impl Store, node: &str) -> Result<bool> {
        for first in &self.gone {
            store.remove_piece(node, *first)?;
        }
        for pack in &self.kept {
            store.put_piece(node, pack)?;
        }
        for effect in &self.effects {
            store.apply(effect)?;
        }
        for failed in &self.errors {
            store.add_failed(failed)?;
        }
        for (due_ms, pack) in &self.later {
            store.put_off(*due_ms, pack)?;
        }
        note(store, self.time_ms, &self.asked)?;
        for pack in self.back.iter().rev() {
            store.push_front(Line::Queue, pack)?;
        }
        for pack in self.back_again.iter().rev() {
            store.push_front(Line::Again, pack)?;
        }
        let mut readied = false;
        for group in self.ended.iter().flatten() {
            readied |= ended(store, group)?;
        }
        Ok(readied)
    }
}
