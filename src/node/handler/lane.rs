//! One membership's calls to the store: the loop around [`next`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::account::{self, Answered, Settled};
use super::bell::Bell;
use super::budget::Budget;
use super::held::Held;
use super::next::{Next, Seen, next};
use super::pool::Pool;
use super::slot::slot;
use super::slots::Share;
use super::stretch::Finished;
use crate::engine::{Chained, Engine, Exchange, Exchanged, NodeId, TAKE_CUT_BYTES, TAKE_PACKS_MAX, Ticket, take_cut};
use crate::error::{Error, Result};
use crate::message::Pack;
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::context::Context;
use crate::node::event::Event;
use crate::node::handle::Handle;
use crate::node::kept::{Fate, Line, Untold};

/// A call that was sent so often without an answer is sent once more to give back what it took: its answer does not get
/// through to this node, and others can do the work.
const TRIES_MAX: u32 = 3;

/// With fewer outcomes than this, a whole line of calls leaves room for more of them.
const LEISURE_MAX: u32 = 64;

pub(super) struct Lane<'a, E, H> {
    context: &'a mut Context<E>,
    handle: &'a Arc<H>,
    bell: &'a Bell,
    pool: &'a Arc<Pool>,
    slots: &'a mut JoinSet<()>,
    /// Where outcomes wait to be told until replicas have them.
    line: Option<&'a Line>,
    node: NodeId,
    /// The number of the last call that was answered.
    call: u64,
    held: Held,
    /// The last take brought everything that was queued.
    dry: bool,
    /// When the store last answered.
    called: Instant,
    backoff: Backoff,
    budget: Budget,
    /// Where the node works on several shards: its slots are shared.
    share: Option<&'a Share>,
    /// How many messages this lane has in hand, as the meter counts them.
    in_hand: &'a AtomicU64,
}

/// What a lane has of its handler.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub line: Option<&'a Line>,
    pub share: Option<&'a Share>,
    pub in_hand: &'a AtomicU64,
}

/// Why a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The node is to stop, and nothing is in hand.
    Stopped,
    /// The node is not this member any more.
    Deposed,
}

/// What came of a call.
enum Answer {
    /// The store's answer, what tells when replicas have it, and how often the call was sent.
    Said(Exchanged, Option<Ticket>, u32),
    /// The lane ends before the store has answered.
    Over(Ended),
}

