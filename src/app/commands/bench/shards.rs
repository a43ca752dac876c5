//! One queue over 1, 2, 4 and 8 servers. All of them share this machine, so what counts is not the rate but what a message costs: if that is
//! the same on 8 servers as on one, and each has as many messages as any other, then 8 machines carry eight times as much.
//!
//! That many servers take the caches of this machine from each other, which those on machines of their own do not. So the same load is also put
//! on as many queues without shards, one on each server, at the same time: what shards cost is what is beyond that.

use std::time::{Duration, Instant};

use super::cost::{Cost, typical};
use super::figures::median;
use super::measure::{GENERATOR, HANDLER, HANDLERS, joined, through_queue};
use super::raw::float;
use super::row::Row;
use super::row::Target::{AtMost, RatioAtMost};
use super::session::{Queue, Session};
use super::single;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::server::{Fsync, Server};
use crate::app::output::screen::counted;
use crate::engine::redis::RedisEngine;
use crate::engine::sharded::Sharded;

const SHARDS: [usize; 4] = [1, 2, 4, 8];
/// So many copies are idle.
const IDLE: usize = 6;

type Spread<'a> = Queue<'a, Sharded<RedisEngine>>;

/// A load.
struct What<'a> {
    name: &'static str,
    generator: String,
    handlers: (usize, &'a str),
    messages: u64,
}

/// What one load did on so many shards, round by round.
struct Measured {
    shards: usize,
    rates: Vec<f64>,
    costs: Vec<Cost>,
    /// By how much the share of the server that had most, or least, of the messages is off an even one, in %.
    uneven: Vec<f64>,
    /// The cost on as many queues without shards.
    apart: Vec<Cost>,
}

pub(super) fn shards(session: &Session, load: Load) -> Rows {
    if Server::program().is_none() {
        let row = Row::new("shards", "messages/s", Vec::new());
        return Ok(vec![row.note("not measured: no redis-server on the PATH")]);
    }
    let servers: Vec<Session> = (0..SHARDS[SHARDS.len() - 1])
        .map(|_| session.durable(Fsync::Never))
        .collect::<Result<_, _>>()?;
    let (one_by_one, one_handler) = single::copies();
    let mut rows = Vec::new();
    for what in [
        What {
            name: "one by one",
            generator: one_by_one,
            handlers: (1, &one_handler),
            messages: load.of(200_000, 4_000),
        },
        What {
            name: "16 KB",
            generator: format!("bench-node {GENERATOR} --payload 16000"),
            handlers: (HANDLERS, HANDLER),
            messages: load.of(25_000, 400),
        },
        What {
            name: "tiny",
            generator: GENERATOR.to_string(),
            handlers: (HANDLERS, HANDLER),
            messages: load.of(8_000_000, 40_000),
        },
    ] {
        let mut measured: Vec<Measured> = SHARDS.map(Measured::of).into();
        for _ in 0..load.rounds {
            for on in &mut measured {
                let all: Vec<&Session> = servers[..on.shards].iter().collect();
                let queue = Session::sharded(&all)?;
                let (rate, cost) = through_queue(&queue, what.messages, &what.generator, what.handlers)?;
                on.note(&queue, rate, cost)?;
                on.apart.push(apart(&all, &what)?);
            }
        }
        rows.extend(table(what.name, &measured));
    }
    for shards in SHARDS {
        let all: Vec<&Session> = servers[..shards].iter().collect();
        rows.push(idle(&Session::sharded(&all)?, load)?);
    }
    Ok(rows)
}

impl Measured {
    fn of(shards: usize) -> Self {
        Self {
            shards,
            rates: Vec::new(),
            costs: Vec::new(),
            uneven: Vec::new(),
            apart: Vec::new(),
        }
    }

    fn note(&mut self, queue: &Spread, rate: f64, cost: Cost) -> Result<(), Failure> {
        let published: Vec<u64> = queue
            .status()?
            .map(|status| status.shards.iter().map(|shard| shard.published).collect())
            .unwrap_or_default();
        let even = float(published.iter().sum()) / float(self.shards as u64);
        let off = published.iter().map(|count| (float(*count) / even - 1.0).abs());
        self.uneven.push(100.0 * off.fold(0.0, f64::max));
        self.rates.push(rate);
        self.costs.push(cost);
        Ok(())
    }

    fn of_each(&self, meter: fn(&Cost) -> f64) -> Vec<f64> {
        self.costs.iter().map(meter).collect()
    }
}

