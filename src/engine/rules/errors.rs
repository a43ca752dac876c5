//! Failed messages: reading, requeueing, discarding and trimming them.

use super::cancel;
use super::clock::{advance, expired, hive};
use super::groups::line_up;
use crate::engine::limits::{CHUNK_MAX, COLLECT_BYTES_MAX, TRIM_MAX};
use crate::engine::store::{Asked, Lessee, Line, Store};
use crate::engine::{Collect, Collected, Failed, Requeued, Wake, record};
use crate::error::Result;
use crate::message::Pack;

/// Confirms what a reader has printed, and takes its next batch.
pub fn collect(store: &mut impl Store, wall_ms: u64, collect: &Collect) -> Result<Collected> {
    let reader = &collect.reader;
    let Some(mut meta) = store.meta()? else {
        return Ok(Collected::Batch {
            failed: Vec::new(),
            others: 0,
            victim: None,
        });
    };
    advance(store, &mut meta, wall_ms);
    let reads = collect.want > 0;
    let failed = match store.reading(reader)? {
        Some((call, failed)) if call == collect.call => failed,
        found => {
            let (filled_by, held) = found.unwrap_or_default();
            let shown = held
                .iter()
                .map(|failed| failed.number)
                .eq(collect.shown.iter().copied());
            // A late copy of a first call may take a batch for a reader that has left: no later copy must confirm that batch.
            if store.guard("collect-call") && (filled_by + 1 != collect.call || !shown) {
                return Ok(Collected::Deposed);
            }
            store.remove_reading(reader)?;
            if reads {
                let want = CHUNK_MAX.min(collect.want as usize);
                let failed = store.failed_between(0, collect.below, want, COLLECT_BYTES_MAX)?;
                for each in &failed {
                    store.remove_failed(each.number)?;
                }
                store.set_reading(reader, collect.call, &failed)?;
                failed
            } else {
                store.end_lease(Lessee::Reader, reader)?;
                Vec::new()
            }
        }
    };
    store.set_meta(&meta)?;
    if reads {
        store.set_lease(Lessee::Reader, reader, meta.clock + collect.lease_ms)?;
    }
    let others = store.leases(Lessee::Reader)?.len() as u64 - u64::from(reads);
    let victim = expired(store, Lessee::Reader, meta.clock)?.filter(|victim| victim != reader);
    Ok(Collected::Batch { failed, others, victim })
}

/// Renews the lease of a reader. False: it was given up.
pub fn hold(store: &mut impl Store, wall_ms: u64, reader: &str, lease_ms: u64) -> Result<bool> {
    let Some(mut meta) = store.meta()? else {
        return Ok(false);
    };
    advance(store, &mut meta, wall_ms);
    store.set_meta(&meta)?;
    if store.guard("hold-member") && store.lease(Lessee::Reader, reader)?.is_none() {
        return Ok(false);
    }
    store.set_lease(Lessee::Reader, reader, meta.clock + lease_ms)?;
    Ok(true)
}

/// Puts back what a reader took and did not confirm.
pub fn release(store: &mut impl Store, wall_ms: u64, reader: &str, only_expired: bool) -> Result<()> {
    let Some(meta) = store.meta()? else { return Ok(()) };
    let clock = hive(store, &meta, wall_ms);
    let runs = store.lease(Lessee::Reader, reader)?.is_none_or(|until| until > clock);
    if only_expired && runs && store.guard("reader-lease") {
        return Ok(());
    }
    if let Some((_, batch)) = store.reading(reader)? {
        for failed in &batch {
            store.add_failed(failed)?;
        }
        store.remove_reading(reader)?;
    }
    store.end_lease(Lessee::Reader, reader)
}

/// Withdraws errors and puts their messages in again: their counts begin anew, and they are out of the order of numbers.
pub fn requeue(store: &mut impl Store, numbers: &[u64]) -> Result<Requeued> {
    let Some(mut meta) = store.meta()? else {
        return Ok(Requeued {
            numbers: Vec::new(),
            looked: numbers.len(),
        });
    };
    let (mut requeued, mut looked, mut bytes) = (Vec::new(), 0, 0);
    for number in numbers {
        let found = store.failed_between(*number, number.saturating_add(1), 1, 0)?.pop();
        bytes += found.as_ref().map_or(0, |failed| record::encode(failed).len());
        if !requeued.is_empty() && bytes > COLLECT_BYTES_MAX {
            break;
        }
        looked += 1;
        let Some(failed) = found else { continue };
        if store.guard("requeue-withdraws") {
            store.remove_failed(*number)?;
        }
        let pack = Pack::of_one(
            &failed.envelope(),
            &failed.payload,
            *number,
            failed.epoch,
            failed.published_ms,
        );
        if pack.group().is_some() && store.guard("group-requeue") {
            // Its number puts it at the head of its line.
            line_up(store, &pack)?;
        } else {
            store.push_back(Line::Again, &pack.marked_unordered())?;
            meta.again = true;
        }
        // How its last life ended says nothing about the next one.
        if failed.asked && store.guard("ending-requeue") {
            store.set_asked(*number, &Asked::Waits { due_ms: 0 })?;
        }
        cancel::requeued(store, &mut meta, &pack);
        requeued.push(*number);
    }
    if !requeued.is_empty() {
        meta.requeued += requeued.len() as u64;
        store.set_meta(&meta)?;
        store.ring(Wake::Bell)?;
    }
    Ok(Requeued {
        numbers: requeued,
        looked,
    })
}

/// Removes errors for good. Returns those that were there.
pub fn discard(store: &mut impl Store, numbers: &[u64]) -> Result<Vec<u64>> {
    let mut discarded = Vec::new();
    for number in numbers {
        if !store.failed_numbers(*number, number.saturating_add(1), 1)?.is_empty() {
            store.remove_failed(*number)?;
            discarded.push(*number);
        }
    }
    Ok(discarded)
}

/// Removes the oldest errors until `keep` are left. Returns which.
pub fn trim(store: &mut impl Store, keep: u64) -> Result<Vec<u64>> {
    let excess = store.failed_count()?.saturating_sub(keep).min(TRIM_MAX as u64);
    let Some(mut meta) = store.meta()?.filter(|_| excess > 0) else {
        return Ok(Vec::new());
    };
    let excess = usize::try_from(excess).unwrap_or(TRIM_MAX);
    let gone = store.failed_numbers(0, u64::MAX, excess)?;
    for number in &gone {
        store.remove_failed(*number)?;
    }
    if store.guard("trimmed") {
        meta.trimmed += gone.len() as u64;
        store.set_meta(&meta)?;
    }
    Ok(gone)
}

/// Failed messages from `from` on, without taking them.
pub fn failed(store: &mut impl Store, from: u64, limit: u32) -> Result<Vec<Failed>> {
    store.failed_between(from, u64::MAX, limit as usize, COLLECT_BYTES_MAX)
}

/// Failed messages below `below`, the largest number first, without taking them.
pub fn latest(store: &mut impl Store, below: u64, limit: u32) -> Result<Vec<Failed>> {
    store.failed_below(below, limit as usize, COLLECT_BYTES_MAX)
}
