//! Whether any message is missing *now*: compares the books with the store while the copies work.
//!
//! What is open in the books and not in the store was settled a moment ago: the copy that did it is about to write it down,
//! or was killed and left an intent. What is still unexplained seconds later is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::app::lab::ledger::{Ledger, Numbers};
use crate::engine::Engine;
use crate::error::Result;

const EVERY: Duration = Duration::from_secs(2);
/// The store walks over everything to answer: with more than this, the end must do.
const OPEN_MAX: u64 = 20_000;

/// Messages without an outcome: first and count.
type Answer = Result<Vec<(u64, u64)>>;

pub(super) struct LossCheck<E> {
    engine: Arc<E>,
    next: Instant,
    /// What was open when the store was asked, and its answer.
    asked: Option<(Numbers, oneshot::Receiver<Answer>)>,
    /// Open then, and not in the store.
    suspects: Numbers,
    /// None: too much is open to look at now.
    pub(super) lost: Option<u64>,
}

impl<E: Engine> LossCheck<E> {
    pub(super) fn new(engine: Arc<E>) -> Self {
        Self {
            engine,
            next: Instant::now() + EVERY,
            asked: None,
            suspects: Numbers::default(),
            lost: Some(0),
        }
    }

    pub(super) fn look(&mut self, now: Instant, ledger: &Ledger) {
        if let Some((open, answer)) = &mut self.asked {
            match answer.try_recv() {
                Ok(Ok(runs)) => {
                    self.suspects = open.minus(&[&Numbers::of(runs)]);
                    self.asked = None;
                }
                Err(oneshot::error::TryRecvError::Empty) => {}
                // A store that does not answer proves nothing.
                Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {
                    self.suspects = Numbers::default();
                    self.asked = None;
                }
            }
        }
        if now < self.next || self.asked.is_some() {
            return;
        }
        self.next = now + EVERY;
        self.lost = Some(ledger.unexplained(&self.suspects).len());
        let open = ledger.open();
        if open.len() > OPEN_MAX {
            self.lost = None;
            self.suspects = Numbers::default();
            return;
        }
        let (sender, receiver) = oneshot::channel();
        let engine = self.engine.clone();
        tokio::spawn(async move { sender.send(engine.unsettled().await) });
        self.asked = Some((open, receiver));
    }
}
