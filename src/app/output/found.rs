//! Where a message is and how it ended, as `push --wait` and `where` print it, and as the API tells it.

use std::fmt::Write as _;

use serde::Serialize;

use super::json::for_terminal;
use super::quote;
use super::time::utc;
use crate::app::base64;
use crate::engine::{Ending, Found};

/// One message.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FoundView {
    pub number: u64,
    /// Only of a push: its key was pushed before, and nothing was put in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<bool>,
    /// unpublished, queued, later, held, done, failed, expired, cancelled, settled or unknown.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u16>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

impl FoundView {
    #[must_use]
    pub fn of(number: u64, found: &Found) -> Self {
        let view = |state| Self {
            number,
            state,
            ..Self::default()
        };
        match found {
            Found::Unpublished => view("unpublished"),
            Found::Queued => view("queued"),
            Found::Later { until_ms } => Self {
                until: Some(utc(*until_ms)),
                ..view("later")
            },
            Found::Held { node } => Self {
                node: Some(node.clone()),
                ..view("held")
            },
            Found::Ended(ending) => Self::ended(number, ending),
            Found::Failed(failed) => Self::ended(number, &Ending::of_failed(failed)),
            Found::Settled => view("settled"),
            Found::Unknown => view("unknown"),
        }
    }

    #[must_use]
    pub fn ended(number: u64, ending: &Ending) -> Self {
        let result = ending.result().map(str::from_utf8);
        Self {
            number,
            state: ending.word(),
            node: Some(ending.node.clone()),
            result: result.and_then(|text| text.ok().map(str::to_string)),
            result_base64: ending
                .result()
                .filter(|bytes| str::from_utf8(bytes).is_err())
                .map(base64::encode),
            error: ending.error().map(|text| String::from_utf8_lossy(text).into_owned()),
            deliveries: Some(ending.deliveries),
            failures: Some(ending.failures),
            time: Some(utc(ending.time_ms)),
            ..Self::default()
        }
    }

    /// As one line, which is safe to look at on a terminal.
    #[must_use]
    pub fn line(&self, json: bool) -> String {
        if json {
            return for_terminal(self) + "\n";
        }
        let mut line = format!("{} {}", self.number, self.state);
        let texts = [
            ("until", &self.until),
            ("result", &self.result),
            ("result_base64", &self.result_base64),
            ("error", &self.error),
            ("node", &self.node),
            ("time", &self.time),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                // Writing to a String cannot fail.
                let _ = write!(line, " {name}=");
                quote::value(&mut line, text.as_bytes());
            }
        }
        line.push('\n');
        line
    }
}

/// In words, of a message that has not ended, or of which that is not known.
#[must_use]
pub fn words(found: &Found) -> String {
    match found {
        Found::Unpublished => "the store does not know it (any more)".into(),
        Found::Queued => "it waits in the queue".into(),
        Found::Later { until_ms } => format!("it waits until {}", utc(*until_ms)),
        Found::Held { node } => format!("node {node} has it in hand"),
        Found::Ended(_) | Found::Failed(_) => "it has ended".into(),
        Found::Settled => {
            "it has ended, and how is not kept: nobody asked for its outcome, or that was too long ago".into()
        }
        Found::Unknown => {
            "it waits behind many, or has ended: nobody asked for its outcome, or that was too long ago".into()
        }
    }
}
