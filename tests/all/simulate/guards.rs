//! Every guard of the protocol and of the node is taken out once, and a fleet must come to grief.
//!
//! `cargo test --profile gate --all-features --test all -- --ignored --nocapture hunt` looks for a seed that catches each, or
//! those in `QUEENRIGHT_GUARD`, and prints the table.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::plan::{Fault, Plan};
use super::run::{Options, play};
use super::{each, variable};
use crate::sources::guards;

/// Each guard, and a seed under which it is missed.
const CATCHES: &[(&str, u64)] = &[
    ("abandon", 140),
    ("abandoned", 140),
    ("again-one", 132),
    ("beat-member", 3),
    ("call-ahead", 320),
    ("call-repeat", 6),
    ("call-stale", 2),
    ("cancel-bound", 31),
    ("cancel-ended", 3),
    ("cancel-fails", 46),
    ("cancel-published", 2),
    ("cancel-reaped", 801),
    ("cancel-requeue", 633),
    ("cancel-skips", 3),
    ("cancel-take", 11),
    ("chain-full", 577),
    ("chosen", 8),
    ("clock-back", 6),
    ("clock-step", 6),
    ("crown-lease", 6),
    ("cursor", 6),
    ("deliveries", 24),
    ("depose-lanes", 82),
    ("collect-call", 112),
    ("dry", 0),
    ("due", 0),
    ("effect-number", 1),
    ("effect-own", 1),
    ("effect-type", 1),
    ("either-role", 2),
    ("ending-done", 6),
    ("ending-later", 10),
    ("ending-pushed", 6),
    ("ending-reaped", 2295),
    ("ending-requeue", 537),
    ("failures", 0),
    ("fills-again", 124),
    ("finish-first", 1),
    ("fits-backlog", 1),
    ("full", 1),
    ("gap", 64),
    ("give-back", 23),
    ("gone-generator", 14),
    ("gone-look", 13),
    ("group-due", 1),
    ("group-ended", 1),
    ("group-left", 1),
    ("group-once", 1),
    ("group-reaped", 37),
    ("group-requeue", 4),
    ("group-returns", 13),
    ("group-turn", 1),
    ("heir", 38),
    ("hold", 350),
    ("hold-member", 300),
    ("join-dead", 7282),
    ("join-token", 12),
    ("kept-first", 12),
    ("lane-record", 3),
    ("layout", 70),
    ("leave", 0),
    ("leave-on-drop", 50),
    ("lost-crown", 8),
    ("made", 0),
    ("moved", 6),
    ("named-once", 119),
    ("names", 18),
    ("settling", 243),
    ("in-order", 4007),
    ("new-epoch", 116),
    ("new-id", 3),
    ("new-pool", 13),
    ("numbered-anew", 299),
    ("oldest-first", 576),
    ("once", 10),
    ("once-until", 10),
    ("panic", 1),
    ("paused-generator", 33),
    ("paused-handlers", 21),
    ("purge-alive", 39),
    ("push-full", 1),
    ("push-layout", 70),
    ("push-names", 18),
    ("push-repeat", 16),
    ("push-unheard", 1142),
    ("publish-unheard", 285),
    ("rank", 2),
    ("reader-lease", 9166),
    ("reap", 5),
    ("reap-expired", 62),
    ("refused-for-sure", 451),
    ("reign-over", 6),
    ("replays", 5851),
    ("requeue-withdraws", 8),
    ("resign", 1319),
    ("rests", 3),
    ("resume-bell", 21),
    ("returns-at-once", 3871),
    ("backoff-soon", 676),
    ("rewind-beat", 92),
    ("rewind-join", 226),
    ("runs", 119),
    ("same-call", 0),
    ("same-publish", 0),
    ("saw-beat", 0),
    ("saw-chain", 6),
    ("saw-moved", 1),
    ("saw-publish", 0),
    ("saw-take", 3),
    ("second-bell", 0),
    ("seen-beat", 0),
    ("seen-join", 3),
    ("reap-look", 13),
    ("silent-lane", 900),
    ("slots", 10),
    ("stops-taking", 1),
    ("token", 12916),
    ("trimmed", 4),
    ("vacant", 10),
    ("victim", 2),
    ("alone", 77),
    ("alone-empty", 13),
    ("suspects", 856),
];

