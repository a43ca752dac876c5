//! Published against settled, from what the nodes themselves wrote down: independent of the queue's own counters.
//!
//! [`history`] keeps more of what the books tell, and [`checks`] gives the verdict of `verify` on it.
//!
//! Every node keeps a book ([`Recorder`]): what it is about to ask of the store, and what the store confirmed. The
//! [`Ledger`] reads the books while they grow, and at the end compares them with what is still in the store.
//!
//! A node that is killed between a call and its answer leaves an intent without a confirmation. The message is then
//! *in doubt*: it may be settled or not, both are fine, and if the store has it no more, it was settled by that intent.

mod book;
pub mod chains;
pub mod checks;
pub mod effects;
pub mod history;
mod numbers;
mod prints;
mod record;
mod recorder;
pub mod sequence;
pub mod times;
mod trace;

use std::path::Path;

use crate::engine::sharded::first_number;
use crate::engine::{Engine, Status};
use crate::error::Result;
use crate::node::event::{Entry, What};

pub use book::Book;
pub use numbers::Numbers;
pub use prints::Prints;
pub use record::{Record, hash_of, print_of};
pub use recorder::{Recorder, book_of_shard};

/// Errors per look at the store.
const PAGE: u32 = 1000;
/// How many numbers of each kind a finding names.
const NAMED_MAX: usize = 5;
/// Of so many that are lost it says what was written of them.
const TRACED_MAX: usize = 3;

#[derive(Default)]
pub struct Ledger {
    /// So many numbers each shard had given out before anyone here began: these are not looked at.
    base: Vec<u64>,
    books: Vec<Book>,
    published: Numbers,
    /// Of which it is not known whether the store took them.
    publish_intents: Numbers,
    done: Numbers,
    failed: Numbers,
    /// Of which it will never be known, since the node lost its membership before the answer came.
    settle_intents: Numbers,
    /// Of each book, what it asked the store to settle and has no answer to.
    asked: Vec<Numbers>,
    /// Errors that were seen in the store or read from it: outcomes, whichever node recorded them.
    errors_seen: Numbers,
    republished: Numbers,
    twice: Numbers,
    /// Times of which the store forgot what it did then, in milliseconds since 1970.
    pub(super) forgot: Vec<(u64, u64)>,
    /// What was published, pushed, taken or settled at such a time: it may be so, or not.
    pub(super) forgotten: Numbers,
    /// What was told as published, pushed or settled is kept even so: replicas had it. Who had taken what may be forgotten.
    pub(super) keeps_told: bool,
    /// What was taken or given back at such a time.
    pub(super) taken_then: Numbers,
    /// By someone outside.
    pushed: Numbers,
    /// Links of chains that were found, whoever confirmed them: the node that published one may have been killed before it heard so.
    pub(super) links: Numbers,
    /// Pushed under a number that was given to another message.
    pushed_over: Numbers,
}

/// What the store holds at the end, when no node works on it.
#[derive(Debug, Clone, Default)]
pub struct Remains {
    /// The next number; of a queue with shards, how many numbers were given out,
    pub published: u64,
    /// and how many by each of them.
    pub shards: Vec<u64>,
    /// Messages without an outcome.
    pub unsettled: Numbers,
    /// The errors that were not read yet.
    pub errors: Numbers,
}

