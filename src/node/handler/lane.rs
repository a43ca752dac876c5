//! One membership's calls to the store: the loop around [`next`].
//!
//! Beside the store one call is on its way at a time. Far away there are several, each in a lane of its own: a lane's call is numbered, and repeated
//! until it is answered, whatever becomes of the others. A piece that one of them settles is named by no other until that one is answered.

mod seen;
mod shared;
mod waits;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::account::{self, Answered, Settled};
use super::bell::Bell;
use super::budget::Budget;
use super::call::{Call, Landed, Said, bytes, is_dry, send};
use super::held::Held;
use super::next::{Next, next};
use super::patience::Patience;
use super::pool::Pool;
use super::stretch::Finished;
use crate::engine::{Chained, Engine, Exchange, Exchanged, LANES, NodeId, Ticket};
use crate::error::Result;
use crate::message::Pack;
use crate::mutants::guard;
use crate::node::context::Context;
use crate::node::handle::Handle;
use crate::node::kept::Untold;
use crate::node::membership::Standing;
use crate::node::watch;
pub(super) use shared::Own;
use shared::lending;
use waits::Waits;

type Flying<'a> = Pin<Box<dyn Future<Output = Result<Landed>> + Send + 'a>>;

pub(super) struct Lane<'a, E, H> {
    context: &'a Context<E>,
    standing: watch::Receiver<Standing>,
    handle: &'a Arc<H>,
    bell: &'a Bell,
    pool: &'a Arc<Pool>,
    slots: &'a mut JoinSet<()>,
    own: Own<'a>,
    node: NodeId,
    /// Of each lane, the number of its last call that was answered, and whether one is on its way.
    lanes: [(u64, bool); LANES as usize],
    /// The calls that are on their way, where there may be several,
    flight: FuturesUnordered<Flying<'a>>,
    /// and those that brought back what another one has given back, and is not known to have.
    early: Vec<Landed>,
    /// Of some call it will never be known whether it was carried out.
    unsure: bool,
    held: Held,
    /// The last take brought everything that was queued.
    dry: bool,
    /// What a limit has told.
    patience: Patience,
    waits: Waits,
    /// When the store last answered.
    called: Instant,
    budget: Budget,
}

/// Why a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The node is to stop, and nothing is in hand.
    Stopped,
    /// The node is not this member any more.
    Deposed,
}

impl<'a, E: Engine, H: Handle> Lane<'a, E, H> {
    pub(super) fn new(
        node: &str,
        context: &'a Context<E>,
        handle: &'a Arc<H>,
        bell: &'a Bell,
        pool: &'a Arc<Pool>,
        slots: &'a mut JoinSet<()>,
        own: Own<'a>,
    ) -> Self {
        own.begin(context);
        Self {
            node: node.into(),
            lanes: [(0, false); LANES as usize],
            flight: FuturesUnordered::new(),
            early: Vec::new(),
            unsure: false,
            held: Held::default(),
            dry: false,
            patience: Patience::default(),
            waits: Waits::new(&context.settings),
            called: Instant::now(),
            budget: Budget::new(context.settings.lease),
            standing: context.standing.clone(),
            context,
            handle,
            bell,
            pool,
            slots,
            own,
        }
    }

    pub(super) async fn run(mut self) -> Result<Ended> {
        loop {
            while self.slots.try_join_next().is_some() {}
            self.start_shared();
            // All answers that are there are taken in before the next call is made.
            let lane = self.free_lane();
            let landed = match lane {
                Some(_) => self.flight.next().now_or_never().flatten(),
                None => self.next_landed().await,
            };
            let ended = match (landed, lane) {
                (Some(landed), _) => self.land(landed?).await,
                (None, Some(lane)) => self.step(lane).await?,
                (None, None) => None,
            };
            let Some(ended) = ended else { continue };
            // What the others say of calls that were made before is counted.
            while let Some(landed) = self.flight.next().await {
                self.land(landed?).await;
            }
            for landed in std::mem::take(&mut self.early) {
                self.take_in_answer(landed).await;
            }
            self.was_answered(u32::MAX);
            self.passes();
            return Ok(ended);
        }
    }

