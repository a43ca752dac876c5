//! `demo`: a fleet of real processes that loses its generator every few seconds, and a ledger that misses nothing.
//!
//! | file | |
//! | --- | --- |
//! | `fleet`, `member` | the copies: killed, frozen, added and removed |
//! | `errors` | reads the errors in the background |
//! | `loss_check` | whether any message is missing now |
//! | `summary`, `screen` | what is shown, and how a terminal shows it |
//! | `account` | the books against the store, in the end |

mod account;
mod errors;
mod fleet;
mod loss_check;
mod member;
mod screen;
mod summary;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::{LOOK_MAX, status_if_any};
use crate::app::args::options::connection::{QUEUE, URL};
use crate::app::args::sources::{self, Builtin, Generating, Resolved};
use crate::app::args::{Demo, Invocation};
use crate::app::exit::Failure;
use crate::app::lab::ledger::{Ledger, Prints, Record, given_by_shard};
use crate::app::lab::server::Fsync;
use crate::app::lab::test_bed::{Directory, Own, TestBed, is_named};
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::app::output::keys::{Key, Keys};
use crate::app::output::screen::Screen;
use crate::engine::Engine;
use fleet::Fleet;
use loss_check::LossCheck;
use summary::Summary;

/// Between two looks at the books and at the copies.
const TICK: Duration = Duration::from_millis(100);
/// How long one look at the books may take.
const READ_MAX: Duration = Duration::from_millis(50);
/// The default of `--seconds` without a terminal, where nobody can press q.
const SECONDS_UNWATCHED: u64 = 30;
/// More messages than this are not looked at for the generator's one sequence over all shards: they need a hundred bytes each.
const PLACES_MAX: u64 = 1_000_000;
/// Copies that have not stopped by then are killed: the whole demo is gone within 3 s.
const STOP_MAX: Duration = Duration::from_secs(2);

/// In a file of its own, unless the command line names a store: the demo must not run on a Redis that happens to be in
/// the environment.
pub(super) fn run(asked: &Invocation, resolved: &Resolved, flags: &Demo) -> Result<ExitCode, Failure> {
    let named = is_named(asked).then_some(resolved);
    let mut bed = TestBed::prepare("demo", named, Directory::temporary("demo")?, Own::File)?;
    bed.add_shards(resolved.settings.names.shards as usize, Fsync::Never)?;
    let mut asked = asked.clone();
    if !bed.is_shared {
        asked.flags.set_all(&URL, bed.urls(&[]));
    } else if !asked.flags.has(&QUEUE) {
        asked.flags.set(&QUEUE, bed.fresh_queue());
    }
    let resolved = sources::of_this_process(&asked).map_err(|usage| Failure::usage(usage.to_string()))?;
    super::log(&resolved);
    let demo = Prepared {
        directory: &bed.directory.path,
        place: match bed.beside.len() {
            others if bed.is_shared && others > 0 => format!("{} and {others} more", bed.address),
            _ => bed.address.clone(),
        },
        asked: &asked,
        resolved: &resolved,
        flags,
    };
    QueueAt::of(&resolved, LOOK_MAX).run(demo).map(|()| ExitCode::SUCCESS)
}

/// What the demo needs to know.
struct Prepared<'a> {
    /// Where the copies keep their books.
    directory: &'a Path,
    /// The store, for people.
    place: String,
    asked: &'a Invocation,
    resolved: &'a Resolved,
    flags: &'a Demo,
}

impl OnEngine for Prepared<'_> {
    type Output = ();

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<(), Failure> {
        let shards = E::shards(&engine);
        // Nobody could account for what is in a shard that does not answer.
        for shard in &shards {
            shard.check().await?;
        }
        let before = status_if_any(&*engine).await?;
        let before = before.as_ref().map(given_by_shard).unwrap_or_default();
        let says_places = shards.len() > 1 && self.resolved.generate == Generating::Builtin(Builtin::Counter);
        let mut run = Run {
            summary: Summary::new(self.place, self.flags),
            fleet: Fleet::new(self.directory, self.asked, self.resolved, shards.len())?,
            sequence: Sequence::new(says_places, before.iter().sum()),
            before: before.clone(),
            ledger: Ledger::after(before),
            loss_check: LossCheck::new(engine.clone()),
            kill_timer: KillTimer::every(self.flags.kill_every),
        };
        let watched = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let mut keys = Keys::listen(watched).map_err(|error| Failure::cannot("listen to keys and signals", error))?;
        let screen = watched.then(Screen::open).transpose();
        let mut screen = screen.map_err(|error| Failure::cannot("use the terminal", error))?;
        let ended = run
            .until_the_end(&mut keys, &mut screen, self.flags, self.resolved)
            .await;
        run.fleet.end(&mut run.ledger);
        if watched {
            ratatui::restore();
        }
        ended?;
        account::tell(&*engine, run).await
    }
}

/// All that takes part.
struct Run<E> {
    summary: Summary,
    fleet: Fleet,
    ledger: Ledger,
    /// How many numbers each shard had given out.
    before: Vec<u64>,
    sequence: Sequence,
    loss_check: LossCheck<E>,
    kill_timer: KillTimer,
}