impl Remains {
    /// Reads what a store holds that has given out so many numbers, in each shard.
    pub async fn of<E: Engine>(engine: &E, given: Vec<u64>) -> Result<Self> {
        let mut errors = Numbers::default();
        let mut from = 0;
        loop {
            let page = engine.failed(from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = last.number + 1;
            errors.add(&Numbers::of(page.iter().map(|failed| (failed.number, 1))));
        }
        Ok(Self {
            published: given.iter().sum(),
            shards: if given.len() > 1 { given } else { Vec::new() },
            unsettled: Numbers::of(engine.unsettled().await?),
            errors,
        })
    }
}

impl Remains {
    /// All numbers that were given out since each shard had given out so many.
    pub(crate) fn given_out(&self, base: &[u64]) -> Numbers {
        let alone = [self.published];
        let all = if self.shards.is_empty() {
            &alone[..]
        } else {
            &self.shards
        };
        let of = |(shard, count): (usize, &u64)| {
            let before = base.get(shard).copied().unwrap_or(0);
            (first_number(shard) + before, count.saturating_sub(before))
        };
        Numbers::of(all.iter().enumerate().map(of))
    }
}

/// How many numbers each shard has given out; of a queue without shards, it alone.
pub fn given_by_shard(status: &Status) -> Vec<u64> {
    match &status.shards[..] {
        [] => vec![status.published],
        shards => shards.iter().map(|shard| shard.published).collect(),
    }
}

/// The ledger at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub generated: u64,
    pub done: u64,
    pub errors: u64,
    pub in_hand: u64,
}

impl Totals {
    /// Published, without an outcome, and held by no node, as far as the books tell.
    pub fn queued(&self) -> u64 {
        let known = self.done + self.errors + self.in_hand;
        self.generated.saturating_sub(known)
    }
}

/// The result. `findings` is empty if every message has one outcome or is still in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub generated: u64,
    pub done: u64,
    pub errors: u64,
    /// Settled by a node that was killed before it could write so.
    pub in_doubt: u64,
    pub unsettled: u64,
    pub lost: u64,
    pub twice: u64,
    pub findings: Vec<String>,
}

impl Ledger {
    /// Of a queue whose shards have given out so many numbers already.
    pub fn after(base: Vec<u64>) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Adds the book of one more node, which need not exist yet. Returns its index.
    pub fn add(&mut self, path: &Path) -> usize {
        self.books.push(Book::at(path));
        self.asked.push(Numbers::default());
        self.books.len() - 1
    }

    pub fn book(&self, index: usize) -> &Book {
        &self.books[index]
    }

    /// Reads some of what was written since the last time, and tells each record with the index of its book. True:
    /// there may be more. Bounded, since the nodes may write faster than one can read.
    pub fn read(&mut self, mut tell: impl FnMut(usize, &Record)) -> std::io::Result<bool> {
        let mut more = false;
        for index in 0..self.books.len() {
            let (records, rest) = self.books[index].read()?;
            more |= rest;
            for record in records {
                self.enter(index, &record);
                tell(index, &record);
            }
        }
        Ok(more)
    }

    /// Reads all that was written: only when nobody writes any more does this end.
    pub fn read_all(&mut self, mut tell: impl FnMut(usize, &Record)) -> std::io::Result<()> {
        while self.read(&mut tell)? {}
        Ok(())
    }

    /// A node is gone: it holds nothing any more.
    pub fn close(&mut self, index: usize) {
        self.books[index].close();
    }

