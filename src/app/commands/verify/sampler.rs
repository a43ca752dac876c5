//! Asks the store for its status all the time, and remembers the counts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

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
    snapshots: watch::Receiver<Option<Snapshot>>,
    task: JoinHandle<()>,
    samples: Arc<std::sync::Mutex<Vec<Sample>>>,
}

impl Sampler {
    pub(super) fn start<E: Engine>(engine: Arc<E>, every: Duration) -> Self {
        let (sender, snapshots) = watch::channel(None);
        let samples = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = samples.clone();
        let task = tokio::spawn(async move {
            loop {
                // A store that does not answer is part of the game.
                if let Ok(status) = engine.status().await {
                    let snapshot = Snapshot::of(&status);
                    let mut kept = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    kept.push(snapshot.sample);
                    drop(kept);
                    sender.send_replace(Some(snapshot));
                }
                tokio::time::sleep(every).await;
            }
        });
        Self {
            snapshots,
            task,
            samples,
        }
    }

    pub(super) fn last(&self) -> Option<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Ends it. What was seen, in order.
    pub(super) fn end(self) -> Vec<Sample> {
        self.task.abort();
        let mut samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut *samples)
    }
}

impl Snapshot {
    fn of(status: &Status) -> Self {
        let generator = status.generator.as_ref().and_then(|generator| {
            let node = status.nodes.iter().find(|node| node.node == *generator)?;
            Some(node.pid)
        });
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
            generator,
        }
    }
}
