//! `completions`: what a shell needs to complete commands, flags, choices and paths.
//!
//! bash, zsh and fish ask the program itself for the names of queues and nodes (`offer`), where the line wants one.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, ValueHint};
use clap_complete::Shell;

use super::options::{self, Takes};
use super::parse::command;

pub(super) const AFTER: &str = "\
Packages install these; after `cargo install`, do it yourself.

Examples:
  source <(queenright completions bash)      in ~/.bashrc, or in this shell only
  queenright completions zsh > ~/.zfunc/_queenright
  queenright completions fish > ~/.config/fish/completions/queenright.fish";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// What the shell is to read.
    #[must_use]
    pub fn script(self) -> String {
        let mut command = shown(&command()).version(env!("CARGO_PKG_VERSION"));
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "queenright", &mut script);
        let script = String::from_utf8(script).expect("clap_complete writes text");
        match self.shell {
            Shell::Bash => script.replace("complete -F _queenright ", "complete -F _queenright_or_name ") + BASH,
            Shell::Zsh => in_zsh(&script),
            Shell::Fish => script + FISH,
            _ => script,
        }
    }
}

/// Words are split at blanks, since bash itself splits them at colons too, which are in every URL. Nothing typed is run.
const BASH: &str = r#"
_queenright_or_name() {
    local words names typed="${COMP_LINE:0:COMP_POINT}"
    read -r -a words <<<"${typed//[\'\"\\]/}"
    [[ "${typed}" == *[[:space:]] ]] && words+=("")
    if names="$(command queenright offer -- "${words[@]:1}" 2>/dev/null </dev/null)"; then
        compopt +o default +o bashdefault 2>/dev/null
        local IFS=$'\n'
        COMPREPLY=(${names})
    else
        _queenright "$@"
    fi
}
"#;

const ZSH: &str = r#"
_queenright_name() {
    local -a names
    names=(${(f)"$(command queenright offer -- "${(@Q)queenright_words}" 2>/dev/null </dev/null)"})
    compadd -a names
}

_queenright() {
    local -a queenright_words=("${(@)words[2,CURRENT]}")
"#;

const FISH: &str = r"
function __queenright_name
    set -l words (commandline -opc) (commandline -ct)
    command queenright offer -- $words[2..] 2>/dev/null </dev/null
end
complete -c queenright -s q -l queue -x -a '(__queenright_name)'
complete -c queenright -n '__fish_queenright_using_subcommand handover' -f -a '(__queenright_name)'
";

/// zsh lets each argument name what completes it. By then the words before the command are gone, so they are kept.
fn in_zsh(script: &str) -> String {
    let script = script.replacen("\n_queenright() {\n", ZSH, 1);
    let named = |line: &str| {
        let names = ["'-q+[", "'--queue=[", "'::node -- "]
            .iter()
            .any(|begin| line.starts_with(begin));
        line.replacen(":_default'", if names { ":_queenright_name'" } else { ":_default'" }, 1) + "\n"
    };
    script.lines().map(named).collect()
}

/// The same command without what is hidden, which shells would offer, and with what they can be told of values: only for
/// them, since values stay text until `sources` reads them. `help COMMAND` would be all commands once more.
fn shown(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    Command::new(command.get_name().to_string())
        .about(command.get_about().cloned().unwrap_or_default())
        .visible_aliases(command.get_visible_aliases().map(String::from))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args(arguments.cloned().map(hint))
        .subcommands(subcommands.map(shown))
}

fn hint(argument: Arg) -> Arg {
    if let Some(choices) = choices(argument.get_id().as_str()) {
        return argument.value_parser(PossibleValuesParser::new(choices));
    }
    let names = argument.get_value_names().unwrap_or_default();
    let hint = match names.first().map(AsRef::as_ref) {
        // clap_complete writes it into the quotes of zsh as it is.
        Some(name) if name.contains('\'') => {
            let name = name.replace('\'', "");
            return argument.value_name(name);
        }
        Some("FILE") => ValueHint::FilePath,
        Some("DIR") => ValueHint::DirPath,
        Some("HOST") => ValueHint::Hostname,
        Some("COMMAND" | "COMMAND|URL") => ValueHint::CommandString,
        _ => return argument,
    };
    argument.value_hint(hint)
}

/// The words among what an option of the table takes: `text|json`, but not `COMMAND`.
fn choices(name: &str) -> Option<Vec<&'static str>> {
    let option = options::all().find(|option| option.name == name)?;
    let (Takes::Value(value) | Takes::Maybe(value, _) | Takes::Several(value)) = option.takes else {
        return None;
    };
    let is_word = |word: &&str| word.bytes().all(|letter| letter.is_ascii_lowercase());
    let words: Vec<&str> = value.split('|').filter(is_word).collect();
    (!words.is_empty()).then_some(words)
}
