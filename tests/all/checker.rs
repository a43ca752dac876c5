//! What must hold whatever happened, apart from the scenarios.

use std::collections::BTreeMap;

use queenright::engine::Status;
use queenright::engine::memory::State;
use queenright::engine::store::Asked;
use queenright::message::Pack;

/// What `status` says is what is stored.
pub fn adds_up(state: &State, status: &Status) {
    let count = |packs: &mut dyn Iterator<Item = &Pack>| packs.map(|pack| pack.count() as u64).sum::<u64>();
    let queued = count(&mut state.queue.iter().chain(&state.again).chain(state.lines.values()));
    let in_hand = count(&mut state.taken.values().flat_map(|taken| taken.pieces.values()));
    let read: usize = state.reading.values().map(|(_, batch)| batch.len()).sum();
    assert_eq!(status.in_hand, in_hand, "in hand");
    assert_eq!(status.errors, (state.errors.len() + read) as u64, "errors");
    assert_eq!(status.queued, queued, "queued");
    let cancels = state
        .meta
        .iter()
        .map(|meta| meta.cancels.numbers.len() + meta.cancels.groups.len());
    assert_eq!(status.cancels, cancels.sum::<usize>() as u64, "cancels");
    assert_eq!(status.later, state.later.len() as u64, "later");
    assert!(state.later.values().all(|pack| pack.count() == 1), "put off one by one");
    // Numbers that a store which went back in time was raised over belong to no message.
    let skipped = state.meta.as_ref().map_or(0, |meta| meta.skipped);
    assert_eq!(
        status.published + status.requeued,
        skipped + queued + in_hand + status.later + status.done + status.failed,
        "published"
    );
    numbers_are_unique(state);
    assert_eq!(wrong_group(state), None);
    assert_eq!(wrong_ending(state), None);
    if let Some(meta) = &state.meta {
        let mut steps: BTreeMap<u64, u64> = BTreeMap::new();
        for node in state.nodes.keys() {
            *steps.entry(state.taken[node].about.step).or_default() += 1;
        }
        let steps: Vec<String> = steps.iter().map(|(step, nodes)| format!("{step}={nodes}")).collect();
        assert_eq!(meta.steps.line(), steps.join(" "), "the leases in use");
    }
    for node in state.nodes.keys() {
        assert!(!state.dead.contains(node), "{node} is a member and dead");
        assert!(state.taken.contains_key(node), "{node} is a member without a record");
    }
    for node in &state.dead {
        assert!(state.taken.contains_key(node), "{node} is dead and holds nothing");
    }
    for node in state.taken.keys() {
        assert!(
            state.nodes.contains_key(node) || state.dead.contains(node),
            "{node} is forgotten"
        );
    }
}

/// What is wrong with an outcome that is asked for. Each such message that waits is known to, with the time until when it does; and none is known to wait or to have
/// ended that has not.
pub fn wrong_ending(state: &State) -> Option<String> {
    let held = state.taken.values().flat_map(|taken| taken.pieces.values());
    let waits = state
        .queue
        .iter()
        .chain(&state.again)
        .chain(state.lines.values())
        .chain(held);
    let waits = waits.map(|pack| (None, pack));
    let later = state.later.iter().map(|((due_ms, _), pack)| (Some(*due_ms), pack));
    let mut waiting = BTreeMap::new();
    for (until_ms, pack) in waits.chain(later).filter(|(_, pack)| pack.is_asked()) {
        waiting.insert(pack.first(), until_ms);
    }
    for (number, until_ms) in &waiting {
        match state.asked.get(number) {
            Some(Asked::Waits { due_ms }) if until_ms.is_none_or(|until_ms| until_ms == *due_ms) => {}
            other => return Some(format!("{number} waits until {until_ms:?}, and is known as {other:?}")),
        }
    }
    for (number, asked) in &state.asked {
        let failed = state.errors.contains_key(number);
        match asked {
            Asked::Waits { .. } if !waiting.contains_key(number) => {
                return Some(format!("{number} has ended unnoticed"));
            }
            Asked::Ended(ending) if failed && ending.is_done() => {
                return Some(format!("{number} is not done, but failed"));
            }
            Asked::Ended(ending) if !state.endings.contains(&(ending.time_ms, *number)) => {
                return Some(format!("{number} is not among the endings"));
            }
            _ => {}
        }
    }
    let ended = state.asked.values().filter(|asked| matches!(asked, Asked::Ended(_)));
    (ended.count() != state.endings.len()).then(|| "there are endings of nothing".into())
}

