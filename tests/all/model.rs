//! The protocol as a model, every state of which is visited: nodes that are killed, stopped and told to leave, calls whose
//! replies are lost or that arrive late, a store that goes back in time, and in every state what is promised.
//!
//! `state.rs` is what there is, `store.rs` the verbs, `nodes.rs` what processes do, `protocol.rs` what can happen,
//! `replicas.rs` what `--replicas` adds, `promises.rs` what must hold, `alike.rs` which states need not be visited twice,
//! `readers.rs` all of this for the readers of errors. `explore.rs` knows nothing of queues.
//!
//! `QUEENRIGHT_MODEL=large` explores the large worlds instead of the small ones, `QUEENRIGHT_MODEL="3 3 k1 p2 u1"` one of
//! three nodes, three messages, one kill, two pauses and one call that is not answered. In a world that ends with
//! `+replicas`, publishes are told when the replica has them.

mod alike;
mod explore;
mod guards;
mod nodes;
mod promises;
mod protocol;
mod readers;
mod replicas;
mod state;
mod store;

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use queenright::engine::redis::Scripts;

use alike::alike;
use explore::{Effort, Found, Model, explore};
use guards::{Guards, LEFT_OUT};
use protocol::{Protocol, Step};
use readers::Readers;
use state::{Call, Faults, Id, State};

/// Two nodes and two messages, in which nothing goes wrong.
const CALM: Protocol = Protocol {
    nodes: 2,
    messages: 2,
    deliveries_max: 2,
    faults: Faults {
        kills: 0,
        pauses: 0,
        unanswered: 0,
        stops: 0,
        returns: 0,
        rewinds: 0,
    },
    guards: Guards::all(),
    replicas: false,
    no_reuse_ever: false,
    apart: false,
};

/// Two readers and three errors, two of which turn up later.
const CALM_READERS: Readers = Readers {
    processes: 2,
    errors: 3,
    later: 2,
    faults: readers::Faults {
        kills: 0,
        pauses: 0,
        unanswered: 0,
        closed: 0,
    },
    guards: Guards::all(),
    names_all: true,
};

/// Faults by their first letters: "k1 p2" is one kill and two pauses, "w" the store that goes back.
fn faults(text: &str) -> Faults {
    let mut faults = Faults::default();
    for word in text.split_whitespace() {
        let (kind, count) = word.split_at(1);
        let fault = match kind {
            "k" => &mut faults.kills,
            "p" => &mut faults.pauses,
            "u" => &mut faults.unanswered,
            "s" => &mut faults.stops,
            "r" => &mut faults.returns,
            "w" => &mut faults.rewinds,
            _ => panic!("no fault is called {kind}"),
        };
        *fault = count.parse().expect("a count");
    }
    faults
}

/// What a world's faults end with if publishes are told when the replica has them.
const REPLICAS: &str = " +replicas";

fn world(nodes: u8, messages: u8, text: &str) -> Protocol {
    let (text, replicas) = text.strip_suffix(REPLICAS).map_or((text, false), |text| (text, true));
    Protocol {
        nodes,
        messages,
        faults: faults(text),
        replicas,
        ..CALM
    }
}

fn readers_world(readers: u8, text: &str) -> Readers {
    let Faults {
        kills,
        pauses,
        unanswered,
        stops: closed,
        ..
    } = faults(text);
    let faults = readers::Faults {
        kills,
        pauses,
        unanswered,
        closed,
    };
    Readers {
        processes: readers,
        faults,
        ..CALM_READERS
    }
}

/// Visits every state, on two cores, and says how many there were.
fn exhaust(name: &str, model: &impl Model, circles: bool) -> Found {
    let found = explore(
        model,
        Effort {
            threads: 2,
            seconds: 3600,
            circles,
        },
    );
    println!(
        "{name}: {} states, {} steps, depth {}, {:.1} s",
        found.states, found.steps, found.depth, found.seconds
    );
    assert!(!found.cut, "{name}: an hour was not enough");
    found
}

fn holds(name: &str, model: &impl Model, circles: bool) {
    if let Some((promise, path)) = exhaust(name, model, circles).violation {
        panic!("{name}: broken: {promise}\n{}", path.join("\n"));
    }
}

