//! From the table of options to what clap knows, and back: what was given on the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::options::{self, Opt, Scope, Takes};

/// The options that were given on the command line, as they were written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Flags {
    values: BTreeMap<&'static str, Vec<OsString>>,
}

/// Shows only which options there are, since a password may be inside.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Flags {
    #[must_use]
    pub fn has(&self, option: &Opt) -> bool {
        self.values.contains_key(option.name)
    }

    /// All values of an option: none if it was not given, and more than one only of those that may be repeated.
    #[must_use]
    pub fn values(&self, option: &Opt) -> &[OsString] {
        self.values.get(option.name).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn text(&self, option: &Opt) -> Option<&str> {
        self.values(option).last().and_then(|value| value.to_str())
    }

    #[must_use]
    pub fn path(&self, option: &Opt) -> Option<&Path> {
        self.values(option).last().map(Path::new)
    }

    pub fn set(&mut self, option: &Opt, value: impl Into<OsString>) {
        self.values.insert(option.name, vec![value.into()]);
    }

    /// Of an option that may be repeated.
    pub fn set_all(&mut self, option: &Opt, values: impl IntoIterator<Item = impl Into<OsString>>) {
        self.values
            .insert(option.name, values.into_iter().map(Into::into).collect());
    }

    /// The options that were given, in the order of the table.
    pub fn given(&self) -> impl Iterator<Item = &'static Opt> {
        options::all().filter(|option| self.has(option))
    }

    /// These, and what only `before` (the part in front of the command word) has.
    pub(super) fn over(mut self, before: &Self) -> Self {
        for option in before.given() {
            let mut earlier = before.values(option).to_vec();
            let values = self.values.entry(option.name).or_default();
            if values.is_empty() || matches!(option.takes, Takes::Several(_)) {
                earlier.append(values);
                *values = earlier;
            }
        }
        self
    }

    /// The same as arguments for a copy of this program, as far as `passed_on` wants them.
    pub fn arguments(&self, passed_on: impl Fn(&Opt) -> bool) -> Vec<OsString> {
        let mut arguments = Vec::new();
        for option in self.given().filter(|option| passed_on(option)) {
            for value in self.values(option) {
                let mut argument = OsString::from(option.flag());
                if option.takes != Takes::Nothing {
                    argument.push("=");
                    argument.push(value);
                }
                arguments.push(argument);
            }
        }
        arguments
    }

    /// What clap has found of the options that this command takes.
    pub(super) fn of(matches: &ArgMatches, word: Option<&str>) -> Self {
        let mut flags = Self::default();
        for option in taken_by(word) {
            // Those of every command have been found in front of the word, wherever they stand.
            if word.is_none() || option.group.scope != Scope::Every {
                let values = values(matches, option);
                if !values.is_empty() {
                    flags.values.insert(option.name, values);
                }
            }
        }
        flags
    }
}

fn values(matches: &ArgMatches, option: &Opt) -> Vec<OsString> {
    match option.takes {
        Takes::Nothing => Vec::from_iter(matches.get_flag(option.name).then(|| "true".into())),
        _ => matches
            .get_raw(option.name)
            .unwrap_or_default()
            .map(OsString::from)
            .collect(),
    }
}

/// Tells clap of every option, at each command that takes it.
pub(super) fn add_to(command: Command) -> Command {
    let words: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_string())
        .collect();
    let arguments: Vec<(&Opt, Arg)> = taken_by(None).map(|option| (option, argument(option))).collect();
    let mut command = command.args(arguments.iter().map(|(_, argument)| argument));
    for word in &words {
        // Those of every command are global: clap gives them to all by itself.
        let own = |option: &Opt| option.group.scope != Scope::Every && option.applies_to(Some(word));
        let own = arguments.iter().filter(|(option, _)| own(option));
        command = command.mut_subcommand(word, |sub| sub.args(own.map(|(_, argument)| argument)));
    }
    command
}

fn taken_by(word: Option<&str>) -> impl Iterator<Item = &'static Opt> {
    options::all().filter(move |option| option.applies_to(word))
}

fn argument(option: &'static Opt) -> Arg {
    let (value, action) = match option.takes {
        Takes::Nothing => (None, ArgAction::SetTrue),
        Takes::Value(name) | Takes::Maybe(name, _) | Takes::Optional(name, _) => (Some(name), ArgAction::Set),
        Takes::Several(name) => (Some(name), ArgAction::Append),
    };
    let mut argument = Arg::new(option.name)
        .long(option.name)
        .short(option.short)
        .value_name(value)
        .action(action)
        .help(help(option))
        .help_heading(option.group.title)
        .hide(option.group.scope == Scope::Hidden)
        .global(option.group.scope == Scope::Every)
        .allow_hyphen_values(option.may_begin_with_dash)
        // "-1" is a wrong value, and no flag.
        .allow_negative_numbers(value.is_some() && !option.may_begin_with_dash);
    if let Takes::Maybe(_, missing) | Takes::Optional(_, missing) = option.takes {
        argument = argument
            .num_args(0..=1)
            .require_equals(matches!(option.takes, Takes::Maybe(..)))
            .default_missing_value(missing);
    }
    if let Some(flag) = option.requires {
        argument = argument.requires(flag);
    }
    if option.is_path() {
        argument = argument.value_parser(OsStringValueParser::new());
    }
    argument
}

/// The room for a text in a terminal of 80 columns, beside the widest flags.
const TEXT_COLUMNS: usize = 55;

/// What the option is for, where else it can be set, and what holds if it is not: on a line of its own where it would wrap.
fn help(option: &Opt) -> String {
    let variables = (!option.variables.is_empty()).then(|| format!("[env: {}]", option.variables.join(", ")));
    let default = option.default_text().map(|default| format!("[default: {default}]"));
    let around: Vec<String> = variables.into_iter().chain(default).collect();
    if around.is_empty() {
        return option.help.into();
    }
    let around = around.join(" ");
    let fits = option.help.len() + 1 + around.len() <= TEXT_COLUMNS;
    format!("{}{}{around}", option.help, if fits { ' ' } else { '\n' })
}
