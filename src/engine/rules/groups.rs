//! Groups: messages of one group are handled one at a time and in the order of their numbers, and groups take turns.
//!
//! A message is *in flight* from the moment in which it is taken from its line until it has its outcome, done or error, wherever it is
//! meanwhile: in hand, in `again`, put off. That alone keeps the order. A group is `ready` if something waits in its line, it is not paused,
//! and it may have one more in flight.

use super::exchange::Take;
use super::limit::Limited;
use super::no_queue;
use crate::engine::limits::{GROUPS_LOOKED_MAX, PAUSED_GROUPS_MAX, TAKE_EXACT, TAKE_PACKS_MAX};
use crate::engine::store::{GroupRules, Store, Turn};
use crate::engine::{Join, PausedGroup, Wake};
use crate::error::Result;
use crate::message::Pack;

/// Puts a message into the line of its group.
pub(super) fn line_up(store: &mut impl Store, pack: &Pack) -> Result<()> {
    let Some(group) = pack.group() else { return Ok(()) };
    store.enter_line(group, &pack.in_line())?;
    let turn = store.turn(group)?;
    offer(store, group, turn)
}

/// A message of a group has its outcome, or is not waited for any more. Returns whether the group has become ready by that.
pub(super) fn ended(store: &mut impl Store, group: &str) -> Result<bool> {
    let before = store.turn(group)?;
    let mut turn = before;
    if store.guard("group-ended") {
        turn.in_flight = turn.in_flight.saturating_sub(1);
    }
    if store.line_length(group)? == 0 {
        store.set_turn(group, turn)?;
    } else {
        offer(store, group, turn)?;
    }
    Ok(store.turn(group)?.ready && !before.ready)
}

/// Makes a group ready, of which something waits, if it may be.
pub(super) fn offer(store: &mut impl Store, group: &str, mut turn: Turn) -> Result<()> {
    let rules = store.group_rules()?;
    let once = !turn.ready || !store.guard("group-once");
    let paused = turn.paused && store.guard("group-paused");
    let busy = turn.in_flight >= rules.concurrency && store.guard("group-turn");
    if once && !paused && !busy {
        turn.ready = true;
        store.push_ready(group)?;
    }
    store.set_turn(group, turn)
}

/// What the last node that joined has set counts for all. A group that may have more in flight now gets its next turn when one of those that
/// are in flight ends; one that has too many is passed over until then.
pub(super) fn set_rules(store: &mut impl Store, join: &Join) -> Result<()> {
    let before = store.group_rules()?;
    let rules = GroupRules {
        groups_first: before.groups_first,
        ..GroupRules::of_join(join)
    };
    if rules != before {
        store.set_group_rules(rules)?;
    }
    Ok(())
}

/// How much of what a take wants it takes from groups before it looks at the queue. The next take begins the other way round.
pub(super) fn first_share(store: &mut impl Store, wanted: u64, want: u64) -> Result<u64> {
    let rules = store.group_rules()?;
    store.set_group_rules(GroupRules {
        groups_first: !rules.groups_first,
        ..rules
    })?;
    // A take that has half of what it wants cuts no pack of the queue: so groups have less than that, and both have a share.
    let share = if want >= TAKE_EXACT {
        wanted / 4
    } else {
        wanted.midpoint(u64::from(rules.groups_first))
    };
    Ok(share.min(TAKE_PACKS_MAX as u64 / 2))
}

/// Takes up to so many messages from groups whose turn it is, one of each.
pub(super) fn take_groups(store: &mut impl Store, take: &mut Take, limited: &mut Limited, quota: u64) -> Result<()> {
    let rules = store.group_rules()?;
    let (mut left, mut looked, mut taken) = (store.ready_count()?, 0, 0);
    while taken < quota && left > 0 && looked < GROUPS_LOOKED_MAX && take.has_room() {
        let Some(group) = store.pop_ready()? else { break };
        left -= 1;
        looked += 1;
        let mut turn = store.turn(&group)?;
        let paused = turn.paused && store.guard("group-paused");
        let busy = turn.in_flight >= rules.concurrency && store.guard("group-turn");
        let head = if paused || busy || !turn.ready || limited.rests(store, &group)? {
            None
        } else {
            store.first_in_line(&group)?
        };
        let Some(pack) = head else {
            turn.ready = false;
            store.set_turn(&group, turn)?;
            continue;
        };
        if !take.holds(&pack) {
            store.unpop_ready(&group)?;
            break;
        }
        store.leave_line(&group, pack.first())?;
        limited.took(store, &group)?;
        turn.in_flight += 1;
        turn.ready = false;
        if store.line_length(&group)? == 0 {
            store.set_turn(&group, turn)?;
        } else {
            offer(store, &group, turn)?;
        }
        take.add_new(pack);
        taken += 1;
    }
    Ok(())
}

/// Pauses a group, or lets it go on.
pub fn pause_group(store: &mut impl Store, group: &str, paused: bool) -> Result<PausedGroup> {
    if store.meta()?.is_none() {
        return Err(no_queue(store));
    }
    let mut turn = store.turn(group)?;
    if paused && !turn.paused && store.paused_groups()?.len() >= PAUSED_GROUPS_MAX {
        return Ok(PausedGroup::TooMany);
    }
    turn.paused = paused;
    if paused || store.line_length(group)? == 0 {
        store.set_turn(group, turn)?;
    } else {
        offer(store, group, turn)?;
        store.ring(Wake::Bell)?;
    }
    Ok(PausedGroup::Ok {
        waiting: store.line_length(group)?,
    })
}
