//! Redis goes away and comes back: nobody exits, nothing is lost.

use std::time::Duration;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, signal};
use crate::server::RedisServer;

#[test]
fn a_redis_that_is_killed_and_restarted_loses_nothing() {
    let mut server = RedisServer::durable();
    let mut fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 20ms --messages 150 --work 0..50ms --error-rate 0.2")
        .start_led();
    for round in 1..=2 {
        fleet.wait_for_more("published", 20);
        server.restart();
        // Whoever finds a new connection that another part of its node has made tells nothing.
        fleet.wait_for("they are back", |lines| {
            lines.iter().filter(|line| line.is("reconnected")).count() >= 2 * round
        });
        fleet.wait_status("all are members", |status| status.nodes.len() == 4);
    }
    fleet.wait_through(150);
    fleet.nobody_exited_but(&[]);
    checks::everything(&fleet, 150, Lines::SomeLost);
}

#[test]
fn a_redis_that_stands_still_for_longer_than_every_lease_costs_nobody_its_membership() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 50ms --messages 40 --work 0..50ms --error-rate 0.2 --lease 4s")
        .start_led();
    fleet.wait_for_more("published", 10);
    signal(server.pid(), "STOP");
    // The scenario itself: longer than the lease.
    std::thread::sleep(Duration::from_secs(6));
    signal(server.pid(), "CONT");
    fleet.wait_through(40);
    fleet.nobody_exited_but(&[]);
    checks::nobody_given_up(&fleet.lines());
    checks::everything(&fleet, 40, Lines::SomeLost);
}

#[test]
fn forgotten_scripts_and_cut_connections_are_made_up_for() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 10ms --messages 200 --work 0..20ms --error-rate 0.2")
        .start_led();
    for _ in 0..10 {
        fleet.wait_for_more("published", 10);
        server.command(&["SCRIPT", "FLUSH"]).expect("flushed");
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).expect("killed");
    }
    fleet.wait_through(200);
    fleet.nobody_exited_but(&[]);
    checks::everything(&fleet, 200, Lines::SomeLost);
}

#[test]
fn a_redis_that_is_out_of_memory_for_a_while_deposes_nobody_and_goes_on() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 20ms --messages 100 --lease 4s --work 0..20ms --error-rate 0.2")
        .start_led();
    fleet.wait_for_more("published", 20);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).expect("set");
    let full = fleet.status();
    // The scenario itself: longer than the lease.
    std::thread::sleep(Duration::from_secs(6));
    let later = fleet.status();
    assert!(
        later.published <= full.published + 1,
        "published into full memory: {full:?} {later:?}"
    );
    assert_eq!(later.nodes.len(), 3, "{later:?}");
    checks::nobody_given_up(&fleet.lines());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).expect("set");
    fleet.wait_through(100);
    fleet.nobody_exited_but(&[]);
    checks::everything(&fleet, 100, Lines::SomeLost);
}
