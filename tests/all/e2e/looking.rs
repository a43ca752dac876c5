//! Commands that only look: they create nothing, need no right to write, and say which queues there are.

use std::path::Path;
use std::process::Output;

use crate::fleet::{json_lines, program, said};
use crate::server::RedisServer;

/// Every command that only looks.
const LOOKS: [&str; 11] = [
    "status",
    "status --json",
    "nodes",
    "drain --timeout 1ms",
    "errors list",
    "errors count",
    "errors show 0",
    "errors export",
    "errors requeue --all --dry-run",
    "errors delete --all --dry-run",
    "get-errors --keep",
];

/// Every spelling of the command that prints errors and removes them.
const READS: [&str; 3] = ["get-errors", "getErrors", "getError --json"];

fn run(url: &str, line: &str) -> Output {
    let mut command = program();
    command.args(line.split(' ')).env("REDIS_URL", url);
    command.output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_look_at_a_file_that_is_not_there_creates_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("typo.db").display());
    for look in LOOKS.into_iter().chain(["queues"]) {
        let output = run(&url, look);
        assert_eq!(output.status.code(), Some(1), "{look}: {}", said(&output));
        assert!(
            text(&output).contains("typo.db") && text(&output).contains("no such file"),
            "{look}: {}",
            said(&output)
        );
    }
    let output = run(&url, "doctor");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn looks_at_a_file_leave_it_and_its_directory_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a queue & more.db");
    let url = format!("sqlite:{}", path.display());
    assert!(run(&url, "push one two").status.success());
    let worker = "--burst --work 0 --error-rate 1 --quiet";
    let output = run(&url, worker);
    assert!(output.status.success(), "{}", said(&output));
    let (before, bytes) = (files(directory.path()), std::fs::read(&path).expect("a file"));
    assert_eq!(before, ["a queue & more.db"]);
    for look in LOOKS.into_iter().chain(["queues", "doctor"]) {
        let output = run(&url, look);
        assert!(output.status.success(), "{look}: {}", said(&output));
        assert_eq!(files(directory.path()), before, "{look}");
    }
    assert!(std::fs::read(&path).expect("a file") == bytes);
    let listed = json_lines(&run(&url, "queues --json").stdout);
    assert_eq!(
        (&listed[0]["queue"], &listed[0]["errors"]),
        (&"queenright".into(), &2.into())
    );
}

#[test]
fn a_look_sees_what_a_node_at_work_has_written_last() {
    let directory = tempfile::tempdir().expect("a directory");
    let fleet = crate::fleet::Fleet::in_file(&directory.path().join("queue.db"))
        .args("--also-handle --interval 1ms --messages 30 --work 0 --error-rate 0 --lease 30s")
        .start_joined();
    assert_eq!(fleet.wait_through(30).done, 30);
}

#[test]
fn of_a_queue_that_is_not_there_it_is_said_which_ones_are() {
    let server = RedisServer::start();
    let url = server.url();
    let output = run(&url, "status -q mial");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("no queue \"mial\"") && text(&output).contains("has no queue at all"),
        "{}",
        text(&output)
    );
    // Before the first copy has run there are no errors, whoever asks.
    for read in READS {
        let output = run(&url, &format!("{read} -q mial"));
        assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
        assert!(text(&output).contains("has no queue at all"), "{}", text(&output));
    }
    // Keys of others, and more of them than one step looks at.
    let script = "for i = 1, 3000 do redis.call('SET', 'other:' .. i, 1) end redis.call('SET', '{qr:}:meta2', 1)";
    server.command(&["EVAL", script, "0"]).expect("keys");
    for queue in ["mail", "orders", "pages"] {
        assert!(run(&url, &format!("push -q {queue} hello")).status.success());
    }
    for look in LOOKS.into_iter().chain(READS).chain(["pause", "handover"]) {
        let output = run(&url, &format!("{look} -q mial"));
        assert_eq!(output.status.code(), Some(1), "{look}: {}", said(&output));
        for word in [
            "no queue \"mial\"",
            "\"mail\", \"orders\", \"pages\"",
            "queenright queues",
        ] {
            assert!(text(&output).contains(word), "{look}: {}", text(&output));
        }
        assert_eq!(text(&output).lines().count(), 1, "{look}: {}", text(&output));
    }
    let output = run(&url, "queues");
    assert!(output.status.success(), "{}", said(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<_> = printed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["QUEUE", "mail", "orders", "pages"]);
    let listed = json_lines(&run(&url, "queues --json").stdout);
    assert_eq!(listed.len(), 3);
    assert_eq!(
        (&listed[1]["queue"], &listed[1]["queued"]),
        (&"orders".into(), &1.into())
    );
    let called: String =
        redis::from_redis_value(server.command(&["INFO", "commandstats"]).expect("text")).expect("text");
    assert!(
        called.contains("cmdstat_scan") && !called.contains("cmdstat_keys"),
        "{called}"
    );
}

