//! One seed from beginning to end: trouble, then peace, in which everything must come right.

use std::sync::Arc;

use queenright::engine::Paused;
use queenright::engine::memory::Stored;
use queenright::settings::Prefer;
use tokio::time::Instant;

use super::errands::{Errand, start_operator, start_pusher};
use super::faults::{befall, heal, stop};
use super::plan::Plan;
use super::process::{Kind, Process, start_node, start_reader};
use super::world::{Inner, Step, World, sleep_ms};

/// What a seed came to.
pub struct Report {
    pub failure: Option<String>,
    pub hash: u64,
    pub calls: u64,
    pub virtual_ms: u64,
    pub history: Vec<Step>,
    pub published: u64,
    pub elections: u64,
    pub redelivered: u64,
    pub flying_max: [u32; 2],
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// A guard of the engine or of the node that is taken out.
    pub without: Option<&'static str>,
    pub record: bool,
    pub chatty: bool,
}

/// Plays a seed on a runtime of its own, in virtual time.
pub fn play(seed: u64, options: Options) -> Report {
    fastrand::seed(seed);
    #[cfg(feature = "mutants")]
    queenright::mutants::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    #[cfg(feature = "mutants")]
    queenright::mutants::take_out(options.without);
    let report = crate::conformance::quietly(|| runtime.block_on(live(Plan::draw(seed), options)));
    #[cfg(feature = "mutants")]
    queenright::mutants::take_out(None);
    report.unwrap_or_else(|why| Report {
        failure: Some(why),
        hash: 0,
        calls: 0,
        virtual_ms: 0,
        history: Vec::new(),
        published: 0,
        elections: 0,
        redelivered: 0,
        flying_max: [0; 2],
    })
}

async fn live(plan: Plan, options: Options) -> Report {
    let begun = Instant::now();
    if options.chatty {
        println!("{plan:#?}");
    }
    let world = World::new(plan, options.record, options.chatty);
    #[cfg(feature = "mutants")]
    {
        world.lock().state.without = options.without.map(str::to_string);
    }
    tokio::select! {
        biased;
        () = world.failed.notified() => {}
        () = story(&world) => {}
    }
    let mut inner = world.lock();
    Report {
        failure: inner.failure.take(),
        hash: inner.hash,
        calls: inner.calls,
        virtual_ms: u64::try_from(begun.elapsed().as_millis()).expect("short"),
        history: inner.history.take().unwrap_or_default(),
        published: inner.state.meta.as_ref().map_or(0, |meta| meta.seq),
        elections: inner.told.elections,
        redelivered: inner.told.redelivered,
        flying_max: inner.told.flying_max,
    }
}

async fn story(world: &Arc<World>) {
    for _ in 0..world.plan.nodes {
        start_node(world, Kind::Node);
        let pause = world.with(|inner| inner.rng.u64(0..20));
        sleep_ms(pause).await;
    }
    for (at, fault) in world.plan.faults.clone() {
        let now = world.lock().now();
        sleep_ms(at.saturating_sub(now)).await;
        befall(world, fault);
    }
    let now = world.lock().now();
    sleep_ms(world.plan.trouble_ms.saturating_sub(now)).await;
    heal(world);
    everything_comes_right(world).await;
    every_error_is_read(world).await;
    everyone_stops(world).await;
    if world.plan.newer {
        an_older_program_is_refused(world).await;
    }
    world.with(Inner::effects_are_exactly_once);
    world.with(Inner::chains_are_complete);
    if world.plan.purge {
        the_queue_is_removed(world).await;
    }
}

