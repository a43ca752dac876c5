//! One queue over 1, 2, 4 and 8 servers. All of them share this machine, so what counts is not the rate but what a message costs: if that is
//! the same on 8 servers as on one, and each has as many messages as any other, then 8 machines carry eight times as much.
//!
//! That many servers take the caches of this machine from each other, and each finds fewer calls at once when it wakes up; those on machines of their own
//! do not. So the same load is also put on as many shards *on one server*, where nothing but the number of shards differs: that is what shards cost. And it
//! is put on as many queues without shards, one on each server, at the same time: that is what many servers cost on one machine.

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
use crate::engine::Engine;
use crate::engine::redis::RedisEngine;
use crate::engine::sharded::Sharded;

const SHARDS: [usize; 4] = [1, 2, 4, 8];
/// As much as a queue has by default.
const BACKLOG: u64 = 1_000_000;
/// So many copies are idle.
const IDLE: usize = 6;

type Spread<'a> = Queue<'a, Sharded<RedisEngine>>;

/// A load. Each shard has as much of it, however many there are: what is done at the start counts for as much.
struct What<'a> {
    name: &'static str,
    generator: &'a str,
    handlers: (usize, &'a str),
    /// How many messages each shard gets, and how many may wait there.
    messages: u64,
    backlog: u64,
}

impl What<'_> {
    /// Moves them through a queue of so many shards.
    fn through<E: Engine>(&self, queue: &Queue<E>, shards: usize) -> Result<(f64, Cost), Failure> {
        let generator = format!("{} --max-backlog {}", self.generator, self.backlog * shards as u64);
        through_queue(queue, self.messages * shards as u64, &generator, self.handlers)
    }
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
    /// The cost with all shards on one server.
    together: Vec<Cost>,
}

pub(super) fn shards(session: &Session, load: Load) -> Rows {
    if Server::program().is_none() {
        let row = Row::new("shards", "messages/s", Vec::new());
        return Ok(vec![row.note("not measured: no redis-server on the PATH")]);
    }
    let servers: Vec<Session> = (0..SHARDS[SHARDS.len() - 1])
        .map(|_| session.durable(Fsync::Never))
        .collect::<Result<_, _>>()?;
    let large = format!("bench-node {GENERATOR} --payload 16000");
    let mut rows = Vec::new();
    for what in [
        What {
            name: "one by one",
            generator: GENERATOR,
            handlers: (1, single::HANDLER),
            messages: load.of(100_000, 500),
            backlog: single::BACKLOG,
        },
        What {
            name: "16 KB",
            generator: &large,
            handlers: (HANDLERS, HANDLER),
            messages: load.of(12_000, 50),
            backlog: BACKLOG,
        },
        What {
            name: "tiny",
            generator: GENERATOR,
            handlers: (HANDLERS, HANDLER),
            messages: load.of(4_000_000, 5_000),
            backlog: BACKLOG,
        },
    ] {
        let mut measured: Vec<Measured> = SHARDS.map(Measured::of).into();
        for _ in 0..load.rounds {
            for on in &mut measured {
                let all: Vec<&Session> = servers[..on.shards].iter().collect();
                let queue = Session::sharded(&all)?;
                let (rate, cost) = what.through(&queue, on.shards)?;
                on.note(&queue, rate, cost)?;
                on.apart.push(apart(&all, &what)?);
                let queue = Session::sharded(&vec![&servers[0]; on.shards])?;
                on.together.push(what.through(&queue, on.shards)?.1);
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
            together: Vec::new(),
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
}

/// The same load on a queue of its own for each server, all at the same time: what a message costs.
fn apart(servers: &[&Session], what: &What) -> Result<Cost, Failure> {
    let count = servers.len();
    // As many nodes as the others have, together; but no server is without.
    let (copies, handler) = what.handlers;
    let handler = handler.replace("--nodes 50", &format!("--nodes {}", 50_usize.div_ceil(count)));
    let what = What {
        handlers: (copies, &handler),
        ..*what
    };
    let of_one = |server: &Session| what.through(&server.queue()?, 1).map(|(_, cost)| cost);
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
        ("Redis", (|cost: &Cost| cost.redis_cpu) as fn(&Cost) -> f64),
        ("clients", |cost| cost.client_cpu),
    ] {
        let of = |costs: &[Cost]| costs.iter().map(meter).collect::<Vec<f64>>();
        for on in &measured[1..] {
            let row = Row::new(named(on, &format!(" on one server, {what}")), "us", of(&on.together));
            let row = row.beside(of(&measured[0].together)).target(RatioAtMost(1.1));
            let commands = typical(&on.together).commands;
            rows.push(row.note(format!("CPU a message; baseline: one shard; {commands:.3} commands")));
        }
        for on in &measured[1..] {
            let row = Row::new(named(on, &format!(", {what}")), "us", of(&on.costs)).beside(of(&on.apart));
            let one = row.value() / median(&of(&measured[0].costs));
            rows.push(row.target(RatioAtMost(1.1)).note(format!(
                "CPU a message; baseline: as many queues without shards; {one:.2} x one shard"
            )));
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
