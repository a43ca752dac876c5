//! What makes the messages: a [`Generate`], usually a function of the next number.
//!
//! The loop that asks it while the node reigns is in `generator.rs`.

mod unconfirmed;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::message::Headers;

pub(crate) use unconfirmed::Unconfirmed;

/// The message that is to be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub number: u64,
    pub epoch: u64,
    /// How many messages were generated before this one, in all reigns; pushed ones have numbers, but do not count.
    pub made: u64,
    /// How many of them the store has confirmed. Those in between may be asked for again.
    pub confirmed: u64,
    /// Messages that are made already wait for this one. If it is not there yet, return [`Made::Nothing`] and they are
    /// published now; this one is asked for again at once, and may then be waited for.
    pub others_wait: bool,
    /// The time that this message is for, in milliseconds since 1970 by the store's clock: its tick; or now, if there is no
    /// interval.
    pub due_ms: u64,
}

/// What came of asking for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// The draft is a message.
    Message,
    /// There is none this time: the tick passes without a message.
    Nothing,
    /// There will be no more in this reign.
    End,
}

/// The beginning of a reign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    pub number: u64,
    pub epoch: u64,
    /// As in [`Next::made`].
    pub made: u64,
    /// How many they were when the last reign of this process had ended. `None`: there was none, or it is not known.
    pub made_before: Option<u64>,
    /// What the last message left for this one.
    pub cursor: Bytes,
    /// How many shards the queue has, with those that get no new messages since a reshard. Where there are several, numbers say nothing of the order.
    pub shards: usize,
}

/// A message in the making.
#[derive(Debug, Default)]
pub struct Draft {
    /// The payload: empty, to be filled.
    pub payload: Vec<u8>,
    /// What the message before this one left here, whichever node generated it. What is left here now is stored in the same
    /// step as this message: so a poller that continues from its cursor neither skips nor repeats, whichever node dies when.
    /// At most 64 KB. If it is not changed, it costs nothing.
    pub cursor: Vec<u8>,
    /// The group that it is to belong to, whose messages are handled one at a time and in order: none, to be filled in. 1 to
    /// [`GROUP_BYTES_MAX`](crate::message::GROUP_BYTES_MAX) bytes without a NUL.
    pub group: Option<String>,
    /// After how long from its publication it is an error if its handling has not begun: never, to be filled in.
    pub expires: Option<Duration>,
    /// What goes with it to its handler: nothing, to be filled in.
    pub headers: Headers,
}

/// Makes messages.
pub trait Generate: Send + 'static {
    /// Fills in the next message. It may take as long as it likes, and is dropped when the reign ends. It may be called again
    /// for the same message, or with the same cursor and another number: a message that was not published is as if it had
    /// never been made.
    fn generate(&mut self, next: Next, draft: &mut Draft) -> impl Future<Output = Made> + Send;

    /// A reign of this node begins.
    fn elected(&mut self, _: &Election) {}

    /// It has ended, and `confirmed` messages are published, as in [`Next::confirmed`]. Must not block.
    fn deposed(&mut self, _confirmed: u64) {}
}

/// A function from what is next to a payload is a generator.
/// Never generates: of a node that only handles.
impl Generate for () {
    async fn generate(&mut self, _: Next, _: &mut Draft) -> Made {
        Made::End
    }
}

impl<F> Generate for F
where
    F: FnMut(Next) -> Vec<u8> + Send + 'static,
{
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        draft.payload.extend(self(next));
        Made::Message
    }
}
