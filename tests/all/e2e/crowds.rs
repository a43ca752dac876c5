//! Many copies, and many slots.

use std::cell::RefCell;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, PATIENCE, within};
use crate::server::RedisServer;

#[test]
fn fifty_copies_at_once_have_one_generator_and_settle_everything_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(50)
        .args("--interval 5ms --messages 500 --work 0..100ms --error-rate 0.15 --lease 20s")
        .start();
    let status = fleet.wait_status("all are there", |status| status.nodes.len() == 50);
    assert_eq!(
        status.nodes.iter().filter(|node| node.role == "generator").count(),
        1,
        "{status:?}"
    );
    assert_eq!(
        status
            .nodes
            .iter()
            .find(|node| node.role == "generator")
            .map(|node| &node.node),
        status.generator.as_ref()
    );
    fleet.wait_through(500);
    fleet.nobody_exited_but(&[]);
    checks::everything(&fleet, 500, Lines::All);
}

/// How many clients a server has, without the one that asks.
fn clients(server: &RedisServer) -> usize {
    let info = server.command(&["INFO", "clients"]).expect("INFO");
    let info: String = redis::from_redis_value(info).expect("text");
    let connected = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    connected.expect("it tells").trim().parse::<usize>().expect("a number") - 1
}

#[test]
fn a_copy_needs_two_connections_whatever_it_does() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(12)
        .args("--interval 5ms --messages 600 --work 20ms --concurrency 10 --error-rate 0 --lease 20s")
        .start();
    let counted = RefCell::new(Vec::new());
    fleet.wait_status("all have worked", |status| {
        if status.nodes.len() == 12 {
            counted.borrow_mut().push(clients(&server));
        }
        status.done == 600
    });
    // Most of the time: one node after the other looks for all, for a moment, and whoever asks has one, too.
    let mut counted = counted.into_inner();
    counted.sort_unstable();
    let usual = counted[counted.len() / 2];
    assert!(
        (2 * 12..=2 * 12 + 1).contains(&usual),
        "two for each of 12 copies, and one of who asks: {counted:?}"
    );
    checks::everything(&fleet, 600, Lines::All);
}

#[test]
fn a_copy_needs_two_connections_again_when_memory_was_full_for_a_while() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 5ms --work 20ms --concurrency 10 --error-rate 0 --lease 20s")
        .start_led();
    fleet.wait_for_more("done", 50);
    let wait = |what: &str, holds: fn(usize) -> bool| {
        let seen = within(PATIENCE, || holds(clients(&server)).then_some(()));
        assert!(seen.is_some(), "{what}: {} connections", clients(&server));
    };
    // Whatever ends a wait on the connection of calls is a write, and none is taken.
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).expect("set");
    wait("a handler waits elsewhere", |clients| clients > 2 * 3);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).expect("set");
    fleet.wait_for_more("done", 50);
    wait("all wait where they call", |clients| clients == 2 * 3);
    fleet.nobody_exited_but(&[]);
}

#[test]
fn one_copy_works_on_a_thousand_messages_at_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 0 --messages 3000 --work 0..1s --error-rate 0.15 --lease 20s")
        .start_led();
    fleet.add("--concurrency 1000");
    fleet.wait_status("a thousand are in hand", |status| status.in_hand >= 900);
    checks::everything(&fleet, 3000, Lines::All);
}
