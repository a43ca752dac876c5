//! Which states go on alike, so that only one of them is visited. Without this there were ten to twenty times as
//! many.

use super::state::{Call, IDS, Id, LINE, Life, Meta, Record, Reign, SOMEBODY, Seen, State, WIRE, bit};

/// One of all the states that go on alike.
pub fn alike(mut state: State) -> State {
    if state.saved.is_none() {
        state.nodes.iter_mut().for_each(|node| node.saved = Record::default());
    }
    forget_seen(&mut state);
    forget_past(&mut state);
    for id in (0..).take(IDS) {
        count_from_zero(&mut state, id);
        // Giving up someone who is forgotten does nothing.
        if state.nodes[usize::from(id)].is_nobody() {
            for node in &mut state.nodes {
                node.process.victims &= !(1 << id);
            }
        }
    }
    in_order(&mut state);
    state
}

/// What was seen matters only if it is more than the store has, or would have if it went back.
fn forget_seen(state: &mut State) {
    let has = state.saved.or(state.witness.rewound.then_some(state.meta));
    let forget = |seen: &mut Seen| {
        seen.seq = has.map_or(0, |has| if seen.seq > has.seq { seen.seq } else { 0 });
        seen.epoch = has.map_or(0, |has| if seen.epoch > has.epoch { seen.epoch } else { 0 });
    };
    state.nodes.iter_mut().for_each(|node| forget(&mut node.process.seen));
    for call in state.wire.iter_mut().flatten() {
        if let Call::Join { seen, .. } | Call::Beat { seen, .. } = call {
            forget(seen);
        }
    }
    // Whoever takes a message sees its epoch.
    let (meta, past) = (&mut state.meta, state.saved.map(|saved| saved.epoch));
    for (number, epoch) in (0..).zip(&mut meta.epochs) {
        let settled = (meta.done | meta.failed | meta.skipped) & bit(number) != 0;
        if settled || past.is_none_or(|past| *epoch <= past) {
            *epoch = 0;
        }
    }
    if let Some(saved) = &mut state.saved {
        saved.epochs = Default::default();
    }
    // A hole may yet be filled.
    if state.witness.told <= state.meta.hole.map_or(state.meta.seq, |(from, _)| from) {
        state.witness.told = 0;
    }
}

/// What became of old messages, and how many reigns there were before, matters to nobody.
fn forget_past(state: &mut State) {
    let State {
        meta,
        nodes,
        wire,
        saved,
        witness,
        ..
    } = state;
    let published = wire.iter_mut().flatten().filter_map(|call| match call {
        Call::Publish { reign, .. } => Some(reign),
        _ => None,
    });
    let own = nodes.iter_mut().flat_map(|node| {
        let untold = node.process.untold.iter_mut().flatten().map(|untold| &mut untold.reign);
        node.process.reign.as_mut().into_iter().chain(untold)
    });
    let mut reigns: [Option<&mut Reign>; IDS * (1 + LINE) + WIRE] = std::array::from_fn(|_| None);
    reigns
        .iter_mut()
        .zip(own.chain(published))
        .for_each(|(place, reign)| *place = Some(reign));
    let mut metas = [Some(meta), saved.as_mut()];

    // Of epochs the differences matter; of reigns only which is which.
    let (mut seq, mut epoch, mut used) = (u8::MAX, u8::MAX, 0_u32);
    let numbers = metas.iter().flatten().map(|meta| {
        let seq = meta.hole.map_or(meta.seq, |(from, _)| from);
        (seq, meta.epoch, meta.nth)
    });
    let all = reigns.iter().flatten().map(|reign| (reign.seq, reign.epoch, reign.nth));
    for (each_seq, each_epoch, nth) in numbers.chain(all) {
        seq = seq.min(each_seq);
        epoch = epoch.min(each_epoch);
        used |= 1 << nth;
    }
    for (number, by) in (0..).zip(&mut witness.published_by) {
        if number < seq {
            *by = SOMEBODY;
        }
    }
    // What nobody can put in another's place any more was looked at.
    let kept = metas.iter_mut().flatten().map(|meta| &mut meta.marks);
    for marks in kept.chain([&mut witness.told_of]) {
        marks.iter_mut().take(usize::from(seq)).for_each(|mark| *mark = 0);
    }
    let kept = metas.iter().flatten().map(|meta| &meta.marks);
    for mark in kept.chain([&witness.told_of, &witness.published_by]).flatten() {
        used |= if *mark == SOMEBODY { 0 } else { 1 << (*mark >> 4) };
    }
    // No crown is reign 0.
    used &= !1;
    let rank = |nth: u8| match nth {
        0 => 0,
        _ => u8::try_from((used & ((2 << nth) - 1)).count_ones()).expect("a few"),
    };
    let kept = metas.iter_mut().flatten().map(|meta| &mut meta.marks);
    let marks = kept.chain([&mut witness.told_of, &mut witness.published_by]).flatten();
    for mark in marks.filter(|mark| **mark != SOMEBODY) {
        *mark = rank(*mark >> 4) << 4 | *mark & 15;
    }
    for reign in reigns.into_iter().flatten() {
        reign.nth = rank(reign.nth);
        reign.epoch -= epoch;
    }
    for meta in metas.iter_mut().flatten() {
        meta.nth = rank(meta.nth);
        meta.epoch -= epoch;
        meta.newest = meta.newest.max(epoch) - epoch;
        for of_message in meta.epochs.iter_mut().filter(|of_message| **of_message > 0) {
            *of_message -= epoch;
        }
        for (number, deliveries) in (0..).zip(&mut meta.attempts) {
            if (meta.done | meta.failed | meta.skipped) & bit(number) != 0 {
                *deliveries = 0;
            }
        }
    }
    witness.reigns = u8::try_from(used.count_ones()).expect("a few");
    let told = wire.iter_mut().flatten().filter_map(|call| match call {
        Call::Join { seen, .. } | Call::Beat { seen, .. } => Some(seen),
        _ => None,
    });
    let seen = nodes.iter_mut().map(|node| &mut node.process.seen).chain(told);
    seen.filter(|seen| seen.epoch > 0).for_each(|seen| seen.epoch -= epoch);
}

