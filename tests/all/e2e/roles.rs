//! One generates, the others handle.

use std::collections::BTreeSet;

use super::checks::{self, Lines};
use crate::fleet::Fleet;
use crate::server::RedisServer;

#[test]
fn exactly_one_of_five_copies_generates_and_the_others_handle() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(5)
        .args("--interval 20ms --messages 60 --work 0..20ms --error-rate 0.2 --lease 20s")
        .start_led();
    let status = fleet.wait_through(60);
    assert_eq!(status.nodes.len(), 5, "{status:?}");
    let roles: Vec<&str> = status.nodes.iter().map(|node| node.role.as_str()).collect();
    assert_eq!(
        roles.iter().filter(|role| **role == "generator").count(),
        1,
        "{status:?}"
    );
    assert_eq!(roles.iter().filter(|role| **role == "handler").count(), 4, "{status:?}");
    checks::everything(&fleet, 60, Lines::All);
    let log = fleet.lines();
    let of = |events: &[&str]| -> BTreeSet<usize> {
        let lines = log.iter().filter(|line| events.contains(&line.event.as_str()));
        lines.map(|line| line.copy).collect()
    };
    // A machine that stands still for long may cost a generator its crown; then roles change, as they should.
    if log.iter().filter(|line| line.is("elected")).count() == 1 {
        assert_eq!(of(&["published"]), BTreeSet::from([0]));
        assert_eq!(of(&["done", "error"]), BTreeSet::from([1, 2, 3, 4]));
    }
}

#[test]
fn a_copy_alone_generates_and_its_backlog_is_handled_when_the_next_one_comes() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --messages 30 --work 0 --error-rate 0")
        .start();
    let alone = fleet.wait_status("all are published", |status| status.published == 30);
    assert_eq!((alone.queued, alone.settled()), (30, 0), "{alone:?}");
    let next = fleet.add("");
    checks::everything(&fleet, 30, Lines::All);
    let log = fleet.lines();
    let done: Vec<_> = log.iter().filter(|line| line.is("done")).collect();
    assert!(
        done.iter().all(|line| line.copy == next || line.epoch > Some(1)),
        "{done:?}"
    );
    let numbers: Vec<_> = done.iter().filter_map(|line| line.number).collect();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>(), "oldest first");
}

#[test]
fn a_fleet_of_one_handles_too_when_told_to() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .args("--also-handle --interval 20ms --messages 30 --work 0 --error-rate 0.3")
        .start();
    checks::everything(&fleet, 30, Lines::All);
}

#[test]
fn a_handler_that_is_elected_in_the_middle_of_work_finishes_it_and_publishes_meanwhile() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(2)
        .args("--interval 50ms --lease 3s --work 5s --error-rate 0")
        .start_led();
    fleet.wait_status("the handler is at work", |status| status.held_by(fleet.pid(1)) == 1);
    fleet.kill9(0);
    fleet.wait_for("the handler has finished", |lines| {
        lines.iter().any(|line| line.is("done"))
    });
    let log = fleet.lines();
    let elected = log.iter().position(|line| line.copy == 1 && line.is("elected"));
    let elected = elected.expect("it was elected before it finished");
    let done = log.iter().position(|line| line.is("done")).expect("waited for");
    assert!(
        elected < done,
        "it finished before it was elected: the machine stood still?"
    );
    assert_eq!(
        (log[done].copy, log[done].number, log[done].deliveries),
        (1, Some(0), Some(1))
    );
    let meanwhile = log[elected..done].iter().filter(|line| line.is("published")).count();
    assert!(meanwhile >= 5, "{meanwhile} published between election and end of work");
    let status = fleet.wait_status("it holds nothing", |status| status.in_hand == 0);
    assert_eq!(status.done, 1, "a generator takes nothing more: {status:?}");
    checks::one_voice(&fleet.lines(), u64::MAX, Lines::SomeLost);
}

#[test]
fn a_handler_that_is_elected_gives_back_what_it_has_not_started() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(2)
        .args("--interval 0 --max-backlog 3000 --messages 4000 --lease 4s --work 1ms --error-rate 0")
        .start_led();
    fleet.wait_status("the handler has some speed", |status| status.done >= 50);
    fleet.kill9(0);
    fleet.wait_for("the handler is elected", |lines| {
        lines.iter().any(|line| line.copy == 1 && line.is("elected"))
    });
    let status = fleet.wait_status("it holds nothing", |status| {
        status.in_hand == 0 && status.nodes.len() == 1
    });
    assert!(status.queued > 0 && status.settled() < 4000, "{status:?}");
    fleet.add("--work 0");
    fleet.wait_through(4000);
    let log = fleet.lines();
    let again = log
        .iter()
        .find(|line| line.deliveries.is_some_and(|deliveries| deliveries > 1));
    assert!(again.is_none(), "what was given back counts as delivered: {again:?}");
    checks::everything(&fleet, 4000, Lines::SomeLost);
}
