//! `--shards`: one queue over several servers, as real processes.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, Plan, json_lines, program, said, within};
use crate::server::RedisServer;

fn urls(servers: &[RedisServer]) -> String {
    let all: Vec<String> = servers.iter().map(RedisServer::url).collect();
    all.join(" ")
}

fn on(servers: &[RedisServer]) -> Plan {
    Fleet::at(urls(servers))
        .env("QUEENRIGHT_SHARDS", &servers.len().to_string())
        .args("--interval 0 --work 0 --error-rate 0.1")
}

fn json(fleet: &Fleet) -> Value {
    let output = fleet.command(&["status", "--json"]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    json_lines(&output.stdout).remove(0)
}

fn each_came_once(fleet: &Fleet, all: u64) {
    let lines = fleet.lines();
    let settled = lines.iter().filter(|line| line.is("done") || line.is("error"));
    let numbers: Vec<u64> = settled.map(|line| line.number.expect("numbered")).collect();
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!((numbers.len() as u64, distinct.len() as u64), (all, all));
}

#[test]
fn three_servers_are_one_queue_whose_generator_is_killed() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let mut fleet = on(&servers)
        .args("--interval 1ms --messages 900")
        .copies(3)
        .start_joined();
    let keyed: Vec<String> = (0..30)
        .map(|i| format!("{{\"payload\":\"p{i}\",\"key\":\"k{i}\"}}\n"))
        .collect();
    let keyed = keyed.concat();
    let pushed = good(&feed(&fleet, &["push", "--json"], &keyed));
    fleet.wait_status("it is under way", |status| status.published > 200);
    fleet.kill9(fleet.generator());
    let again = json_lines(good(&feed(&fleet, &["push", "--json"], &keyed)).as_bytes());
    assert!(again.iter().all(|line| line["repeated"] == true), "{again:?}");
    let numbers = |lines: &[Value]| lines.iter().map(|line| line["number"].clone()).collect::<Vec<_>>();
    assert_eq!(numbers(&again), numbers(&json_lines(pushed.as_bytes())));

    let status = fleet.wait_through(930);
    let looked = json(&fleet);
    let shards = looked["shards"].as_array().expect("shards");
    let published: Vec<u64> = shards
        .iter()
        .map(|shard| shard["published"].as_u64().expect("a count"))
        .collect();
    assert_eq!((published.len(), published.iter().sum::<u64>()), (3, 930));
    assert!(published.iter().all(|count| *count > 200), "in turn: {published:?}");
    fleet.wait_status("one entry is left for each process", |status| status.nodes.len() == 2);
    let errors = fleet.errors();
    assert_eq!((errors.len() as u64, fleet.errors().len()), (status.failed, 0));
    good(&feed(&fleet, &["drain", "--timeout", "5s"], ""));
}

#[test]
fn a_server_that_is_away_costs_its_own_messages_a_wait_and_is_named() {
    let mut servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::durable()).collect();
    let fleet = on(&servers)
        .args("--interval 2ms --messages 1200")
        .copies(2)
        .start_joined();
    fleet.wait_status("it is under way", |status| status.done > 50);
    servers[1].kill();
    let before = fleet.status().done;
    fleet.wait_status("the other goes on", |status| status.done > before + 100);
    let looked = json(&fleet);
    let away: Vec<bool> = (0..2)
        .map(|shard| looked["shards"][shard]["away"].is_string())
        .collect();
    assert_eq!(away, [false, true], "{looked}");
    let text = good(&feed(&fleet, &["status"], ""));
    assert!(text.contains("shard 1    away: "), "{text}");
    let drained = feed(&fleet, &["drain", "--timeout", "300ms"], "");
    assert_eq!(drained.status.code(), Some(1), "{}", said(&drained));
    assert!(said(&drained).contains("shard 1 does not answer"), "{}", said(&drained));
    servers[1].restart();
    fleet.wait_through(1200);
    each_came_once(&fleet, 1200);
}

