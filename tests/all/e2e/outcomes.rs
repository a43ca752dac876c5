//! `push --wait` and `where`: outcomes, with real processes.

use std::fmt::Write as _;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::push::feed;
use crate::fleet::{Fleet, PATIENCE, Plan, json_lines, said, signal, within};
use crate::server::RedisServer;

/// Answers by what a message says.
const HANDLER: &str = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"bad"'*) echo '{"error":"it is bad"}';;
    *'"payload":"twice"'*'"failures":0'*|*'"failures":0'*'"payload":"twice"'*) echo '{"retry":"busy","after":"10ms"}';;
    *'"payload":"bytes"'*) echo '{"ok":true,"result_base64":"//8="}';;
    *'"payload":"large"'*) echo "{\"ok\":true,\"result\":\"$(printf '%04097d' 0)\"}";;
    *'"payload":"plain"'*) echo '{"ok":true}';;
    *) echo '{"ok":true,"result":{"answer":42}}';;
  esac
done
"#;

struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        let workshop = Self(tempfile::tempdir().expect("a directory"));
        std::fs::write(workshop.0.path().join("handler.sh"), HANDLER).expect("written");
        workshop
    }

    /// A worker that handles what is pushed.
    fn at_work(&self, plan: Plan) -> Fleet {
        let handler = format!("sh {}", self.0.path().join("handler.sh").display());
        plan.copies(1)
            .args("-c 4 --lease 6s --handle")
            .arg(&handler)
            .start_joined()
    }
}

fn lines(output: &Output) -> Vec<Value> {
    json_lines(&output.stdout)
}

/// Waits for messages of every kind, on whichever store.
fn every_outcome_is_told(fleet: &Fleet) {
    let all = ["hello", "bad", "twice", "bytes", "plain", "large"];
    let args = [&["push", "--wait", "--json"][..], &all].concat();
    let output = feed(fleet, &args, "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = lines(&output);
    let numbers: Vec<u64> = told.iter().filter_map(|line| line["number"].as_u64()).collect();
    assert_eq!(
        numbers,
        [0, 1, 2, 3, 4, 5],
        "in the order of pushing: {}",
        said(&output)
    );
    assert_eq!(
        (&told[0]["state"], &told[0]["result"]),
        (&"done".into(), &r#"{"answer":42}"#.into())
    );
    assert_eq!(
        (&told[1]["state"], &told[1]["error"]),
        (&"failed".into(), &"it is bad".into())
    );
    assert_eq!((&told[2]["state"], &told[2]["failures"]), (&"done".into(), &1.into()));
    assert_eq!(told[3]["result_base64"], "//8=");
    assert_eq!((&told[4]["state"], &told[4]["result"]), (&"done".into(), &Value::Null));
    let error = told[5]["error"].as_str().expect("it failed");
    assert!(error.contains("4097 bytes is too large: at most 4096"), "{error}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("2 of 6 messages were not done"), "{stderr}");
    let alone = feed(fleet, &["push", "--wait", "hello"], "");
    let line = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && line.starts_with("6 done result="),
        "{}",
        said(&alone)
    );
}

#[test]
fn a_push_that_waits_is_told_every_outcome_on_redis() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    every_outcome_is_told(&workshop.at_work(Fleet::on(&server)));
}

#[test]
fn a_push_that_waits_is_told_every_outcome_in_a_file() {
    let workshop = Workshop::new();
    let plan = Fleet::in_file(&workshop.0.path().join("queue.db"));
    every_outcome_is_told(&workshop.at_work(plan));
}

#[test]
fn lines_of_json_are_waited_for_and_what_nobody_begins_with_in_time_is_told_so() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let mut fleet = Fleet::on(&server).copies(0).start();
    let late = feed(&fleet, &["push", "--json", "--ask", "--expires", "1ms", "late"], "");
    assert!(late.status.success(), "{}", said(&late));
    std::thread::sleep(Duration::from_millis(5));
    let working = workshop.at_work(Fleet::on(&server).queue(fleet.queue()));
    let mut input = String::new();
    for n in 0..50 {
        // Writing to a String cannot fail.
        let _ = writeln!(input, "{{\"payload\":\"{n}\",\"key\":\"k{}\"}}", n / 2);
    }
    let output = feed(&fleet, &["push", "--wait", "--json"], &input);
    assert!(output.status.success(), "{}", said(&output));
    let told = lines(&output);
    assert_eq!(told.len(), 50);
    assert!(told.iter().all(|line| line["state"] == "done"), "{}", said(&output));
    assert_eq!(told.iter().filter(|line| line["repeated"] == true).count(), 25);
    let where_is = feed(&fleet, &["where", "0", "1", "999", "--json"], "");
    let states: Vec<Value> = lines(&where_is).iter().map(|line| line["state"].clone()).collect();
    assert_eq!(states, ["expired", "done", "unpublished"], "{}", said(&where_is));
    drop(working);
    fleet.nobody_exited_but(&[]);
}