/// Guards that no promise hangs on here; the oracle and the checks miss each of them.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "without it a reign whose numbers others have pushed under ends, and the next one goes on",
        &["hole-front"],
    ),
    (
        "there is one shard here; fleets on several (tests/all/shards), the checks and the tests of the course miss each of them",
        &[
            "claim-higher",
            "claim-kept",
            "claim-once",
            "claims",
            "claims-all",
            "doubt-known",
            "in-doubt",
            "kept-doubt",
            "kept-open",
            "overtakes",
            "told-open",
        ],
    ),
    (
        "here every server tells its run, and so a generator keeps the numbers that it publishes under again; a test of the sender has it",
        &["gives-way"],
    ),
    (
        "without it leases tell who has died, and that is as good here",
        &["gone"],
    ),
    (
        "reports arrive once or not at all, and nothing but history comes of them",
        &["report-member", "report-once"],
    ),
    (
        "here every fleet comes to rest in the end, and so every hand is empty at some time",
        &["clearing"],
    ),
    (
        "without them a generator gives way, or its reign has ended: nobody was told of what it published",
        &["filled", "fills", "hole-reign"],
    ),
    ("nobody here publishes more at once than may wait", &["chain-never"]),
    (
        "lines are never so full here that a message which holds up its group would wait for them for ever",
        &["chain-group"],
    ),
    (
        "nodes leave chains twice the room of a generator, and none here is so short of it that it stands still",
        &["chain-turn"],
    ),
    (
        "a settle that publishes hardly ever comes first to a store that went back here; pushes and publishes do",
        &["chain-unheard"],
    ),
    (
        "a group that goes on although it is paused, or waits for its retries although it need not, still comes to its end in order",
        &["group-paused", "group-skips"],
    ),
    (
        "a fleet that is faster or slower than its limit still comes to its end; the checks count",
        &[
            "limit",
            "limit-again",
            "limit-back",
            "limit-bell",
            "limit-burst",
            "limit-group",
            "limit-quiet",
            "limit-returned",
        ],
    ),
    (
        "nothing here goes on for an hour, and few outcomes are asked for",
        &["ending-until", "endings-max", "endings-until", "found-all"],
    ),
    (
        "without it handlers at work are not told, and end as ever; a test of the node has it",
        &["cancel-beat"],
    ),
    (
        "nothing here goes on for an hour, and few messages are cancelled",
        &["cancel-kept", "cancel-later", "cancel-max", "cancel-waits"],
    ),
    (
        "without it what has ended is cancelled in vain, and that is forgotten after an hour",
        &["cancel-ending"],
    ),
    ("sources here are read by a cursor, not line by line", &["made-before"]),
    ("nobody removes a queue under its nodes here", &["purged"]),
    ("what pushes hide they hide from nobody for long here", &["rewind-made"]),
    ("an older program is the one that is refused here", &["layout-older"]),
    (
        "there is one shard here; the checks and tests/all/shards have reshards",
        &[
            "reshard-note",
            "reshard-reign",
            "reshard-crown",
            "reshard-record",
            "reshard-unheard",
            "only-known",
            "push-creates",
            "reopen",
        ],
    ),
    (
        "without them time passes too fast or too slowly, and the checks count how much",
        &["step-crown", "step-join", "step-leave", "step-vacant"],
    ),
    (
        "an answer arrives here sooner or later, however many bytes it has",
        &["unarrived", "want-bytes"],
    ),
];

/// A seed says something else once the code has changed. Then so many are looked through for another, which takes minutes: so the
/// test fails, and prints what to put above.
const SEARCHED: u64 = 30_000;

#[test]
fn every_guard_is_missed_by_some_fleet() {
    let marked: BTreeSet<&str> = guards("").into_iter().collect();
    let left_out = LEFT_OUT.iter().flat_map(|(_, guards)| guards.iter().copied());
    let listed: BTreeSet<&str> = CATCHES.iter().map(|(guard, _)| *guard).chain(left_out).collect();
    assert_eq!(marked, listed, "every guard, and nothing else, is listed");
    let lost = Mutex::new(BTreeSet::new());
    each(0..CATCHES.len() as u64, |index| {
        let (guard, seed) = CATCHES[usize::try_from(index).expect("few")];
        if is_missed(guard, seed).is_none() {
            lost.lock().expect("whole").insert(guard);
        }
        true
    });
    let lost = lost.into_inner().expect("whole");
    if lost.is_empty() {
        return;
    }
    println!("the seeds of {lost:?} have lost their force; others are looked for");
    let lines: Vec<String> = lost.into_iter().map(line).collect();
    panic!(
        "seeds of CATCHES have lost their force; these lines take their place:\n{}",
        lines.join("\n")
    );
}

