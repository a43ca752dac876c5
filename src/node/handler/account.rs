//! What a lane makes of the answer to a call: lines of the ledger, figures, and events for the observer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::held::Held;
use super::pool::Pool;
use super::stretch::Finished;
use crate::engine::{CROWDED_MS, Chained, Link, Ticket};
use crate::message::{Effect, Outcome, Pack};
use crate::node::event::{Entry, Event, What};
use crate::node::kept::{Fate, Untold};
use crate::node::meter::Meter;

/// With fewer outcomes than this, a whole line of calls leaves room for more of them.
const LEISURE_MAX: u32 = 64;

/// The ledger's entries for what a call is about to settle.
pub(super) fn intents(finished: &[Finished]) -> Vec<Entry> {
    let mut entries = outcomes(finished, &Answered::default());
    entries.retain(|entry| entry.what != What::Return);
    entries
}

/// The ledger's entries for what a call has taken.
pub(super) fn takes(packs: &[Pack]) -> Vec<Entry> {
    let take = |pack: &Pack| Entry {
        first: pack.first(),
        count: pack.count() as u64,
        what: What::Take {
            deliveries: pack.deliveries(),
            epoch: pack.epoch(),
        },
    };
    packs.iter().map(take).collect()
}

/// What a call says of the effects of messages.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// These were refused, and why.
    pub refused: Vec<(u64, String)>,
    /// What others published, and which found no room for that.
    pub chained: Chained,
}

impl Answered {
    fn refused(&self) -> u64 {
        self.refused.len() as u64
    }

    fn crowded(&self) -> u64 {
        self.chained.crowded.len() as u64
    }

    /// Numbers that did not end as their handlers said, and how they did.
    fn others(&self) -> impl Iterator<Item = (u64, What)> {
        let refused = self.refused.iter().map(|(number, _)| (*number, What::Error));
        refused.chain(self.chained.crowded.iter().map(|number| (*number, What::Return)))
    }

    /// What was published, for the ledger.
    fn links(&self) -> impl Iterator<Item = Entry> {
        self.chained.links.iter().map(|link| Entry {
            first: link.first,
            count: link.count,
            what: What::Chain { cause: link.cause },
        })
    }
}

/// Finished runs as entries, and what they published. A message whose effects were refused is an error, whatever its handler said; one
/// whose effects found no room is put off.
pub(super) fn outcomes(finished: &[Finished], answered: &Answered) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(finished.len());
    for run in finished {
        let what = match run.outcome {
            Outcome::Done(_) => What::Done,
            Outcome::Error(_) => What::Error,
            Outcome::Return | Outcome::Retry { .. } => What::Return,
        };
        let (mut first, end) = (run.first, run.first + u64::from(run.count));
        let mut cuts: Vec<(u64, What)> = answered.others().collect();
        cuts.retain(|(number, _)| (first..end).contains(number));
        cuts.sort_unstable_by_key(|(number, _)| *number);
        for (cut, instead) in cuts {
            let before = (first, cut - first, what);
            for (first, count, what) in [before, (cut, 1, instead)] {
                entries.push(Entry { first, count, what });
            }
            first = cut + 1;
        }
        let count = end - first;
        entries.push(Entry { first, count, what });
    }
    entries.retain(|entry| entry.count > 0);
    entries.extend(answered.links());
    entries
}

/// Takes out the entries of what was given back or put off.
pub(super) fn take_returns(entries: &mut Vec<Entry>) -> Vec<Entry> {
    entries.extract_if(.., |entry| entry.what == What::Return).collect()
}

/// What a call has settled, by outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settled {
    all: u64,
    done: u64,
    failed: u64,
    retried: u64,
    /// By effects.
    published: u64,
}

impl Settled {
    pub(super) fn of(finished: &[Finished], answered: &Answered) -> Self {
        let mut settled = Self {
            failed: answered.refused(),
            retried: answered.crowded(),
            published: answered.chained.count(),
            ..Self::default()
        };
        for run in finished {
            let count = u64::from(run.count);
            settled.all += count;
            match run.outcome {
                Outcome::Done(_) => settled.done += count,
                Outcome::Error(_) => settled.failed += count,
                Outcome::Retry { .. } => settled.retried += count,
                Outcome::Return => {}
            }
        }
        settled.done = settled.done.saturating_sub(answered.refused() + answered.crowded());
        settled
    }

    pub(super) fn all(self) -> u32 {
        u32::try_from(self.all).unwrap_or(u32::MAX)
    }

