//! Other programs as handlers in a container: process 1 buries whoever they leave behind.

use super::docker::{HARDENED, Yard, docker, done, logs, wait_health};
use crate::fleet::{PATIENCE, json_lines, said, within};

/// In the container: how many processes have ended, and are not waited for.
const ZOMBIES: &str = "cat /proc/[0-9]*/stat 2>/dev/null | cut -d')' -f2 | cut -c2 | grep -c Z";

fn zombies(id: &str) -> u64 {
    let output = docker(&format!("exec {id} sh -c {}", shell_words::quote(ZOMBIES)));
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number")
}

fn status(id: &str) -> serde_json::Value {
    let output = docker(&format!("exec {id} queenright status -h redis --json"));
    json_lines(&output.stdout).into_iter().next().unwrap_or_default()
}

#[test]
fn what_handlers_leave_behind_is_buried_and_no_exit_code_gets_lost() {
    let Some(yard) = Yard::open() else { return };
    let image = yard.with_shell();
    yard.redis();
    // Each leaves a process in a session of its own, which loses its parent and ends a little later.
    let handler = "sh -c \"setsid sleep 0.3 & read n; test $((n % 5)) -ne 0\"";
    let command = format!(
        "start -h redis --interval 20ms --messages 100 --also-handle --concurrency 4 --handle-each {}",
        shell_words::quote(handler)
    );
    let copy = yard.start(&format!("{HARDENED} --health-interval 1s"), &image, &command);
    let mut last = serde_json::Value::Null;
    let through = within(PATIENCE, || {
        last = status(&copy);
        (last["done"] == 80 && last["failed"] == 20).then_some(())
    });
    assert!(through.is_some(), "{last}: {}", logs(&copy));
    let buried = within(PATIENCE, || (zombies(&copy) == 0).then_some(()));
    let shown = done(&format!("top {copy} -o pid,ppid,stat,args"));
    assert!(buried.is_some(), "{} zombies: {shown}", zombies(&copy));
}

#[test]
fn a_container_whose_node_is_frozen_is_unhealthy_until_it_goes_on() {
    let Some(yard) = Yard::open() else { return };
    let image = yard.with_shell();
    let options = format!("{HARDENED} --tmpfs /tmp --health-interval 1s --health-timeout 5s --health-retries 2");
    let copy = yard.start(&options, &image, "start --url sqlite:/tmp/q.db --lease 30s --quiet");
    wait_health(&copy, "healthy");
    let node = "$(cat /proc/1/task/1/children)";
    for (signal, health) in [("STOP", "unhealthy"), ("CONT", "healthy")] {
        let sent = docker(&format!("exec {copy} sh -c 'kill -{signal} {node}'"));
        assert!(sent.status.success(), "{}", said(&sent));
        let line = wait_health(&copy, health);
        assert!(line.starts_with(health), "{line}");
    }
}
