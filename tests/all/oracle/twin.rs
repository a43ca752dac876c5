//! The same call to both engines, at the same time of the same clock.

use std::time::Duration;

use queenright::engine::memory::State;
use queenright::engine::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, History, Join, Joined, Limits, NodeId, Paused, PausedGroup, Publish, Published, Purged, Push, Pushed,
    Range, Reap, Reaped, Renewed, Report, Reported, Requeued, Sights, Status, Wake, rules,
};
use queenright::error::{Error, Result};
use queenright::settings::Names;

use crate::checker;
use crate::conformance::{Bench, QUEUE};

#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Join(Join),
    Beat(Beat),
    Publish(Publish),
    Push(Push),
    Exchange(Exchange),
    Reap(Reap),
    Leave(NodeId),
    Collect(Collect),
    Hold(String, u64),
    Release(String, bool),
    Failed(u64, u32),
    Requeue(Vec<u64>),
    Discard(Vec<u64>),
    Trim(u64),
    Pause(Option<bool>, Option<bool>),
    PauseGroup(String, bool),
    Limit(Limits),
    Cancel(Vec<u64>),
    CancelGroup(String),
    Handover(Option<String>),
    Report(Box<Report>),
    History(Range),
    Purge(bool),
    Status,
    Find(u64),
    Endings(Vec<u64>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Joined(Joined),
    Renewed(Renewed),
    Published(Published),
    Pushed(Pushed),
    Exchanged(Exchanged),
    Reaped(Reaped),
    Collected(Collected),
    Held(bool),
    Failed(Vec<Failed>),
    Requeued(Requeued),
    Discarded(Vec<u64>),
    Paused(Paused),
    PausedGroup(PausedGroup),
    Cancelled(Vec<Cancelled>),
    CancelledGroup(CancelledGroup),
    Handover(Handover),
    Reported(Reported),
    History(Option<Box<History>>),
    Purged(Purged),
    Status(Option<Box<Status>>),
    Found(Box<Found>),
    Endings(Vec<Option<Ending>>),
    Nothing,
    /// Only the kind: the texts may differ.
    Wrong(&'static str),
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        match error {
            Error::Protocol { .. } => Self::Wrong("protocol"),
            Error::NoQueue { .. } => Self::Status(None),
            other => panic!("{other}"),
        }
    }
}

pub struct Twin<B> {
    pub state: State,
    bench: B,
    pub wall_ms: u64,
    /// Whom looks have shown, as the engine has it.
    sights: Sights,
    /// How many calls were made, to look at everything now and then.
    calls: u32,
    /// The last few, for whoever looks into a failure.
    recent: std::collections::VecDeque<String>,
}

const RECENT: usize = 12;

impl<B: Bench> Twin<B> {
    pub async fn new(store: &B::Store) -> Self {
        let mut twin = Self {
            state: State::new(QUEUE, &Names::default()),
            bench: B::fresh(store, None).await,
            wall_ms: 0,
            sights: Sights::default(),
            calls: 0,
            recent: std::collections::VecDeque::new(),
        };
        twin.set_wall(1_700_000_000_000).await;
        twin
    }

    pub async fn set_wall(&mut self, wall_ms: u64) {
        self.wall_ms = wall_ms;
        self.bench.set_wall(wall_ms).await;
    }

    /// One call to both.
    pub async fn call(&mut self, call: &Call) -> Answer {
        let now = self.wall_ms;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(format!("{now}: {call:?}"));
        let filtered = self.filtered(call);
        let ours = local(&mut self.state, now, &filtered);
        self.show(call, &ours);
        let theirs = remote(self.bench.engine(), call).await;
        assert!(
            ours == theirs,
            "{call:#?}\nstate: {ours:#?}\nother: {theirs:#?}\nafter {:#?}",
            self.recent
        );
        self.calls += 1;
        if self.calls.is_multiple_of(16) {
            self.compare().await;
        }
        ours
    }

    /// What an engine says of who is gone: only of those that it has seen.
    fn filtered(&self, call: &Call) -> Call {
        let mut call = call.clone();
        match &mut call {
            Call::Beat(beat) if !self.sights.has_seen(1, &beat.gone) => beat.gone.clear(),
            Call::Reap(reap) => reap.gone = reap.gone && self.sights.has_seen(1, &reap.victim),
            _ => {}
        }
        call
    }

