//! The hive clock: the queue's own time, on which leases run.

use crate::engine::store::{Lessee, Meta, Store};
use crate::error::Result;

/// The hive clock now: it moves by what the wall clock moved since the last look, within 0 ..= step.
pub(super) fn hive(store: &impl Store, meta: &Meta, wall_ms: u64) -> u64 {
    let mut moved = i128::from(wall_ms) - i128::from(meta.wall);
    if store.guard("clock-back") {
        moved = moved.max(0);
    }
    if store.guard("clock-step") {
        moved = moved.min(i128::from(meta.step));
    }
    u64::try_from((i128::from(meta.clock) + moved).max(0)).unwrap_or(u64::MAX)
}

/// What the hive clock would show if it had not stood still since the last look, while nobody beat: for people, who want to
/// know whether a fleet is alive. No lease ends by it, since a step of the time of day moves it as well.
pub(super) fn shown(store: &impl Store, meta: &Meta, wall_ms: u64) -> u64 {
    meta.clock.saturating_add(store.passed_ms(meta.wall, wall_ms))
}

/// Moves it.
pub(super) fn advance(store: &impl Store, meta: &mut Meta, wall_ms: u64) {
    meta.clock = hive(store, meta, wall_ms);
    meta.wall = wall_ms;
}

/// Whose lease ended first, if it has ended.
pub(super) fn expired(store: &mut impl Store, lessee: Lessee, clock: u64) -> Result<Option<String>> {
    let first = store.first_lease(lessee)?;
    Ok(first.filter(|(_, until)| *until <= clock).map(|(name, _)| name))
}
