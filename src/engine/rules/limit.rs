//! Limits: how fast messages may be taken, by the whole fleet and of each group.
//!
//! The fleet's limit is a bucket that time fills and takes empty. It holds a burst, and no more: so a clock that jumps forward opens the gate for
//! a burst alone, and one that steps back keeps it shut for no longer than the next message would take. Who takes last and is refused comes back
//! a little late; what the bucket would have got meanwhile is kept for a quarter of a second's worth, or the fleet would be slower than its
//! limit.
//!
//! A group rests after each of its messages, until the next may be taken.

use std::collections::BTreeMap;

use super::groups::offer;
use super::no_queue;
use crate::engine::limits::{GROUPS_LOOKED_MAX, LIMIT_SLACK_MS};
use crate::engine::store::{Gate, Line, Meta, Store};
use crate::engine::{Limits, Wake};
use crate::error::Result;
use crate::message::Pack;

/// Sets how fast messages may be taken. What is none is not limited.
pub fn limit(store: &mut impl Store, wall_ms: u64, limits: &Limits) -> Result<()> {
    let mut meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    let limits = limits.with_burst();
    let before = meta.limit.map(|gate| looked_at(store, gate, wall_ms));
    if before.is_some_and(|gate| gate.limits == limits) {
        return Ok(());
    }
    let mut gate = before.unwrap_or(Gate {
        limits,
        clock_ms: 0,
        seen_ms: wall_ms,
        level: 0,
        short: false,
        resting: false,
    });
    // Whoever rests by the old limit is called by the new one.
    if let Some(group) = before.and_then(|before| before.limits.group) {
        gate.clock_ms = gate.clock_ms.saturating_add(group.apart_us().div_ceil(1000));
    }
    let full = before.and_then(|gate| gate.limits.rate).is_none();
    let kept = gate.limits.rate.map_or(0, |rate| gate.level / u64::from(rate.per_ms));
    let messages = if full {
        u64::from(limits.burst)
    } else {
        kept.min(limits.burst.into())
    };
    gate.level = limits.rate.map_or(0, |rate| messages * u64::from(rate.per_ms));
    gate.limits = limits;
    meta.limit = Some(gate).filter(|gate| gate.resting || limits.rate.or(limits.group).is_some());
    store.set_meta(&meta)?;
    if store.guard("limit-bell") {
        store.ring(Wake::Bell)?;
    }
    Ok(())
}

/// A limit with what time has brought.
pub(super) fn looked_at(store: &impl Store, mut gate: Gate, wall_ms: u64) -> Gate {
    let mut moved = i128::from(wall_ms) - i128::from(gate.seen_ms);
    if store.guard("limit-back") {
        moved = moved.max(0);
    }
    let after = |before: u64, moved: i128| u64::try_from((i128::from(before) + moved).max(0)).unwrap_or(u64::MAX);
    gate.clock_ms = after(gate.clock_ms, moved);
    gate.seen_ms = wall_ms;
    if let Some(rate) = gate.limits.rate {
        gate.level = after(gate.level, moved * i128::from(rate.messages));
        if store.guard("limit-burst") {
            gate.level = gate.level.min(most(&gate, gate.short));
        }
    }
    gate
}

/// As much as its bucket holds.
fn most(gate: &Gate, with_slack: bool) -> u64 {
    let Some(rate) = gate.limits.rate else { return 0 };
    let slack = if with_slack { LIMIT_SLACK_MS } else { 0 };
    u64::from(gate.limits.burst) * u64::from(rate.per_ms) + slack * u64::from(rate.messages)
}

/// Whether nothing may be taken now.
pub(super) fn is_shut(store: &impl Store, meta: &Meta, wall_ms: u64) -> bool {
    let gate = meta.limit.map(|gate| looked_at(store, gate, wall_ms));
    gate.is_some_and(|gate| gate.limits.rate.is_some_and(|rate| gate.level < rate.per_ms.into()))
}

/// Rings for new work, unless nothing may be taken now and somebody was told when there is more: who waits for that would come in vain.
pub(super) fn ring(store: &mut impl Store, meta: &Meta, wall_ms: u64) -> Result<()> {
    let is_awaited =
        meta.limit.is_some_and(|gate| looked_at(store, gate, wall_ms).short) && is_shut(store, meta, wall_ms);
    if is_awaited && store.guard("limit-quiet") {
        return Ok(());
    }
    store.ring(Wake::Bell)
}

/// Whether a group rests no longer, and nobody has called it yet.
pub(super) fn has_rested(store: &mut impl Store, meta: &Meta, wall_ms: u64) -> Result<bool> {
    let Some(gate) = meta.limit.map(|gate| looked_at(store, gate, wall_ms)) else {
        return Ok(false);
    };
    Ok(store.first_rest()?.is_some_and(|until| until <= gate.clock_us()))
}

