//! Failed messages (the dead letters of the queue), and who reads them.

use super::NodeId;
use crate::message::{Envelope, Headers, Pack};

/// A failed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub number: u64,
    pub deliveries: u16,
    /// How often it had failed before, and was tried again.
    pub failures: u16,
    pub epoch: u64,
    pub published_ms: u64,
    /// When it failed.
    pub time_ms: u64,
    pub node: NodeId,
    pub error: Vec<u8>,
    /// The group that it belongs to.
    pub group: Option<String>,
    /// Its pusher asked for its outcome.
    pub asked: bool,
    /// How long after its publication its handling could begin.
    pub expires_ms: Option<u64>,
    pub headers: Headers,
    pub payload: Vec<u8>,
}

impl Failed {
    /// What stood before its payload.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            group: self.group.clone(),
            asked: self.asked,
            expires_ms: self.expires_ms,
            headers: self.headers.clone(),
        }
    }

    /// What is kept of a message of a pack that failed in the hand of this node.
    pub(crate) fn of(pack: &Pack, index: usize, time_ms: u64, node: &str, error: &str) -> Self {
        let message = pack.message(index);
        Self {
            number: message.number,
            deliveries: message.deliveries,
            failures: message.failures,
            epoch: message.epoch,
            published_ms: message.published_ms,
            time_ms,
            node: node.to_string(),
            error: error.as_bytes().to_vec(),
            group: message.group().map(str::to_string),
            asked: message.is_asked(),
            expires_ms: message.envelope.open().and_then(|envelope| envelope.expires_ms),
            headers: message.headers().clone(),
            payload: message.payload.to_vec(),
        }
    }
}

/// One call of a reader of errors: confirms the batch of the call before, and takes the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collect {
    pub reader: String,
    /// From 1, one more for each batch.
    pub call: u64,
    /// The numbers of the batch of the call before: that batch and no other is confirmed.
    pub shown: Vec<u64>,
    /// Only numbers below this.
    pub below: u64,
    /// 0: confirm and leave.
    pub want: u32,
    pub lease_ms: u64,
}

/// The answer to a collect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collected {
    /// The reader's next errors; if there are none, no errors are left.
    Batch {
        failed: Vec<Failed>,
        /// Other readers who hold errors.
        others: u64,
        /// A reader whose lease has run out: release it.
        victim: Option<String>,
    },
    /// Given up: what was not confirmed has gone back to the errors.
    Deposed,
}

/// What became of errors that were to be requeued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requeued {
    /// Those that were among the errors, and are in the queue now.
    pub numbers: Vec<u64>,
    /// How many of the given numbers were looked at: large messages end a step early. Ask again with the rest.
    pub looked: usize,
}