/// A generator within a few leases; all ticks; every message with an outcome.
async fn everything_comes_right(world: &Arc<World>) {
    let plan = &world.plan;
    let (lease, messages) = (plan.lease_ms(), plan.settings.messages.expect("bounded"));
    let work = |number| plan.work_ms(number) * (3 + u64::from(plan.failures(number)));
    // What they publish comes behind them.
    let all = if plan.chains { 3 * messages } else { messages };
    let work: u64 = (0..all).map(work).sum();
    // At five a second, and some are taken again.
    let slow = if plan.limited { 3 * all * 200 } else { 0 };
    let deadline = world.lock().now() + 60 * lease + messages * plan.settings.interval_ms() + work + slow;
    let peace = world.lock().now();
    loop {
        let over = world.with(|inner| {
            let now = inner.now();
            let Some(meta) = &inner.state.meta else { return false };
            let published = meta.seq >= messages || plan.barren;
            let crowned = meta.crown + lease > meta.clock || plan.barren;
            if !crowned && now > peace + 4 * lease {
                inner.fail("there is no generator");
            }
            let right = published && inner.book.is_settled();
            if !right && now > deadline {
                let left = inner.state.unsettled();
                let seq = inner.state.meta.as_ref().map_or(0, |meta| meta.seq);
                inner.fail(&format!(
                    "stranded: {seq} of {messages} published, without an outcome: {left:?}"
                ));
            }
            right && inner.errands_are_over() && now > peace + 4 * lease
        });
        if over {
            break;
        }
        // A late copy of a call may have paused it once more.
        let is_paused = |inner: &mut Inner| {
            inner
                .state
                .meta
                .as_ref()
                .is_some_and(|meta| meta.paused != Paused::default())
        };
        if world.with(is_paused) {
            start_operator(world, Errand::Pause(Some(false), Some(false)));
        }
        if world.with(|inner| inner.state.turns.values().any(|turn| turn.paused)) {
            start_operator(world, Errand::PauseGroup("g0".into(), false));
        }
        sleep_ms(lease / 4).await;
    }
    world.with(|inner| {
        if inner.processes.iter().any(|process| process.works() && process.halted) {
            inner.fail("a node believes that something is paused");
        }
        let generator = inner
            .state
            .meta
            .as_ref()
            .map(|meta| meta.generator.clone())
            .unwrap_or_default();
        let believers: Vec<String> = inner
            .processes
            .iter()
            .filter(|process| process.works())
            .filter(|process| process.reigns.is_some())
            .map(|process| process.node.clone())
            .collect();
        if believers != [generator.clone()] && !inner.plan.barren {
            inner.fail(&format!(
                "{generator} is the generator, and these take themselves for it: {believers:?}"
            ));
        }
        inner.nobody_would_rather_generate();
        inner.a_store_that_went_back_is_noticed();
    });
}

async fn every_error_is_read(world: &Arc<World>) {
    let readers: Vec<usize> = world.with(|inner| {
        let all = 0..inner.processes.len();
        all.filter(|process| inner.processes[*process].kind == Kind::Reader)
            .collect()
    });
    let mut reader = start_reader(world, None, true);
    let deadline = world.lock().now() + 60_000;
    loop {
        sleep_ms(50).await;
        let (over, late) = world.with(|inner| {
            let over = readers
                .iter()
                .chain([&reader])
                .all(|process| inner.processes[*process].dead || inner.processes[*process].ended.is_some());
            (over, inner.now() > deadline)
        });
        if late {
            return world.with(|inner| inner.fail("reading errors does not end"));
        }
        if !over {
            continue;
        }
        let unread = world.with(|inner| inner.book.unread());
        if unread.is_empty() {
            break;
        }
        // What others gave back at their end is read by the next.
        let others_gave_back = world.with(|inner| {
            let ended = inner.processes[reader].ended == Some(Ok(()));
            ended && inner.state.reading.is_empty()
        });
        if others_gave_back {
            reader = start_reader(world, None, true);
        } else {
            return world.with(|inner| inner.fail(&format!("errors that nobody reads: {unread:?}")));
        }
    }
    world.with(|inner| {
        if inner.book.failed() != inner.book.confirmed() {
            inner.fail("not every failed message was read");
        }
    });
}