impl<'a, E: Engine, H: Handle> Lane<'a, E, H> {
    pub(super) fn new(
        node: &str,
        context: &'a mut Context<E>,
        handle: &'a Arc<H>,
        bell: &'a Bell,
        pool: &'a Arc<Pool>,
        slots: &'a mut JoinSet<()>,
        own: Own<'a>,
    ) -> Self {
        let Own { line, share, in_hand } = own;
        context
            .meter
            .in_hand
            .fetch_sub(in_hand.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        Self {
            share,
            in_hand,
            node: node.into(),
            call: 0,
            held: Held::default(),
            dry: false,
            called: Instant::now(),
            backoff: Backoff::new(&context.settings),
            budget: Budget::new(context.settings.lease),
            context,
            handle,
            bell,
            pool,
            slots,
            line,
        }
    }

    pub(super) async fn run(mut self) -> Result<Ended> {
        loop {
            while self.slots.try_join_next().is_some() {}
            if self.share.is_some() {
                self.start(self.pool.start(Instant::now()));
            }
            let seen = self.look();
            let (gives_back, listens, awaits_bell) = match next(&seen) {
                Next::Stop => return Ok(Ended::Stopped),
                Next::Pause { until, listens } => {
                    self.bell.want(listens);
                    self.pause(until).await;
                    continue;
                }
                Next::Call { gives_back, listens } => (gives_back, listens, false),
                Next::AwaitWork => (false, false, true),
            };
            self.bell.want(listens);
            let finished = self
                .pool
                .collect_pieces(gives_back, seen.now, |run| self.held.pieces(run));
            let mut exchange = Exchange {
                node: self.node.clone(),
                lane: 0,
                call: self.call + 1,
                settles: self.held.settles(&finished),
                want: seen.pool.want,
                want_bytes: self.budget.bytes(),
                woken: seen.rung || awaits_bell,
                // A generator that keeps the queue full must not hold up what follows from its messages.
                backlog_max: self.context.settings.backlog_max.saturating_mul(2),
                server: String::new(),
            };
            self.note_intents(&finished);
            if let Some(share) = self.share.filter(|_| !awaits_bell) {
                share.asks(exchange.want as usize);
            }
            let answer = self.ask(&mut exchange, awaits_bell).await;
            if let Some(share) = self.share {
                share.asks(0);
            }
            let (exchanged, ticket, tries) = match answer? {
                Answer::Said(exchanged, ticket, tries) => (exchanged, ticket, tries),
                Answer::Over(ended) => return Ok(ended),
            };
            self.call = exchange.call;
            self.called = Instant::now();
            self.pool.reaches(self.context.engine.trip());
            let Exchanged::Ok {
                packs,
                refused,
                chained,
            } = exchanged
            else {
                // After a lost reply this says nothing: the call may have been applied before the membership ended.
                if tries == 1 || !guard("refused-for-sure") {
                    self.context.observer.refuses(&self.node);
                }
                return Ok(Ended::Deposed);
            };
            // Before anything is waited for: what is seen is told by the next beat, whichever server that reaches.
            self.note_seen(&packs);
            self.note_published(&chained);
            self.account(finished, &Answered { refused, chained }, &packs, ticket)
                .await;
            self.held.release(&exchange.settles);
            self.take_in(&exchange, packs);
        }
    }

    fn look(&self) -> Seen {
        let (accepts, now) = (self.accepts(), Instant::now());
        if !accepts {
            // No take follows that outcomes could wait for.
            self.pool.took_all(true);
        }
        let mut pool = self.pool.look(now);
        if !accepts {
            pool.want = 0;
        }
        Seen {
            accepts,
            stopping: self.context.shutdown.is_stopping(),
            // Where there are several shards, all of them must be empty.
            burst: self.context.settings.burst
                && self
                    .share
                    .is_none_or(|share| share.all_idle(self.dry && self.held.is_empty())),
            holds: !self.held.is_empty(),
            dry: self.dry,
            rung: self.bell.has_rung(),
            heeded: self.bell.is_heeded(),
            pool,
            lease: self.context.settings.lease,
            called: self.called,
            now,
        }
    }

    /// Whether this node takes messages: not while it generates, and not once it is to stop.
    fn accepts(&self) -> bool {
        let context = &self.context;
        let generates = context.standing.borrow().reign.is_some() && !context.settings.also_handle;
        let stops = context.shutdown.is_stopping();
        !(generates && guard("either-role") || stops && guard("stops-taking"))
    }

    /// Waits until there may be something to say, at most until then.
    async fn pause(&mut self, until: Instant) {
        let mut shutdown = self.context.shutdown.clone();
        let stopping = shutdown.is_stopping();
        tokio::select! {
            biased;
            () = self.pool.changed() => {}
            () = self.bell.heard() => {}
            () = woken(self.share) => {}
            Ok(()) = self.context.standing.changed() => {}
            () = shutdown.stopping(), if !stopping => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// Makes a call, at once or when the bell rings.
    async fn ask(&mut self, exchange: &mut Exchange, awaits_bell: bool) -> Result<Answer> {
        if awaits_bell {
            if let Some(exchanged) = self.await_work(exchange).await {
                return Ok(Answer::Said(exchanged, None, 1));
            }
            // A wait that was given up may have made the call or not. To send the same call again tells which.
            if !self.accepts() {
                exchange.want = 0;
            }
            // A lane that is to stop sends it once: nothing is in hand unless the answer says so.
            if self.context.shutdown.is_stopping() && self.context.engine.exchange(exchange).await.is_err() {
                return Ok(Answer::Over(Ended::Stopped));
            }
        }
        let answer = self.send(exchange).await?;
        Ok(
            answer.map_or(Answer::Over(Ended::Deposed), |((exchanged, ticket), tries)| {
                Answer::Said(exchanged, ticket, tries + u32::from(awaits_bell))
            }),
        )
    }

    /// Waits for messages at the bell. None: there is something else to look after, or the wait has failed.
    async fn await_work(&mut self, exchange: &Exchange) -> Option<Exchanged> {
        let mut shutdown = self.context.shutdown.clone();
        // Whoever has work rings. What ends a wait without a ring is only to find a connection that is dead. Redis wakes whoever has waited
        // longest, and each new wait begins at the end of the line: with short ones, those that began right before a tick were passed
        // over again and again.
        let at_most = self.context.settings.lease;
        tokio::select! {
            biased;
            // First: a node that has become the generator, or is to stop, takes nothing more.
            Ok(()) = self.context.standing.changed() => None,
            () = shutdown.stopping() => None,
            answer = self.context.engine.await_work(exchange, at_most) => {
                if answer.is_err() {
                    self.context.requests.beat_now();
                }
                answer.ok()
            }
        }
    }

    /// The same call until it is answered, and how often it was sent. None: the membership ended first.
    async fn send(&mut self, exchange: &mut Exchange) -> Result<Option<((Exchanged, Option<Ticket>), u32)>> {
        let mut told = false;
        for tries in 1.. {
            let sent = Instant::now();
            match self.context.engine.exchange_ahead(exchange).await {
                // Nothing was written. Another server waits for what members have seen.
                Ok((Exchanged::Unheard, _)) => {
                    self.context.requests.beat_now();
                    self.backoff.wait().await;
                }
                Ok(exchanged) => {
                    self.backoff.reset();
                    if let Exchanged::Ok { packs, .. } = &exchanged.0 {
                        self.budget.took(bytes(packs), sent.elapsed());
                    }
                    return Ok(Some((exchanged, tries)));
                }
                Err(error) if error.may_be_mended() => {
                    // The beat tells of a store that is away; this is for what only the lane meets.
                    if self.backoff.is_long() && !told {
                        told = true;
                        let reason = error.to_string();
                        self.context.tell(&self.node, Event::Away { reason });
                        // What the store cannot make sense of may be in this node's hand: under another id it holds nothing.
                        if matches!(error, Error::Protocol { .. }) {
                            return Ok(None);
                        }
                    }
                    // Another server may wait for what this node has seen.
                    if self.backoff.is_fresh() {
                        self.context.requests.beat_now();
                    }
                    self.budget.lost();
                    self.backoff.wait().await;
                    // From here on no copy of this call brings messages, so a late one can take none away from this node.
                    if tries >= TRIES_MAX {
                        exchange.want = 0;
                    }
                    if !guard("same-call") {
                        exchange.call += 1;
                    }
                }
                Err(error) => return Err(error),
            }
            if self.context.standing.borrow().node != self.node {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Puts into the ledger what the next call may settle.
    fn note_intents(&self, finished: &[Finished]) {
        if self.context.observer.keeps_ledger() {
            let entries = account::intents(finished);
            if !entries.is_empty() {
                self.context.observer.intends(&self.node, &entries);
            }
        }
    }

    /// Writes down, counts and tells what the store has confirmed; outcomes when replicas have them, if they are to.
    async fn account(&self, finished: Vec<Finished>, answered: &Answered, packs: &[Pack], ticket: Option<Ticket>) {
        let Context { observer, meter, .. } = &*self.context;
        let (observer, meter, node) = (observer.clone(), meter.clone(), self.node.clone());
        let settled = Settled::of(&finished, answered);
        account::count(&meter, self.pool, settled, packs, self.in_hand);
        let keeps_ledger = observer.keeps_ledger();
        let mut entries = if keeps_ledger {
            account::outcomes(&finished, answered)
        } else {
            Vec::new()
        };
        if ticket.is_some() && guard("returns-at-once") {
            // They are no outcomes that must not be taken back. Told with the outcomes, they could come behind the next intents for the same
            // messages, and seem to answer these.
            let returned = account::take_returns(&mut entries);
            if !returned.is_empty() {
                observer.confirms(&node, &returned);
            }
        }
        let takes = if keeps_ledger {
            account::takes(packs)
        } else {
            Vec::new()
        };
        let events = if observer.wants_messages() {
            account::settled(&self.held, finished, answered)
        } else {
            Vec::new()
        };
        let told = observer.clone();
        let tell = move || {
            if !entries.is_empty() {
                observer.confirms(&node, &entries);
            }
            settled.count(&meter);
            if !events.is_empty() {
                observer.observe(&node, &events);
            }
        };
        match (ticket, self.line) {
            (Some(ticket), Some(line)) => {
                let tell = move |fate, _| {
                    if fate == Fate::Kept {
                        tell();
                    }
                };
                let at_leisure = settled.all() < LEISURE_MAX;
                line.add(Untold {
                    ticket: Ticket { at_leisure, ..ticket },
                    outcomes: settled.all(),
                    publish: None,
                    tell: Box::new(tell),
                })
                .await;
            }
            _ => tell(),
        }
        if !takes.is_empty() {
            told.confirms(&self.node, &takes);
        }
    }

    /// The highest number that a call brought.
    fn note_seen(&self, packs: &[Pack]) {
        for pack in packs.iter().filter(|_| guard("saw-take")) {
            let behind = pack.first() + pack.count() as u64;
            self.context.requests.took(&self.node, behind, pack.epoch());
        }
    }

    /// The highest number that the effects of a call were given.
    fn note_published(&self, chained: &Chained) {
        for link in chained.links.iter().filter(|_| guard("saw-chain")) {
            let behind = link.first.saturating_add(link.count);
            self.context.requests.took(&self.node, behind, chained.epoch);
        }
    }

    /// Hands what a call brought to the slots.
    fn take_in(&mut self, exchange: &Exchange, packs: Vec<Pack>) {
        // A take of 0 says nothing about the queue.
        if exchange.want > 0 {
            self.dry = is_dry(exchange, &packs);
            // A take may end at a message that was delivered before, whether more are queued or not.
            self.pool
                .took_all(self.dry || packs.iter().any(|pack| pack.deliveries() > 1));
        }
        for pack in &packs {
            self.held.insert(pack.clone());
        }
        let observer = &self.context.observer;
        if observer.wants_messages() && packs.iter().any(|pack| pack.deliveries() > 1) {
            observer.observe(&self.node, &account::redelivered(&packs));
        }
        self.start(self.pool.add(packs, Instant::now()));
    }

    /// Starts so many slots.
    fn start(&mut self, slots: usize) {
        let observer = &self.context.observer;
        for _ in 0..slots {
            let told = observer.wants_starts().then(|| (self.node.clone(), observer.clone()));
            let (pool, settings) = (self.pool.clone(), self.context.settings.clone());
            self.slots.spawn(slot(pool, self.handle.clone(), settings, told));
        }
    }
}

/// Until other shards leave a slot, or room for messages, to this one.
async fn woken(share: Option<&Share>) {
    match share {
        Some(share) => share.woken().await,
        None => std::future::pending().await,
    }
}

/// Whether the take got everything that was queued. A take may end early at a message that was delivered
/// before; at a pack that does not fit once there is enough; and at its limits of packs and bytes.
fn is_dry(exchange: &Exchange, packs: &[Pack]) -> bool {
    let total: usize = packs.iter().map(Pack::count).sum();
    take_cut(total as u64, exchange.want.into()) > 0
        && bytes(packs) < TAKE_CUT_BYTES.min(exchange.want_bytes as usize / 2)
        && packs.len() < TAKE_PACKS_MAX
        && packs.iter().all(|pack| pack.deliveries() == 1)
}

fn bytes(packs: &[Pack]) -> usize {
    packs.iter().map(|pack| pack.bytes().len()).sum()
}