#[test]
fn a_key_that_is_no_text_hides_no_queue() {
    let server = RedisServer::start();
    let url = server.url();
    assert!(run(&url, "push -q jobs one").status.success());
    let mut set = redis::cmd("SET");
    set.arg(b"{qr:\xff}:meta").arg("x");
    let client = redis::Client::open(server.url()).expect("a client");
    set.exec(&mut client.get_connection().expect("a connection"))
        .expect("set");
    let listed = json_lines(&run(&url, "queues --json").stdout);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["queue"], "jobs");
    let output = run(&url, "get-errors -q typo");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output).contains("\"jobs\""), "{}", text(&output));
}

#[test]
fn an_error_in_a_file_that_cannot_be_read_hides_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("queue.db");
    let url = format!("sqlite:{}", path.display());
    for _ in 0..6 {
        assert!(run(&url, "push -q jobs one").status.success());
    }
    let worked = run(&url, "-q jobs --burst --work 0 --error-rate 1 --quiet");
    assert!(worked.status.success(), "{}", said(&worked));
    let file = rusqlite::Connection::open(&path).expect("the file");
    let spoil = "UPDATE errors SET record = x'ff' WHERE number IN (0, 1, 3, 5)";
    assert_eq!(file.execute(spoil, []).expect("spoilt"), 4);
    drop(file);
    for look in ["errors export", "get-errors --json --keep"] {
        let output = run(&url, &format!("{look} -q jobs"));
        assert!(output.status.success(), "{look}: {}", said(&output));
        let numbers: Vec<u64> = json_lines(&output.stdout)
            .iter()
            .map(|line| line["number"].as_u64().expect("a number"))
            .collect();
        assert_eq!(numbers, [2, 4], "{look}: {}", said(&output));
    }
    for look in LOOKS.into_iter().filter(|look| !look.ends_with("show 0")) {
        let output = run(&url, &format!("{look} -q jobs"));
        assert!(output.status.success(), "{look}: {}", said(&output));
    }
    for (look, code) in [
        ("errors list --limit 1", 0),
        ("errors show 2", 0),
        ("errors show 3", 1),
        ("where 2", 0),
    ] {
        let output = run(&url, &format!("{look} -q jobs"));
        assert_eq!(output.status.code(), Some(code), "{look}: {}", said(&output));
        assert!(!text(&output).contains("readonly"), "{look}: {}", said(&output));
    }
    // Whoever may write sets them aside.
    let output = run(&url, "get-errors --json -q jobs");
    assert_eq!(json_lines(&output.stdout).len(), 2, "{}", said(&output));
}

#[test]
fn looks_need_no_right_to_write() {
    let server = RedisServer::start();
    let url = server.url();
    assert!(run(&url, "push -q jobs one").status.success());
    assert!(
        run(&url, "-q jobs --burst --work 0 --error-rate 1 --quiet")
            .status
            .success()
    );
    let rights = "ACL SETUSER eye on >honeypot ~{qr:jobs}:* +@read +@scripting +info +time +select -scan";
    server.command(&rights.split(' ').collect::<Vec<_>>()).expect("a user");
    let url = format!("redis://eye:honeypot@127.0.0.1:{}", server.port());
    for look in LOOKS {
        let output = run(&url, &format!("{look} -q jobs"));
        assert!(output.status.success(), "{look}: {}", said(&output));
    }
    let output = run(&url, "queues");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("+scan"), "{}", text(&output));
    let output = run(&url, "push -q jobs two");
    assert!(!output.status.success());
    // Without a look at the others nobody knows that there are none.
    let user = "ACL SETUSER reader on >honeypot ~* +@all -scan";
    server.command(&user.split(' ').collect::<Vec<_>>()).expect("a user");
    let reader = format!("redis://reader:honeypot@127.0.0.1:{}", server.port());
    let output = run(&reader, "get-errors -q mial");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output).contains("no queue \"mial\""), "{}", text(&output));
    // What it may not look at it is told of all the same.
    server.command(&["ACL", "SETUSER", "eye", "+scan"]).expect("a right");
    server
        .command(&["HSET", "{qr:secret}:meta", "birth", "x"])
        .expect("a queue");
    let listed = json_lines(&run(&url, "queues --json").stdout);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(listed[0]["errors"], 1);
    assert!(
        listed[1]["problem"].as_str().is_some_and(|why| why.contains("refuses")),
        "{listed:?}"
    );
}