fn breaks(name: &str, model: &impl Model, expected: &str) {
    let found = exhaust(name, model, false).violation;
    let (promise, path) = found.unwrap_or_else(|| panic!("{name}: nothing is broken; expected: {expected}"));
    assert_eq!(promise, expected, "{name}:\n{}", path.join("\n"));
}

fn chosen() -> Option<String> {
    std::env::var("QUEENRIGHT_MODEL").ok()
}

fn is_large() -> bool {
    chosen().is_some_and(|chosen| chosen == "large")
}

/// Nodes, messages and faults. Those of the second list are also searched for circles.
const SMALL: &[(u8, u8, &str)] = &[(3, 3, "k1 p1 u1"), (2, 2, "p1 u1 w1"), (2, 2, "k1 w1"), (2, 2, "p1 u2")];
/// The same with replicas.
const SMALL_REPLICAS: &[(u8, u8, &str)] = &[
    (2, 2, "k1 w1 +replicas"),
    (2, 2, "u1 w1 +replicas"),
    (3, 2, "w1 +replicas"),
];
const SMALL_CIRCLES: &[(u8, u8, &str)] = &[
    (2, 2, "k1 p1 u1"),
    (2, 2, "p1 s1 r1"),
    (2, 2, "p1 w1"),
    (2, 2, "p1 w1 +replicas"),
];
/// Larger ones, such as "3 3 p1 u1 w1", can be named in the variable; they have hundreds of millions of states.
const LARGE: &[(u8, u8, &str)] = &[
    (3, 3, "k1 p1 u1"),
    (3, 3, "k1 w1"),
    (2, 2, "p1 u1 w1 +replicas"),
    (2, 2, "k1 p1 w1 +replicas"),
];

#[test]
fn every_promise_holds_in_every_state() {
    if let Some((nodes, messages, faults)) = chosen().as_ref().and_then(|chosen| {
        let (nodes, rest) = chosen.split_once(' ')?;
        let (messages, faults) = rest.split_once(' ')?;
        Some((nodes.parse().ok()?, messages.parse().ok()?, faults))
    }) {
        let name = format!("{nodes} nodes, {messages} messages, {faults}");
        return holds(&name, &world(nodes, messages, faults), false);
    }
    let replicas: &[_] = if is_large() { &[] } else { SMALL_REPLICAS };
    for (nodes, messages, faults) in if is_large() { LARGE } else { SMALL }.iter().chain(replicas) {
        let name = format!("{nodes} nodes, {messages} messages, {faults}");
        holds(&name, &world(*nodes, *messages, faults), false);
    }
    for (nodes, messages, faults) in SMALL_CIRCLES {
        let name = format!("{nodes} nodes, {messages} messages, {faults}, no circles");
        holds(&name, &world(*nodes, *messages, faults), true);
    }
}

#[test]
fn every_promise_to_readers_of_errors_holds_in_every_state() {
    for faults in ["u1", "k1 p1 s1", "k1 p1 u1"] {
        holds(&format!("2 readers, {faults}"), &readers_world(2, faults), false);
    }
}

/// Why a collect names all that it confirms: a late copy of a reader's first call, after that reader was given up, takes
/// what it printed before and more, in its name; and the first number is the same.
#[test]
fn a_collect_that_names_only_the_first_error_that_it_confirms_could_swallow_another() {
    let model = Readers {
        names_all: false,
        ..readers_world(2, "p1 u1")
    };
    breaks("2 readers, p1 u1", &model, "an error is gone only when it was printed");
}

/// Not kept: the first beat of a node that has seen more raises the store, but another may be crowned before it.
#[test]
fn a_store_that_went_back_can_give_a_number_again_until_someone_who_saw_it_beats() {
    let model = Protocol {
        no_reuse_ever: true,
        ..world(2, 2, "w1")
    };
    breaks(
        "a rewind",
        &model,
        "a number that a living node has seen is not given again",
    );
}

