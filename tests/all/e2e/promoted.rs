//! A replica without the last writes is promoted.

use std::collections::BTreeMap;
use std::time::Duration;

use queenright::app::lab::proxy::Proxy;

use super::push::{feed, good};
use crate::fleet::{Fleet, PATIENCE, within};
use crate::server::RedisServer;

/// What a copy logs of a message that it handled, or what was pushed.
type Given = BTreeMap<u64, String>;

fn note(given: &mut Given, number: u64, payload: &str) {
    let before = given.insert(number, payload.to_string());
    assert!(
        before.as_ref().is_none_or(|before| before == payload),
        "{number} is {payload:?}, and was {before:?}"
    );
}

#[test]
fn pushes_to_a_promoted_replica_use_no_number_that_a_living_node_has_seen() {
    let mut primary = RedisServer::start();
    let replica = RedisServer::start();
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).expect("a replica");
    let proxy = Proxy::start(([127, 0, 0, 1], primary.port()).into()).expect("a proxy");
    let mut fleet = Fleet::through(&proxy)
        .copies(3)
        .args("--interval 20ms --work 0 --error-rate 0")
        .start_led();
    fleet.wait_for_more("done", 20);
    within(PATIENCE, || {
        let copied = replica.command(&["HGET", &format!("{{qr:{}}}:meta", fleet.queue()), "seq"]);
        copied.is_ok_and(|seq| seq != redis::Value::Nil).then_some(())
    })
    .expect("it is replicated");

    replica.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    fleet.wait_for_more("done", 60);
    primary.kill();
    let there = Fleet::on(&replica).queue(fleet.queue()).copies(0).start();
    let pushed = std::thread::scope(|scope| {
        let lines: Vec<String> = (0..60).map(|line| format!("pushed {line}")).collect();
        let lines = lines.join("\n");
        let pushing = scope.spawn(move || good(&feed(&there, &["push"], &lines)));
        // The nodes come back a little later than those who push.
        std::thread::sleep(Duration::from_millis(300));
        proxy.upstream(([127, 0, 0, 1], replica.port()).into());
        proxy.cut();
        pushing.join().expect("pushed")
    });
    fleet.wait_for("all that was pushed is done", |lines| {
        let pushed = lines
            .iter()
            .filter(|line| line.is("done") && line.payload.starts_with("pushed"));
        pushed.count() == 60
    });
    fleet.wait_for("it tells of it", |lines| lines.iter().any(|line| line.is("rewound")));
    let mut given = Given::new();
    for (number, line) in pushed.lines().zip(0..) {
        note(&mut given, number.parse().expect("a number"), &format!("pushed {line}"));
    }
    for line in fleet
        .lines()
        .iter()
        .filter(|line| line.is("done") || line.is("published"))
    {
        note(&mut given, line.number.expect("numbered"), &line.payload);
    }
    fleet.nobody_exited_but(&[]);
}

#[test]
fn nodes_know_a_queue_that_was_purged_under_them_from_a_store_that_forgot() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(2)
        .args("--interval 10ms --work 0 --error-rate 0 --lease 1s")
        .start_led();
    fleet.wait_for_more("done", 20);
    good(&feed(&fleet, &["purge", "--yes", "--force"], ""));
    fleet.wait_for("both are told", |lines| {
        let told = |copy| {
            lines
                .iter()
                .filter(|line| line.copy == copy && line.is("purged"))
                .count()
                == 1
        };
        (0..2).all(told)
    });
    fleet.wait_for_more("done", 20);
    let lines = fleet.lines();
    assert!(!lines.iter().any(|line| line.is("rewound")), "nothing was forgotten");
    let purged = lines.iter().position(|line| line.is("purged")).expect("told");
    assert!(
        lines[purged..]
            .iter()
            .any(|line| line.is("published") && line.number == Some(0)),
        "numbers begin anew"
    );
    fleet.nobody_exited_but(&[]);
}
