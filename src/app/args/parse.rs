//! From arguments to an [`Invocation`], or to one line that says what is wrong.

use std::ffi::OsString;
use std::fmt;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use super::{Cli, Command, Flags, flags};
use crate::node::event::escape;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub command: Command,
    /// The options of the table that were given.
    pub flags: Flags,
}

/// Why there is nothing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Help or version: print it as it is to stdout, and exit with 0.
    Show(String),
    /// Print it to stderr, and exit with 2.
    Usage(Usage),
}

/// A mistake of whoever started the program: one line that says what to do. Safe to print on any terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage(String);

impl Usage {
    pub fn new(line: impl AsRef<str>) -> Self {
        Self(escape(line.as_ref().as_bytes()).into_owned())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Reads the arguments, of which the first is the program's name.
pub fn parse<I, T>(arguments: I) -> Result<Invocation, Stop>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(arguments);
    let matches = matches.map_err(|error| stop(&error))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| stop(&error))?;
    let mut flags = Flags::of(&matches, None);
    if let Some((word, after)) = matches.subcommand() {
        if let Some(option) = flags.given().find(|option| !option.applies_to(Some(word))) {
            let flag = option.flag();
            let line = format!("{flag} is an option of start, not of {word}; see queenright {word} --help");
            return Err(Stop::Usage(Usage::new(line)));
        }
        flags = Flags::of(after, Some(word)).over(&flags);
    }
    Ok(Invocation {
        command: cli.command.unwrap_or(Command::Start),
        flags,
    })
}

static COMMAND: LazyLock<clap::Command> = LazyLock::new(|| flags::add_to(with_negative_numbers(Cli::command())));

/// A number below zero is a wrong value of its flag, and no flag that is not known.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| {
        let takes = argument.get_action().takes_values() && !argument.is_positional();
        argument.allow_negative_numbers(takes)
    });
    command.mut_subcommands(with_negative_numbers)
}

/// All commands and all their flags.
pub(super) fn command() -> clap::Command {
    COMMAND.clone()
}

/// Reduces clap's paragraph to its first line, and a hint.
fn stop(error: &clap::Error) -> Stop {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Stop::Show(error.to_string());
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // The only command that is several.
        let line = "errors needs one of list, show, requeue, delete, export and count; see queenright errors --help";
        return Stop::Usage(Usage::new(line));
    }
    let rendered = error.to_string();
    let line = rendered.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let line = line.strip_suffix(" found").unwrap_or(line);
    let better = missing(error).or_else(|| no_number(error)).or_else(|| elsewhere(error));
    let line = better.as_deref().unwrap_or(line);
    // An address in the place of a command may hold a password, so it is not repeated.
    if line.contains("://") || line.contains("unix:") {
        return Stop::Usage(Usage::new("unexpected argument; give the address of Redis with --url"));
    }
    if elsewhere(error).is_some() {
        return Stop::Usage(Usage::new(line));
    }
    let similar = similar(error);
    let values = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if similar.is_none() => values.as_slice(),
        _ => &[],
    };
    let hint = if line.contains("'--host <HOST>'") {
        "-h is the host, help is queenright --help".to_string()
    } else if !values.is_empty() {
        format!("write one of {}; see queenright --help", values.join(", "))
    } else if let Some(similar) = similar {
        format!("did you mean {similar}? See queenright --help")
    } else {
        "see queenright --help".to_string()
    };
    Stop::Usage(Usage::new(format!("{line}; {hint}")))
}

/// What a flag of another command serves here.
const INSTEAD: [(&str, &str); 1] = [("listen", "; a copy serves the dashboard with --dashboard HOST:PORT")];

/// A flag that only other commands have.
fn elsewhere(error: &clap::Error) -> Option<String> {
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let name = flag
        .strip_prefix("--")
        .filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let whole = command();
    let has = |command: &clap::Command| {
        command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(name))
    };
    let mut words: Vec<String> = Vec::new();
    for sub in whole.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        if has(sub) {
            words.push(sub.get_name().into());
        }
        let inner = sub.get_subcommands().filter(|inner| has(inner));
        words.extend(inner.map(|inner| format!("{} {}", sub.get_name(), inner.get_name())));
    }
    let first = words.first()?;
    let instead = INSTEAD
        .iter()
        .find(|(flag, _)| *flag == name)
        .map_or("", |(_, text)| text);
    Some(format!(
        "--{name} is an option of {}, not of this command; see queenright {first} --help{instead}",
        words.join(", ")
    ))
}

/// clap says of numbers what Rust says of them.
fn no_number(error: &clap::Error) -> Option<String> {
    let (ContextValue::String(argument), ContextValue::String(value)) = (
        error.get(ContextKind::InvalidArg)?,
        error.get(ContextKind::InvalidValue)?,
    ) else {
        return None;
    };
    let name = argument
        .split(" <")
        .next()
        .unwrap_or(argument)
        .trim_matches(['<', '>', '.']);
    let text = error.to_string();
    let why = if text.contains("invalid digit") || text.contains("cannot parse integer") || value.starts_with('-') {
        "is no whole number: write digits only".to_string()
    } else if let Some((_, range)) = text.split_once(" is not in ") {
        let (low, high) = range.split_whitespace().next()?.split_once("..")?;
        match high.strip_prefix('=') {
            Some(high) if high.len() < 10 => format!("is out of range: it must be {low} to {high}"),
            _ => format!("is too small: write at least {low}"),
        }
    } else if text.contains("too large to fit") {
        "is too large".to_string()
    } else {
        return None;
    };
    Some(format!("{name}: '{value}' {why}"))
}

/// clap names what is missing on lines of their own.
fn missing(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(names) if error.kind() == ErrorKind::MissingRequiredArgument => {
            Some(format!("{} must be given too", names.join(" and ")))
        }
        _ => None,
    }
}

fn similar(error: &clap::Error) -> Option<String> {
    let suggested = error
        .get(ContextKind::SuggestedArg)
        .or_else(|| error.get(ContextKind::SuggestedSubcommand))?;
    match suggested {
        ContextValue::String(name) => Some(name.clone()),
        // The most similar comes last.
        ContextValue::Strings(names) => names.last().cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
