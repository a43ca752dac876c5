//! What values mean, alone and together.

use super::*;
use crate::settings::Prefer;

#[test]
fn bad_values_are_named_by_their_place() {
    for (line, start) in [
        ("--interval 500", "--interval: 500 needs a unit"),
        ("--work 1s..0", "--work: "),
        ("--error-rate 15%", "--error-rate: "),
        ("-c 0", "--concurrency: must be 1 to 100000"),
        ("-c many", "--concurrency: "),
        ("--batch 0", "--batch: "),
        ("--lease 1ms", "--lease: must be"),
        ("--max-deliveries 70000", "--max-deliveries: must be 1 to 1000"),
        ("--generate 'foo", "--generate: a quote is not closed"),
        ("--generate=", "--generate: names no program"),
        (
            "--generate a --generate-each b",
            "--generate and --generate-each exclude",
        ),
        (
            "--generate-json",
            "--generate-json: this is about what a command prints",
        ),
        ("--cron x", "--cron: 'x' is no cron pattern"),
        ("--tz UTC", "--tz: this needs --cron"),
        ("--missed never", "--missed: 'never' is not known: write once or skip"),
        ("--log xml", "--log: "),
        ("--port 0", "--port: "),
        ("--db x", "--db: "),
        ("--queue {a}", "--queue: "),
        ("--queue=", "--queue: "),
        ("--host=", "--host: "),
    ] {
        let said = case(line).line();
        assert!(said.starts_with(start), "{line}: {said}");
    }
    let said = case("").env("QUEENRIGHT_LEASE", "1ms").line();
    assert!(said.starts_with("QUEENRIGHT_LEASE: must be"), "{said}");
    let said = case("--env=prod").file("prod", "QUEENRIGHT_INTERVAL=5").line();
    assert!(
        said.starts_with("QUEENRIGHT_INTERVAL in prod: 5 needs a unit"),
        "{said}"
    );
}

#[test]
fn one_source_says_who_handles_and_a_more_specific_one_wins() {
    let program = |text| Program::parse(text).unwrap();
    let both = case("--handle-each b").env("QUEENRIGHT_HANDLE", "a").good();
    assert_eq!(both.handle, Handling::Each(program("b")));
    let toml = case("--config c").file("c", "handle-each = \"sh -c 'x y'\"").good();
    assert_eq!(toml.handle, Handling::Each(program("sh -c 'x y'")));
    let said = case("")
        .env("QUEENRIGHT_HANDLE", "a")
        .env("QUEENRIGHT_HANDLE_EACH", "b")
        .line();
    assert!(
        said.starts_with("QUEENRIGHT_HANDLE and QUEENRIGHT_HANDLE_EACH exclude"),
        "{said}"
    );
    let said = case("").env("QUEENRIGHT_HANDLE", "'x").line();
    assert!(said.starts_with("QUEENRIGHT_HANDLE: a quote"), "{said}");
}

#[test]
fn lines_come_as_they_come_unless_an_interval_is_asked_for() {
    let interval = |line| case(line).good().settings.interval;
    assert_eq!(interval("--generate seq"), Duration::ZERO);
    assert_eq!(interval("--generate -"), Duration::ZERO);
    assert_eq!(interval("--generate seq --interval 1s"), Duration::from_secs(1));
    assert_eq!(interval("--generate text"), Duration::from_millis(500));
    assert_eq!(interval("--generate-each date"), Duration::from_millis(500));
}

#[test]
fn a_schedule_takes_the_place_of_an_interval() {
    let scheduled = case("--tz Europe/Berlin --missed skip")
        .env("QUEENRIGHT_CRON", "0 3 * * *")
        .good();
    let (cron, missed) = scheduled.cron.expect("a schedule");
    assert_eq!(cron, Cron::new("0 3 * * *", "Europe/Berlin").unwrap());
    assert_eq!(missed, Missed::Skip);
    assert_eq!(scheduled.settings.interval, Duration::ZERO);
    assert_eq!(scheduled.generate, Generating::Builtin(Builtin::Tick));
    let paced = case("--interval 1s").env("QUEENRIGHT_CRON", "0 3 * * *").good();
    assert!(paced.cron.is_none(), "the more specific one wins");
    let said = case("--config c")
        .file("c", "cron = '0 3 * * *'\ninterval = '1s'")
        .line();
    assert!(said.starts_with("c: cron and c: interval exclude each other"), "{said}");
    let said = case("")
        .env("QUEENRIGHT_CRON", "0 3 * * *")
        .env("QUEENRIGHT_TZ", "Mars")
        .line();
    assert!(said.starts_with("QUEENRIGHT_TZ: 'Mars' is no time zone"), "{said}");
}

#[test]
fn a_handler_of_ones_own_generates_only_if_it_is_told_to() {
    let of = |line: &'static str| {
        let resolved = case(line).good();
        (resolved.settings.prefer, resolved.only_handles)
    };
    assert_eq!(of(""), (Prefer::Either, false));
    for handler in ["--handle a", "--handle-each a", "--handle http://a/"] {
        assert_eq!(of(handler), (Prefer::Never, true), "{handler}");
        for more in [
            "--generate text",
            "--generate-each date",
            "--interval 1s",
            "--messages 5",
            "--prefer either",
        ] {
            assert_eq!(
                of(format!("{handler} {more}").leak()),
                (Prefer::Either, false),
                "{handler} {more}"
            );
        }
    }
    for (name, value) in [("QUEENRIGHT_GENERATE", "text"), ("QUEENRIGHT_CRON", "* * * * *")] {
        let named = case("--handle a").env(name, value).good();
        assert_eq!(named.settings.prefer, Prefer::Either, "{name}");
    }
}
