//! A node in a few words: where the queue is, who generates, who handles, when to stop.
//!
//! ```no_run
//! use queenright::{Failure, Message, Next};
//!
//! async fn read(message: Message) -> Result<(), Failure> {
//!     println!("reading {:?}", message.payload);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> queenright::Result<()> {
//! queenright::on("redis://localhost")
//!     .queue("feeds")
//!     .generate(|next: Next| async move { format!("https://example.org/{}", next.number) })
//!     .handle(read)
//!     .run_until(queenright::shutdown::signals())
//!     .await
//! # }
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;

use crate::engine::any::AnyEngine;
use crate::engine::sharded::Sharded;
use crate::engine::{Engine, Rate};
use crate::error::Result;
use crate::message::Message;
use crate::node::Node;
use crate::node::event::Observer;
use crate::node::generate::{Generate, Next};
use crate::node::handle::Handle;
use crate::node::meter::Meter;
use crate::node::shutdown;
use crate::settings::{Prefer, Settings};

use crate::api::metrics;
use crate::api::told::Told;

#[cfg(feature = "cron")]
use crate::api::cron::{Cron, Missed, Scheduled};
pub use crate::api::generate::{FromFn, FromStream};
pub use crate::api::handle::{HandleFn, IntoEffects, IntoHandled};
#[cfg(feature = "serde")]
use crate::api::typed::HandleJson;

/// Begins a node whose queue is there: `localhost:6379`, a URL such as `redis://localhost`, `rediss://…` (TLS) or `sqlite:jobs.db`, or
/// an engine in an [`Arc`]. Addresses are read as `queenright --url` reads them.
pub fn on<C: Connect>(store: C) -> Builder<C, (), ()> {
    Builder {
        store,
        settings: Settings {
            prefer: Prefer::Never,
            interval: Duration::ZERO,
            ..Settings::default()
        },
        observer: Arc::new(Told),
        meter: Arc::default(),
        generate: (),
        handle: (),
    }
}

/// Where a queue can be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no queue",
    label = "no address of a store",
    note = "write a URL, such as \"redis://localhost\" or \"sqlite:jobs.db\", or give an engine in an `Arc`"
)]
pub trait Connect {
    /// The engine that speaks to it.
    type Engine: Engine;
    /// Opens it; nothing is sent before the node runs.
    fn connect(self, settings: &Settings) -> Result<Arc<Self::Engine>>;
}

/// It has as many [shards](crate::settings::Names::shards) as the settings say, and follows when that is changed.
impl Connect for &str {
    type Engine = Sharded<AnyEngine>;

    fn connect(self, settings: &Settings) -> Result<Arc<Sharded<AnyEngine>>> {
        AnyEngine::open_shards(&[self], settings).map(Arc::new)
    }
}

impl Connect for String {
    type Engine = Sharded<AnyEngine>;

    fn connect(self, settings: &Settings) -> Result<Arc<Sharded<AnyEngine>>> {
        self.as_str().connect(settings)
    }
}

impl<E: Engine> Connect for Arc<E> {
    type Engine = E;

    fn connect(self, _: &Settings) -> Result<Arc<E>> {
        Ok(self)
    }
}

/// A node in the making. It needs a handler; without a generator it only handles what others generate or push.
#[must_use = "nothing happens before it runs"]
pub struct Builder<C, G, H> {
    store: C,
    settings: Settings,
    observer: Arc<dyn Observer>,
    meter: Arc<Meter>,
    generate: G,
    handle: H,
}

