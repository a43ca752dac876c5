//! How fast a generator and handlers move messages, and what a message costs them.

use std::time::{Duration, Instant};

use super::cost::{self, Cost};
use super::raw::float;
use super::row::Row;
use super::session::{Queue, Session};
use super::socket::{Answer, Socket};
use crate::app::exit::Failure;
use crate::app::lab::copy::{Capture, Copy};
use crate::engine::Engine;
use crate::engine::redis::keys::Keys;
use crate::engine::sharded::first_number;

pub(super) const HANDLERS: usize = 2;
/// Between two looks that cost Redis next to nothing.
const GLANCE: Duration = Duration::from_micros(500);
pub(super) const LOOK: Duration = Duration::from_millis(2);

pub(super) const GENERATOR: &str = "--prefer generator --interval 0";
pub(super) const HANDLER: &str = "--prefer never --work 0 --error-rate 0";

/// A generator and handlers, from the first message that is published to the last that is settled: messages a second.
pub(super) fn through(
    session: &Session,
    messages: u64,
    generator: &str,
    (handlers, handler): (usize, &str),
) -> Result<(f64, Cost), Failure> {
    through_queue(&session.queue()?, messages, generator, (handlers, handler))
}

/// The same on this queue, which is fresh.
pub(super) fn through_queue<E: Engine>(
    queue: &Queue<E>,
    messages: u64,
    generator: &str,
    (handlers, handler): (usize, &str),
) -> Result<(f64, Cost), Failure> {
    let (session, servers) = (queue.session, queue.servers());
    let mut copies = queue.copies(handlers, handler)?;
    joined(queue, &mut copies)?;
    let mut glance = Glance::new(queue)?;
    let handlers_cpu = cost::cpu(&copies);
    let meter = Cost::of_redis(&servers)?;
    copies.push(queue.copy(&format!("{generator} --messages {messages}"), Capture::Nothing)?);
    // The last moment at which nothing was published yet.
    let mut start = Instant::now();
    session.until("a first message", GLANCE, || {
        let seen = glance.published()?;
        if seen == 0 {
            start = Instant::now();
        }
        Ok((seen > 0).then_some(()))
    })?;
    let end = settled(queue, &mut glance, messages)?;
    let seconds = end.duration_since(start).as_secs_f64();
    let client = cost::cpu(&copies).saturating_sub(handlers_cpu);
    let mut cost = meter.until_now(&servers, messages, client)?;
    cost.peak_rss = cost::peak_rss(&copies);
    Ok((float(messages) / seconds, cost))
}

/// Ours and the baseline in turns, so many rounds of both.
pub(super) fn compared(
    name: &str,
    rounds: u32,
    mut ours: impl FnMut() -> Result<(f64, Cost), Failure>,
    mut baseline: impl FnMut() -> Result<f64, Failure>,
) -> Result<Row, Failure> {
    let (mut rates, mut costs, mut baselines) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (rate, cost) = ours()?;
        rates.push(rate);
        costs.push(cost);
        baselines.push(baseline()?);
    }
    let row = Row::new(name, "messages/s", rates).beside(baselines);
    Ok(row.cost(cost::typical(&costs)))
}

/// Waits until all of these are members. Nobody waits for one that has ended.
pub(super) fn joined<E: Engine>(queue: &Queue<E>, copies: &mut [Copy]) -> Result<(), Failure> {
    queue.session.until("all copies have joined", 5 * LOOK, || {
        let nodes = queue.status()?.map_or(0, |status| status.nodes.len());
        if nodes >= copies.len() {
            return Ok(Some(()));
        }
        match copies.iter_mut().find_map(|copy| copy.ended().ok().flatten()) {
            None => Ok(None),
            Some(status) => Err(Failure::failed(format!(
                "a copy of {} ended before it had joined: {status}",
                copies.len()
            ))),
        }
    })
}

/// Until all are settled, looking closely only when little is left.
fn settled<E: Engine>(queue: &Queue<E>, glance: &mut Glance, messages: u64) -> Result<Instant, Failure> {
    let began = Instant::now();
    queue.session.until("all is published and taken", GLANCE, || {
        let taken = glance.published()? >= messages && glance.waiting()? == 0;
        // The longer it takes, the less it matters to see the end at once. An interruption is told by who waits.
        let _ = queue.session.pause(began.elapsed() / 400);
        Ok(taken.then_some(()))
    })?;
    queue.until("all is settled", GLANCE, |status| {
        (status.done + status.failed >= messages).then(Instant::now)
    })
}

