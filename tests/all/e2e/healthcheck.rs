//! `healthcheck`: what a container runtime asks. Other tests run beside this one, so each asks about its own process only.

use std::process::Output;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, PATIENCE, program, said, signal, within};
use crate::server::RedisServer;

fn ask(pid: u32) -> Output {
    let mut command = program();
    // A store that is no store: it is not asked.
    command.env("REDIS_URL", "redis://nowhere.invalid");
    command
        .args(["healthcheck", "--pid", &pid.to_string()])
        .output()
        .expect("it starts")
}

fn is_well(output: &Output) -> bool {
    output.status.code() == Some(0) && output.stdout.starts_with(b"healthy: ")
}

/// Until it answers so, in one line.
fn wait_for(pid: u32, words: &str) {
    let mut last = None;
    let answered = within(PATIENCE, || {
        let output = last.insert(ask(pid));
        let line = String::from_utf8_lossy(&output.stdout);
        (line.contains(words) && line.lines().count() == 1 && output.stderr.is_empty()).then_some(())
    });
    assert!(answered.is_some(), "{words}: {}", said(&last.expect("asked")));
}

#[test]
#[cfg(target_os = "linux")]
fn a_copy_is_healthy_while_it_works_and_while_its_store_is_away_and_unhealthy_when_frozen() {
    let mut server = RedisServer::durable();
    let mut fleet = Fleet::on(&server)
        .args("--interval 10ms --messages 50 --work 0")
        .start_led();
    fleet.add("");
    let pids = [fleet.pid(0), fleet.pid(1)];
    wait_for(pids[0], "generates");
    wait_for(pids[1], "handles");
    server.kill();
    for pid in &pids {
        let output = ask(*pid);
        assert!(is_well(&output), "the store is away: {}", said(&output));
    }
    signal(pids[1], "STOP");
    let output = ask(pids[1]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("unhealthy: process {} does not answer\n", pids[1])
    );
    signal(pids[1], "CONT");
    server.restart();
    assert!(within(PATIENCE, || is_well(&ask(pids[1])).then_some(())).is_some());
    checks::everything(&fleet, 50, Lines::All);
}

#[test]
#[cfg(target_os = "linux")]
fn where_nobody_runs_nobody_is_healthy() {
    let output = ask(std::process::id());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(
        line.starts_with("unhealthy: no queenright start or dashboard runs here"),
        "{line}"
    );
}
