//! What lies between a process and the store: latency, and everything that goes wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Gone, Join, Joined, NodeId, Publish, Published,
    Reap, Reaped, Renewed, Sights, Status, Wake,
};
use queenright::engine::{
    Cancelled, CancelledGroup, Handover, Held, Limits, Paused, PausedGroup, Purged, Push, Pushed, Requeued, StoreInfo,
    rules,
};
use queenright::engine::{History, Range, Report, Reported, Ticket};
use queenright::error::{Absence, Error, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::process::Kind;
use super::world::{Inner, World, sleep_ms};
use crate::oracle::{Answer, Call};

pub struct Wire {
    pub world: Arc<World>,
    pub process: usize,
    pub sights: Sights,
}

fn away(reason: &str) -> Error {
    Error::Away {
        absence: Absence::Silent,
        store: "the simulated store".into(),
        reason: reason.into(),
    }
}

/// What is going to happen to a call.
struct Trip {
    /// None: the request is lost.
    request: Option<u64>,
    /// None: the answer is lost.
    reply: Option<u64>,
    /// A copy of it arrives so long after it is over.
    copy: Option<u64>,
    /// It goes its way without its caller.
    alone: bool,
    generation: u32,
    /// The store that it is sent to.
    era: u32,
}

/// The store's side of a call.
enum Arrival {
    Answer(Box<Result<Answer>>),
    Refused,
    Frozen(u64),
}

impl Inner {
    fn trip(&mut self, process: usize, call: &Call) -> Trip {
        let (now, latency, lease) = (self.now(), self.plan.latency_ms, self.plan.lease_ms());
        let there = self.rng.u64(0..=latency);
        let back = if there == 0 {
            self.rng.u64(1..=latency)
        } else {
            self.rng.u64(0..=latency)
        };
        let mut trip = Trip {
            request: Some(there),
            reply: Some(back),
            copy: None,
            alone: self.rng.u8(..8) == 0,
            generation: self.processes[process].generation,
            era: self.era,
        };
        let link = &self.processes[process];
        let (slow, mute, hole) = (link.slow_until > now, link.mute_until > now, link.hole_until > now);
        if slow {
            trip.request = Some(self.rng.u64(0..=lease));
            trip.reply = Some(self.rng.u64(0..=lease));
        }
        if mute {
            trip.reply = None;
        }
        if hole {
            trip.request = None;
        }
        let accident = self.accidents > 0 && self.rng.u32(..self.accidents) == 0;
        if accident {
            match self.rng.u8(..5) {
                0 => trip.request = None,
                1 => trip.reply = None,
                2 => trip.request = Some(self.rng.u64(0..=lease)),
                3 => (trip.request, trip.reply) = (Some(self.rng.u64(0..=lease)), None),
                _ => {
                    let far = if self.rng.bool() { 2 * lease } else { 40 };
                    trip.copy = Some(self.rng.u64(1..=far));
                }
            }
        }
        let unordered = accident && trip.copy.is_none();
        // Who is no node makes few calls, and nodes join seldom: those come late more often.
        let rare = self.processes[process].kind != Kind::Node || matches!(call, Call::Join(_));
        if self.accidents > 0 && rare && self.rng.u8(..4) == 0 {
            let far = if self.rng.bool() { 2 * lease } else { 100 };
            trip.copy = Some(self.rng.u64(1..=far));
        }
        // The reader whom it gives up may go on meanwhile.
        let releases = self.accidents > 0 && matches!(call, Call::Release(_, true)) && self.rng.bool();
        if releases {
            trip.request = Some(self.rng.u64(0..=lease));
        }
        if releases || slow || mute || hole || unordered {
            trip.alone = true;
            let trouble = &mut self.processes[process].trouble;
            *trouble = (*trouble).max(now + lease / 2);
        }
        trip
    }

    fn arrive(&mut self, process: usize, era: u32, call: &Call) -> Arrival {
        if self.frozen_until > self.now() {
            return Arrival::Frozen(self.frozen_until);
        }
        // One that finds nobody at work asks no further, but for the last.
        let early = *call == Call::Purge(false) && !self.is_over && !self.someone_is_alive();
        if early || era != self.era || !self.up || (self.full && grows(call)) {
            return Arrival::Refused;
        }
        Arrival::Answer(Box::new(self.execute(process, call)))
    }
}

impl Inner {
    /// A look at who is connected. Some lie: nobody is gone, everybody is, or a connection breaks that was just seen.
    fn look(&mut self, process: usize, of: Option<&NodeId>, sights: &Sights) -> Result<Gone> {
        self.see_connections();
        let looked = rules::connected(&mut self.state, of)?;
        let over = (u64::from(self.era) << 32) + u64::from(self.processes[process].generation) + 1;
        let names: Vec<NodeId> = looked.iter().map(|(node, _)| node.clone()).collect();
        let mut gone = sights.look(over, of.is_none(), looked);
        if self.plan.lies > 0 && self.rng.u32(..self.plan.lies) == 0 {
            match self.rng.u8(..3) {
                0 => gone.nodes.clear(),
                1 => gone.nodes = names,
                _ => {
                    let misled = self.rng.choice(&names).and_then(|node| self.members.get(node)).copied();
                    if let Some(process) = misled {
                        self.hide(process);
                    }
                }
            }
        }
        Ok(gone)
    }
}

/// What a store that is full refuses.
fn grows(call: &Call) -> bool {
    matches!(call, Call::Publish(_) | Call::Push(_) | Call::Requeue(_))
}

/// Reaches the store, however long that stands still.
async fn deliver(world: &World, process: usize, era: u32, call: &Call) -> Result<Answer> {
    loop {
        match world.with(|inner| inner.arrive(process, era, call)) {
            Arrival::Answer(answer) => return *answer,
            Arrival::Refused => return Err(away("refused")),
            Arrival::Frozen(until) => {
                let now = world.lock().now();
                sleep_ms(until - now).await;
            }
        }
    }
}

impl Wire {
    /// A store that went back is another one, as a replica that was promoted is.
    fn server(&self) -> String {
        format!("era {}", self.world.lock().era)
    }

    /// A call, and what tells when the replica has it. What the store said before another took its place counts for nothing.
    async fn here<T>(&self, call: impl Future<Output = Result<T>>) -> Result<(T, Option<Ticket>)> {
        let era = self.world.lock().era;
        let answer = call.await?;
        let ticket = self.ticket();
        if self.world.lock().era != era {
            return Err(away("elsewhere"));
        }
        Ok((answer, ticket))
    }

    /// As the Redis engine has it.
    pub fn patience(&self) -> Duration {
        self.world.plan.settings.lease / 2
    }

    async fn call(&self, call: Call) -> Result<Answer> {
        let (world, process) = (&self.world, self.process);
        world.gate(process).await;
        let deadline = Instant::now() + self.patience();
        let trip = world.with(|inner| {
            inner.note(|| format!("{process}: sends {}", verb(&call)));
            inner.trip(process, &call)
        });
        let copied = trip.copy.map(|copy| (copy, call.clone()));
        let answer = if trip.alone {
            self.apart(call, &trip, deadline).await
        } else {
            self.directly(call, &trip, deadline).await
        };
        if let Some((copy, call)) = copied {
            let (world, era) = (world.clone(), trip.era);
            tokio::spawn(async move {
                sleep_ms(copy).await;
                world.with(|inner| inner.note(|| format!("{process}: a late copy of {}", verb(&call))));
                let _ = deliver(&world, process, era, &call).await;
            });
        }
        world.gate(process).await;
        answer
    }

    /// Everything goes well, unless something happens meanwhile.
    async fn directly(&self, call: Call, trip: &Trip, deadline: Instant) -> Result<Answer> {
        let (world, process) = (&self.world, self.process);
        let is_cut = || world.lock().processes[process].generation != trip.generation;
        sleep_ms(trip.request.unwrap_or(0)).await;
        if is_cut() {
            return Err(away("cut"));
        }
        let answer = match world.with(|inner| inner.arrive(process, trip.era, &call)) {
            Arrival::Answer(answer) => *answer,
            Arrival::Refused => {
                sleep_ms(1).await;
                return Err(away("refused"));
            }
            Arrival::Frozen(_) => return self.apart(call, trip, deadline).await,
        };
        sleep_ms(trip.reply.unwrap_or(0)).await;
        if is_cut() {
            return Err(away("cut"));
        }
        answer
    }

    /// The call goes its own way: it may arrive after its caller has given up, or has died.
    async fn apart(&self, call: Call, trip: &Trip, deadline: Instant) -> Result<Answer> {
        let (answered, answer) = oneshot::channel();
        if let Some(request) = trip.request {
            let (world, process, era, reply) = (self.world.clone(), self.process, trip.era, trip.reply);
            tokio::spawn(async move {
                sleep_ms(request).await;
                let answer = deliver(&world, process, era, &call).await;
                if let Some(reply) = reply {
                    sleep_ms(reply).await;
                    // Nor does an answer of the store that was reach anyone after it went back.
                    if world.lock().era == era {
                        let _ = answered.send(answer);
                    }
                }
            });
        }
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(Err(error))) => {
                sleep_ms(1).await;
                Err(error)
            }
            Ok(Ok(answer)) => answer,
            _ => {
                tokio::time::sleep_until(deadline).await;
                Err(away("no answer"))
            }
        }
    }
}

