//! What a node tells the program around it as it happens: events for logs and screens, and entries for a ledger.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;

/// Something that happened on a node. Message events are told once the store has confirmed them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Became a member, under the node id that comes with the event.
    Joined,
    /// Was crowned, and generates from this number on.
    Elected { epoch: u64, next_number: u64 },
    /// Lost the crown, or (without an epoch) its membership.
    Deposed { epoch: Option<u64> },
    /// A message of this generator is in the queue; or one that an effect of another message published, its cause.
    Published {
        epoch: u64,
        number: u64,
        payload: Bytes,
        cause: Option<u64>,
    },
    /// The handler is about to start on it. Told only if [`Observer::wants_starts`] says so.
    Started {
        epoch: u64,
        number: u64,
        deliveries: u16,
        payload: Bytes,
    },
    /// A message was handled.
    Done {
        epoch: u64,
        number: u64,
        deliveries: u16,
        payload: Bytes,
    },
    /// A message failed for good, and is kept among the errors.
    Error {
        epoch: u64,
        number: u64,
        deliveries: u16,
        payload: Bytes,
        error: String,
    },
    /// Failed, and is tried again after some time.
    Retried {
        epoch: u64,
        number: u64,
        deliveries: u16,
        /// How often it has failed now.
        failures: u16,
        payload: Bytes,
        error: String,
        after_ms: u64,
    },
    /// Took a message that had been delivered before.
    Redelivered {
        epoch: u64,
        number: u64,
        deliveries: u16,
        payload: Bytes,
    },
    /// Gave up a silent or departed node and handed on what it held.
    Reaped {
        victim: String,
        redelivered: u64,
        failed: u64,
    },
    /// Removed the oldest errors beyond `errors_max`: so many, with numbers from `first` to `last`.
    Trimmed { errors: u64, first: u64, last: u64 },
    /// Generating, handling or both are paused now, and were not all paused before.
    Paused { generator: bool, handlers: bool },
    /// Nothing is paused any more.
    Resumed,
    /// The store went back in time, lacked so many messages that this node knew of, and was raised to what it had seen.
    Rewound { next_number: u64, lacked: u64 },
    /// A failover took back messages that were not told yet: so many were published again, with the same numbers. Of so many others nobody
    /// knows whether anyone has them: they are not published by this node any more.
    Replayed { messages: u64, unknown: u64 },
    /// It stops before replicas have all that it wrote: so many published messages and outcomes were not told, and may be kept or not.
    Untold { messages: u64 },
    /// The queue was removed on purpose, and another begins: what this node has seen is forgotten.
    Purged,
    /// This node generates, nobody else is alive to handle, and it does not handle itself: so many messages wait.
    Unhandled { queued: u64 },
    /// This node generates, and what it generates cannot be published until somebody changes something: what that is.
    Blocked { why: String },
    /// Someone else wrote into the queue: what cannot be read of it.
    Damaged { what: String },
    /// The store cannot be used at the moment.
    Away { reason: String },
    /// The store answers again.
    Reconnected,
    /// It is told to stop, and finishes what it has in hand: so many messages.
    Stopping { in_hand: u64 },
    /// The number of shards was changed: it finishes what it has in hand, so many messages, and goes on with the shards that there are now.
    Resharded { in_hand: u64 },
    /// The time to finish is over: so many messages are given to others, who will handle them again.
    GivenUp { messages: u64 },
    /// The queue is on this server now: a cluster or sentinels say so.
    Relocated { server: String },
    /// Ended its membership in good order.
    Left,
}

