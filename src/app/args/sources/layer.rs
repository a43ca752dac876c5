//! What one source gives, and the stack of all of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::app::args::options::connection::{PASS, SENTINEL_PASS, URL};
use crate::app::args::options::dashboard::{PUSH_TOKEN, READ_TOKEN, TOKEN};
use crate::app::args::options::{self, Effect, Opt};
use crate::app::args::{Flags, Usage};

/// A value as it was written, and the place where people find it. Has no `Debug`: it may be a password.
#[derive(Clone)]
pub struct Given {
    /// More than one only of options that may be repeated.
    pub values: Vec<OsString>,
    pub origin: String,
}

impl Given {
    /// The text. Only paths are anything else, and these are not asked for it.
    pub fn text(&self) -> &str {
        self.values.last().and_then(|value| value.to_str()).unwrap_or_default()
    }

    /// The same of one of several values.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| value.to_str().unwrap_or_default())
    }

    pub fn path(&self) -> PathBuf {
        self.values.last().map(PathBuf::from).unwrap_or_default()
    }

    /// Reads the text; a complaint is put behind the place of the value.
    pub fn parse<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Usage> {
        read(self.text().trim()).map_err(|reason| self.wrong(&reason))
    }

    pub fn wrong(&self, reason: &str) -> Usage {
        Usage::new(format!("{}: {reason}", self.origin))
    }
}

/// The values of one source, by the option's name.
#[derive(Clone, Default)]
pub struct Layer {
    values: BTreeMap<&'static str, Given>,
    /// An environment may carry both a URL and a host, set by different people; in the other sources that is a mistake.
    pub is_environment: bool,
    pub is_flags: bool,
}

impl Layer {
    pub fn of_flags(flags: &Flags) -> Self {
        let given = flags.given().map(|option| {
            let values = flags.values(option).to_vec();
            let origin = option.flag();
            (option.name, Given { values, origin })
        });
        Self {
            values: given.collect(),
            is_flags: true,
            ..Self::default()
        }
    }

    /// Empty variables count as unset.
    pub fn of_environment(variables: &BTreeMap<String, String>, file: Option<&Path>) -> Self {
        let mut layer = Self {
            is_environment: true,
            ..Self::default()
        };
        for option in options::all() {
            let set = |name: &&str| variables.get_key_value(*name).filter(|(_, text)| !text.is_empty());
            if let Some((variable, text)) = option.variables.iter().find_map(set) {
                let origin = match file {
                    Some(file) => format!("{variable} in {}", file.display()),
                    None => variable.clone(),
                };
                layer.set(option, text, origin);
            }
        }
        layer
    }

    pub fn set(&mut self, option: &Opt, text: impl Into<OsString>, origin: String) {
        let values = vec![text.into()];
        self.values.insert(option.name, Given { values, origin });
    }

    pub fn get(&self, option: &Opt) -> Option<&Given> {
        self.values.get(option.name)
    }

    pub fn has_secret(&self) -> bool {
        let has_login = |url: &Given| {
            url.texts()
                .any(|text| text.contains('@') || text.contains("sentinel_pass="))
        };
        let secrets = [&PASS, &SENTINEL_PASS, &TOKEN, &READ_TOKEN, &PUSH_TOKEN];
        secrets.iter().any(|secret| self.get(secret).is_some()) || self.get(&URL).is_some_and(has_login)
    }

    pub fn is_about_the_connection(&self) -> bool {
        options::all().any(|option| matches!(option.effect, Effect::Address) && self.get(option).is_some())
    }
}

/// All sources, the most specific first.
pub struct Stack(pub Vec<Layer>);

impl Stack {
    /// The most specific value, whatever else was given.
    pub fn get(&self, option: &Opt) -> Option<&Given> {
        self.0.iter().find_map(|layer| layer.get(option))
    }

    /// The value that counts: none if a more specific source has given the option that excludes this one. Both in one source
    /// are a mistake.
    pub fn deciding(&self, option: &'static Opt) -> Result<Option<&Given>, Usage> {
        let Some(rival) = option.rival() else {
            return Ok(self.get(option));
        };
        for layer in &self.0 {
            match (layer.get(option), layer.get(rival)) {
                (Some(one), Some(other)) if option.excludes.is_some() => return Err(either(one, other)),
                (Some(one), Some(other)) => return Err(either(other, one)),
                (Some(given), None) => return Ok(Some(given)),
                (None, Some(_)) => return Ok(None),
                (None, None) => {}
            }
        }
        Ok(None)
    }
}

/// Two values of one source that cannot both be meant.
pub fn either(one: &Given, other: &Given) -> Usage {
    let (one, other) = (&one.origin, &other.origin);
    Usage::new(format!("{one} and {other} exclude each other: give one of them"))
}