    /// Who shows that it is there after a call.
    fn show(&mut self, call: &Call, answer: &Answer) {
        let connected = &mut self.state.connected.0;
        match (call, answer) {
            (Call::Join(join), Answer::Joined(Joined::Ok { .. })) => drop(connected.insert(join.node.clone())),
            (Call::Join(join), _) => drop(connected.remove(&join.node)),
            (Call::Leave(node), _) => drop(connected.remove(node)),
            (Call::Beat(beat), Answer::Renewed(Renewed::Deposed)) => drop(connected.remove(&beat.node)),
            _ => {}
        }
    }

    /// Both look who is connected.
    pub async fn look(&mut self) {
        let looked = rules::connected(&mut self.state, None).expect("a look");
        let ours = self.sights.look(1, true, looked);
        let theirs = self.bench.engine().gone(None).await.expect("a look").expect("it tells");
        let sorted = |mut gone: Gone| {
            gone.nodes.sort();
            gone
        };
        assert_eq!(sorted(theirs), sorted(ours), "after {:#?}", self.recent);
    }

    /// A connection is closed, whoever lives.
    pub async fn hide(&mut self, node: &str) {
        self.state.connected.0.remove(node);
        self.bench.hide(node).await;
    }

    /// Whoever listens at this one has heard it.
    pub async fn hear(&mut self, wake: Wake) {
        match wake {
            Wake::Bell => self.state.bell = false,
            Wake::Crown => self.state.crown_bell = false,
        }
        let heard = self.bench.engine().listen(wake, Duration::from_secs(1)).await;
        assert_eq!(heard, Ok(true), "{wake:?} after {:#?}", self.recent);
        if wake == Wake::Crown {
            // It may have been told by another way, and then it hangs there still.
            self.bench.hush_crown().await;
        }
    }

    /// Whoever listens has heard the bells.
    pub async fn hush(&mut self) {
        (self.state.bell, self.state.crown_bell) = (false, false);
        self.bench.hush().await;
    }

    /// Everything stored, and the invariants over it.
    pub async fn compare(&self) {
        let stored = self.bench.state().await;
        if stored != self.state {
            let differ = checker::differences(&self.state, &stored);
            panic!("state and the other differ after {:#?}:\n{differ}", self.recent);
        }
        match rules::status(&mut self.state.clone(), self.wall_ms) {
            Ok(status) => checker::adds_up(&self.state, &status),
            Err(error) => assert!(matches!(error, Error::NoQueue { .. }), "{error}"),
        }
    }
}

pub fn local(state: &mut State, now: u64, call: &Call) -> Answer {
    told(state, now, call).unwrap_or_else(Answer::from)
}

fn told(state: &mut State, now: u64, call: &Call) -> Result<Answer> {
    Ok(match call {
        Call::Join(join) => Answer::Joined(rules::join(state, now, join)?),
        Call::Beat(beat) => Answer::Renewed(rules::beat(state, now, beat)?),
        Call::Publish(publish) => Answer::Published(rules::publish(state, now, publish)?),
        Call::Push(push) => Answer::Pushed(rules::push(state, now, push)?),
        Call::Exchange(exchange) => Answer::Exchanged(rules::exchange(state, now, exchange)?),
        Call::Reap(reap) => Answer::Reaped(rules::reap(state, now, reap)?),
        Call::Leave(node) => {
            rules::leave(state, node)?;
            Answer::Nothing
        }
        Call::Collect(collect) => Answer::Collected(rules::collect(state, now, collect)?),
        Call::Hold(reader, lease_ms) => Answer::Held(rules::hold(state, now, reader, *lease_ms)?),
        Call::Release(reader, expired) => {
            rules::release(state, now, reader, *expired)?;
            Answer::Nothing
        }
        Call::Failed(from, limit) => Answer::Failed(rules::failed(state, *from, *limit)?),
        Call::Requeue(numbers) => Answer::Requeued(rules::requeue(state, numbers)?),
        Call::Discard(numbers) => Answer::Discarded(rules::discard(state, numbers)?),
        Call::Trim(keep) => Answer::Discarded(rules::trim(state, *keep)?),
        Call::Pause(generator, handlers) => Answer::Paused(rules::pause(state, *generator, *handlers)?),
        Call::PauseGroup(group, paused) => Answer::PausedGroup(rules::pause_group(state, group, *paused)?),
        Call::Limit(limits) => {
            rules::limit(state, now, limits)?;
            Answer::Nothing
        }
        Call::Cancel(numbers) => Answer::Cancelled(rules::cancel(state, now, numbers)?),
        Call::CancelGroup(group) => Answer::CancelledGroup(rules::cancel_group(state, now, group)?),
        Call::Handover(to) => Answer::Handover(rules::handover(state, now, to.as_deref())?),
        Call::Report(report) => Answer::Reported(rules::report(state, now, report)?),
        Call::History(range) => match rules::history(state, now, *range) {
            Err(Error::NoQueue { .. }) => Answer::History(None),
            history => Answer::History(Some(Box::new(history?))),
        },
        Call::Purge(force) => Answer::Purged(rules::purge(state, now, *force)?),
        Call::Status => Answer::Status(Some(Box::new(rules::status(state, now)?))),
        Call::Find(number) => Answer::Found(Box::new(rules::find(state, now, *number)?)),
        Call::Endings(numbers) => Answer::Endings(rules::endings(state, now, numbers)?),
    })
}

