//! Pausing, moving the crown, removing a queue.

use super::clock::hive;
use super::no_queue;
use crate::engine::limits::{PURGED_MAX, PURGED_MS};
use crate::engine::store::{Lessee, Store};
use crate::engine::{Handover, Paused, Purged, Wake};
use crate::error::Result;

/// Pauses or resumes generating and handling; what is not given stays as it is.
pub fn pause(store: &mut impl Store, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
    let mut meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    meta.paused = Paused {
        generator: generator.unwrap_or(meta.paused.generator),
        handlers: handlers.unwrap_or(meta.paused.handlers),
    };
    store.set_meta(&meta)?;
    if !meta.paused.handlers && store.guard("resume-bell") {
        store.ring(Wake::Bell)?;
    }
    Ok(meta.paused)
}

/// Lets this member take the crown with its next beat; `None`: any but the generator; empty: withdraws the request.
pub fn handover(store: &mut impl Store, wall_ms: u64, to: Option<&str>) -> Result<Handover> {
    let mut meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    let clock = hive(store, &meta, wall_ms);
    let to = to.unwrap_or("*");
    if !matches!(to, "" | "*") {
        if store.lease(Lessee::Node, to)?.is_none() {
            return Ok(Handover::Unknown);
        }
        if meta.generator == to && meta.crown > clock {
            return Ok(Handover::Reigns);
        }
    }
    meta.chosen = to.to_string();
    store.set_meta(&meta)?;
    if !to.is_empty() {
        store.ring(Wake::Crown)?;
    }
    Ok(Handover::Asked)
}

/// Removes the queue; unless forced, only if no node is alive.
pub fn purge(store: &mut impl Store, wall_ms: u64, force: bool) -> Result<Purged> {
    let meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    let clock = hive(store, &meta, wall_ms);
    let leases = store.leases(Lessee::Node)?;
    let alive = leases.iter().filter(|(_, until)| *until > clock).count();
    if alive > 0 && !force && store.guard("purge-alive") {
        return Ok(Purged::Alive(alive as u64));
    }
    let time_ms = store.time_ms(wall_ms);
    let known = !leases.is_empty() || !store.dead()?.is_empty();
    let (until_ms, before) = store.purged()?;
    store.purge()?;
    // Members that come back are not to take it for a store that forgot.
    if known {
        let before = before.into_iter().filter(|_| until_ms > time_ms);
        let births: Vec<String> = std::iter::once(meta.birth).chain(before).take(PURGED_MAX).collect();
        store.set_purged(time_ms + PURGED_MS, &births)?;
    }
    Ok(Purged::Gone)
}