/// A publish (0) or an exchange (1) that is on its way.
struct Flying<'a>(&'a Wire, usize);

impl<'a> Flying<'a> {
    fn new(wire: &'a Wire, kind: usize) -> Self {
        wire.world.with(|inner| {
            let (flying, most) = (&mut inner.processes[wire.process].flying, &mut inner.told.flying_max);
            flying[kind] += 1;
            most[kind] = most[kind].max(flying[kind]);
        });
        Self(wire, kind)
    }
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0
            .world
            .with(|inner| inner.processes[self.0.process].flying[self.1] -= 1);
    }
}

fn verb(call: &Call) -> &'static str {
    match call {
        Call::Join(_) => "join",
        Call::Beat(_) => "beat",
        Call::Publish(_) => "publish",
        Call::Exchange(_) => "exchange",
        Call::Reap(_) => "reap",
        Call::Leave(_) => "leave",
        Call::Collect(_) => "collect",
        Call::Hold(..) => "hold",
        Call::Release(..) => "release",
        Call::Failed(..) => "failed",
        Call::Push(_) => "push",
        Call::Requeue(_) => "requeue",
        Call::Discard(_) => "discard",
        Call::Trim(_) => "trim",
        Call::Pause(..) => "pause",
        Call::PauseGroup(..) => "pause-group",
        Call::Limit(_) => "limit",
        Call::Cancel(_) => "cancel",
        Call::CancelGroup(_) => "cancel-group",
        Call::Handover(_) => "handover",
        Call::Report(_) => "report",
        Call::History(_) => "history",
        Call::Purge(_) => "purge",
        Call::Status => "status",
        Call::Find(_) => "find",
        Call::Endings(_) => "endings",
    }
}