/// What is wrong with a group. Of each as many are in flight as are counted, and none is forgotten: if something waits and nothing is in
/// flight, it is its turn.
pub fn wrong_group(state: &State) -> Option<String> {
    let held = state.taken.values().flat_map(|taken| taken.pieces.values());
    let mut in_flight: BTreeMap<&str, u64> = BTreeMap::new();
    let later = state.later.values().filter(|pack| !pack.is_before_its_line());
    for group in state.again.iter().chain(later).chain(held).filter_map(Pack::holds_up) {
        *in_flight.entry(group).or_default() += 1;
    }
    if let Some(group) = state.queue.iter().find_map(Pack::group) {
        return Some(format!("a message of {group} is in the queue"));
    }
    for (group, turn) in &state.turns {
        let there = in_flight.remove(group.as_str()).unwrap_or(0);
        let ready = state.ready.iter().filter(|each| *each == group).count();
        if turn.in_flight != there || usize::from(turn.ready) != ready {
            return Some(format!(
                "of {group} {there} are in flight, it is ready {ready} times: {turn:?}"
            ));
        }
    }
    if let Some(group) = state.ready.iter().find(|group| !state.turns.contains_key(*group)) {
        return Some(format!("{group} is ready and unknown"));
    }
    for ((group, number), pack) in &state.lines {
        let turn = state.turns.get(group).copied().unwrap_or_default();
        let stands = (pack.group(), pack.first(), pack.unordered()) == (Some(group.as_str()), *number, false);
        let rests = state.resting.contains_key(group);
        if !stands || !(turn.ready || turn.paused || rests || turn.in_flight > 0) {
            return Some(format!("{number} of {group} is forgotten in its line: {turn:?}"));
        }
    }
    let left = in_flight.into_iter().next();
    left.map(|(group, there)| format!("{there} of {group} are in flight and not counted"))
}

/// No message is in two places.
fn numbers_are_unique(state: &State) {
    let held = state.taken.values().flat_map(|taken| taken.pieces.values());
    let mut places: BTreeMap<u64, u32> = BTreeMap::new();
    let later = state.later.values();
    for pack in state
        .queue
        .iter()
        .chain(&state.again)
        .chain(later)
        .chain(state.lines.values())
        .chain(held)
    {
        for index in 0..pack.count() {
            *places.entry(pack.first() + index as u64).or_default() += 1;
        }
    }
    let failed = state.errors.keys().copied();
    for number in failed.chain(
        state
            .reading
            .values()
            .flat_map(|(_, batch)| batch.iter().map(|failed| failed.number)),
    ) {
        *places.entry(number).or_default() += 1;
    }
    let twice: Vec<_> = places.iter().filter(|(_, places)| **places > 1).collect();
    assert!(twice.is_empty(), "in two places: {twice:?}");
}

/// The fields in which two states differ, to be read by people.
pub fn differences(ours: &State, theirs: &State) -> String {
    let mut out = String::new();
    macro_rules! compare {
        ($($field:ident),+) => {
            $(if ours.$field != theirs.$field {
                out.push_str(&format!("{}:\n  ours:   {:?}\n  theirs: {:?}\n", stringify!($field), ours.$field, theirs.$field));
            })+
        };
    }
    compare!(
        queue_name,
        names,
        meta,
        queue,
        again,
        later,
        cursor,
        once,
        nodes,
        dead,
        taken,
        errors,
        readers,
        reading,
        lines,
        ready,
        turns,
        group_rules,
        resting,
        history,
        reigns,
        bell,
        crown_bell,
        purged,
        unheard,
        replay,
        stored
    );
    out
}
