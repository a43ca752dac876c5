//! What became of a request to cancel a message, in one word.

use crate::engine::Cancelled;

pub(in crate::app) fn word(answer: Cancelled) -> &'static str {
    match answer {
        Cancelled::Asked => "cancelled",
        Cancelled::Ended => "ended",
        Cancelled::Unpublished => "unpublished",
        Cancelled::TooMany => "full",
    }
}