    /// The lane for the next call. None: one has to be answered first.
    fn free_lane(&self) -> Option<usize> {
        let most = if self.pool.is_far() { self.lanes.len() } else { 1 };
        let may_fly = self.flight.len() + self.early.len() < most;
        self.lanes.iter().position(|(_, flies)| !flies).filter(|_| may_fly)
    }

    /// Makes a call, or waits until there is a reason for one.
    async fn step(&mut self, lane: usize) -> Result<Option<Ended>> {
        let seen = self.look();
        let (gives_back, listens, awaits_bell) = match next(&seen) {
            Next::Stop => return Ok(Some(Ended::Stopped)),
            Next::Pause { until, listens } => {
                self.bell.want(listens);
                if seen.pool.want > 0 {
                    // It could ask, and does not: there is nothing, or a limit holds it back.
                    self.passes();
                }
                return self.pause(until).await;
            }
            Next::Call { gives_back, listens } => (gives_back, listens, false),
            Next::AwaitWork => (false, false, true),
        };
        self.bell.want(listens);
        let pieces = |run: &Finished| self.held.pieces(run);
        let finished = self.pool.collect_pieces(gives_back, seen.now, pieces);
        // What is finished is part of what calls on their way settle.
        if seen.flies && finished.is_empty() && (seen.pool.want == 0 || seen.dry || seen.is_held_back()) && !seen.rung {
            self.passes();
            return self.pause(seen.now + seen.lease).await;
        }
        let exchange = Exchange {
            node: self.node.clone(),
            lane: u32::try_from(lane).expect("few"),
            call: self.lanes[lane].0 + 1,
            settles: self.held.settles(&finished),
            want: seen.pool.want,
            want_bytes: self.budget.bytes(),
            woken: seen.rung || awaits_bell,
            // A generator that keeps the queue full must not hold up what follows from its messages.
            backlog_max: self.context.settings.backlog_max.saturating_mul(2),
            server: String::new(),
        };
        self.note_intents(&finished);
        let asked = exchange.want;
        let call = Call {
            exchange,
            finished,
            asked,
            heard: self.patience.heard(),
        };
        self.lanes[lane].1 = true;
        self.held.settling(&call.exchange.settles);
        self.asks(asked, awaits_bell);
        if awaits_bell {
            return self.call_at_the_bell(call).await;
        }
        let (share, soon) = (self.own.share.cloned(), self.late());
        if self.pool.is_far() {
            self.flight
                .push(Box::pin(lending(share, soon, send(self.context, call))));
            return Ok(None);
        }
        // A call is kilobytes, as a future: it stays where it is made, instead of being copied from one that waits for it to the next.
        let call = pin!(send(self.context, call));
        let landed = self.during(lending(share, soon, call)).await?;
        Ok(self.land(landed).await)
    }

    /// Waits until there may be something to say, at most until then.
    async fn pause(&mut self, until: Instant) -> Result<Option<Ended>> {
        let mut shutdown = self.context.shutdown.clone();
        let stopping = shutdown.is_stopping();
        let landed = tokio::select! {
            biased;
            Some(landed) = self.flight.next() => landed?,
            () = self.pool.changed() => return Ok(None),
            () = self.bell.heard() => return Ok(None),
            () = self.own.woken() => return Ok(None),
            Ok(()) = self.standing.changed() => return Ok(None),
            () = shutdown.stopping(), if !stopping => return Ok(None),
            () = tokio::time::sleep_until(until) => return Ok(None),
        };
        Ok(self.land(landed).await)
    }

    /// Takes in what came of a call, and of those that waited for it.
    async fn land(&mut self, landed: Landed) -> Option<Ended> {
        let mut next = Some(landed);
        while let Some(landed) = next {
            // The last one waits for nobody.
            if !self.flight.is_empty() && self.is_early(&landed) {
                self.early.push(landed);
                return None;
            }
            let ended = self.take_in_answer(landed).await;
            if ended.is_some() {
                return ended;
            }
            let ready = |landed| self.flight.is_empty() || !self.is_early(landed);
            let at = self.early.iter().position(ready);
            next = at.map(|at| self.early.remove(at));
        }
        None
    }

