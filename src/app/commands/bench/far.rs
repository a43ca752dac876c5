//! Over a link that is far away or slow: a proxy of our own, through which bytes come late, or few in a second.

use std::time::Duration;

use super::measure::{GENERATOR, HANDLER, HANDLERS, LOOK, compared, joined, through};
use super::raw;
use super::row::Row;
use super::row::Target::{AtMost, RatioAtLeast};
use super::session::Session;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::proxy::{Direction, Proxy};
use crate::app::lab::server::{Fsync, Server};

/// Commands that plain sockets have on their way, 500 messages each: at 50 ms the link holds more than this machine moves.
const ON_THEIR_WAY: usize = 1024;
/// 5 Mbit/s, each way.
const SLOW_BYTES_PER_S: u64 = 625_000;
const SLOW_PAYLOAD: usize = 10_000;

pub(super) fn far(session: &Session, load: Load) -> Rows {
    if Server::program().is_none() {
        let row = Row::new("far", "messages/s", Vec::new());
        return Ok(vec![row.note("not measured: no redis-server on the PATH")]);
    }
    let mut rows = Vec::new();
    for (name, trip, messages, target) in [("50 ms", 50, 3_000_000, 0.8), ("200 ms", 200, 1_500_000, 0.5)] {
        let (session, _link) = over(session, Duration::from_millis(trip))?;
        let messages = load.of(messages, 20_000);
        let ours = || through(&session, messages, GENERATOR, (HANDLERS, HANDLER));
        let row = compared(&format!("far {name}, flat-out"), load.rounds.min(3), ours, || {
            Ok(raw::cycle(&session, messages, 0, ON_THEIR_WAY)?.0)
        })?;
        let row = row.target(RatioAtLeast(target)).moonshot(RatioAtLeast(1.0));
        rows.push(row.note("baseline: RPUSH and LPOP over the same link, 1,024 on their way"));
    }
    rows.push(work(session, load)?);
    rows.push(slow(session, load)?);
    for trip in [300, 500] {
        rows.push(depositions(session, load, trip)?);
    }
    Ok(rows)
}

/// A session of its own, whose copies and plain sockets are so far away from the server.
fn over(session: &Session, trip: Duration) -> Result<(Session, Proxy), Failure> {
    let session = session.durable(Fsync::Never)?;
    let server = session.own_server();
    let server = server.ok_or_else(|| Failure::failed("no server of its own"))?;
    let link = Proxy::start(server.address()).map_err(|error| Failure::cannot("start a proxy", error))?;
    link.delay(trip / 2);
    Ok((session.over(link.address()), link))
}

/// Handlers that take a millisecond for a message, one after the other.
fn work(session: &Session, load: Load) -> Result<Row, Failure> {
    let (far, _far) = over(session, Duration::from_millis(50))?;
    let (near, _near) = over(session, Duration::ZERO)?;
    let messages = load.of(12_000, 200);
    let handler = "--prefer never --work 1ms --error-rate 0";
    let (ours, beside) = (
        || through(&far, messages, GENERATOR, (3, handler)),
        || Ok(through(&near, messages, GENERATOR, (3, handler))?.0),
    );
    let row = compared("far 50 ms, 1 ms of work", load.rounds.min(3), ours, beside)?;
    let row = row.target(RatioAtLeast(0.9)).moonshot(RatioAtLeast(0.98));
    Ok(row.note("baseline: the same at 0 ms"))
}

/// Large messages over a link that carries few bytes.
fn slow(session: &Session, load: Load) -> Result<Row, Failure> {
    let (session, link) = over(session, Duration::ZERO)?;
    for direction in [Direction::Requests, Direction::Replies] {
        link.throttle(direction, SLOW_BYTES_PER_S);
    }
    let messages = load.of(400, 20);
    let generator = format!("bench-node {GENERATOR} --payload {SLOW_PAYLOAD}");
    let ours = || through(&session, messages, &generator, (HANDLERS, HANDLER));
    let row = compared("far 5 Mbit/s, 10 KB", load.rounds.min(3), ours, || {
        Ok(raw::cycle(&session, messages, SLOW_PAYLOAD, raw::PIPELINE)?.0)
    })?;
    let row = row.target(RatioAtLeast(0.5)).moonshot(RatioAtLeast(0.9));
    Ok(row.note("baseline: RPUSH and LPOP over the same link"))
}

/// How often the crown changes hands although nobody dies.
fn depositions(session: &Session, load: Load, trip: u64) -> Result<Row, Failure> {
    let (session, _link) = over(session, Duration::from_millis(trip))?;
    let queue = session.queue()?;
    let mut copies = queue.copies(4, "--interval 100ms --work 0 --error-rate 0")?;
    joined(&queue, &mut copies)?;
    let crowned = queue.until("a generator", LOOK, |status| {
        status.generator.is_some().then_some(status.epoch)
    })?;
    session.pause(load.of(Duration::from_mins(1), Duration::from_secs(1)))?;
    let epoch = queue.until("a look", LOOK, |status| Some(status.epoch))?;
    let deposed = u32::try_from(epoch - crowned).unwrap_or(u32::MAX);
    let row = Row::new(format!("far {trip} ms, depositions"), "in 60 s", vec![deposed.into()]);
    Ok(row.target(AtMost(0.0)).note("4 copies, nobody dies"))
}
