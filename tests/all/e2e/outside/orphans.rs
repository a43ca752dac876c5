//! A node that is killed takes the processes with it that it has started.

use super::{Workshop, wait_gone};
use crate::fleet::{self, Fleet, PATIENCE, within};

/// Says who it is and what it has started, and stays whatever happens to its pipes.
const STAYS: &str = r#"
trap '' TERM HUP INT PIPE
sleep 100000 &
echo "$$ $!" > $HERE/new-$1
mv $HERE/new-$1 $HERE/$1
while :; do sleep 1000; done
"#;

/// Waits for what a script wrote.
fn said(workshop: &Workshop, name: &str) -> Vec<String> {
    let text = within(PATIENCE, || Some(workshop.read(name)).filter(|text| !text.is_empty()));
    text.expect("the command has run")
        .split_whitespace()
        .map(String::from)
        .collect()
}

/// The process that a node has set to watch over its children.
fn watcher_of(node: u32) -> Option<String> {
    let threads = std::fs::read_dir(format!("/proc/{node}/task")).ok()?.flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> = children
        .flat_map(|text| text.split_whitespace().map(String::from).collect::<Vec<_>>())
        .collect();
    let watches = |pid: &String| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("watch-children")
    };
    children.into_iter().find(watches)
}

#[test]
fn kill_9_of_a_node_ends_all_that_it_has_started() {
    let workshop = Workshop::new();
    let script = workshop.script("stays.sh", STAYS);
    for (name, role) in [
        (
            "each",
            "--also-handle --interval 1ms --messages 2 --concurrency 2 --handle-each",
        ),
        ("child", "--also-handle --interval 1ms --messages 1 --handle"),
        ("lines", "--generate"),
        ("made", "--generate-each"),
    ] {
        let plan = workshop.fleet().args(role).arg(&format!("{script} {name}"));
        let mut fleet = plan.start_joined();
        let started = said(&workshop, name);
        fleet.kill9(0);
        assert_eq!(started.len(), 2, "{started:?}");
        for pid in &started {
            wait_gone(pid);
        }
    }
}

#[test]
fn a_watcher_that_is_killed_is_replaced_and_none_outlives_its_node() {
    let workshop = Workshop::new();
    let script = workshop.script("stays.sh", STAYS);
    let mut fleet = workshop
        .fleet()
        .args("--prefer never --concurrency 2 --handle-each")
        .arg(&format!("{script} one"))
        .start_joined();
    let push = |fleet: &Fleet| {
        let pushed = fleet.command(&["push", "x"]).output().expect("it starts");
        assert!(pushed.status.success(), "{}", fleet::said(&pushed));
    };
    push(&fleet);
    let first = said(&workshop, "one");
    let watcher = within(PATIENCE, || watcher_of(fleet.pid(0))).expect("somebody watches");
    fleet::signal(watcher.parse().expect("a number"), "KILL");
    std::fs::remove_file(workshop.path("one")).expect("it is there");
    push(&fleet);
    let second = said(&workshop, "one");
    let next = within(PATIENCE, || watcher_of(fleet.pid(0)).filter(|next| *next != watcher)).expect("another watches");
    fleet.kill9(0);
    for pid in first.iter().chain(&second).chain([&next]) {
        wait_gone(pid);
    }
}