    /// Whether it brings what a call on its way settles. Then that call was carried out, and gave it back or put it off; its own answer, which
    /// says so, was lost and comes again.
    fn is_early(&self, landed: &Landed) -> bool {
        let Some(Said {
            exchanged: Exchanged::Ok { packs, chained, .. },
            ..
        }) = &landed.answer
        else {
            return false;
        };
        let own = &landed.call.exchange.settles;
        let early = packs.iter().any(|pack| self.held.is_settling(pack, own)) && guard("in-order");
        if early {
            self.note_seen(packs);
            self.note_published(chained);
        }
        early
    }

    async fn take_in_answer(&mut self, landed: Landed) -> Option<Ended> {
        let Landed { call, answer, lost } = landed;
        let Call {
            exchange,
            finished,
            asked,
            heard,
        } = call;
        self.lanes[exchange.lane as usize] = (exchange.call, false);
        self.pool.was_answered(asked);
        let Some(Said {
            exchanged,
            ticket,
            took,
        }) = answer
        else {
            self.unsure = true;
            return Some(Ended::Deposed);
        };
        self.called = Instant::now();
        self.pool.reaches(self.context.engine.trip());
        let Exchanged::Ok {
            packs,
            refused,
            chained,
            wait_ms,
            cancelled,
        } = exchanged
        else {
            // After a lost reply this says nothing: the call may have been applied before the membership ended. So may others on their way.
            self.unsure |= lost > 0;
            let alone = self.flight.is_empty() && self.early.is_empty();
            if alone && !self.unsure || !guard("refused-for-sure") {
                self.context.observer.refuses(&self.node);
            }
            return Some(Ended::Deposed);
        };
        // Before anything is waited for: what is seen is told by the next beat, whichever server that reaches.
        self.note_seen(&packs);
        self.note_published(&chained);
        for _ in 0..lost {
            self.budget.lost();
        }
        if let Some(took) = took {
            self.budget.took(bytes(&packs), took);
        }
        let left = finished.iter().map(|run| (run.first, run.count));
        self.context.told.left(left);
        self.context.told.took(&packs, &cancelled);
        let untold = self.account(finished, &Answered { refused, chained }, &packs, ticket);
        self.held.release(&exchange.settles);
        self.take_in(&exchange, packs, (wait_ms, heard));
        self.was_answered(asked);
        // Last: what came is worked on, and shards whose replicas are there do not wait for one whose replicas are not.
        if let (Some(untold), Some(line)) = (untold, self.own.line) {
            self.during(line.add(untold)).await;
        }
        None
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

    /// Writes down, counts and tells what the store has confirmed. What is returned is to be told when replicas have it.
    fn account(
        &self,
        finished: Vec<Finished>,
        answered: &Answered,
        packs: &[Pack],
        ticket: Option<Ticket>,
    ) -> Option<Untold> {
        let Context { observer, meter, .. } = self.context;
        let (observer, meter, node) = (observer.clone(), meter.clone(), self.node.clone());
        let settled = Settled::of(&finished, answered);
        account::count(&meter, self.pool, settled, packs, self.own.in_hand);
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
        let untold = if let (Some(ticket), Some(_)) = (ticket, self.own.line) {
            Some(settled.when_kept(ticket, tell))
        } else {
            tell();
            None
        };
        if !takes.is_empty() {
            told.confirms(&self.node, &takes);
        }
        untold
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
    fn take_in(&mut self, exchange: &Exchange, packs: Vec<Pack>, (wait_ms, heard): (Option<u64>, u64)) {
        // A take of 0 says nothing about the queue, and one that was on its way when a limit was told nothing about what is left since.
        if exchange.want > 0 && self.patience.told(wait_ms, packs.is_empty(), heard) {
            self.dry = wait_ms.is_none() && is_dry(exchange, &packs);
            // A take may end at a message that was delivered before, whether more are queued or not.
            let ended = packs.iter().any(|pack| pack.deliveries() > 1);
            self.pool.took_all(self.dry || wait_ms.is_some() || ended);
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
}
