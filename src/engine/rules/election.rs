//! The beat: it renews a lease, and elects the generator.

use super::cancel::forget;
use super::clock::{advance, expired};
use super::groups::line_up;
use super::limit::{has_rested, is_shut};
use super::membership::{lacks, leaves_hole, notice_server, raise};
use super::reshard::{note_later, told_later};
use crate::engine::history::Crowned;
use crate::engine::limits::{DUE_BYTES_MAX, DUE_MAX, HEIRS_MAX};
use crate::engine::store::{Lessee, Line, Meta, Replay, Store};
use crate::engine::{Beat, Member, NodeId, Renewed, Wake};
use crate::error::Result;
use crate::message::Cancels;

/// "I am alive": renews the lease, and elects.
pub fn beat(store: &mut impl Store, wall_ms: u64, beat: &Beat) -> Result<Renewed> {
    let member = store.lease(Lessee::Node, &beat.node)?.is_some() || !store.guard("beat-member");
    let Some(mut meta) = store.meta()?.filter(|_| member) else {
        return Ok(Renewed::Deposed);
    };
    advance(store, &mut meta, wall_ms);
    note_later(store, &mut meta)?;
    // Who does not know all shards is not crowned: what others have published there would be published again.
    let resharded = told_later(store, &meta);
    let beat = &Beat {
        eligible: beat.eligible && (resharded.is_none() || !store.guard("reshard-crown")),
        ..beat.clone()
    };
    let mut rewound = lacks(store, &meta, &beat.seen);
    if rewound.is_some() {
        let other = !meta.generator.is_empty() && meta.generator != beat.node;
        let reigns = other && meta.crown > meta.clock && beat.seen.epoch <= meta.epoch;
        if let Some(passed) = leaves_hole(store, &mut meta, reigns, beat.seen.seq)? {
            rewound = rewound.filter(|_| passed);
        } else {
            if store.guard("rewind-beat") {
                raise(&mut meta, &beat.seen);
            }
            meta.rewinds += 1;
        }
    }
    store.set_lease(Lessee::Node, &beat.node, meta.clock + beat.lease_ms)?;
    notice_server(store, &mut meta, wall_ms, &beat.server)?;
    let mut unheard = store.unheard()?;
    if let Some(at) = unheard.iter().position(|node| *node == beat.node) {
        unheard.remove(at);
        store.set_unheard(&unheard)?;
        rewound = rewound.or(keeps_numbers(store, &mut meta, beat)?);
    }
    let generator = elect(store, &mut meta, wall_ms, beat)?;
    set_pace(store, &mut meta, beat, generator);
    let heir = watches_crown(&mut meta, beat, generator);
    let before = meta.heirs.iter().take_while(|heir| **heir != beat.node).count();
    // While there is no generator, any member that beats keeps house.
    let vacant = store.guard("vacant") && meta.crown <= meta.clock;
    let (victim, more_due, damaged) = if generator || vacant {
        let (victim, more_due) = keep_house(store, &mut meta, wall_ms)?;
        (victim, more_due, Some(store.damaged_count()?))
    } else {
        (None, false, None)
    };
    store.set_meta(&meta)?;
    let cancels = if store.guard("cancel-beat") {
        meta.cancels.told()
    } else {
        Cancels::default()
    };
    let is_new = generator && beat.reigned != meta.epoch;
    let cursor = if is_new { Some(store.cursor()?.into()) } else { None };
    let made_before = if is_new { made_before(store, beat)? } else { None };
    Ok(Renewed::Alive(Member {
        generator,
        epoch: meta.epoch,
        seq: meta.seq,
        made: meta.made,
        grain: if generator { meta.grain } else { 0 },
        due_in_ms: if generator || heir {
            meta.due.saturating_sub(meta.clock)
        } else {
            0
        },
        crown_in_ms: meta.crown.saturating_sub(meta.clock),
        heir,
        before: if heir { before as u64 } else { 0 },
        crowned: meta.generator,
        wall_ms: store.time_ms(wall_ms),
        victim,
        paused: meta.paused,
        cursor,
        made_before,
        more_due,
        rewound,
        damaged,
        cancels,
        wrong: None,
        resharded,
    }))
}

/// The first word of a generator to a server that may lack its last messages: what it publishes again keeps its numbers, and whoever
/// pushes, which waits for this word, gets those behind them. How many numbers they are, if any.
fn keeps_numbers(store: &mut impl Store, meta: &mut Meta, beat: &Beat) -> Result<Option<u64>> {
    let before = meta.seq;
    let Some(below) = beat
        .replays
        .filter(|_| meta.generator == beat.node && store.guard("hole-front"))
    else {
        return Ok(None);
    };
    let passed = leaves_hole(store, meta, true, below)? == Some(true);
    Ok(passed.then(|| meta.seq - before))
}

