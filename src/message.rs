//! Messages and their outcomes; which are cancelled is in `cancel`, the packs that messages travel in are in `pack`, what stands before a payload in `envelope`,
//! what an outcome writes in `effect`.

mod cancel;
mod effect;
mod envelope;
mod headers;
mod pack;

use bytes::Bytes;

pub use cancel::{CANCELLED, Cancellation, Cancels};
pub(crate) use cancel::{Told, within};
pub use effect::Effect;
pub use envelope::{Envelope, GROUP_BYTES_MAX, Sealed, wrong_group};
pub use headers::{HEADERS_BYTES_MAX, HEADERS_MAX, Headers};
pub use pack::{PACK_BYTES_MAX, PACK_MESSAGES_MAX, Pack, PackBuilder};

/// The largest payload of one message.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// The longest error text that is kept; the rest is cut.
pub const ERROR_TEXT_BYTES_MAX: usize = 4 * 1024;
/// The largest result of one message.
pub const RESULT_BYTES_MAX: usize = 4 * 1024;

/// One message, as a handler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Unique and without gaps in its queue: a ready-made idempotency key.
    pub number: u64,
    /// 1 at first, one more each time it had to be handed on.
    pub deliveries: u16,
    /// How often it failed before, and was put off to be tried again. Counted apart from deliveries.
    pub failures: u16,
    /// The reign in which it was published.
    pub epoch: u64,
    /// When it was published, in milliseconds since 1970 by the store's clock.
    pub published_ms: u64,
    /// What it carries besides its payload: most messages carry nothing.
    pub envelope: Sealed,
    pub payload: Bytes,
}

impl Message {
    /// A message as its first delivery brings it, with the number 0: for tests of handlers.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            number: 0,
            deliveries: 1,
            failures: 0,
            epoch: 1,
            published_ms: 0,
            envelope: Sealed::default(),
            payload: payload.into(),
        }
    }

    /// What it was published with besides: a trace context, for instance. Most messages have none.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        static NONE: Headers = Headers::new();
        self.envelope.open().map_or(&NONE, |envelope| &envelope.headers)
    }

    /// Whether its pusher asks for its outcome: then a [result](Effect::result) is told, too.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.envelope.open().is_some_and(|envelope| envelope.asked)
    }

    /// The group that it belongs to. Messages of one group are handled one at a time and in the order of their numbers.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        self.envelope.open()?.group.as_deref()
    }
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done, with the effects to apply in the same step as the settle.
    Done(Vec<Effect>),
    /// Failed: the message is kept among the errors with this text.
    Error(String),
    /// Failed, and to be tried again after this time under the same number. The text is told, not stored: the one that
    /// counts is the last.
    Retry { error: String, after_ms: u64 },
    /// Not started: goes back to the head of the queue, deliveries unchanged.
    Return,
}

/// An effect costs a store about as much time as this many bytes do.
const EFFECT_COST_BYTES: usize = 100;

impl Outcome {
    /// How much a store has to write for it besides the message.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Done(effects) => effects.iter().map(|effect| effect.bytes() + EFFECT_COST_BYTES).sum(),
            _ => 0,
        }
    }

    /// Whether one of its effects publishes a message.
    #[must_use]
    pub fn publishes(&self) -> bool {
        matches!(self, Self::Done(effects) if effects.iter().any(Effect::publishes))
    }

    /// What whoever asked for it is told with it.
    #[must_use]
    pub fn result(&self) -> Option<&Bytes> {
        let Self::Done(effects) = self else { return None };
        effects.iter().find_map(|effect| match effect {
            Effect::Result { value } => Some(value),
            _ => None,
        })
    }

    /// Done, and nothing else to be done with it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Done(effects) if effects.is_empty())
    }
}
