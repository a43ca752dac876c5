//! A rolling restart: every copy is told to stop, one after the other, and another takes its place, while messages come.

use std::collections::BTreeMap;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, Line};
use crate::server::RedisServer;

const COPIES: usize = 10;

/// Restarts all of them. As orchestrators do it, the next is there before one is stopped.
fn roll(fleet: &mut Fleet) {
    for leaving in 0..COPIES {
        let next = fleet.add("-v");
        fleet.wait_for("the next has joined", |lines| {
            lines.iter().any(|line| line.copy == next && line.is("joined"))
        });
        fleet.term(leaving);
        assert_eq!(fleet.wait_exit(leaving).code(), Some(0));
    }
}

fn started_fleet(server: &RedisServer, interval_ms: u64, messages: u64) -> Fleet {
    let args = format!(
        "-v --interval {interval_ms}ms --messages {messages} --work 0..20ms --error-rate 0 --concurrency 4 --lease 30s"
    );
    Fleet::on(server).copies(COPIES).args(&args).start_led()
}

fn count(lines: &[Line], event: &str) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    for number in lines
        .iter()
        .filter(|line| line.is(event))
        .filter_map(|line| line.number)
    {
        *counts.entry(number).or_default() += 1;
    }
    counts
}

#[test]
fn in_a_rolling_restart_nothing_is_handled_twice_and_nothing_is_left_behind() {
    const MESSAGES: u64 = 400;
    let server = RedisServer::start();
    let mut fleet = started_fleet(&server, 10, MESSAGES);
    fleet.wait_for_more("done", 10);
    roll(&mut fleet);
    checks::everything(&fleet, MESSAGES, Lines::All);
    let lines = fleet.lines();
    for event in ["started", "done"] {
        let counts = count(&lines, event);
        let wrong: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
        assert!(wrong.is_empty(), "not {event} once: {wrong:?}");
        assert_eq!(counts.len() as u64, MESSAGES, "{event}");
    }
    // Each crown was handed over: nobody waited for a lease of half a minute.
    assert!(
        !lines.iter().any(|line| line.is("redelivered") || line.is("reaped")),
        "nobody was given up for dead"
    );
}

#[test]
fn beside_a_newer_version_copies_of_this_one_end_with_one_line() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 10ms --work 0")
        .start_led();
    fleet.wait_for_more("done", 5);
    // What a program of the next layout does first: it raises the layout, and deposes whoever does not know it.
    let (meta, nodes) = (
        format!("{{qr:{}}}:meta", fleet.queue()),
        format!("{{qr:{}}}:nodes", fleet.queue()),
    );
    server.command(&["HSET", &meta, "layout", "99"]).expect("raised");
    server.command(&["DEL", &nodes]).expect("deposed");
    for copy in 0..3 {
        assert_eq!(fleet.wait_exit(copy).code(), Some(1));
    }
    let last = |copy: usize| {
        fleet
            .lines()
            .into_iter()
            .rfind(|line| line.copy == copy)
            .expect("a line")
            .event
    };
    for copy in 0..3 {
        let line = last(copy);
        assert!(line.contains("layout 99") && line.contains("upgrade"), "{line}");
    }
    // And so does one that comes later.
    let late = fleet.add("");
    assert_eq!(fleet.wait_exit(late).code(), Some(1));
}

/// `cargo test --profile gate --all-features --test all -- --ignored --nocapture figures_of_a_rolling`.
#[test]
#[ignore = "figures, not a test: see docs/kubernetes.md"]
fn figures_of_a_rolling_restart() {
    const INTERVAL_MS: u64 = 100;
    const MESSAGES: u64 = 300;
    let server = RedisServer::start();
    let mut fleet = started_fleet(&server, INTERVAL_MS, MESSAGES);
    fleet.wait_for_more("done", 10);
    roll(&mut fleet);
    fleet.wait_through(MESSAGES);
    let lines = fleet.lines();
    let at = |event: &str| -> BTreeMap<u64, u64> {
        let told = lines.iter().filter(|line| line.is(event));
        told.filter_map(|line| Some((line.number?, line.at_ms()))).collect()
    };
    let (published, started) = (at("published"), at("started"));
    // By the grid of the earliest of them.
    let mut lateness: Vec<u64> = published.iter().map(|(number, at)| at - number * INTERVAL_MS).collect();
    lateness.sort_unstable();
    let earliest = lateness[0];
    for late in &mut lateness {
        *late -= earliest;
    }
    let waited = started
        .iter()
        .map(|(number, at)| at.saturating_sub(published[number]))
        .max();
    let handovers = lines.iter().filter(|line| line.is("elected")).count() - 1;
    println!(
        "{COPIES} copies restarted one by one, {handovers} of them the generator; a message every {INTERVAL_MS} ms: published late by \
         {} ms in the median, {} ms at most; handled {} ms after that at most",
        lateness[lateness.len() / 2],
        lateness[lateness.len() - 1],
        waited.unwrap_or(0)
    );
}
