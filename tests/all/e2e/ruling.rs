//! `pause`, `resume`, `handover`, `nodes`, `drain`, `purge`, `--burst` and `--prefer`.

use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, json_lines, said};
use crate::server::RedisServer;

fn run(fleet: &Fleet, args: &str) -> String {
    let args: Vec<&str> = args.split_whitespace().collect();
    good(&feed(fleet, &args, ""))
}

/// It failed with this code, and says this.
fn fails(fleet: &Fleet, args: &str, code: i32, word: &str) {
    let args: Vec<&str> = args.split_whitespace().collect();
    let output = feed(fleet, &args, "");
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(word),
        "{}",
        said(&output)
    );
}

#[test]
fn what_is_paused_stands_still_until_it_is_resumed() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 5ms --work 0 --error-rate 0 --lease 10s")
        .start_led();
    fleet.wait_for_more("done", 5);
    let paused: Value = serde_json::from_str(&run(&fleet, "pause handlers --json")).expect("JSON");
    assert_eq!(
        paused["paused"],
        serde_json::json!({"generator": false, "handlers": true})
    );
    let told = |event: &'static str, what: &'static str| {
        fleet.wait_for("every node tells of it", move |lines| {
            let told = lines.iter().filter(|line| line.is(event));
            let of_this = told.filter(|line| line.fields["what"].as_str().unwrap_or_default() == what);
            of_this
                .map(|line| line.copy)
                .collect::<std::collections::BTreeSet<_>>()
                .len()
                == 3
        });
    };
    told("paused", "handlers");
    let then = fleet.wait_status("nothing is in hand", |status| status.in_hand == 0);
    let grown = fleet.wait_status("the generator goes on", |status| status.queued > then.queued + 20);
    assert_eq!(grown.done, then.done, "{grown:?}");
    assert!(run(&fleet, "pause").contains("generator and handlers"));
    let still = fleet.status();
    fails(&fleet, "drain --timeout 100ms", 1, "queued");
    assert_eq!(fleet.status().published, still.published);
    run(&fleet, "resume handlers");
    assert_eq!(run(&fleet, "drain"), "", "the generator is still paused");
    let drained = fleet.status();
    assert_eq!(
        (drained.published, drained.done),
        (still.published, still.published),
        "{drained:?}"
    );
    assert!(run(&fleet, "resume").contains("nothing"));
    told("resumed", "");
    fleet.wait_status("it publishes again", |status| status.published > drained.published);
}

#[test]
fn the_crown_is_moved_to_a_node_and_to_any_other_without_a_gap_in_the_numbers() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 10ms --work 0 --error-rate 0 --lease 30s")
        .start_led();
    fleet.wait_for_more("published", 5);
    let listed = json_lines(run(&fleet, "nodes --json").as_bytes());
    let nodes = listed[0].as_array().expect("an array");
    assert_eq!(nodes.len(), 3);
    assert_eq!(
        nodes.iter().filter(|node| node["role"] == "generator").count(),
        1,
        "{nodes:?}"
    );
    assert!(run(&fleet, "nodes").contains(&fleet.node(2)));
    let heir = fleet.node(2);
    let told = run(&fleet, &format!("handover {heir}"));
    assert!(told.starts_with(&heir), "{told}");
    assert_eq!(fleet.status().generator, Some(heir.clone()));
    let again = run(&fleet, &format!("handover {heir}"));
    assert!(again.contains("already"), "{again}");
    fleet.wait_for("it publishes", |lines| {
        lines.iter().any(|line| line.is("published") && line.node == heir)
    });
    run(&fleet, "handover");
    assert_ne!(fleet.status().generator, Some(heir));
    fails(&fleet, "handover nobody", 1, "nobody");
    fleet.wait_for_more("published", 5);
    super::checks::one_voice(&fleet.lines(), u64::MAX, super::checks::Lines::SomeLost);
}

#[test]
fn a_node_alone_keeps_the_crown_and_so_does_one_whose_others_never_generate() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server).args("--interval 10ms --lease 30s").start_led();
    fleet.add("--prefer never");
    fleet.wait_for("both have joined", |lines| {
        lines.iter().filter(|line| line.is("joined")).count() == 2
    });
    fails(&fleet, "handover --timeout 300ms", 1, "no other node");
    assert_eq!(fleet.status().generator, Some(fleet.node(0)));
}

