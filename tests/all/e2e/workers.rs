//! Workers: copies with a handler and without a generator, on a queue that others fill. And queues that nobody works on.

use crate::fleet::{Fleet, Line, said};
use crate::server::RedisServer;

fn run(fleet: &Fleet, args: &[&str]) -> String {
    let output = fleet.command(args).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_copy_with_a_handler_and_without_a_generator_only_handles() {
    let server = RedisServer::start();
    for handler in ["--handle-each", "--handle", "--handle http://127.0.0.1:1/"] {
        let mut plan = Fleet::on(&server).args("--lease 30s").args(handler);
        if !handler.contains("http") {
            plan = plan.arg(if handler == "--handle" {
                r#"sh -c "while read -r line; do echo '{\"ok\":true}'; done""#
            } else {
                "true"
            });
        }
        let fleet = plan.start_joined();
        fleet.wait_for("it says that it only handles", |lines| {
            lines.iter().any(|line| line.is("worker"))
        });
        let said = fleet.lines().iter().filter(|line| line.is("worker")).count();
        assert_eq!(said, 1, "{handler}: it is said once");
        run(&fleet, &["push", "a", "b", "c"]);
        let status = fleet.wait_status("all have gone their way", |status| {
            status.done + status.later == 3 && status.queued + status.in_hand == 0
        });
        assert_eq!(
            (status.generator, status.epoch, status.published),
            (None, 0, 3),
            "{handler}"
        );
    }
}

#[test]
fn a_generator_for_which_nobody_handles_says_so_once_and_status_does_too() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--lease 30s --interval 20ms --messages 5 --work 0 --error-rate 0 --quiet")
        .start_led();
    fleet.wait_for("it says that nobody handles", |lines| {
        lines.iter().any(|line| line.is("unhandled"))
    });
    fleet.wait_status("all are published", |status| status.queued == 5);
    let text = run(&fleet, &["status"]);
    assert!(
        text.contains("the only copy generates") && text.contains("--also-handle"),
        "{text}"
    );
    let json = run(&fleet, &["status", "--json"]);
    assert!(json.contains(r#""nobody_handles":true"#), "{json}");
    fleet.add("");
    fleet.wait_through(5);
    let text = run(&fleet, &["status"]);
    assert!(!text.contains("unhandled"), "{text}");
    let told = fleet.lines().iter().filter(|line| line.is("unhandled")).count();
    assert_eq!(told, 1);
}

#[test]
fn a_queue_without_a_living_copy_says_so_as_long_as_messages_wait() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server).args("--lease 30s --handle-each true").start_joined();
    fleet.term(0);
    assert!(fleet.wait_exit(0).success());
    let text = run(&fleet, &["status"]);
    assert!(!text.contains("unhandled"), "{text}");
    run(&fleet, &["push", "a"]);
    let text = run(&fleet, &["status"]);
    assert!(
        text.contains("unhandled  messages wait, and no copy is alive"),
        "{text}"
    );
}

#[test]
fn at_equal_load_whoever_was_idle_longest_is_woken() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(5)
        // Each of four handlers is idle for three ticks, and longer than a beat.
        .args("--interval 200ms --work 0 --error-rate 0 --prefer either --lease 20s")
        .start_led();
    let first = fleet.status().published + 8;
    let counted = first..first + 40;
    let is_counted = |line: &&Line| line.is("done") && line.number.is_some_and(|number| counted.contains(&number));
    fleet.wait_for("40 messages are done", |lines| {
        lines.iter().filter(is_counted).count() == 40
    });
    let mut done = std::collections::BTreeMap::new();
    for line in fleet.lines().iter().filter(is_counted) {
        *done.entry(line.copy).or_insert(0) += 1;
    }
    // In turn: 40 messages among four. A machine that stands still may cost one its turn.
    let few: Vec<_> = done.values().filter(|count| **count >= 7).collect();
    assert!(few.len() >= 4, "{done:?}");
}
