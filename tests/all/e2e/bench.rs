//! `bench`: every regime runs and says what it must; how fast is not asked here.

use std::collections::BTreeSet;
use std::process::Output;

use queenright::app::lab::topology::{Fsync, Kind, Topology};
use serde_json::Value;

use crate::fleet::{program, said};
use crate::server::RedisServer;

fn bench(arguments: &str) -> Output {
    let temporary = tempfile::tempdir().expect("a directory");
    let mut command = program();
    command.arg("bench").args(arguments.split_whitespace());
    command.env("TMPDIR", temporary.path());
    let output = command.output().expect("the program starts");
    let left: Vec<_> = temporary.path().read_dir().expect("a directory").collect();
    assert!(left.is_empty(), "it leaves {left:?} behind");
    output
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", said(output));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    rows.as_array().expect("an array").clone()
}

/// The regimes in parts, each of which is a test: they run side by side.
const PARTS: [&str; 3] = [
    "flat-out payloads one-by-one async-work latency backlog fleet persistence start-up ticks mixed adapt memory idle task \
     groups limits file",
    "replicas far failover handover redelivery",
    "shards",
];

/// Runs these regimes, and looks at what is true of every row.
fn part(regimes: &str, wanted: &[&str]) -> Vec<Value> {
    let rows = rows(&bench(&format!("--quick --json --regime {regimes}")));
    let names: BTreeSet<&str> = rows.iter().filter_map(|row| row["regime"].as_str()).collect();
    assert_eq!(names, wanted.iter().copied().collect());
    for row in &rows {
        assert!(row["value"].as_f64().is_some_and(|value| value >= 0.0), "{row}");
        assert!(row["unit"].as_str().is_some_and(|unit| !unit.is_empty()), "{row}");
        let (baseline, ratio) = (row["baseline"].as_f64(), row["ratio"].as_f64());
        assert_eq!(baseline.is_some(), ratio.is_some(), "{row}");
        assert!(ratio.is_none_or(|ratio| ratio > 0.0), "{row}");
        assert_eq!(row["target"].is_string(), row["reached"].is_boolean(), "{row}");
        if row["unit"] == "messages/s" && row["regime"] != "file" {
            assert!(row["value"].as_f64() > Some(0.0), "{row}");
            // What processes use is known on Linux only.
            let costs = ["redis_cpu_us", "commands", "client_cpu_us", "peak_rss_mb"];
            for cost in &costs[..if cfg!(target_os = "linux") { 4 } else { 2 }] {
                assert!(row[cost].as_f64() > Some(0.0), "{cost}: {row}");
            }
        }
    }
    rows
}

#[test]
fn every_regime_is_in_one_of_the_parts() {
    let output = bench("--regime nonsense");
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, known) = line.trim_end().split_once("there are ").expect("it names them");
    let mut known: Vec<&str> = known.split(", ").collect();
    let mut parts: Vec<&str> = PARTS.iter().flat_map(|part| part.split_whitespace()).collect();
    known.sort_unstable();
    parts.sort_unstable();
    assert_eq!(parts, known);
}

#[test]
fn every_regime_on_one_server_or_file_has_its_rows_with_all_that_was_measured() {
    let wanted = [
        "flat-out",
        "payloads 100 B",
        "payloads 1 KB",
        "payloads 16 KB",
        "one-by-one",
        "async-work",
        "latency p50",
        "latency p99",
        "backlog 10 M",
        "fleet 1",
        "fleet 3",
        "persistence everysec",
        "persistence always",
        "start-up",
        "ticks of 1 ms",
        "ticks of 2 ms",
        "mixed",
        "adapt to slower",
        "adapt to faster",
        "memory",
        "idle 10",
        "task",
        "groups 2000",
        "groups, a backlog",
        "groups 10",
        "limit 500/s",
        "limit 7/s",
        "limit 10/s of each of 20 groups",
        "file",
    ];
    let rows = part(PARTS[0], &wanted);
    let queued = |name: &str| {
        let row = rows.iter().find(|row| row["regime"] == name).expect("a row");
        row["queued_bytes"].as_f64().expect("measured")
    };
    // Measured, not made up: a message of 16 KB takes 16 KB and a little.
    assert!((16_000.0..20_000.0).contains(&queued("payloads 16 KB")), "{rows:?}");
}

#[test]
fn every_regime_with_faults_replicas_or_far_links_has_its_rows_with_all_that_was_measured() {
    let wanted = [
        "replicas beside, flat-out",
        "replicas beside, one-by-one",
        "replicas 5 ms away, flat-out",
        "replicas 5 ms away, one-by-one",
        "far 50 ms, flat-out",
        "far 200 ms, flat-out",
        "far 50 ms, 1 ms of work",
        "far 5 Mbit/s, 10 KB",
        "far 300 ms, depositions",
        "far 500 ms, depositions",
        "failover",
        "failover flat out",
        "failover frozen",
        "handover",
        "redelivery",
    ];
    part(PARTS[1], &wanted);
}

#[test]
fn the_regime_of_shards_has_its_rows_with_all_that_was_measured() {
    // What is on one server is what the others are compared with.
    let beside = [
        "",
        " on one server, Redis",
        " on one server, clients",
        ", Redis",
        ", clients",
        ", shares",
    ];
    let mut wanted = Vec::new();
    for (shards, whats) in [
        ("1 shard", &beside[..1]),
        ("2 shards", &beside[..]),
        ("4 shards", &beside[..]),
        ("8 shards", &beside[..]),
    ] {
        for load in ["one by one", "16 KB", "tiny"] {
            wanted.extend(whats.iter().map(|what| format!("{load}, {shards}{what}")));
        }
        wanted.push(format!("6 idle copies, {shards}"));
    }
    part(PARTS[2], &wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn on_a_redis_that_is_not_its_own_it_leaves_nothing_behind() {
    let server = RedisServer::start();
    server.command(&["SET", "theirs", "1"]).expect("set");
    let url = format!("--url redis://127.0.0.1:{}", server.port());
    let regimes = "--regime flat-out one-by-one latency mixed";
    let table = bench(&format!("{url} --quick {regimes}"));
    assert!(table.status.success(), "{}", said(&table));
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    for row in ["flat-out ", "one-by-one ", "latency p50 ", "mixed "] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    let keys: Vec<String> = redis::from_redis_value(server.command(&["KEYS", "*"]).expect("keys")).expect("names");
    assert_eq!(keys, ["theirs"]);
}

#[test]
fn of_a_cluster_one_server_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = Topology::start(Kind::Cluster, 1, directory.path(), Fsync::Never).expect("servers");
    for url in [cluster.url(), cluster.url_of(4)] {
        let regimes = "--regime flat-out one-by-one latency";
        let table = bench(&format!("--url {url} --quick {regimes}"));
        assert!(table.status.success(), "{}", said(&table));
    }
    for server in 0..cluster.len() {
        assert_eq!(
            cluster.ask::<Vec<String>>(server, &["KEYS", "{qr:bench-*"]),
            Ok(Vec::new())
        );
        assert_eq!(cluster.ask::<Vec<String>>(server, &["KEYS", "bench-*"]), Ok(Vec::new()));
    }
}

#[test]
fn what_cannot_be_measured_is_refused_in_a_line() {
    for (arguments, word) in [
        ("--regime nonsense", "flat-out"),
        ("--queue mine", "leave out --queue"),
        ("--url sqlite:/tmp/q.db", "plain Redis"),
        ("--url rediss://localhost", "TLS"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", said(&output));
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(line.contains(word) && line.lines().count() == 1, "{arguments}: {line}");
    }
}
