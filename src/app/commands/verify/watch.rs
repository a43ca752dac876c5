//! Looks at the store all the time, and remembers what it saw.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::app::lab::ledger::checks::Sample;
use crate::app::output::time::now_ms;
use crate::engine::{Engine, Status};

/// The last look, and when it was.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) sample: Sample,
    pub(super) generator: Option<u32>,
}

pub(super) struct Watch {
    looks: watch::Receiver<Option<Look>>,
    task: JoinHandle<()>,
    samples: Arc<std::sync::Mutex<Vec<Sample>>>,
}

impl Watch {
    pub(super) fn start<E: Engine>(engine: Arc<E>, every: Duration) -> Self {
        let (sender, looks) = watch::channel(None);
        let samples = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = samples.clone();
        let task = tokio::spawn(async move {
            loop {
                // A store that does not answer is part of the game.
                if let Ok(status) = engine.status().await {
                    let look = Look::of(&status);
                    let mut kept = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    kept.push(look.sample);
                    drop(kept);
                    sender.send_replace(Some(look));
                }
                tokio::time::sleep(every).await;
            }
        });
        Self { looks, task, samples }
    }

    pub(super) fn last(&self) -> Option<Look> {
        self.looks.borrow().clone()
    }

    /// Ends it. What was seen, in order.
    pub(super) fn end(self) -> Vec<Sample> {
        self.task.abort();
        let mut samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut *samples)
    }
}

impl Look {
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
