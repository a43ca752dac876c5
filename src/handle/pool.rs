//! Between the lane and the slots: what is ready to be started, what has finished, and how much to ask for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::{Settings, ms};
use crate::engine::SETTLES_PER_CALL_MAX;
use crate::engine::history::{BOUNDS_US, Figures, Times, class};
use crate::message::{Message, Outcome, PACK_MESSAGES_MAX, Pack};
use crate::meter::Meter;
use crate::mutants::guard;

/// Work is fetched ahead for so long, at the measured speed: nothing waits longer behind other messages here.
const AHEAD: Duration = Duration::from_millis(5);
/// At most so many messages ahead: one pack in work, one on its way.
const AHEAD_MAX: usize = 2 * PACK_MESSAGES_MAX;
/// One call settles at most so many messages, each of which may be a pack of its own in the store.
const SETTLED_MESSAGES_MAX: usize = 4 * PACK_MESSAGES_MAX;
/// And about so many bytes: the script has them all in hand.
const SETTLED_BYTES_MAX: usize = 1024 * 1024;
/// If no slot came free for so long, what was fetched ahead is given back.
const STUCK: Duration = Duration::from_millis(20);

/// The bound of the first class.
const FAST: Duration = Duration::from_micros(BOUNDS_US[0]);
/// The wait of a message is good for those that are started from the same pack within this time: it is exact to a
/// millisecond anyway.
const SAME_WAIT: Duration = Duration::from_millis(1);

/// A run of messages that ended alike.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    pub first: u64,
    pub count: u32,
    /// Payload, which a script has to move.
    pub bytes: usize,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub(super) struct Pool {
    concurrency: usize,
    batch: Option<u32>,
    meter: Arc<Meter>,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    /// Packs, and how far each has been started.
    ready: VecDeque<(Pack, usize)>,
    ready_count: usize,
    /// Slots at work.
    busy: usize,
    finished: Vec<Finished>,
    finished_count: usize,
    /// When the first of `finished` did.
    finished_at: Option<Instant>,
    last_start: Instant,
    /// What one message takes in nanoseconds, in a moving average; none before the first. A whole number, since every message
    /// divides by it.
    message_ns: Option<u64>,
    measured: Measured,
}

/// What was measured since it was last asked for.
#[derive(Debug)]
struct Measured {
    /// What handling took. Its sum is kept beside it, in nanoseconds.
    handle: Times,
    handle_ns: u64,
    wait: Times,
    /// How long the messages that are being started have waited, in microseconds, until when that is good, and how many it
    /// is good for by now.
    waited: (Option<u64>, Instant, u64),
}

impl Measured {
    fn new(now: Instant) -> Self {
        Self {
            handle: Times::default(),
            handle_ns: 0,
            wait: Times::default(),
            waited: (None, now, 0),
        }
    }

    /// Most handlers that are called a million times a second are done within the first class.
    fn handled(&mut self, took: Duration, took_ns: u64) {
        if took <= FAST {
            self.handle.counts[0] += 1;
        } else {
            self.handle.counts[class(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))] += 1;
        }
        self.handle_ns = self.handle_ns.wrapping_add(took_ns);
    }

    /// Counts those that waited alike.
    fn close_wait(&mut self) {
        let (us, _, count) = self.waited;
        if let Some(us) = us {
            self.wait.counts[class(us)] += count;
            self.wait.sum_us = self.wait.sum_us.saturating_add(us.saturating_mul(count));
        }
        self.waited.2 = 0;
    }
}

