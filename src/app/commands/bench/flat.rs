//! As fast as it goes: small messages, large ones, a deep backlog, a disk below, and memory over time.

use std::time::Duration;

use super::cost::{self, Cost, typical};
use super::measure::{GENERATOR, HANDLER, HANDLERS, compared, drain, queued_bytes, through};
use super::raw::{self, float};
use super::row::Row;
use super::row::Target::{AtMost, RatioAtLeast};
use super::session::Session;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::copy::Capture;
use crate::app::lab::server::{Fsync, Server};

pub(super) fn flat_out(session: &Session, load: Load) -> Rows {
    let messages = load.of(1_000_000, 20_000);
    let row = beside_cycle(session, load, "flat-out", messages, 0)?;
    Ok(vec![row.target(RatioAtLeast(1.0)).moonshot(RatioAtLeast(3.0))])
}

fn beside_cycle(session: &Session, load: Load, name: &str, messages: u64, payload: usize) -> Result<Row, Failure> {
    let generator = match payload {
        0 => GENERATOR.to_string(),
        bytes => format!("bench-node {GENERATOR} --payload {bytes}"),
    };
    let mut plain = Vec::new();
    let ours = || through(session, messages, &generator, (HANDLERS, HANDLER));
    let mut row = compared(name, load.rounds, ours, || {
        let (rate, cost) = raw::cycle(session, messages, payload, raw::PIPELINE)?;
        plain.push(cost);
        Ok(rate)
    })?;
    let plain = typical(&plain);
    let note = format!(
        "baseline: Redis {:.2} us, clients {:.2} us",
        plain.redis_cpu, plain.client_cpu
    );
    let queued = queued_bytes(session, messages.min(100_000), &generator)?;
    row.cost.get_or_insert_default().queued_bytes = queued;
    Ok(row.note(note))
}

pub(super) fn payloads(session: &Session, load: Load) -> Rows {
    let mut rows = Vec::new();
    for (name, payload, target) in [("100 B", 100, 0.8), ("1 KB", 1000, 0.3), ("16 KB", 16_000, 0.3)] {
        // 200 MB at most: five rounds are 1 GB.
        let messages = load.of(200_000_000 / payload, 2_000_000 / payload).min(1_000_000);
        let bytes = usize::try_from(payload).expect("small");
        let row = beside_cycle(session, load, &format!("payloads {name}"), messages, bytes)?;
        rows.push(row.target(RatioAtLeast(target)).moonshot(RatioAtLeast(0.8)));
    }
    Ok(rows)
}

pub(super) fn backlog(session: &Session, load: Load) -> Rows {
    let (small, large) = load.of((1_000_000, 10_000_000), (10_000, 50_000));
    let (ours, rounds) = (|| drain(session, large), load.rounds.min(3));
    let row = compared("backlog 10 M", rounds, ours, || Ok(drain(session, small)?.0))?;
    let row = row.target(RatioAtLeast(0.8)).moonshot(RatioAtLeast(1.0));
    Ok(vec![row.note("baseline: 1 M")])
}

pub(super) fn persistence(session: &Session, load: Load) -> Rows {
    let mut rows = Vec::new();
    for (name, fsync) in [("everysec", Fsync::EverySecond), ("always", Fsync::Always)] {
        let name = format!("persistence {name}");
        if Server::program().is_none() {
            let row = Row::new(name, "messages/s", Vec::new());
            rows.push(row.note("not measured: no redis-server on the PATH"));
            continue;
        }
        let durable = session.durable(fsync)?;
        let row = beside_cycle(&durable, load, &name, load.of(1_000_000, 20_000), 0)?;
        rows.push(row.target(RatioAtLeast(1.0)));
    }
    Ok(rows)
}

/// Flat out without an end: the largest process, and whether it grows.
pub(super) fn memory(session: &Session, load: Load) -> Rows {
    let queue = session.queue()?;
    let mut copies = queue.copies(HANDLERS, HANDLER)?;
    copies.push(queue.copy(&format!("{GENERATOR} --max-backlog 100000"), Capture::Nothing)?);
    let time = load.of(Duration::from_secs(20), Duration::from_secs(1));
    session.pause(time / 4)?;
    let early = cost::rss(&copies);
    session.pause(3 * time / 4)?;
    let late = cost::rss(&copies);
    let cost = Cost {
        peak_rss: cost::peak_rss(&copies),
        ..Cost::default()
    };
    let published = queue.status()?.map_or(0, |status| status.published);
    let row = Row::new("memory", "MB", vec![cost.peak_rss])
        .target(AtMost(30.0))
        .cost(cost);
    let millions = float(published) / 1e6;
    Ok(vec![row.note(format!(
        "{early:.1} MB after a quarter, {late:.1} MB at the end, {millions:.0} M messages"
    ))])
}
