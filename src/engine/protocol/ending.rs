//! How a message ended whose outcome was asked for, and where a message is.

use super::{Failed, NodeId};
use crate::message::{CANCELLED, Pack};

/// How a message ended whose outcome was asked for. Kept for [`ENDING_MS`](crate::engine::ENDING_MS), while no more than
/// [`ENDINGS_MAX`](crate::engine::ENDINGS_MAX) are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub how: Ended,
    /// When, by the store's time of day.
    pub time_ms: u64,
    /// In whose hand.
    pub node: NodeId,
    pub deliveries: u16,
    /// How often it had failed before, and was tried again.
    pub failures: u16,
}

/// Whether a message is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With what its handler gave, if it gave something.
    Done(Option<Vec<u8>>),
    /// With the error's text.
    Failed(Vec<u8>),
}

impl Ending {
    /// Of the only message of a pack, in the hand of this node.
    pub(crate) fn of(pack: &Pack, time_ms: u64, node: &str, how: Ended) -> Self {
        Self {
            how,
            time_ms,
            node: node.to_string(),
            deliveries: pack.deliveries(),
            failures: pack.failures(),
        }
    }

    /// Of an error.
    #[must_use]
    pub fn of_failed(failed: &Failed) -> Self {
        Self {
            how: Ended::Failed(failed.error.clone()),
            time_ms: failed.time_ms,
            node: failed.node.clone(),
            deliveries: failed.deliveries,
            failures: failed.failures,
        }
    }

    /// Whether it is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.how, Ended::Done(_))
    }

    /// In one word: `done`, `failed`, `expired` (nobody had begun with it in time) or `cancelled`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.how {
            Ended::Done(_) => "done",
            Ended::Failed(error) if error.starts_with(b"expired: ") => "expired",
            Ended::Failed(error) if error == CANCELLED.as_bytes() => "cancelled",
            Ended::Failed(_) => "failed",
        }
    }

    /// What its handler gave.
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        match &self.how {
            Ended::Done(result) => result.as_deref(),
            Ended::Failed(_) => None,
        }
    }

    /// Why it failed.
    #[must_use]
    pub fn error(&self) -> Option<&[u8]> {
        match &self.how {
            Ended::Done(_) => None,
            Ended::Failed(error) => Some(error),
        }
    }
}

/// Where a message is, as far as the store can tell without looking through the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No message has this number yet.
    Unpublished,
    /// It waits to be taken. Only told where its outcome is asked for.
    Queued,
    /// It waits until this time of day. Only told where its outcome is asked for.
    Later { until_ms: u64 },
    /// It is in the hand of this node.
    Held { node: NodeId },
    /// It has ended, and its outcome was asked for.
    Ended(Ending),
    /// It has failed, and is among the errors.
    Failed(Box<Failed>),
    /// It has ended; how is not kept. It is done, or it was an error that someone has read or removed.
    Settled,
    /// It waits or has ended: nobody asked for its outcome, or that was too long ago.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_queue_itself_says_is_cancelled_or_expired() {
        let word = |error: &str| {
            let ending = Ending {
                how: Ended::Failed(error.into()),
                time_ms: 0,
                node: "n".into(),
                deliveries: 1,
                failures: 0,
            };
            ending.word()
        };
        assert_eq!(word(CANCELLED), "cancelled");
        assert_eq!(word("cancelled by the customer"), "failed");
        assert_eq!(
            word("expired: it was not begun with within 1s of its publication"),
            "expired"
        );
        assert_eq!(word("expired card"), "failed");
    }
}
