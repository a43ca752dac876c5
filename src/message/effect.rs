//! Effects: writes that the store applies together with the outcome of a message.

use std::time::Duration;

use bytes::Bytes;

use super::{Envelope, Headers};

/// A change in the store that happens exactly once, together with the settle of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Add to a counter. Counters stay between −2^53 and 2^53, where every engine counts exactly.
    Add { key: String, by: i64 },
    /// Set a value.
    Set { key: String, value: Vec<u8> },
    /// Set one field of a hash.
    SetField { key: String, field: String, value: Vec<u8> },
    /// Append to a list.
    Push { key: String, value: Vec<u8> },
    /// Publish the next message, for now or for later. It gets its number in the settle of this one. Where the queue is full, this one
    /// is tried again later: nothing of it has happened.
    Publish {
        payload: Bytes,
        delay_ms: u64,
        /// The group that it belongs to.
        group: Option<String>,
        /// What goes with it to its handler. The trace context of the message that publishes it goes with it as well, unless there is another one here.
        headers: Headers,
    },
    /// What whoever asked for the outcome is told with it: at most [`RESULT_BYTES_MAX`](crate::message::RESULT_BYTES_MAX) bytes. Of a message whose outcome nobody asked for, it
    /// is dropped.
    Result { value: Bytes },
}

impl Effect {
    /// Add to a counter.
    pub fn add(key: impl Into<String>, by: i64) -> Self {
        Self::Add { key: key.into(), by }
    }

    /// Set a value.
    pub fn set(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self::Set {
            key: key.into(),
            value: value.into(),
        }
    }

    /// Set one field of a hash.
    pub fn set_field(key: impl Into<String>, field: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self::SetField {
            key: key.into(),
            field: field.into(),
            value: value.into(),
        }
    }

    /// Append to a list.
    pub fn push(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self::Push {
            key: key.into(),
            value: value.into(),
        }
    }

    /// Publish the next message of a chain.
    pub fn publish(payload: impl Into<Bytes>) -> Self {
        Self::publish_after(payload, Duration::ZERO)
    }

    /// The same, to be handled only after this time.
    pub fn publish_after(payload: impl Into<Bytes>, delay: Duration) -> Self {
        Self::Publish {
            payload: payload.into(),
            delay_ms: crate::settings::ms(delay),
            group: None,
            headers: Headers::new(),
        }
    }

    /// What whoever asked for the outcome is told with it; of two, the handler's message fails.
    pub fn result(value: impl Into<Bytes>) -> Self {
        Self::Result { value: value.into() }
    }

    /// What it publishes belongs to this group, whose messages are handled one at a time and in order. Other effects stay as they are.
    #[must_use]
    pub fn in_group(mut self, name: impl Into<String>) -> Self {
        if let Self::Publish { group, .. } = &mut self {
            *group = Some(name.into());
        }
        self
    }

    /// What it publishes has this header. Other effects stay as they are.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        if let Self::Publish { headers, .. } = &mut self {
            headers.insert(name, value);
        }
        self
    }

    /// The key that it writes to. A message is published to the queue itself, and a result is kept there.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Add { key, .. } | Self::Set { key, .. } | Self::SetField { key, .. } | Self::Push { key, .. } => {
                Some(key)
            }
            Self::Publish { .. } | Self::Result { .. } => None,
        }
    }

    /// Whether it publishes a message.
    #[must_use]
    pub fn publishes(&self) -> bool {
        matches!(self, Self::Publish { .. })
    }

    /// What stands before the payload of what it publishes.
    pub(crate) fn envelope(&self) -> Envelope {
        match self {
            Self::Publish { group, headers, .. } => Envelope {
                group: group.clone(),
                headers: headers.clone(),
                ..Envelope::default()
            },
            _ => Envelope::default(),
        }
    }

    /// How much there is to be written.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Add { key, .. } => key.len(),
            Self::Set { key, value } | Self::Push { key, value } => key.len() + value.len(),
            Self::SetField { key, field, value } => key.len() + field.len() + value.len(),
            Self::Result { value } => value.len(),
            Self::Publish {
                payload,
                group,
                headers,
                ..
            } => payload.len() + group.as_ref().map_or(0, String::len) + headers.bytes(),
        }
    }
}
