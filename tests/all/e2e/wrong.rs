//! Wrong invocations: each is one line that names what was wrong and says what to write, and has its exit code.

use std::process::Command;

use crate::fleet::{PROGRAM, bare, program, said};
use crate::server::RedisServer;

/// What is typed, the exit code, and words that the line has: the option first.
const TABLE: &[(&str, i32, &[&str])] = &[
    // Numbers.
    ("--messages -1", 2, &["--messages", "'-1'", "digits only"]),
    ("--messages 1e6", 2, &["--messages", "'1e6'", "digits only"]),
    ("--messages 99999999999999999999", 2, &["--messages", "too large"]),
    ("--messages 9007199254740993", 2, &["--messages", "at most 2^53"]),
    ("--retries 100000", 2, &["--retries", "at most 1000"]),
    ("--retries 1001", 2, &["--retries", "at most 1000"]),
    ("--retries -1", 2, &["--retries", "'-1'"]),
    ("--retries many", 2, &["--retries", "'many'"]),
    ("-c 0", 2, &["--concurrency", "1 to 100000"]),
    ("-c -5", 2, &["--concurrency", "'-5'"]),
    ("-c 1000000000000", 2, &["--concurrency", "1 to 100000"]),
    ("--concurrency 1.5", 2, &["--concurrency", "'1.5'"]),
    ("--workers 0 --handle cat", 2, &["--workers", "1 to 1000"]),
    ("--workers 5000 --handle cat", 2, &["--workers", "1 to 1000"]),
    ("--workers 4", 2, &["--workers", "--handle COMMAND"]),
    ("--workers 4 --handle-each cat", 2, &["--workers", "--handle COMMAND"]),
    ("--batch 0", 2, &["--batch", "1 to 1000"]),
    ("--batch 100000", 2, &["--batch", "1 to 1000"]),
    ("--max-deliveries 0", 2, &["--max-deliveries", "1 to 1000"]),
    ("--max-deliveries 70000", 2, &["--max-deliveries", "1 to 1000"]),
    ("--max-errors 0", 2, &["--max-errors", "at least 1"]),
    ("--max-backlog 0", 2, &["--max-backlog", "at least 1"]),
    ("--error-rate 15%", 2, &["--error-rate", "0.15"]),
    ("--error-rate 2", 2, &["--error-rate", "0 to 1"]),
    ("--error-rate -1", 2, &["--error-rate", "0 to 1"]),
    ("--log-payload some", 2, &["--log-payload", "'some'"]),
    ("--port 0", 2, &["--port", "65535"]),
    ("--port 70000", 2, &["--port", "65535"]),
    ("--port -1", 2, &["--port", "'-1'"]),
    ("--db first", 2, &["--db", "'first'"]),
    ("errors show abc", 2, &["NUMBER", "'abc'", "digits only"]),
    ("errors requeue 1 two", 2, &["NUMBER", "'two'", "digits only"]),
    ("errors list --limit few", 2, &["--limit", "'few'"]),
    ("get-errors --limit 0", 2, &["--limit", "at least 1"]),
    ("get-errors --limit -3", 2, &["--limit", "'-3'"]),
    ("healthcheck --pid me", 2, &["--pid", "'me'"]),
    // Times.
    ("--interval 500", 2, &["--interval", "500ms"]),
    ("--interval 5min30", 2, &["--interval", "500ms, 2s"]),
    ("--interval 0.5ms", 2, &["--interval"]),
    ("--lease 1ms", 2, &["--lease", "200ms to 1h"]),
    ("--lease 2h", 2, &["--lease", "200ms to 1h"]),
    ("--timeout 0", 2, &["--timeout", "more than 0"]),
    ("--timeout 30", 2, &["--timeout", "30s"]),
    ("--backoff 1h", 2, &["--backoff", "at most 10m"]),
    ("--grace soon", 2, &["--grace", "'soon'"]),
    ("--work 2s..1s", 2, &["--work", "shorter time first"]),
    ("--work 1s..", 2, &["--work", "0..1s"]),
    ("push --delay tomorrow hello", 2, &["--delay", "'tomorrow'"]),
    ("push --keep 1 hello", 2, &["--keep", "1s"]),
    ("--cron nonsense", 2, &["--cron", "*/5 * * * *"]),
    ("--tz UTC", 2, &["--tz", "--cron"]),
    ("--missed once", 2, &["--missed", "--cron"]),
    // Choices and words.
    ("--prefer leader", 2, &["--prefer", "generator", "never"]),
    ("--log xml", 2, &["--log", "text or json"]),
    ("nonsense", 2, &["nonsense", "--help"]),
    ("statsu", 2, &["statsu", "status"]),
    ("errors", 2, &["errors", "list"]),
    ("errors lsit", 2, &["lsit", "list"]),
    ("pause everything", 2, &["everything", "generator", "handlers"]),
    ("completions tcsh", 2, &["tcsh", "bash"]),
    ("--no-such-flag", 2, &["--no-such-flag", "--help"]),
    ("--concurency 5", 2, &["--concurency", "--concurrency"]),
    // Flags of other commands.
    (
        "start --listen 127.0.0.1:1",
        2,
        &["--listen", "dashboard", "--dashboard HOST:PORT"],
    ),
    (
        "--listen 127.0.0.1:1",
        2,
        &["--listen", "dashboard", "--dashboard HOST:PORT"],
    ),
    ("status --interval 1s", 2, &["--interval", "start"]),
    ("push --retries 5 hello", 2, &["--retries", "start"]),
    ("nodes --watch", 2, &["--watch", "status"]),
    ("get-errors --all", 2, &["--all", "errors requeue"]),
    ("--interval 1s status", 2, &["--interval", "start", "status"]),
    // What goes together, and what does not.
    (
        "--burst --prefer generator",
        2,
        &["--burst", "--prefer generator", "leave one out"],
    ),
    (
        "--handle cat --handle-each cat",
        2,
        &["--handle and --handle-each", "exclude each other"],
    ),
    (
        "--generate text --generate-each date",
        2,
        &["--generate and --generate-each", "exclude"],
    ),
    ("--cron @daily --interval 1s", 2, &["--cron", "--interval", "exclude"]),
    ("--generate-json", 2, &["--generate-json", "--generate"]),
    ("push --key k one two", 2, &["--key", "one message"]),
    ("errors requeue", 2, &["--all"]),
    ("errors requeue 1 --all", 2, &["--all"]),
    ("errors list --from 9 --to 3", 2, &["--from 9", "--to 3"]),
    ("dashboard --listen 0.0.0.0:0", 2, &["--listen", "--token-file"]),
    ("dashboard --listen here", 2, &["--listen", "127.0.0.1:8077"]),
    ("--metrics 9464", 2, &["--metrics", "127.0.0.1:9464"]),
    // Commands and addresses.
    ("--handle no-such-program", 2, &["--handle", "no-such-program"]),
    ("--handle=", 2, &["--handle", "names no program"]),
    ("--handle http://", 2, &["--handle", "http://host:port/path"]),
    (
        "--handle-each no-such-program",
        2,
        &["--handle-each", "no-such-program"],
    ),
    ("--generate poems", 2, &["--generate", "poems"]),
    ("--url localhost", 2, &["--url", "redis://"]),
    ("--url http://localhost", 2, &["--url", "redis://"]),
    ("redis://localhost", 2, &["--url"]),
    ("--queue {a}", 2, &["--queue", "braces"]),
    ("--config /no/such/file", 2, &["--config", "/no/such/file"]),
    ("--env=/no/such/file", 2, &["--env", "/no/such/file"]),
    ("--user bee status", 2, &["REDIS_PASS"]),
    (
        "--password-file /no/such/file status",
        2,
        &["--password-file", "/no/such/file"],
    ),
    // Queues and messages that are not there.
    ("status -q mial", 1, &["\"mial\"", "\"mail\""]),
    ("errors show 17 -q mail", 1, &["17", "not among the errors"]),
    ("handover nobody -q mail", 1, &["nobody"]),
    (
        "status --url sqlite:/no/such/queue.db",
        1,
        &["/no/such/queue.db", "no such file"],
    ),
];

