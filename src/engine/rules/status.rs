//! One look at everything.

use super::clock::{hive, shown};
use super::no_queue;
use crate::engine::layout::check_layout;
use crate::engine::limits::{COLLECT_BYTES_MAX, LONGEST_GROUPS};
use crate::engine::store::{Lane, Lessee, Line, Store};
use crate::engine::{GroupFigures, Held, Limits, NodeStatus, Status};
use crate::error::Result;

/// How many numbers were given out.
pub fn published(store: &mut impl Store) -> Result<u64> {
    let meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    check_layout(store.queue_name(), store.names(), meta.layout, &meta.names)?;
    Ok(meta.seq)
}

/// One consistent look at everything.
pub fn status(store: &mut impl Store, wall_ms: u64) -> Result<Status> {
    let meta = store.meta()?.ok_or_else(|| no_queue(store))?;
    check_layout(store.queue_name(), store.names(), meta.layout, &meta.names)?;
    let (clock, shown, time_ms) = (
        hive(store, &meta, wall_ms),
        shown(store, &meta, wall_ms),
        store.time_ms(wall_ms),
    );
    let mut nodes = Vec::new();
    for (node, until) in store.leases(Lessee::Node)? {
        let report = store.report(&node)?;
        let about = store.about(&node)?.unwrap_or_default();
        let lanes = store.lanes(&node)?;
        let sum = |of: fn(&Lane) -> u64| lanes.iter().map(of).sum::<u64>();
        let watched = store.is_connected(&node)?;
        let held: i64 = lanes.iter().map(|lane| lane.held).sum();
        nodes.push(NodeStatus {
            node,
            host: about.host,
            pid: about.pid,
            version: about.version,
            concurrency: about.concurrency,
            age_ms: clock.saturating_sub(about.joined),
            in_hand: u64::try_from(held).unwrap_or(0),
            done: sum(|lane| lane.done),
            failed: sum(|lane| lane.failed),
            lease_in_ms: until.saturating_sub(shown),
            silent_ms: shown.saturating_sub(until),
            watched,
            behind: about.reshards < store.names().reshards(),
            report,
        });
    }
    // What nodes that are gone still held.
    let mut orphaned = 0;
    for node in store.dead()? {
        orphaned += store.about(&node)?.and_then(|about| about.held).unwrap_or(0);
    }
    let (groups, longest) = store.longest_lines(LONGEST_GROUPS)?;
    let groups = GroupFigures {
        groups,
        messages: store.grouped_count()?,
        longest,
        paused: store.paused_groups()?,
    };
    let waits = groups.messages > 0 || !store.is_empty(Line::Queue)? || !store.is_empty(Line::Again)?;
    let gone = Status {
        birth: meta.birth,
        time_ms,
        generator: Some(meta.generator).filter(|_| meta.crown > shown),
        generator_heard_ago_ms: (meta.ruled > 0).then(|| time_ms.saturating_sub(meta.ruled)),
        epoch: meta.epoch,
        published: meta.seq,
        queued: 0,
        in_hand: orphaned,
        later: store.later_count()?,
        done: meta.done,
        failed: meta.failed,
        errors: store.failed_count()? + store.reading_count()?,
        requeued: meta.requeued,
        paused: meta.paused,
        limits: meta.limit.map_or(Limits::NONE, |gate| gate.limits),
        cancels: meta.cancels.count(),
        trimmed: meta.trimmed,
        rewinds: meta.rewinds,
        damaged: store.damaged_count()?,
        missing: 0,
        grain: meta.grain,
        groups,
        nodes,
        shards: Vec::new(),
    };
    Ok(gone.with_members(meta.skipped, waits))
}

/// What a node has in hand, the smallest numbers first.
pub fn held(store: &mut impl Store, node: &str, limit: u32) -> Result<Vec<Held>> {
    let pieces = store.pieces(node, limit as usize, COLLECT_BYTES_MAX)?;
    Ok(pieces.iter().map(Held::of).collect())
}
