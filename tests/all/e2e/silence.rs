//! A fleet that died is not shown as alive: the hive clock stands still while nobody beats, but looks know the time of day.

use serde_json::Value;

use super::push::feed;
use crate::fleet::{Fleet, PATIENCE, said, within};
use crate::server::RedisServer;

/// What a command prints, and what it says besides; it must end well.
fn run(fleet: &Fleet, args: &str) -> (String, String) {
    let args: Vec<&str> = args.split_whitespace().collect();
    let output = feed(fleet, &args, "");
    assert!(output.status.success(), "{}", said(&output));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn dies_and_is_told_of(mut fleet: Fleet) {
    fleet.wait_for_more("done", 3);
    let (text, _) = run(&fleet, "status");
    assert!(!text.contains("silent") && !text.contains("last heard of"), "{text}");
    for copy in 0..fleet.len() {
        fleet.kill9(copy);
    }
    let text = within(PATIENCE, || {
        let (text, _) = run(&fleet, "status");
        (text.matches("silent").count() == 2).then_some(text)
    });
    let text = text.expect("both are silent");
    assert!(text.contains("generator  none (last heard of "), "{text}");
    let (json, _) = run(&fleet, "status --json");
    let status: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(status["generator"], Value::Null, "{json}");
    assert!(
        status["generator_heard_ago_ms"].as_u64().is_some_and(|ago| ago > 0),
        "{json}"
    );
    for node in status["nodes"].as_array().expect("nodes") {
        assert_eq!(node["role"], "silent", "{json}");
        assert!(node["silent_ms"].as_u64().is_some_and(|silent| silent > 0), "{json}");
    }
    let (found, _) = run(&fleet, "doctor");
    assert!(found.contains("none alive, 2 silent for"), "{found}");
    run(&fleet, "push left");
    let output = feed(&fleet, &["drain", "--timeout", "10ms"], "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no node is alive"),
        "{}",
        said(&output)
    );
    // Their leases run out as fast as time passes, and no faster.
    let (removed, waits) = run(&fleet, "purge --yes");
    assert!(
        removed.contains(fleet.queue()) && waits.contains("silent"),
        "{removed}{waits}"
    );
}

#[test]
fn a_fleet_that_died_is_told_of_and_its_queue_can_be_purged() {
    let server = RedisServer::start();
    let args = "--interval 10ms --work 0 --error-rate 0 --lease 1s";
    dies_and_is_told_of(Fleet::on(&server).copies(2).args(args).start_led());
}

#[test]
fn so_is_one_that_worked_on_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let fleet = Fleet::in_file(&directory.path().join("queue.db"));
    dies_and_is_told_of(
        fleet
            .copies(2)
            .args("--interval 10ms --work 0 --error-rate 0 --lease 1s")
            .start_led(),
    );
}