/// The store goes back twice, both times to one reign, and another reign gave the same number in between and died. Who has taken that
/// message has seen its epoch: so the reign before ends, and cannot fill the number with a message of its own.
#[test]
fn a_store_that_went_back_twice_fills_no_number_under_which_someone_has_taken_another_message() {
    let model = Protocol {
        apart: true,
        ..world(3, 1, "k1 p1 w2 +replicas")
    };
    let (first, second, third) = (0, 1, 2);
    let by = |node: Id, is: fn(&Call) -> bool| move |step: &Step| matches!(step, Step::Answered(id, call) if *id == node && is(call));
    let join = |node| by(node, |call| matches!(call, Call::Join { .. }));
    let beat = |node| by(node, |call| matches!(call, Call::Beat { .. }));
    let publish = |node| by(node, |call| matches!(call, Call::Publish { again: false, .. }));
    let takes = |node| by(node, |call| matches!(call, Call::Exchange { .. }));
    let replay = |node| by(node, |call| matches!(call, Call::Publish { again: true, .. }));
    let is = |wanted: Step| move |step: &Step| *step == wanted;
    let mut state = model.start();
    let mut then = |happens: &dyn Fn(&Step) -> bool| {
        let mut steps = Vec::new();
        model.steps(&state, &mut steps);
        let step = steps
            .into_iter()
            .find(|step| happens(step))
            .expect("a step that can be taken");
        state = model.next(&state, step);
        model.broken(&state)
    };
    let until_lost = [
        &join(first) as &dyn Fn(&Step) -> bool,
        &join(second),
        &join(third),
        &beat(first),
        &beat(third),
    ];
    let lost = [
        &is(Step::Saved) as &dyn Fn(&Step) -> bool,
        &publish(first),
        &is(Step::Rewound),
    ];
    let between = [
        &is(Step::Saved) as &dyn Fn(&Step) -> bool,
        &is(Step::CrownEnds),
        &beat(second),
        &publish(second),
    ];
    let after = [
        &takes(third) as &dyn Fn(&Step) -> bool,
        &is(Step::Killed(second)),
        &is(Step::Rewound),
        &beat(third),
    ];
    for step in until_lost.into_iter().chain(lost).chain(between).chain(after) {
        assert_eq!(then(step), None);
    }
    assert_eq!(then(&replay(first)), None);
}

/// Each guard, a world in which it is missed, and the promise that is broken without it.
const MISSED: &[(&str, &str, &str)] = &[
    ("beat-member", "p1 u1", "a node is a member, or dead, or forgotten"),
    ("call-ahead", "w1", explore::STUCK),
    ("call-repeat", "u1", "no node is refused without cause"),
    ("call-stale", "u1", "no node is refused without cause"),
    (
        "crown-lease",
        "p1",
        "only the generator publishes, while its crown's lease runs",
    ),
    ("deliveries", "k1 p1", "no message is delivered too often"),
    ("depose-lanes", "s1 u1", "only members settle"),
    (
        "fills",
        "w1 +replicas",
        "what a generator publishes again while it reigns is taken",
    ),
    (
        "fills-again",
        "w1 +replicas",
        "a number that its own reign has given, or the store was told of, is not given again",
    ),
    (
        "gap",
        "w1",
        "a number that its own reign has given, or the store was told of, is not given again",
    ),
    ("join-dead", "s1 u1", "a node is a member, or dead, or forgotten"),
    ("lane-record", "p1", "a node is a member, or dead, or forgotten"),
    ("made", "u1", explore::STUCK),
    // Whoever raises a store takes the crown away; whoever leaves a hole does not.
    ("moved", "w1 +replicas", "numbers have no gap"),
    ("reap-expired", "p1", "no node is refused without cause"),
    (
        "replays",
        "w1 +replicas",
        "what a generator publishes again while it reigns is taken",
    ),
    ("rewind-beat", "w1", explore::STUCK),
    (
        "rewind-join",
        "w1",
        "a number that its own reign has given, or the store was told of, is not given again",
    ),
    ("silent-lane", "w1", explore::STUCK),
    (
        "token",
        "p1 u1",
        "only the generator publishes, while its crown's lease runs",
    ),
];

/// The same for the readers of errors.
const MISSED_BY_READERS: &[(&str, &str, &str)] = &[
    ("collect-call", "u1", "an error is gone only when it was printed"),
    (
        "hold-member",
        "p1",
        "a reader is known with what it holds, or not at all",
    ),
    (
        "reader-lease",
        "p1",
        "an error is printed twice only if its reader was given up",
    ),
];

