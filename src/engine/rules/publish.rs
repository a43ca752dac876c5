//! What a generator publishes.

use super::clock::hive;
use crate::engine::store::{Line, Meta, Store};
use crate::engine::{Publish, Published, Wake};
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
    if store.guard("moved") && publish.first != meta.seq {
        return Ok(Published::Moved { seq: meta.seq });
    }
    if publish.messages.is_some_and(|last| meta.seq + count > last) {
        return Ok(Published::Finished);
    }
    if meta.seq + count - meta.head > publish.backlog_max {
        let head = store.front(Line::Queue)?.map_or(meta.seq, |pack| pack.first());
        if store.guard("full") && meta.seq + count - head > publish.backlog_max {
            return Ok(Published::Full);
        }
        meta.head = head;
    }
    for pack in &publish.packs {
        store.push_back(Line::Queue, pack)?;
    }
    if publish.interval_ms > 0 {
        meta.due = next_due(meta.due, clock, publish.interval_ms);
    }
    meta.seq += count;
    meta.made = publish.made + count;
    if let Some(cursor) = &publish.cursor
        && store.guard("cursor")
    {
        store.set_cursor(cursor)?;
    }
    store.ring(Wake::Bell)?;
    store.set_meta(&meta)?;
    Ok(published(&meta, clock))
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
