//! The beat: it renews a lease, and elects the generator.

use super::clock::{advance, expired};
use super::membership::{is_behind, raise};
use crate::engine::history::Crowned;
use crate::engine::limits::{DUE_BYTES_MAX, DUE_MAX, HEIRS_MAX};
use crate::engine::store::{Lessee, Line, Meta, Store};
use crate::engine::{Beat, Member, NodeId, Renewed, Wake};
use crate::error::Result;

/// "I am alive": renews the lease, and elects.
pub fn beat(store: &mut impl Store, wall_ms: u64, beat: &Beat) -> Result<Renewed> {
    let member = store.lease(Lessee::Node, &beat.node)?.is_some() || !store.guard("beat-member");
    let Some(mut meta) = store.meta()?.filter(|_| member) else {
        return Ok(Renewed::Deposed);
    };
    advance(store, &mut meta, wall_ms);
    let rewound = is_behind(&meta, &beat.seen);
    if rewound {
        if store.guard("rewind-beat") {
            raise(&mut meta, &beat.seen);
        }
        meta.rewinds += 1;
    }
    store.set_lease(Lessee::Node, &beat.node, meta.clock + beat.lease_ms)?;
    let generator = elect(store, &mut meta, wall_ms, beat)?;
    let heir = watches_crown(&mut meta, beat, generator);
    // While there is no generator, any member that beats keeps house.
    let vacant = store.guard("vacant") && meta.crown <= meta.clock;
    let (victim, more_due) = if generator || vacant {
        keep_house(store, &mut meta, wall_ms)?
    } else {
        (None, false)
    };
    store.set_meta(&meta)?;
    let is_new = generator && beat.seen.epoch < meta.epoch;
    let cursor = if is_new { Some(store.cursor()?.into()) } else { None };
    Ok(Renewed::Alive(Member {
        generator,
        epoch: meta.epoch,
        seq: meta.seq,
        made: meta.made,
        grain: meta.grain,
        due_in_ms: meta.due.saturating_sub(meta.clock),
        crown_in_ms: meta.crown.saturating_sub(meta.clock),
        heir,
        wall_ms: store.time_ms(wall_ms),
        victim,
        paused: meta.paused,
        cursor,
        more_due,
        rewound,
    }))
}

/// Whether this member is the generator: it was, and still wants to be, or it is crowned now.
fn elect(store: &mut impl Store, meta: &mut Meta, wall_ms: u64, beat: &Beat) -> Result<bool> {
    let time_ms = store.time_ms(wall_ms);
    let mut generator = meta.generator == beat.node;
    let called = store.guard("chosen") && (meta.chosen == beat.node || meta.chosen == "*");
    let outranks = store.guard("rank") && u64::from(beat.rank) > meta.rank;
    if !generator && beat.eligible && (meta.crown <= meta.clock || called || outranks) {
        generator = true;
        meta.generator.clone_from(&beat.node);
        meta.epoch += 1;
        meta.chosen = String::new();
        // A node that was chosen keeps the rank of the one before, so that nodes that would rather reign leave it the crown.
        let before = if called { meta.rank } else { 0 };
        meta.rank = before.max(beat.rank.into());
        store.add_reign(&Crowned {
            epoch: meta.epoch,
            node: beat.node.clone(),
            time_ms,
            before_ms: meta.ruled,
        })?;
    }
    if generator && !beat.eligible {
        generator = false;
        meta.generator = NodeId::new();
        meta.crown = 0;
        store.ring(Wake::Crown)?;
    }
    if generator {
        meta.crown = meta.clock + beat.crown_ms;
        meta.ruled = time_ms;
    }
    Ok(generator)
}

/// Whether this member is an heir: one of the few who watch the crown closely. Whoever asks first becomes one.
fn watches_crown(meta: &mut Meta, beat: &Beat, generator: bool) -> bool {
    let heir = meta.heirs.contains(&beat.node);
    if generator || !beat.eligible {
        meta.heirs.retain(|other| *other != beat.node);
        return false;
    }
    if !heir && meta.heirs.len() < HEIRS_MAX {
        meta.heirs.push(beat.node.clone());
        return true;
    }
    heir
}

/// Moves what is due, rings for work that waits, and names a node that is to be reaped. True: more may be due.
fn keep_house(store: &mut impl Store, meta: &mut Meta, wall_ms: u64) -> Result<(Option<NodeId>, bool)> {
    let more_due = move_due(store, meta, wall_ms)?;
    let rings = store.guard("second-bell") && !meta.paused.handlers;
    if rings && !(store.is_empty(Line::Queue)? && store.is_empty(Line::Again)?) {
        store.ring(Wake::Bell)?;
    }
    let victim = match store.dead()?.into_iter().next() {
        Some(dead) => Some(dead),
        None => expired(store, Lessee::Node, meta.clock)?,
    };
    Ok((victim, more_due))
}

/// Moves what is due back to be taken. True: there may be more.
fn move_due(store: &mut impl Store, meta: &mut Meta, wall_ms: u64) -> Result<bool> {
    let until = if store.guard("due") {
        store.time_ms(wall_ms)
    } else {
        u64::MAX
    };
    let (mut moved, mut bytes) = (0, 0);
    while moved < DUE_MAX && bytes < DUE_BYTES_MAX {
        let Some(pack) = store.pop_due(until)? else {
            return Ok(false);
        };
        store.push_back(Line::Again, &pack)?;
        moved += 1;
        bytes += pack.bytes().len();
        meta.again = true;
    }
    Ok(true)
}
