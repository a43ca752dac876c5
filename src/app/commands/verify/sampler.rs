//! Asks the store for its status all the time, and remembers the counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::app::lab::fleet::{generator_pid, is_in_part};
use crate::app::lab::ledger::checks::Sample;
use crate::app::output::time::now_ms;
use crate::engine::{Engine, Status};

/// The store at one moment.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) sample: Sample,
    /// The process that generates.
    pub(super) generator: Option<u32>,
}

pub(super) struct Sampler {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    last: Option<Snapshot>,
    samples: Vec<Sample>,
}

impl Sampler {
    pub(super) fn start<E: Engine>(engine: Arc<E>, every: Duration) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let told = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                // A store that does not answer is part of the game.
                if let Ok(status) = engine.status().await
                    && !is_in_part(&status)
                {
                    let snapshot = Snapshot::of(&status);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.samples.push(snapshot.sample);
                    told.last = Some(snapshot);
                }
                tokio::time::sleep(every).await;
            }
        });
        Self { task, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last(&self) -> Option<Snapshot> {
        self.seen().last.clone()
    }

    /// Ends it. What was seen, in order.
    pub(super) fn end(self) -> Vec<Sample> {
        self.task.abort();
        std::mem::take(&mut self.seen().samples)
    }
}

impl Snapshot {
    fn of(status: &Status) -> Self {
        Self {
            at: Instant::now(),
            sample: Sample {
                ms: now_ms(),
                epoch: status.epoch,
                published: status.published,
                queued: status.queued,
                in_hand: status.in_hand,
                later: status.later,
                done: status.done,
                failed: status.failed,
            },
            generator: generator_pid(status),
        }
    }
}
