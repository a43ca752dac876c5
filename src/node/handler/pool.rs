//! Between the lane and the slots: messages that wait for a slot, outcomes that wait for a call, and how many messages to
//! ask for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::measured::Measured;
use super::next::PoolSeen;
use super::slots::Share;
use super::speed::{LATE_MESSAGES_MAX, Speed, TAKE_MESSAGES_MAX};
use super::stretch::{Finished, Open, Stretch, Turn, nanos};
use crate::engine::SETTLES_PER_CALL_MAX;
use crate::engine::history::Figures;
use crate::message::{Outcome, PACK_MESSAGES_MAX, Pack, Told};
use crate::mutants::guard;
use crate::node::context::{Context, Reopening};
use crate::node::meter::Meter;
use crate::settings::Settings;

/// The most pieces that one call settles, about; each is a pack of its own in the store.
const SETTLED_PIECES_MAX: usize = TAKE_MESSAGES_MAX;
/// The most bytes that one call settles, about: the script holds them all in memory.
const SETTLED_BYTES_MAX: usize = 1024 * 1024;
/// If this many times as many messages wait for a slot as should, and more than a few, they are given back.
const OVERFULL: usize = 4;

#[derive(Debug)]
pub(super) struct Pool {
    concurrency: usize,
    batch: Option<u32>,
    pub pace: Turn,
    meter: Arc<Meter>,
    /// What the node was told of messages that are cancelled.
    pub told: Arc<Told>,
    pub reopening: Option<Reopening>,
    inner: Mutex<Inner>,
    changed: Notify,
    /// The slots are shared with the pools of other shards.
    share: Option<Share>,
}

/// The slots of a pool whose membership has ended are free again.
impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(share) = &self.share {
            share.others(0);
            // It stands in no line any more: others would wait behind it.
            share.start(0);
            share.end(self.lock().busy);
        }
    }
}

#[derive(Debug)]
struct Inner {
    /// The pack whose messages are being started.
    open: Option<Arc<Open>>,
    /// The packs behind it, and how many messages they have.
    queued: VecDeque<Pack>,
    queued_count: usize,
    /// How many messages calls on their way have asked for.
    asked: usize,
    /// How many slots are at work.
    busy: usize,
    finished: Vec<Finished>,
    finished_count: usize,
    /// When the first of `finished` had its outcome.
    finished_at: Option<Instant>,
    last_start: Instant,
    speed: Speed,
    measured: Measured,
}

impl Pool {
    /// The number of shards was changed, and the node has not followed yet.
    pub(super) fn is_resharded(&self) -> bool {
        self.reopening.as_ref().is_some_and(Reopening::is_wanted)
    }

    /// The store's time of day at this moment.
    pub(super) fn time_ms(&self, now: Instant) -> u64 {
        self.meter.time_ms(now)
    }

    pub(super) fn new(settings: &Settings, meter: &Arc<Meter>, share: Option<Share>) -> Self {
        let now = Instant::now();
        Self {
            share,
            meter: meter.clone(),
            told: Arc::default(),
            reopening: None,
            concurrency: settings.concurrency as usize,
            batch: settings.batch,
            pace: Turn::default(),
            changed: Notify::new(),
            inner: Mutex::new(Inner {
                open: None,
                queued: VecDeque::new(),
                queued_count: 0,
                asked: 0,
                busy: 0,
                finished: Vec::new(),
                finished_count: 0,
                finished_at: None,
                last_start: now,
                speed: Speed::default(),
                measured: Measured::default(),
            }),
        }
    }

