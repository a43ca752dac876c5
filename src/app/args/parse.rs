//! From arguments to an [`Invocation`], or to one line that says what is wrong.

use std::ffi::OsString;
use std::fmt;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{
    Bench, BenchHot, BenchNode, Cli, Dashboard, Demo, Doctor, GetErrors, Manage, SharedFlags, StartFlags, Status,
    Verify, Word,
};
use crate::node::event::escape;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub command: Command,
    pub shared: SharedFlags,
    /// Empty unless the command starts copies.
    pub start: StartFlags,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Start,
    GetErrors(GetErrors),
    Status(Status),
    Doctor(Doctor),
    Demo(Box<Demo>),
    Verify(Box<Verify>),
    Bench(Box<Bench>),
    BenchNode(Box<BenchNode>),
    BenchHot(BenchHot),
    Dashboard(Box<Dashboard>),
    Manage(Manage),
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
    let cli = Cli::try_parse_from(arguments).map_err(|error| stop(&error))?;
    let mut start = cli.start;
    let (command, word) = match cli.command {
        None => (Command::Start, None),
        Some(Word::Start(after)) => {
            start = after.over(start);
            (Command::Start, None)
        }
        Some(Word::Demo(mut flags)) => {
            start = std::mem::take(&mut flags.start).over(start);
            (Command::Demo(flags), None)
        }
        Some(Word::Verify(mut flags)) => {
            start = std::mem::take(&mut flags.start).over(start);
            (Command::Verify(flags), None)
        }
        Some(Word::BenchNode(mut flags)) => {
            start = std::mem::take(&mut flags.start).over(start);
            (Command::BenchNode(flags), None)
        }
        Some(Word::Bench(flags)) => (Command::Bench(flags), Some("bench")),
        Some(Word::BenchHot(flags)) => (Command::BenchHot(flags), Some("bench-hot")),
        Some(Word::GetErrors(flags)) => (Command::GetErrors(flags), Some("get-errors")),
        Some(Word::Status(flags)) => (Command::Status(flags), Some("status")),
        Some(Word::Doctor(flags)) => (Command::Doctor(flags), Some("doctor")),
        Some(Word::Dashboard(mut flags)) => {
            // Its own options may stand before the word as well.
            flags.serving = std::mem::take(&mut flags.serving).over(std::mem::take(&mut start.serving));
            (Command::Dashboard(flags), Some("dashboard"))
        }
        Some(Word::Manage(manage)) => {
            let word = manage.word();
            (Command::Manage(manage), Some(word))
        }
    };
    if let Some(word) = word
        && let Some(name) = given(&start)
    {
        let line = format!("--{name} is an option of start, not of {word}; see queenright {word} --help");
        return Err(Stop::Usage(Usage::new(line)));
    }
    Ok(Invocation {
        command,
        shared: cli.shared,
        start,
    })
}