    pub(crate) fn enter(&mut self, book: usize, record: &Record) {
        match record {
            // Said only where nothing else was on its way: nothing is in doubt any more. With replicas there is what they have not confirmed.
            Record::Refused if self.keeps_told => self.settle_intents.add(&std::mem::take(&mut self.asked[book])),
            Record::Refused => self.asked[book] = Numbers::default(),
            Record::Joined { .. } => self.settle_intents.add(&std::mem::take(&mut self.asked[book])),
            Record::Intends(Entry { first, count, what }) => match what {
                What::Publish { .. } | What::Chain { .. } => self.publish_intents.insert(*first, *count),
                What::Done | What::Error => self.asked[book].insert(*first, *count),
                What::Take { .. } | What::Return => {}
            },
            Record::Confirmed(Entry { first, count, what }, ms)
                if self.keeps_told
                    && matches!(what, What::Take { .. } | What::Return)
                    && self.falls_into_a_gap(*ms) =>
            {
                self.taken_then.insert(*first, *count);
            }
            Record::Confirmed(Entry { first, count, what }, ms) if self.forgets(*ms) => {
                self.forgotten.insert(*first, *count);
                match what {
                    What::Publish { .. } | What::Chain { .. } => self.publish_intents.insert(*first, *count),
                    What::Done | What::Error => {
                        self.settle_intents.add(&std::mem::take(&mut self.asked[book]));
                    }
                    What::Take { .. } | What::Return => {}
                }
            }
            Record::Confirmed(Entry { first, count, what }, _) => {
                if let What::Publish { .. } | What::Chain { .. } = what {
                    self.republished.add(&self.published.among(*first, *count));
                    self.published.insert(*first, *count);
                    return;
                }
                // Others may be on their way.
                self.asked[book].remove(*first, *count);
                if let What::Done | What::Error = what {
                    self.settle(*first, *count, *what == What::Done);
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, first: u64, count: u64, done: bool) {
        for settled in [&self.done, &self.failed] {
            self.twice.add(&settled.among(first, count));
        }
        let settled = if done { &mut self.done } else { &mut self.failed };
        settled.insert(first, count);
    }

    /// An error that was read: the outcome of this message, whichever node recorded it.
    pub fn saw_error(&mut self, number: u64) {
        self.errors_seen.insert(number, 1);
    }

    /// Whether the store forgot what it told then.
    fn forgets(&self, ms: u64) -> bool {
        !self.keeps_told && self.falls_into_a_gap(ms)
    }

    fn falls_into_a_gap(&self, ms: u64) -> bool {
        self.forgot.iter().any(|(from, to)| (*from..=*to).contains(&ms))
    }

    /// Numbers of which it cannot be said what became of them.
    pub(super) fn unsure(&self) -> Numbers {
        let mut unsure = self.forgotten.clone();
        unsure.add(&self.taken_then);
        if !self.forgot.is_empty() {
            unsure.add(&self.publish_intents.minus(&[&self.published]));
            unsure.add(&self.unanswered());
        }
        unsure
    }

    /// The store told someone outside that what was pushed has this number. When all books are read. False: it forgot that.
    pub fn push(&mut self, number: u64, ms: u64) -> bool {
        if self.forgets(ms) {
            self.forgotten.insert(number, 1);
            self.publish_intents.insert(number, 1);
            return false;
        }
        if self.pushed.contains(number) || self.published.contains(number) {
            self.pushed_over.insert(number, 1);
        }
        self.pushed.insert(number, 1);
        true
    }

    pub fn totals(&self) -> Totals {
        Totals {
            generated: self.published.len(),
            done: self.done.len(),
            errors: self.failed.len(),
            in_hand: self.books.iter().map(Book::in_hand).sum(),
        }
    }

    /// The same in each shard, where the books of each node are one for each shard, in their order.
    pub fn totals_by_shard(&self, shards: usize) -> Vec<Totals> {
        let mut all = vec![Totals::default(); shards.max(1)];
        for (index, book) in self.books.iter().enumerate() {
            let totals = &mut all[index % shards.max(1)];
            totals.generated += book.published;
            totals.done += book.done;
            totals.errors += book.errors;
            totals.in_hand += book.in_hand();
        }
        all
    }

    /// How many messages have two outcomes, as far as is written.
    pub fn twice(&self) -> u64 {
        self.twice.len()
    }

    /// What a node may have settled that was killed before it heard the answer.
    fn unanswered(&self) -> Numbers {
        let mut all = self.settle_intents.clone();
        for asked in &self.asked {
            all.add(asked);
        }
        all
    }

    /// Published and without an outcome, as far as is written.
    pub fn open(&self) -> Numbers {
        self.published.minus(&[&self.done, &self.failed, &self.errors_seen])
    }

    /// Those of `numbers` that have neither an outcome nor a node that may have given them one.
    pub fn unexplained(&self, numbers: &Numbers) -> Numbers {
        numbers.minus(&[&self.done, &self.failed, &self.errors_seen, &self.unanswered()])
    }

    /// Intended to be published, and not there, as far as the store has given out these numbers: a generator that was killed left it out, and the next one
    /// makes it again.
    pub(crate) fn unpublished(&self, given_out: &Numbers) -> Numbers {
        self.publish_intents.minus(&[given_out])
    }

    /// All that the store has given out since this began.
    pub(crate) fn given_out(&self, remains: &Remains) -> Numbers {
        remains.given_out(&self.base)
    }

    /// The account, when all nodes are gone and all books are read.
    pub fn account(&self, remains: &Remains) -> Account {
        let given_out = self.given_out(remains);
        let unsettled = remains.unsettled.and(&given_out);
        let mut errors = self.errors_seen.clone();
        errors.add(&remains.errors);
        let errors = errors.and(&given_out);

        let mut unknown = given_out.minus(&[&self.published, &self.publish_intents, &self.pushed, &self.links]);
        let mut vanished = self.published.minus(&[&given_out]);
        vanished.add(&self.pushed.minus(&[&given_out]));
        let no_outcome = given_out.minus(&[&self.done, &self.failed, &errors, &unsettled]);
        // Numbers that were seen and then forgotten are passed over.
        let mut passed_over = Numbers::default();
        if !self.forgot.is_empty() {
            passed_over = unknown.and(&no_outcome);
            unknown = unknown.minus(&[&passed_over]);
        }
        let unanswered = self.unanswered();
        let in_doubt = no_outcome.and(&unanswered);
        let mut lost = no_outcome.minus(&[&unanswered, &unknown, &passed_over, &self.forgotten]);
        if !self.forgot.is_empty() {
            // The answer to a publish may be among what was forgotten.
            lost = lost.minus(&[&self.publish_intents.minus(&[&self.published])]);
            // So may the settle that published a link: then it is published again with it, under another number.
            let told = [&self.published, &self.pushed];
            lost = lost.minus(&[&self.links.and(&self.taken_then).minus(&told)]);
        }
        lost.add(&vanished);
        // One outcome is written, and the store holds another one ready.
        let mut twice = self.twice.clone();
        let settled_open = unsettled.minus(&[&unsettled.minus(&[&self.done, &self.failed])]);
        // An error that was printed, forgotten and done again is what a store that forgets may do.
        let mut failed = self.errors_seen.minus(&[&self.forgotten]);
        failed.add(&remains.errors);
        let done_failed = failed.and(&self.done).and(&given_out);
        twice.add(&settled_open);
        twice.add(&done_failed);

        let mut findings = found(&[
            (&lost.minus(&[&vanished]), "lost, published and without an outcome"),
            (&vanished, "lost, confirmed as published and unknown to the store"),
            (&unknown, "in the queue, and published by nobody"),
            (&self.republished, "published twice"),
            (&self.pushed_over, "pushed under a number that another message has"),
            (&self.twice, "settled twice"),
            (&settled_open, "settled, and still in the queue"),
            (&done_failed, "settled as done, and among the errors"),
        ]);
        findings.extend(lost.iter().take(TRACED_MAX).filter_map(|number| self.trace(number)));
        Account {
            generated: given_out.len(),
            done: self.done.len(),
            errors: self.failed.len() + errors.minus(&[&self.failed, &self.done]).len(),
            in_doubt: in_doubt.len(),
            unsettled: unsettled.len(),
            lost: lost.len(),
            twice: twice.len(),
            findings,
        }
    }
}

/// A line for each of these kinds of which there are any.
fn found(kinds: &[(&Numbers, &str)]) -> Vec<String> {
    let any = kinds.iter().filter(|(numbers, _)| !numbers.is_empty());
    any.map(|(numbers, what)| format!("{what}: {}", named(numbers)))
        .collect()
}

fn named(numbers: &Numbers) -> String {
    let mut text: Vec<String> = numbers
        .iter()
        .take(NAMED_MAX)
        .map(|number| number.to_string())
        .collect();
    if numbers.len() > NAMED_MAX as u64 {
        text.push(format!("… ({} in all)", numbers.len()));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests;