/// What a limit lets a take have, and what it tells who wants more.
pub(super) struct Limited {
    gate: Option<Gate>,
    /// How many were wanted, and how many there may be.
    wanted: u64,
    allowed: u64,
    /// Groups that rest no longer, and since when.
    late: BTreeMap<String, u64>,
}

impl Limited {
    /// Before a take that wants so many; so many others were given back, and with them what they had taken from the bucket.
    pub(super) fn look(store: &mut impl Store, meta: &Meta, wall_ms: u64, wanted: u64, returned: u64) -> Result<Self> {
        let mut limited = Self {
            gate: meta.limit,
            wanted,
            allowed: wanted,
            late: BTreeMap::new(),
        };
        if wanted == 0 && returned == 0 {
            limited.gate = None;
        }
        let Some(gate) = limited.gate else { return Ok(limited) };
        let mut gate = looked_at(store, gate, wall_ms);
        if let Some(rate) = gate.limits.rate {
            let given = if store.guard("limit-returned") { returned } else { 0 };
            gate.level = gate
                .level
                .saturating_add(given * u64::from(rate.per_ms))
                .min(most(&gate, true));
            if store.guard("limit") {
                limited.allowed = wanted.min(gate.level / u64::from(rate.per_ms));
            }
        }
        if wanted > 0 && gate.resting {
            for (group, until) in store.rested(gate.clock_us(), GROUPS_LOOKED_MAX)? {
                store.end_rest(&group)?;
                if store.line_length(&group)? > 0 {
                    let turn = store.turn(&group)?;
                    offer(store, &group, turn)?;
                    limited.late.insert(group, until);
                }
            }
        }
        limited.gate = Some(gate);
        Ok(limited)
    }

    /// How many may be taken.
    pub(super) fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Whether a group rests.
    pub(super) fn rests(&self, store: &mut impl Store, group: &str) -> Result<bool> {
        let Some(gate) = self.gate.filter(|gate| gate.limits.group.is_some()) else {
            return Ok(false);
        };
        let until = store.rest(group)?;
        Ok(until.is_some_and(|until| until > gate.clock_us()) && store.guard("limit-group"))
    }

    /// A message of a group was taken from its line: it rests.
    pub(super) fn took(&mut self, store: &mut impl Store, group: &str) -> Result<()> {
        let Some(gate) = &mut self.gate else { return Ok(()) };
        let Some(rate) = gate.limits.group else { return Ok(()) };
        let (now, slack) = (gate.clock_us(), LIMIT_SLACK_MS * 1000);
        let since = self.late.remove(group).unwrap_or(now).max(now.saturating_sub(slack));
        gate.resting = true;
        store.set_rest(group, since + rate.apart_us())
    }

    /// A message was taken again. If it may have been handled before, its group rests for it once more.
    pub(super) fn took_again(&mut self, store: &mut impl Store, pack: &Pack) -> Result<()> {
        let Some(gate) = &mut self.gate else { return Ok(()) };
        let (Some(rate), Some(group)) = (gate.limits.group, pack.group()) else {
            return Ok(());
        };
        if pack.deliveries() == 1 && pack.failures() == 0 || !store.guard("limit-again") {
            return Ok(());
        }
        let until = store.rest(group)?.unwrap_or(0).max(gate.clock_us());
        gate.resting = true;
        store.set_rest(group, until + rate.apart_us())
    }

    /// After the take, which brought so many: what is kept, and in how many milliseconds there is more, if there is and the limit kept
    /// it back.
    pub(super) fn end(self, store: &mut impl Store, meta: &mut Meta, total: u64) -> Result<Option<u64>> {
        let Some(mut gate) = self.gate else { return Ok(None) };
        let mut wait_ms = None;
        if let Some(rate) = gate.limits.rate {
            let (per_ms, messages) = (u64::from(rate.per_ms), u64::from(rate.messages));
            gate.level = gate.level.saturating_sub(total * per_ms);
            if self.wanted > 0 {
                gate.short = self.allowed < self.wanted && total >= self.allowed;
            }
            if gate.short {
                wait_ms = Some(per_ms.saturating_sub(gate.level).div_ceil(messages));
            } else if self.allowed < self.wanted && total > 0 {
                // It ended early, and there is something left.
                let waits = meta.again || store.ready_count()? > 0 || !store.is_empty(Line::Queue)?;
                wait_ms = waits.then_some(0);
            }
        }
        if gate.resting && self.wanted > 0 {
            let first = store.first_rest()?;
            gate.resting = first.is_some();
            if let Some(until) = first.filter(|_| total < self.allowed && wait_ms.is_none()) {
                wait_ms = Some(until.saturating_sub(gate.clock_us()).div_ceil(1000));
            }
        }
        meta.limit = Some(gate).filter(|gate| gate.resting || gate.limits.rate.or(gate.limits.group).is_some());
        Ok(wait_ms)
    }
}
