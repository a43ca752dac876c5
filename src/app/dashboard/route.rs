//! The paths of the API, and which methods each serves.

use super::request::number;
use crate::app::args::token::Right;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Document,
    Session,
    Status,
    Scale,
    History,
    Store,
    Queues,
    Held,
    Events,
    Errors,
    Export,
    Error(u64),
    Requeue,
    Delete,
    Messages,
    Message(u64),
    Pause,
    Limit,
    Cancel,
    Handover,
}

impl Route {
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "openapi.json" => Self::Document,
            "session" => Self::Session,
            "status" => Self::Status,
            "scale" => Self::Scale,
            "history" => Self::History,
            "store" => Self::Store,
            "queues" => Self::Queues,
            "held" => Self::Held,
            "events" => Self::Events,
            "errors" => Self::Errors,
            "errors/export" => Self::Export,
            "errors/requeue" => Self::Requeue,
            "errors/delete" => Self::Delete,
            "messages" => Self::Messages,
            "pause" => Self::Pause,
            "limit" => Self::Limit,
            "cancel" => Self::Cancel,
            "handover" => Self::Handover,
            _ => match path.strip_prefix("messages/") {
                Some(which) => Self::Message(number(which)?),
                None => Self::Error(number(path.strip_prefix("errors/")?)?),
            },
        })
    }

    pub(super) fn methods(self) -> &'static str {
        match self {
            Self::Session => "GET, POST, DELETE",
            Self::Requeue
            | Self::Delete
            | Self::Messages
            | Self::Pause
            | Self::Limit
            | Self::Cancel
            | Self::Handover => "POST",
            _ => "GET",
        }
    }

    /// What a token must allow.
    pub(super) fn right(self) -> Right {
        match self {
            Self::Messages => Right::Push,
            Self::Requeue | Self::Delete | Self::Pause | Self::Limit | Self::Cancel | Self::Handover => Right::Rule,
            _ => Right::Read,
        }
    }

    /// Whether whatever stands behind a question mark is refused.
    pub(super) fn takes_no_parameters(self) -> bool {
        matches!(
            self,
            Self::Status | Self::Store | Self::Queues | Self::Held | Self::Events | Self::Error(_) | Self::Message(_)
        )
    }

    /// Without a token one may read how to ask, and log in.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Document | Self::Session)
    }
}