/// The line of the table for a guard, with a seed that is looked for.
fn line(guard: &'static str) -> String {
    let found = Mutex::new(None);
    each(0..variable("QUEENRIGHT_SEEDS").unwrap_or(SEARCHED), |seed| {
        if let Some(why) = is_missed(guard, seed) {
            let why: String = why.lines().next().unwrap_or_default().chars().take(100).collect();
            found.lock().expect("whole").get_or_insert((seed, why));
        }
        found.lock().expect("whole").is_none()
    });
    match found.into_inner().expect("whole") {
        Some((seed, why)) => format!("    (\"{guard}\", {seed}), // {why}"),
        None => format!("    (\"{guard}\", ?), // no seed was found"),
    }
}

/// What goes wrong without the guard, where all goes well with it.
fn is_missed(guard: &'static str, seed: u64) -> Option<String> {
    if !suits(guard, &Plan::draw(seed)) {
        return None;
    }
    let options = Options {
        without: Some(guard),
        ..Options::default()
    };
    let why = play(seed, options).failure?;
    play(seed, Options::default()).failure.is_none().then_some(why)
}

/// Whether a plan has what it takes to miss a guard.
fn suits(guard: &str, plan: &Plan) -> bool {
    let has = |fault| plan.faults.iter().any(|(_, planned)| *planned == fault);
    match guard {
        "push-unheard" | "publish-unheard" | "rewind-made" => plan.rewinds && has(Fault::Push),
        "fills-again" | "kept-first" | "replays" | "returns-at-once" => plan.settings.replicas > 0,
        "silent-lane" | "call-ahead" | "gap" | "rewind-beat" | "rewind-join" => plan.rewinds,
        "collect-call" | "hold" | "hold-member" | "reader-lease" | "victim" => has(Fault::Read),
        "join-dead" => plan.accidents > 0,
        "names" | "push-names" => has(Fault::Stranger),
        "layout" | "push-layout" => plan.newer,
        "chain-full" | "saw-chain" => plan.chains,
        "chosen" => has(Fault::Handover),
        "cursor" => plan.cursor,
        "due" | "failures" => plan.settings.retries > 0,
        "rank" => !plan.prefers.is_empty(),
        "vacant" => plan.barren,
        "purge-alive" => has(Fault::Purge),
        "requeue-withdraws" => has(Fault::Requeue),
        "trimmed" => plan.settings.errors_max.is_some(),
        "runs" | "named-once" => has(Fault::Rogue),
        "moved" | "numbered-anew" | "saw-moved" | "once" | "once-until" | "push-full" | "push-repeat" => {
            has(Fault::Push)
        }
        "ending-done" | "ending-pushed" | "ending-reaped" => plan.asks && has(Fault::Push),
        "ending-later" => plan.asks && has(Fault::Push) && plan.settings.retries > 0,
        "ending-requeue" => plan.asks && has(Fault::Push) && has(Fault::Requeue),
        "cancel-bound" => plan.cancels && plan.groups > 0,
        "cancel-requeue" => plan.cancels && has(Fault::Requeue),
        "cancel-ended" | "cancel-fails" | "cancel-published" | "cancel-reaped" | "cancel-skips" | "cancel-take" => {
            plan.cancels
        }
        "leave-on-drop" => has(Fault::Drop),
        "gone-generator" | "gone-look" | "reap-look" => plan.lies > 0,
        _ => true,
    }
}

#[test]
#[ignore = "makes the table above"]
fn hunt() {
    let only = std::env::var("QUEENRIGHT_GUARD").ok();
    for guard in guards("") {
        if only
            .as_ref()
            .is_some_and(|only| !only.split(',').any(|only| only == guard))
        {
            continue;
        }
        println!("{}", line(guard));
    }
}
