//! What the other parts of the node ask of its membership.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::{NodeId, Seen};

/// A message tells of an epoch that a beat has not told of yet. More reigns than this do not pass between two beats, and what tells of
/// more was written by somebody else.
const REIGNS_MAX: u64 = 64;

/// Can be asked for from anywhere; the membership looks at it before each beat.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    beat_now: Notify,
    /// Grows for as long as the runtime that generates and handles makes progress.
    turns: AtomicU64,
    /// How many publishes are on their way.
    publishes: AtomicUsize,
    requested: Mutex<Requested>,
}

/// Everything that was asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requested {
    pub resign: bool,
    pub leave: bool,
    /// The membership that no longer works.
    pub abandon: Option<NodeId>,
    /// The highest number and epoch that this node knows of.
    pub seen: Seen,
    /// When the store was last away.
    pub away: Option<Instant>,
    /// When this member joined again after its queue was removed.
    pub purged: Option<Instant>,
    /// The last membership in a queue that was removed: what comes late from there says nothing about the queue that is.
    pub past: Option<NodeId>,
    /// The last epoch in which this process was the generator; 0: none.
    pub reigned: u64,
    /// The number behind the last message that it has published in this reign, whether it was told or not.
    pub published: u64,
}

impl Requests {
    /// Of a node that works on the same store again: what it has seen there it has still seen, and the store may still have gone back in time meanwhile.
    pub(crate) fn after(before: &Self) -> Self {
        let Requested { seen, away, .. } = before.requested();
        let known = Requested {
            seen,
            away,
            ..Requested::default()
        };
        Self {
            requested: Mutex::new(known),
            ..Self::default()
        }
    }

    /// The store does not answer.
    pub(crate) fn is_away(&self) {
        self.lock().away = Some(Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, Requested> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, change: impl FnOnce(&mut Requested)) {
        change(&mut self.lock());
        self.beat_now();
    }

    /// Beat without waiting for the time.
    pub(crate) fn beat_now(&self) {
        self.beat_now.notify_one();
    }

    /// Give up the crown and never take it again.
    pub(crate) fn resign(&self) {
        self.request(|requested| requested.resign = true);
    }

    /// End the membership, and the beat.
    pub(crate) fn leave(&self) {
        self.request(|requested| requested.leave = true);
    }

    /// The store does not know this membership any more: get another.
    pub(crate) fn abandon(&self, node: &str) {
        self.request(|requested| requested.abandon = Some(node.into()));
    }

    /// The number behind the last message seen, as this member: so a store that went back in time is noticed.
    pub(crate) fn saw(&self, node: &str, seq: u64) {
        self.saw_made(node, seq, 0);
    }

    /// The same of messages that were taken, published in this epoch. A store that went back to an earlier reign must hear of it from the
    /// next beat: that reign must not fill numbers with messages of its own under which this node has seen others.
    pub(crate) fn took(&self, node: &str, seq: u64, epoch: u64) {
        self.saw(node, seq);
        let mut requested = self.lock();
        if requested.past.as_deref() != Some(node) && epoch <= requested.seen.epoch.saturating_add(REIGNS_MAX) {
            requested.seen.epoch = requested.seen.epoch.max(epoch);
        }
    }

    /// The same, and how many messages generators have made, which pushes do not move.
    pub(crate) fn saw_made(&self, node: &str, seq: u64, made: u64) {
        let mut requested = self.lock();
        if requested.past.as_deref() == Some(node) {
            return;
        }
        requested.seen.seq = requested.seen.seq.max(seq);
        requested.seen.made = requested.seen.made.max(made);
    }

    /// The queue was removed: what was seen there, and may still be told by its member, is forgotten.
    pub(super) fn forget(&self, member: NodeId) {
        let mut requested = self.lock();
        requested.seen = Seen::default();
        (requested.past, requested.reigned, requested.published) = (Some(member), 0, 0);
        requested.purged = Some(Instant::now());
    }

    /// The runtime that generates and handles makes progress.
    pub(crate) fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// A publish is on its way, or is no more.
    pub(crate) fn publishes(&self, is_on_its_way: bool) {
        if is_on_its_way {
            self.publishes.fetch_add(1, Ordering::Relaxed);
        } else {
            self.publishes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn is_publishing(&self) -> bool {
        self.publishes.load(Ordering::Relaxed) > 0
    }

    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub(crate) fn requested(&self) -> Requested {
        self.lock().clone()
    }

    /// The highest epoch that the store, or a message, has told of.
    pub(super) fn saw_epoch(&self, epoch: u64) {
        let seen = &mut self.lock().seen;
        seen.epoch = seen.epoch.max(epoch);
    }

    pub(super) fn reigned(&self, epoch: u64) {
        let mut requested = self.lock();
        (requested.reigned, requested.published) = (epoch, 0);
    }

    /// The store has published messages of this epoch below this number. They are told when replicas have them; until then this node
    /// can publish them again.
    pub(crate) fn published(&self, epoch: u64, seq: u64) {
        let mut requested = self.lock();
        if requested.reigned == epoch {
            requested.published = requested.published.max(seq);
        }
    }

    /// The queue's birth, as the store told it at the join.
    pub(super) fn saw_birth(&self, birth: String) {
        self.request(|requested| requested.seen.birth = birth);
    }

    /// Returns when something was asked for that cannot wait for the next beat.
    pub(super) async fn waiting(&self) {
        self.beat_now.notified().await;
    }
}
