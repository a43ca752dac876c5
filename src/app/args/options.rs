//! Every option that more than one command takes, or that can be set elsewhere than on the command line: one entry each.
//!
//! An entry gives the flag, the environment variables, the key in a configuration file, the value's name, the default, the
//! help, the commands that take it, and what its text does to the configuration. All else is made from the entries:
//!
//! | made from them | where |
//! | --- | --- |
//! | what clap knows, with the help | `flags` |
//! | precedence: flag, environment, file of variables, configuration file, default | `sources` |
//! | the flag in an error of the library, which speaks of settings | [`explain`] |
//! | docs/options.md | `tests/page` |
//!
//! To add one: an entry in the file of its group, and the field that it sets in `Resolved` or `Settings`; then renew the page
//! with `QUEENRIGHT_WRITE=1 cargo test --all-features --lib options_page`.
//!
//! Flags that only one command takes (`--limit`, `--dry-run`) are fields of that command's struct, where clap's derive makes
//! one entry of each.

/// Entries as statics that code can name, and the list of them in the order of the help.
macro_rules! options {
    ($($name:ident = $entry:expr;)*) => {
        $(pub static $name: Opt = $entry.with_own_variable(&[concat!("QUEENRIGHT_", stringify!($name))]);)*
        pub(super) static ALL: &[&Opt] = &[$(&$name),*];
    };
}

/// Reads a text with a function, and sets a field of [`Resolved`] to the value.
macro_rules! set {
    ($($field:ident).+, $read:expr) => {
        |to, text| {
            to.$($field).+ = $read(text)?.into();
            Ok(())
        }
    };
}

/// An option of the command line for a setting of the library.
macro_rules! setting {
    ($name:literal, $takes:expr, $field:ident, $read:expr) => {
        Opt::text(GROUP, $name, $takes, set!(settings.$field, $read)).setting(stringify!($field))
    };
}

pub mod connection;
pub mod dashboard;
pub mod generating;
pub mod handling;
pub mod lab;
pub mod running;
pub mod sources;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::resolved::Resolved;
use crate::error::Error;

/// One option.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each says one thing about an option")]
pub struct Opt {
    /// The flag without its dashes, and the key in a configuration file.
    pub name: &'static str,
    pub short: Option<char>,
    pub group: Group,
    /// A command that takes it too, besides those of its group.
    pub also: Option<&'static str>,
    pub takes: Takes,
    /// The environment variables, the preferred one first.
    pub variables: &'static [&'static str],
    /// Has a variable of its own: QUEENRIGHT_ and its name.
    has_own_variable: bool,
    pub has_flag: bool,
    pub is_in_file: bool,
    /// The value may begin with a dash.
    pub may_begin_with_dash: bool,
    pub help: &'static str,
    pub default: Shown,
    /// The library's name for it, in [`Error::Setting`].
    pub setting: Option<&'static str>,
    /// Only one of the two may be given in one source, and the more specific source decides between them.
    pub excludes: Option<&'static Opt>,
    /// The flag that must be given with it.
    pub requires: Option<&'static str>,
    pub effect: Effect,
}

/// The options under one heading of the help.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub title: &'static str,
    pub scope: Scope,
}

impl Group {
    const fn of(title: &'static str, scope: Scope) -> Self {
        Self { title, scope }
    }
}

/// Which commands take an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All, before or after the command word.
    Every,
    /// Those that run copies.
    Start,
    /// The same, for copies that the program starts itself: not in the help.
    Hidden,
}

/// The commands that run copies; without a command word it is the first.
pub const STARTING: [&str; 4] = ["start", "demo", "verify", "bench-node"];

