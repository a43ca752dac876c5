//! Pausing, moving the crown, removing a queue.

use super::hive;
use crate::engine::store::{Lessee, Store};
use crate::engine::{Handover, Paused, Purged, Wake};
use crate::error::Result;

/// None: there is no queue.
pub(super) fn pause<S: Store + ?Sized>(
    store: &mut S,
    generator: Option<bool>,
    handlers: Option<bool>,
) -> Result<Option<Paused>> {
    let Some(mut meta) = store.meta()? else { return Ok(None) };
    meta.paused = Paused {
        generator: generator.unwrap_or(meta.paused.generator),
        handlers: handlers.unwrap_or(meta.paused.handlers),
    };
    store.set_meta(&meta)?;
    if !meta.paused.handlers && store.guard("resume-bell") {
        store.ring(Wake::Bell)?;
    }
    Ok(Some(meta.paused))
}

/// None: there is no queue.
pub(super) fn handover<S: Store + ?Sized>(store: &mut S, wall_ms: u64, to: Option<&str>) -> Result<Option<Handover>> {
    let Some(mut meta) = store.meta()? else { return Ok(None) };
    let clock = hive(store, &meta, wall_ms, meta.step);
    let to = to.unwrap_or("*");
    if !matches!(to, "" | "*") {
        if store.lease(Lessee::Node, to)?.is_none() {
            return Ok(Some(Handover::Unknown));
        }
        if meta.generator == to && meta.crown > clock {
            return Ok(Some(Handover::Reigns));
        }
    }
    meta.chosen = to.to_string();
    store.set_meta(&meta)?;
    if !to.is_empty() {
        store.ring(Wake::Crown)?;
    }
    Ok(Some(Handover::Asked))
}

/// None: there is no queue.
pub(super) fn remove<S: Store + ?Sized>(store: &mut S, wall_ms: u64, force: bool) -> Result<Option<Purged>> {
    let Some(meta) = store.meta()? else { return Ok(None) };
    let clock = hive(store, &meta, wall_ms, meta.step);
    let leases = store.leases(Lessee::Node)?;
    let alive = leases.iter().filter(|(_, until)| *until > clock).count();
    if alive > 0 && !force && store.guard("purge-alive") {
        return Ok(Some(Purged::Alive(alive as u64)));
    }
    store.purge()?;
    Ok(Some(Purged::Gone))
}
