//! `verify`: a fleet of real processes, every fault that we know, and a verdict that trusts nothing the system says of
//! itself.
//!
//! | file | |
//! | --- | --- |
//! | `place` | the store: named, our own, or a file |
//! | `plan` | which faults come when |
//! | `fleet` | copies, their proxies, readers of errors |
//! | `chaos` | does what the plan says |
//! | `watch` | looks at the store all the time |
//! | `report` | the table, JSON, and what is kept for a bug report |
//!
//! The verdict itself is [`crate::app::lab::ledger::checks`].

mod chaos;
mod fleet;
pub(super) mod place;
mod plan;
mod report;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::app::args::sources::{Resolved, Store, Work};
use crate::app::args::{Invocation, StartFlags, Verify};
use crate::app::exit::{FAILED, Failure};
use crate::app::lab::ledger::Remains;
use crate::app::lab::ledger::checks::{self, Observed};
use crate::app::run::runtime;
use crate::engine::Engine;
use crate::engine::redis::{RedisEngine, Server as RedisAt};
use crate::engine::sqlite::SqliteEngine;
use chaos::Chaos;
use fleet::Fleet;
use place::Place;
use plan::Plan;
use report::{Progress, Report};
use watch::{Look, Watch};

const MESSAGES: u64 = 1_000_000;
const DURATION: Duration = Duration::from_mins(1);
/// Between two looks at the processes.
const TICK: Duration = Duration::from_millis(10);
/// Work that does not move for so many leases, with nothing broken any more, is stuck.
const STALLED_LEASES: u32 = 15;
/// How long copies may take to stop, readers to end, and a store to answer.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two readers of errors, while things are broken.
const READ_EVERY: Duration = Duration::from_secs(3);

pub(super) fn run(asked: &Invocation, resolved: Resolved, flags: &Verify) -> Result<ExitCode, Failure> {
    let mut place = Place::prepare(asked, &resolved, flags)?;
    let mut settings = resolved.settings;
    settings.queue.clone_from(&place.keys.queue_name);
    settings.names = crate::settings::Names::default();
    let timing = (settings.lease, resolved.work, settings.messages);

    let runtime = runtime()?;
    let report = match place.store.clone() {
        Store::Redis(info) => {
            let server = RedisAt::new(*info, place.address.clone(), &settings);
            let engine = RedisEngine::new(&server, place.keys.clone())?;
            runtime.block_on(verify(Arc::new(engine), &mut place, asked, flags, timing))?
        }
        Store::Sqlite(database) => {
            let engine = SqliteEngine::open(database, &settings.queue, &settings.names)?;
            runtime.block_on(verify(Arc::new(engine), &mut place, asked, flags, timing))?
        }
    };
    runtime.shutdown_timeout(Duration::ZERO);
    if !report.findings.is_empty() {
        place.keep();
    }
    let printed = report.keep_and_print(&place, flags.json);
    printed.map_err(|error| Failure::cannot("write the result", error))?;
    Ok(ExitCode::from(if report.findings.is_empty() { 0 } else { FAILED }))
}

/// Everything that takes part.
struct Run<'a, E> {
    engine: Arc<E>,
    place: &'a mut Place,
    fleet: Fleet,
    chaos: Chaos,
    watch: Watch,
    progress: Progress,
    messages: Option<u64>,
    incidents: Vec<String>,
    interrupted: [Signal; 2],
    begun: Instant,
    read_next: Instant,
    stalled_after: Duration,
    stalled: bool,
}