#[test]
fn each_is_one_line_that_names_what_is_wrong_and_has_its_exit_code() {
    assert!(TABLE.len() >= 75, "{}", TABLE.len());
    let server = RedisServer::start();
    let pushed = program()
        .args(["push", "-q", "mail", "hello"])
        .env("REDIS_URL", server.url())
        .output();
    assert!(pushed.expect("it starts").status.success());
    let mut wrong = Vec::new();
    for (line, code, words) in TABLE {
        // What is not refused would run until somebody stops it.
        let mut command = bare(Command::new("timeout"));
        command
            .args(["30", PROGRAM])
            .args(line.split(' '))
            .env("REDIS_URL", server.url());
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let fine = output.status.code() == Some(*code)
            && output.stdout.is_empty()
            && text.lines().count() == 1
            && text.starts_with("queenright: ")
            && words.iter().all(|word| text.contains(word));
        if !fine {
            wrong.push(format!("{line}: {}", said(&output)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        TABLE.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_cannot_be_written_is_said_and_the_one_who_does_not_answer_is_named() {
    let server = RedisServer::start();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full");
    if let Ok(full) = full() {
        let mut command = program();
        let output = command
            .arg("doctor")
            .env("REDIS_URL", server.url())
            .stdout(full)
            .output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("cannot write the output"), "{}", said(&output));
    }
    let output = program().arg("doctor").env("REDIS_URL", "redis://127.0.0.1:1").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("127.0.0.1:1") && text.contains("refused"), "{text}");
}
