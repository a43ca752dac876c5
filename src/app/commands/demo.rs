//! `demo`: a fleet of real processes that loses its generator every few seconds, and a ledger that misses nothing.

mod audit;
mod ending;
mod fleet;
mod lines;
mod scene;
mod screen;
mod stage;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::app::args::sources::Resolved;
use crate::app::args::{Demo, Invocation};
use crate::app::exit::Failure;
use crate::app::lab::ledger::Ledger;
use crate::app::output::keys::{Key, Keys};
use crate::app::output::screen::Screen;
use crate::engine::Engine;
use audit::Audit;
use fleet::Fleet;
use scene::Scene;
pub(super) use stage::Stage;

/// Between two looks at the books and at the copies.
const TICK: Duration = Duration::from_millis(100);
/// How long one look at the books may take.
const READ_MAX: Duration = Duration::from_millis(50);
/// What `--seconds` is where nobody can press q.
const SECONDS_UNWATCHED: u64 = 30;
/// Copies that have not stopped by then are killed: the whole demo is gone within 3 s.
const STOP_MAX: Duration = Duration::from_secs(2);

pub(super) async fn run<E: Engine>(
    engine: Arc<E>,
    asked: &Invocation,
    resolved: &Resolved,
    flags: &Demo,
) -> Result<(), Failure> {
    engine.check().await?;
    let watched = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let ledger = Ledger::from_number(ending::published(&*engine).await?);
    let fleet = Fleet::new(asked, resolved, flags)?;
    let mut keys = Keys::listen(watched).map_err(|error| Failure::cannot("listen to keys and signals", error))?;
    let mut show = Show::open(watched).map_err(|error| Failure::cannot("use the terminal", error))?;
    let mut play = Play {
        scene: Scene::new(resolved, flags),
        fleet,
        ledger,
        audit: Audit::new(engine.clone()),
        killing: Killing::every(flags.kill_every),
    };
    let played = play.until_the_end(&mut keys, &mut show, flags, resolved).await;
    play.fleet.end(&mut play.ledger);
    show.close();
    played?;
    ending::tell(&*engine, play).await
}

/// All that takes part.
struct Play<E> {
    scene: Scene,
    fleet: Fleet,
    ledger: Ledger,
    audit: Audit<E>,
    killing: Killing,
}

impl<E: Engine> Play<E> {
    async fn until_the_end(
        &mut self,
        keys: &mut Keys,
        show: &mut Show,
        flags: &Demo,
        resolved: &Resolved,
    ) -> Result<(), Failure> {
        for _ in 0..flags.nodes {
            self.fleet.add(&mut self.ledger)?;
        }
        let seconds = flags.seconds.filter(|seconds| *seconds > 0);
        let seconds = seconds.or((!show.is_watched()).then_some(SECONDS_UNWATCHED));
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
            let through = !show.is_watched()
                && resolved
                    .settings
                    .messages
                    .is_some_and(|messages| totals.generated >= messages && totals.done + totals.errors >= messages);
            let over = end.is_some_and(|end| now >= end) || through;
            match stopping {
                None if over || key == Some(Key::Quit) => {
                    stopping = Some(now + STOP_MAX);
                    self.scene.say("stopping", "all copies finish what they have in hand");
                    self.fleet.stop();
                }
                None => {
                    if let Some(key) = key {
                        self.press(key, now)?;
                    }
                    if self.killing.is_due(now) && self.fleet.kill_generator(&mut self.ledger, &mut self.scene)? {
                        self.killing.put_off(now);
                    }
                }
                Some(_) if key == Some(Key::Quit) => return Ok(()),
                Some(deadline) if self.fleet.is_gone() || now >= deadline => return Ok(()),
                Some(_) => {}
            }
            // A terminal that was closed is a reason to end, and none to fail.
            if show.draw(&mut self.scene, &self.fleet, &self.ledger).is_err() {
                return Ok(());
            }
        }
    }

    /// What the copies have written, and how they are.
    fn look(&mut self, now: Instant) -> Result<(), Failure> {
        let (fleet, scene) = (&mut self.fleet, &mut self.scene);
        // Copies that are flat out may write faster than this reads; keys and signals must have their turn.
        while self
            .ledger
            .read(|book, record| {
                fleet.note(book, record);
                scene.note(|| fleet.name(book), record);
            })
            .map_err(|error| Failure::cannot("read the ledger", error))?
            && now.elapsed() < READ_MAX
        {}
        self.fleet.look(now, &mut self.ledger, &mut self.scene)?;
        self.audit.look(now, &self.ledger);
        self.scene.turn(now, &self.ledger, self.audit.lost());
        Ok(())
    }

    fn press(&mut self, key: Key, now: Instant) -> Result<(), Failure> {
        let (fleet, ledger, scene) = (&mut self.fleet, &mut self.ledger, &mut self.scene);
        match key {
            Key::KillGenerator => {
                if fleet.kill_generator(ledger, scene)? {
                    self.killing.put_off(now);
                }
            }
            Key::KillHandler => fleet.kill_handler(ledger, scene)?,
            Key::Freeze => fleet.freeze(now, scene),
            Key::Add => {
                let name = fleet.add(ledger)?;
                scene.say("added", &format!("copy {name}"));
            }
            Key::Remove => fleet.remove(scene),
            Key::Errors => fleet.drain(scene),
            Key::Redraw | Key::Quit => {}
        }
        Ok(())
    }
}

/// When the next generator is to be killed.
struct Killing {
    every: Duration,
    next: Option<Instant>,
}

impl Killing {
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

/// Where it is shown.
enum Show {
    Screen(Box<Screen>),
    Lines,
}

impl Show {
    fn open(watched: bool) -> std::io::Result<Self> {
        Ok(if watched {
            Self::Screen(Box::new(Screen::open()?))
        } else {
            Self::Lines
        })
    }

    fn is_watched(&self) -> bool {
        matches!(self, Self::Screen(_))
    }

    fn draw(&mut self, scene: &mut Scene, fleet: &Fleet, ledger: &Ledger) -> std::io::Result<()> {
        match self {
            Self::Screen(screen) => screen::draw(screen, scene, fleet, ledger),
            Self::Lines => lines::print(scene),
        }
    }

    fn close(&mut self) {
        if let Self::Screen(_) = self {
            ratatui::restore();
        }
    }
}
