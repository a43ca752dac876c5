//! What can be typed, and every mistake in it.

use super::*;
use crate::app::args::GetErrors;
use crate::app::args::options::connection::{HOST_NAME, PASS, QUEUE};
use crate::app::args::options::generating::INTERVAL;
use crate::app::args::options::handling::{ALSO_HANDLE, CONCURRENCY};
use crate::app::args::options::running::NO_WAIT;
use crate::app::args::options::sources::ENV;

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
    command().debug_assert();
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
    assert_eq!(run.flags.text(&INTERVAL), Some("0"));
    assert_eq!(run.flags.text(&CONCURRENCY), Some("5"));
}

#[test]
fn options_of_start_stand_before_or_after_the_word_and_the_later_wins() {
    let run = run("--interval 1s -c 5 --also-handle start --interval 2s --no-wait").unwrap();
    assert_eq!(run.flags.text(&INTERVAL), Some("2s"));
    assert_eq!(run.flags.text(&CONCURRENCY), Some("5"));
    assert!(run.flags.has(&ALSO_HANDLE) && run.flags.has(&NO_WAIT));
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
        assert_eq!(run.flags.text(&HOST_NAME), Some("db1"), "{line}");
        assert_eq!(run.flags.text(&QUEUE), Some("a"), "{line}");
    }
}

#[test]
fn dash_h_is_the_host_and_alone_it_says_so() {
    assert_eq!(run("-h db1").unwrap().flags.text(&HOST_NAME), Some("db1"));
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
    assert_eq!(run("--env").unwrap().flags.text(&ENV), Some(".env"));
    assert_eq!(run("--env=prod start").unwrap().flags.text(&ENV), Some("prod"));
    let bare = run("--env status").unwrap();
    assert_eq!(bare.flags.text(&ENV), Some(".env"));
    assert!(matches!(bare.command, Command::Status(_)));
}

#[test]
fn the_last_of_repeated_flags_wins() {
    assert_eq!(run("-c 1 -c 2").unwrap().flags.text(&CONCURRENCY), Some("2"));
    assert!(run("status --json --json").is_ok());
}

#[test]
fn a_password_may_begin_with_a_dash() {
    assert_eq!(run("--pass -x-").unwrap().flags.text(&PASS), Some("-x-"));
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
    assert_eq!(
        mistake("start -q"),
        "a value is required for '--queue <NAME>' but none was supplied; see queenright --help"
    );
    assert_eq!(
        mistake("completions tcsh"),
        "invalid value 'tcsh' for '<SHELL>'; write one of bash, elvish, fish, powershell, zsh; see queenright --help"
    );
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
        "completions --help",
        "man --help",
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
fn help_fits_into_80_columns_and_teaches_with_examples() {
    fn each(command: &clap::Command) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{} has no example", sub.get_name());
            for line in after.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", sub.get_name());
            }
            each(sub);
        }
    }
    each(&command());
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
