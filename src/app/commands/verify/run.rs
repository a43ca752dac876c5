//! One run: the copies work and are harmed, everything drains, and what they wrote is judged.

use std::ffi::OsString;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::chaos::Chaos;
use super::fleet::Fleet;
use super::plan::Plan;
use super::progress::Progress;
use super::pusher::Pusher;
use super::report::{self, Report};
use super::sampler::{Sampler, Snapshot};
use super::{PATIENCE, effects};
use crate::app::exit::Failure;
use crate::app::lab::fleet::whole_status;
use crate::app::lab::ledger::checks::{self, Observed};
use crate::app::lab::ledger::{Remains, given_by_shard};
use crate::app::lab::test_bed::TestBed;
use crate::engine::{ENDINGS_PER_CALL_MAX, Engine};
use crate::settings::Settings;

/// Between two looks at the processes.
const TICK: Duration = Duration::from_millis(10);
/// Between two readers of errors, while things are broken.
const READ_EVERY: Duration = Duration::from_secs(3);

/// What is to be done.
pub(super) struct Load {
    /// The options of the copies.
    pub(super) arguments: Vec<OsString>,
    pub(super) queue: String,
    /// Of each copy.
    pub(super) leases: Vec<Duration>,
    /// None: as many as the time is enough for.
    pub(super) messages: Option<u64>,
    pub(super) lease: Duration,
    pub(super) settings: Settings,
    pub(super) stalled_after: Duration,
    /// None: nothing is harmed, until all messages are through.
    pub(super) plan: Option<Plan>,
}

impl Load {
    pub(super) fn length(&self) -> Option<Duration> {
        self.plan.as_ref().map(|plan| plan.length)
    }
}

/// Everything that takes part.
pub(super) struct Run<'a, E> {
    engine: Arc<E>,
    bed: &'a mut TestBed,
    load: Load,
    fleet: Fleet,
    chaos: Chaos,
    sampler: Sampler,
    progress: Progress,
    incidents: Vec<String>,
    interrupted: [Signal; 2],
    begun: Instant,
    read_next: Instant,
    stalled: bool,
}

impl<'a, E: Engine> Run<'a, E> {
    pub(super) fn new(engine: Arc<E>, bed: &'a mut TestBed, load: Load) -> std::io::Result<Self> {
        if let Some(plan) = &load.plan {
            std::fs::write(bed.directory.path.join("plan.txt"), plan.text())?;
        }
        let every = if load.plan.is_some() { 10 * TICK } else { 2 * TICK };
        Ok(Self {
            sampler: Sampler::start(engine.clone(), every),
            engine,
            chaos: Chaos::new(&load, bed)?,
            fleet: Fleet::new(bed, &load)?,
            progress: Progress::new(load.messages, load.length()),
            bed,
            load,
            incidents: Vec::new(),
            interrupted: [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?],
            begun: Instant::now(),
            read_next: Instant::now() + READ_EVERY,
            stalled: false,
        })
    }