async fn everyone_stops(world: &Arc<World>) {
    let (count, grace) = world.with(|inner| (inner.processes.len(), inner.plan.settings.grace));
    for process in 0..count {
        if world.lock().processes[process].works() {
            stop(world, process);
        }
    }
    let grace = u64::try_from(grace.as_millis()).expect("short");
    let deadline = world.lock().now() + grace + 5000;
    loop {
        sleep_ms(5).await;
        let (over, late) = world.with(|inner| {
            let over = inner.processes.iter().all(|process| {
                let runs = process.kind == Kind::Node && !process.dead && !process.dropped;
                !runs || process.ended.is_some()
            });
            (over, inner.now() > deadline)
        });
        if over {
            return;
        }
        if late {
            return world.with(|inner| inner.fail("a node does not stop"));
        }
    }
}

/// With all that belongs to it, and nothing else.
async fn the_queue_is_removed(world: &Arc<World>) {
    let effects = world.with(|inner| {
        inner.is_over = true;
        inner.state.stored.clone()
    });
    start_operator(world, Errand::Purge);
    while !world.lock().errands_are_over() {
        sleep_ms(10).await;
    }
    world.with(|inner| {
        if inner.state.meta.is_some() || inner.state.stored != effects {
            inner.fail("a queue is not removed, or more than that");
        }
    });
}

/// A newer program has taken the queue over.
async fn an_older_program_is_refused(world: &Arc<World>) {
    world.with(|inner| {
        if let Some(meta) = &mut inner.state.meta {
            meta.layout += 1;
        }
        if let Some(history) = &mut inner.history {
            history.push(Step::Miracle);
        }
    });
    let process = start_node(world, Kind::Stranger);
    let names = world.lock().state.names.clone();
    world.with(|inner| inner.processes[process].names = names.clone());
    let pusher = start_pusher(world, names);
    sleep_ms(4 * world.plan.lease_ms()).await;
    world.with(|inner| {
        let refused = |process: &Process| process.ended.as_ref().is_some_and(Result::is_err);
        if !refused(&inner.processes[process]) || !refused(&inner.processes[pusher]) {
            inner.fail("an older program works on a newer queue");
        }
    });
}

impl Inner {
    fn a_store_that_went_back_is_noticed(&mut self) {
        let silent = |process: &Process| process.works() && process.rewinds.1 < process.rewinds.0;
        if self.processes.iter().any(silent) {
            self.fail("a node keeps to itself that the store went back in time");
        }
    }

    /// Nobody who has been here for a lease ranks above the generator, or above the one whose place it was given.
    fn nobody_would_rather_generate(&mut self) {
        let rank = |prefer| match prefer {
            Prefer::Generator => 3,
            Prefer::Either => 2,
            Prefer::Handler | Prefer::Never => 1,
        };
        let lately = self.now().saturating_sub(self.plan.lease_ms());
        let works = |process: &&Process| process.kind == Kind::Node && process.works() && process.joined < lately;
        let ranks = self.processes.iter().filter(works).map(|process| rank(process.prefer));
        if ranks.max() > Some(self.book.rank) && !self.plan.barren {
            self.fail("someone ranks above the generator");
        }
    }

    /// Each message that is done has had its effects once; no other has.
    fn effects_are_exactly_once(&mut self) {
        let value = |key: &str| match self.state.stored.get(key) {
            Some(Stored::Value(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => "0".to_string(),
        };
        let done: Vec<u64> = self
            .book
            .done()
            .filter(|number| self.plan.deed(*number).counts())
            .collect();
        let wrong = done.iter().find(|number| value(&format!("n:{number}")) != "1");
        let sum = value("sum");
        let extra = self.state.stored.len() > done.len() + usize::from(!done.is_empty());
        if let Some(number) = wrong {
            let found = value(&format!("n:{number}"));
            self.fail(&format!("the effect of message {number} happened {found} times"));
        } else if sum != done.len().to_string() || extra {
            let count = done.len();
            self.fail(&format!(
                "{sum} effects of {count} messages, or effects that were to be refused"
            ));
        }
    }
}