impl<C, G, H> Builder<C, G, H> {
    /// The queue's name.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.settings.queue = name.into();
        self
    }

    /// How many messages to handle at once; 1 unless told otherwise.
    pub fn concurrency(mut self, messages: u32) -> Self {
        self.settings.concurrency = messages;
        self
    }

    /// Time between messages. Unless told otherwise, they are published as soon as the generator has them.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval;
        self
    }

    /// How often a message that failed is tried again before it is an error; 0 unless told otherwise.
    pub fn retries(mut self, retries: u16) -> Self {
        self.settings.retries = retries;
        self
    }

    /// How many messages of one group are handled at once, in the whole fleet; one, and in order, unless told otherwise.
    pub fn group_concurrency(mut self, messages: u32) -> Self {
        self.settings.group_concurrency = messages;
        self
    }

    /// A message that is to be tried again does not hold up its group.
    pub fn group_skip_retries(mut self) -> Self {
        self.settings.group_skip_retries = true;
        self
    }

    /// How fast the whole fleet may take messages: `"500/s".parse()?`. For bursts and groups see [`Settings::limits`].
    pub fn limit(mut self, rate: Rate) -> Self {
        self.settings.limits.get_or_insert_default().rate = Some(rate);
        self
    }

    /// A message whose handling takes longer has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Handle while generating, too: for a fleet of one.
    pub fn also_handle(mut self) -> Self {
        self.settings.also_handle = true;
        self
    }

    /// All the other settings.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Tells `observer` what happens. Unless told otherwise, what needs attention (a store that is away, messages that nobody
    /// handles) is a line on stderr, or with the feature `tracing`, and a subscriber, an event of that crate, as all else then is.
    /// [`Silent`](crate::event::Silent) hears nothing.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Figures of this node as Prometheus reads them, for a server of yours: each call of what this returns tells the latest.
    /// To be asked for when all settings are made.
    ///
    /// ```
    /// let node = queenright::on("redis://localhost").queue("feeds").handle(async |_| {});
    /// let metrics_text = node.metrics_text();
    /// assert!(metrics_text().contains("queenright_messages_done_total{queue=\"feeds\"} 0"));
    /// ```
    pub fn metrics_text(&self) -> impl Fn() -> String + Clone + Send + Sync + use<C, G, H> {
        let (meter, settings) = (self.meter.clone(), self.settings.clone());
        move || metrics::of_node(&settings, &meter, None)
    }

    /// Messages are made by a [`Generate`], which can keep a cursor, have nothing to say, or come to an end.
    pub fn generator<G2: Generate>(mut self, generate: G2) -> Builder<C, G2, H> {
        if self.settings.prefer == Prefer::Never {
            self.settings.prefer = Prefer::Either;
        }
        self.with(generate)
    }

    fn with<G2>(self, generate: G2) -> Builder<C, G2, H> {
        Builder {
            store: self.store,
            settings: self.settings,
            observer: self.observer,
            meter: self.meter,
            generate,
            handle: self.handle,
        }
    }

    /// Messages are made by an async function of what is next. It may take as long as it likes. Its future is dropped when the
    /// reign ends, and when another program pushes first: it is then called again, with another number. Where making a
    /// message takes long and others push often, a [`stream`](Self::stream) is better.
    pub fn generate<F, Made>(self, generate: F) -> Builder<C, FromFn<F>, H>
    where
        F: FnMut(Next) -> Made + Send + 'static,
        Made: Future<Output: Into<Vec<u8>>> + Send + 'static,
    {
        self.generator(FromFn::new(generate))
    }

    /// Messages are the items of a stream, while this node reigns. An item that was on its way when a reign ended comes again
    /// in the node's next reign if another node reigned meanwhile. What must neither skip nor repeat across nodes is better a
    /// [`generator`](Self::generator) with a cursor.
    pub fn stream<S>(self, stream: S) -> Builder<C, FromStream<S>, H>
    where
        S: Stream<Item: Into<Vec<u8>>> + Send + 'static,
    {
        self.generator(FromStream::new(stream))
    }

    /// A message at each time that the cron pattern names, in a time zone such as `"UTC"`, made by `generate`, which finds
    /// the time in [`Next::due_ms`].
    #[cfg(feature = "cron")]
    pub fn cron<G2: Generate>(self, cron: Cron, missed: Missed, generate: G2) -> Builder<C, Scheduled<G2>, H> {
        self.generator(Scheduled::new(cron, missed, generate))
    }

    /// Messages are handled by an async function. It returns `Ok` with nothing or with [`Effect`](crate::Effect)s, or why
    /// the message failed.
    pub fn handle<F, Answer>(self, handle: F) -> Builder<C, G, HandleFn<F>>
    where
        F: Fn(Message) -> Answer + Send + Sync + 'static,
        Answer: Future<Output: IntoHandled> + Send,
    {
        self.handler(HandleFn(handle))
    }

    /// Messages are handled by a [`Handle`].
    pub fn handler<H2: Handle>(self, handle: H2) -> Builder<C, G, H2> {
        Builder {
            store: self.store,
            settings: self.settings,
            observer: self.observer,
            meter: self.meter,
            generate: self.generate,
            handle,
        }
    }

    /// Payloads are JSON, and handled as values of `T`. A message whose payload is none fails.
    #[cfg(feature = "serde")]
    pub fn handle_json<T, F, Answer>(self, handle: F) -> Builder<C, G, HandleJson<T, F>>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
        F: Fn(T, Message) -> Answer + Send + Sync + 'static,
        Answer: Future<Output: IntoHandled> + Send,
    {
        self.handler(HandleJson::new(handle))
    }
}

impl<C, G, H> Builder<C, G, H> {
    /// Works until `stop` is ready, [`shutdown::signals()`] for instance; then stops generating, hands the crown over, finishes what
    /// is in hand, gives back the rest, and leaves.
    ///
    /// A store that is away is waited for, and told to the [observer](Self::observer).
    pub async fn run_until(self, stop: impl Future) -> Result<()>
    where
        C: Connect,
        G: Generate,
        H: Handle,
    {
        let (stopper, shutdown) = shutdown::channel();
        let mut running = std::pin::pin!(self.run(shutdown));
        tokio::select! {
            ended = &mut running => return ended,
            _ = stop => stopper.stop(),
        }
        running.await
    }

    /// The same, until `shutdown` says so.
    pub async fn run(self, shutdown: shutdown::Shutdown) -> Result<()>
    where
        C: Connect,
        G: Generate,
        H: Handle,
    {
        let engine = self.store.connect(&self.settings)?;
        let node = Node::new(engine, self.settings, self.generate, self.handle);
        node.metered(self.meter).observer(self.observer).run(shutdown).await
    }
}
