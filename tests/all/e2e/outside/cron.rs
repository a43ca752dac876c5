//! `--cron`: messages at times that a pattern names.

use std::collections::BTreeMap;

use super::Workshop;
use crate::fleet::Fleet;

#[test]
fn every_tick_is_published_once_with_its_time_whoever_is_killed() {
    let workshop = Workshop::new();
    let mut fleet = Fleet::in_file(&workshop.path("queue.db"))
        .copies(3)
        .args("--work 0 --error-rate 0 --lease 1s --tz Europe/Berlin --cron")
        .arg("* * * * * *")
        .start_joined();
    for _ in 0..3 {
        fleet.wait_for_more("done", 2);
        let generator = fleet.generator();
        fleet.kill9(generator);
        fleet.add("");
    }
    fleet.wait_for_more("done", 2);
    let mut ticks: BTreeMap<u64, String> = BTreeMap::new();
    for line in fleet.lines().iter().filter(|line| line.is("done")) {
        ticks.insert(line.number.expect("numbered"), line.payload.clone());
    }
    let ticks: Vec<String> = ticks.into_values().collect();
    assert!(ticks.len() >= 8, "{ticks:?}");
    for tick in &ticks {
        // 2026-11-15T13:05:00Z: a whole second, in the one form that sorts as time does.
        assert!(tick.len() == 20 && tick.ends_with('Z'), "{tick}");
    }
    assert!(
        ticks.windows(2).all(|two| two[0] < two[1]),
        "in order, none twice: {ticks:?}"
    );
}

#[test]
fn a_command_is_run_for_each_tick_and_told_its_time() {
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .args("--also-handle --work 0 --error-rate 0 --messages 2 --generate-each")
        .arg(&workshop.script("each.sh", "echo \"$QUEENRIGHT_DUE after [$QUEENRIGHT_CURSOR]\""))
        .args("--cron")
        .arg("* * * * * *")
        .start_joined();
    fleet.wait_through(2);
    fleet.wait_for("both are told", |lines| {
        lines.iter().filter(|line| line.is("done")).count() == 2
    });
    let lines = fleet.lines();
    let payload = |number| {
        let mut done = lines
            .iter()
            .filter(|line| line.is("done") && line.number == Some(number));
        done.next().expect("handled").payload.clone()
    };
    assert!(payload(0).ends_with("Z after []"), "{}", payload(0));
    assert!(
        payload(1).ends_with(&format!("Z after [{}]", payload(0))),
        "{}",
        payload(1)
    );
    assert!(payload(0)[..20] < payload(1)[..20]);
}
