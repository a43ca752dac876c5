//! The generator dies, stalls or leaves, and another takes over.

use super::checks::{self, Lines};
use crate::fleet::{Fleet, Line};
use crate::server::RedisServer;

fn published_by(lines: &[Line], copy: usize) -> usize {
    lines
        .iter()
        .filter(|line| line.copy == copy && line.is("published"))
        .count()
}

pub fn highest_epoch(fleet: &Fleet) -> u64 {
    let lines = fleet.lines();
    let elected = lines.iter().filter(|line| line.is("elected"));
    elected
        .filter_map(|line| line.epoch)
        .max()
        .expect("someone was elected")
}

/// Another than `copy` was elected after `epoch`, and has published.
pub fn wait_for_successor(fleet: &Fleet, copy: usize, epoch: u64) {
    fleet.wait_for("another has taken over", |lines| {
        let published = lines.iter().filter(|line| line.is("published") && line.copy != copy);
        published.filter(|line| line.epoch > Some(epoch)).count() >= 3
    });
}

#[test]
fn another_copy_takes_over_when_the_generator_is_killed() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 50ms --lease 1s --work 0..50ms --error-rate 0.2")
        .start_led();
    for _ in 0..3 {
        fleet.wait_for_more("published", 5);
        let (generator, epoch) = (fleet.generator(), highest_epoch(&fleet));
        fleet.kill9(generator);
        fleet.add("");
        wait_for_successor(&fleet, generator, epoch);
    }
    assert!(fleet.status().epoch >= 4);
    let log = fleet.lines();
    assert!(log.iter().filter(|line| line.is("elected")).count() >= 4);
    checks::everything_so_far(&fleet, Lines::SomeLost);
}

#[test]
fn a_generator_that_was_stopped_for_longer_than_its_lease_rejoins_as_a_handler() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 50ms --lease 1s --work 0..50ms --error-rate 0.1")
        .start_led();
    fleet.wait_for_more("published", 5);
    let (old, epoch) = (fleet.generator(), highest_epoch(&fleet));
    let node = fleet.node(old);
    fleet.stop(old);
    fleet.wait_for("it is given up", |lines| {
        lines.iter().any(|line| line.fields["victim"] == node.as_str())
    });
    wait_for_successor(&fleet, old, epoch);
    let before = published_by(&fleet.lines(), old);
    fleet.cont(old);
    fleet.wait_for("it has joined again", |lines| {
        lines
            .iter()
            .filter(|line| line.copy == old && line.is("joined"))
            .count()
            >= 2
    });
    assert_ne!(fleet.node(old), node, "a new membership has a new id");
    fleet.wait_for("the old membership knows, and the new one handles", |lines| {
        let knows = lines.iter().any(|line| line.node == node && line.is("deposed"));
        let handled = |line: &Line| line.copy == old && (line.is("done") || line.is("error"));
        knows && lines.iter().any(|line| handled(line) && line.node != node)
    });
    checks::everything_so_far(&fleet, Lines::SomeLost);
    let log = fleet.lines();
    let late = log
        .iter()
        .filter(|line| line.node == node && line.is("published"))
        .count();
    assert!(late <= before, "it published after it woke");
}

#[test]
fn a_generator_that_was_stopped_for_longer_than_the_crowns_lease_stays_as_a_handler() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 50ms --lease 20s --work 0..20ms --error-rate 0.1")
        .start_led();
    fleet.wait_for_more("published", 5);
    let (old, epoch) = (fleet.generator(), highest_epoch(&fleet));
    let node = fleet.node(old);
    fleet.stop(old);
    wait_for_successor(&fleet, old, epoch);
    fleet.cont(old);
    fleet.wait_for("it knows that it was deposed", |lines| {
        lines
            .iter()
            .any(|line| line.node == node && line.is("deposed") && line.epoch == Some(epoch))
    });
    fleet.wait_for("it handles", |lines| {
        lines
            .iter()
            .any(|line| line.copy == old && (line.is("done") || line.is("error")))
    });
    assert_eq!(fleet.node(old), node, "its membership was never in doubt");
    checks::everything_so_far(&fleet, Lines::SomeLost);
}

#[test]
fn a_generator_that_is_told_to_stop_hands_over_without_missing_a_tick() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 500ms --work 0 --error-rate 0 --messages 12 --lease 2m")
        .start_led();
    fleet.wait_for_more("published", 2);
    let (old, epoch) = (fleet.generator(), highest_epoch(&fleet));
    fleet.term(old);
    assert_eq!(fleet.wait_exit(old).code(), Some(0));
    fleet.wait_for("it has left", |lines| {
        lines.iter().any(|line| line.copy == old && line.is("left"))
    });
    checks::everything(&fleet, 12, Lines::All);
    let log = fleet.lines();
    let mut published: Vec<_> = log.iter().filter(|line| line.is("published")).collect();
    published.sort_by_key(|line| line.number);
    let next = published
        .iter()
        .position(|line| line.epoch > Some(epoch))
        .expect("someone took over");
    let day_ms = 24 * 3600 * 1000;
    let gap_ms = (day_ms + published[next].at_ms() - published[next - 1].at_ms()) % day_ms;
    // Nobody waited for the crown's lease, which is 20 s here; how quick it is, the benchmark tells.
    assert!(
        gap_ms < 10_000,
        "{gap_ms} ms between the last of the old and the first of the new"
    );
    assert_eq!(fleet.status().nodes.len(), 2);
}
