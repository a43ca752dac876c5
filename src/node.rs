//! One process: it beats, and generates or handles.

pub(crate) mod backoff;
pub mod event;
pub mod generate;
pub mod handle;
pub(crate) mod membership;
pub(crate) mod meter;
mod report;
pub mod shutdown;
pub(crate) mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::message::PackBuilder;
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::event::{Observer, Silent};
use crate::node::generate::{Generate, Generator};
use crate::node::handle::{Handle, Handler};
use crate::node::membership::{Membership, Requests, Standing, watch_crown};
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

    /// What it counts of itself.
    #[cfg(feature = "cli")]
    pub(crate) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }

    /// Beats on the caller's runtime instead of a thread of its own, so that a simulator has all of the node in its hands.
    #[doc(hidden)]
    #[must_use]
    pub fn beats_here(mut self) -> Self {
        self.beats_here = true;
        self
    }

    /// Works until told to stop: then stops generating, resigns, finishes what is in hand, gives back the rest, leaves.
    pub async fn run(self, mut shutdown: Shutdown) -> Result<()> {
        self.settings.check()?;
        let settings = Arc::new(self.settings);
        let asks = Arc::new(Requests::default());
        let sender = watch::Sender::new(Standing::default());
        let standing = sender.subscribe();
        let heart = Membership {
            engine: self.engine.clone(),
            settings: settings.clone(),
            observer: self.observer.clone(),
            asks: asks.clone(),
            meter: self.meter.clone(),
            standing: sender,
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            backoff: Backoff::new(&settings),
            turned: (0, Instant::now()),
            returned: None,
        };
        let mut heart = if self.beats_here {
            let (done, ended) = oneshot::channel();
            tokio::spawn(async { done.send(heart.run().await) });
            ended
        } else {
            start(heart)?
        };
        let _leaving = LeaveOnDrop(asks.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(show_life(asks.clone(), settings.lease / 8));
        tasks.spawn(watch_crown(
            self.engine.clone(),
            settings.clone(),
            asks.clone(),
            standing.clone(),
        ));
        let reporter = Reporter::new(self.engine.clone(), self.meter.clone(), standing.clone());
        let reporter = Arc::new(tokio::sync::Mutex::new(reporter));
        tasks.spawn(Reporter::run(reporter.clone()));
        let generator = Generator {
            engine: self.engine.clone(),
            settings: settings.clone(),
            observer: self.observer.clone(),
            asks: asks.clone(),
            meter: self.meter.clone(),
            standing: standing.clone(),
            shutdown: shutdown.clone(),
            generate: self.generate,
            builder: PackBuilder::new(),
            confirmed: Arc::default(),
        };
        let mut generating = AbortOnDrop(tokio::spawn(generator.run()));
        let handler = Handler {
            engine: self.engine,
            settings: settings.clone(),
            observer: self.observer,
            asks: asks.clone(),
            meter: self.meter,
            standing,
            shutdown: shutdown.clone(),
            handle: Arc::new(self.handle),
        };
        let mut handling = AbortOnDrop(tokio::spawn(handler.run()));

        // Generator and handler end before they are told to only with an error, because the beat has ended, or when a
        // burst is over.
        let ended = tokio::select! {
            biased;
            () = shutdown.stopping() => None,
            ended = &mut heart => return ended.unwrap_or_else(|_| Err(crashed("beat"))),
            ended = &mut generating.0 => Some(ended.unwrap_or_else(|_| Err(crashed("generator")))),
            ended = &mut handling.0 => Some(ended.unwrap_or_else(|_| Err(crashed("handler")))),
        };
        if ended.is_none() {
            let _ = tokio::time::timeout(LAST_PUBLISH, &mut generating.0).await;
            asks.resign();
            let _ = tokio::time::timeout(settings.grace, &mut handling.0).await;
        }
        drop((generating, handling));
        // Copies that live for less than a second are part of the history, too.
        let _ = tokio::time::timeout(LAST_REPORT, async { reporter.lock().await.tell().await }).await;
        asks.leave();
        let left = heart.await.unwrap_or_else(|_| Err(crashed("beat")));
        ended.unwrap_or(Ok(())).and(left)
    }
}

/// The beat has a thread of its own: a handler that blocks must not cost the node its lease.
fn start<E: Engine>(heart: Membership<E>) -> Result<oneshot::Receiver<Result<()>>> {
    let (done, ended) = oneshot::channel();
    let failed = |error: std::io::Error| Error::Protocol {
        detail: format!("cannot start the beat's thread: {error}"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    std::thread::Builder::new()
        .name("beat".into())
        .spawn(move || done.send(runtime.block_on(heart.run())))
        .map_err(failed)?;
    Ok(ended)
}

fn crashed(part: &str) -> Error {
    Error::Protocol {
        detail: format!("the {part} crashed"),
    }
}

/// Tells the beat that this runtime turns. One that is blocked cannot publish, and must not keep the crown.
async fn show_life(asks: Arc<Requests>, every: Duration) {
    loop {
        asks.turns.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(every).await;
    }
}

/// A run that is dropped must not leave a beat behind that keeps the crown for nobody.
struct LeaveOnDrop(Arc<Requests>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        if guard("leave-on-drop") {
            self.0.leave();
        }
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
