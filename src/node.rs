//! One process: it keeps its membership, and generates or handles.
//!
//! | part | does |
//! | --- | --- |
//! | [`generate`], [`handle`] | what a program brings along: the traits that make messages and do the work |
//! | `membership` | joins, beats, lets itself be crowned, hands on what dead nodes held |
//! | `generator` | while this node reigns: make, publish |
//! | `handler` | while it does not: take, handle, settle |
//! | `kept` | tells what was written when replicas have it |
//! | `report`, `meter` | what the node counts of itself, and telling it to the store once a second |
//! | [`event`] | what the node tells the program around it |
//! | [`shutdown`] | graceful shutdown, from signal to exit |
//! | `backoff`, `watch`, `id` | waiting for a store that is away; a value that many wait for; random names |
//!
//! They share a `Context`, which [`Node::run`] builds.

pub(crate) mod backoff;
mod context;
pub mod event;
pub mod generate;
pub(crate) mod generator;
pub mod handle;
pub(crate) mod handler;
pub(crate) mod id;
mod kept;
mod membership;
pub(crate) mod meter;
mod report;
mod shards;
pub mod shutdown;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::context::{Context, Reopening};
use crate::node::event::{Event, Observer, Silent};
use crate::node::generate::Generate;
use crate::node::generator::{Generator, Maker, Spread};
use crate::node::handle::Handle;
use crate::node::handler::{Handler, Share, Slots};
use crate::node::membership::{Home, Ids, Membership, Requests, Seat, Standing, show_life, watch_crown};
use crate::node::meter::Meter;
use crate::node::report::Reporter;
use crate::node::shutdown::Shutdown;
use crate::settings::Settings;

/// How long a publish that is on its way may take to be answered when the node stops.
const LAST_PUBLISH: Duration = Duration::from_secs(1);

/// How long the last report may take.
const LAST_REPORT: Duration = Duration::from_millis(250);

/// One copy of the program: a generator whenever it is elected, a handler otherwise.
pub struct Node<E, G, H> {
    engine: Arc<E>,
    settings: Settings,
    generate: G,
    handle: H,
    observer: Arc<dyn Observer>,
    meter: Arc<Meter>,
    beats_here: bool,
}

impl<E: Engine, G: Generate, H: Handle> Node<E, G, H> {
    /// A node on a queue; nothing happens before it runs.
    pub fn new(engine: Arc<E>, settings: Settings, generate: G, handle: H) -> Self {
        Self {
            engine,
            settings,
            generate,
            handle,
            observer: Arc::new(Silent),
            meter: Arc::default(),
            beats_here: false,
        }
    }

    /// Tells `observer` what happens.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Counts here.
    pub(crate) fn metered(mut self, meter: Arc<Meter>) -> Self {
        self.meter = meter;
        self
    }

    /// What it counts of itself.
    #[cfg(feature = "cli")]
    pub(crate) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }

    /// Beats on the caller's runtime instead of a thread of its own: for tests that stop or move tokio's clock. In
    /// production, a handler that blocks the runtime would then cost the node its lease.
    #[must_use]
    pub fn beats_here(mut self) -> Self {
        self.beats_here = true;
        self
    }

    /// Works until told to stop: then stops generating, resigns, finishes what is in hand, gives back the rest, leaves. When the number of shards is changed,
    /// it does the same, and goes on with those that there are then.
    pub async fn run(self, mut shutdown: Shutdown) -> Result<()> {
        self.settings.check()?;
        let parts = Parts {
            settings: self.settings,
            maker: Maker::shared(self.generate),
            handle: Arc::new(self.handle),
            observer: self.observer,
            meter: self.meter,
            beats_here: self.beats_here,
        };
        let (mut is_again, mut before) = (false, Vec::new());
        loop {
            let reopening = Reopening::new(&shutdown, is_again);
            is_again = true;
            let ended = parts.run(&self.engine, &reopening, &mut before).await;
            let is_resharded = match &ended {
                Ok(()) => reopening.is_wanted(),
                Err(error) => matches!(error, Error::Resharded { .. }),
            };
            if !is_resharded || shutdown.is_stopping() {
                return ended.or_else(|error| if is_resharded { Ok(()) } else { Err(error) });
            }
            tokio::select! {
                biased;
                () = shutdown.stopping() => return Ok(()),
                followed = parts.follow(&self.engine, &before) => followed?,
            }
        }
    }
}

/// What a node is made of, whichever shards it works on.
struct Parts<G, H> {
    settings: Settings,
    maker: Arc<tokio::sync::Mutex<Maker<G>>>,
    handle: Arc<H>,
    observer: Arc<dyn Observer>,
    meter: Arc<Meter>,
    beats_here: bool,
}

