//! Who dies is seen by its connection, and who only loses that keeps its place.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, Line, PATIENCE, within};
use crate::server::RedisServer;

/// Nothing in a test waits for as long as this.
const FOR_EVER: &str = "--lease 20m --work 20ms --error-rate 0.2 --interval 20ms";

/// The channels of the queue, in the line that makes a user.
const CHANNELS: &str = "&{qr:QUEUE}:*";

/// One who holds something, and does not generate.
fn busy_handler(fleet: &Fleet) -> usize {
    let holds = |status: &crate::fleet::Status, copy: usize| status.held_by(fleet.pid(copy)) > 0;
    let generator = fleet.generator();
    let others = || (0..fleet.len()).filter(|copy| *copy != generator);
    let status = fleet.wait_status("a handler is busy", |status| others().any(|copy| holds(status, copy)));
    others().find(|copy| holds(&status, *copy)).expect("it was there")
}

fn kills_are_seen(mut fleet: Fleet) {
    // Long enough for everybody to be seen.
    fleet.wait_for_more("published", 100);
    let handler = busy_handler(&fleet);
    fleet.kill9(handler);
    fleet.wait_for("what it held is handed on", |lines| {
        lines.iter().any(|line| line.is("reaped"))
    });
    fleet.wait_for_more("published", 1);
    let generator = fleet.generator();
    fleet.kill9(generator);
    fleet.wait_for("another is crowned", |lines| {
        lines.iter().filter(|line| line.is("elected")).count() >= 2
    });
    fleet.wait_status("both were given up", |status| status.nodes.len() == 3);
    fleet.nobody_exited_but(&[handler, generator]);
    checks::everything_so_far(&fleet, Lines::SomeLost);
}

#[test]
fn whoever_is_killed_is_followed_although_its_lease_would_run_for_minutes() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(5).args(FOR_EVER);
    kills_are_seen(fleet.start_led());
}

#[test]
fn whoever_is_killed_is_followed_in_a_file_as_well() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("queue.db");
    let fleet = Fleet::in_file(&file).copies(5).args(FOR_EVER);
    kills_are_seen(fleet.start_led());
    let left = std::fs::read_dir(directory.path()).expect("a directory");
    let left = left.map(|file| file.expect("readable").path());
    let shown = left.filter(|path| path.extension().is_some_and(|end| end == "alive"));
    assert_eq!(shown.count(), 3, "of those that were killed nothing is left");
}

#[test]
fn a_redis_that_restarts_deposes_nobody() {
    let mut server = RedisServer::durable();
    let mut fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 20ms --work 0 --error-rate 0 --lease 10s")
        .start_led();
    fleet.wait_for_more("published", 20);
    let before = fleet.status();
    for _ in 0..2 {
        server.restart();
        fleet.wait_for_more("published", 10);
        fleet.wait_status("all are seen", |status| status.nodes.iter().all(|node| node.watched));
    }
    fleet.nobody_exited_but(&[]);
    checks::everything_so_far(&fleet, Lines::SomeLost);
    checks::nobody_given_up(&fleet.lines());
    assert_eq!(fleet.status().epoch, before.epoch, "the crown has stayed");
}

#[test]
fn connections_that_break_again_and_again_cannot_make_the_crown_wander() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 20ms --messages 200 --work 0 --error-rate 0")
        .start_led();
    let before = fleet.status().epoch;
    for _ in 0..60 {
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).expect("killed");
        // The scenario itself: a connection that lasts for moments.
        std::thread::sleep(Duration::from_millis(30));
    }
    fleet.wait_through(200);
    fleet.nobody_exited_but(&[]);
    // After three losses nobody goes by the connection of a node for a while; by then each may have lost the crown three times.
    let moved = fleet.status().epoch - before;
    assert!(moved <= 3 * 4, "the crown has moved {moved} times");
    checks::everything(&fleet, 200, Lines::SomeLost);
}

#[test]
fn who_may_not_subscribe_works_by_leases() {
    let server = RedisServer::durable();
    if server.command(&["ACL", "DRYRUN", "default", "PING"]).is_err() {
        return;
    }
    let url = format!("--url {}", server.bee("deaf", CHANNELS));
    let mut fleet = Fleet::on(&server)
        .queue("deaf")
        .copies(3)
        .args("--interval 20ms --messages 100 --work 5ms --error-rate 0")
        .args(&url)
        .start_led();
    fleet.wait_for_more("published", 20);
    assert!(fleet.status().nodes.iter().all(|node| !node.watched));
    let generator = fleet.generator();
    fleet.kill9(generator);
    fleet.wait_through(100);
    fleet.nobody_exited_but(&[generator]);
    checks::everything(&fleet, 100, Lines::SomeLost);
}