/// What follows the flag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value of this name.
    Value(&'static str),
    /// A value of this name after an equals sign, or nothing, which means the second.
    Maybe(&'static str, &'static str),
    /// A value of this name, or nothing, which means the second.
    Optional(&'static str, &'static str),
    /// As the first, and the flag may be repeated.
    Several(&'static str),
    /// Nothing: it is given or not.
    Nothing,
}

/// The default, as people are told it.
#[derive(Clone, Copy)]
pub enum Shown {
    Nothing,
    Words(&'static str),
    Of(fn(&Resolved) -> String),
}

/// What the option does.
#[derive(Clone, Copy)]
pub enum Effect {
    /// Its text, without white space around it, is read into the configuration; the complaint says what to write instead.
    Text(fn(&mut Resolved, &str) -> Result<(), String>),
    /// Its text is taken as it stands.
    Verbatim(fn(&mut Resolved, &str)),
    /// It names a file.
    Path(fn(&mut Resolved, PathBuf)),
    /// A part of the store's address: `sources::address` reads all parts together.
    Address,
    /// It names a file with further values: `sources` opens it before anything else is read.
    Source,
}

impl Opt {
    const fn new(group: Group, name: &'static str, takes: Takes, effect: Effect) -> Self {
        Self {
            name,
            short: None,
            group,
            also: None,
            takes,
            variables: &[],
            has_own_variable: false,
            has_flag: true,
            is_in_file: false,
            may_begin_with_dash: false,
            help: "",
            default: Shown::Nothing,
            setting: None,
            excludes: None,
            requires: None,
            effect,
        }
    }

    /// An option whose text is read into the configuration, wherever it is given.
    const fn text(
        group: Group,
        name: &'static str,
        takes: Takes,
        read: fn(&mut Resolved, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(group, name, takes, Effect::Text(read)).everywhere()
    }

    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Can be set by these variables, and in a configuration file.
    const fn env(mut self, variables: &'static [&'static str]) -> Self {
        self.variables = variables;
        self.in_file()
    }

    /// Can be set by a variable of its own, and in a configuration file.
    const fn everywhere(self) -> Self {
        self.by_variable().in_file()
    }

    const fn by_variable(mut self) -> Self {
        self.has_own_variable = true;
        self
    }

    const fn in_file(mut self) -> Self {
        self.is_in_file = true;
        self
    }

    const fn without_flag(mut self) -> Self {
        self.has_flag = false;
        self
    }

    const fn requires(mut self, flag: &'static str) -> Self {
        self.requires = Some(flag);
        self
    }

    const fn with_own_variable(mut self, variables: &'static [&'static str]) -> Self {
        if self.has_own_variable {
            self.variables = variables;
        }
        self
    }

    const fn default(mut self, default: fn(&Resolved) -> String) -> Self {
        self.default = Shown::Of(default);
        self
    }

    const fn default_words(mut self, words: &'static str) -> Self {
        self.default = Shown::Words(words);
        self
    }

    const fn setting(mut self, setting: &'static str) -> Self {
        self.setting = Some(setting);
        self
    }

    const fn excludes(mut self, other: &'static Opt) -> Self {
        self.excludes = Some(other);
        self
    }

    const fn also(mut self, command: &'static str) -> Self {
        self.also = Some(command);
        self
    }

    /// The value may begin with a dash.
    const fn with_dash(mut self) -> Self {
        self.may_begin_with_dash = true;
        self
    }

    /// The flag, as people write it.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.name)
    }

    /// Whether this command takes it. No word is `start`.
    #[must_use]
    pub fn applies_to(&self, word: Option<&str>) -> bool {
        let word = word.unwrap_or(STARTING[0]);
        self.has_flag && (self.group.scope == Scope::Every || STARTING.contains(&word) || self.also == Some(word))
    }

    /// The default as text, if there is one to tell of.
    #[must_use]
    pub fn default_text(&self) -> Option<String> {
        match self.default {
            Shown::Nothing => None,
            Shown::Words(words) => Some(words.into()),
            Shown::Of(text) => Some(text(&DEFAULTS)),
        }
    }

    /// Whether its value is a path, which need not be UTF-8.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self.effect, Effect::Path(_) | Effect::Source)
    }

    /// The option that cannot be given beside this one, in whichever entry that is said.
    #[must_use]
    pub fn rival(&'static self) -> Option<&'static Opt> {
        self.excludes
            .or_else(|| all().find(|other| other.excludes.is_some_and(|excluded| excluded == self)))
    }
}

impl PartialEq for Opt {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

static DEFAULTS: LazyLock<Resolved> = LazyLock::new(Resolved::default);

/// All options, in the order of the help.
pub fn all() -> impl Iterator<Item = &'static Opt> {
    [
        connection::ALL,
        sources::ALL,
        handling::ALL,
        generating::ALL,
        running::ALL,
        dashboard::ALL,
        lab::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Whether a variable may say where the store is, who we are there, or a password or token: commands do not inherit it.
/// Beside our own variables that is what other programs for Redis read, `REDISCLI_AUTH` for one.
#[must_use]
pub fn is_about_secrets(variable: &str) -> bool {
    let is_token = |option: &Opt| [dashboard::TOKEN, dashboard::READ_TOKEN, dashboard::PUSH_TOKEN].contains(option);
    let is_ours = |option: &Opt| matches!(option.effect, Effect::Address) || is_token(option);
    ["REDIS", "QUEENRIGHT_TOKEN"]
        .iter()
        .any(|family| variable.starts_with(family))
        || all().any(|option| is_ours(option) && option.variables.contains(&variable))
}

/// The option behind a setting of the library.
#[must_use]
pub fn of_setting(setting: &str) -> Option<&'static Opt> {
    all().find(|option| option.setting == Some(setting))
}

/// The library's error in the words of the command line: settings are flags here.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error {
        Error::Setting { setting, reason } => match of_setting(setting) {
            Some(option) if option.has_flag => format!("{}: {reason}", option.flag()),
            // Three options make this setting, and none of them has a flag.
            Some(_) => format!("key names: {reason}"),
            None => format!("{setting}: {reason}"),
        },
        Error::Full { queue, most } => format!(
            "queue {queue:?} has no room: at most {most} messages may wait; push again later, or raise {}",
            generating::MAX_BACKLOG.flag()
        ),
        Error::OtherShards { queue, recorded, .. } => format!(
            "queue {queue:?} has {recorded} shards: give {} {recorded}, and the same URLs in the same order as the other copies",
            connection::SHARDS.flag()
        ),
        _ => error.to_string(),
    }
}

/// A duration as people write it.
fn time(duration: Duration) -> String {
    if duration.is_zero() {
        return "0".into();
    }
    humantime::format_duration(duration).to_string()
}
