//! Readers of errors, and what else becomes of them.

use super::{expired, hive};
use crate::engine::store::{Lessee, Line, Store};
use crate::engine::{COLLECT_BYTES_MAX, Collect, Collected, Failed, Requeued, TRIM_MAX, Wake, record};
use crate::error::Result;
use crate::message::PackBuilder;

pub(super) fn collect<S: Store + ?Sized>(store: &mut S, wall_ms: u64, collect: &Collect) -> Result<Collected> {
    let reader = &collect.reader;
    let Some(mut meta) = store.meta()? else {
        return Ok(Collected::Batch {
            failed: Vec::new(),
            others: 0,
            victim: None,
        });
    };
    meta.clock = hive(store, &meta, wall_ms, meta.step);
    meta.wall = wall_ms;
    let reads = collect.want > 0;
    let failed = match store.reading(reader)? {
        Some((call, failed)) if call == collect.call => failed,
        found => {
            let (filled_by, held) = found.unwrap_or_default();
            let shown = held
                .iter()
                .map(|failed| failed.number)
                .eq(collect.shown.iter().copied());
            // A late first call may take a batch for a reader that has left: no late second call confirms that.
            if store.guard("collect-call") && (filled_by + 1 != collect.call || !shown) {
                return Ok(Collected::Deposed);
            }
            store.remove_reading(reader)?;
            if reads {
                let failed = batch(store, 0, collect.below, collect.want as usize)?;
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

pub(super) fn hold<S: Store + ?Sized>(store: &mut S, wall_ms: u64, reader: &str, lease_ms: u64) -> Result<bool> {
    let Some(mut meta) = store.meta()? else {
        return Ok(false);
    };
    meta.clock = hive(store, &meta, wall_ms, meta.step);
    meta.wall = wall_ms;
    store.set_meta(&meta)?;
    if store.guard("hold-member") && store.lease(Lessee::Reader, reader)?.is_none() {
        return Ok(false);
    }
    store.set_lease(Lessee::Reader, reader, meta.clock + lease_ms)?;
    Ok(true)
}

pub(super) fn release<S: Store + ?Sized>(store: &mut S, wall_ms: u64, reader: &str, only_expired: bool) -> Result<()> {
    let Some(meta) = store.meta()? else { return Ok(()) };
    let clock = hive(store, &meta, wall_ms, meta.step);
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

/// A requeued message begins anew, out of the order of numbers.
pub(super) fn requeue<S: Store + ?Sized>(store: &mut S, numbers: &[u64]) -> Result<Requeued> {
    let mut requeued = Requeued {
        numbers: Vec::new(),
        looked: 0,
    };
    let Some(mut meta) = store.meta()? else {
        requeued.looked = numbers.len();
        return Ok(requeued);
    };
    let (mut bytes, mut builder) = (0, PackBuilder::new());
    for number in numbers {
        if bytes >= COLLECT_BYTES_MAX {
            break;
        }
        requeued.looked += 1;
        let Some(failed) = one(store, *number)? else { continue };
        if store.guard("requeue-withdraws") {
            store.remove_failed(*number)?;
        }
        builder.push(&failed.payload);
        let pack = builder
            .build(*number, failed.epoch, failed.published_ms)
            .marked_unordered();
        bytes += pack.bytes().len();
        store.push_back(Line::Again, &pack)?;
        requeued.numbers.push(*number);
    }
    if !requeued.numbers.is_empty() {
        meta.requeued += requeued.numbers.len() as u64;
        meta.again = true;
        store.set_meta(&meta)?;
        store.ring(Wake::Bell)?;
    }
    Ok(requeued)
}

pub(super) fn discard<S: Store + ?Sized>(store: &mut S, numbers: &[u64]) -> Result<Vec<u64>> {
    let mut discarded = Vec::new();
    for number in numbers {
        if one(store, *number)?.is_some() {
            store.remove_failed(*number)?;
            discarded.push(*number);
        }
    }
    Ok(discarded)
}

pub(super) fn trim<S: Store + ?Sized>(store: &mut S, keep: u64) -> Result<Vec<u64>> {
    let excess = store.failed_count()?.saturating_sub(keep).min(TRIM_MAX as u64);
    let Some(mut meta) = store.meta()?.filter(|_| excess > 0) else {
        return Ok(Vec::new());
    };
    let excess = usize::try_from(excess).unwrap_or(TRIM_MAX);
    let oldest = store.failed_between(0, u64::MAX, excess)?;
    let gone: Vec<u64> = oldest.iter().map(|failed| failed.number).collect();
    for number in &gone {
        store.remove_failed(*number)?;
    }
    if store.guard("trimmed") {
        meta.trimmed += gone.len() as u64;
        store.set_meta(&meta)?;
    }
    Ok(gone)
}

fn one<S: Store + ?Sized>(store: &mut S, number: u64) -> Result<Option<Failed>> {
    Ok(store.failed_between(number, number + 1, 1)?.pop())
}

/// The same from the other end, with the same limits.
pub(super) fn latest<S: Store + ?Sized>(store: &mut S, below: u64, want: usize) -> Result<Vec<Failed>> {
    let (mut batch, mut bytes, mut chunk, mut below) = (Vec::new(), 0, 1, below);
    while batch.len() < want && bytes < COLLECT_BYTES_MAX {
        let failed = store.failed_below(below, chunk.min(want - batch.len()))?;
        let Some(last) = failed.last() else { break };
        below = last.number;
        bytes += failed.iter().map(|failed| record::encode(failed).len()).sum::<usize>();
        batch.extend(failed);
        chunk = (chunk * 2).min(500);
    }
    Ok(batch)
}

/// A batch of failed messages: chunks that double, until there are enough messages or bytes.
pub(super) fn batch<S: Store + ?Sized>(store: &mut S, from: u64, below: u64, want: usize) -> Result<Vec<Failed>> {
    let (mut batch, mut bytes, mut chunk, mut from) = (Vec::new(), 0, 1, from);
    while batch.len() < want && bytes < COLLECT_BYTES_MAX {
        let failed = store.failed_between(from, below, chunk.min(want - batch.len()))?;
        let Some(last) = failed.last() else { break };
        from = last.number + 1;
        bytes += failed.iter().map(|failed| record::encode(failed).len()).sum::<usize>();
        batch.extend(failed);
        chunk = (chunk * 2).min(500);
    }
    Ok(batch)
}
