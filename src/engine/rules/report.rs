//! What nodes tell of themselves, and what was.

use crate::engine::history::{Bucket, History, LOOK_NODES_MAX, LastReport, Range, Report, Reported};
use crate::engine::store::{Lessee, Store};
use crate::error::Result;

pub(super) fn report<S: Store + ?Sized>(store: &mut S, wall_ms: u64, report: &Report) -> Result<Reported> {
    let member = store.lease(Lessee::Node, &report.node)?.is_some();
    if !member && store.guard("report-member") {
        return Ok(Reported::Stranger);
    }
    let last = store.report(&report.node)?.map_or(0, |kept| kept.number);
    if report.number <= last && store.guard("report-once") {
        return Ok(Reported::Stored { look: false });
    }
    let time_ms = store.time_ms(wall_ms);
    let kept = LastReport {
        number: report.number,
        time_ms,
        live: report.live.clone(),
    };
    store.set_report(&report.node, &kept)?;
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

/// None: there is no queue.
pub(super) fn history<S: Store + ?Sized>(store: &mut S, wall_ms: u64, range: Range) -> Result<Option<History>> {
    let Some(meta) = store.meta()? else { return Ok(None) };
    let mut slots = Vec::new();
    for slot in 0..range.steps() {
        slots.extend(store.slot(range, slot)?);
    }
    let (now_ms, reigns) = (store.time_ms(wall_ms), store.reigns()?);
    Ok(Some(History::of(now_ms, range, slots, &reigns, meta.ruled)))
}