#[test]
fn who_may_subscribe_at_last_is_watched_and_goes_on_beating() {
    let server = RedisServer::start();
    let url = format!("--url {}", server.bee("granted", CHANNELS));
    let mut fleet = Fleet::on(&server)
        .queue("granted")
        .copies(3)
        .args("--interval 20ms --work 5ms --error-rate 0 --lease 1s")
        .args(&url)
        .start_led();
    fleet.wait_for_more("published", 20);
    // Who knows that it may not subscribe connects without.
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).expect("killed");
    fleet.wait_for_more("published", 20);
    server
        .command(&["ACL", "SETUSER", "bee", "&{qr:granted}:*"])
        .expect("a right more");
    fleet.wait_status("all are watched", |status| {
        status.nodes.len() == 3 && status.nodes.iter().all(|node| node.watched)
    });
    let generator = fleet.generator();
    fleet.kill9(generator);
    fleet.wait_for("one that beats is crowned", |lines| {
        lines.iter().filter(|line| line.is("elected")).count() >= 2
    });
    fleet.wait_for_more("published", 50);
    fleet.wait_for_more("done", 50);
    let is_stuck = |line: &Line| line.fields.to_string().contains("allowed in this context");
    assert!(!fleet.lines().iter().any(is_stuck));
    fleet.nobody_exited_but(&[generator]);
}

#[test]
fn who_may_look_again_looks_again() {
    let server = RedisServer::start();
    let url = format!("--url {}", server.bee("blind", ""));
    let fleet = Fleet::on(&server)
        .queue("blind")
        .args("--interval 20ms --also-handle --work 0 --error-rate 0 --lease 1s")
        .args(&url)
        .start_led();
    let looks = |least: u64| within(PATIENCE, || (server.counted("pubsub").0 >= least).then_some(()));
    assert!(looks(10).is_some(), "it looks at whoever is there");
    let has_right = |sign: &str| {
        let right = format!("{sign}pubsub|numsub");
        let right = if sign == "-" { "-pubsub" } else { right.as_str() };
        server.command(&["ACL", "SETUSER", "bee", right]).expect("a right");
    };
    has_right("-");
    let refused = within(PATIENCE, || (server.counted("pubsub").1 > 0).then_some(()));
    assert!(refused.is_some(), "it has tried to look");
    has_right("+");
    fleet.wait_for_more("published", 20);
    // Now and then a copy looks for another reason: for its report.
    assert!(looks(server.counted("pubsub").0 + 50).is_some(), "it looks again");
}

#[test]
fn with_no_watch_nobody_subscribes_and_leases_tell() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--no-watch --interval 20ms --messages 100 --work 5ms --error-rate 0")
        .start_led();
    fleet.wait_for_more("published", 20);
    let generator = fleet.generator();
    fleet.kill9(generator);
    fleet.wait_through(100);
    let stats = server.command(&["INFO", "commandstats"]).expect("INFO");
    let stats: String = redis::from_redis_value(stats).expect("text");
    assert!(stats.contains("cmdstat_evalsha"), "{stats}");
    assert!(!stats.contains("cmdstat_subscribe"), "{stats}");
    assert!(fleet.status().nodes.iter().all(|node| !node.watched));
    fleet.nobody_exited_but(&[generator]);
    checks::everything(&fleet, 100, Lines::SomeLost);
}

/// Stands before a server, and closes each connection on which something subscribes: as proxies do that know only plain commands. After so many, it
/// lets them be.
fn deaf_proxy(port: u16, times: usize) -> u16 {
    let left = Arc::new(AtomicUsize::new(times));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let ours = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                continue;
            };
            let both = [(&client, &server, true), (&server, &client, false)];
            for (from, to, asks) in both {
                let copies = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                let ((mut from, mut to), left) = (copies.expect("another handle"), left.clone());
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 65536];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        let subscribes = bytes[..count].windows(11).any(|word| word == b"\r\nSUBSCRIBE");
                        let fewer = |left: usize| left.checked_sub(1);
                        let closes = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok();
                        if (asks && subscribes && closes()) || to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            }
        }
    });
    ours
}

#[test]
fn behind_a_proxy_that_closes_on_subscribe_leases_tell() {
    let server = RedisServer::start();
    let url = format!("--url redis://127.0.0.1:{}", deaf_proxy(server.port(), usize::MAX));
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 20ms --messages 100 --work 5ms --error-rate 0")
        .args(&url)
        .start_led();
    fleet.wait_for_more("published", 20);
    assert!(fleet.status().nodes.iter().all(|node| !node.watched));
    let generator = fleet.generator();
    fleet.kill9(generator);
    fleet.wait_through(100);
    fleet.nobody_exited_but(&[generator]);
    checks::everything(&fleet, 100, Lines::SomeLost);
}

#[test]
fn a_subscription_that_is_cut_once_is_made_again() {
    let server = RedisServer::start();
    let url = format!("--url redis://127.0.0.1:{}", deaf_proxy(server.port(), 1));
    let fleet = Fleet::on(&server)
        .args("--interval 20ms --also-handle --work 0 --error-rate 0 --lease 1s")
        .args(&url)
        .start_led();
    fleet.wait_status("it is watched", |status| status.nodes.iter().any(|node| node.watched));
    fleet.wait_for_more("published", 50);
    fleet.wait_for_more("done", 50);
    let lines = fleet.lines();
    assert!(!lines.iter().any(|line| line.is("away") || line.is("deposed")));
}