impl Pool {
    pub(super) fn new(settings: &Settings, meter: &Arc<Meter>) -> Self {
        let now = Instant::now();
        Self {
            meter: meter.clone(),
            concurrency: settings.concurrency as usize,
            batch: settings.batch,
            changed: Notify::new(),
            inner: Mutex::new(Inner {
                ready: VecDeque::new(),
                ready_count: 0,
                busy: 0,
                finished: Vec::new(),
                finished_count: 0,
                finished_at: None,
                last_start: now,
                message_ns: None,
                measured: Measured::new(now),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages may wait here for a slot.
    fn ahead(&self, inner: &Inner) -> usize {
        match (self.batch, inner.message_ns) {
            (Some(_), _) | (None, None) => 0,
            (None, Some(each)) => {
                let ahead = nanos(AHEAD).saturating_mul(self.concurrency as u64) / each.max(1);
                usize::try_from(ahead).unwrap_or(usize::MAX).min(AHEAD_MAX)
            }
        }
    }

    /// How many messages to ask for now; few are left to others, or to the next call.
    pub(super) fn want(&self, now: Instant) -> u32 {
        let inner = self.lock();
        if inner.stuck(self.concurrency, now) {
            return 0;
        }
        let ahead = self.ahead(&inner);
        let room = (self.concurrency + ahead).saturating_sub(inner.busy + inner.ready_count);
        if room == 0 || room < ahead / 2 {
            return 0;
        }
        let most = self.batch.map_or(PACK_MESSAGES_MAX, |batch| batch as usize);
        u32::try_from(room.min(most)).expect("at most a pack")
    }

    /// Whether outcomes are to be settled now, rather than with the next take.
    pub(super) fn has_settled(&self, now: Instant) -> bool {
        let inner = self.lock();
        let idle = inner.busy == 0 && inner.ready_count == 0;
        !inner.finished.is_empty()
            && (idle
                || inner.finished_count >= PACK_MESSAGES_MAX
                || inner.finished.len() >= SETTLES_PER_CALL_MAX
                || inner.finished_at.is_some_and(|at| now >= at + AHEAD))
    }

    pub(super) fn has_ready(&self) -> bool {
        self.lock().ready_count > 0
    }

    /// Every slot has been busy with the same message for long, and others wait behind them.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.lock().stuck(self.concurrency, now)
    }

    /// When to look again even if nothing changes.
    pub(super) fn wake_at(&self, now: Instant) -> Option<Instant> {
        let inner = self.lock();
        let settle = inner.finished_at.map(|at| at + AHEAD);
        let stuck = (inner.ready_count > 0).then(|| inner.last_start + STUCK);
        let wake = [settle, stuck].into_iter().flatten().min();
        wake.map(|at| at.max(now + Duration::from_millis(1)))
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What is to be settled, sorted by number, at most as much as one call carries; with `give_back`, also what was
    /// not started.
    pub(super) fn collect(&self, give_back: bool, now: Instant) -> Vec<Finished> {
        let mut inner = self.lock();
        if give_back {
            for (pack, next) in std::mem::take(&mut inner.ready) {
                inner.finished.push(Finished {
                    first: pack.first() + next as u64,
                    count: u32::try_from(pack.count() - next).expect("within a pack"),
                    bytes: pack.bytes().len(),
                    outcome: Outcome::Return,
                });
            }
            inner.ready_count = 0;
        }
        let (mut messages, mut bytes) = (0, 0);
        let fits = |run: &&Finished| {
            let fits = messages < SETTLED_MESSAGES_MAX && bytes < SETTLED_BYTES_MAX;
            messages += run.count as usize;
            bytes += run.bytes;
            fits
        };
        let finished = inner.finished.iter();
        let runs = finished.take(SETTLES_PER_CALL_MAX).take_while(fits).count();
        let rest = inner.finished.split_off(runs);
        let mut finished = std::mem::replace(&mut inner.finished, rest);
        inner.finished_at = (!inner.finished.is_empty()).then_some(now);
        inner.finished_count = inner.finished.iter().map(|run| run.count as usize).sum();
        drop(inner);
        finished.sort_unstable_by_key(|run| run.first);
        finished
    }

    /// New work. Returns how many slots are to be started for it.
    pub(super) fn add(&self, packs: Vec<Pack>, now: Instant) -> usize {
        let mut inner = self.lock();
        for pack in packs {
            inner.ready_count += pack.count();
            inner.ready.push_back((pack, 0));
        }
        let mut start = inner.ready_count;
        if guard("slots") {
            start = start.min(self.concurrency.saturating_sub(inner.busy));
        }
        inner.busy += start;
        if start > 0 {
            inner.last_start = now;
        }
        start
    }

    /// The first message for a slot; none ends the slot.
    pub(super) fn next(&self, now: Instant) -> Option<Message> {
        let mut inner = self.lock();
        let next = self.start(&mut inner, now);
        drop(inner);
        if next.is_none() {
            self.changed.notify_one();
        }
        next
    }

    /// Hands out the next message, or ends a slot.
    fn start(&self, inner: &mut Inner, now: Instant) -> Option<Message> {
        let Some((pack, next)) = inner.ready.front_mut() else {
            inner.busy -= 1;
            return None;
        };
        let message = pack.message(*next);
        let fresh = *next == 0;
        *next += 1;
        if *next == pack.count() {
            inner.ready.pop_front();
        }
        if fresh || now >= inner.measured.waited.1 {
            self.look_at_wait(&mut inner.measured, &message, now);
        }
        inner.measured.waited.2 += 1;
        inner.ready_count -= 1;
        inner.last_start = now;
        Some(message)
    }

    /// What was tried before has waited for something else than a slot.
    #[cold]
    fn look_at_wait(&self, measured: &mut Measured, message: &Message, now: Instant) {
        measured.close_wait();
        let first = message.attempt == 1 && message.failures == 0;
        // Less than a millisecond cannot be told from one.
        let ms = ms(self.meter.since(message.published_ms, now)).max(1);
        measured.waited = (first.then_some(1000 * ms), now + SAME_WAIT, 0);
    }

    /// Adds what was measured since the last time.
    pub(super) fn measured(&self, figures: &mut Figures) {
        let (handle, wait) = {
            let measured = &mut self.lock().measured;
            measured.close_wait();
            measured.handle.sum_us = measured.handle_ns / 1000;
            measured.handle_ns %= 1000;
            (std::mem::take(&mut measured.handle), std::mem::take(&mut measured.wait))
        };
        figures.handle.add(&handle);
        figures.wait.add(&wait);
    }

    /// What became of a slot's message. Returns the next one for it; none ends the slot.
    pub(super) fn finish(
        &self,
        number: u64,
        bytes: usize,
        outcome: Outcome,
        took: Duration,
        now: Instant,
    ) -> Option<Message> {
        let mut inner = self.lock();
        inner.finished(number, bytes, outcome, took, now);
        // Whoever finishes last, or enough, or what makes room, wakes the lane.
        let ahead = self.ahead(&inner);
        let room = (self.concurrency + ahead + 1).saturating_sub(inner.busy + inner.ready_count);
        let wakes = room > ahead / 2 || inner.finished_count >= PACK_MESSAGES_MAX || inner.finished_count == 1;
        let next = self.start(&mut inner, now);
        drop(inner);
        if wakes || next.is_none() {
            self.changed.notify_one();
        }
        next
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(time.subsec_nanos()))
}

impl Inner {
    fn finished(&mut self, number: u64, bytes: usize, outcome: Outcome, took: Duration, now: Instant) {
        let took_ns = nanos(took);
        let average = self.message_ns.unwrap_or(took_ns);
        // One that took long may only have been kept from the processor: alone it must not change what is asked for much.
        self.message_ns = Some(average - average / 8 + took_ns.min(8 * average.max(100)) / 8);
        self.measured.handled(took, took_ns);
        self.finished_count += 1;
        self.finished_at.get_or_insert(now);
        let plain = |outcome: &Outcome| matches!(outcome, Outcome::Done(effects) if effects.is_empty());
        match self.finished.last_mut() {
            Some(run)
                if run.first + u64::from(run.count) == number
                    && (run.count as usize) < PACK_MESSAGES_MAX
                    && plain(&run.outcome)
                    && plain(&outcome) =>
            {
                run.count += 1;
                run.bytes += bytes;
            }
            _ => self.finished.push(Finished {
                first: number,
                count: 1,
                bytes,
                outcome,
            }),
        }
    }

    fn stuck(&self, concurrency: usize, now: Instant) -> bool {
        self.busy >= concurrency && now >= self.last_start + STUCK
    }
}
