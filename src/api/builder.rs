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
//!     .run_until(async { tokio::time::sleep(std::time::Duration::from_secs(60)).await })
//!     .await
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_core::Stream;

use crate::engine::Engine;
use crate::engine::redis::RedisEngine;
use crate::error::Result;
use crate::message::{Effect, Message};
use crate::node::Node;
use crate::node::event::{Observer, Silent};
use crate::node::generate::{Draft, Election, Generate, Made, Next, Unconfirmed};
use crate::node::handle::{Failure, Handle, Handled};
use crate::node::shutdown;
use crate::settings::{Prefer, Settings};

/// Begins a node whose queue is there: `redis://` and `rediss://` URLs, or an engine in an [`Arc`].
pub fn on<C: Connect>(store: C) -> Builder<C, (), ()> {
    Builder {
        store,
        settings: Settings {
            prefer: Prefer::Never,
            interval: Duration::ZERO,
            ..Settings::default()
        },
        observer: Arc::new(Silent),
        generate: (),
        handle: (),
    }
}

/// Where a queue can be.
pub trait Connect {
    /// What speaks to it.
    type Engine: Engine;
    /// Opens it; nothing is sent before the node runs.
    fn connect(self, settings: &Settings) -> Result<Arc<Self::Engine>>;
}

impl Connect for &str {
    type Engine = RedisEngine;

    fn connect(self, settings: &Settings) -> Result<Arc<RedisEngine>> {
        RedisEngine::open(self, settings).map(Arc::new)
    }
}

impl Connect for String {
    type Engine = RedisEngine;

    fn connect(self, settings: &Settings) -> Result<Arc<RedisEngine>> {
        self.as_str().connect(settings)
    }
}

impl<E: Engine> Connect for Arc<E> {
    type Engine = E;

    fn connect(self, _: &Settings) -> Result<Arc<E>> {
        Ok(self)
    }
}

/// A node in the making. It needs a handler; without a generator it only handles, what others generate or push.
#[must_use = "nothing happens before it runs"]
pub struct Builder<C, G, H> {
    store: C,
    settings: Settings,
    observer: Arc<dyn Observer>,
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

    /// The distance of messages. Unless told otherwise, they are published as soon as the generator has them.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval;
        self
    }

    /// How often a message that failed is tried again before it is an error; 0 unless told otherwise.
    pub fn retries(mut self, retries: u16) -> Self {
        self.settings.retries = retries;
        self
    }

    /// A message that takes longer has failed.
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

    /// Tells `observer` what happens.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
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
            generate,
            handle: self.handle,
        }
    }

    /// Messages are made by an async function of the next number. It may take as long as it likes; it is dropped when the
    /// reign ends, and may be called again for the same number, or for another one if someone pushes first: for what takes
    /// long beside a busy `push`, a [`stream`](Self::stream) is better.
    pub fn generate<F, Made>(self, generate: F) -> Builder<C, FromFn<F>, H>
    where
        F: FnMut(Next) -> Made + Send + 'static,
        Made: Future<Output: Into<Vec<u8>>> + Send + 'static,
    {
        self.generator(FromFn { generate, making: None })
    }

    /// Messages are the items of a stream, while this node reigns. An item that was on its way when a reign ended comes again
    /// in the node's next one if someone else reigned meanwhile; a stream that must neither skip nor repeat across nodes is better a
    /// [`generator`](Self::generator) with a cursor.
    pub fn stream<S>(self, stream: S) -> Builder<C, FromStream<S>, H>
    where
        S: Stream<Item: Into<Vec<u8>>> + Send + 'static,
    {
        self.generator(FromStream {
            stream: Box::pin(stream),
            kept: Unconfirmed::default(),
            ended: false,
        })
    }

    /// A message at each time that the cron pattern names, in a time zone such as `"UTC"`, made by `generate`, which finds
    /// the time in [`Next::due_ms`].
    #[cfg(feature = "cron")]
    pub fn cron<G2: Generate>(
        self,
        cron: crate::api::cron::Cron,
        missed: crate::api::cron::Missed,
        generate: G2,
    ) -> Builder<C, crate::api::cron::Scheduled<G2>, H> {
        self.generator(crate::api::cron::Scheduled::new(cron, missed, generate))
    }

    /// Messages are handled by an async function. What it returns is done, with [`Effect`]s if there are any, or why not.
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
            generate: self.generate,
            handle,
        }
    }

    /// Payloads are JSON, and handled as what they say. One that says something else is an error.
    #[cfg(feature = "serde")]
    pub fn handle_json<T, F, Answer>(self, handle: F) -> Builder<C, G, crate::api::typed::HandleJson<T, F>>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
        F: Fn(T, Message) -> Answer + Send + Sync + 'static,
        Answer: Future<Output: IntoHandled> + Send,
    {
        self.handler(crate::api::typed::HandleJson::new(handle))
    }
}

