//! Take → handle → settle: what a handler does.
//!
//! One lane of calls to the store feeds any number of slots. A call carries whatever has finished in any slot since
//! the last one, and brings what comes next.

mod held;
mod measured;
mod pool;
mod slot;
mod speed;
mod stretch;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::{
    DELAY_MS_MAX, Engine, Exchange, Exchanged, NodeId, Settle, TAKE_CUT_BYTES, TAKE_PACKS_MAX, Wake, take_cut,
};
use crate::error::Result;
use crate::message::{ERROR_TEXT_BYTES_MAX, Effect, Message, Outcome, Pack};
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::event::{Entry, Event, Observer, What};
use crate::node::membership::{Requests, Standing};
use crate::node::meter::Meter;
use crate::node::shutdown::Shutdown;
use crate::node::watch;
use crate::settings::{Settings, ms};
use held::Held;
use pool::Pool;
use slot::slot;
use stretch::Finished;

/// A lane that has nothing to say calls after so many leases all the same. A store that went back in time may hold
/// something for it that it has settled long ago; the call's number tells, and the membership ends.
const SILENT_LEASES_MAX: u32 = 4;

/// A lane that has something in hand, and room for more, listens after so long: most of them are idle again before.
const SOON: Duration = Duration::from_millis(1);

/// What a handler may answer: done, with effects to apply in the same step, or why it failed.
pub type Handled = Result<Vec<Effect>, Failure>;

/// Why a message was not done. A text is a failure: `Err("no such host".into())`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It failed: tried again while [`Settings::retries`] allows, then kept among the errors.
    Error(String),
    /// It cannot be done now: tried again whatever the settings say, after this time or the usual one. It counts as a
    /// failure; after 65,535 of them it is an error.
    Retry { error: String, after: Option<Duration> },
}

