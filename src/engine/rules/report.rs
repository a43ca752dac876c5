//! What nodes report of themselves, and the history made of it.

use super::no_queue;
use crate::engine::history::{Bucket, History, LOOK_NODES_MAX, LastReport, Range, Report, Reported};
use crate::engine::store::{Lessee, Store};
use crate::error::Result;

/// Stores the report of a member, and adds it to the sums over time.
pub fn report(store: &mut impl Store, wall_ms: u64, report: &Report) -> Result<Reported> {
    let member = store.lease(Lessee::Node, &report.node)?.is_some();
    if !member && store.guard("report-member") {
        return Ok(Reported::Stranger);
    }
    let last = store.report(&report.node)?.map_or(0, |last| last.number);
    if report.number <= last && store.guard("report-once") {
        return Ok(Reported::Stored { look: false });
    }
    let time_ms = store.time_ms(wall_ms);
    let last = LastReport {
        number: report.number,
        time_ms,
        live: report.live.clone(),
    };
    store.set_report(&report.node, &last)?;
    let mut fresh = [false; 3];
    for (fresh, range) in fresh.iter_mut().zip(Range::ALL) {
        let index = time_ms / range.step_ms();
        let slot = index % range.steps();
        let found = store.slot(range, slot)?.filter(|bucket| bucket.index == index);
        *fresh = found.is_none();
        let mut bucket = found.unwrap_or(Bucket {
            index,
            ..Bucket::default()
        });
        bucket.figures.add(&report.figures);
        bucket.gauges = report.gauges.or(bucket.gauges);
        store.set_slot(range, slot, &bucket)?;
    }
    let few = store.leases(Lessee::Node)?.len() as u64 <= LOOK_NODES_MAX;
    let look = report.gauges.is_none() && (fresh[1] || few && fresh[0]);
    Ok(Reported::Stored { look })
}

/// The sums over time, and the last reigns.
pub fn history(store: &mut impl Store, wall_ms: u64, range: Range) -> Result<History> {
    let meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    let mut slots = Vec::new();
    for slot in 0..range.steps() {
        slots.extend(store.slot(range, slot)?);
    }
    let (now_ms, reigns) = (store.time_ms(wall_ms), store.reigns()?);
    Ok(History::of(now_ms, range, slots, &reigns, meta.ruled))
}