impl<C: Connect, H: Handle> Builder<C, (), H> {
    /// Handles until `stop` is there; then finishes what is in hand, gives back the rest, and leaves.
    pub async fn run_until(self, stop: impl Future) -> Result<()> {
        self.with(Silence).run_until(stop).await
    }
}

impl<C: Connect, G: Generate, H: Handle> Builder<C, G, H> {
    /// Works until `stop` is there; then stops generating, hands the crown over, finishes what is in hand, gives back the
    /// rest, and leaves.
    pub async fn run_until(self, stop: impl Future) -> Result<()> {
        let (stopper, shutdown) = shutdown::channel();
        let running = std::pin::pin!(self.run(shutdown));
        let mut running = running;
        tokio::select! {
            ended = &mut running => return ended,
            _ = stop => stopper.stop(),
        }
        running.await
    }

    /// The same, until it is told to stop.
    pub async fn run(self, shutdown: shutdown::Shutdown) -> Result<()> {
        let engine = self.store.connect(&self.settings)?;
        Node::new(engine, self.settings, self.generate, self.handle)
            .observer(self.observer)
            .run(shutdown)
            .await
    }
}

/// What a handler may return: nothing or effects, or a [`Failure`] or what becomes one.
pub trait IntoHandled {
    /// In the words of the node.
    fn into_handled(self) -> Handled;
}

impl<T: IntoEffects, E: Into<Failure>> IntoHandled for std::result::Result<T, E> {
    fn into_handled(self) -> Handled {
        self.map(IntoEffects::into_effects).map_err(Into::into)
    }
}

/// What a handler that is done may return.
pub trait IntoEffects {
    /// All of them.
    fn into_effects(self) -> Vec<Effect>;
}

impl IntoEffects for () {
    fn into_effects(self) -> Vec<Effect> {
        Vec::new()
    }
}

impl IntoEffects for Effect {
    fn into_effects(self) -> Vec<Effect> {
        vec![self]
    }
}

impl IntoEffects for Vec<Effect> {
    fn into_effects(self) -> Self {
        self
    }
}

/// An async function as a handler.
pub struct HandleFn<F>(F);

impl<F, Answer> Handle for HandleFn<F>
where
    F: Fn(Message) -> Answer + Send + Sync + 'static,
    Answer: Future<Output: IntoHandled> + Send,
{
    async fn handle(&self, message: Message) -> Handled {
        (self.0)(message).await.into_handled()
    }
}

/// Never generates.
pub struct Silence;

impl Generate for Silence {
    async fn generate(&mut self, _: Next, _: &mut Draft) -> Made {
        Made::End
    }
}

type Making = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// An async function as a generator. What it is at work on is kept while other messages are published.
pub struct FromFn<F> {
    generate: F,
    making: Option<(u64, u64, Making)>,
}

impl<F, M> Generate for FromFn<F>
where
    F: FnMut(Next) -> M + Send + 'static,
    M: Future<Output: Into<Vec<u8>>> + Send + 'static,
{
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        let is_other = |making: &(u64, u64, Making)| (making.0, making.1) != (next.number, next.epoch);
        if self.making.as_ref().is_none_or(is_other) {
            let made = (self.generate)(next);
            let made: Making = Box::pin(async move { made.await.into() });
            self.making = Some((next.number, next.epoch, made));
        }
        let (_, _, making) = self.making.as_mut().expect("put there just now");
        let payload = if next.others_wait {
            let mut polled = Poll::Pending;
            std::future::poll_fn(|context| {
                polled = making.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
            match polled {
                Poll::Ready(payload) => payload,
                Poll::Pending => return Made::Nothing,
            }
        } else {
            making.as_mut().await
        };
        self.making = None;
        draft.payload = payload;
        Made::Message
    }
}

/// A stream as a generator. An item is kept until it is confirmed, since it may be asked for again.
pub struct FromStream<S> {
    stream: Pin<Box<S>>,
    kept: Unconfirmed<Vec<u8>>,
    /// A stream that has ended must not be asked again.
    ended: bool,
}

impl<S> Generate for FromStream<S>
where
    S: Stream<Item: Into<Vec<u8>>> + Send + 'static,
{
    fn elected(&mut self, election: &Election) {
        self.kept.elected(election);
    }

    fn deposed(&mut self, confirmed: u64) {
        self.kept.confirm(confirmed);
    }

    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        if let Some(item) = self.kept.again(&next) {
            draft.payload.extend_from_slice(item);
            return Made::Message;
        }
        if self.ended {
            return Made::End;
        }
        let stream = &mut self.stream;
        let polled = std::future::poll_fn(|context| match stream.as_mut().poll_next(context) {
            Poll::Pending if next.others_wait => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
            Poll::Ready(item) => Poll::Ready(Some(item)),
        });
        match polled.await {
            None => Made::Nothing,
            Some(None) => {
                self.ended = true;
                Made::End
            }
            Some(Some(item)) => {
                let item = item.into();
                draft.payload.extend_from_slice(&item);
                self.kept.push(item);
                Made::Message
            }
        }
    }
}