    /// It is told when replicas have it.
    pub(super) fn when_kept(self, ticket: Ticket, tell: impl FnOnce() + Send + 'static) -> Untold {
        let tell = move |fate, _| {
            if fate == Fate::Kept {
                tell();
            }
        };
        let at_leisure = self.all() < LEISURE_MAX;
        Untold {
            ticket: Ticket { at_leisure, ..ticket },
            outcomes: self.all(),
            publish: None,
            tell: Box::new(tell),
        }
    }

    /// Counts it.
    pub(super) fn count(self, meter: &Meter) {
        meter.add(|figures| {
            figures.done += self.done;
            figures.failed += self.failed;
            figures.retried += self.retried;
            figures.published += self.published;
        });
    }
}

/// Counts what a call has left in the hand of the node.
pub(super) fn count(meter: &Meter, pool: &Pool, settled: Settled, packs: &[Pack], in_hand: &AtomicU64) {
    let taken: u64 = packs.iter().map(|pack| pack.count() as u64).sum();
    let again = packs.iter().filter(|pack| pack.deliveries() > 1);
    let again: u64 = again.map(|pack| pack.count() as u64).sum();
    for count in [&meter.in_hand, in_hand] {
        count.fetch_add(taken, Ordering::Relaxed);
        count.fetch_sub(settled.all, Ordering::Relaxed);
    }
    meter.redelivered.fetch_add(again, Ordering::Relaxed);
    meter.add(|figures| pool.measured(figures));
}

/// An event for each message that a call has settled, and for those that they published; those given back have none.
pub(super) fn settled(held: &Held, finished: Vec<Finished>, answered: &Answered) -> Vec<Event> {
    let mut events = Vec::new();
    for run in finished {
        for link in answered.chained.links.iter().filter(|link| link.cause == run.first) {
            events.extend(published(link, answered.chained.epoch, &run.outcome));
        }
        for number in run.first..run.first + u64::from(run.count) {
            let Some(message) = held.message(number) else {
                continue;
            };
            let refusal = answered.refused.iter().find(|(refused, _)| *refused == number);
            let (epoch, deliveries, payload) = (message.epoch, message.deliveries, message.payload);
            if answered.chained.crowded.contains(&number) {
                events.push(Event::Retried {
                    epoch,
                    number,
                    deliveries,
                    failures: message.failures,
                    payload,
                    error: "the queue is full: no room for what it publishes".into(),
                    after_ms: CROWDED_MS,
                });
                continue;
            }
            if let Outcome::Retry { error, after_ms } = &run.outcome {
                events.push(Event::Retried {
                    epoch,
                    number,
                    deliveries,
                    failures: message.failures.saturating_add(1),
                    payload,
                    error: error.clone(),
                    after_ms: *after_ms,
                });
                continue;
            }
            let error = match (&run.outcome, refusal) {
                (_, Some((_, why))) => Some(why.clone()),
                (Outcome::Error(text), None) => Some(text.clone()),
                (Outcome::Done(_), None) => None,
                (Outcome::Return | Outcome::Retry { .. }, None) => continue,
            };
            events.push(match error {
                Some(error) => Event::Error {
                    epoch,
                    number,
                    deliveries,
                    payload,
                    error,
                },
                None => Event::Done {
                    epoch,
                    number,
                    deliveries,
                    payload,
                },
            });
        }
    }
    events
}

/// An event for each message that the effects of another published.
fn published(link: &Link, epoch: u64, outcome: &Outcome) -> impl Iterator<Item = Event> {
    let effects = match outcome {
        Outcome::Done(effects) => &effects[..],
        _ => &[],
    };
    let payloads = effects.iter().filter_map(|effect| match effect {
        Effect::Publish { payload, .. } => Some(payload.clone()),
        _ => None,
    });
    let cause = Some(link.cause);
    (link.first..)
        .zip(payloads)
        .map(move |(number, payload)| Event::Published {
            epoch,
            number,
            payload,
            cause,
        })
}

/// An event for each message that was taken and had been delivered before.
pub(super) fn redelivered(packs: &[Pack]) -> Vec<Event> {
    packs
        .iter()
        .filter(|pack| pack.deliveries() > 1)
        .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index)))
        .map(|message| Event::Redelivered {
            epoch: message.epoch,
            number: message.number,
            deliveries: message.deliveries,
            payload: message.payload,
        })
        .collect()
}