impl<G: Generate, H: Handle> Parts<G, H> {
    /// Waits until the queue tells how many shards it has: an engine that can follows with that look. A shard that is away is not waited for, as long as the
    /// home shard answers.
    async fn follow<E: Engine>(&self, engine: &Arc<E>, before: &[Arc<Requests>]) -> Result<()> {
        let mut backoff = Backoff::new(&self.settings);
        loop {
            match engine.status().await {
                Ok(_) | Err(Error::NoQueue { .. }) => return Ok(()),
                Err(error) if error.may_pass() => {
                    for requests in before {
                        requests.is_away();
                    }
                    backoff.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Works on the shards that there are, until told to stop, or that there are others. What was seen in each is left for the next time.
    async fn run<E: Engine>(
        &self,
        engine: &Arc<E>,
        reopening: &Reopening,
        before: &mut Vec<Arc<Requests>>,
    ) -> Result<()> {
        let mut shutdown = reopening.shutdown.clone();
        let mut settings = self.settings.clone();
        let (names, shards) = E::made_of(engine);
        settings.names = names.unwrap_or(settings.names);
        let (contexts, memberships): (Vec<_>, Vec<_>) =
            shards::contexts(shards, settings, &self.observer, &self.meter, reopening, before)?
                .into_iter()
                .unzip();
        let context = contexts[0].clone();
        let mut membership = if self.beats_here {
            let (done, ended) = oneshot::channel();
            tokio::spawn(async { done.send(shards::all(memberships, Membership::run).await) });
            ended
        } else {
            start(memberships)?
        };
        let requests: Vec<_> = contexts.iter().map(|shard| shard.requests.clone()).collect();
        before.clone_from(&requests);
        let leaving = LeaveOnDrop(requests);
        let mut tasks = JoinSet::new();
        for shard in &contexts {
            tasks.spawn(show_life(shard.clone()));
        }
        tasks.spawn(watch_crown(context.clone()));
        let reporter = Reporter::new(context.clone(), engine.clone());
        let reporter = Arc::new(tokio::sync::Mutex::new(reporter));
        tasks.spawn(Reporter::run(reporter.clone()));
        let maker = self.maker.clone();
        let mut generating = AbortOnDrop(if contexts.len() == 1 {
            let context = context.clone();
            tokio::spawn(async { Generator::new(context, maker).await.run().await })
        } else {
            let contexts = contexts.clone();
            tokio::spawn(async { Spread::new(contexts, maker).await.run().await })
        });
        let handlers = shards::handlers(contexts, &self.handle);
        let mut handling = AbortOnDrop(tokio::spawn(shards::all(handlers, Handler::run)));
        let settings = context.settings.clone();

        // Generator and handler end before they are told to only with an error, because the membership has ended, or
        // when a burst is over.
        let ended = tokio::select! {
            biased;
            () = shutdown.stopping() => None,
            ended = &mut membership => {
                tell_untold(&context);
                return ended.unwrap_or_else(|_| Err(crashed("membership")));
            }
            ended = &mut generating.0 => Some(ended.unwrap_or_else(|_| Err(crashed("generator")))),
            ended = &mut handling.0 => Some(ended.unwrap_or_else(|_| Err(crashed("handler")))),
        };
        if ended.is_none() {
            let in_hand = || context.meter.in_hand.load(Ordering::Relaxed);
            context.tell_own(if reopening.is_wanted() {
                Event::Resharded { in_hand: in_hand() }
            } else {
                Event::Stopping { in_hand: in_hand() }
            });
            let _ = tokio::time::timeout(LAST_PUBLISH, &mut generating.0).await;
            leaving.0.iter().for_each(|requests| requests.resign());
            let finished = tokio::time::timeout(settings.grace, &mut handling.0).await;
            let messages = in_hand();
            if finished.is_err() && messages > 0 {
                context.tell_own(Event::GivenUp { messages });
            }
        }
        tell_untold(&context);
        drop((generating, handling));
        // Copies that live for less than a second are part of the history, too.
        let _ = tokio::time::timeout(LAST_REPORT, async { reporter.lock().await.tell().await }).await;
        leaving.0.iter().for_each(|requests| requests.leave());
        let left = membership.await.unwrap_or_else(|_| Err(crashed("membership")));
        ended.unwrap_or(Ok(())).and(left)
    }
}

/// The beat has a thread of its own: a handler that blocks the runtime must not cost the node its lease.
fn start<E: Engine>(memberships: Vec<Membership<E>>) -> Result<oneshot::Receiver<Result<()>>> {
    let (done, ended) = oneshot::channel();
    let failed = |error: std::io::Error| Error::Crashed {
        what: format!("the thread of the beat (it cannot start: {error})"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    std::thread::Builder::new()
        .name("beat".into())
        .spawn(move || done.send(runtime.block_on(shards::all(memberships, Membership::run))))
        .map_err(failed)?;
    Ok(ended)
}

/// Says what is written and waits for replicas, when nobody waits for them any more.
fn tell_untold<E>(context: &Context<E>) {
    let messages = context.meter.untold.load(Ordering::Relaxed);
    if messages > 0 {
        context.tell_own(Event::Untold { messages });
    }
}

fn crashed(part: &str) -> Error {
    Error::Crashed {
        what: format!("the {part} of this node"),
    }
}

/// A run that is dropped must not leave a beat behind that keeps the crown for nobody.
struct LeaveOnDrop(Vec<Arc<Requests>>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        if guard("leave-on-drop") {
            self.0.iter().for_each(|requests| requests.leave());
        }
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
