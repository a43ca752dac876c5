//! `--shards`: one queue over several servers, as real processes.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, PATIENCE, Plan, json_lines, program, said, within};
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

/// How many messages each shard has got.
pub fn published(fleet: &Fleet) -> Vec<u64> {
    let looked = json(fleet);
    let shards = looked["shards"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |shard: &Value| shard["published"].as_u64().expect("a count");
    shards.iter().map(of).collect()
}

fn each_came_once(fleet: &Fleet, all: u64) {
    fleet.wait_for_outcomes(all);
    let lines = fleet.lines();
    let settled = lines.iter().filter(|line| line.is("done") || line.is("error"));
    let numbers: Vec<u64> = settled.map(|line| line.number.expect("numbered")).collect();
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!((numbers.len() as u64, distinct.len() as u64), (all, all));
}

/// Stops the generator, and waits until all that was published is settled, once. Returns how many messages that are.
pub fn all_came_once(fleet: &Fleet) -> u64 {
    good(&feed(fleet, &["pause", "generator"], ""));
    good(&feed(fleet, &["drain", "--timeout", "1m"], ""));
    let status = fleet.status();
    assert!(status.is_through(status.published), "{status:?}");
    each_came_once(fleet, status.published);
    status.published
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
    let listed = good(&feed(&fleet, &["queues"], ""));
    assert!(listed.contains(fleet.queue()), "{listed}");
    let published = published(&fleet);
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
    let fleet = on(&servers).args("--interval 2ms").copies(2).start_joined();
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
    let listed = good(&feed(&fleet, &["queues"], ""));
    assert!(listed.contains("  (shard 1 is away)"), "{listed}");
    let drained = feed(&fleet, &["drain", "--timeout", "300ms"], "");
    assert_eq!(drained.status.code(), Some(1), "{}", said(&drained));
    assert!(said(&drained).contains("shard 1 does not answer"), "{}", said(&drained));
    servers[1].restart();
    let back = published(&fleet)[1];
    within(PATIENCE, || (published(&fleet)[1] > back).then_some(())).expect("it gets messages again");
    all_came_once(&fleet);
}

#[test]
fn what_is_done_in_all_shards_is_done_in_none_while_one_is_away_and_what_is_looked_at_is_shown_of_the_others() {
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::durable()).collect();
    let fleet = on(&servers).copies(0).start();
    let keyed = |i| format!("{{\"payload\":\"p{i}\",\"key\":\"k{i}\"}}\n");
    good(&feed(
        &fleet,
        &["push", "--json"],
        &(0..60).map(keyed).collect::<String>(),
    ));
    let burst = ["start", "--burst", "--work", "0", "--error-rate", "1", "--quiet"];
    let burst = feed(&fleet, &burst, "");
    assert!(burst.status.success(), "{}", said(&burst));
    let meta = |server: &RedisServer| {
        let keys = server.command(&["KEYS", "{q*}:meta"]).expect("it answers");
        let keys: Vec<String> = redis::from_redis_value(keys).expect("keys");
        server.command(&["HGETALL", &keys[0]]).expect("it answers")
    };
    let of_shard = |shard: usize| {
        let failed = json(&fleet)["shards"][shard]["errors"].clone();
        usize::try_from(failed.as_u64().expect("a count")).expect("few")
    };
    let (first, last) = (of_shard(0), of_shard(2));
    servers[1].kill();
    let before = meta(&servers[2]);
    for command in [
        "pause handlers",
        "resume",
        "limit 5/s",
        "limit none",
        "purge --yes",
        "purge --yes --force",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let refused = feed(&fleet, &words, "");
        assert_eq!(refused.status.code(), Some(69), "{command}: {}", said(&refused));
        assert_eq!(meta(&servers[2]), before, "{command}");
    }
    let shown = |words: &[&str]| {
        let output = feed(&fleet, words, "");
        assert_eq!(output.status.code(), Some(69), "{words:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(shown(&["errors", "count"]), format!("{}\n", first + last));
    assert_eq!(shown(&["errors", "list"]).lines().count(), first + last);
    let most = (first + 1).to_string();
    assert_eq!(shown(&["errors", "list", "--limit", &most]).lines().count(), first + 1);
    assert_eq!(shown(&["get-errors", "--keep"]).lines().count(), first + last);
    assert_eq!(shown(&["get-errors"]).lines().count(), first + last);
    // What another shard knows needs that one alone.
    assert!(good(&feed(&fleet, &["limit"], "")).contains("nothing is limited"));
    let ended = feed(&fleet, &["cancel", "0"], "");
    assert!(said(&ended).contains("message 0 has ended"), "{}", said(&ended));
    let told = feed(&fleet, &["doctor"], "");
    assert!(
        said(&told).contains("0 of 1 checks are fine; what is wrong is below"),
        "{}",
        said(&told)
    );
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
            &["push", "x", "--shards", "2", "--url", "sqlite:/tmp/none.db"],
            "--shards: each shard needs a file of its own: give --url 2 times, with 2 files",
        ),
        (
            &[
                "status",
                "--shards",
                "2",
                "--url",
                "sqlite:/tmp/none.db",
                "--url",
                "redis://a",
            ],
            "--url: the shards of one queue are all on servers, or all in files",
        ),
        (
            &["bench", "--shards", "2"],
            "bench does not know queues with shards yet",
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
    assert_eq!(fewer.status.code(), Some(2), "{}", said(&fewer));
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

#[test]
fn without_a_number_commands_take_as_many_shards_as_the_queue_has() {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let fleet = on(&servers).copies(0).start();
    good(&feed(&fleet, &["push", "--key", "a", "x"], ""));
    let both = [servers[0].url(), servers[1].url()];
    let of = |args: &[&str]| {
        let queue = ["--queue", fleet.queue(), "--url", &both[0], "--url", &both[1]];
        program().args(args).args(queue).output().expect("it starts")
    };
    for looks in [
        &["status", "--json", "--shards"][..],
        &["--shards=recorded", "status", "--json"],
    ] {
        assert_eq!(shards_in(&good(&of(looks))), 2, "{looks:?}");
    }
    // What may make the queue has to be told.
    for makes in ["start", "push"] {
        let refused = of(&[makes, "--shards"]);
        assert_eq!(refused.status.code(), Some(2), "{makes}: {}", said(&refused));
        assert!(
            said(&refused).contains("say how many shards"),
            "{makes}: {}",
            said(&refused)
        );
    }
    // On one server no URL tells that there are several.
    let one = RedisServer::start();
    let fleet = Fleet::on(&one).env("QUEENRIGHT_SHARDS", "3").copies(0).start();
    let keyed = (0..30).map(|i| format!("{{\"payload\":\"x\",\"key\":\"k{i}\"}}\n"));
    good(&feed(&fleet, &["push", "--json"], &keyed.collect::<String>()));
    let mut status = program();
    let status = status.args(["status", "--json", "--queue", fleet.queue(), "--url", &one.url()]);
    assert_eq!(shards_in(&good(&status.output().expect("it starts"))), 3);
}

/// How many shards `status --json` tells of.
fn shards_in(status: &str) -> usize {
    let status: serde_json::Value = serde_json::from_str(status).expect("JSON");
    status["shards"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_burst_ends_when_all_shards_are_empty() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let fleet = on(&servers).copies(0).start();
    let keyed: Vec<String> = (0..300)
        .map(|i| format!("{{\"payload\":\"p{i}\",\"key\":\"k{i}\"}}\n"))
        .collect();
    good(&feed(&fleet, &["push", "--json"], &keyed.concat()));
    let burst = || {
        let told = feed(
            &fleet,
            &["start", "--burst", "--work", "0", "--error-rate", "0", "--quiet"],
            "",
        );
        assert!(told.status.success(), "{}", said(&told));
    };
    burst();
    let looked = json(&fleet);
    assert_eq!(
        (&looked["done"], &looked["queued"]),
        (&300.into(), &0.into()),
        "{looked}"
    );
    // Nothing is there: it ends at once.
    burst();
}

#[test]
fn doctor_examines_every_server_and_names_the_one_that_is_wrong() {
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::durable()).collect();
    let fleet = on(&servers).copies(0).start();
    good(&feed(&fleet, &["push", "x"], ""));
    let text = good(&feed(&fleet, &["doctor"], ""));
    for shard in 0..3 {
        assert!(text.contains(&format!("shard {shard}")), "{text}");
    }
    servers[1]
        .command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .expect("set");
    servers[1]
        .command(&["CONFIG", "SET", "maxmemory", "100mb"])
        .expect("set");
    servers[2].kill();
    let told = feed(&fleet, &["doctor", "--json"], "");
    assert_eq!(told.status.code(), Some(69), "{}", said(&told));
    let checks = json_lines(&told.stdout).remove(0)["checks"]
        .as_array()
        .expect("checks")
        .clone();
    let wrong: Vec<(u64, &str)> = checks
        .iter()
        .filter(|check| check["verdict"] == "wrong")
        .map(|check| {
            (
                check["shard"].as_u64().expect("a shard"),
                check["check"].as_str().expect("a name"),
            )
        })
        .collect();
    assert_eq!(wrong, [(1, "eviction"), (2, "connection")]);
    let text = said(&feed(&fleet, &["doctor"], ""));
    assert!(text.contains("wrong    eviction     shard 1: allkeys-lru"), "{text}");
    assert!(text.contains("wrong    connection   shard 2: "), "{text}");
}

#[test]
fn a_shard_in_which_more_waits_than_in_the_others_is_called_hot() {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let fleet = on(&servers).copies(0).start();
    let grouped: Vec<String> = (0..200)
        .map(|i| format!("{{\"payload\":\"p{i}\",\"group\":\"one\"}}\n"))
        .collect();
    good(&feed(&fleet, &["push", "--json"], &grouped.concat()));
    let looked = json(&fleet);
    let hot: Vec<bool> = (0..2).map(|shard| looked["shards"][shard]["hot"] == true).collect();
    assert_eq!(hot.iter().filter(|hot| **hot).count(), 1, "{looked}");
    let shard = usize::from(hot[1]);
    let text = good(&feed(&fleet, &["status"], ""));
    assert!(text.contains(&format!("hot        shard {shard}  (")), "{text}");
    let place = looked["shards"][0]["place"].as_str().expect("a place");
    assert!(servers[0].url().contains(place), "{place}");
    assert!(text.contains(&format!("  at {place}\n")), "{text}");
}

#[test]
fn a_variable_has_several_urls_with_spaces_between() {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let fleet = on(&servers).copies(0).start();
    good(&feed(&fleet, &["push", "x"], ""));
    let looked = program()
        .env("REDIS_URL", urls(&servers))
        .env("QUEENRIGHT_SHARDS", "2")
        .args(["status", "--json", "--queue", fleet.queue()])
        .output()
        .expect("it starts");
    assert!(looked.status.success(), "{}", said(&looked));
    assert_eq!(
        json_lines(&looked.stdout)[0]["shards"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn three_files_are_one_queue_whose_generator_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| format!("sqlite:{}", directory.path().join(name).display());
    let all = [file("a.db"), file("b.db"), file("c.db")];
    let mut fleet = Fleet::at(all.join(" "))
        .env("QUEENRIGHT_SHARDS", "3")
        .args("--interval 1ms --work 0 --error-rate 0.1 --messages 600 --lease 600ms")
        .copies(3)
        .start();
    fleet.wait_for_more("done", 100);
    fleet.kill9(fleet.generator());
    let status = fleet.wait_through(600);
    let published = published(&fleet);
    assert!(published.iter().all(|count| *count > 100), "{published:?}");
    assert_eq!(fleet.errors().len() as u64, status.failed);
    each_came_once(&fleet, 600);
    let doctor = good(&feed(&fleet, &["doctor"], ""));
    assert!(doctor.contains("shard 2"), "{doctor}");
    // In another order they are another queue, and are refused.
    let swapped = program()
        .args(["status", "--shards", "3", "--queue", fleet.queue()])
        .args(["--url", &all[1], "--url", &all[0], "--url", &all[2]])
        .output()
        .expect("it starts");
    assert_eq!(swapped.status.code(), Some(2), "{}", said(&swapped));
}
