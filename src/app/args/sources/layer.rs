//! What one source gives, and the stack of all of them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::app::args::Usage;

/// The options that have a value outside the command line, by the flag's name.
pub const OPTIONS: [&str; 38] = [
    "url",
    "host",
    "port",
    "user",
    "pass",
    "db",
    "queue",
    "concurrency",
    "interval",
    "messages",
    "lease",
    "batch",
    "grace",
    "max-backlog",
    "max-deliveries",
    "max-errors",
    "retries",
    "backoff",
    "also-handle",
    "prefer",
    "burst",
    "generate",
    "generate-each",
    "generate-json",
    "cron",
    "tz",
    "missed",
    "handle",
    "handle-each",
    "timeout",
    "work",
    "error-rate",
    "log",
    "quiet",
    "no-wait",
    "metrics",
    "dashboard",
    "token",
];
const CONNECTION: [&str; 6] = ["url", "host", "port", "user", "pass", "db"];

/// A value as it was written, and the place where people find it. Has no `Debug`: it may be a password.
#[derive(Clone)]
pub struct Given {
    pub text: String,
    pub origin: String,
}

/// The values of one source.
#[derive(Clone, Default)]
pub struct Layer {
    values: BTreeMap<&'static str, Given>,
    /// An environment may carry both a URL and a host, set by different people; in the other sources that is a mistake.
    pub is_environment: bool,
    pub is_flags: bool,
}

impl Layer {
    pub fn of_flags<'a>(values: impl Iterator<Item = (&'static str, Option<&'a str>)>) -> Self {
        let mut layer = Self {
            is_flags: true,
            ..Self::default()
        };
        for (name, text) in values {
            if let Some(text) = text {
                layer.set(name, text, format!("--{name}"));
            }
        }
        layer
    }

    /// Empty variables count as unset.
    pub fn of_environment(variables: &BTreeMap<String, String>, file: Option<&Path>) -> Self {
        let mut layer = Self {
            is_environment: true,
            ..Self::default()
        };
        for name in OPTIONS {
            let found = variable_names(name)
                .into_iter()
                .find_map(|variable| variables.get_key_value(&variable).filter(|(_, text)| !text.is_empty()));
            if let Some((variable, text)) = found {
                let origin = match file {
                    Some(file) => format!("{variable} in {}", file.display()),
                    None => variable.clone(),
                };
                layer.set(name, text, origin);
            }
        }
        layer
    }

    pub fn set(&mut self, name: &'static str, text: impl Into<String>, origin: String) {
        let text = text.into();
        self.values.insert(name, Given { text, origin });
    }

    pub fn get(&self, name: &str) -> Option<&Given> {
        self.values.get(name)
    }

    pub fn is_about_the_connection(&self) -> bool {
        CONNECTION.iter().any(|name| self.values.contains_key(name))
    }
}

/// The variables of an option, the preferred one first.
fn variable_names(option: &str) -> Vec<String> {
    let upper = option.to_uppercase().replace('-', "_");
    match option {
        "url" => vec!["REDIS_URL".into(), "REDISURL".into()],
        _ if CONNECTION.contains(&option) => vec![format!("REDIS_{upper}")],
        _ => vec![format!("QUEENRIGHT_{upper}")],
    }
}

/// All sources, the most specific first.
pub struct Stack(pub Vec<Layer>);

impl Stack {
    pub fn get(&self, name: &str) -> Option<&Given> {
        self.0.iter().find_map(|layer| layer.get(name))
    }

    /// The most specific value, read by `read`, whose complaint is put behind the place of the value.
    pub fn parse<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Usage> {
        self.get(name).map(|given| given.parse(read)).transpose()
    }
}

impl Given {
    pub fn parse<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Usage> {
        read(self.text.trim()).map_err(|reason| Usage::new(format!("{}: {reason}", self.origin)))
    }
}
