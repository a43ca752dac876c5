//! Cancelling: messages that are to end as errors, whoever takes them.
//!
//! A bounded set of numbers, and of groups each up to a number. A take tells which of its messages are in it, and their node settles them as errors
//! without handling them; a beat tells all of it, for handlers that are at work. A number goes from it with the outcome of its message. One whose message
//! had ended before goes when nothing waits any more that it could be, and an hour has passed for what is in a hand.

use super::clock::hive;
use super::no_queue;
use crate::engine::limits::{CANCEL_MS, CANCEL_MS_MAX, CANCELS_MAX};
use crate::engine::store::{Asked, Kept, Line, Meta, Store};
use crate::engine::{Cancelled, CancelledGroup};
use crate::error::Result;
use crate::message::Pack;

/// Runs of messages: the first number of each, and how many.
pub(super) type Runs = Vec<(u64, u64)>;

/// Cancels messages.
pub fn cancel(store: &mut impl Store, wall_ms: u64, numbers: &[u64]) -> Result<Vec<Cancelled>> {
    let mut meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    let until = kept_until(store, &meta, wall_ms)?;
    let mut answers = Vec::with_capacity(numbers.len());
    for number in numbers {
        let is_known = meta.cancels.numbers.contains_key(number);
        let answer = if *number >= meta.seq && store.guard("cancel-published") {
            Cancelled::Unpublished
        } else if has_ended(store, *number)? {
            Cancelled::Ended
        } else if !is_known && !meta.cancels.has_room() && store.guard("cancel-max") {
            Cancelled::TooMany
        } else {
            meta.cancels.numbers.insert(*number, until);
            Cancelled::Asked
        };
        answers.push(answer);
    }
    if answers.contains(&Cancelled::Asked) {
        store.set_meta(&meta)?;
    }
    Ok(answers)
}

/// Cancels all messages of a group that were published so far.
pub fn cancel_group(store: &mut impl Store, wall_ms: u64, group: &str) -> Result<CancelledGroup> {
    let mut meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    if !meta.cancels.groups.contains_key(group) && !meta.cancels.has_room_for_group() {
        return Ok(CancelledGroup::TooMany);
    }
    let waiting = store.line_length(group)?;
    if let Some(last) = meta.seq.checked_sub(1) {
        let until = kept_until(store, &meta, wall_ms)?;
        meta.cancels.groups.insert(group.to_string(), (last, until));
        // What was requeued before is cancelled now.
        meta.cancels.spared.retain(|_, of| of != group);
        store.set_meta(&meta)?;
    }
    Ok(CancelledGroup::Asked { waiting })
}

/// Whether the store knows that a message has ended.
fn has_ended(store: &mut impl Store, number: u64) -> Result<bool> {
    let ended = matches!(store.asked(number)?, Some(Asked::Ended(_)));
    Ok((ended || !store.failed_between(number, number + 1, 1, 0)?.is_empty()) && store.guard("cancel-ending"))
}

/// Until when it is remembered at least what is cancelled now: what is put off is to be due by then.
fn kept_until(store: &mut impl Store, meta: &Meta, wall_ms: u64) -> Result<u64> {
    let (clock, time_ms) = (hive(store, meta, wall_ms), store.time_ms(wall_ms));
    let last_due = store.last_due()?.unwrap_or(0);
    Ok(clock + last_due.saturating_sub(time_ms) + CANCEL_MS)
}

/// Which messages of these packs are cancelled.
pub(super) fn among(store: &impl Store, kept: &Kept, packs: &[Pack]) -> Vec<u64> {
    if kept.is_empty() || !store.guard("cancel-take") {
        return Vec::new();
    }
    let is_bounded = store.guard("cancel-bound");
    let of = |pack: &Pack| {
        let last = pack.group().and_then(|group| kept.groups.get(group));
        let last = last.map(|(last, _)| if is_bounded { *last } else { u64::MAX });
        let numbers = pack.first()..pack.first() + pack.count() as u64;
        let is_cancelled = |number: &u64| {
            let in_group = last.is_some_and(|last| *number <= last && !kept.spared.contains_key(number));
            kept.numbers.contains_key(number) || in_group
        };
        numbers.filter(is_cancelled).collect::<Vec<_>>()
    };
    packs.iter().flat_map(of).collect()
}

/// Runs of messages have ended, others were put off from now on for so long. Returns whether that changes what is kept.
pub(super) fn settled(
    store: &impl Store,
    meta: &mut Meta,
    clock: u64,
    ended: &[(u64, u64)],
    put_off: &[(u64, &Pack)],
) -> bool {
    if meta.cancels.is_empty() {
        return false;
    }
    let before = meta.cancels.clone();
    for (first, count) in ended.iter().filter(|_| store.guard("cancel-ended")) {
        for number in *first..first + count {
            meta.cancels.ended(number);
        }
    }
    for (after_ms, pack) in put_off.iter().filter(|_| store.guard("cancel-later")) {
        meta.cancels.put_off(pack, clock + after_ms);
    }
    meta.cancels.tidy();
    meta.cancels != before
}

/// A message has a new life, which nobody has cancelled.
pub(super) fn requeued(store: &impl Store, meta: &mut Meta, pack: &Pack) {
    if meta.cancels.is_empty() || !store.guard("cancel-requeue") {
        return;
    }
    let (number, kept) = (pack.first(), &mut meta.cancels);
    kept.numbers.remove(&number);
    if let Some(group) = pack.group()
        && kept.groups.get(group).is_some_and(|(last, _)| number <= *last)
        && kept.spared.len() < CANCELS_MAX
    {
        kept.spared.insert(number, group.to_string());
    }
    kept.tidy();
}

/// Forgets what can match nothing any more; `more_due` messages may be due, and not moved yet.
pub(super) fn forget(store: &mut impl Store, meta: &mut Meta, more_due: bool) -> Result<()> {
    if meta.cancels.is_empty() {
        return Ok(());
    }
    let clock = meta.clock;
    let is_timed = store.guard("cancel-kept");
    let is_late = |until: u64| clock >= until || !is_timed;
    let is_over = |until: u64| clock >= until.saturating_add(CANCEL_MS_MAX);
    let first = store.front(Line::Queue)?.map(|pack| pack.first());
    let nothing_waits = !more_due && store.is_empty(Line::Again)? && store.grouped_count()? == 0;
    let is_guarded = store.guard("cancel-waits");
    let mut kept = std::mem::take(&mut meta.cancels);
    kept.numbers.retain(|number, until| {
        let is_nowhere = nothing_waits && first.is_none_or(|first| *number < first) || !is_guarded;
        !(is_late(*until) && is_nowhere || is_over(*until))
    });
    let mut over = Vec::new();
    for (group, (last, until)) in &kept.groups {
        let has_passed = store.first_in_line(group)?.is_none_or(|pack| pack.first() > *last);
        let is_nowhere = has_passed && store.turn(group)?.in_flight == 0 || !is_guarded;
        if is_late(*until) && is_nowhere || is_over(*until) {
            over.push(group.clone());
        }
    }
    for group in over {
        kept.groups.remove(&group);
        kept.spared.retain(|_, of| *of != group);
    }
    kept.tidy();
    meta.cancels = kept;
    Ok(())
}
