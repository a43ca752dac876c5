//! What must hold after any scenario, told from what the processes logged and what the store counts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, Line, Status};

/// Whether every confirmed step has its line: not where a process was killed, or a reply lost, before it could log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    All,
    SomeLost,
}

/// All that is promised, at the end of a scenario in which every one of `published` messages got its outcome.
pub fn everything(fleet: &Fleet, published: u64, lines: Lines) {
    let status = fleet.wait_through(published);
    if lines == Lines::All {
        // The store counts a step before the copy that did it writes its line.
        fleet.wait_for("every step has its line", |log| {
            let count = |event: &str| log.iter().filter(|line| line.is(event)).count() as u64;
            count("published") >= published && count("done") + count("error") + reaped(log) >= status.settled()
        });
    }
    let log = fleet.lines();
    one_voice(&log, published, lines);
    let outcomes = one_outcome(&log, &status, lines);
    errors_are_those(&fleet.errors(), &status, &outcomes);
    let after = fleet.status();
    assert_eq!((after.errors, after.failed), (0, status.failed), "{after:?}");
}

/// The same of all that is published by now: nothing more is generated, and what is published is handled.
pub fn everything_so_far(fleet: &Fleet, lines: Lines) {
    good(&feed(fleet, &["pause", "generator"], ""));
    everything(fleet, fleet.status().published, lines);
}

/// Numbers have no gap and no repeat, and epochs never go down along them, as the handlers saw the messages.
pub fn one_voice(log: &[Line], published: u64, lines: Lines) {
    let mut messages: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
    let mut told: BTreeMap<u64, &Line> = BTreeMap::new();
    for line in log {
        let Some(number) = line.number else { continue };
        assert!(number < published, "beyond what was published: {line:?}");
        if line.is("published") {
            let before = told.insert(number, line);
            assert!(before.is_none(), "published twice: {before:?} and {line:?}");
        }
        let seen = (line.epoch.expect("messages have an epoch"), line.payload.as_str());
        let before = messages.insert(number, seen).unwrap_or(seen);
        assert_eq!(before, seen, "message {number} has changed: {line:?}");
    }
    let mut highest = 0;
    for (number, (epoch, payload)) in &messages {
        assert!(
            *epoch >= highest,
            "message {number} is of epoch {epoch}, after one of {highest}"
        );
        highest = *epoch;
        let counter = *payload == number.to_string();
        let text = payload.ends_with(&format!(" epoch={epoch} number={number}"));
        assert!(counter || text, "message {number} says {payload:?}");
    }
    let mut reigns: BTreeMap<u64, &str> = BTreeMap::new();
    for line in told.values() {
        let node = reigns.entry(line.epoch.expect("checked above")).or_insert(&line.node);
        assert_eq!(*node, line.node, "two generators in one epoch: {line:?}");
    }
    if lines == Lines::All {
        assert_eq!(told.len() as u64, published, "lines of published");
    }
}

/// Every message was settled once, as done or as error. Returns which.
fn one_outcome<'a>(log: &'a [Line], status: &Status, lines: Lines) -> BTreeMap<u64, &'a Line> {
    let mut outcomes = BTreeMap::new();
    let (mut done, mut failed) = (0, 0);
    for line in log.iter().filter(|line| line.is("done") || line.is("error")) {
        let before = outcomes.insert(line.number.expect("outcomes have a number"), line);
        assert!(before.is_none(), "settled twice: {before:?} and {line:?}");
        assert_eq!(line.is("error"), !line.error.is_empty(), "{line:?}");
        *(if line.is("done") { &mut done } else { &mut failed }) += 1;
    }
    assert!(done <= status.done, "{done} lines of done, {status:?}");
    assert!(failed <= status.failed, "{failed} lines of error, {status:?}");
    if lines == Lines::All {
        assert_eq!(
            (done, failed + reaped(log)),
            (status.done, status.failed),
            "lines of outcomes"
        );
    }
    assert_eq!((status.queued, status.in_hand), (0, 0), "{status:?}");
    outcomes
}

/// What was delivered too often gets its outcome from the reaper, which tells numbers only.
fn reaped(log: &[Line]) -> u64 {
    log.iter().filter_map(|line| line.fields["failed"].as_u64()).sum()
}

/// The errors that were drained are the failed messages, each once.
fn errors_are_those(errors: &[Value], status: &Status, outcomes: &BTreeMap<u64, &Line>) {
    let printed = each_once(errors);
    assert_eq!(printed.len() as u64, status.failed, "errors printed");
    for (number, line) in outcomes {
        assert_eq!(printed.contains_key(number), line.is("error"), "{line:?}");
    }
}

/// Collected errors by number; fails if one was printed twice or lacks a field.
pub fn each_once(errors: &[Value]) -> BTreeMap<u64, &Value> {
    let mut printed = BTreeMap::new();
    for error in errors {
        let number = error["number"].as_u64().unwrap_or_else(|| panic!("no number: {error}"));
        for field in ["payload", "error", "node", "time"] {
            assert!(error[field].is_string(), "{field}: {error}");
        }
        assert!(error["deliveries"].is_u64(), "{error}");
        let before = printed.insert(number, error);
        assert!(before.is_none(), "printed twice: {error}");
    }
    printed
}

/// Nobody lost its membership (losing the crown is another matter).
pub fn nobody_given_up(log: &[Line]) {
    let given_up = log.iter().find(|line| line.is("deposed") && line.epoch.is_none());
    assert!(given_up.is_none(), "{given_up:?}");
}

/// What the program says of a wrong server stands in the transcript of the docs, but for the address.
pub fn is_in_the_docs(line: &str) {
    let docs = include_str!("../../../docs/operations.md");
    let verdicts = [" is away: ", " is the wrong address: ", " refuses: "];
    let told = verdicts.iter().find_map(|verdict| line.split_once(verdict));
    let (_, told) = told.unwrap_or_else(|| panic!("no verdict: {line}"));
    assert!(docs.contains(told), "docs/operations.md does not have: {told}");
}