impl Event {
    /// The name in logs, the same in every format.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Elected { .. } => "elected",
            Self::Deposed { .. } => "deposed",
            Self::Published { .. } => "published",
            Self::Started { .. } => "started",
            Self::Done { .. } => "done",
            Self::Error { .. } => "error",
            Self::Retried { .. } => "retried",
            Self::Redelivered { .. } => "redelivered",
            Self::Reaped { .. } => "reaped",
            Self::Trimmed { .. } => "trimmed",
            Self::Paused { .. } => "paused",
            Self::Resumed => "resumed",
            Self::Rewound { .. } => "rewound",
            Self::Replayed { .. } => "replayed",
            Self::Untold { .. } => "untold",
            Self::Purged => "purged",
            Self::Unhandled { .. } => "unhandled",
            Self::Blocked { .. } => "blocked",
            Self::Damaged { .. } => "damaged",
            Self::Away { .. } => "away",
            Self::Reconnected => "reconnected",
            Self::Stopping { .. } => "stopping",
            Self::Resharded { .. } => "resharded",
            Self::GivenUp { .. } => "given_up",
            Self::Relocated { .. } => "relocated",
            Self::Left => "left",
        }
    }

    /// In words, if somebody should look at it.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        Some(match self {
            Self::Deposed { epoch: None } => "was given up, and joins again".into(),
            Self::Unhandled { queued } => format!(
                "generates, and no other node is alive to handle ({queued} messages wait): start another, or let this one also handle"
            ),
            Self::GivenUp { messages } => {
                format!("stops with {messages} messages unfinished: others handle them again")
            }
            Self::Rewound { next_number, lacked } => {
                format!(
                    "the store lost writes that it had acknowledged, {lacked} messages among them; numbers go on at {next_number}"
                )
            }
            Self::Replayed { messages, unknown: 0 } => {
                format!("a failover took back {messages} messages; they are published again")
            }
            Self::Replayed { messages, unknown } => {
                let all = messages + unknown;
                format!(
                    "a failover took back {all} messages; {messages} are published again, {unknown} that were not told cannot be"
                )
            }
            Self::Untold { messages } => format!(
                "stops before replicas have all that it wrote: {messages} messages or outcomes stay untold, and may be kept or not"
            ),
            Self::Purged => "the queue was removed, and another begins".into(),
            Self::Blocked { why } => why.clone(),
            Self::Damaged { what } => format!("someone else wrote into the queue: {}", escape(what.as_bytes())),
            Self::Away { reason } => format!("{}; waiting for it", escape(reason.as_bytes())),
            Self::Reconnected => "the store answers again".into(),
            _ => return None,
        })
    }

    /// Whether there is one of these for each message.
    #[must_use]
    pub fn is_per_message(&self) -> bool {
        matches!(
            self,
            Self::Published { .. }
                | Self::Started { .. }
                | Self::Done { .. }
                | Self::Error { .. }
                | Self::Retried { .. }
                | Self::Redelivered { .. }
        )
    }
}

/// An entry of a ledger: what becomes of a run of consecutive messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub first: u64,
    pub count: u64,
    pub what: What,
}

/// What becomes of messages, as a ledger has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Numbered and put into the queue.
    Publish {
        epoch: u64,
    },
    /// The same, by an effect of this message.
    Chain {
        cause: u64,
    },
    /// Taken to be handled.
    Take {
        deliveries: u16,
        epoch: u64,
    },
    Done,
    Error,
    /// Without an outcome: given back unstarted, or put off to be tried again.
    Return,
}

/// Is told what happens on a node, in batches. Must return quickly: the node waits.
pub trait Observer: Send + Sync + 'static {
    /// False spares the node from preparing per-message events.
    fn wants_messages(&self) -> bool {
        true
    }

    /// True asks for [`Event::Started`], message by message.
    fn wants_starts(&self) -> bool {
        false
    }

    /// Called as things happen, from the node's own threads: it must not block for long.
    fn observe(&self, node: &str, events: &[Event]);

    /// The same of all that happens in a shard other than the home shard: for whoever keeps a ledger. [`observe`](Self::observe) is told of it what
    /// somebody should look at.
    fn observe_shard(&self, _node: &str, _events: &[Event]) {}

    /// True asks for [`intends`](Self::intends) and [`confirms`](Self::confirms).
    fn keeps_ledger(&self) -> bool {
        false
    }

    /// Called right before the store is asked to publish or to settle. If the node is killed before it hears the answer, this
    /// says what it may have done.
    fn intends(&self, _node: &str, _entries: &[Entry]) {}

    /// Called when the store has refused the only call that was on its way, and was asked once: nothing is settled of all that was
    /// [intended](Self::intends) and not confirmed.
    fn refuses(&self, _node: &str) {}

    /// Called once the store has confirmed it.
    fn confirms(&self, _node: &str, _entries: &[Entry]) {}
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn wants_messages(&self) -> bool {
        false
    }

    fn observe(&self, _: &str, _: &[Event]) {}
}

/// Bytes as text that is safe on any terminal: every control character, and every byte that is no UTF-8, escaped.
#[must_use]
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    let safe = |c: char| !c.is_control() && !is_disguise(c);
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.chars().all(safe)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if safe(c) {
                out.push(c);
            } else {
                out.extend(c.escape_default());
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

/// Characters that reorder, hide or end what stands beside them.
pub(crate) fn is_disguise(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn no_control_byte_ever_comes_out_of_the_escaper() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        bytes.extend("\u{9b}31m \u{202e}abc é 🐝".as_bytes());
        let text = escape(&bytes);
        assert!(!text.chars().any(char::is_control), "{text}");
        assert!(text.ends_with("é 🐝"));
        assert!(text.contains("\\x80"));
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(escape("é plain 🐝".as_bytes()), std::borrow::Cow::Borrowed(_)));
    }
}
