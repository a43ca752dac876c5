//! docs/options.md: the table for people.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use super::super::{Opt, Scope, Takes, all};
use crate::app::args::parse::command;

const INTRODUCTION: &str = "\
# Options

<!-- Made from src/app/args/options by `QUEENRIGHT_WRITE=1 cargo test --all-features --lib options_page`. -->

Where a value comes from, the first that has one:

1. the flag
2. the environment variable
3. the same variable in a file of variables (`--env`, `--env=FILE`)
4. the key in a configuration file (`--config FILE`, `QUEENRIGHT_CONFIG`)
5. the default

The address of the store wins as a whole: `--host` beats `REDIS_URL`, with the password in it. `REDIS_USER`, `REDIS_PASS` and
`REDIS_DB` then still apply to `--host`. When nothing names a Redis, a `config.txt` beside the executable is read: five lines,
which are host:port, queue, error store, notification channel and election channel.

A configuration file is TOML (`lease = '5s'`, `concurrency = 8`, `also-handle = true`; `keys.errors` stands under `[keys]`), or
has these five lines. Durations have a unit: `500ms`, `2s`, `1m`; only `0` needs none. In the environment and in files, switches
are `true` or `false`.
";

/// The page, whole.
pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_string();
    let mut title = "";
    for option in all().filter(|option| option.group.scope != Scope::Hidden) {
        if option.group.title != title {
            title = option.group.title;
            let takers = match option.group.scope {
                Scope::Every => "Every command takes these, before or after the command word.",
                Scope::Start | Scope::Hidden => "`start`, `demo` and `verify` take these.",
            };
            let _ = write!(page, "\n## {title}\n\n{takers}\n\n");
            page.push_str("| flag | environment | key in the file | default | what it does |\n");
            page.push_str("| --- | --- | --- | --- | --- |\n");
        }
        page.push_str(&row(option));
    }
    page.push_str("\n## Flags of single commands\n\nThese are flags only.\n");
    commands(&command(), "", &mut page);
    page
}

fn row(option: &Opt) -> String {
    let mut flag = String::new();
    if option.has_flag {
        let value = match option.takes {
            Takes::Nothing => String::new(),
            Takes::Value(name) | Takes::Several(name) => format!(" {name}"),
            Takes::Maybe(name, _) => format!("[={name}]"),
            Takes::Optional(name, _) => format!(" [{name}]"),
        };
        let short = option.short.map_or(String::new(), |short| format!("`-{short}`, "));
        flag = format!("{short}`{}{value}`", option.flag());
    }
    let variables: Vec<String> = option.variables.iter().map(|name| format!("`{name}`")).collect();
    let key = if option.is_in_file {
        format!("`{}`", option.name)
    } else {
        String::new()
    };
    let default = option.default_text().unwrap_or_default();
    let also = option.also.map_or(String::new(), |word| format!(" (also of `{word}`)"));
    let cells = [
        flag,
        variables.join(", "),
        key,
        default,
        format!("{}{also}", option.help),
    ];
    line(&cells)
}

fn line(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The flags and arguments of each command that are no options of the table.
fn commands(command: &Command, before: &str, page: &mut String) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let word = format!("{before}{}", sub.get_name());
        let own: Vec<&Arg> = sub.get_arguments().filter(|argument| is_own(argument, &word)).collect();
        if !own.is_empty() {
            let _ = write!(
                page,
                "\n### {word}\n\n| flag | default | what it does |\n| --- | --- | --- |\n"
            );
            for argument in own {
                page.push_str(&own_row(argument));
            }
        }
        commands(sub, &format!("{word} "), page);
    }
}

/// Whether an argument of this command is no option of the table. `drain` has a --timeout of its own.
pub(super) fn is_own(argument: &Arg, word: &str) -> bool {
    let name = argument.get_id().as_str();
    name != "help" && name != "version" && !all().any(|option| option.name == name && option.applies_to(Some(word)))
}

fn own_row(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let value = names.first().map_or(String::new(), ToString::to_string);
    let flag = match (argument.get_long(), argument.get_action()) {
        (None, _) => value,
        (Some(long), ArgAction::SetTrue) => format!("--{long}"),
        (Some(long), _) => format!("--{long} {value}"),
    };
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| argument.get_action().takes_values())
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let help = argument.get_help().map_or(String::new(), ToString::to_string);
    let cells = [format!("`{flag}`"), defaults.join(", "), help];
    line(&cells)
}
