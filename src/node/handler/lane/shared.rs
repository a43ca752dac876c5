//! A lane of a node that works on several shards: its slots are shared with the lanes of the others.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::Lane;
use crate::engine::Engine;
use crate::error::Result;
use crate::message::within;
use crate::node::context::Context;
use crate::node::handle::Handle;
use crate::node::handler::call::Landed;
use crate::node::handler::slot::slot;
use crate::node::handler::slots::Share;
use crate::node::kept::Line;

/// A store that is there answers sooner, or is busy.
const LATE_MIN: Duration = Duration::from_millis(50);

/// A call, which asks for messages. What it has asked for leaves no room to the others: if it is not answered soon, they get it, since it may not be
/// for long.
pub(super) async fn lending<T>(share: Option<Share>, late: Duration, call: impl Future<Output = T>) -> T {
    let Some(share) = share else { return call.await };
    let mut call = pin!(call);
    if let Ok(done) = tokio::time::timeout(late, &mut call).await {
        return done;
    }
    share.answered(usize::MAX);
    share.passes();
    call.await
}

/// What a lane has of its handler.
#[derive(Clone, Copy)]
pub(in crate::node::handler) struct Own<'a> {
    /// Where outcomes wait to be told until replicas have them.
    pub line: Option<&'a Line>,
    /// Where the node works on several shards: its slots are shared.
    pub share: Option<&'a Share>,
    /// How many messages this lane has in hand, as the meter counts them.
    pub in_hand: &'a AtomicU64,
}

impl Own<'_> {
    /// What the membership before had in hand is in other hands, and what it was told of that is no concern of this one.
    pub(super) fn begin<E>(&self, context: &Context<E>) {
        let before = self.in_hand.swap(0, Ordering::Relaxed);
        context.meter.in_hand.fetch_sub(before, Ordering::Relaxed);
        context.told.forget();
    }

    /// Until other shards leave a slot, or room for messages, to this one.
    pub(super) async fn woken(&self) {
        match self.share {
            Some(share) => share.woken().await,
            None => std::future::pending().await,
        }
    }
}

impl<E: Engine, H: Handle> Lane<'_, E, H> {
    /// Starts so many slots.
    pub(super) fn start(&mut self, slots: usize) {
        let observer = &self.context.observer;
        for _ in 0..slots {
            let told = observer.wants_starts().then(|| (self.node.clone(), observer.clone()));
            let (pool, settings) = (self.pool.clone(), self.context.settings.clone());
            let slot = slot(pool, self.handle.clone(), settings, told);
            self.slots.spawn(within(self.context.told.clone(), slot));
        }
    }

    /// Uses the slots that others have left to this lane.
    pub(super) fn start_shared(&mut self) {
        if self.own.share.is_some() {
            self.start(self.pool.start(Instant::now()));
        }
    }

    /// The next answer to a call on its way.
    pub(super) async fn next_landed(&mut self) -> Option<Result<Landed>> {
        loop {
            tokio::select! {
                biased;
                landed = self.flight.next() => return landed,
                () = self.own.woken() => {}
            }
            if let Some(share) = self.own.share {
                share.steps_back();
            }
            self.start_shared();
        }
    }

    /// Waits for a call. A store that is away answers late: a slot that is this lane's next must not wait for it, since others stand behind it.
    pub(super) async fn during<T>(&mut self, call: impl Future<Output = T>) -> T {
        let Some(share) = self.own.share else {
            return call.await;
        };
        let mut call = pin!(call);
        loop {
            tokio::select! {
                biased;
                done = &mut call => return done,
                () = share.woken() => {}
            }
            share.steps_back();
            self.start_shared();
        }
    }

    /// A call that takes longer than this may be at a store that is away.
    pub(super) fn late(&self) -> Duration {
        LATE_MIN.max(4 * self.context.engine.trip())
    }

    /// Leaves the room for messages to others.
    pub(super) fn passes(&self) {
        if let Some(share) = self.own.share {
            share.passes();
        }
    }

    /// A call that asks for so many messages is on its way; one that waits at the bell leaves the room to others.
    pub(super) fn asks(&self, asked: u32, at_the_bell: bool) {
        self.pool.asks(asked);
        if let Some(share) = self.own.share {
            if at_the_bell {
                share.passes();
            } else {
                share.asks(asked as usize, Instant::now());
            }
        }
    }

    /// What it brought is in the pool.
    pub(super) fn was_answered(&self, asked: u32) {
        if let Some(share) = self.own.share {
            share.answered(asked as usize);
        }
    }

    /// Whether the node may end with its work: where there are several shards, all of them must be empty.
    pub(super) fn ends_when_empty(&self) -> bool {
        let is_empty = || self.dry && self.held.is_empty();
        let share = self.own.share;
        self.context.settings.burst && share.is_none_or(|share| share.all_idle(is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::handler::slots::Slots;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_soon_leaves_its_room_to_other_shards() {
        let slots = Arc::new(Slots::new(1, 2));
        let share = |lane| Share {
            slots: slots.clone(),
            lane,
        };
        share(0).asks(1, Instant::now());
        assert_eq!(share(1).others(0), 1);
        let call = lending(Some(share(0)), LATE_MIN, std::future::pending::<()>());
        let waited = tokio::time::timeout(2 * LATE_MIN, call).await;
        assert!(waited.is_err(), "it goes on waiting");
        assert_eq!(share(1).others(0), 0);
        assert!(share(1).may_ask(true, true, Instant::now()).0, "and its turn is over");
    }
}
