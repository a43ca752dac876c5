//! Redis goes away and comes back: nobody exits, nothing is lost.

use std::time::{Duration, Instant};

use super::checks::{self, Lines};
use crate::fleet::{Fleet, Line, PATIENCE, signal, within};
use crate::server::RedisServer;

/// So many commands a second of one copy are no storm, those inside of scripts counted.
const CALM: f64 = 100.0;

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
        for kind in ["normal", "pubsub"] {
            server.command(&["CLIENT", "KILL", "TYPE", kind]).expect("killed");
        }
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

/// A figure of INFO.
fn figure(server: &RedisServer, name: &str) -> f64 {
    let said = server.command(&["INFO", "stats"]).expect("an answer");
    let said: String = redis::from_redis_value(said).expect("text");
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|figure| figure.trim().parse().ok()).expect("a figure")
}

/// The scenario itself: some seconds of it. What a busy machine does less of in this time makes the rate smaller.
fn calls_a_second(server: &RedisServer) -> f64 {
    let asked = || figure(server, "total_commands_processed") + figure(server, "total_connections_received");
    let (before, since) = (asked(), Instant::now());
    std::thread::sleep(Duration::from_secs(4));
    (asked() - before) / since.elapsed().as_secs_f64()
}

#[test]
fn who_may_not_wait_at_the_bell_asks_now_and_then_and_not_all_the_time() {
    let server = RedisServer::start();
    let url = format!("--url {}", server.bee("bell", ""));
    let mut fleet = Fleet::on(&server)
        .queue("bell")
        .copies(3)
        .args("--interval 400ms --work 0 --error-rate 0")
        .args(&url)
        .start_led();
    fleet.wait_for_more("done", 3);
    let before = calls_a_second(&server);
    let bee = |right: &str| {
        let set = ["ACL", "SETUSER", "bee", right];
        server.command(&set).expect("a right");
    };
    bee("-blpop");
    // How often each copy has told of it.
    let told = |lines: &[Line]| {
        let of = lines.iter().filter(|line| line.is("away"));
        let of = of.filter(|line| line.fields.to_string().contains("blpop"));
        of.fold([0; 3], |mut told, line| {
            told[line.copy] += 1;
            told
        })
    };
    fleet.wait_for("both handlers tell of it", |lines| {
        told(lines).iter().filter(|times| **times > 0).count() >= 2
    });
    let more = calls_a_second(&server) - before;
    assert!(more < 3.0 * CALM, "{more} calls a second more of three copies");
    fleet.wait_for_more("done", 3);
    let told = told(&fleet.lines());
    assert!(told.iter().all(|times| *times <= 1), "each tells of it once: {told:?}");
    let waited = server.counted("blpop").0;
    bee("+blpop");
    let waits = within(PATIENCE, || (server.counted("blpop").0 > waited + 2).then_some(()));
    assert!(waits.is_some(), "they wait at the bell again");
    fleet.wait_for_more("done", 3);
    fleet.nobody_exited_but(&[]);
}

#[test]
fn a_primary_that_lacks_replicas_is_asked_now_and_then_and_not_all_the_time() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 5ms --work 0 --error-rate 0")
        .start_led();
    fleet.wait_for_more("done", 20);
    let wants = |replicas| {
        let set = ["CONFIG", "SET", "min-replicas-to-write", replicas];
        server.command(&set).expect("set");
    };
    wants("1");
    fleet.wait_for("it is told", |lines| {
        let told = |line: &Line| line.is("away") && line.fields.to_string().contains("NOREPLICAS");
        lines.iter().any(told)
    });
    let each_second = calls_a_second(&server);
    assert!(each_second < 3.0 * CALM, "{each_second} calls a second of three copies");
    wants("0");
    fleet.wait_for_more("done", 20);
    fleet.nobody_exited_but(&[]);
}
