//! Take → handle → settle: what a handler does.
//!
//! ```text
//!  store ◀── exchange ──▶ lane ──▶ pool ──▶ slots: one message after the other through the user's handler
//!                          ▲                  │
//!                          └─── outcomes ─────┘
//! ```
//!
//! One lane of calls to the store feeds any number of slots, far away several of them. A call settles whatever has finished in any slot since the
//! last one, and brings the messages that come next. [`next`] decides when to call; [`speed`] how many to ask for;
//! [`budget`] how many bytes; [`call`] sends it until it is answered.

mod account;
mod bell;
mod budget;
mod call;
mod held;
mod lane;
mod measured;
mod next;
mod patience;
mod pool;
mod slot;
mod slots;
mod speed;
mod stretch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::error::Result;
use crate::mutants::guard;
use crate::node::context::Context;
use crate::node::handle::Handle;
use crate::node::kept::{EXCHANGES_MAX, Line};
use bell::Bell;
use lane::{Ended, Lane, Own};
use pool::Pool;
pub(crate) use slots::{Share, Slots};

/// Handles messages under one membership after the other.
pub(crate) struct Handler<E, H> {
    context: Context<E>,
    handle: Arc<H>,
    bell: Arc<Bell>,
    pool: Arc<Pool>,
    slots: JoinSet<()>,
    line: Option<Line>,
    /// The slots, if the node works on several shards.
    share: Option<Share>,
    /// How many messages of this shard are in hand.
    in_hand: AtomicU64,
}

impl<E: Engine, H: Handle> Handler<E, H> {
    pub(crate) fn new(context: Context<E>, handle: Arc<H>, share: Option<Share>) -> Self {
        Self {
            bell: Arc::default(),
            pool: Arc::new(Pool::of(&context, share.clone())),
            slots: JoinSet::new(),
            line: None,
            share,
            in_hand: AtomicU64::new(0),
            handle,
            context,
        }
    }

    /// Handles until the node is to stop and nothing is in hand any more.
    pub(crate) async fn run(mut self) -> Result<()> {
        self.line = Line::of(&self.context, EXCHANGES_MAX);
        let ended = self.memberships().await;
        if let Some(line) = &mut self.line {
            line.told(&ended).await;
        }
        ended
    }

    async fn memberships(&mut self) -> Result<()> {
        let mut listener = JoinSet::new();
        let (engine, settings) = (self.context.engine.clone(), self.context.settings.clone());
        listener.spawn(bell::listen(engine, settings, self.bell.clone()));
        let mut node = String::new();
        loop {
            let mut shutdown = self.context.shutdown.clone();
            tokio::select! {
                biased;
                next = self.context.standing.wait_for(|standing| standing.node != node) => match next {
                    Ok(standing) => node.clone_from(&standing.node),
                    Err(_) => return Ok(()),
                },
                () = shutdown.stopping() => return Ok(()),
            }
            let (handle, bell) = (&self.handle, &self.bell);
            let lane = Lane::new(
                &node,
                &self.context,
                handle,
                bell,
                &self.pool,
                &mut self.slots,
                Own {
                    line: self.line.as_ref(),
                    share: self.share.as_ref(),
                    in_hand: &self.in_hand,
                },
            );
            if lane.run().await? == Ended::Stopped {
                return Ok(());
            }
            // The membership is lost: what was in hand is handed to others, and the slots end here.
            if guard("new-pool") {
                self.pool = Arc::new(Pool::of(&self.context, self.share.clone()));
                self.slots = JoinSet::new();
            }
            if guard("abandon") {
                self.context.requests.abandon(&node);
            }
        }
    }
}

/// A handler that is given up, as one that has more in hand than --grace allows when the number of shards is changed, leaves it to others. The process may go on,
/// and its meter with it.
impl<E, H> Drop for Handler<E, H> {
    fn drop(&mut self) {
        let left = self.in_hand.swap(0, Ordering::Relaxed);
        self.context.meter.in_hand.fetch_sub(left, Ordering::Relaxed);
    }
}

/// Handles packs as a node does, one message after the other, without a store: for measuring what that costs. Returns the
/// settles that a call would carry.
#[cfg(feature = "cli")]
pub(crate) async fn dispatch<H: Handle>(
    settings: &Arc<crate::settings::Settings>,
    handle: &Arc<H>,
    packs: Vec<crate::message::Pack>,
) -> Vec<crate::engine::Settle> {
    use std::time::Duration;
    use tokio::time::Instant;

    let (mut pool, mut held) = (Pool::new(settings, &Arc::default(), None), held::Held::default());
    // As fast as it goes, however slow the machine that counts.
    (pool.pace.stretch, pool.pace.turn) = (Duration::from_hours(1), Duration::from_hours(1));
    let pool = Arc::new(pool);
    for pack in &packs {
        held.insert(pack.clone());
    }
    for _ in 0..pool.add(packs, Instant::now()) {
        slot::slot(pool.clone(), handle.clone(), settings.clone(), None).await;
    }
    let finished = pool.collect(false, Instant::now());
    held.settles(&finished)
}