/// A look at two keys of each shard.
struct Glance<'a> {
    shards: Vec<(Socket, &'a Keys)>,
}

impl<'a> Glance<'a> {
    fn new<E: Engine>(queue: &'a Queue<E>) -> Result<Self, Failure> {
        let shards = queue.parts.iter().map(|(server, keys)| Ok((server.socket()?, keys)));
        Ok(Self {
            shards: shards.collect::<Result<_, Failure>>()?,
        })
    }

    fn published(&mut self) -> Result<u64, Failure> {
        let mut sum = 0;
        for (shard, (socket, keys)) in self.shards.iter_mut().enumerate() {
            let seq = socket.text(&[b"HGET", keys.meta.as_bytes(), b"seq"]);
            let seq = seq.map_err(|error| Failure::cannot("read the length of the queue", error))?;
            let seq: u64 = seq.and_then(|seq| seq.parse().ok()).unwrap_or(0);
            sum += seq.saturating_sub(first_number(shard));
        }
        Ok(sum)
    }

    fn waiting(&mut self) -> Result<i64, Failure> {
        let mut sum = 0;
        for (socket, keys) in &mut self.shards {
            let waiting: [(&[u8], &String); 2] = [(b"LLEN", &keys.queue), (b"ZCARD", &keys.lines)];
            for (command, key) in waiting {
                let length = socket.call(&[command, key.as_bytes()]);
                if let Answer::Number(length) =
                    length.map_err(|error| Failure::cannot("read the length of the queue", error))?
                {
                    sum += length;
                }
            }
        }
        Ok(sum)
    }
}

/// What a message that waits takes in Redis, in bytes.
pub(super) fn queued_bytes(session: &Session, messages: u64, generator: &str) -> Result<f64, Failure> {
    let queue = session.queue()?;
    let _generator = preload(&queue, messages, generator)?;
    bytes_of_each(&queue, messages)
}

/// As Redis counts it, of the queue alone: what clients and others use comes and goes.
fn bytes_of_each(queue: &Queue, messages: u64) -> Result<f64, Failure> {
    let mut sum = 0;
    let keys = queue.engine.keys();
    for key in [
        &keys.queue,
        &keys.bodies,
        &keys.lines,
        &keys.ready,
        &keys.turns,
        &keys.groups,
    ] {
        let asked: [&[u8]; 5] = [b"MEMORY", b"USAGE", key.as_bytes(), b"SAMPLES", b"0"];
        let used = queue.session.socket()?.call(&asked);
        if let Answer::Number(bytes) =
            used.map_err(|error| Failure::cannot("ask for the memory of the queue", error))?
        {
            sum += u64::try_from(bytes).unwrap_or(0);
        }
    }
    Ok(float(sum) / float(messages))
}

/// Publishes and leaves it there. The generator is still alive.
fn preload(queue: &Queue, messages: u64, generator: &str) -> Result<Copy, Failure> {
    let arguments = format!("{generator} --messages {messages} --max-backlog {messages}");
    let copy = queue.copy(&arguments, Capture::Nothing)?;
    let mut glance = Glance::new(queue)?;
    queue.session.until("all is queued", LOOK, || {
        Ok((glance.published()? >= messages).then_some(()))
    })?;
    Ok(copy)
}

/// How fast so many that wait are drained.
pub(super) fn drain(session: &Session, messages: u64) -> Result<(f64, Cost), Failure> {
    drain_of(session, messages, GENERATOR)
}

/// The same of what this generator makes.
pub(super) fn drain_of(session: &Session, messages: u64, generator: &str) -> Result<(f64, Cost), Failure> {
    let queue = session.queue()?;
    drop(preload(&queue, messages, generator)?);
    let queued_bytes = bytes_of_each(&queue, messages)?;
    let meter = Cost::of_redis(&[session])?;
    let copies = queue.copies(HANDLERS, HANDLER)?;
    let mut glance = Glance::new(&queue)?;
    let full = glance.waiting()?;
    let mut start = Instant::now();
    session.until("a first take", GLANCE, || {
        let untouched = glance.waiting()? == full;
        if untouched {
            start = Instant::now();
        }
        Ok((!untouched).then_some(()))
    })?;
    let end = settled(&queue, &mut glance, messages)?;
    let mut cost = meter.until_now(&[session], messages, cost::cpu(&copies))?;
    cost.peak_rss = cost::peak_rss(&copies);
    cost.queued_bytes = queued_bytes;
    Ok((float(messages) / end.duration_since(start).as_secs_f64(), cost))
}