async fn verify<E: Engine>(
    engine: Arc<E>,
    place: &mut Place,
    asked: &Invocation,
    flags: &Verify,
    (lease, work, messages): (Duration, Work, Option<u64>),
) -> Result<Report, Failure> {
    engine.check().await?;
    let failing = |error: std::io::Error| Failure::cannot("verify", error);
    let length = flags.duration.unwrap_or(DURATION);
    let plan = flags.chaos.then(|| {
        Plan::new(
            flags.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            length,
            place.reach(),
        )
    });
    let seed = plan.as_ref().map(|plan| plan.seed);
    if let Some(plan) = &plan {
        std::fs::write(place.directory.join("plan.txt"), plan.text()).map_err(failing)?;
    }
    let messages = messages.or((!flags.chaos).then_some(MESSAGES));
    let arguments = arguments(&asked.start, place, flags, messages);
    let fleet = Fleet::new(place, flags.nodes, arguments, flags.chaos).map_err(failing)?;

    let every = if flags.chaos { 10 * TICK } else { 2 * TICK };
    let (term, int) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let mut run = Run {
        watch: Watch::start(engine.clone(), every),
        engine,
        chaos: Chaos::new(plan, lease, &place.directory).map_err(failing)?,
        place,
        fleet,
        progress: Progress::new(messages, flags.chaos.then_some(length)),
        messages,
        incidents: Vec::new(),
        interrupted: [term.map_err(failing)?, int.map_err(failing)?],
        begun: Instant::now(),
        read_next: Instant::now() + READ_EVERY,
        stalled_after: STALLED_LEASES * lease + work.high,
        stalled: false,
    };
    run.work(flags.chaos.then_some(length)).await?;
    let seconds = run.drain().await?;
    run.judge(seed, seconds).await
}

/// What the copies are told: the caller's options, and ours where they have none.
fn arguments(given: &StartFlags, place: &Place, flags: &Verify, messages: Option<u64>) -> Vec<OsString> {
    let mut options: BTreeMap<&str, String> = BTreeMap::from([("interval", "0".into()), ("error-rate", "0.05".into())]);
    if flags.chaos {
        options.extend([("work", "0..10ms".into()), ("concurrency", "64".into())]);
        // Small, so that whoever comes next has something to do, and the end comes soon.
        options.insert("max-backlog", "20000".into());
        options.insert("effects", place.effects_prefix());
    } else {
        options.insert("work", "0".into());
    }
    if let Some(messages) = messages {
        options.insert("messages", messages.to_string());
    }
    let mut arguments = Vec::new();
    for (name, value) in given.values() {
        match (name, value) {
            (_, None) | ("messages" | "no-wait" | "metrics" | "dashboard", _) => {}
            ("also-handle", Some(_)) => arguments.push("--also-handle".into()),
            (name, Some(value)) => _ = options.insert(name, value.to_string()),
        }
    }
    let written = options.iter().map(|(name, value)| format!("--{name}={value}").into());
    arguments.extend(written);
    arguments
}