#[test]
fn a_copy_that_prefers_to_generate_takes_the_crown_and_one_that_prefers_not_gives_it_up() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 10ms --work 0 --lease 30s --prefer handler")
        .start_led();
    let plain = fleet.add("--prefer either");
    fleet.wait_status("one that does not mind generates", |status| {
        status
            .nodes
            .iter()
            .any(|node| node.role == "generator" && node.pid == u64::from(fleet.pid(plain)))
    });
    let keen = fleet.add("--prefer generator");
    fleet.wait_status("one that is keen generates", |status| {
        status
            .nodes
            .iter()
            .any(|node| node.role == "generator" && node.pid == u64::from(fleet.pid(keen)))
    });
}

#[test]
fn a_burst_handles_what_is_there_and_exits() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(0)
        .args("--work 0 --error-rate 0 --concurrency 4")
        .start();
    let lines = "a line\n".repeat(300);
    good(&feed(&fleet, &["push"], &lines));
    good(&feed(&fleet, &["push", "--delay", "1h", "later"], ""));
    let copies = [fleet.add("--burst"), fleet.add("--burst")];
    for copy in copies {
        assert_eq!(fleet.wait_exit(copy).code(), Some(0));
    }
    let status = fleet.status();
    assert_eq!(
        (status.done, status.later, status.nodes.len()),
        (300, 1, 0),
        "{status:?}"
    );
    assert_eq!(
        (status.published, status.epoch),
        (301, 0),
        "it never generates: {status:?}"
    );
}

#[test]
fn a_fleet_that_never_generates_hands_on_what_its_dead_held() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(0)
        .args("--prefer never --error-rate 0 --lease 1s")
        .start();
    good(&feed(&fleet, &["push", "poor thing"], ""));
    fleet.add("--work 1h");
    fleet.wait_status("it is in hand", |status| status.in_hand == 1);
    fleet.kill9(0);
    fleet.add("--work 0");
    let status = fleet.wait_through(1);
    assert_eq!((status.done, status.epoch), (1, 0), "{status:?}");
}

#[test]
fn a_queue_is_purged_when_nobody_works_on_it_or_by_force() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(2)
        .args("--interval 10ms --work 0 --error-rate 0.5 --lease 30s")
        .start();
    fleet.wait_for_more("done", 5);
    fails(&fleet, "purge", 2, "--yes");
    fails(&fleet, "purge --yes", 1, "2 nodes");
    for copy in 0..2 {
        fleet.term(copy);
        assert_eq!(fleet.wait_exit(copy).code(), Some(0));
    }
    let other = Fleet::on(&server).copies(0).start();
    good(&feed(&other, &["push", "of another queue"], ""));
    assert!(run(&fleet, "purge --yes").contains(fleet.queue()));
    fails(&fleet, "status", 1, "no queue");
    let keys = server
        .command(&["KEYS", &format!("{{qr:{}}}*", fleet.queue())])
        .expect("keys");
    assert_eq!(keys, redis::Value::Array(Vec::new()), "all of it");
    assert_eq!(other.status().queued, 1, "and nothing else");
    fails(&fleet, "drain", 1, "no queue");
}

#[test]
fn the_same_commands_work_on_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut fleet = Fleet::in_file(&directory.path().join("queue.db"))
        .copies(2)
        .args("--interval 10ms --work 0 --error-rate 0 --lease 30s")
        .start_led();
    fleet.wait_for_more("done", 5);
    let heir = fleet.node(1);
    assert!(run(&fleet, &format!("handover {heir}")).starts_with(&heir));
    run(&fleet, "pause generator");
    run(&fleet, "drain");
    assert_eq!(run(&fleet, "push --key k one").lines().count(), 1);
    run(&fleet, "drain");
    fails(&fleet, "purge --yes", 1, "nodes");
    for copy in 0..2 {
        fleet.kill9(copy);
    }
    run(&fleet, "purge --yes --force");
    fails(&fleet, "nodes", 1, "no queue");
}
