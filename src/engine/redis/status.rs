//! Looking at a queue: everything at one moment, what a node holds, what the server says of itself.

use redis::Cmd;

use super::keys::Keys;
use super::link::Keyed;
use super::reply::{Decode, Reply, named};
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::history::LastReport;
use crate::engine::{Held, NodeStatus, Paused, Status, StoreInfo, check_layout, record};
use crate::error::Result;

/// Who is there: each has a key of its own, which a script must be given.
pub(super) struct There {
    members: Vec<String>,
    dead: Vec<String>,
    readers: Vec<String>,
}

impl There {
    /// The keys of each, in the order of [`Self::name`].
    pub(super) fn keys(&self, keys: &Keys) -> Vec<String> {
        let nodes = self.nodes().map(|node| keys.taken(node));
        nodes
            .chain(self.readers.iter().map(|reader| keys.reading(reader)))
            .collect()
    }

    /// Nodes that may hold messages.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.members.iter().chain(&self.dead)
    }

    /// How many there are, and their names.
    pub(super) fn name(&self, cmd: &mut Cmd) {
        cmd.arg(&[self.members.len(), self.dead.len(), self.readers.len()])
            .arg(&self.members)
            .arg(&self.dead)
            .arg(&self.readers);
    }
}

impl RedisEngine {
    pub(super) async fn there(&self) -> Result<There> {
        let keys = &self.keys;
        Ok(There {
            members: self.all_of("ZRANGE", &keys.nodes).await?,
            dead: self.all_of("LRANGE", &keys.dead).await?,
            readers: self.all_of("ZRANGE", &keys.readers).await?,
        })
    }

    /// A whole list or sorted set.
    pub(super) async fn all_of<T: Decode>(&self, command: &str, key: &str) -> Result<Vec<T>> {
        let mut cmd = redis::cmd(command);
        cmd.arg(key).arg(0).arg(-1);
        Vec::decode(self.aside.query(&cmd).await?)
    }
}

pub(super) async fn status(engine: &RedisEngine) -> Result<Status> {
    for _ in 0..LOOKS_MAX {
        if let Some(status) = try_status(engine).await? {
            return Ok(status);
        }
    }
    Err(engine.restless())
}

/// What the script says of the queue.
struct Look {
    birth: String,
    layout: u64,
    names: String,
    time_ms: u64,
    generator: Option<String>,
    epoch: u64,
    published: u64,
    /// Numbers that belong to no message.
    skipped: u64,
    /// In the hands of the dead.
    orphaned: u64,
    later: u64,
    /// By nodes that are no longer there. The same in the next.
    done: u64,
    failed: u64,
    errors: u64,
    requeued: u64,
    paused: Paused,
    trimmed: u64,
    rewinds: u64,
    grain: u64,
    nodes: Vec<Reply>,
}

/// What it says of a member.
struct LookAtNode {
    node: String,
    process: Vec<u8>,
    age_ms: u64,
    in_hand: u64,
    done: u64,
    failed: u64,
    lease_in_ms: u64,
    /// The last report.
    report: Option<Vec<u8>>,
    report_number: Option<u64>,
    report_ms: Option<u64>,
}

/// None: a node or a reader came or went meanwhile.
async fn try_status(engine: &RedisEngine) -> Result<Option<Status>> {
    let keys = &engine.keys;
    let there = engine.there().await?;
    let of_each = there.keys(keys);
    let run = engine.aside.run(&engine.scripts.status, |cmd| {
        let fixed = [
            &keys.meta,
            &keys.nodes,
            &keys.dead,
            &keys.errors,
            &keys.later,
            &keys.readers,
        ];
        cmd.arg(fixed.len() + of_each.len()).arg(&fixed).arg(&of_each);
        there.name(cmd);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => {}
        "moved" => return Ok(None),
        _ => return Err(engine.no_queue()),
    }
    let look = named!(reply => Look {
        birth, layout, names, time_ms, generator, epoch, published, skipped, orphaned, later, done, failed, errors, requeued,
        paused, trimmed, rewinds, grain, nodes,
    });
    check_layout(&keys.queue_name, &keys.names, look.layout, &look.names)?;
    let nodes = look.nodes.into_iter().map(node).collect::<Result<Vec<_>>>()?;
    let sum = |of: fn(&NodeStatus) -> u64| nodes.iter().map(of).sum::<u64>();
    let in_hand = look.orphaned + sum(|node| node.in_hand);
    let done = look.done + sum(|node| node.done);
    let failed = look.failed + sum(|node| node.failed);
    // What is neither settled nor in hand nor put off is queued: there is nowhere else to be.
    let elsewhere = look.skipped + done + failed + in_hand + look.later;
    Ok(Some(Status {
        birth: look.birth,
        time_ms: look.time_ms,
        generator: look.generator,
        epoch: look.epoch,
        published: look.published,
        queued: (look.published + look.requeued).saturating_sub(elsewhere),
        in_hand,
        later: look.later,
        done,
        failed,
        errors: look.errors,
        requeued: look.requeued,
        paused: look.paused,
        trimmed: look.trimmed,
        rewinds: look.rewinds,
        grain: look.grain,
        nodes,
    }))
}

fn node(reply: Reply) -> Result<NodeStatus> {
    let look = named!(reply => LookAtNode {
        node, process, age_ms, in_hand, done, failed, lease_in_ms, report, report_number, report_ms,
    });
    let process: record::Process = record::decode(&look.process)?;
    let report = match (look.report, look.report_number, look.report_ms) {
        (Some(live), Some(number), Some(time_ms)) => Some(LastReport {
            number,
            time_ms,
            live: record::decode(&live)?,
        }),
        _ => None,
    };
    Ok(NodeStatus {
        node: look.node,
        host: process.host,
        pid: process.pid,
        version: process.version,
        concurrency: process.concurrency,
        age_ms: look.age_ms,
        in_hand: look.in_hand,
        done: look.done,
        failed: look.failed,
        lease_in_ms: look.lease_in_ms,
        report,
    })
}

pub(super) async fn held(engine: &RedisEngine, node: &str, limit: u32) -> Result<Vec<Held>> {
    let taken = engine.keys.taken(node);
    let run = engine.aside.run(&engine.scripts.held, |cmd| {
        cmd.keys([&taken, &engine.keys.bodies]).arg(limit);
    });
    let pieces: Vec<Reply> = Vec::decode(run.await?)?;
    let held = pieces
        .into_iter()
        .map(|piece| Ok(named!(piece => Held { first, count, attempt, failures, published_ms, start })));
    held.collect()
}

pub(super) async fn store_info(engine: &RedisEngine) -> Result<StoreInfo> {
    let info = StoreInfo::of_redis(&engine.info_text().await?);
    // Now there is a connection.
    let asked = std::time::Instant::now();
    engine.aside.query(redis::cmd("INFO").arg("modules")).await?;
    Ok(StoreInfo {
        round_trip_us: u64::try_from(asked.elapsed().as_micros()).ok(),
        ..info
    })
}
