//! What a generator publishes.

use super::clock::hive;
use super::groups::line_up;
use super::limit::ring;
use super::membership::awaits_members;
use crate::engine::store::{Line, Meta, Replay, Store};
use crate::engine::{Publish, Published};
use crate::error::{Error, Result};

/// Appends messages, if the caller is the generator.
pub fn publish(store: &mut impl Store, wall_ms: u64, publish: &Publish) -> Result<Published> {
    let Some(mut meta) = store.meta()? else {
        return Ok(Published::Fenced);
    };
    let clock = hive(store, &meta, wall_ms);
    if store.guard("token") && (meta.generator != publish.node || meta.epoch != publish.epoch) {
        return Ok(Published::Fenced);
    }
    if store.guard("crown-lease") && meta.crown <= clock {
        return Ok(Published::Fenced);
    }
    let count = count(publish, meta.epoch)?;
    if store.guard("made") && publish.made + count <= meta.made {
        return Ok(published(&meta, clock));
    }
    if store.guard("gap") && publish.made != meta.made {
        return Ok(Published::Gap);
    }
    if store.guard("paused-generator") && meta.paused.generator {
        return Ok(Published::Paused);
    }
    if !publish.server.is_empty() && store.guard("publish-unheard") {
        let waits = awaits_members(store, &mut meta, wall_ms, &publish.server)?;
        store.set_meta(&meta)?;
        if waits {
            return Ok(Published::Unheard);
        }
    }
    let replay = store.replay()?;
    let fills = replay
        .hole
        .is_some_and(|hole| fills(store, &meta, publish, count, hole));
    if store.guard("moved") && publish.first != meta.seq && !fills {
        return Ok(Published::Moved { seq: meta.seq });
    }
    let behind = meta.seq.max(publish.first + count);
    if publish.messages.is_some_and(|last| publish.first + count > last) {
        return Ok(Published::Finished);
    }
    let mut head = meta.head;
    if behind - head > publish.backlog_max {
        head = store.front(Line::Queue)?.map_or(publish.first, |pack| pack.first());
        if store.guard("full") && behind - head > publish.backlog_max && !fills {
            return Ok(Published::Full);
        }
    }
    // Lines have the same limit for themselves: the numbers of what waits in them say nothing about the queue.
    let grouped = publish.packs.iter().filter(|pack| pack.group().is_some()).count() as u64;
    let is_full = grouped > 0 && store.grouped_count()? + grouped > publish.backlog_max;
    if is_full && !fills && store.guard("full") {
        return Ok(Published::Full);
    }
    meta.head = head.min(publish.first);
    for pack in &publish.packs {
        if pack.group().is_some() {
            line_up(store, pack)?;
        } else {
            store.push_back(Line::Queue, pack)?;
        }
    }
    if publish.interval_ms > 0 {
        meta.due = next_due(meta.due, clock, publish.interval_ms);
    }
    meta.seq = behind;
    meta.made = publish.made + count;
    if let Some(cursor) = &publish.cursor
        && store.guard("cursor")
    {
        store.set_cursor(cursor)?;
    }
    if let Some((_, to)) = replay.hole {
        let next = publish.first + count;
        let hole = (fills && next < to).then_some((next, to));
        if fills {
            meta.skipped = meta.skipped.saturating_sub(count.min(to - publish.first));
        }
        if hole.is_none() || store.guard("filled") {
            store.set_replay(Replay { hole, ..replay })?;
        }
    }
    ring(store, &meta, wall_ms)?;
    store.set_meta(&meta)?;
    Ok(published(&meta, clock))
}

/// After a failover the generator publishes again what was lost, under the same numbers. Those of a hole are its own; at its end the next
/// number follows, unless others have pushed behind it.
fn fills(store: &impl Store, meta: &Meta, publish: &Publish, count: u64, (from, to): (u64, u64)) -> bool {
    let is_there = (from..to).contains(&publish.first) && (publish.first + count <= to || to == meta.seq);
    let fits = publish.first != meta.seq && is_there && store.guard("fills");
    fits && (publish.again || !store.guard("fills-again"))
}

/// How many messages the packs have. They must be of this epoch and numbered in a row.
fn count(publish: &Publish, epoch: u64) -> Result<u64> {
    let mut count = 0;
    for pack in &publish.packs {
        if pack.first() != publish.first + count || pack.epoch() != epoch {
            return Err(Error::Protocol {
                detail: "malformed pack".into(),
            });
        }
        count += pack.count() as u64;
    }
    Ok(count)
}

fn published(meta: &Meta, clock: u64) -> Published {
    Published::Ok {
        seq: meta.seq,
        made: meta.made,
        grain: meta.grain,
        due_in_ms: meta.due.saturating_sub(clock),
    }
}

/// The tick after this one: on the grid, and after now. Missed ticks are left out.
fn next_due(due: u64, clock: u64, interval_ms: u64) -> u64 {
    let due = if due > clock + interval_ms { clock } else { due };
    let missed = if clock < due { 0 } else { (clock - due) / interval_ms };
    due + interval_ms * (missed + 1)
}
