//! A limit: how close to it a whole fleet comes over a minute.

use std::time::Duration;

use super::cost::{self, Cost};
use super::measure::{GENERATOR, joined};
use super::raw::float;
use super::row::Row;
use super::row::Target::AtMost;
use super::session::{Queue, Session};
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::copy::Capture;
use crate::engine::{Engine, Limits, Rate};

/// So many processes handle, most of them in vain.
const COPIES: usize = 6;
const HANDLER: &str = "--prefer never --work 0 --error-rate 0 --concurrency 4";

/// Limits of the fleet and one of each group: by how much more or fewer messages were done than that, by the store's own clock.
pub(super) fn limits(session: &Session, load: Load) -> Rows {
    let time = load.of(Duration::from_mins(1), Duration::from_secs(2));
    let rate = |messages| {
        let per_ms = 1000;
        Some(Rate { messages, per_ms })
    };
    let mut rows = Vec::new();
    for (name, rate, group, groups, expected) in [
        ("limit 500/s", rate(500), None, 0, 500.0),
        ("limit 7/s", rate(7), None, 0, 7.0),
        ("limit 10/s of each of 20 groups", None, rate(10), 20, 200.0),
    ] {
        let limits = Limits { rate, burst: 0, group };
        let (measured, cost) = limited(session, &limits, groups, time)?;
        let off = 100.0 * (measured / expected - 1.0).abs();
        let row = Row::new(name, "% off", vec![off]).target(AtMost(1.0)).cost(cost);
        rows.push(row.note(format!("{measured:.2} messages/s, {COPIES} copies")));
    }
    Ok(rows)
}

/// Messages a second.
fn limited(session: &Session, limits: &Limits, groups: u64, time: Duration) -> Result<(f64, Cost), Failure> {
    let queue = session.queue()?;
    let generator = match groups {
        0 => format!("{GENERATOR} --max-backlog 100000"),
        groups => format!("bench-node {GENERATOR} --max-backlog 20000 --groups {groups}"),
    };
    let mut copies = vec![queue.copy(&generator, Capture::Nothing)?];
    joined(&queue, &mut copies)?;
    session.runtime.block_on(queue.engine.limit(limits))?;
    copies.extend(queue.copies(COPIES, HANDLER)?);
    joined(&queue, &mut copies)?;
    session.pause(time / 20)?;
    let (before, client, meter) = (look(&queue)?, cost::cpu(&copies), Cost::of_redis(&[session])?);
    session.pause(time)?;
    let after = look(&queue)?;
    let (messages, ms) = (after.0 - before.0, after.1 - before.1);
    let cost = meter.until_now(&[session], messages, cost::cpu(&copies).saturating_sub(client))?;
    Ok((float(messages) * 1000.0 / float(ms), cost))
}

/// How many messages are done or in hand, and the store's time of day.
fn look(queue: &Queue) -> Result<(u64, u64), Failure> {
    let status = queue.status()?;
    Ok(status.map_or((0, 0), |status| {
        (status.done + status.failed + status.in_hand, status.time_ms)
    }))
}
