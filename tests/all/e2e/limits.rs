//! `limit`: how fast a fleet takes messages.

use std::collections::BTreeMap;

use super::push::{feed, good};
use crate::fleet::{Fleet, said, within};
use crate::server::RedisServer;

fn run(fleet: &Fleet, args: &str) -> String {
    let args: Vec<&str> = args.split_whitespace().collect();
    good(&feed(fleet, &args, ""))
}

#[test]
fn a_limit_is_shown_set_and_removed() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(0).start();
    run(&fleet, "push one");
    assert_eq!(run(&fleet, "limit"), "nothing is limited\n");
    assert_eq!(run(&fleet, "limit 500/s"), "limit 500/s, 50 at once\n");
    assert_eq!(
        run(&fleet, "limit 30/m --burst 7 --group 10/s"),
        "limit 30/m, 7 at once; 10/s of each group\n"
    );
    let json = "{\"rate\":\"30/m\",\"burst\":7,\"group\":\"10/s\"}\n";
    assert_eq!(run(&fleet, "limit --json"), json);
    assert!(run(&fleet, "status").contains("limit      30/m, 7 at once; 10/s of each group\n"));
    assert_eq!(run(&fleet, "limit none --group 5/d"), "limit 5/d of each group\n");
    assert_eq!(run(&fleet, "limit none"), "nothing is limited\n");
    for wrong in [
        "limit 5",
        "limit 0/s",
        "limit 5/y",
        "limit none --burst 5",
        "limit 5/s --group 1001/s",
        "limit --burst 5",
    ] {
        let args: Vec<&str> = wrong.split_whitespace().collect();
        let output = feed(&fleet, &args, "");
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", said(&output));
    }
    assert_eq!(
        run(&fleet, "limit"),
        "nothing is limited\n",
        "what is wrong changes nothing"
    );
}

#[test]
fn a_fleet_waits_for_its_limit_and_goes_on_at_once_when_it_is_removed() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 0 --messages 300 --work 0 --error-rate 0 --limit 5/h --limit-burst 20")
        .start();
    fleet.wait_status("the burst is done", |status| status.done == 20);
    assert!(run(&fleet, "limit").contains("5/h, 20 at once"));
    assert_eq!(fleet.status().done, 20);
    run(&fleet, "limit none");
    fleet.wait_through(300);
    for copy in 0..3 {
        fleet.term(copy);
        assert_eq!(fleet.wait_exit(copy).code(), Some(0));
    }
}

/// How often each command was called, those of scripts, too; and the server's time in milliseconds.
fn calls(server: &RedisServer) -> (BTreeMap<String, u64>, u64) {
    let stats = server.command(&["INFO", "commandstats"]).expect("INFO");
    let stats: String = redis::from_redis_value(stats).expect("text");
    let calls = stats.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_string(), rest.split(',').next()?.parse().ok()?))
    });
    let time: Vec<u64> = redis::from_redis_value(server.command(&["TIME"]).expect("TIME")).expect("two numbers");
    (calls.collect(), time[0] * 1000 + time[1] / 1000)
}

/// How often this command is called in a second, over three of the server's seconds.
fn calls_a_second(server: &RedisServer, commands: &[&str]) -> Vec<u64> {
    let (before, began) = calls(server);
    let mut after = (BTreeMap::new(), 0);
    within(std::time::Duration::from_mins(1), || {
        after = calls(server);
        (after.1 > began + 3000).then_some(())
    });
    let of = |calls: &BTreeMap<String, u64>, name: &str| calls.get(name).copied().unwrap_or_default();
    let more = commands.iter().map(|name| of(&after.0, name) - of(&before, name));
    more.map(|more| more * 1000 / (after.1 - began)).collect()
}

#[test]
fn nodes_that_wait_for_a_limit_do_not_poll_and_a_generator_brings_no_bytes_to_a_full_queue() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 0 --max-backlog 20000 --work 0 --error-rate 0 --limit 1/h --limit-burst 20 --quiet")
        .start();
    fleet.wait_status("the burst is done", |status| {
        status.done == 20 && status.published > 10_000
    });
    let called = calls_a_second(&server, &["blpop", "evalsha", "hsetnx"]);
    assert!(called[0] <= 10, "waits at the bell: {called:?}");
    assert!(called[1] <= 80, "scripts: {called:?}");
    assert_eq!(called[2], 0, "bytes that are brought in vain: {called:?}");
}

#[test]
fn messages_that_come_faster_than_the_limit_lets_them_through_wake_nobody_in_vain() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 2ms --work 0 --error-rate 0 --limit 20/s --limit-burst 20 --quiet")
        .start();
    fleet.wait_status("the burst is done", |status| status.done >= 40);
    let called = calls_a_second(&server, &["blpop"]);
    assert!(called[0] <= 120, "waits at the bell: {called:?}");
}
