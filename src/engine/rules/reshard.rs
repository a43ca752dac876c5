//! How many shards the queue has: a line that only grows. Whoever knows of a later reshard than the store tells it with its next call, so a reshard
//! needs no second step, and a store that went back in time hears of it again.

use super::membership::{awaits_members, leave};
use super::no_queue;
use crate::engine::layout::{LAYOUT, check_layout, first_record, goes_on, shards};
use crate::engine::store::{Lessee, Meta, Store};
use crate::engine::{NodeId, Wake};
use crate::error::Result;

/// Changes the number of shards to what the caller knows. False: members may know of another reshard, and have not spoken yet to this server.
pub fn reshard(store: &mut impl Store, wall_ms: u64, server: &str) -> Result<bool> {
    let mut meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    let is_later = meta.layout <= LAYOUT && goes_on(&store.names().line(), &meta.names);
    let waits = is_later && awaits_members(store, &mut meta, wall_ms, server)?;
    if waits && store.guard("reshard-unheard") {
        store.set_meta(&meta)?;
        return Ok(false);
    }
    heed_line(store, &mut meta)?;
    store.set_meta(&meta)?;
    if is_later {
        store.ring(Wake::Crown)?;
    }
    Ok(true)
}

/// Compares what the caller knows of the queue's names and shards with what is recorded: notes what is later, and refuses what is another.
pub(super) fn heed_line(store: &mut impl Store, meta: &mut Meta) -> Result<()> {
    if meta.layout <= LAYOUT && is_left_over(store, meta)? {
        meta.names = store.names().line();
    }
    if meta.layout > LAYOUT || !note_later(store, meta)? {
        check_layout(store.queue_name(), store.names(), meta.layout, &meta.names)?;
    }
    Ok(())
}

/// Whether a reshard has made this shard that was given up before its one step, in the home shard: nobody has used it. In Redis it may be at other keys, and is
/// not found then. Its key names are those of the queue: whoever gives others is wrong here as anywhere.
fn is_left_over(store: &mut impl Store, meta: &mut Meta) -> Result<bool> {
    let names = store.names();
    let line = names.line();
    let is_alike = key_names(&meta.names) == key_names(&line);
    let is_other = is_alike && names.shard > 0 && shards(&meta.names) != (names.shards, names.shard);
    let is_unused = is_other && meta.seq == store.first_number() && meta.made == 0;
    if !is_unused || shards(&meta.names).1 != names.shard {
        return Ok(false);
    }
    // Who joined here knew of a reshard that the home shard has lost: they are told there that it is another one now.
    for (node, _) in store.leases(Lessee::Node)? {
        leave(store, &node)?;
    }
    *meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    Ok(true)
}

/// The names of keys in the line of a shard.
fn key_names(line: &str) -> Option<&str> {
    line.rsplit_once(" shards=").map(|(names, _)| names)
}

/// Whether the caller knew of a later reshard, which is noted now. It ends the reign: whoever knows of fewer shards is not crowned again.
pub(super) fn note_later(store: &mut impl Store, meta: &mut Meta) -> Result<bool> {
    if !goes_on(&store.names().line(), &meta.names) || !store.guard("reshard-note") {
        return Ok(false);
    }
    let had_none = !meta.names.contains(" shards=") && !meta.names.contains(" then=");
    let cursor = store.cursor()?;
    if had_none && (meta.made > 0 || !cursor.is_empty()) && store.guard("reshard-record") {
        store.set_cursor(&first_record(meta.made, meta.epoch, &cursor))?;
    }
    meta.names = store.names().line();
    if store.guard("reshard-reign") {
        (meta.generator, meta.crown) = (NodeId::new(), 0);
    }
    Ok(true)
}

/// The recorded line, if it tells of a later reshard than the caller knows of.
pub(super) fn told_later(store: &impl Store, meta: &Meta) -> Option<String> {
    goes_on(&meta.names, &store.names().line()).then(|| meta.names.clone())
}