impl<E: Engine> Run<E> {
    async fn until_the_end(
        &mut self,
        keys: &mut Keys,
        screen: &mut Option<Screen>,
        flags: &Demo,
        resolved: &Resolved,
    ) -> Result<(), Failure> {
        for _ in 0..flags.nodes {
            self.fleet.add(&mut self.ledger)?;
        }
        let seconds = flags.seconds.filter(|seconds| *seconds > 0);
        let seconds = seconds.or(screen.is_none().then_some(SECONDS_UNWATCHED));
        let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut stopping: Option<Instant> = None;
        loop {
            let key = tokio::select! {
                biased;
                key = keys.next() => Some(key),
                _ = ticks.tick() => None,
            };
            let now = Instant::now();
            self.look(now)?;
            let totals = self.ledger.totals();
            let through = screen.is_none()
                && resolved
                    .settings
                    .messages
                    .is_some_and(|messages| totals.generated >= messages && totals.done + totals.errors >= messages);
            let over = end.is_some_and(|end| now >= end) || through;
            match stopping {
                None if over || key == Some(Key::Quit) => {
                    stopping = Some(now + STOP_MAX);
                    self.summary.say("stopping", "all copies finish what they have in hand");
                    self.fleet.stop();
                }
                None => {
                    if let Some(key) = key {
                        self.press(key, now)?;
                    }
                    if self.kill_timer.is_due(now) && self.fleet.kill_generator(&mut self.ledger, &mut self.summary)? {
                        self.kill_timer.put_off(now);
                    }
                }
                Some(_) if key == Some(Key::Quit) => return Ok(()),
                Some(deadline) if self.fleet.is_gone() || now >= deadline => return Ok(()),
                Some(_) => {}
            }
            // A terminal that was closed is a reason to end, and none to fail.
            if self.draw(screen).is_err() {
                return Ok(());
            }
        }
    }

    /// What the copies have written, and how they are.
    fn look(&mut self, now: Instant) -> Result<(), Failure> {
        let (fleet, summary, sequence) = (&mut self.fleet, &mut self.summary, &mut self.sequence);
        // Copies that are flat out may write faster than this reads; keys and signals must have their turn.
        while self
            .ledger
            .read(|book, record| {
                fleet.note(book, record);
                sequence.note(record);
                summary.note(|| fleet.name(book), record, fleet.shard_of(book));
            })
            .map_err(|error| Failure::cannot("read the ledger", error))?
            && now.elapsed() < READ_MAX
        {}
        self.fleet.look(now, &mut self.ledger, &mut self.summary)?;
        self.loss_check.look(now, &self.ledger);
        self.summary.turn(now, &self.ledger, &self.fleet, self.loss_check.lost);
        Ok(())
    }

    /// On the terminal; without one, a line per event.
    fn draw(&mut self, screen: &mut Option<Screen>) -> std::io::Result<()> {
        if let Some(screen) = screen {
            return screen::draw(screen, &self.summary, &self.fleet, &self.ledger);
        }
        let mut out = std::io::stdout().lock();
        for line in self.summary.news() {
            writeln!(out, "{:7.2}  {:<11} {}", line.at.as_secs_f32(), line.word, line.text)?;
        }
        out.flush()
    }

    fn press(&mut self, key: Key, now: Instant) -> Result<(), Failure> {
        let (fleet, ledger, summary) = (&mut self.fleet, &mut self.ledger, &mut self.summary);
        match key {
            Key::KillGenerator => {
                if fleet.kill_generator(ledger, summary)? {
                    self.kill_timer.put_off(now);
                }
            }
            Key::KillHandler => fleet.kill_handler(ledger, summary)?,
            Key::Freeze => fleet.freeze(now, summary),
            Key::Add => {
                let name = fleet.add(ledger)?;
                summary.say("added", &format!("copy {name}"));
            }
            Key::Remove => fleet.remove(summary),
            Key::Errors => fleet.read_errors(summary),
            Key::Redraw | Key::Quit => {}
        }
        Ok(())
    }
}

/// Of a queue with shards, whose generator's messages say their places in its one sequence: under which number each was seen.
enum Sequence {
    /// Nothing says places.
    None,
    Seen(Prints),
    /// There were too many to be kept.
    TooMany,
}

impl Sequence {
    /// So many numbers were given out before.
    fn new(says_places: bool, before: u64) -> Self {
        match says_places {
            false => Self::None,
            true if before > PLACES_MAX => Self::TooMany,
            true => Self::Seen(Prints::default()),
        }
    }

    fn note(&mut self, record: &Record) {
        let (Self::Seen(prints), Record::Started { number, payload, .. }) = (&mut *self, record) else {
            return;
        };
        prints.saw(*number, *payload);
        if prints.count() > PLACES_MAX {
            *self = Self::TooMany;
        }
    }
}

/// When the next generator is to be killed.
struct KillTimer {
    every: Duration,
    next: Option<Instant>,
}

impl KillTimer {
    fn every(every: Duration) -> Self {
        let next = (!every.is_zero()).then(|| Instant::now() + every);
        Self { every, next }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    fn put_off(&mut self, now: Instant) {
        // On a grid, so that waiting for an election does not make kills rarer; but never two at once.
        self.next = self.next.map(|next| (next + self.every).max(now + self.every / 2));
    }
}
