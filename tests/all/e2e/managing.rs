//! `errors`: looking after the failed messages.

use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, json_lines, said};
use crate::server::RedisServer;

/// A queue on which ten messages have failed; nobody is at work on it any more.
fn ten_failed(server: &RedisServer) -> Fleet {
    let mut fleet = Fleet::on(server)
        .copies(2)
        .args("--interval 0 --messages 10 --work 0 --error-rate 1 --quiet")
        .start();
    fleet.wait_through(10);
    for copy in 0..2 {
        fleet.term(copy);
        assert_eq!(fleet.wait_exit(copy).code(), Some(0));
    }
    fleet
}

fn run(fleet: &Fleet, args: &str) -> String {
    let args: Vec<&str> = args.split_whitespace().collect();
    good(&feed(fleet, &args, ""))
}

fn numbers(text: &str) -> Vec<u64> {
    let number = |line: &Value| line["number"].as_u64().expect("a number");
    json_lines(text.as_bytes()).iter().map(number).collect()
}

#[test]
fn errors_are_listed_shown_and_counted_without_being_removed() {
    let server = RedisServer::start();
    let fleet = ten_failed(&server);
    assert_eq!(run(&fleet, "errors count"), "10\n");
    assert_eq!(run(&fleet, "errors count --older 1h"), "0\n");
    assert_eq!(run(&fleet, "errors count --newer 1h --text handler"), "10\n");
    assert_eq!(run(&fleet, "errors count --text nothing-of-it"), "0\n");
    assert_eq!(
        numbers(&run(&fleet, "errors list --json --from 3 --to 7 --limit 3")),
        [3, 4, 5]
    );
    assert_eq!(numbers(&run(&fleet, "errors export")), (0..10).collect::<Vec<_>>());
    assert_eq!(run(&fleet, "errors list").lines().count(), 10);
    let shown = run(&fleet, "errors show 7");
    assert!(
        shown.contains("number     7\n") && shown.contains("payload    7\n"),
        "{shown}"
    );
    assert_eq!(numbers(&run(&fleet, "errors show 7 --json")), [7]);
    let output = feed(&fleet, &["errors", "show", "77"], "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("77"),
        "{}",
        said(&output)
    );
    assert_eq!(fleet.status().errors, 10);
}

#[test]
fn a_requeued_error_is_handled_again_and_deleted_ones_are_gone() {
    let server = RedisServer::start();
    let mut fleet = ten_failed(&server);
    assert_eq!(
        run(&fleet, "errors delete --from 8 --dry-run"),
        "8\n9\nwould have deleted 2\n"
    );
    assert_eq!(run(&fleet, "errors requeue 1 --dry-run"), "1\nwould have requeued 1\n");
    assert_eq!(fleet.status().errors, 10);
    assert_eq!(run(&fleet, "errors delete --from 8"), "deleted 2\n");
    let output = feed(&fleet, &["errors", "requeue", "1", "2", "9"], "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "requeued 2\n");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("not among the errors: 9"),
        "{}",
        said(&output)
    );
    let told: Value = serde_json::from_str(&run(&fleet, "errors requeue --json --all --limit 3")).expect("JSON");
    assert_eq!(
        (&told["requeued"], &told["numbers"]),
        (&3.into(), &serde_json::json!([0, 3, 4]))
    );
    for args in ["errors delete", "errors requeue 3 --all"] {
        let args: Vec<&str> = args.split_whitespace().collect();
        let output = feed(&fleet, &args, "");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    let status = fleet.status();
    assert_eq!(
        (status.errors, status.failed, status.queued, status.requeued),
        (3, 10, 5, 5),
        "{status:?}"
    );
    fleet.add("--also-handle --error-rate 0");
    let status = fleet.wait_status("they are done", |status| status.done == 5);
    assert_eq!((status.errors, status.failed, status.queued), (3, 10, 0), "{status:?}");
}

#[test]
fn errors_beyond_the_most_that_are_kept_are_removed_counted_and_told_of() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .args("--also-handle --interval 1ms --messages 50 --work 0 --error-rate 1 --max-errors 3 --lease 30s")
        .start_joined();
    let status = fleet.wait_status("the oldest are gone", |status| {
        status.is_through(50) && status.errors == 3 && status.trimmed == 47
    });
    assert_eq!(status.failed, 50, "{status:?}");
    fleet.wait_for("it says so", |lines| {
        let trimmed = lines.iter().filter(|line| line.is("trimmed"));
        trimmed
            .map(|line| line.fields["errors"].as_u64().expect("a number"))
            .sum::<u64>()
            == 47
    });
    assert!(run(&fleet, "status").contains("trimmed    47"));
    let left: Vec<u64> = fleet
        .errors()
        .iter()
        .map(|error| error["number"].as_u64().expect("a number"))
        .collect();
    assert_eq!(left, [47, 48, 49]);
}