/// Whether this member is the generator: it was, and still wants to be, or it is crowned now.
fn elect(store: &mut impl Store, meta: &mut Meta, wall_ms: u64, beat: &Beat) -> Result<bool> {
    let time_ms = store.time_ms(wall_ms);
    let mut generator = meta.generator == beat.node;
    let called = store.guard("chosen") && (meta.chosen == beat.node || meta.chosen == "*");
    let outranks = store.guard("rank") && u64::from(beat.rank) > meta.rank;
    let gone = is_gone(store, meta, beat)?;
    let claimed = may_claim(store, meta, beat);
    let may = if beat.claims > 0 {
        claimed
    } else {
        !generator && (meta.crown <= meta.clock || called || outranks || gone)
    };
    if beat.eligible && may {
        generator = true;
        meta.generator.clone_from(&beat.node);
        meta.epoch = if claimed { beat.claims } else { meta.epoch + 1 };
        meta.chosen = String::new();
        let before = store.replay()?;
        // What another reign has published, this one cannot publish again.
        let hole = before.hole.filter(|_| !store.guard("hole-reign"));
        let epoch = if beat.replays.is_some() { meta.epoch } else { 0 };
        if before != (Replay { epoch, hole }) {
            store.set_replay(Replay { epoch, hole })?;
        }
        // A node that was chosen keeps the rank of the one before, so that nodes that would rather reign leave it the crown.
        let before = if called { meta.rank } else { 0 };
        meta.rank = before.max(beat.rank.into());
        store.add_reign(&Crowned {
            epoch: meta.epoch,
            node: beat.node.clone(),
            time_ms,
            before_ms: meta.ruled,
            made: meta.made,
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

/// Whether a claim takes the crown: its epoch is higher than all before, or it is the last one, and whoever had that is a member no more.
/// An epoch is given once, in the home shard: so that was the same process. A member claims an epoch once: if it has lost the claim, the store went
/// back in time, and calls that it sent before would count here. Under another id they do not.
fn may_claim(store: &impl Store, meta: &Meta, beat: &Beat) -> bool {
    let claims = beat.claims;
    let is_next = claims > meta.epoch || (claims == meta.epoch && meta.generator.is_empty());
    let is_first = beat.reigned != claims || !store.guard("claim-once");
    claims > 0 && is_first && (is_next || !store.guard("claim-higher"))
}

/// Whether the generator has died: its connection was seen by this node, and is not seen any more.
fn is_gone(store: &mut impl Store, meta: &Meta, beat: &Beat) -> Result<bool> {
    if beat.gone.is_empty() || !store.guard("gone") || (store.guard("gone-generator") && beat.gone != meta.generator) {
        return Ok(false);
    }
    Ok(!(store.guard("gone-look") && store.is_connected(&meta.generator)?))
}

/// How many messages had been made when another reign followed the last one of this process.
fn made_before(store: &mut impl Store, beat: &Beat) -> Result<Option<u64>> {
    if beat.reigned == 0 || !store.guard("made-before") {
        return Ok(None);
    }
    let reigns = store.reigns()?;
    // If the reign itself is forgotten, so may be the one that followed it.
    let is_known = reigns.iter().any(|reign| reign.epoch <= beat.reigned);
    let followed = reigns.iter().rev().find(|reign| reign.epoch > beat.reigned);
    Ok(followed.filter(|_| is_known).map(|reign| reign.made))
}

/// How far the next look may move the hive clock. A pause of the store must end no lease that is in use: the crown's of this
/// generator, and those of all members. One that is not in use slows nothing down.
fn set_pace(store: &impl Store, meta: &mut Meta, beat: &Beat, generator: bool) {
    let least = meta.steps.least().unwrap_or(meta.step);
    if meta.crown <= meta.clock && store.guard("step-vacant") {
        meta.step = least;
    }
    if generator && store.guard("step-crown") {
        meta.step = least.min(beat.crown_ms / 2);
    }
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
    forget(store, meta, more_due)?;
    let rings = store.guard("second-bell") && !meta.paused.handlers && !is_shut(store, meta, wall_ms);
    let groups_wait = store.ready_count()? > 0 || has_rested(store, meta, wall_ms)?;
    if rings && (groups_wait || !(store.is_empty(Line::Queue)? && store.is_empty(Line::Again)?)) {
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
        if pack.is_before_its_line() && store.guard("group-due") {
            line_up(store, &pack)?;
        } else {
            store.push_back(Line::Again, &pack)?;
            meta.again = true;
        }
        moved += 1;
        bytes += pack.bytes().len();
    }
    Ok(true)
}
