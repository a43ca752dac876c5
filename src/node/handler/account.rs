//! What a lane makes of the answer to a call: lines of the ledger, figures, and events for the observer.

use std::sync::atomic::Ordering;

use super::held::Held;
use super::pool::Pool;
use super::stretch::Finished;
use crate::message::{Outcome, Pack};
use crate::node::event::{Entry, Event, What};
use crate::node::meter::Meter;

/// The ledger's entries for what a call is about to settle.
pub(super) fn intents(finished: &[Finished]) -> Vec<Entry> {
    let mut entries = outcomes(finished, &[]);
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

/// Finished runs as entries. A message whose effects were refused is an error, whatever its handler said.
pub(super) fn outcomes(finished: &[Finished], refused: &[(u64, String)]) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(finished.len());
    for run in finished {
        let what = match run.outcome {
            Outcome::Done(_) => What::Done,
            Outcome::Error(_) => What::Error,
            Outcome::Return | Outcome::Retry { .. } => What::Return,
        };
        let (mut first, end) = (run.first, run.first + u64::from(run.count));
        let mut cuts: Vec<u64> = refused.iter().map(|(number, _)| *number).collect();
        cuts.retain(|number| (first..end).contains(number));
        cuts.sort_unstable();
        for cut in cuts {
            let before = (first, cut - first, what);
            for (first, count, what) in [before, (cut, 1, What::Error)] {
                entries.push(Entry { first, count, what });
            }
            first = cut + 1;
        }
        let count = end - first;
        entries.push(Entry { first, count, what });
    }
    entries.retain(|entry| entry.count > 0);
    entries
}

/// What a call has settled, by outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settled {
    all: u64,
    done: u64,
    failed: u64,
    retried: u64,
}

impl Settled {
    /// The effects of `refused` messages were refused.
    pub(super) fn of(finished: &[Finished], refused: u64) -> Self {
        let mut settled = Self {
            failed: refused,
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
        settled.done = settled.done.saturating_sub(refused);
        settled
    }

    pub(super) fn all(self) -> u32 {
        u32::try_from(self.all).unwrap_or(u32::MAX)
    }

    /// Counts it.
    pub(super) fn count(self, meter: &Meter) {
        meter.add(|figures| {
            figures.done += self.done;
            figures.failed += self.failed;
            figures.retried += self.retried;
        });
    }
}

/// Counts what a call has left in the hand of the node.
pub(super) fn count(meter: &Meter, pool: &Pool, settled: Settled, packs: &[Pack]) {
    let taken: u64 = packs.iter().map(|pack| pack.count() as u64).sum();
    let again = packs.iter().filter(|pack| pack.deliveries() > 1);
    let again: u64 = again.map(|pack| pack.count() as u64).sum();
    meter.in_hand.fetch_add(taken, Ordering::Relaxed);
    meter.in_hand.fetch_sub(settled.all, Ordering::Relaxed);
    meter.redelivered.fetch_add(again, Ordering::Relaxed);
    meter.add(|figures| pool.measured(figures));
}

/// An event for each message that a call has settled; those given back have none.
pub(super) fn settled(held: &Held, finished: Vec<Finished>, refused: &[(u64, String)]) -> Vec<Event> {
    let mut events = Vec::new();
    for run in finished {
        for number in run.first..run.first + u64::from(run.count) {
            let Some(message) = held.message(number) else {
                continue;
            };
            let refusal = refused.iter().find(|(refused, _)| *refused == number);
            let (epoch, deliveries, payload) = (message.epoch, message.deliveries, message.payload);
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