/// Only the differences between the call numbers of a lane matter, unless a late join may make it begin anew.
fn count_from_zero(state: &mut State, id: Id) {
    let State { nodes, wire, .. } = state;
    let node = &mut nodes[usize::from(id)];
    if node.is_nobody() && wire.iter().all(Option::is_none) {
        return;
    }
    let late_join = |call: &Call| matches!(call, Call::Join { node, .. } if *node == id);
    if node.process.life == Life::Joining || wire.iter().flatten().any(late_join) {
        return;
    }
    let lanes = [&mut node.record.lane, &mut node.saved.lane].into_iter().flatten();
    let own = (node.process.life == Life::Member).then_some(&mut node.process.call);
    let late = wire.iter_mut().flatten().filter_map(|call| match call {
        Call::Exchange { node, call, .. } if *node == id => Some(call),
        _ => None,
    });
    let mut calls: [Option<&mut u8>; 3 + WIRE] = Default::default();
    let all = lanes.map(|lane| &mut lane.call).chain(own).chain(late);
    calls.iter_mut().zip(all).for_each(|(place, call)| *place = Some(call));
    let least = calls.iter().flatten().map(|call| **call).min().unwrap_or(0);
    calls.into_iter().flatten().for_each(|call| *call -= least);
}

/// All there is to tell one node from another, without anybody's name.
fn key(state: &State, id: Id) -> impl Ord + Copy + use<> {
    let rules = |meta: Option<&Meta>| meta.is_some_and(|meta| meta.generator == Some(id));
    let mut node = state.nodes[usize::from(id)];
    let nobody = node.is_nobody();
    let victims = std::mem::take(&mut node.process.victims).count_ones();
    let is_victim = state.nodes.iter().any(|node| node.process.victims & 1 << id != 0);
    let mut calls = state.wire.map(|call| call.filter(|call| call.names().contains(&id)));
    for call in calls.iter_mut().flatten() {
        call.rename(|name| u8::from(name == id));
    }
    calls.sort_unstable();
    (
        nobody,
        node,
        rules(Some(&state.meta)),
        rules(state.saved.as_ref()),
        victims,
        is_victim,
        calls,
    )
}

/// Ids are names: nodes are put in an order, and called by it.
fn in_order(state: &mut State) {
    let keys: [_; IDS] = std::array::from_fn(|at| key(state, Id::try_from(at).expect("a few")));
    state.wire.sort_unstable();
    if keys.is_sorted() {
        return;
    }
    let mut order: [Id; IDS] = std::array::from_fn(|at| Id::try_from(at).expect("a few"));
    order.sort_by_key(|id| keys[usize::from(*id)]);
    let mut places = [0; IDS];
    for (place, id) in (0..).zip(order) {
        places[usize::from(id)] = place;
    }
    let place = |id: Id| places[usize::from(id)];
    state.nodes = order.map(|id| state.nodes[usize::from(id)]);
    for node in state.nodes.iter_mut().filter(|node| node.process.victims != 0) {
        let victims = (0..).take(IDS).filter(|id| node.process.victims & 1 << id != 0);
        node.process.victims = victims.fold(0, |renamed, id| renamed | 1 << place(id));
    }
    let generators = [Some(&mut state.meta), state.saved.as_mut()];
    let generators = generators.into_iter().flatten().map(|meta| &mut meta.generator);
    generators.flatten().for_each(|id| *id = place(*id));
    state.wire.iter_mut().flatten().for_each(|call| call.rename(place));
    state.wire.sort_unstable();
}
