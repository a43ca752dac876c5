//! What must come out, kept by the test from the answers alone.

use std::collections::{BTreeMap, BTreeSet};

use queenright::engine::{
    Chained, Collect, Collected, Exchange, Exchanged, Publish, Published, Pushed, Reaped, Receipt, Renewed,
};
use queenright::message::Outcome;

use super::twin::{Answer, Call};

/// Effects of the histories count here, once for each message.
pub const COUNTER: &str = "count";

#[derive(Default)]
pub struct Ledger {
    made: u64,
    pub published: BTreeSet<u64>,
    pub done: BTreeSet<u64>,
    pub errors: BTreeSet<u64>,
    /// Messages that became errors because they were delivered too often; the answer does not say which.
    pub given_up: u64,
    /// Messages done with an effect.
    pub counted: i64,
    /// Errors that readers have confirmed.
    pub confirmed: BTreeSet<u64>,
    applied: BTreeMap<(String, u32, u64), Chained>,
    reading: BTreeMap<String, (u64, Vec<u64>)>,
}

impl Ledger {
    /// Notes what the answer says has happened.
    pub fn note(&mut self, call: &Call, answer: &Answer) {
        match (call, answer) {
            (Call::Publish(publish), Answer::Published(Published::Ok { seq, made, .. })) => {
                self.note_publish(publish, *seq, *made);
            }
            // Raised to what was seen.
            (Call::Beat(_), Answer::Renewed(Renewed::Alive(member))) => self.made = self.made.max(member.made),
            (Call::Push(_), Answer::Pushed(Pushed::Ok(receipts))) => self.note_push(receipts),
            (Call::Exchange(exchange), Answer::Exchanged(Exchanged::Ok { refused, chained, .. })) => {
                self.note_exchange(exchange, refused, chained);
            }
            (Call::Requeue(_), Answer::Requeued(requeued)) => {
                for number in &requeued.numbers {
                    self.given_up -= u64::from(!self.errors.remove(number));
                }
            }
            (Call::Discard(_) | Call::Trim(_), Answer::Discarded(numbers)) => {
                for number in numbers {
                    assert!(self.confirmed.insert(*number), "{number} was confirmed before");
                }
            }
            (Call::Reap(_), Answer::Reaped(Reaped { failed, .. })) => self.given_up += failed,
            (Call::Collect(collect), Answer::Collected(Collected::Batch { failed, .. })) => {
                self.note_collect(collect, failed.iter().map(|failed| failed.number).collect());
            }
            _ => {}
        }
    }

    fn note_publish(&mut self, publish: &Publish, seq: u64, made: u64) {
        let count: u64 = publish.packs.iter().map(|pack| pack.count() as u64).sum();
        if made == self.made {
            return;
        }
        assert_eq!(made, self.made + count, "a publish counts what it carries");
        // What fills a hole lies before the next number.
        for pack in &publish.packs {
            for number in pack.first()..pack.first() + pack.count() as u64 {
                assert!(
                    number < seq && self.published.insert(number),
                    "{number} was published twice"
                );
            }
        }
        self.made = made;
    }

    /// An answer to a repeat names what is published already, and then all of it.
    fn note_push(&mut self, receipts: &[Receipt]) {
        let receipts = receipts.iter().filter(|receipt| **receipt != Receipt::NOT_HERE);
        let receipts: Vec<Receipt> = receipts.copied().collect();
        let fresh = receipts.iter().filter(|receipt| !receipt.repeated);
        let fresh: Vec<u64> = fresh.map(|receipt| receipt.number).collect();
        let known = fresh.iter().filter(|number| self.published.contains(number)).count();
        assert!(known == 0 || known == fresh.len(), "{receipts:?}");
        for receipt in receipts.iter().filter(|receipt| receipt.repeated) {
            let given = fresh.contains(&receipt.number) || self.published.contains(&receipt.number);
            assert!(given, "{receipt:?} repeats what nobody pushed");
        }
        self.published.extend(fresh);
    }

    fn note_exchange(&mut self, exchange: &Exchange, refused: &[(u64, String)], chained: &Chained) {
        // A repeat is answered, not applied.
        let call = (exchange.node.clone(), exchange.lane, exchange.call);
        if let Some(told) = self.applied.get(&call) {
            assert_eq!(told, chained, "a repeated call tells the same numbers");
            return;
        }
        self.applied.insert(call, chained.clone());
        for link in &chained.links {
            for number in link.first..link.first + link.count {
                assert!(self.published.insert(number), "{number} was published twice");
            }
        }
        let refused: BTreeSet<u64> = refused.iter().map(|(number, _)| *number).collect();
        for settle in &exchange.settles {
            for run in &settle.runs {
                let first = settle.piece + u64::from(run.from);
                for number in first..first + u64::from(run.count) {
                    if chained.crowded.contains(&number) {
                        continue;
                    }
                    let failed = refused.contains(&number) || matches!(run.outcome, Outcome::Error(_));
                    match &run.outcome {
                        Outcome::Return | Outcome::Retry { .. } => continue,
                        _ if failed => assert!(self.errors.insert(number), "{number} failed twice"),
                        Outcome::Done(effects) => {
                            assert!(self.done.insert(number), "{number} was done twice");
                            // The effects of a run are applied once, with its first message.
                            let effects = if number == first { &effects[..] } else { &[] };
                            self.counted += i64::from(effects.iter().any(|effect| effect.key() == Some(COUNTER)));
                            let wanted = effects.iter().filter(|effect| effect.publishes()).count() as u64;
                            let links = chained.links.iter().filter(|link| link.cause == number);
                            let found = links.map(|link| link.count).sum::<u64>();
                            assert_eq!(found, wanted, "{number} publishes what it is to");
                        }
                        Outcome::Error(_) => unreachable!("failed"),
                    }
                    assert!(self.published.contains(&number), "{number} was never published");
                }
            }
        }
    }

    fn note_collect(&mut self, collect: &Collect, batch: Vec<u64>) {
        if let Some((call, printed)) = self.reading.get(&collect.reader) {
            if *call == collect.call {
                assert_eq!(*printed, batch, "a repeated call gives the same batch");
                return;
            }
            if *call + 1 == collect.call {
                for number in printed {
                    assert!(self.confirmed.insert(*number), "{number} was confirmed twice");
                }
            }
        }
        self.reading.insert(collect.reader.clone(), (collect.call, batch));
    }

    /// A reader's batch went back: nothing of it will be confirmed.
    pub fn forget_reader(&mut self, reader: &str) {
        self.reading.remove(reader);
    }

    /// Every published number has one outcome. `failed`: the errors that the store still has.
    pub fn balance(&self, failed: &BTreeSet<u64>) {
        assert!(failed.is_disjoint(&self.confirmed), "confirmed and still there");
        let all_failed: BTreeSet<u64> = failed.union(&self.confirmed).copied().collect();
        assert!(self.errors.is_subset(&all_failed), "errors were lost");
        assert_eq!(
            all_failed.len() as u64,
            self.errors.len() as u64 + self.given_up,
            "errors from nowhere"
        );
        assert!(all_failed.is_disjoint(&self.done), "two outcomes");
        let settled: BTreeSet<u64> = all_failed.union(&self.done).copied().collect();
        assert_eq!(settled, self.published, "every message has an outcome");
    }
}
