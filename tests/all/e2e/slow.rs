//! Links that are slow, and links on which what is large does not arrive, while beats do.

use queenright::app::lab::proxy::{Direction, Proxy};

use super::failover::{highest_epoch, wait_for_successor};
use super::push::{feed, good};
use crate::fleet::{Fleet, Line};
use crate::server::RedisServer;

fn proxy(server: &RedisServer) -> Proxy {
    Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy")
}

/// A link of so many bytes a second, each way.
fn slow(server: &RedisServer, bytes_per_s: u64) -> Proxy {
    let proxy = proxy(server);
    proxy.throttle(Direction::Requests, bytes_per_s);
    proxy.throttle(Direction::Replies, bytes_per_s);
    proxy
}

/// Copies that never generate, and take no time for a message.
fn handlers(server: &RedisServer) -> Fleet {
    let args = "--prefer never --concurrency 100 --work 0 --error-rate 0 --lease 20s";
    Fleet::on(server).copies(0).args(args).start()
}

fn push(fleet: &Fleet, messages: usize, bytes: usize) {
    let line = "x".repeat(bytes) + "\n";
    good(&feed(fleet, &["push"], &line.repeat(messages)));
}

fn count(lines: &[Line], copy: usize, event: &str) -> usize {
    lines.iter().filter(|line| line.copy == copy && line.is(event)).count()
}

#[test]
fn a_handler_on_a_slow_link_does_what_it_can_and_leaves_the_rest_to_others() {
    let server = RedisServer::start();
    let proxy = slow(&server, 800_000);
    let mut fleet = handlers(&server);
    push(&fleet, 200, 20_000);
    let there = fleet.add(&format!("--url redis://{}", proxy.address()));
    let pid = fleet.pid(there);
    fleet.wait_status("the slow one has taken some", |status| status.held_by(pid) > 0);
    fleet.wait_for("it has done some", |lines| count(lines, there, "done") > 0);
    let here = fleet.add("");
    let end = fleet.wait_through(200);
    assert_eq!((end.done, end.in_hand), (200, 0));
    fleet.wait_for("all lines are there", |lines| {
        count(lines, there, "done") + count(lines, here, "done") == 200
    });
    let lines = fleet.lines();
    let calm = lines.iter().all(|line| !line.is("away") && !line.is("redelivered"));
    assert!(calm, "no call was given up, and nothing was delivered twice");
}

#[test]
fn a_generator_on_a_slow_link_publishes_large_messages_at_its_speed_and_keeps_the_crown() {
    let server = RedisServer::start();
    let proxy = slow(&server, 250_000);
    let mut fleet = Fleet::on(&server)
        .copies(0)
        // A message takes longer than the crown's lease.
        .args("--messages 3 --interval 10ms --work 0 --error-rate 0 --lease 20s")
        .arg("--generate-each")
        .arg("sh -c 'yes xxxxxxx | head -c 900000'")
        .start();
    let there = fleet.add(&format!("--url redis://{}", proxy.address()));
    fleet.wait_for("it is elected", |lines| count(lines, there, "elected") == 1);
    let here = fleet.add("");
    fleet.wait_through(3);
    let lines = fleet.lines();
    assert_eq!(
        (count(&lines, there, "elected"), count(&lines, here, "elected")),
        (1, 0)
    );
}

#[test]
fn messages_that_do_not_get_through_to_a_handler_go_to_another() {
    let server = RedisServer::start();
    let proxy = proxy(&server);
    let mut fleet = handlers(&server);
    // Redis gets the scripts, which are large.
    let here = fleet.add("");
    push(&fleet, 1, 10);
    fleet.wait_through(1);
    fleet.term(here);
    fleet.wait_exit(here);

    proxy.swallow_beyond(15_000);
    push(&fleet, 100, 20_000);
    let there = fleet.add(&format!("--url redis://{} --lease 3s", proxy.address()));
    let pid = fleet.pid(there);
    fleet.wait_status("it is given some", |status| status.held_by(pid) > 0);
    fleet.add("");
    let end = fleet.wait_through(101);
    assert_eq!((end.done, end.in_hand), (101, 0));
    let lines = fleet.lines();
    assert_eq!((count(&lines, there, "joined"), count(&lines, there, "done")), (1, 0));
    let first = lines
        .iter()
        .filter(|line| line.is("done"))
        .all(|line| line.deliveries == Some(1));
    assert!(first, "nobody had begun with them");
}

#[test]
fn a_generator_whose_publishes_do_not_arrive_loses_the_crown_although_its_beats_do() {
    let server = RedisServer::start();
    let proxy = proxy(&server);
    let mut fleet = Fleet::on(&server)
        .copies(0)
        .args("--interval 10ms --lease 3s --work 0 --error-rate 0")
        .arg("--generate-each")
        .arg("sh -c 'yes xxxxxxx | head -c 20000'")
        .start();
    let there = fleet.add(&format!("--url redis://{}", proxy.address()));
    fleet.wait_for("it publishes", |lines| count(lines, there, "published") > 3);
    fleet.add("--prefer handler");
    fleet.wait_for("the other has joined", |lines| {
        lines.iter().filter(|line| line.is("joined")).count() == 2
    });
    let epoch = highest_epoch(&fleet);
    proxy.swallow_beyond(15_000);
    wait_for_successor(&fleet, there, epoch);
    fleet.wait_for_more("published", 3);
    let lines = fleet.lines();
    assert_eq!(count(&lines, there, "joined"), 1, "its beats went on");
}
