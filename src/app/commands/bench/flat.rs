//! As fast as it goes: small messages, large ones, a deep backlog, a disk below, and memory over time.

use std::path::Path;
use std::time::{Duration, Instant};

use super::copies::{self, Copy, Cost, Hear, spawn};
use super::raw::{self, float};
use super::row::{Row, at_most, median, ratio_at_least};
use super::site::{Queue, Site};
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::server::{Fsync, Server};

const HANDLERS: usize = 2;
/// Between two looks that cost Redis next to nothing.
const GLANCE: Duration = Duration::from_micros(500);
const LOOK: Duration = Duration::from_millis(2);

pub(super) const GENERATOR: &str = "--prefer generator --interval 0";
pub(super) const HANDLER: &str = "--prefer never --work 0 --error-rate 0";

/// A generator and handlers, from the first message that is published to the last that is settled: messages a second.
pub(super) fn through(
    site: &Site,
    messages: u64,
    generator: &str,
    (handlers, handler): (usize, &str),
) -> Result<(f64, Cost), Failure> {
    let queue = site.queue()?;
    let mut copies = queue.copies(handlers, handler)?;
    joined(&queue, &mut copies)?;
    let mut glance = Glance::new(&queue)?;
    let handlers_cpu = copies::cpu(&copies);
    let meter = Cost::of_redis(site)?;
    copies.push(queue.copy(&format!("{generator} --messages {messages}"), Hear::Nothing)?);
    // The last moment at which nothing was published yet.
    let mut start = Instant::now();
    site.until("a first message", GLANCE, || {
        let seen = glance.published()?;
        if seen == 0 {
            start = Instant::now();
        }
        Ok((seen > 0).then_some(()))
    })?;
    let end = settled(&queue, &mut glance, messages)?;
    let seconds = end.duration_since(start).as_secs_f64();
    let client = copies::cpu(&copies).saturating_sub(handlers_cpu);
    let mut cost = meter.until_now(site, messages, client)?;
    cost.peak_rss = copies::peak_rss(&copies);
    Ok((float(messages) / seconds, cost))
}

/// Waits until all of these are members. Nobody waits for one that has ended.
pub(super) fn joined(queue: &Queue, copies: &mut [Copy]) -> Result<(), Failure> {
    queue.site.until("all copies have joined", 5 * LOOK, || {
        let nodes = queue.status()?.map_or(0, |status| status.nodes.len());
        if nodes >= copies.len() {
            return Ok(Some(()));
        }
        match copies.iter_mut().find_map(Copy::ended) {
            None => Ok(None),
            Some(status) => Err(Failure::failed(format!(
                "a copy of {} ended before it had joined: {status}",
                copies.len()
            ))),
        }
    })
}

/// Until all are settled, looking closely only when little is left.
fn settled(queue: &Queue, glance: &mut Glance, messages: u64) -> Result<Instant, Failure> {
    let began = Instant::now();
    queue.site.until("all is published and taken", GLANCE, || {
        let taken = glance.published()? >= messages && glance.waiting()? == 0;
        // The longer it takes, the less it matters to see the end at once.
        queue.site.pause(began.elapsed() / 400)?;
        Ok(taken.then_some(()))
    })?;
    queue.until("all is settled", GLANCE, |status| {
        (status.done + status.failed >= messages).then(Instant::now)
    })
}

/// A look at two keys.
struct Glance {
    socket: super::socket::Socket,
    meta: String,
    queue: String,
}

impl Glance {
    fn new(queue: &Queue) -> Result<Self, Failure> {
        Ok(Self {
            socket: queue.site.socket()?,
            meta: queue.keys().meta.clone(),
            queue: queue.keys().queue.clone(),
        })
    }

    fn published(&mut self) -> Result<u64, Failure> {
        let seq = self.socket.text(&[b"HGET", self.meta.as_bytes(), b"seq"]);
        let seq = seq.map_err(|error| Failure::cannot("look", error))?;
        Ok(seq.and_then(|seq| seq.parse().ok()).unwrap_or(0))
    }

    fn waiting(&mut self) -> Result<i64, Failure> {
        let length = self.socket.call(&[b"LLEN", self.queue.as_bytes()]);
        match length.map_err(|error| Failure::cannot("look", error))? {
            super::socket::Answer::Number(length) => Ok(length),
            _ => Ok(0),
        }
    }
}

/// What a message that waits takes in Redis, in bytes.
fn queued_bytes(site: &Site, messages: u64, generator: &str) -> Result<f64, Failure> {
    let queue = site.queue()?;
    let _generator = preload(&queue, messages, generator)?;
    bytes_of_each(&queue, messages)
}