    /// A pool whose slots look at what this node is told.
    pub(super) fn of<E>(context: &Context<E>, share: Option<Share>) -> Self {
        let mut pool = Self::new(&context.settings, &context.meter, share);
        pool.told = context.told.clone();
        pool.reopening = Some(context.reopening.clone());
        pool
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages may wait here for a slot; none if the settings say how many to take.
    fn ahead(&self, inner: &Inner) -> usize {
        if self.batch.is_some() {
            return 0;
        }
        let ahead = inner.speed.ahead(self.concurrency);
        match &self.share {
            None => ahead,
            Some(share) => share.ahead(inner.speed.is_known().then_some(ahead)),
        }
    }

    /// How many messages other shards have here, or have asked for.
    fn of_others(&self, inner: &Inner) -> usize {
        let held = || inner.busy + inner.ready();
        self.share.as_ref().map_or(0, |share| share.others(held()))
    }

    /// Every slot has been busy with the same message for long.
    fn is_stuck(&self, inner: &Inner, now: Instant) -> bool {
        let busy = match &self.share {
            None => inner.busy >= self.concurrency,
            Some(share) => share.are_busy(),
        };
        busy && now >= inner.stuck_at()
    }

    /// How many more slots are to work on what waits here.
    pub(super) fn start(&self, now: Instant) -> usize {
        let Some(share) = &self.share else { return 0 };
        let mut inner = self.lock();
        let start = share.start(inner.ready().min(self.concurrency.saturating_sub(inner.busy)));
        inner.busy += start;
        if start > 0 {
            inner.last_start = now;
        }
        start
    }

    /// What the lane decides by, in one look under one lock. `asks`: it asks for messages at once if it may, rather than wait for the bell.
    pub(super) fn look(&self, now: Instant, asks: bool) -> PoolSeen {
        let inner = self.lock();
        let (ahead, ready) = (self.ahead(&inner), inner.ready());
        let stuck = self.is_stuck(&inner, now);
        let settle_at = inner.finished_at.map(|at| at + inner.speed.patience());
        let stuck_at = (ready > 0).then(|| inner.stuck_at());
        let (want, turn_at) = if stuck {
            (0, None)
        } else {
            self.want(&inner, ahead, now, asks)
        };
        let wake = [settle_at, stuck_at, turn_at].into_iter().flatten().min();
        PoolSeen {
            want,
            settles: self.settles(&inner, now),
            ready: ready > 0,
            stuck: stuck || inner.overfull(self.concurrency + ahead),
            wake: wake.map(|at| at.max(now + Duration::from_millis(1))),
        }
    }

    /// How many messages to ask for; if there is room for few, they are left to others, or to the next call. Where it is another shard's turn, until when.
    fn want(&self, inner: &Inner, ahead: usize, now: Instant, asks: bool) -> (u32, Option<Instant>) {
        let own = inner.busy + inner.ready() + inner.asked;
        let room = (self.concurrency + ahead).saturating_sub(own + self.of_others(inner));
        let has_room = room > 0 && room >= inner.room_least(ahead);
        let own_room = (has_room, None);
        let (may_ask, until) = self
            .share
            .as_ref()
            .map_or(own_room, |share| share.may_ask(has_room, asks, now));
        if !may_ask {
            return (0, until);
        }
        let most = self.batch.map_or(inner.speed.most(), |batch| batch as usize);
        (u32::try_from(room.min(most)).expect("a few packs"), None)
    }

    /// This many outcomes are settled at once, rather than with the next take: as many as that would bring.
    fn enough(&self, inner: &Inner) -> usize {
        PACK_MESSAGES_MAX.max(self.ahead(inner) / 2)
    }

    /// Whether outcomes are to be settled now, rather than with the next take.
    fn settles(&self, inner: &Inner, now: Instant) -> bool {
        let idle = inner.busy == 0 && inner.ready() == 0;
        !inner.finished.is_empty()
            && (idle
                || inner.finished_count >= self.enough(inner)
                || inner.finished.len() >= SETTLES_PER_CALL_MAX
                || inner.finished_at.is_some_and(|at| now >= at + inner.speed.patience()))
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The outcomes to settle, sorted by number, at most as many as one call carries; with `give_back`, also the messages
    /// that no slot has started, as returned.
    #[cfg(any(test, feature = "cli"))]
    pub(super) fn collect(&self, give_back: bool, now: Instant) -> Vec<Finished> {
        self.collect_pieces(give_back, now, |run| Some(run.count as usize))
    }

    /// The same, where it is known of how many pieces a run is; none: it has to wait.
    pub(super) fn collect_pieces(
        &self,
        give_back: bool,
        now: Instant,
        count: impl Fn(&Finished) -> Option<usize>,
    ) -> Vec<Finished> {
        let mut inner = self.lock();
        if give_back {
            let open = inner.open.take();
            let open = open.map(|open| (open.pack().clone(), open.close()));
            let queued = std::mem::take(&mut inner.queued).into_iter().map(|pack| (pack, 0));
            inner.queued_count = 0;
            for (pack, next) in open.into_iter().chain(queued) {
                if next < pack.count() {
                    inner.finished.push(Finished {
                        first: pack.first() + next as u64,
                        count: u32::try_from(pack.count() - next).expect("within a pack"),
                        bytes: pack.bytes().len(),
                        outcome: Outcome::Return,
                    });
                }
            }
        }
        let (mut runs, mut pieces, mut bytes) = (0, 0, 0);
        let mut fits = |run: &mut Finished| {
            let full = runs == SETTLES_PER_CALL_MAX || pieces >= SETTLED_PIECES_MAX || bytes >= SETTLED_BYTES_MAX;
            let Some(of) = Some(&*run).filter(|_| !full).and_then(&count) else {
                return false;
            };
            (runs, pieces, bytes) = (runs + 1, pieces + of, bytes + run.bytes);
            true
        };
        let mut finished: Vec<Finished> = inner.finished.extract_if(.., |run| fits(run)).collect();
        inner.finished_at = (!inner.finished.is_empty()).then_some(now);
        inner.finished_count = inner.finished.iter().map(|run| run.count as usize).sum();
        drop(inner);
        finished.sort_unstable_by_key(|run| run.first);
        finished
    }

    /// A call that asks for so many messages is on its way.
    pub(super) fn asks(&self, want: u32) {
        self.lock().asked += want as usize;
    }

    /// It was answered, or given up.
    pub(super) fn was_answered(&self, asked: u32) {
        self.lock().asked -= asked as usize;
    }

    pub(super) fn is_far(&self) -> bool {
        self.lock().speed.is_far()
    }

    /// A call to the store takes so long.
    pub(super) fn reaches(&self, trip: Duration) {
        self.lock().speed.reaches(trip);
    }

    /// Whether the last take emptied the queue.
    pub(super) fn took_all(&self, all: bool) {
        self.lock().speed.took_all(all);
    }

    /// Adds messages that were taken. Returns how many slots are to be started for them.
    pub(super) fn add(&self, packs: Vec<Pack>, now: Instant) -> usize {
        let mut inner = self.lock();
        if self.share.is_some() && inner.ready() == 0 {
            inner.last_start = now;
        }
        for pack in packs {
            inner.queued_count += pack.count();
            inner.queued.push_back(pack);
        }
        let mut start = inner.ready();
        if guard("slots") {
            start = start.min(self.concurrency.saturating_sub(inner.busy));
            if let Some(share) = &self.share {
                start = share.start(start);
            }
        }
        inner.busy += start;
        if start > 0 {
            inner.last_start = now;
        }
        self.of_others(&inner);
        start
    }

    /// Takes in what a slot has done, and hands out the pack to go on with. None ends the slot.
    pub(super) fn advance(&self, stretch: &mut Stretch) -> Option<Arc<Open>> {
        let now = if stretch.is_empty() {
            stretch.began
        } else {
            Instant::now()
        };
        let mut inner = self.lock();
        let has_worked = !stretch.is_empty();
        let wakes = self.take_in(&mut inner, stretch, 1, now);
        // Other shards wait for a slot: theirs is the next pack. One that has just begun has its turn now.
        let gives_way = |share: &Share| has_worked && inner.is_between_packs() && share.gives_way();
        let open = if self.share.as_ref().is_some_and(gives_way) {
            None
        } else {
            inner.open_next()
        };
        if let Some(open) = &open {
            stretch.open(open.pack());
            inner.last_start = now;
        } else {
            inner.busy -= 1;
            if let Some(share) = &self.share {
                share.others(inner.busy + inner.ready());
                share.end(1);
            }
        }
        drop(inner);
        if wakes || open.is_none() {
            self.changed.notify_one();
        }
        open
    }

    /// Takes in what a slot has done before its handler makes it wait. If it has done nothing, the pool is left alone.
    pub(super) fn pause(&self, stretch: &mut Stretch) {
        if stretch.ended == 0 {
            stretch.rest();
        } else if self.take_in(&mut self.lock(), stretch, 0, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// Adds a slot's outcomes. True: the lane is to be woken, because these are the first, or enough for a call, or because
    /// there is room for more messages; `free` slots have become free.
    fn take_in(&self, inner: &mut Inner, stretch: &mut Stretch, free: usize, now: Instant) -> bool {
        let waited = inner.measured.waited(stretch, &self.meter);
        if stretch.started > 0 {
            inner.speed.waited(waited.unwrap_or_default());
        }
        let took = now.saturating_duration_since(stretch.began);
        let (ended, was_empty) = (stretch.ended > 0, inner.finished.is_empty());
        if ended {
            inner.finished(stretch, took, now);
        }
        stretch.close(took);
        let ahead = self.ahead(inner);
        let room = (self.concurrency + ahead + free).saturating_sub(inner.busy + inner.ready() + inner.asked);
        let overfull = inner.overfull(self.concurrency + ahead);
        ended && (was_empty || overfull || room > inner.room_least(ahead) || inner.finished_count >= self.enough(inner))
    }

    /// Adds what was measured since the last time to `figures`.
    pub(super) fn measured(&self, figures: &mut Figures) {
        self.lock().measured.add_to(figures);
    }
}

impl Inner {
    /// For less room than this nothing is asked for. Far away a call takes long, and the next one longer.
    fn room_least(&self, ahead: usize) -> usize {
        if self.speed.is_far() { ahead / 8 } else { ahead / 2 }
    }

    /// How many messages wait for a slot here.
    fn ready(&self) -> usize {
        self.queued_count + self.open.as_ref().map_or(0, |open| open.left())
    }

    fn open_next(&mut self) -> Option<Arc<Open>> {
        if self.is_between_packs() {
            self.open = self.queued.pop_front().map(|pack| {
                self.queued_count -= pack.count();
                Arc::new(Open::new(pack))
            });
        }
        self.open.clone()
    }

    fn finished(&mut self, stretch: &mut Stretch, took: Duration, now: Instant) {
        let took_ns = nanos(took);
        self.speed.took(stretch.ended, took_ns);
        self.measured.handled(stretch.ended, took_ns);
        self.finished_count += stretch.ended as usize;
        self.finished_at.get_or_insert(now);
        for run in stretch.finished.drain(..) {
            run.add_to(&mut self.finished);
        }
    }

    fn stuck_at(&self) -> Instant {
        self.last_start + self.speed.stuck_after()
    }

    /// Whether the next message is of another pack than the last.
    fn is_between_packs(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.left() == 0)
    }

    /// Whether far more messages wait here than would be fetched ahead at the speed of now: they were fetched when messages
    /// took less time.
    fn overfull(&self, allowed: usize) -> bool {
        self.ready() > LATE_MESSAGES_MAX.max(OVERFULL * allowed)
    }
}