/// The same load on a queue of its own for each server, all at the same time: what a message costs.
fn apart(servers: &[&Session], what: &What) -> Result<Cost, Failure> {
    let count = servers.len();
    // As many nodes as the others have, together; but no server is without.
    let (copies, handler) = what.handlers;
    let handler = handler.replace("--nodes 50", &format!("--nodes {}", 50_usize.div_ceil(count)));
    let of_one = |server: &Session| {
        let queue = server.queue()?;
        let messages = what.messages / count as u64;
        through_queue(&queue, messages, &what.generator, (copies, &handler)).map(|(_, cost)| cost)
    };
    let costs: Vec<Result<Cost, Failure>> = std::thread::scope(|scope| {
        let running: Vec<_> = servers.iter().map(|server| scope.spawn(|| of_one(server))).collect();
        let ended = |run: std::thread::ScopedJoinHandle<_>| {
            run.join().unwrap_or_else(|_| Err(Failure::failed("a thread panicked")))
        };
        running.into_iter().map(ended).collect()
    });
    let costs = costs.into_iter().collect::<Result<Vec<Cost>, Failure>>()?;
    let mean = |meter: fn(&Cost) -> f64| costs.iter().map(meter).sum::<f64>() / float(count as u64);
    Ok(Cost {
        redis_cpu: mean(|cost| cost.redis_cpu),
        client_cpu: mean(|cost| cost.client_cpu),
        commands: mean(|cost| cost.commands),
        ..Cost::default()
    })
}

fn table(name: &str, measured: &[Measured]) -> Vec<Row> {
    let named = |on: &Measured, what: &str| format!("{name}, {}{what}", counted(on.shards as u64, "shard"));
    let mut rows: Vec<Row> = measured
        .iter()
        .map(|on| {
            let row = Row::new(named(on, ""), "messages/s", on.rates.clone()).cost(typical(&on.costs));
            let apart = typical(&on.apart);
            row.note(format!(
                "shares even within {:.1} %; as {} queues: Redis {:.2} us, clients {:.2} us, {:.3} commands",
                median(&on.uneven),
                on.shards,
                apart.redis_cpu,
                apart.client_cpu,
                apart.commands
            ))
        })
        .collect();
    for (what, meter) in [
        (", Redis", (|cost: &Cost| cost.redis_cpu) as fn(&Cost) -> f64),
        (", clients", |cost| cost.client_cpu),
    ] {
        for on in &measured[1..] {
            let apart: Vec<f64> = on.apart.iter().map(meter).collect();
            let row = Row::new(named(on, what), "us", on.of_each(meter)).beside(apart);
            let one = row.value() / median(&measured[0].of_each(meter));
            let note = format!("CPU a message; baseline: as many queues without shards; {one:.2} x one shard");
            rows.push(row.target(RatioAtMost(1.1)).note(note));
        }
    }
    for on in &measured[1..] {
        let row = Row::new(named(on, ", shares"), "% off", on.uneven.clone());
        rows.push(
            row.target(AtMost(10.0))
                .note("the server that is furthest from an even share"),
        );
    }
    rows
}

/// What copies that wait for work cost: connections and commands, of all servers.
fn idle(queue: &Spread, load: Load) -> Result<Row, Failure> {
    let (session, servers) = (queue.session, queue.servers());
    queue.status()?;
    let before = connections(&servers)?;
    let mut copies = queue.copies(IDLE, "--interval 1h --work 0 --error-rate 0")?;
    joined(queue, &mut copies)?;
    let time = load.of(Duration::from_secs(10), Duration::from_secs(1));
    session.pause(time / 5)?;
    let connections = connections(&servers)? - before;
    let (meter, start) = (Cost::of_redis(&servers)?, Instant::now());
    session.pause(time)?;
    let cost = meter.until_now(&servers, 1, Duration::ZERO)?;
    let seconds = start.elapsed().as_secs_f64();
    let row = Row::new(
        format!("{IDLE} idle copies, {}", counted(servers.len() as u64, "shard")),
        "commands/s",
        vec![cost.commands / seconds],
    );
    Ok(row.note(format!(
        "{connections:.0} connections, {:.2} % of a core of Redis",
        cost.redis_cpu / 1e4 / seconds
    )))
}

/// All that these servers have.
fn connections(servers: &[&Session]) -> Result<f64, Failure> {
    let of = |server: &&Session| Ok(server.socket()?.info("clients")?.number("connected_clients"));
    servers.iter().map(of).sum()
}
