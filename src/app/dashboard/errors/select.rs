//! Which failed messages are meant: the parameters of a query, or `select` in a body.

use serde::Deserialize;

use super::super::reply::Refusal;
use super::super::request::Query;
use crate::api::failed::Filter;
use crate::app::args::json::{NUMBER_MAX, counted};

/// The parameters of a query that choose errors.
pub(super) const PARAMETERS: [&str; 5] = ["from", "to", "text", "before_ms", "since_ms"];

/// Which errors; what is not given does not matter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Select {
    #[serde(default, deserialize_with = "counted")]
    from: Option<u64>,
    #[serde(default, deserialize_with = "counted")]
    to: Option<u64>,
    text: Option<String>,
    #[serde(default, deserialize_with = "counted")]
    before_ms: Option<u64>,
    #[serde(default, deserialize_with = "counted")]
    since_ms: Option<u64>,
}

impl Select {
    pub(super) fn of(query: &Query<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            from: query.number("from")?,
            to: query.number("to")?,
            text: query.text("text").map(str::to_string),
            before_ms: query.number("before_ms")?,
            since_ms: query.number("since_ms")?,
        })
    }

    pub(super) fn filter(self) -> Filter {
        Filter {
            from: self.from.unwrap_or(0),
            to: self.to.unwrap_or(NUMBER_MAX),
            text: self.text.filter(|text| !text.is_empty()),
            before_ms: self.before_ms,
            since_ms: self.since_ms,
        }
    }
}