async fn remote<E: Engine>(engine: &E, call: &Call) -> Answer {
    ask(engine, call).await.unwrap_or_else(Answer::from)
}

/// One call to an engine.
pub async fn ask<E: Engine>(engine: &E, call: &Call) -> Result<Answer> {
    match call {
        Call::Join(join) => engine.join(join).await.map(Answer::Joined),
        Call::Beat(beat) => engine.beat(beat).await.map(Answer::Renewed),
        Call::Publish(publish) => engine.publish(publish).await.map(Answer::Published),
        Call::Push(push) => engine.push(push).await.map(Answer::Pushed),
        Call::Exchange(exchange) => engine.exchange(exchange).await.map(Answer::Exchanged),
        Call::Reap(reap) => engine.reap(reap).await.map(Answer::Reaped),
        Call::Leave(node) => engine.leave(node).await.map(|()| Answer::Nothing),
        Call::Collect(collect) => engine.collect(collect).await.map(Answer::Collected),
        Call::Hold(reader, lease_ms) => engine.hold(reader, *lease_ms).await.map(Answer::Held),
        Call::Release(reader, expired) => engine.release(reader, *expired).await.map(|()| Answer::Nothing),
        Call::Failed(from, limit) => engine.failed(*from, *limit).await.map(Answer::Failed),
        Call::Requeue(numbers) => engine.requeue(numbers).await.map(Answer::Requeued),
        Call::Discard(numbers) => engine.discard(numbers).await.map(Answer::Discarded),
        Call::Trim(keep) => engine.trim(*keep).await.map(Answer::Discarded),
        Call::Pause(generator, handlers) => engine.pause(*generator, *handlers).await.map(Answer::Paused),
        Call::PauseGroup(group, paused) => engine.pause_group(group, *paused).await.map(Answer::PausedGroup),
        Call::Limit(limits) => engine.limit(limits).await.map(|()| Answer::Nothing),
        Call::Cancel(numbers) => engine.cancel(numbers).await.map(Answer::Cancelled),
        Call::CancelGroup(group) => engine.cancel_group(group).await.map(Answer::CancelledGroup),
        Call::Handover(to) => engine.handover(to.as_deref()).await.map(Answer::Handover),
        Call::Report(report) => engine.report(report).await.map(Answer::Reported),
        Call::History(range) => match engine.history(*range).await {
            Err(Error::NoQueue { .. }) => Ok(Answer::History(None)),
            history => history.map(|history| Answer::History(Some(Box::new(history)))),
        },
        Call::Purge(force) => engine.purge(*force).await.map(Answer::Purged),
        Call::Status => engine
            .status()
            .await
            .map(|status| Answer::Status(Some(Box::new(status)))),
        Call::Find(number) => engine.find(*number).await.map(|found| Answer::Found(Box::new(found))),
        Call::Endings(numbers) => engine.endings(numbers).await.map(Answer::Endings),
    }
}