impl<E: Engine> Run<'_, E> {
    /// Until all messages are through, or the time is over, or someone interrupts.
    async fn work(&mut self, length: Option<Duration>) -> Result<(), Failure> {
        for seat in 0..self.fleet.seats.len() {
            self.fleet
                .start(seat)
                .map_err(|error| Failure::cannot("start a copy", error))?;
        }
        let mut moved = Moved::new(self.stalled_after);
        loop {
            if self.tick().await? {
                return Ok(());
            }
            let look = self.watch.last();
            let through = |look: &Look| self.messages.is_some_and(|messages| settled(look) >= messages);
            if look.as_ref().is_some_and(through) || length.is_some_and(|length| self.begun.elapsed() >= length) {
                return Ok(());
            }
            if length.is_none() && moved.stalled(look.as_ref()) {
                self.stalled = true;
                return Ok(());
            }
            self.chaos
                .turn(self.begun.elapsed(), &mut self.fleet, self.place, look.as_ref())?;
            if length.is_some() && Instant::now() >= self.read_next && self.fleet.readers() < 2 {
                self.read_next = Instant::now() + READ_EVERY;
                self.read_errors()?;
            }
        }
    }

    /// True: someone wants it to end.
    async fn tick(&mut self) -> Result<bool, Failure> {
        let [term, int] = &mut self.interrupted;
        let over = tokio::select! {
            biased;
            _ = term.recv() => true,
            _ = int.recv() => true,
            () = tokio::time::sleep(TICK) => false,
        };
        if over {
            self.incidents.push("interrupted before the end".into());
        }
        let ended = self
            .fleet
            .ended()
            .map_err(|error| Failure::cannot("watch the copies", error))?;
        for (seat, line) in ended {
            self.incidents.push(line);
            self.fleet
                .start(seat)
                .map_err(|error| Failure::cannot("start a copy", error))?;
        }
        self.progress.show(self.watch.last().as_ref(), self.chaos.count());
        Ok(over)
    }

    fn read_errors(&mut self) -> Result<(), Failure> {
        self.fleet
            .read_errors(self.place)
            .map_err(|error| Failure::cannot("start get-errors", error))
    }

    /// Nothing is broken any more, and no more is generated: everything must get its outcome now. Returns how long it
    /// all took.
    async fn drain(&mut self) -> Result<f64, Failure> {
        self.chaos.calm(&mut self.fleet, self.place)?;
        let mut published = None;
        if self.messages.is_none() {
            self.stop().await?;
            let status = self.answer().await?;
            published = Some(status.published);
            self.fleet.limit(status.published);
            for seat in 0..self.fleet.seats.len() {
                self.fleet
                    .start(seat)
                    .map_err(|error| Failure::cannot("start a copy", error))?;
            }
        }
        let mut moved = Moved::new(self.stalled_after);
        loop {
            let over = self.tick().await?;
            let look = self.watch.last().filter(|look| look.at >= self.begun);
            let wanted = published.or(self.messages);
            if look.as_ref().is_some_and(|look| Some(settled(look)) >= wanted) {
                break;
            }
            if over || self.stalled || moved.stalled(look.as_ref()) {
                self.incidents
                    .push("the work stood still before all was settled".into());
                break;
            }
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        self.stop().await?;
        Ok(seconds)
    }

    /// Tells all copies to stop, and waits for them.
    async fn stop(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut first = true;
        loop {
            let gone = self
                .fleet
                .stop(first)
                .map_err(|error| Failure::cannot("stop the copies", error))?;
            first = false;
            if gone {
                return Ok(());
            }
            if Instant::now() >= deadline {
                self.incidents.push("a copy did not stop when it was told to".into());
                for seat in 0..self.fleet.seats.len() {
                    self.fleet.kill(seat);
                }
                return Ok(());
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// A store that was just started again may need a moment.
    async fn answer(&self) -> Result<crate::engine::Status, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.engine.status().await {
                Err(error) if error.is_away() && Instant::now() < deadline => tokio::time::sleep(TICK).await,
                answer => return Ok(answer?),
            }
        }
    }

    async fn judge(mut self, seed: Option<u64>, seconds: f64) -> Result<Report, Failure> {
        self.progress.end("reading the errors and the books");
        self.read_errors()?;
        let deadline = Instant::now() + PATIENCE;
        while self.fleet.readers() > 0 && Instant::now() < deadline {
            tokio::time::sleep(TICK).await;
        }
        if self.fleet.kill_readers() > 0 {
            self.incidents.push("a reader of errors did not come to an end".into());
        }
        let failing = |error: std::io::Error| Failure::cannot("read what the copies wrote", error);
        let status = self.answer().await?;
        let mut history = std::mem::take(&mut self.fleet.history);
        history.read().map_err(failing)?;
        let effects = if seed.is_some() {
            Some(self.place.effects(status.published).await?)
        } else {
            None
        };
        let observed = Observed {
            remains: Remains::of(&*self.engine, status.published).await?,
            done: status.done,
            failed: status.failed,
            samples: self.watch.end(),
            prints: self.fleet.prints().map_err(failing)?,
            effects,
            incidents: self.incidents,
        };
        let verdict = checks::judge(&mut history, &observed);
        self.place.clean(&*self.engine, status.published).await?;
        let report = Report::new(
            &history,
            &verdict,
            seconds,
            seed,
            &self.place.address,
            self.chaos.done(),
        );
        report::write_samples(&self.place.directory, &observed.samples).map_err(failing)?;
        Ok(report)
    }
}

fn settled(look: &Look) -> u64 {
    look.sample.done + look.sample.failed
}

/// Whether the work goes on.
struct Moved {
    /// Longer than this it does not stand still.
    most: Duration,
    /// Published and settled.
    seen: (u64, u64),
    at: Instant,
}

impl Moved {
    fn new(most: Duration) -> Self {
        Self {
            most,
            seen: (0, 0),
            at: Instant::now(),
        }
    }

    fn stalled(&mut self, look: Option<&Look>) -> bool {
        let sample = look.map(|look| look.sample).unwrap_or_default();
        let seen = (sample.published, sample.done + sample.failed);
        if seen != self.seen {
            self.seen = seen;
            self.at = Instant::now();
        }
        self.at.elapsed() >= self.most
    }
}
