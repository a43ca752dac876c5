//! How messages ended whose outcomes were asked for, and where a message is.

use super::no_queue;
use crate::engine::layout::check_layout;
use crate::engine::limits::{ENDING_MS, ENDINGS_MAX};
use crate::engine::store::{Asked, Lessee, Store, Waits};
use crate::engine::{Ending, Found};
use crate::error::Result;

/// Notes what became of such messages. Each that ends forgets up to two more than are added, if their time is over, or there are too many.
pub(super) fn note(store: &mut impl Store, time_ms: u64, noted: &[(u64, Asked)]) -> Result<()> {
    let mut added = 0;
    for (number, asked) in noted {
        store.set_asked(*number, asked)?;
        added += usize::from(matches!(asked, Asked::Ended(_)));
    }
    if added == 0 {
        return Ok(());
    }
    let mut count = store.endings_count()?;
    for (ended_ms, number) in store.first_endings(added + 2)? {
        let is_late = ended_ms + ENDING_MS <= time_ms && store.guard("endings-until");
        let are_many = count > ENDINGS_MAX && store.guard("endings-max");
        if !is_late && !are_many {
            break;
        }
        store.forget_asked(number)?;
        count -= 1;
    }
    Ok(())
}

/// It may not have been forgotten yet.
fn is_kept(store: &impl Store, ending: &Ending, time_ms: u64) -> bool {
    ending.time_ms + ENDING_MS > time_ms || !store.guard("ending-until")
}

/// How these messages ended. None: it has not, was not asked for, or is not kept any more.
pub fn endings(store: &mut impl Store, wall_ms: u64, numbers: &[u64]) -> Result<Vec<Option<Ending>>> {
    let time_ms = store.time_ms(wall_ms);
    let mut endings = Vec::with_capacity(numbers.len());
    for number in numbers {
        endings.push(match store.asked(*number)? {
            Some(Asked::Ended(ending)) if is_kept(store, &ending, time_ms) => Some(ending),
            _ => None,
        });
    }
    Ok(endings)
}

/// Where a message is.
pub fn find(store: &mut impl Store, wall_ms: u64, number: u64) -> Result<Found> {
    let meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    check_layout(store.queue_name(), store.names(), meta.layout, &meta.names)?;
    if number >= meta.seq {
        return Ok(Found::Unpublished);
    }
    let (time_ms, asked) = (store.time_ms(wall_ms), store.asked(number)?);
    match &asked {
        Some(Asked::Ended(ending)) if is_kept(store, ending, time_ms) => return Ok(Found::Ended(ending.clone())),
        _ => {}
    }
    if let Some(failed) = store.failed_between(number, number + 1, 1, 0)?.pop() {
        return Ok(Found::Failed(Box::new(failed)));
    }
    let members = store.leases(Lessee::Node)?.into_iter().map(|(node, _)| node);
    for node in members.chain(store.dead()?) {
        if store.piece_from(&node, number)?.is_some_and(|pack| pack.has(number)) {
            return Ok(Found::Held { node });
        }
    }
    if let Some(Asked::Waits { due_ms }) = asked {
        return Ok(if due_ms > time_ms {
            Found::Later { until_ms: due_ms }
        } else {
            Found::Queued
        });
    }
    // Nobody asked for it, so it is looked for where messages wait. It has ended, if that was looked through, and it is nowhere.
    Ok(match store.waits(number)? {
        Waits::Until(until_ms) if until_ms > time_ms => Found::Later { until_ms },
        Waits::Until(_) | Waits::Now => Found::Queued,
        Waits::Unseen if store.guard("found-all") => Found::Unknown,
        Waits::Nowhere | Waits::Unseen => Found::Settled,
    })
}
