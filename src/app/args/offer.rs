//! What a half-typed line wants next: the name of a queue, of a node, or neither.

use clap::Args;

use super::options::Scope;
use super::parse::command;
use super::{Command, Flags, Handover, Invocation, Manage, Queues, parse};

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Offer {
    /// The words after the program's name, up to the one to be completed
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Queue,
    Node,
}

impl Offer {
    /// Which names belong here, how they begin, and a command that finds the store which the line names.
    #[must_use]
    pub fn wanted(&self) -> Option<(Name, &str, Invocation)> {
        let (last, before) = self.words.split_last()?;
        if let Some(begin) = last.strip_prefix("--queue=") {
            return Some((Name::Queue, begin, at_store(before)));
        }
        if let Some((flag, before)) = before.split_last()
            && matches!(flag.as_str(), "-q" | "--queue")
        {
            return Some((Name::Queue, last, at_store(before)));
        }
        let asked = parse(named(before)).ok()?.command;
        let no_node = matches!(asked, Command::Manage(Manage::Handover(Handover { node: None, .. })));
        (no_node && !last.starts_with('-')).then(|| (Name::Node, last.as_str(), at_store(before)))
    }
}

fn named(words: &[String]) -> impl Iterator<Item = &str> {
    ["queenright"].into_iter().chain(words.iter().map(String::as_str))
}

/// Much may be missing on a line that is not finished: of all that is there, only the store and the queue matter.
fn at_store(words: &[String]) -> Invocation {
    let mut flags = Flags::default();
    if let Ok(matches) = command().ignore_errors(true).try_get_matches_from(named(words)) {
        let given = Flags::of(&matches, None);
        for option in given.given().filter(|option| option.group.scope == Scope::Every) {
            if let Some(value) = given.values(option).last() {
                flags.set(option, value);
            }
        }
    }
    Invocation {
        command: Command::Queues(Queues { json: false }),
        flags,
    }
}