macro_rules! answer {
    ($wire:ident, $call:expr, $answer:ident) => {
        match $wire.call($call).await? {
            Answer::$answer(answer) => Ok(answer),
            Answer::Wrong(what) => Err(Error::Protocol { detail: what.into() }),
            other => panic!("{other:?}"),
        }
    };
}

impl Engine for Wire {
    type Shard = Self;

    fn shards(queue: &Arc<Self>) -> Vec<Arc<Self>> {
        vec![queue.clone()]
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn join(&self, join: &Join) -> Result<Joined> {
        self.world.with(|inner| {
            // A join that is repeated says what was seen at first; the beat after it says the rest.
            // One that drew the id of another is not it.
            if !inner.members.contains_key(&join.node) {
                inner.members.insert(join.node.clone(), self.process);
                inner.processes[self.process].shows.clone_from(&join.node);
                inner.tells(self.process, join.seen.seq);
            }
        });
        let (joined, ticket) = self
            .here(async { answer!(self, Call::Join(join.clone()), Joined) })
            .await?;
        match ticket {
            Some(ticket) if !self.kept_by_replica(&ticket).await? => Err(away("taken back")),
            _ => Ok(joined),
        }
    }

    async fn beat(&self, beat: &Beat) -> Result<Renewed> {
        self.world.with(|inner| inner.tells(self.process, beat.seen.seq));
        let server = self.server();
        let mut beat = Beat { server, ..beat.clone() };
        self.world.with(|inner| {
            if inner.plan.lies > 0 && inner.rng.u32(..inner.plan.lies) == 0 {
                let anyone: Vec<&NodeId> = inner.members.keys().collect();
                beat.gone = inner
                    .rng
                    .choice(&anyone)
                    .map_or_else(String::new, |node| (*node).clone());
            }
        });
        let pulse = answer!(self, Call::Beat(beat), Renewed);
        if let Ok(Renewed::Alive(member)) = &pulse {
            self.world.with(|inner| {
                // With replicas, a generator has seen what they have.
                if !(member.generator && inner.plan.settings.replicas > 0) {
                    inner.saw(self.process, member.seq);
                }
                inner.processes[self.process].rewinds.0 += u64::from(member.rewound.is_some());
            });
        }
        pulse
    }

    /// There is one shard here.
    async fn reshard(&self, _: &str) -> Result<bool> {
        panic!("nobody reshards")
    }

    async fn publish(&self, publish: &Publish) -> Result<Published> {
        self.world.with(|inner| inner.publishes(self.process, publish));
        // What was taken back is published again beside the others.
        let _flying = (!publish.again).then(|| Flying::new(self, 0));
        let server = self.server();
        let call = Call::Publish(Publish {
            server,
            ..publish.clone()
        });
        let published = answer!(self, call, Published);
        if matches!(published, Ok(Published::Ok { .. })) {
            self.world.with(|inner| inner.has_published(self.process, publish));
        }
        if let Ok(Published::Moved { seq }) = &published {
            self.world.with(|inner| {
                if inner.plan.settings.replicas == 0 {
                    inner.saw(self.process, *seq);
                }
            });
        }
        published
    }

    async fn publish_ahead(&self, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
        self.here(self.publish(publish)).await
    }

    async fn exchange_ahead(&self, exchange: &Exchange) -> Result<(Exchanged, Option<Ticket>)> {
        self.here(self.exchange(exchange)).await
    }

    async fn kept(&self, ticket: &Ticket) -> Result<bool> {
        self.kept_by_replica(ticket).await
    }

    async fn exchange(&self, exchange: &Exchange) -> Result<Exchanged> {
        self.world.with(|inner| inner.sends(self.process, exchange));
        let _flying = Flying::new(self, 1);
        let server = self.server();
        let call = Exchange {
            server,
            ..exchange.clone()
        };
        let era = self.world.lock().era;
        let exchanged = answer!(self, Call::Exchange(call), Exchanged);
        // What the store said before it went back reaches nobody: nobody has seen it.
        if self.world.lock().era != era {
            return Err(away("elsewhere"));
        }
        if let Ok(exchanged) = &exchanged {
            self.world.with(|inner| inner.got(self.process, exchange, exchanged));
        }
        exchanged
    }

    async fn reap(&self, reap: &Reap) -> Result<Reaped> {
        answer!(self, Call::Reap(reap.clone()), Reaped)
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        self.call(Call::Leave(node.clone())).await.map(drop)
    }

    fn is_watched(&self) -> bool {
        self.world.lock().plan.settings.watch
    }

    /// A look may be lost, wrong or late, and so may what it shows.
    async fn gone(&self, of: Option<&NodeId>) -> Result<Option<Gone>> {
        let (world, process) = (&self.world, self.process);
        world.gate(process).await;
        let latency = world.with(|inner| {
            let late = inner.plan.lies > 0 && inner.rng.u32(..inner.plan.lies) == 0;
            if late {
                let (now, lease) = (inner.now(), inner.plan.lease_ms());
                let trouble = &mut inner.processes[process].trouble;
                *trouble = (*trouble).max(now + lease);
                return inner.rng.u64(1..=lease / 2);
            }
            inner.rng.u64(1..=inner.plan.latency_ms)
        });
        let looked = world.with(|inner| {
            let now = inner.now();
            let link = &inner.processes[process];
            let unanswered = link.mute_until > now || link.hole_until > now || inner.frozen_until > now;
            (inner.up && !unanswered).then(|| inner.look(process, of, &self.sights))
        });
        sleep_ms(latency).await;
        world.gate(process).await;
        if let Some(gone) = looked {
            return gone.map(Some);
        }
        tokio::time::sleep(self.patience()).await;
        Err(away("no answer"))
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        let (world, process) = (&self.world, self.process);
        world.gate(process).await;
        let (lost, up) = world.with(|inner| {
            let (now, process) = (inner.now(), &inner.processes[process]);
            (process.hole_until > now || process.mute_until > now, inner.up)
        });
        if !up {
            sleep_ms(1).await;
            return Err(away("refused"));
        }
        let mut heard = world.with(|inner| inner.wait(process, wake, at_most));
        let generation = world.lock().processes[process].generation;
        let answer = match tokio::time::timeout(at_most, &mut heard).await {
            Ok(Ok(())) => Ok(true),
            _ if lost => {
                tokio::time::sleep(self.patience()).await;
                Err(away("no answer"))
            }
            _ => Ok(false),
        };
        world.gate(process).await;
        if world.lock().processes[process].generation != generation {
            return Err(away("cut"));
        }
        answer
    }

    async fn collect(&self, collect: &Collect) -> Result<Collected> {
        self.world.with(|inner| {
            inner.members.insert(collect.reader.clone(), self.process);
            inner.processes[self.process].node.clone_from(&collect.reader);
        });
        answer!(self, Call::Collect(collect.clone()), Collected)
    }

    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        answer!(self, Call::Hold(reader.into(), lease_ms), Held)
    }