#[test]
fn whoever_was_killed_while_it_waited_asks_again_by_number_or_by_key() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let fleet = Fleet::on(&server).copies(0).start();
    let mut waiting = fleet
        .command(&["push", "--wait", "--timeout", "10m", "--key", "order-17", "hello"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    fleet.wait_status("it is in", |status| status.queued == 1);
    signal(waiting.id(), "KILL");
    assert!(!waiting.wait().expect("it ends").success());
    let found = feed(&fleet, &["where", "0"], "");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "0 queued\n");
    let working = workshop.at_work(Fleet::on(&server).queue(fleet.queue()));
    for args in [
        &["where", "0", "--wait", "--json"][..],
        &["push", "--wait", "--json", "--key", "order-17", "hello"],
    ] {
        let output = feed(&fleet, args, "");
        assert!(output.status.success(), "{}", said(&output));
        let told = lines(&output);
        assert_eq!((&told[0]["number"], &told[0]["state"]), (&0.into(), &"done".into()));
    }
    assert_eq!(working.status().published, 1, "nothing was pushed twice");
}

#[test]
fn a_wait_without_a_copy_or_under_a_pause_ends_in_time_with_one_line_and_the_message_stays() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let fleet = Fleet::on(&server).copies(0).start();
    let refused = |args: &[&str], words: &[&str]| {
        let output = feed(&fleet, args, "");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = stderr.lines().last().unwrap_or_default();
        for word in words {
            assert!(last.contains(word), "{word:?} in {stderr}");
        }
    };
    let waits = ["push", "--wait", "--timeout", "50ms", "hello"];
    refused(
        &waits,
        &[
            "message 0 has no outcome after 50ms",
            "waits in the queue",
            "no copy runs",
            "where 0 --wait",
        ],
    );
    assert_eq!(fleet.status().queued, 1, "it stays");
    let paused = feed(&fleet, &["pause", "handlers"], "");
    assert!(paused.status.success(), "{}", said(&paused));
    let working = workshop.at_work(Fleet::on(&server).queue(fleet.queue()));
    refused(&["where", "0", "--wait", "--timeout", "50ms"], &["handlers are paused"]);
    let delayed = ["push", "--wait", "--timeout", "50ms", "--delay", "1h", "later"];
    refused(&delayed, &["message 1", "it waits until 2"]);
    let resumed = feed(&fleet, &["resume", "handlers"], "");
    assert!(resumed.status.success(), "{}", said(&resumed));
    let output = feed(&fleet, &["where", "0", "--wait"], "");
    assert!(output.status.success(), "{}", said(&output));
    // Nobody asked for the outcome of this one.
    let plain = feed(&fleet, &["push", "plain"], "");
    assert!(plain.status.success(), "{}", said(&plain));
    within(PATIENCE, || (working.status().done == 2).then_some(())).expect("it is done");
    refused(
        &["where", "2", "--wait"],
        &["message 2 has no outcome that is known", "nobody asked"],
    );
}

#[test]
fn an_outcome_is_told_once_replicas_have_it() {
    let (primary, replica, workshop) = (RedisServer::start(), RedisServer::start(), Workshop::new());
    let follow = ["REPLICAOF", "127.0.0.1", &primary.port().to_string()];
    replica.command(&follow).expect("a replica");
    let working = workshop.at_work(Fleet::on(&primary).args("--replicas 1"));
    let output = feed(&working, &["push", "--replicas", "1", "--wait", "hello"], "");
    assert!(output.status.success(), "{}", said(&output));
    signal(replica.pid(), "STOP");
    // It is there, but replicas cannot say that they have it.
    let output = feed(
        &working,
        &["where", "0", "--replicas", "1", "--wait", "--timeout", "1s"],
        "",
    );
    signal(replica.pid(), "CONT");
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{}",
        said(&output)
    );
    let output = feed(&working, &["where", "0", "--replicas", "1", "--wait"], "");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_wait_goes_on_while_redis_is_restarted() {
    let (mut server, workshop) = (RedisServer::durable(), Workshop::new());
    let fleet = Fleet::on(&server).copies(0).start();
    let waiting = fleet
        .command(&["push", "--wait", "--timeout", "10m", "hello"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    fleet.wait_status("it is in", |status| status.queued == 1);
    server.restart();
    let _working = workshop.at_work(Fleet::on(&server).queue(fleet.queue()));
    let output = waiting.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stdout.starts_with(b"0 done result="), "{}", said(&output));
}