impl Failure {
    /// To be tried again, after the usual time.
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Retry {
            error: error.into(),
            after: None,
        }
    }

    /// To be tried again after this time.
    pub fn retry_after(error: impl Into<String>, after: Duration) -> Self {
        Self::Retry {
            error: error.into(),
            after: Some(after),
        }
    }

    /// What becomes of a message that has failed so often before.
    fn outcome(self, failures: u16, settings: &Settings) -> Outcome {
        let cut = |mut text: String| {
            text.truncate(text.floor_char_boundary(ERROR_TEXT_BYTES_MAX));
            text
        };
        let (error, after) = match self {
            Self::Error(text) if failures >= settings.retries => return Outcome::Error(cut(text)),
            Self::Retry { error, .. } if failures == u16::MAX => return Outcome::Error(cut(error)),
            Self::Error(text) => (text, None),
            Self::Retry { error, after } => (error, after),
        };
        Outcome::Retry {
            error: cut(error),
            after_ms: ms(after.unwrap_or_else(|| settings.backoff_after(failures))).min(DELAY_MS_MAX),
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Error(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Error(text.into())
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Failure {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::Error(error.to_string())
    }
}

/// Does the work.
pub trait Handle: Send + Sync + 'static {
    /// Handles one message. It may be called for many at once, up to the concurrency.
    fn handle(&self, message: Message) -> impl Future<Output = Handled> + Send;
}

impl<F, Answer> Handle for F
where
    F: Fn(Message) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Handled> + Send,
{
    fn handle(&self, message: Message) -> impl Future<Output = Handled> + Send {
        self(message)
    }
}

pub(crate) struct Handler<E, H> {
    pub engine: Arc<E>,
    pub settings: Arc<Settings>,
    pub observer: Arc<dyn Observer>,
    pub asks: Arc<Requests>,
    pub meter: Arc<Meter>,
    pub standing: watch::Receiver<Standing>,
    pub shutdown: Shutdown,
    pub handle: Arc<H>,
}

/// Whether there is room for work, and whether the bell has rung.
#[derive(Default)]
struct Bell {
    hungry: watch::Sender<bool>,
    /// Someone waits for it now, and will for up to a beat.
    heeded: AtomicBool,
    rung: AtomicBool,
    heard: Notify,
}

/// The lane's side of one membership.
struct Lane {
    node: NodeId,
    call: u64,
    held: Held,
}

/// What came of a call.
enum Answer {
    /// The store's answer, and how often it was asked.
    Said(Exchanged, u32),
    /// The membership ended first.
    Ended,
    /// The node is to stop, and nothing is in hand.
    Stop,
}

impl<E: Engine, H: Handle> Handler<E, H> {
    /// Handles, under one membership after the other, until the node is to stop and nothing is in hand any more.
    pub(crate) async fn run(mut self) -> Result<()> {
        let bell = Arc::new(Bell::default());
        let mut listener = JoinSet::new();
        listener.spawn(listen(self.engine.clone(), self.settings.clone(), bell.clone()));
        let mut node = String::new();
        let mut pool = Arc::new(Pool::new(&self.settings, &self.meter));
        let mut slots = JoinSet::new();
        loop {
            let mut shutdown = self.shutdown.clone();
            tokio::select! {
                biased;
                next = self.standing.wait_for(|standing| standing.node != node) => match next {
                    Ok(standing) => node.clone_from(&standing.node),
                    Err(_) => return Ok(()),
                },
                () = shutdown.stopping() => return Ok(()),
            }
            if !self.serve(&node, &pool, &mut slots, &bell).await? {
                return Ok(());
            }
            // Given up: what was in hand is someone else's now, and the slots end here.
            if guard("new-pool") {
                pool = Arc::new(Pool::new(&self.settings, &self.meter));
                slots = JoinSet::new();
            }
            if guard("abandon") {
                self.asks.abandon(&node);
            }
        }
    }

    /// Works as this member. True: it is none any more. False: the node is to stop, and nothing is in hand.
    async fn serve(&mut self, node: &NodeId, pool: &Arc<Pool>, slots: &mut JoinSet<()>, bell: &Bell) -> Result<bool> {
        let mut lane = Lane {
            node: node.clone(),
            call: 0,
            held: Held::default(),
        };
        self.meter.in_hand.store(0, Ordering::Relaxed);
        let mut backoff = Backoff::new(&self.settings);
        let mut dry = false;
        let mut spoke = Instant::now();
        loop {
            let accepts = self.accepts();
            let finished = lane.held.is_empty() || !guard("finish-first");
            if !accepts && finished && self.shutdown.is_stopping() {
                return Ok(false);
            }
            if self.settings.burst && dry && lane.held.is_empty() {
                return Ok(false);
            }
            while slots.try_join_next().is_some() {}
            let rung = bell.rung.swap(false, Ordering::AcqRel);
            let now = Instant::now();
            let want = if accepts { pool.want(now) } else { 0 };
            if !accepts {
                // Whoever takes no more keeps no outcome waiting for the next take.
                pool.took_all(true);
            }
            // After an empty take there is nothing to ask for until the bell rings, or something is settled anyway.
            let asks = want > 0 && (!dry || rung || !guard("dry"));
            // Whoever got all that it asked for calls again anyway: it must not answer a bell that others wait for.
            let listens = want > 0 && (dry || !guard("dry"));
            // With nothing in hand there is nothing to be said either: the next call can be made by the bell itself, unless
            // the listener would answer it.
            let idle = listens && lane.held.is_empty() && !bell.heeded.load(Ordering::Acquire) && guard("dry");
            let soon = spoke + SOON;
            let hears = listens && !lane.held.is_empty() && now >= soon;
            bell.hungry
                .send_if_modified(|hungry| std::mem::replace(hungry, hears) != hears);
            let stuck = (!accepts || pool.is_stuck(now)) && guard("give-back");
            let leases = if guard("silent-lane") {
                SILENT_LEASES_MAX
            } else {
                1_000_000
            };
            let silent = spoke + leases * self.settings.lease;
            let speaks = now >= silent || asks || rung || pool.has_settled(now) || (stuck && pool.has_ready());
            if !speaks && !idle {
                let at_most = if listens && !hears && now < soon { soon } else { silent };
                self.pause(pool, bell, now, at_most).await;
                continue;
            }
            let finished = pool.collect(stuck, now);
            let settles = lane.held.settles(&finished);
            let mut exchange = Exchange {
                node: node.clone(),
                lane: 0,
                call: lane.call + 1,
                settles,
                want,
                woken: rung || !speaks,
            };
            self.note_intents(node, &finished);
            let (exchanged, tries) = match self.ask(&mut exchange, !speaks, &mut backoff).await? {
                Answer::Said(exchanged, tries) => (exchanged, tries),
                Answer::Ended => return Ok(true),
                Answer::Stop => return Ok(false),
            };
            lane.call = exchange.call;
            spoke = Instant::now();
            let Exchanged::Ok { packs, refused } = exchanged else {
                // After a lost reply this says nothing: the call may have been applied before the membership ended.
                if tries == 1 || !guard("refused-for-sure") {
                    self.observer.refuses(node);
                }
                return Ok(true);
            };
            self.note_confirmed(node, &finished, &refused, &packs);
            self.count(pool, &finished, refused.len() as u64, &packs);
            self.tell(&lane, finished, &refused);
            lane.held.release(&exchange.settles);
            // Whoever asked for nothing has learnt nothing.
            if exchange.want > 0 {
                dry = is_dry(exchange.want, &packs);
                // What was delivered before comes one by one, whether more waits or not.
                pool.took_all(dry || packs.iter().any(|pack| pack.attempt() > 1));
            }
            for pack in &packs {
                lane.held.insert(pack.clone());
                if guard("saw-take") {
                    self.asks.saw(pack.first() + pack.count() as u64);
                }
            }
            self.tell_redelivered(node, &packs);
            for _ in 0..pool.add(packs, Instant::now()) {
                let told = self
                    .observer
                    .wants_starts()
                    .then(|| (node.clone(), self.observer.clone()));
                slots.spawn(slot(pool.clone(), self.handle.clone(), self.settings.clone(), told));
            }
        }
    }

    /// Whether this node takes work: not while it generates, and not once it is to stop.
    fn accepts(&self) -> bool {
        let generates = self.standing.borrow().reign.is_some() && !self.settings.also_handle;
        let stops = self.shutdown.is_stopping();
        !(generates && guard("either-role") || stops && guard("stops-taking"))
    }

    /// Waits until there may be something to say.
    async fn pause(&mut self, pool: &Pool, bell: &Bell, now: Instant, at_most: Instant) {
        let stopping = self.shutdown.is_stopping();
        let mut shutdown = self.shutdown.clone();
        let wake = pool.wake_at(now).map_or(at_most, |wake| wake.min(at_most));
        tokio::select! {
            biased;
            () = pool.changed() => {}
            () = bell.heard.notified() => {}
            Ok(()) = self.standing.changed() => {}
            () = shutdown.stopping(), if !stopping => {}
            () = tokio::time::sleep_until(wake) => {}
        }
    }

    /// Makes a call, at once or when the bell rings.
    async fn ask(&mut self, exchange: &mut Exchange, waits: bool, backoff: &mut Backoff) -> Result<Answer> {
        if waits {
            if let Some(exchanged) = self.await_work(exchange).await {
                return Ok(Answer::Said(exchanged, 1));
            }
            // Whether a wait that was given up made the call is not known: the same one says so.
            if !self.accepts() {
                exchange.want = 0;
            }
            // Whoever is to stop asks once: nothing is in hand unless the answer says so.
            if self.shutdown.is_stopping() && self.engine.exchange(exchange).await.is_err() {
                return Ok(Answer::Stop);
            }
        }
        let node = exchange.node.clone();
        let answer = self.send(exchange, &node, backoff).await?;
        Ok(answer.map_or(Answer::Ended, |(exchanged, tries)| {
            Answer::Said(exchanged, tries + u32::from(waits))
        }))
    }

    /// Waits for work at the bell. None: there is something else to look after, or the wait has failed.
    async fn await_work(&mut self, exchange: &Exchange) -> Option<Exchanged> {
        let mut shutdown = self.shutdown.clone();
        let at_most = Duration::from_millis(self.settings.beat_ms());
        tokio::select! {
            biased;
            // First: who has become the generator, or is to stop, takes nothing more.
            Ok(()) = self.standing.changed() => None,
            () = shutdown.stopping() => None,
            answer = self.engine.await_work(exchange, at_most) => answer.ok(),
        }
    }

    /// The same call until it is answered, and how often it was sent. None: the membership ended first.
    async fn send(
        &self,
        exchange: &mut Exchange,
        node: &NodeId,
        backoff: &mut Backoff,
    ) -> Result<Option<(Exchanged, u32)>> {
        let mut told = false;
        for tries in 1.. {
            match self.engine.exchange(exchange).await {
                Ok(exchanged) => {
                    backoff.reset();
                    return Ok(Some((exchanged, tries)));
                }
                Err(error) if error.is_away() => {
                    // The beat tells of a store that is away; this is for what only the lane meets.
                    if backoff.is_long() && !told {
                        told = true;
                        let reason = error.to_string();
                        self.observer.observe(node, &[Event::Away { reason }]);
                    }
                    backoff.wait().await;
                    if !guard("same-call") {
                        exchange.call += 1;
                    }
                }
                Err(error) => return Err(error),
            }
            if self.standing.borrow().node != *node {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Puts into the ledger what the next call may settle.
    fn note_intents(&self, node: &NodeId, finished: &[Finished]) {
        if self.observer.keeps_ledger() {
            let mut entries = outcomes(finished, &[]);
            entries.retain(|entry| entry.what != What::Return);
            if !entries.is_empty() {
                self.observer.intends(node, &entries);
            }
        }
    }

    /// Puts into the ledger what the store has confirmed, and what it has handed out.
    fn note_confirmed(&self, node: &NodeId, finished: &[Finished], refused: &[(u64, String)], packs: &[Pack]) {
        if self.observer.keeps_ledger() {
            let mut entries = outcomes(finished, refused);
            entries.extend(packs.iter().map(|pack| Entry {
                first: pack.first(),
                count: pack.count() as u64,
                what: What::Take {
                    attempt: pack.attempt(),
                    epoch: pack.epoch(),
                },
            }));
            if !entries.is_empty() {
                self.observer.confirms(node, &entries);
            }
        }
    }

    /// Counts what the store has confirmed.
    fn count(&self, pool: &Pool, finished: &[Finished], refused: u64, packs: &[Pack]) {
        let (mut done, mut failed, mut retried, mut settled) = (0, refused, 0, 0);
        for run in finished {
            let count = u64::from(run.count);
            settled += count;
            match run.outcome {
                Outcome::Done(_) => done += count,
                Outcome::Error(_) => failed += count,
                Outcome::Retry { .. } => retried += count,
                Outcome::Return => {}
            }
        }
        let taken: u64 = packs.iter().map(|pack| pack.count() as u64).sum();
        let again = packs.iter().filter(|pack| pack.attempt() > 1);
        let again: u64 = again.map(|pack| pack.count() as u64).sum();
        let meter = &self.meter;
        meter.in_hand.fetch_add(taken, Ordering::Relaxed);
        meter.in_hand.fetch_sub(settled, Ordering::Relaxed);
        meter.redelivered.fetch_add(again, Ordering::Relaxed);
        meter.add(|figures| {
            figures.done += u64::saturating_sub(done, refused);
            figures.failed += failed;
            figures.retried += retried;
            pool.measured(figures);
        });
    }

    /// Tells what the store has confirmed.
    fn tell(&self, lane: &Lane, finished: Vec<Finished>, refused: &[(u64, String)]) {
        if !self.observer.wants_messages() {
            return;
        }
        let mut events = Vec::new();
        for run in finished {
            for number in run.first..run.first + u64::from(run.count) {
                let Some(message) = lane.held.message(number) else {
                    continue;
                };
                let refusal = refused.iter().find(|(refused, _)| *refused == number);
                let (epoch, attempt, payload) = (message.epoch, message.attempt, message.payload);
                if let Outcome::Retry { error, after_ms } = &run.outcome {
                    events.push(Event::Retried {
                        epoch,
                        number,
                        attempt,
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
                        attempt,
                        payload,
                        error,
                    },
                    None => Event::Done {
                        epoch,
                        number,
                        attempt,
                        payload,
                    },
                });
            }
        }
        if !events.is_empty() {
            self.observer.observe(&lane.node, &events);
        }
    }

    fn tell_redelivered(&self, node: &str, packs: &[Pack]) {
        if !self.observer.wants_messages() || packs.iter().all(|pack| pack.attempt() == 1) {
            return;
        }
        let events: Vec<Event> = packs
            .iter()
            .filter(|pack| pack.attempt() > 1)
            .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index)))
            .map(|message| Event::Redelivered {
                epoch: message.epoch,
                number: message.number,
                attempt: message.attempt,
                payload: message.payload,
            })
            .collect();
        self.observer.observe(node, &events);
    }
}

/// Finished runs as entries of a ledger. A message whose effects were refused is an error, whatever its handler said.
fn outcomes(finished: &[Finished], refused: &[(u64, String)]) -> Vec<Entry> {
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

/// Whether the take got everything there was. What was delivered before comes one by one, and a take that has enough leaves a
/// pack that does not fit.
fn is_dry(want: u32, packs: &[Pack]) -> bool {
    let total: usize = packs.iter().map(Pack::count).sum();
    let bytes: usize = packs.iter().map(|pack| pack.bytes().len()).sum();
    take_cut(total as u64, want.into()) > 0
        && bytes < TAKE_CUT_BYTES
        && packs.len() < TAKE_PACKS_MAX
        && packs.iter().all(|pack| pack.attempt() == 1)
}

/// Handles packs as a node does, one message after the other, without a store: for measuring what that costs. Returns the runs
/// that would be settled.
#[doc(hidden)]
pub async fn dispatch<H: Handle>(settings: &Arc<Settings>, handle: &Arc<H>, packs: Vec<Pack>) -> Vec<Settle> {
    let (mut pool, mut held) = (Pool::new(settings, &Arc::default()), Held::default());
    // As fast as it goes, however slow the machine that counts.
    (pool.pace.stretch, pool.pace.turn) = (Duration::from_hours(1), Duration::from_hours(1));
    let pool = Arc::new(pool);
    for pack in &packs {
        held.insert(pack.clone());
    }
    for _ in 0..pool.add(packs, Instant::now()) {
        slot(pool.clone(), handle.clone(), settings.clone(), None).await;
    }
    let finished = pool.collect(false, Instant::now());
    held.settles(&finished)
}

/// Waits at the bell for as long as there is room for work.
async fn listen<E: Engine>(engine: Arc<E>, settings: Arc<Settings>, bell: Arc<Bell>) {
    let mut hungry = bell.hungry.subscribe();
    let mut backoff = Backoff::new(&settings);
    while hungry.wait_for(|hungry| *hungry).await.is_ok() {
        bell.heeded.store(true, Ordering::Release);
        let rung = engine
            .listen(Wake::Bell, Duration::from_millis(settings.beat_ms()))
            .await;
        bell.heeded.store(false, Ordering::Release);
        match rung {
            Ok(false) => {
                backoff.reset();
                // The lane may have waited for this.
                bell.heard.notify_one();
                tokio::task::yield_now().await;
                continue;
            }
            Ok(true) => backoff.reset(),
            // A ring may have been lost with the connection.
            Err(_) => backoff.wait().await,
        }
        bell.rung.store(true, Ordering::Release);
        bell.heard.notify_one();
        // What the ring is about is asked for before the next one is waited for.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_tried_again_as_often_as_allowed_and_a_wish_always() {
        let settings = Settings {
            retries: 2,
            ..Settings::default()
        };
        let failed = |failures| Failure::from("bad").outcome(failures, &settings);
        assert!(matches!(
            failed(0),
            Outcome::Retry {
                after_ms: 500..=1000,
                ..
            }
        ));
        assert!(matches!(
            failed(1),
            Outcome::Retry {
                after_ms: 1000..=2000,
                ..
            }
        ));
        assert_eq!(failed(2), Outcome::Error("bad".into()));
        let none = Settings::default();
        assert_eq!(Failure::from("bad").outcome(0, &none), Outcome::Error("bad".into()));
        let wished = |failures| Failure::retry_after("busy", Duration::from_secs(7)).outcome(failures, &none);
        let error = String::from("busy");
        assert_eq!(wished(500), Outcome::Retry { error, after_ms: 7000 });
        assert_eq!(wished(u16::MAX), Outcome::Error("busy".into()), "not for ever");
        let long = Failure::retry("é".repeat(5000)).outcome(0, &none);
        assert!(matches!(long, Outcome::Retry { error, .. } if error.len() == ERROR_TEXT_BYTES_MAX));
    }
}