/// As Redis counts it, of the queue alone: what clients and others use comes and goes.
fn bytes_of_each(queue: &Queue, messages: u64) -> Result<f64, Failure> {
    let mut sum = 0;
    for key in [&queue.keys().queue, &queue.keys().bodies] {
        let asked: [&[u8]; 5] = [b"MEMORY", b"USAGE", key.as_bytes(), b"SAMPLES", b"0"];
        let used = queue.site.socket()?.call(&asked);
        if let super::socket::Answer::Number(bytes) =
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
    let copy = queue.copy(&arguments, Hear::Nothing)?;
    let mut glance = Glance::new(queue)?;
    queue.site.until("all is queued", LOOK, || {
        Ok((glance.published()? >= messages).then_some(()))
    })?;
    Ok(copy)
}

pub(super) fn flat_out(site: &Site, load: Load) -> Rows {
    let messages = load.of(1_000_000, 20_000);
    let row = beside_cycle(site, load, "flat-out", messages, 0)?;
    Ok(vec![row.target(ratio_at_least(1.0)).moonshot(ratio_at_least(3.0))])
}

fn beside_cycle(site: &Site, load: Load, name: &str, messages: u64, payload: usize) -> Result<Row, Failure> {
    let generator = match payload {
        0 => GENERATOR.to_string(),
        bytes => format!("bench-node {GENERATOR} --payload {bytes}"),
    };
    let (mut ours, mut theirs, mut costs, mut plain) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..load.rounds {
        let (rate, cost) = through(site, messages, &generator, (HANDLERS, HANDLER))?;
        ours.push(rate);
        costs.push(cost);
        let (rate, cost) = raw::cycle(site, messages, payload)?;
        theirs.push(rate);
        plain.push(cost);
    }
    let plain = typical(&plain);
    let note = format!(
        "baseline: Redis {:.2} us, clients {:.2} us",
        plain.redis_cpu, plain.client_cpu
    );
    let mut cost = typical(&costs);
    cost.queued_bytes = queued_bytes(site, messages.min(100_000), &generator)?;
    Ok(Row::new(name, "messages/s", ours).beside(theirs).cost(cost).note(note))
}

/// The median of each meter.
pub(super) fn typical(costs: &[Cost]) -> Cost {
    let of = |meter: fn(&Cost) -> f64| median(&costs.iter().map(meter).collect::<Vec<_>>());
    Cost {
        redis_cpu: of(|cost| cost.redis_cpu),
        client_cpu: of(|cost| cost.client_cpu),
        commands: of(|cost| cost.commands),
        peak_rss: of(|cost| cost.peak_rss),
        queued_bytes: of(|cost| cost.queued_bytes),
    }
}

pub(super) fn payloads(site: &Site, load: Load) -> Rows {
    let mut rows = Vec::new();
    for (name, payload, target) in [("100 B", 100, 0.8), ("1 KB", 1000, 0.3), ("16 KB", 16_000, 0.3)] {
        // 200 MB at most: five rounds are 1 GB.
        let messages = load.of(200_000_000 / payload, 2_000_000 / payload).min(1_000_000);
        let bytes = usize::try_from(payload).expect("small");
        let row = beside_cycle(site, load, &format!("payloads {name}"), messages, bytes)?;
        rows.push(row.target(ratio_at_least(target)).moonshot(ratio_at_least(0.8)));
    }
    Ok(rows)
}

/// How fast so many that wait are drained.
pub(super) fn drain(site: &Site, messages: u64) -> Result<(f64, Cost), Failure> {
    let queue = site.queue()?;
    drop(preload(&queue, messages, GENERATOR)?);
    let queued_bytes = bytes_of_each(&queue, messages)?;
    let meter = Cost::of_redis(site)?;
    let copies = queue.copies(HANDLERS, HANDLER)?;
    let mut glance = Glance::new(&queue)?;
    let full = glance.waiting()?;
    let mut start = Instant::now();
    site.until("a first take", GLANCE, || {
        let untouched = glance.waiting()? == full;
        if untouched {
            start = Instant::now();
        }
        Ok((!untouched).then_some(()))
    })?;
    let end = settled(&queue, &mut glance, messages)?;
    let mut cost = meter.until_now(site, messages, copies::cpu(&copies))?;
    cost.peak_rss = copies::peak_rss(&copies);
    cost.queued_bytes = queued_bytes;
    Ok((float(messages) / end.duration_since(start).as_secs_f64(), cost))
}

pub(super) fn backlog(site: &Site, load: Load) -> Rows {
    let (small, large) = load.of((1_000_000, 10_000_000), (10_000, 50_000));
    let (mut ours, mut theirs, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..load.rounds.min(3) {
        theirs.push(drain(site, small)?.0);
        let (rate, cost) = drain(site, large)?;
        ours.push(rate);
        costs.push(cost);
    }
    let row = Row::new("backlog 10 M", "messages/s", ours)
        .beside(theirs)
        .cost(typical(&costs));
    let row = row.target(ratio_at_least(0.8)).moonshot(ratio_at_least(1.0));
    Ok(vec![row.note("baseline: 1 M")])
}

pub(super) fn persistence(site: &Site, load: Load) -> Rows {
    let mut rows = Vec::new();
    for (name, fsync) in [("everysec", Fsync::EverySecond), ("always", Fsync::Always)] {
        let name = format!("persistence {name}");
        if Server::program().is_none() {
            let row = Row::new(name, "messages/s", Vec::new());
            rows.push(row.note("not measured: no redis-server on the PATH"));
            continue;
        }
        let durable = site.durable(fsync)?;
        let row = beside_cycle(&durable, load, &name, load.of(1_000_000, 20_000), 0)?;
        rows.push(row.target(ratio_at_least(1.0)));
    }
    Ok(rows)
}

/// Flat out without an end: the largest process, and whether it grows.
pub(super) fn memory(site: &Site, load: Load) -> Rows {
    let queue = site.queue()?;
    let mut copies = queue.copies(HANDLERS, HANDLER)?;
    copies.push(queue.copy(&format!("{GENERATOR} --max-backlog 100000"), Hear::Nothing)?);
    let time = load.of(Duration::from_secs(20), Duration::from_secs(1));
    let most = |copies: &[Copy]| copies.iter().map(Copy::rss).fold(0.0, f64::max);
    site.pause(time / 4)?;
    let early = most(&copies);
    site.pause(3 * time / 4)?;
    let late = most(&copies);
    let cost = Cost {
        peak_rss: copies::peak_rss(&copies),
        ..Cost::default()
    };
    let published = queue.status()?.map_or(0, |status| status.published);
    let row = Row::new("memory", "MB", vec![cost.peak_rss])
        .target(at_most(30.0))
        .cost(cost);
    let millions = float(published) / 1e6;
    Ok(vec![row.note(format!(
        "{early:.1} MB after a quarter, {late:.1} MB at the end, {millions:.0} M messages"
    ))])
}

/// The same million in an SQLite file, from the first exec.
pub(super) fn file(site: &Site, load: Load) -> Rows {
    let messages = load.of(1_000_000, 20_000);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..load.rounds {
        let path = site.directory.join(format!("{round}.db"));
        ours.push(in_file(site, &path, messages)?);
        theirs.push(through(site, messages, GENERATOR, (HANDLERS, HANDLER))?.0);
    }
    let row = Row::new("file", "messages/s", ours).beside(theirs);
    Ok(vec![row.note("an SQLite file; baseline: Redis, flat out")])
}

fn in_file(site: &Site, path: &Path, messages: u64) -> Result<f64, Failure> {
    use crate::engine::Engine;
    use crate::engine::sqlite::{Database, SqliteEngine};
    let database = Database {
        path: path.to_path_buf(),
        full: false,
    };
    let engine = SqliteEngine::open(database, "bench", &crate::settings::Names::default())?;
    let url = format!("sqlite:{}", path.display());
    let mut copies = Vec::new();
    for _ in 0..HANDLERS {
        copies.push(spawn(&url, "bench", HANDLER, Hear::Nothing)?);
    }
    let status = || match site.runtime.block_on(engine.status()) {
        Ok(status) => Ok(Some(status)),
        Err(crate::Error::NoQueue { .. }) => Ok(None),
        Err(error) if error.is_away() => Ok(None),
        Err(error) => Err(Failure::from(error)),
    };
    site.until("all copies have joined", LOOK, || {
        Ok(status()?.filter(|status| status.nodes.len() >= HANDLERS).map(drop))
    })?;
    let generator = format!("{GENERATOR} --messages {messages}");
    let mut start = Instant::now();
    copies.push(spawn(&url, "bench", &generator, Hear::Nothing)?);
    site.until("a first message", LOOK, || {
        let published = status()?.map_or(0, |status| status.published);
        if published == 0 {
            start = Instant::now();
        }
        Ok((published > 0).then_some(()))
    })?;
    site.until("all is settled", LOOK, || {
        Ok(status()?.filter(|status| status.done >= messages).map(drop))
    })?;
    Ok(float(messages) / start.elapsed().as_secs_f64())
}