    async fn release(&self, reader: &str, expired: bool) -> Result<()> {
        self.call(Call::Release(reader.into(), expired)).await.map(drop)
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        answer!(self, Call::Failed(from, limit), Failed)
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo::default())
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        rules::latest(&mut self.world.lock().state, below, limit)
    }

    async fn published(&self) -> Result<u64> {
        rules::published(&mut self.world.lock().state)
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        rules::held(&mut self.world.lock().state, node, limit)
    }

    async fn endings(&self, numbers: &[u64]) -> Result<Vec<Option<queenright::engine::Ending>>> {
        answer!(self, Call::Endings(numbers.to_vec()), Endings)
    }

    async fn await_ending(&self, _: u64, _: Duration) -> Result<bool> {
        unreachable!("nobody waits here")
    }

    async fn find(&self, number: u64) -> Result<queenright::engine::Found> {
        let wall_ms = self.world.lock().wall();
        rules::find(&mut self.world.lock().state, wall_ms, number)
    }

    async fn push(&self, push: &Push) -> Result<Pushed> {
        let server = self.server();
        let push = Push { server, ..push.clone() };
        let (pushed, ticket) = self.here(async { answer!(self, Call::Push(push), Pushed) }).await?;
        match ticket {
            // The caller makes the same call again.
            Some(ticket) if matches!(pushed, Pushed::Ok(_)) && !self.kept_by_replica(&ticket).await? => {
                Err(away("taken back"))
            }
            _ => Ok(pushed),
        }
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        answer!(self, Call::Requeue(numbers.to_vec()), Requeued)
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        answer!(self, Call::Discard(numbers.to_vec()), Discarded)
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        answer!(self, Call::Trim(keep), Discarded)
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        answer!(self, Call::Pause(generator, handlers), Paused)
    }

    async fn pause_group(&self, group: &str, paused: bool) -> Result<PausedGroup> {
        answer!(self, Call::PauseGroup(group.to_string(), paused), PausedGroup)
    }

    async fn limit(&self, limits: &Limits) -> Result<()> {
        self.call(Call::Limit(*limits)).await.map(drop)
    }

    async fn cancel(&self, numbers: &[u64]) -> Result<Vec<Cancelled>> {
        answer!(self, Call::Cancel(numbers.to_vec()), Cancelled)
    }

    async fn cancel_group(&self, group: &str) -> Result<CancelledGroup> {
        answer!(self, Call::CancelGroup(group.to_string()), CancelledGroup)
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        answer!(self, Call::Handover(to.map(str::to_string)), Handover)
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        answer!(self, Call::Purge(force), Purged)
    }

    /// Arrives at once or not at all, and draws no lot: what a seed shows hangs on the calls that matter. Nobody looks, for
    /// the same reason.
    async fn report(&self, report: &Report) -> Result<Reported> {
        let (world, process) = (&self.world, self.process);
        world.gate(process).await;
        let call = Call::Report(Box::new(report.clone()));
        let era = world.lock().era;
        match world.with(|inner| inner.arrive(process, era, &call)) {
            Arrival::Answer(answer) => match (*answer)? {
                Answer::Reported(Reported::Stored { .. }) => Ok(Reported::Stored { look: false }),
                Answer::Reported(stranger) => Ok(stranger),
                other => panic!("{other:?}"),
            },
            Arrival::Refused | Arrival::Frozen(_) => Err(away("refused")),
        }
    }

    async fn history(&self, _: Range) -> Result<History> {
        unreachable!("nobody asks for history here")
    }

    async fn status(&self) -> Result<Status> {
        match self.call(Call::Status).await? {
            Answer::Status(Some(status)) => Ok(*status),
            _ => Err(Error::NoQueue { queue: "none".into() }),
        }
    }

    fn trip(&self) -> Duration {
        Duration::from_millis(self.world.plan.trip_ms)
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.world.lock().state.unsettled())
    }
}
