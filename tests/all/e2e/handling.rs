//! Handlers die, stall or leave, and their messages get one outcome.

use std::time::{Duration, Instant};

use super::checks::{self, Lines};
use crate::fleet::{Fleet, PATIENCE, signal, within};
use crate::server::RedisServer;

/// Waits until the copy, which was told to be verbose, is at work on so many messages. That the store has handed them
/// out does not mean that: what is not started when the copy is told to stop is given back.
fn wait_started(fleet: &Fleet, copy: usize, count: usize) {
    fleet.wait_for("it is at work", |lines| {
        let started = lines.iter().filter(|line| line.copy == copy && line.is("started"));
        started.count() == count
    });
}

#[test]
fn what_a_killed_handler_held_is_delivered_again_and_settled_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 4 --concurrency 4 --work 0 --error-rate 0")
        .start_led();
    let doomed = fleet.add("--prefer never --work 60s");
    fleet.wait_status("it holds all four", |status| status.held_by(fleet.pid(doomed)) == 4);
    fleet.kill9(doomed);
    fleet.add("--prefer never");
    checks::everything(&fleet, 4, Lines::All);
    let log = fleet.lines();
    for event in ["redelivered", "done"] {
        let mut numbers: Vec<_> = log
            .iter()
            .filter(|line| line.is(event) && line.deliveries == Some(2))
            .collect();
        numbers.sort_by_key(|line| line.number);
        let numbers: Vec<_> = numbers.iter().filter_map(|line| line.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3], "{event}");
    }
}

#[test]
fn a_late_settle_of_a_handler_that_was_given_up_writes_nothing() {
    const WORK: Duration = Duration::from_secs(5);
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 1 --lease 1s --work 0 --error-rate 0")
        .start_led();
    // It would settle as an error what the other settles as done.
    let stalled = fleet.add("-v --prefer never --work 5s --error-rate 1");
    wait_started(&fleet, stalled, 1);
    let started = Instant::now();
    let node = fleet.node(stalled);
    fleet.stop(stalled);
    fleet.wait_for("it is given up", |lines| {
        lines.iter().any(|line| line.fields["victim"] == node.as_str())
    });
    fleet.add("--prefer never");
    fleet.wait_through(1);
    // Its work ends while it is stopped: it is about to settle when it goes on.
    std::thread::sleep(WORK.saturating_sub(started.elapsed()));
    fleet.cont(stalled);
    fleet.wait_for("it has joined again", |lines| {
        lines
            .iter()
            .filter(|line| line.copy == stalled && line.is("joined"))
            .count()
            >= 2
    });
    // It hears of its deposition at the first call, and of the outcome of its work nobody is told.
    fleet.wait_for("it knows", |lines| {
        lines.iter().any(|line| line.node == node && line.is("deposed"))
    });
    let status = fleet.status();
    assert_eq!((status.done, status.failed), (1, 0), "{status:?}");
    let log = fleet.lines();
    assert!(
        !log.iter()
            .any(|line| line.copy == stalled && (line.is("done") || line.is("error")))
    );
    checks::everything(&fleet, 1, Lines::All);
}

#[test]
fn a_message_that_was_delivered_too_often_is_an_error_that_says_so() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 1 --lease 1s --work 60s --error-rate 0 --max-deliveries 2")
        .start_led();
    for _ in 0..2 {
        let doomed = fleet.add("--prefer never");
        fleet.wait_status("it holds the message", |status| status.held_by(fleet.pid(doomed)) == 1);
        fleet.kill9(doomed);
    }
    let status = fleet.wait_through(1);
    assert_eq!((status.done, status.failed, status.errors), (0, 1, 1), "{status:?}");
    let errors = fleet.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (&errors[0]["number"], &errors[0]["deliveries"]),
        (&0.into(), &2.into()),
        "{errors:?}"
    );
    let text = errors[0]["error"].as_str().expect("checked above");
    assert!(text.contains("delivered 2 times"), "{text}");
}

#[test]
fn a_handler_that_is_told_to_stop_finishes_what_it_has_in_hand() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 3 --concurrency 3 --work 2s --error-rate 0 --lease 10s")
        .start_led();
    let leaving = fleet.add("-v");
    wait_started(&fleet, leaving, 3);
    fleet.term(leaving);
    assert_eq!(fleet.wait_exit(leaving).code(), Some(0));
    fleet.wait_for("it has left", |lines| {
        lines.iter().any(|line| line.copy == leaving && line.is("left"))
    });
    let log = fleet.lines();
    let done = log
        .iter()
        .filter(|line| line.copy == leaving && line.is("done") && line.deliveries == Some(1));
    assert_eq!(done.count(), 3);
    checks::everything(&fleet, 3, Lines::All);
}

#[test]
fn what_takes_longer_than_the_grace_is_handed_on_at_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 1 --lease 30s --grace 200ms --work 0 --error-rate 0")
        .start_led();
    let leaving = fleet.add("-v --work 100s");
    wait_started(&fleet, leaving, 1);
    fleet.add("");
    let told = Instant::now();
    fleet.term(leaving);
    assert_eq!(fleet.wait_exit(leaving).code(), Some(0));
    fleet.wait_through(1);
    assert!(
        told.elapsed().as_secs() < 25,
        "it waited for a lease: {:?}",
        told.elapsed()
    );
    checks::everything(&fleet, 1, Lines::All);
}

#[test]
fn a_second_signal_leaves_at_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 1 --lease 5s --grace 100s --work 100s --error-rate 0")
        .start_led();
    let leaving = fleet.add("-v");
    wait_started(&fleet, leaving, 1);
    fleet.term(leaving);
    // Signals in quick succession count as one, so the second is repeated until it is heard.
    let heard = within(PATIENCE, || {
        signal(fleet.pid(leaving), "INT");
        fleet.has_exited(leaving)
    });
    assert_eq!(heard.expect("it leaves").code(), Some(1));
    fleet.add("--work 0");
    checks::everything(&fleet, 1, Lines::All);
}

#[test]
fn a_message_that_takes_longer_than_the_timeout_is_an_error() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .args("--also-handle --interval 1ms --messages 2 --error-rate 0 --work 10m..11m --timeout 50ms --lease 30s")
        .start_joined();
    assert_eq!(fleet.wait_through(2).failed, 2);
    for error in fleet.errors() {
        assert_eq!(error["error"], "timed out after 50ms (setting timeout)");
    }
}