fn replica_of(primary: &RedisServer) -> RedisServer {
    let replica = RedisServer::with_args(&["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
    let is_counted = || {
        primary
            .command(&["WAIT", "1", "100"])
            .is_ok_and(|have| have == redis::Value::Int(1))
    };
    within(Duration::from_secs(20), || is_counted().then_some(())).expect("it follows");
    replica
}

#[test]
fn a_shard_whose_replica_is_away_holds_up_nobody_else() {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let mut replicas: Vec<RedisServer> = servers.iter().map(replica_of).collect();
    let fleet = on(&servers)
        .args("--replicas 1 --interval 5ms --messages 20 --error-rate 0 --batch 1 --concurrency 1")
        .copies(2)
        .start_joined();
    fleet.wait_through(20);
    good(&feed(&fleet, &["pause", "handlers"], ""));
    // More outcomes than may wait for a replica.
    let keyed: Vec<String> = (0..3000)
        .map(|i| format!("{{\"payload\":\"p{i}\",\"key\":\"k{i}\"}}\n"))
        .collect();
    good(&feed(&fleet, &["push", "--json"], &keyed.concat()));
    replicas[1].kill();
    good(&feed(&fleet, &["resume", "handlers"], ""));
    let left = |shard: usize| {
        let looked = json(&fleet);
        let of = |name: &str| looked["shards"][shard][name].as_u64().expect("a count");
        of("queued") + of("in_hand")
    };
    within(Duration::from_mins(1), || (left(0) == 0).then_some(())).expect("the other shard goes on");
    assert!(left(1) > 0, "the line of those that wait is full");
    replicas[1] = replica_of(&servers[1]);
    fleet.wait_through(3020);
    // What is done is told when the replica has it.
    fleet.wait_for("all are told", |lines| {
        lines.iter().filter(|line| line.is("done")).count() == 3020
    });
    each_came_once(&fleet, 3020);
}

fn refused(args: &[&str]) -> String {
    let output: Output = program().args(args).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn what_cannot_be_with_shards_is_said_in_one_line() {
    for (args, says) in [
        (&["status", "--shards", "0"][..], "--shards: must be 1 to 256"),
        (&["status", "--shards", "257"], "--shards: must be 1 to 256"),
        (&["status", "--shards", "two"], "--shards"),
        (
            &[
                "start",
                "--shards",
                "2",
                "--url",
                "redis://a",
                "--url",
                "redis://b",
                "--url",
                "redis://c",
            ],
            "--shards: 2 shards cannot be on 3 servers: give as many as there are URLs, or more",
        ),
        (
            &["push", "x", "--shards", "2", "--url", "sqlite:/tmp/none.db"],
            "--shards: a queue in a file has one: name Redis servers, or leave it out",
        ),
        (
            &["dashboard", "--shards", "2"],
            "dashboard does not know queues with shards yet",
        ),
        (
            &["start", "--shards", "2", "--dashboard=127.0.0.1:1"],
            "start --dashboard does not know queues with shards yet",
        ),
        (
            &["start", "--shards", "2", "--burst"],
            "start --burst does not know queues with shards yet",
        ),
        (
            &["doctor", "--shards", "2"],
            "doctor does not know queues with shards yet",
        ),
        (
            &["bench", "--shards", "2"],
            "bench does not know queues with shards yet",
        ),
        (&["demo", "--shards", "2"], "demo does not know queues with shards yet"),
        (
            &["queues", "--shards", "2"],
            "queues does not know queues with shards yet",
        ),
    ] {
        let line = refused(args);
        assert!(line.contains(says), "{args:?}: {line}");
    }
}

#[test]
fn a_copy_with_other_shards_or_another_order_of_servers_is_refused() {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let fleet = on(&servers).copies(0).start();
    assert_eq!(good(&feed(&fleet, &["push", "--key", "a", "x"], "")).lines().count(), 1);
    assert_eq!(good(&feed(&fleet, &["push", "y"], "")).lines().count(), 1);
    let both = [servers[0].url(), servers[1].url()];
    // The home shard is made by whoever joins, and this one ends at once.
    let copy = fleet.command(&["start", "--until-stdin-closes"]).output();
    let copy = copy.expect("it starts");
    assert!(copy.status.success(), "{}", said(&copy));
    let of = |args: &[&str]| {
        let queue = ["--queue", fleet.queue()];
        program().args(args).args(queue).output().expect("it starts")
    };
    let fewer = of(&["status", "--url", &both[0]]);
    assert_eq!(fewer.status.code(), Some(1), "{}", said(&fewer));
    let says = "has 2 shards: give --shards 2, and the same URLs in the same order as the other copies";
    assert!(said(&fewer).contains(says), "{}", said(&fewer));
    let swapped = of(&["push", "x", "--shards", "2", "--url", &both[1], "--url", &both[0]]);
    assert_eq!(swapped.status.code(), Some(2), "{}", said(&swapped));
    assert!(
        said(&swapped).contains("give the URLs in the order in which the queue was made"),
        "{}",
        said(&swapped)
    );
}