/// Guards that the model has and does not miss, in any of these worlds: a second line behind another guard.
const SECOND_LINE: &[(&str, &[&str])] = &[
    // A generator publishes again in a row, each message once, and only what its own reign has published.
    ("filled", &["p1 w1 +replicas", "u1 w1 +replicas", "k1 w1 +replicas"]),
    ("hole-reign", &["p1 w1 +replicas", "u1 w1 +replicas", "k1 w1 +replicas"]),
];

#[test]
fn every_guard_is_missed_when_it_is_taken_out() {
    for (guard, faults, promise) in MISSED {
        holds(&format!("with {guard}"), &world(2, 2, faults), false);
        let model = Protocol {
            guards: Guards::without(guard),
            ..world(2, 2, faults)
        };
        breaks(&format!("without {guard}"), &model, promise);
    }
    for (guard, faults, promise) in MISSED_BY_READERS {
        holds(&format!("readers with {guard}"), &readers_world(2, faults), false);
        let model = Readers {
            guards: Guards::without(guard),
            ..readers_world(2, faults)
        };
        breaks(&format!("readers without {guard}"), &model, promise);
    }
    for (guard, worlds) in SECOND_LINE {
        for faults in *worlds {
            let model = Protocol {
                guards: Guards::without(guard),
                ..world(2, 2, faults)
            };
            holds(&format!("without {guard}, {faults}"), &model, false);
        }
    }
    let tables = MISSED.iter().chain(MISSED_BY_READERS).map(|(guard, ..)| *guard);
    let tried: BTreeSet<&str> = tables.chain(SECOND_LINE.iter().map(|(guard, _)| *guard)).collect();
    assert_eq!(
        tried,
        Guards::NAMES.iter().copied().collect(),
        "every guard is taken out once"
    );
}

#[test]
fn every_guard_of_the_sources_is_in_the_model_or_left_out_for_a_reason() {
    let guards = crate::sources::guards("engine");
    let mut sources: BTreeSet<String> = guards.into_iter().map(str::to_string).collect();
    sources.extend(Scripts::guards());
    let (mut complaints, mut known) = (String::new(), BTreeSet::new());
    for guard in Guards::NAMES
        .iter()
        .copied()
        .chain(LEFT_OUT.iter().map(|(guard, _)| *guard))
    {
        if !known.insert(guard.to_string()) {
            let _ = writeln!(complaints, "{guard} is listed twice");
        }
    }
    // The model has one of the node's guards; the others are the simulator's.
    assert!(crate::sources::guards("node").contains(&"silent-lane"));
    sources.insert("silent-lane".into());
    for guard in sources.symmetric_difference(&known) {
        let _ = writeln!(
            complaints,
            "{guard} is in the sources or in the model's lists, but not in both"
        );
    }
    assert!(complaints.is_empty(), "{complaints}");
}

/// States are taken for one if they differ only in names, or in what matters to nobody. If that were wrong anywhere,
/// telling them apart would lead to a state whose like is not found otherwise, or the other way round.
#[test]
fn states_that_are_taken_for_alike_go_on_alike() {
    let large = if is_large() {
        ["k1 u1", "k1 w1", "u1 w1 +replicas"].as_slice()
    } else {
        &[]
    };
    for faults in ["p1 u1", "p1 s1 r1", "p1 w1", "w1 +replicas"].iter().chain(large) {
        let together = world(2, 2, faults);
        let apart = Protocol {
            apart: true,
            ..together
        };
        let found: HashSet<State> = reachable(&together);
        let told_apart = reachable(&apart);
        let likes: HashSet<State> = told_apart.iter().cloned().map(alike).collect();
        let (more, less) = (likes.difference(&found).count(), found.difference(&likes).count());
        println!("{faults}: {} states, {} when told apart", found.len(), told_apart.len());
        assert_eq!((more, less), (0, 0), "{faults}");
    }
}

fn reachable(model: &Protocol) -> HashSet<State> {
    let mut found = HashSet::from([model.start()]);
    let (mut open, mut steps) = (vec![model.start()], Vec::new());
    while let Some(state) = open.pop() {
        steps.clear();
        model.steps(&state, &mut steps);
        for step in &steps {
            let next = model.next(&state, *step);
            if !found.contains(&next) {
                found.insert(next.clone());
                open.push(next);
            }
        }
    }
    found
}
