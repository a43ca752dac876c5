//! Looking at a queue: everything at one moment, what a node holds, what the server says of itself.

use redis::{Cmd, Value};

use super::keys::Keys;
use super::link::Keyed;
use super::reply::{Decode, Named, Reply, named};
use super::unsettled::is_piece;
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::record::{self, Process};
use crate::engine::store::{Gate, Kept};
use crate::engine::{GroupFigures, Held, Limits, NodeStatus, Status, StoreInfo, check_layout};
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
    pub(super) async fn all_of<T: Decode>(&self, command: &str, key: &str) -> Result<T> {
        let mut cmd = redis::cmd(command);
        cmd.arg(key).arg(0).arg(-1);
        T::decode(self.aside.query(&cmd).await?)
    }
}

pub(super) async fn published(engine: &RedisEngine) -> Result<u64> {
    let keys = &engine.keys;
    let mut cmd = redis::cmd("HMGET");
    cmd.arg(&keys.meta).arg(&["birth", "layout", "names", "seq"]);
    let mut reply = Reply::decode(engine.aside.query(&cmd).await?)?;
    if reply.next::<Option<String>>()?.is_none() {
        return Err(engine.no_queue());
    }
    check_layout(&keys.queue_name, &keys.names, reply.next()?, &reply.next::<String>()?)?;
    reply.next()
}

pub(super) async fn status(engine: &RedisEngine) -> Result<Status> {
    for _ in 0..LOOKS_MAX {
        if let Some(mut status) = try_status(engine).await? {
            let nodes: Vec<String> = status.nodes.iter().map(|node| node.node.clone()).collect();
            for (node, watched) in status.nodes.iter_mut().zip(engine.connected(&nodes).await?) {
                node.watched = watched;
            }
            return Ok(status);
        }
    }
    Err(engine.restless())
}

/// None: a node or a reader came or went meanwhile.
async fn try_status(engine: &RedisEngine) -> Result<Option<Status>> {
    let keys = &engine.keys;
    let there = engine.there().await?;
    let of_each = there.keys(keys);
    let run = engine.aside.look(&engine.scripts.status, |cmd| {
        let fixed = [
            &keys.meta,
            &keys.nodes,
            &keys.dead,
            &keys.errors,
            &keys.later,
            &keys.readers,
            &keys.queue,
            &keys.again,
            &keys.lines,
            &keys.groups,
            &keys.groups_paused,
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
    let mut look = Named::of(reply)?;
    check_layout(
        &keys.queue_name,
        &keys.names,
        look.take("layout")?,
        &look.take::<String>("names")?,
    )?;
    let (skipped, waits) = (look.take("skipped")?, look.take::<u64>("waits")? > 0);
    let (in_hand, queued, missing, shards) = (look.take("orphaned")?, 0, 0, Vec::new());
    // A look works whatever names someone else has put there.
    let shown = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned();
    let mut paused: Vec<Vec<u8>> = look.take("paused_groups")?;
    paused.sort_unstable();
    let longest = look.take::<Reply>("longest")?.pairs::<Vec<u8>, u64>()?.into_iter();
    let limits = Gate::parse(&look.take::<String>("limit")?).map_or(Limits::NONE, |gate| gate.limits);
    let cancels = look.take::<Kept>("cancels")?.count();
    let nodes = look.take::<Vec<Looked>>("nodes")?.into_iter();
    let nodes = nodes.map(|Looked(node, reshards)| NodeStatus {
        behind: reshards < keys.names.reshards(),
        ..node
    });
    let nodes = nodes.collect();
    let groups = GroupFigures {
        groups: look.take("groups")?,
        messages: look.take("grouped")?,
        longest: longest.map(|(group, length)| (shown(group), length)).collect(),
        paused: paused.into_iter().map(shown).collect(),
    };
    let gone = named!(mut look => Status {
        birth, time_ms, generator, generator_heard_ago_ms, epoch, published, later, done, failed, errors, requeued, paused, trimmed,
        rewinds, grain, damaged,
    } with { nodes, in_hand, queued, missing, groups, limits, cancels, shards });
    Ok(Some(gone.with_members(skipped, waits)))
}

/// A member, and of how many reshards it knew when it joined.
struct Looked(NodeStatus, u32);

impl Decode for Looked {
    fn decode(value: Value) -> Result<Self> {
        let mut look = Named::decode(value)?;
        let report = look.last_report()?;
        let (watched, behind) = (false, false);
        // A look works also where someone has changed what a node said of itself.
        let process: Vec<u8> = look.take("process")?;
        let Process {
            host,
            pid,
            version,
            concurrency,
            reshards,
            ..
        } = record::decode(&process).unwrap_or_default();
        let node = named!(mut look => NodeStatus {
            node, age_ms, in_hand, done, failed, lease_in_ms, silent_ms,
        } with { host, pid, version, concurrency, report, watched, behind });
        Ok(Self(node, reshards))
    }
}

impl Decode for Held {
    fn decode(value: Value) -> Result<Self> {
        let piece = Reply::decode(value)?;
        Ok(named!(piece => Self { first, count, deliveries, failures, published_ms, start }))
    }
}

pub(super) async fn held(engine: &RedisEngine, node: &str, limit: u32) -> Result<Vec<Held>> {
    let taken = engine.keys.taken(node);
    let mut cmd = redis::cmd("HKEYS");
    cmd.arg(&taken);
    let mut fields: Vec<String> = Vec::decode(engine.aside.query(&cmd).await?)?;
    fields.retain(|field| is_piece(field));
    // Those that are named after a lane, whose numbers are not known yet, come first, then the smallest numbers.
    let named = |field: &str| field.starts_with("pack:");
    fields.sort_by_cached_key(|field| (!named(field), field.len(), field.clone()));
    let lanes = fields.iter().filter(|field| named(field)).count();
    fields.truncate(lanes + limit as usize);
    let run = engine.aside.look(&engine.scripts.held, |cmd| {
        cmd.keys([&taken, &engine.keys.bodies]).arg(limit).arg(&fields);
    });
    Vec::decode(run.await?)
}

pub(super) async fn store_info(engine: &RedisEngine) -> Result<StoreInfo> {
    let info = engine.info().await?.store_info();
    // Now there is a connection.
    let asked = std::time::Instant::now();
    engine.aside.query(redis::cmd("INFO").arg("modules")).await?;
    Ok(StoreInfo {
        round_trip_us: u64::try_from(asked.elapsed().as_micros()).ok(),
        ..info
    })
}
