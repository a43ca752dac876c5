//! What programs outside the fleet push.

use std::time::Duration;

use bytes::Bytes;

use crate::message::{Envelope, Headers};

/// Messages from outside, numbered with the generated ones. Creates the queue if there is none, unless it is not to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Random, and the same in every copy of this call: a repeat within a minute gets the same answer.
    pub call: String,
    /// How long keys are remembered.
    pub keep_ms: u64,
    pub backlog_max: u64,
    /// Used as the birth id if this push creates the queue. Empty: it creates none, and is answered [`NoQueue`](crate::error::Error::NoQueue) where there is none.
    pub birth: String,
    /// As in a join, if this push creates the queue.
    pub step_ms: u64,
    /// As in a beat.
    pub server: String,
    /// After a reshard: puts in only what has to be here, since its key is remembered here, or messages of its group wait or are in flight. What is left
    /// belongs elsewhere: [`Receipt::NOT_HERE`].
    pub only_known: bool,
    pub items: Vec<Item>,
}

/// A message to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub payload: Bytes,
    /// An idempotency key: while it is remembered, a message with the same key is not put in again.
    pub key: Option<String>,
    /// The group that it belongs to, whose messages are handled one at a time and in order.
    pub group: Option<String>,
    /// Its outcome is wanted: it is kept for a while.
    pub asked: bool,
    /// It is an error if its handling has not begun so long after its publication, by the store's time of day.
    pub expires_ms: Option<u64>,
    /// What goes with it to its handler.
    pub headers: Headers,
    /// Handled only after this time, by the store's time of day.
    pub delay_ms: u64,
}

impl Item {
    /// A message without a key, to be handled at once.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            key: None,
            group: None,
            asked: false,
            expires_ms: None,
            headers: Headers::new(),
            delay_ms: 0,
        }
    }

    /// With an idempotency key, which makes a repeat a no-op.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// As one of a group: messages of one group are handled one at a time and in the order of their numbers.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// With its outcome kept, and the result that its handler gives: for an hour after it ended, while fewer than ten thousand others have ended since. It can be
    /// [waited for](crate::push::wait).
    #[must_use]
    pub fn ask(mut self) -> Self {
        self.asked = true;
        self
    }

    /// As an error, if its handling has not begun when this time has passed.
    #[must_use]
    pub fn expires(mut self, after: Duration) -> Self {
        self.expires_ms = Some(crate::settings::ms(after));
        self
    }

    /// With a header, which its handler is told.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// What stands before its payload.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            group: self.group.clone(),
            asked: self.asked,
            expires_ms: self.expires_ms,
            headers: self.headers.clone(),
        }
    }

    /// Whether something does.
    pub(crate) fn is_enveloped(&self) -> bool {
        self.group.is_some() || self.asked || self.expires_ms.is_some() || !self.headers.is_empty()
    }

    /// Not before this time has passed.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay_ms = crate::settings::ms(delay);
        self
    }
}

/// The answer to a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// What became of each message, in the order given.
    Ok(Vec<Receipt>),
    /// The backlog is full. Nothing of the call was put in.
    Full,
    /// One of several shards is full. What became of those messages that are in, or were before; the others were not put in. They are pushed with another call, without
    /// these: or the same call is made again.
    Part(Vec<Option<Receipt>>),
    /// This is another server than before, or has started anew: it may lack the last writes, and members that saw more have not
    /// spoken to it yet. Nothing was put in there: make the same call again.
    Unheard,
}

/// What became of a pushed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub number: u64,
    /// Its key was pushed before: this is the number that it has, and nothing was put in.
    pub repeated: bool,
}

impl Receipt {
    /// Nothing was put in: the message belongs into another shard. No message has this number.
    pub const NOT_HERE: Self = Self {
        number: crate::engine::COUNTER_MAX.cast_unsigned(),
        repeated: false,
    };
}