/// An option of start that was given, if any was.
fn given(start: &StartFlags) -> Option<&'static str> {
    let values = start.values();
    let with = values.iter().find(|(_, value)| value.is_some());
    with.map(|(name, _)| *name).or_else(|| start.serving.given())
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
    let missing = missing(error);
    let line = missing.as_deref().unwrap_or(line);
    // An address in the place of a command may hold a password, so it is not repeated.
    if line.contains("://") || line.contains("unix:") {
        return Stop::Usage(Usage::new("unexpected argument; give the address of Redis with --url"));
    }
    let hint = if line.contains("'--host <HOST>'") {
        "-h is the host, help is queenright --help".to_string()
    } else if let Some(similar) = similar(error) {
        format!("did you mean {similar}? See queenright --help")
    } else {
        "see queenright --help".to_string()
    };
    Stop::Usage(Usage::new(format!("{line}; {hint}")))
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
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Invocation, Stop> {
        parse(std::iter::once("queenright").chain(line.split_whitespace()))
    }

    fn mistake(line: &str) -> String {
        match run(line) {
            Err(Stop::Usage(usage)) => usage.to_string(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definitions_are_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn errors_alone_says_what_it_needs() {
        assert!(mistake("errors").contains("list, show, requeue"));
    }

    #[test]
    fn a_bare_call_is_start() {
        assert_eq!(run("").unwrap().command, Command::Start);
        let run = run("--interval 0 -c 5").unwrap();
        assert_eq!(run.command, Command::Start);
        assert_eq!(run.start.interval.as_deref(), Some("0"));
        assert_eq!(run.start.concurrency.as_deref(), Some("5"));
    }

    #[test]
    fn options_of_start_stand_before_or_after_the_word_and_the_later_wins() {
        let run = run("--interval 1s -c 5 --also-handle start --interval 2s --no-wait").unwrap();
        assert_eq!(run.start.interval.as_deref(), Some("2s"));
        assert_eq!(run.start.concurrency.as_deref(), Some("5"));
        assert!(run.start.also_handle && run.start.no_wait);
    }

    #[test]
    fn connection_options_stand_before_or_after_any_word() {
        for line in [
            "-h db1 -q a status",
            "status -h db1 -q a",
            "-h db1 get-errors -q a",
            "start -q a --host db1",
        ] {
            let run = run(line).unwrap();
            assert_eq!(run.shared.host.as_deref(), Some("db1"), "{line}");
            assert_eq!(run.shared.queue.as_deref(), Some("a"), "{line}");
        }
    }

    #[test]
    fn dash_h_is_the_host_and_alone_it_says_so() {
        assert_eq!(run("-h db1").unwrap().shared.host.as_deref(), Some("db1"));
        assert!(mistake("-h").contains("help is queenright --help"), "{}", mistake("-h"));
    }

    #[test]
    fn get_errors_has_its_old_spellings() {
        for word in ["get-errors", "getErrors", "getError"] {
            let run = run(&format!("{word} --limit 100 --keep --json")).unwrap();
            let wanted = GetErrors {
                limit: Some(100),
                keep: true,
                json: true,
            };
            assert_eq!(run.command, Command::GetErrors(wanted), "{word}");
        }
    }

    #[test]
    fn env_takes_its_file_only_after_an_equals_sign() {
        assert_eq!(run("--env").unwrap().shared.env.unwrap().to_str(), Some(".env"));
        assert_eq!(
            run("--env=prod start").unwrap().shared.env.unwrap().to_str(),
            Some("prod")
        );
        let bare = run("--env status").unwrap();
        assert_eq!(bare.shared.env.unwrap().to_str(), Some(".env"));
        assert!(matches!(bare.command, Command::Status(_)));
    }

    #[test]
    fn the_last_of_repeated_flags_wins() {
        assert_eq!(run("-c 1 -c 2").unwrap().start.concurrency.as_deref(), Some("2"));
        assert!(run("status --json --json").is_ok());
    }

    #[test]
    fn a_password_may_begin_with_a_dash() {
        assert_eq!(run("--pass -x-").unwrap().shared.pass.as_deref(), Some("-x-"));
    }

    #[test]
    fn every_mistake_is_one_line() {
        for line in [
            "--foo",
            "nonsense",
            "get-errors --limit x",
            "get-errors --limit 0",
            "--port",
            "--quiet=1",
            "verify --seed 1",
            "-x",
        ] {
            let said = mistake(line);
            assert!(!said.contains('\n') && !said.is_empty(), "{line}: {said}");
            assert!(said.contains("queenright --help"), "{line}: {said}");
        }
        assert_eq!(mistake("--foo"), "unexpected argument '--foo'; see queenright --help");
        assert!(mistake("--intervall 1s").contains("did you mean --interval?"));
        assert!(mistake("statuss").contains("did you mean status?"));
    }

    #[test]
    fn options_of_start_are_refused_elsewhere() {
        assert!(mistake("--interval 0 status").starts_with("--interval is an option of start"));
        assert!(mistake("status --interval 0").contains("--interval"));
    }

    #[test]
    fn an_address_in_the_wrong_place_is_not_repeated() {
        for line in [
            "redis://:secret@db1",
            "start redis://:secret@db1",
            "unix:/s?pass=secret",
        ] {
            let said = mistake(line);
            assert!(!said.contains("secret") && said.contains("--url"), "{said}");
        }
    }

    #[test]
    fn help_and_version_are_shown_for_every_command() {
        for line in [
            "--help",
            "help",
            "help start",
            "start --help",
            "get-errors --help",
            "status --help",
            "demo --help",
            "verify --help",
            "bench --help",
            "push --help",
            "errors --help",
            "errors requeue --help",
            "pause --help",
            "resume --help",
            "handover --help",
            "nodes --help",
            "drain --help",
            "purge --help",
            "dashboard --help",
            "--version",
            "-V",
        ] {
            assert!(matches!(run(line), Err(Stop::Show(_))), "{line}");
        }
        let Err(Stop::Show(help)) = run("--help") else { panic!() };
        for word in [
            "REDIS_URL",
            "QUEENRIGHT_MAX_BACKLOG",
            "getErrors",
            "69",
            "--host beats REDIS_URL",
            "500ms",
        ] {
            assert!(help.contains(word), "{word}");
        }
    }

    #[test]
    fn arguments_that_are_no_text_do_not_panic() {
        use std::os::unix::ffi::OsStringExt;
        let bad = OsString::from_vec(vec![0xff, 0xfe]);
        let wrong = parse([OsString::from("queenright"), OsString::from("--queue"), bad]);
        assert!(matches!(wrong, Err(Stop::Usage(_))));
    }

    #[test]
    fn no_password_shows_in_debug_output() {
        let run = run("--pass secret --url redis://:secret@h").unwrap();
        assert!(!format!("{run:?}").contains("secret"));
    }
}
