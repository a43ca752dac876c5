//! What is pushed is pushed once, and keys keep what they promise.

use std::collections::BTreeMap;

use queenright::engine::{Push, Pushed, Receipt};

use super::checks::Glance;
use super::world::Inner;

/// For how long a call is remembered.
const CALL_MS: u64 = 60_000;

/// A call or a key of a push, as long as it is remembered.
#[derive(Debug, Clone)]
pub struct Remembered {
    until_ms: u64,
    receipts: Vec<Receipt>,
}

impl Inner {
    pub fn only_a_store_that_went_back_waits(&mut self, before: &Glance) {
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        if seq != before.seq || !self.rewound {
            self.fail("a push or a publish is put off, and nobody knows why");
        }
    }

    /// Whether a node at work, which nothing befell but the store, has seen a number that is given now.
    pub fn someone_has_seen(&self, first: u64, before: &Glance) -> bool {
        let since = before.now.saturating_sub(2 * self.plan.lease_ms());
        let member = |node: &str| self.state.nodes.contains_key(node);
        self.processes
            .iter()
            .any(|process| process.works() && process.is_calm(since) && member(&process.node) && process.seen > first)
    }

    pub fn a_push_is_applied_once(&mut self, push: &Push, pushed: &Pushed, before: &Glance) {
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        let receipts = match pushed {
            Pushed::Full => return self.only_a_full_queue_refuses(push, before),
            Pushed::Part(_) => panic!("one shard puts in all of a call, or nothing"),
            Pushed::Unheard => return self.only_a_store_that_went_back_waits(before),
            Pushed::Ok(receipts) => receipts,
        };
        if let Some(earlier) = self.book.calls.get(&push.call) {
            if seq == before.seq && earlier.receipts == *receipts {
                return;
            }
            if !self.is_forgotten(earlier, before.wall_ms) {
                return self.fail("a push is applied twice");
            }
        }
        let wanted = self.expected(push, receipts, before);
        let new = wanted.iter().filter(|receipt| !receipt.repeated).count() as u64;
        if wanted != *receipts || seq != before.seq + new {
            self.fail(&format!("{push:?} is answered {receipts:?}, and not {wanted:?}"));
        }
        let given = receipts.iter().filter(|receipt| !receipt.repeated);
        let first = given.map(|receipt| receipt.number).min();
        if first.is_some_and(|first| self.someone_has_seen(first, before)) {
            return self.fail("a push is given a number that a living node has seen");
        }
        for (item, receipt) in push.items.iter().zip(receipts).filter(|(_, receipt)| !receipt.repeated) {
            self.book.pushed.insert(receipt.number, item.payload.clone());
            if let Some(key) = &item.key {
                let kept = Remembered {
                    until_ms: before.wall_ms + push.keep_ms,
                    receipts: vec![*receipt],
                };
                self.book.keys.insert(key.clone(), kept);
            }
        }
        let kept = Remembered {
            until_ms: before.wall_ms + CALL_MS,
            receipts: receipts.clone(),
        };
        self.book.calls.insert(push.call.clone(), kept);
        self.book.last_push_ms = self.book.last_push_ms.max(before.wall_ms);
        self.pushed |= new > 0;
        // What stands in the line of a group has a limit of its own.
        let queued = |item: &queenright::engine::Item| item.delay_ms == 0 && item.group.is_none();
        let waits = |(item, receipt): (&queenright::engine::Item, &Receipt)| queued(item) && !receipt.repeated;
        if push.items.iter().zip(receipts).any(waits) {
            self.the_backlog_keeps_its_limit(before);
        }
    }

    /// Whether its time has passed, or had passed at some push before the clock was set back.
    fn is_forgotten(&self, kept: &Remembered, wall_ms: u64) -> bool {
        kept.until_ms <= wall_ms.max(self.book.last_push_ms)
    }

    /// The answer that a push must have. Where the clock went back over the end of a key, either is right.
    fn expected(&self, push: &Push, receipts: &[Receipt], before: &Glance) -> Vec<Receipt> {
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        let mut next = before.seq;
        let mut wanted = Vec::new();
        for (index, item) in push.items.iter().enumerate() {
            let mut earlier = None;
            if let Some(key) = &item.key {
                let kept = self.book.keys.get(key).filter(|kept| kept.until_ms > before.wall_ms);
                let unsure = kept.is_some_and(|kept| self.is_forgotten(kept, before.wall_ms));
                let anew = receipts.get(index).is_some_and(|receipt| !receipt.repeated);
                let kept = kept.filter(|_| !(unsure && anew));
                earlier = seen.get(key.as_str()).copied();
                earlier = earlier.or_else(|| kept.map(|kept| kept.receipts[0].number));
            }
            let number = earlier.unwrap_or(next);
            next += u64::from(earlier.is_none());
            if let Some(key) = &item.key {
                seen.insert(key, number);
            }
            wanted.push(Receipt {
                number,
                repeated: earlier.is_some(),
            });
        }
        wanted
    }

    fn only_a_full_queue_refuses(&mut self, push: &Push, before: &Glance) {
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        let head = self.state.queue.front().map_or(seq, queenright::message::Pack::first);
        let grouped = push.items.iter().filter(|item| item.group.is_some()).count();
        if grouped > 0 && (self.state.lines.len() + grouped) as u64 > push.backlog_max && seq == before.seq {
            return;
        }
        if seq != before.seq || seq + push.items.len() as u64 - head <= push.backlog_max {
            self.fail("a push is refused although there is room, or was applied all the same");
        }
    }
}