    /// Until all messages are through, or the time is over, or someone interrupts.
    pub(super) async fn work(&mut self) -> Result<(), Failure> {
        self.fleet.start_all()?;
        if self.load.plan.is_some() {
            let pusher = Pusher::start(self.bed, &self.load.settings);
            self.fleet.pusher = Some(pusher.map_err(|error| Failure::cannot("push", error))?);
        }
        let mut moved = Moved::new(self.load.stalled_after);
        loop {
            if self.tick().await? {
                return Ok(());
            }
            let seen = self.sampler.last();
            let through = |seen: &Snapshot| {
                self.load
                    .messages
                    .is_some_and(|messages| seen.sample.settled() >= messages)
            };
            let is_over = self.load.length().is_some_and(|length| self.begun.elapsed() >= length);
            if is_over || seen.as_ref().is_some_and(through) {
                return Ok(());
            }
            if self.load.length().is_none() && moved.stalled(seen.as_ref()) {
                self.stalled = true;
                return Ok(());
            }
            self.chaos
                .turn(self.begun.elapsed(), &mut self.fleet, self.bed, seen.as_ref())?;
            if self.load.length().is_some()
                && Instant::now() >= self.read_next
                && self.fleet.running_readers().count() < 2
            {
                self.read_next = Instant::now() + READ_EVERY;
                self.fleet.read_errors()?;
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
        let ended = self.fleet.ended();
        let ended = ended.map_err(|error| Failure::cannot("watch the copies", error))?;
        self.incidents.extend(ended);
        // Without a right, a copy would end as soon as it started.
        if self.begun.elapsed() >= self.chaos.rightless_until {
            self.fleet.fill()?;
        }
        self.progress.show(self.sampler.last().as_ref(), self.chaos.count());
        Ok(over)
    }

    /// Nothing is broken any more, and no more is generated: everything must get its outcome now. Returns how many
    /// seconds it all took.
    pub(super) async fn drain(&mut self) -> Result<f64, Failure> {
        self.chaos.calm(&mut self.fleet, self.bed)?;
        if let Some(pusher) = &mut self.fleet.pusher {
            self.incidents.extend(pusher.end().await);
        }
        if self.load.messages.is_none() {
            self.stop().await?;
        }
        let published = whole_status(&*self.engine, PATIENCE).await?.published;
        let shards = self.load.settings.names.shards > 1;
        if self.load.messages.is_none() {
            // With shards it is the generator's own messages that are counted: no more of them, but for those that are missing.
            self.fleet.limit(if shards { 1 } else { published });
            self.fleet.start_all()?;
        }
        let wanted = self.load.messages.unwrap_or(0).max(published);
        let mut moved = Moved::new(self.load.stalled_after);
        let mut calm = Moved::new(if shards && self.load.messages.is_none() {
            2 * self.longest_lease()
        } else {
            Duration::ZERO
        });
        loop {
            let over = self.tick().await?;
            let seen = self.sampler.last().filter(|seen| seen.at >= self.begun);
            let drained = |seen: &Snapshot| seen.sample.published >= wanted && seen.sample.unsettled() == 0;
            // What a generator left out when it died is made by the next one: nobody says when that is done.
            if calm.stalled(seen.as_ref()) && seen.as_ref().is_some_and(drained) {
                break;
            }
            if over || self.stalled || moved.stalled(seen.as_ref()) {
                let line = "nothing moved for too long: not all messages are settled";
                self.incidents.push(line.into());
                break;
            }
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        self.stop().await?;
        Ok(seconds)
    }

    fn longest_lease(&self) -> Duration {
        self.load.leases.iter().copied().max().unwrap_or(self.load.lease)
    }

    /// Tells all copies to stop, and waits for them.
    async fn stop(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        self.fleet.stop();
        loop {
            let gone = self.fleet.is_gone();
            if gone.map_err(|error| Failure::cannot("stop the copies", error))? {
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

    pub(super) async fn judge(mut self, seconds: f64) -> Result<Report, Failure> {
        self.progress.end("reading the errors and the books");
        self.fleet.read_errors()?;
        let deadline = Instant::now() + PATIENCE;
        while self.fleet.running_readers().count() > 0 && Instant::now() < deadline {
            tokio::time::sleep(TICK).await;
        }
        if self.fleet.kill_readers() > 0 {
            self.incidents.push("a reader of errors did not come to an end".into());
        }
        let failing = |error: std::io::Error| Failure::cannot("read what the copies wrote", error);
        let status = whole_status(&*self.engine, PATIENCE).await?;
        let queue = &self.load.queue;
        let by_shard = given_by_shard(&status);
        let mut history = std::mem::take(&mut self.fleet.history);
        let forgot = self.chaos.forgot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        history.forget(&forgot, self.load.settings.replicas > 0);
        history.forgot_surely(if self.bed.topology.is_none() {
            forgot.len() as u64
        } else {
            0
        });
        history.read().map_err(failing)?;
        let effects = match &self.load.plan {
            Some(_) => Some(effects::read(self.bed, queue, &by_shard).await?),
            None => None,
        };
        if forgot.is_empty()
            && let Some(pusher) = &self.fleet.pusher
        {
            let mut unknown = 0;
            for numbers in pusher.asked().chunks(ENDINGS_PER_CALL_MAX) {
                let endings = self.engine.endings(numbers).await?;
                unknown += endings.iter().filter(|ending| ending.is_none()).count();
            }
            if unknown > 0 {
                let line = format!("{unknown} outcomes that were asked for are not known");
                self.incidents.push(line);
            }
        }
        let observed = Observed {
            remains: Remains::of(&*self.engine, by_shard.clone()).await?,
            done: status.done,
            failed: status.failed,
            samples: self.sampler.end(),
            prints: self.fleet.prints().map_err(failing)?,
            pushes: match &self.fleet.pusher {
                Some(pusher) => pusher.told(&self.bed.directory.path).map_err(failing)?,
                None => Vec::new(),
            },
            effects,
            incidents: self.incidents,
        };
        let verdict = checks::judge(&mut history, &observed);
        if self.bed.is_shared {
            // The queue, with the nodes that were killed in it, and the effects.
            self.engine.purge(true).await?;
            effects::remove(self.bed, queue, &by_shard).await?;
        }
        // Those whose replica was not in step in time were left out.
        if let Some(count) = self.chaos.done.get_mut("replica_promoted") {
            *count = forgot.len() as u64;
        }
        let seed = self.load.plan.as_ref().map(|plan| plan.seed);
        let switches = self
            .chaos
            .switches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let (address, faults) = (&self.bed.address, self.chaos.done);
        let report = Report::new(&history, verdict, seconds, seed, address, faults, &switches);
        report::write_samples(&self.bed.directory.path, &observed.samples).map_err(failing)?;
        Ok(report)
    }
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

    fn stalled(&mut self, seen: Option<&Snapshot>) -> bool {
        let sample = seen.map(|seen| seen.sample).unwrap_or_default();
        let seen = (sample.published, sample.settled());
        if seen != self.seen {
            self.seen = seen;
            self.at = Instant::now();
        }
        self.at.elapsed() >= self.most
    }
}
