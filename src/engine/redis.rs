//! The queue in Redis or Valkey: one Lua script per verb, everything of a verb in one step.

mod bodies;
mod dump;
pub mod keys;
mod link;
mod reply;
mod script;

use std::time::Duration;

use redis::{Cmd, Pipeline};

use crate::engine::history::{History, LOOK_NODES_MAX, LastReport, REIGNS_MAX, Range, Report, Reported};
use crate::engine::redis::keys::Keys;
use crate::engine::{
    Beat, CALL_MS, Collect, Collected, DUE_MAX, Engine, Exchange, Exchanged, Failed, GRAIN_START, HEIRS_MAX, Join,
    Joined, LAYOUT, Member, NodeId, NodeStatus, Publish, Published, Push, Pushed, REAP_PACKS_MAX, Reap, Reaped,
    Receipt, Renewed, Status, TRIM_MAX, Wake, check_layout, record,
};
use crate::engine::{HELD_START_BYTES, Held, Requeued, StoreInfo};
use crate::engine::{Handover, Paused, Purged};
use crate::error::{Error, Result};
use crate::message::{Effect, Outcome, Pack};
use crate::settings::Settings;
use bodies::Found;
use link::{Before, Link};
use reply::Reply;

pub use link::Server;
#[doc(hidden)]
pub use script::{Script, Scripts};

/// How often a look is repeated when nodes come and go under it.
const STATUS_TRIES: u32 = 20;

/// A queue in Redis.
pub struct RedisEngine {
    keys: Keys,
    /// Apart: the texts of many scripts would make every future that holds an engine a large one.
    scripts: Box<Scripts>,
    address: String,
    /// Joins, beats, publishes, reaps: a publish path that is cut off cannot keep the crown.
    control: Link,
    exchange: Link,
    bell: Link,
    crown: Link,
    /// Packs of this size stand apart.
    body_bytes_min: usize,
    /// Looks, reports and readers of errors. The control connection must be made by the beat, where no handler can block it.
    aside: Link,
}

impl RedisEngine {
    /// The queue of these settings at a URL (`redis://`, `rediss://`, `unix:`); nothing is sent yet.
    pub fn open(url: &str, settings: &Settings) -> Result<Self> {
        let info = redis::IntoConnectionInfo::into_connection_info(url).map_err(|error| Error::Setting {
            setting: "url",
            reason: error.to_string(),
        })?;
        let address = info.addr().to_string();
        let keys = Keys::new(&settings.queue, &settings.names);
        Self::new(&Server::new(info, address, settings), keys)
    }

    /// The queue with these keys on a server; nothing is sent yet.
    pub fn new(server: &Server, keys: Keys) -> Result<Self> {
        Self::with_scripts(server, keys, Scripts::new())
    }

    /// The same with other scripts: for tests that take a guard out or set the clock.
    #[doc(hidden)]
    pub fn with_scripts(server: &Server, keys: Keys, scripts: Scripts) -> Result<Self> {
        Ok(Self {
            keys,
            scripts: Box::new(scripts),
            address: server.address.clone(),
            control: Link::new(server)?,
            exchange: Link::new(server)?,
            bell: Link::new(server)?,
            crown: Link::new(server)?,
            body_bytes_min: bodies::BODY_BYTES_MIN,
            aside: Link::new(server)?,
        })
    }

    /// The same, with the bytes of packs from this size on apart: for tests, whose packs are small.
    #[doc(hidden)]
    #[must_use]
    pub fn with_apart(self, body_bytes_min: usize) -> Self {
        Self { body_bytes_min, ..self }
    }

    /// The keys of this queue.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// One plain command, for whoever examines the server.
    #[cfg(feature = "cli")]
    pub(crate) async fn ask(&self, cmd: &Cmd) -> Result<redis::Value> {
        self.aside.query(cmd).await
    }

    async fn names(&self, command: &str, key: &str) -> Result<Vec<String>> {
        let mut cmd = redis::cmd(command);
        cmd.arg(key).arg(0).arg(-1);
        let rest = Reply::of(self.aside.query(&cmd).await?)?.rest()?;
        Ok(rest
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect())
    }

    fn no_queue(&self) -> Error {
        Error::NoQueue {
            queue: self.keys.queue_name.clone(),
        }
    }

    fn restless(&self) -> Error {
        Error::Away {
            store: format!("Redis at {}", self.address),
            reason: "nodes come and go too fast for a consistent look".into(),
        }
    }

    /// None: someone came or went meanwhile.
    async fn try_purge(&self, force: bool) -> Result<Option<Purged>> {
        let keys = &self.keys;
        let members = self.names("ZRANGE", &keys.nodes).await?;
        let dead = self.names("LRANGE", &keys.dead).await?;
        let readers = self.names("ZRANGE", &keys.readers).await?;
        let mut all = vec![
            keys.meta.clone(),
            keys.nodes.clone(),
            keys.dead.clone(),
            keys.readers.clone(),
        ];
        all.extend(members.iter().chain(&dead).map(|node| keys.taken(node)));
        all.extend(readers.iter().map(|reader| keys.reading(reader)));
        for key in [
            &keys.queue,
            &keys.bodies,
            &keys.again,
            &keys.later,
            &keys.errors,
            &keys.records,
            &keys.once,
            &keys.once_values,
            &keys.history,
            &keys.reigns,
            &keys.bell,
            &keys.crown,
        ] {
            all.push(key.clone());
        }
        let run = self.aside.run(&self.scripts.purge, |cmd| {
            cmd.arg(all.len())
                .arg(&all)
                .arg(&[members.len(), dead.len(), readers.len()])
                .arg(u8::from(force))
                .arg(&members)
                .arg(&dead)
                .arg(&readers);
        });
        let mut reply = Reply::of(run.await?)?;
        match reply.text()?.as_str() {
            "gone" => Ok(Some(Purged::Gone)),
            "alive" => Ok(Some(Purged::Alive(reply.uint()?))),
            "moved" => Ok(None),
            _ => Err(self.no_queue()),
        }
    }

    async fn info(&self) -> Result<String> {
        match self.aside.query(&redis::cmd("INFO")).await? {
            redis::Value::BulkString(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            redis::Value::VerbatimString { text, .. } => Ok(text),
            other => Err(Error::Protocol {
                detail: format!("INFO: {other:?}"),
            }),
        }
    }

    /// Why a queue, or what stands in its place, was refused.
    fn not_ours(&self, answer: &str, reply: &mut Reply) -> Error {
        let mut why = || match answer {
            "other" => check_layout(&self.keys.queue_name, &self.keys.names, reply.uint()?, &reply.text()?),
            "type" => Err(Error::ForeignKey {
                key: reply.text()?,
                found: reply.text()?,
            }),
            _ => Ok(()),
        };
        why().err().unwrap_or_else(|| unknown(answer))
    }

    async fn try_exchange(&self, exchange: &Exchange) -> Result<Exchanged> {
        let arguments = exchange_arguments(&self.keys, exchange);
        let answer = self.exchange.run(&self.scripts.exchange, arguments).await?;
        self.exchanged(answer).await
    }

    async fn exchanged(&self, answer: redis::Value) -> Result<Exchanged> {
        let mut reply = Reply::of(answer)?;
        Ok(match reply.text()?.as_str() {
            "ok" => {
                let mut list = reply.list()?;
                let mut refused = Vec::new();
                while list.len() > 0 {
                    refused.push((list.uint()?, list.text()?));
                }
                let packs = self.joined(&self.exchange, reply.list()?.rest()?).await?;
                Exchanged::Ok { packs, refused }
            }
            "deposed" => Exchanged::Deposed,
            "stale" => Exchanged::Stale,
            "unheld" => Exchanged::Unheld,
            other => return Err(unknown(other)),
        })
    }

    /// Packs as scripts return them, with the bytes of those that stand apart. Whoever was given up in this moment may find them
    /// gone: then the call is to be repeated, and its answer says so.
    async fn joined(&self, link: &Link, packs: Vec<Vec<u8>>) -> Result<Vec<Pack>> {
        let found = packs.into_iter().map(Found::of).collect::<Result<Vec<_>>>()?;
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(&self.keys.bodies);
        let mut apart = 0;
        for pack in &found {
            if let Found::Stub { field, .. } = pack {
                cmd.arg(field);
                apart += 1;
            }
        }
        let bodies = match apart {
            0 => Vec::new(),
            _ => Reply::of(link.query(&cmd).await?)?.options()?,
        };
        let mut bodies = bodies.into_iter();
        found
            .into_iter()
            .map(|pack| match pack {
                Found::Whole(pack) => Ok(pack),
                Found::Stub { stub, field } => match bodies.next().flatten() {
                    Some(body) => bodies::join(&stub, body),
                    None => Err(Error::Away {
                        store: format!("Redis at {}", self.address),
                        reason: format!("the bytes of the pack {field} are gone from {}", self.keys.bodies),
                    }),
                },
            })
            .collect()
    }

    /// The same call with outcomes that a cluster can write in one step, and what became an error for that.
    fn within_slot(&self, exchange: &Exchange) -> (Exchange, Vec<(u64, String)>) {
        let (mut within, mut refused) = (exchange.clone(), Vec::new());
        for settle in &mut within.settles {
            for run in &mut settle.runs {
                let Outcome::Done(effects) = &run.outcome else { continue };
                let Some(outside) = effects.iter().map(Effect::key).find(|key| !self.keys.shares_slot(key)) else {
                    continue;
                };
                let why = format!(
                    "effect refused: key {outside} is outside the queue's slot of the cluster; a name that ends in {} is inside",
                    self.keys.tag()
                );
                let numbers = (0..run.count).map(|index| settle.piece + u64::from(run.from + index));
                refused.extend(numbers.map(|number| (number, why.clone())));
                run.outcome = Outcome::Error(why);
            }
        }
        (within, refused)
    }

    /// None: someone came or went meanwhile.
    async fn look(&self) -> Result<Option<Status>> {
        let members = self.names("ZRANGE", &self.keys.nodes).await?;
        let dead = self.names("LRANGE", &self.keys.dead).await?;
        let readers = self.names("ZRANGE", &self.keys.readers).await?;
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.status, |cmd| {
            cmd.arg(6 + members.len() + dead.len() + readers.len());
            cmd.arg(&[
                &keys.meta,
                &keys.nodes,
                &keys.dead,
                &keys.errors,
                &keys.later,
                &keys.readers,
            ]);
            for node in members.iter().chain(&dead) {
                cmd.arg(keys.taken(node));
            }
            for reader in &readers {
                cmd.arg(keys.reading(reader));
            }
            cmd.arg(&[members.len(), dead.len(), readers.len()]);
            cmd.arg(&members).arg(&dead).arg(&readers);
        });
        let mut reply = Reply::of(run.await?)?;
        match reply.text()?.as_str() {
            "ok" => {}
            "moved" => return Ok(None),
            _ => return Err(self.no_queue()),
        }
        let mut meta = reply.list()?;
        let (errors, later) = (reply.uint()?, reply.uint()?);
        let mut list = reply.list()?;
        let mut nodes = Vec::with_capacity(list.len());
        while list.len() > 0 {
            let mut node = list.list()?;
            let id = node.text()?;
            let (host, pid, version, concurrency) = record::decode_about(&node.bytes()?)?;
            nodes.push(NodeStatus {
                node: id,
                host,
                pid,
                version,
                concurrency,
                age_ms: node.uint()?,
                in_hand: node.uint()?,
                done: node.uint()?,
                failed: node.uint()?,
                lease_in_ms: node.uint()?,
                report: kept(&mut node)?,
            });
        }
        let orphaned = reply.uint()?;
        let sum = |of: fn(&NodeStatus) -> u64| nodes.iter().map(of).sum::<u64>();
        let mut status = Status {
            birth: meta.text()?,
            time_ms: reply.uint()?,
            generator: meta.name()?,
            epoch: meta.uint()?,
            published: meta.uint()?,
            queued: 0,
            in_hand: orphaned + sum(|node| node.in_hand),
            later,
            done: meta.uint()? + sum(|node| node.done),
            failed: meta.uint()? + sum(|node| node.failed),
            errors,
            requeued: 0,
            paused: Paused::default(),
            trimmed: 0,
            rewinds: 0,
            grain: 0,
            nodes,
        };
        status.requeued = meta.uint()?;
        status.rewinds = meta.uint()?;
        status.grain = meta.uint()?;
        status.count_queued(meta.uint()?);
        check_layout(&keys.queue_name, &keys.names, meta.uint()?, &meta.text()?)?;
        status.paused = Paused::of_bits(meta.uint()?);
        status.trimmed = meta.uint()?;
        Ok(Some(status))
    }
}

/// What an exchange is called with.
fn exchange_arguments<'a>(keys: &'a Keys, exchange: &'a Exchange) -> impl Fn(&mut Cmd) + 'a {
    let taken = keys.taken(&exchange.node);
    let (settles, effect_keys) = record::settles(&exchange.settles);
    move |cmd| {
        let all = if settles.is_empty() { 6 } else { 9 };
        cmd.arg(all + effect_keys.len());
        let keys = [
            &keys.meta,
            &keys.queue,
            &taken,
            &keys.bodies,
            &keys.bell,
            &keys.again,
            &keys.errors,
            &keys.records,
            &keys.later,
        ];
        cmd.arg(&keys[..all])
            .arg(&effect_keys)
            .arg(&exchange.node)
            .arg(exchange.lane)
            .arg(exchange.call)
            .arg(&settles)
            .arg(exchange.want)
            .arg(u8::from(exchange.woken));
        for (piece, count) in exchange.settles.iter().filter_map(record::plain) {
            cmd.arg(piece).arg(count);
        }
    }
}

/// An exchange as bytes: for measuring what its making costs.
#[doc(hidden)]
#[must_use]
pub fn exchange_bytes(keys: &Keys, exchange: &Exchange) -> Vec<u8> {
    let mut cmd = redis::cmd("EVALSHA");
    exchange_arguments(keys, exchange)(&mut cmd);
    cmd.get_packed_command()
}

impl Engine for RedisEngine {
    async fn check(&self) -> Result<()> {
        check_info(&self.address, &self.info().await?)
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        let mut facts = StoreInfo::of_redis(&self.info().await?);
        // Now there is a connection.
        let asked = std::time::Instant::now();
        self.aside.query(redis::cmd("INFO").arg("modules")).await?;
        facts.round_trip_us = u64::try_from(asked.elapsed().as_micros()).ok();
        Ok(facts)
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.dump().await?.unsettled())
    }

    async fn join(&self, join: &Join) -> Result<Joined> {
        let keys = &self.keys;
        let taken = keys.taken(&join.node);
        let typed = [
            (&keys.meta, "hash"),
            (&keys.nodes, "zset"),
            (&taken, "hash"),
            (&keys.queue, "list"),
            (&keys.again, "list"),
            (&keys.later, "zset"),
            (&keys.dead, "list"),
            (&keys.errors, "zset"),
            (&keys.records, "hash"),
            (&keys.bodies, "hash"),
            (&keys.readers, "zset"),
            (&keys.once, "zset"),
            (&keys.once_values, "hash"),
            (&keys.history, "hash"),
            (&keys.reigns, "list"),
            (&keys.bell, "list"),
            (&keys.crown, "list"),
        ];
        let about = record::about(join);
        let run = self.control.run(&self.scripts.join, |cmd| {
            cmd.arg(typed.len());
            for (key, _) in typed {
                cmd.arg(key);
            }
            cmd.arg(&join.node)
                .arg(join.lanes)
                .arg(join.lease_ms)
                .arg(join.step_ms)
                .arg(LAYOUT)
                .arg(keys.names.line())
                .arg(&join.birth)
                .arg(&join.seen.birth)
                .arg(join.seen.seq)
                .arg(join.seen.epoch)
                .arg(GRAIN_START)
                .arg(&about);
            for (_, kind) in typed {
                cmd.arg(kind);
            }
        });
        let mut reply = Reply::of(run.await?)?;
        match reply.text()?.as_str() {
            "ok" => Ok(Joined {
                birth: reply.text()?,
                rewound: reply.flag()?,
            }),
            other => Err(self.not_ours(other, &mut reply)),
        }
    }

    async fn beat(&self, beat: &Beat) -> Result<Renewed> {
        let keys = &self.keys;
        let run = self.control.run(&self.scripts.beat, |cmd| {
            cmd.arg(9)
                .arg(&[
                    &keys.meta,
                    &keys.nodes,
                    &keys.queue,
                    &keys.again,
                    &keys.dead,
                    &keys.bell,
                    &keys.crown,
                    &keys.later,
                    &keys.reigns,
                ])
                .arg(&beat.node)
                .arg(beat.lease_ms)
                .arg(beat.crown_ms)
                .arg(if beat.eligible { beat.rank } else { 0 })
                .arg(beat.seen.seq)
                .arg(beat.seen.epoch)
                .arg(HEIRS_MAX)
                .arg(DUE_MAX)
                .arg(REIGNS_MAX);
        });
        let mut reply = Reply::of(run.await?)?;
        match reply.text()?.as_str() {
            "ok" => Ok(Renewed::Alive(Member {
                generator: reply.flag()?,
                epoch: reply.uint()?,
                seq: reply.uint()?,
                made: reply.uint()?,
                grain: reply.uint()?,
                due_in_ms: reply.uint()?,
                crown_in_ms: reply.uint()?,
                heir: reply.flag()?,
                wall_ms: reply.uint()?,
                victim: reply.name()?,
                more_due: reply.flag()?,
                rewound: reply.flag()?,
                paused: Paused::of_bits(reply.uint()?),
                cursor: match reply.len() {
                    0 => None,
                    _ => Some(reply.bytes()?.into()),
                },
            })),
            "deposed" => Ok(Renewed::Deposed),
            other => Err(unknown(other)),
        }
    }

    async fn publish(&self, publish: &Publish) -> Result<Published> {
        let keys = &self.keys;
        let apart = |pack: &&Pack| pack.bytes().len() >= self.body_bytes_min;
        // What is published already stays as it is: a copy of a call that was changed on its way changes nothing.
        let bodies = |pipe: &mut Pipeline| {
            for pack in publish.packs.iter().filter(apart) {
                let field = bodies::stub(pack).1;
                pipe.cmd("HSETNX").arg(&keys.bodies).arg(field).arg(&pack.bytes()[..]);
            }
        };
        let before: Option<Before> = publish.packs.iter().any(|pack| apart(&pack)).then_some(&bodies);
        let run = self.control.run_connected(&self.scripts.publish, before, |cmd| {
            cmd.arg(4)
                .arg(&[&keys.meta, &keys.queue, &keys.bell, &keys.bodies])
                .arg(&publish.node)
                .arg(publish.epoch)
                .arg(publish.made)
                .arg(publish.first)
                .arg(publish.messages.map_or(-1, u64::cast_signed))
                .arg(publish.backlog_max)
                .arg(publish.interval_ms)
                .arg(publish.cursor.as_deref().unwrap_or_default());
            for pack in &publish.packs {
                if apart(&pack) {
                    cmd.arg(bodies::stub(pack).0);
                } else {
                    cmd.arg(&pack.bytes()[..]);
                }
            }
        });
        let mut reply = Reply::of(run.await?)?;
        Ok(match reply.text()?.as_str() {
            "ok" => Published::Ok {
                seq: reply.uint()?,
                made: reply.uint()?,
                grain: reply.uint()?,
                due_in_ms: reply.uint()?,
            },
            "fenced" => Published::Fenced,
            "gap" => Published::Gap,
            "moved" => Published::Moved { seq: reply.uint()? },
            "full" => Published::Full,
            "paused" => Published::Paused,
            "finished" => Published::Finished,
            other => return Err(unknown(other)),
        })
    }

    async fn push(&self, push: &Push) -> Result<Pushed> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.push, |cmd| {
            cmd.arg(6)
                .arg(&[
                    &keys.meta,
                    &keys.queue,
                    &keys.bell,
                    &keys.later,
                    &keys.once,
                    &keys.once_values,
                ])
                .arg(&push.call)
                .arg(CALL_MS)
                .arg(push.keep_ms)
                .arg(push.backlog_max)
                .arg(LAYOUT)
                .arg(keys.names.line())
                .arg(&push.birth)
                .arg(push.step_ms)
                .arg(GRAIN_START);
            for item in &push.items {
                cmd.arg(item.key.as_deref().unwrap_or_default())
                    .arg(item.delay_ms)
                    .arg(&item.payload[..]);
            }
        });
        let mut reply = Reply::of(run.await?)?;
        match reply.text()?.as_str() {
            "ok" => {
                let (mut list, mut receipts) = (reply.list()?, Vec::with_capacity(push.items.len()));
                while list.len() > 0 {
                    receipts.push(Receipt {
                        number: list.uint()?,
                        repeated: list.flag()?,
                    });
                }
                Ok(Pushed::Ok(receipts))
            }
            "full" => Ok(Pushed::Full),
            other => Err(self.not_ours(other, &mut reply)),
        }
    }

    async fn exchange(&self, exchange: &Exchange) -> Result<Exchanged> {
        match self.try_exchange(exchange).await {
            // A cluster says so before anything is written, and of the whole call: so what caused it is taken out.
            Err(Error::Refused { reason, .. }) if reason.starts_with("CROSSSLOT") => {
                let (within, refused_here) = self.within_slot(exchange);
                let mut answer = self.try_exchange(&within).await;
                if let Ok(Exchanged::Ok { refused, .. }) = &mut answer {
                    refused.extend(refused_here);
                }
                answer
            }
            answer => answer,
        }
    }

    async fn reap(&self, reap: &Reap) -> Result<Reaped> {
        let keys = &self.keys;
        let taken = keys.taken(&reap.victim);
        let run = self.control.run(&self.scripts.reap, |cmd| {
            cmd.arg(9)
                .arg(&[
                    &keys.meta,
                    &keys.nodes,
                    &keys.dead,
                    &taken,
                    &keys.again,
                    &keys.errors,
                    &keys.records,
                    &keys.bell,
                    &keys.bodies,
                ])
                .arg(&reap.victim)
                .arg(reap.deliveries_max)
                .arg(REAP_PACKS_MAX);
        });
        let mut reply = Reply::of(run.await?)?;
        Ok(Reaped {
            redelivered: reply.uint()?,
            failed: reply.uint()?,
            more: reply.flag()?,
            deposed: reply.flag()?,
        })
    }

    async fn leave(&self, node: &NodeId) -> Result<()> {
        let keys = &self.keys;
        let run = self.control.run(&self.scripts.leave, |cmd| {
            cmd.arg(5)
                .arg(&[&keys.meta, &keys.nodes, &keys.dead, &keys.taken(node), &keys.crown])
                .arg(node);
        });
        run.await.map(drop)
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        match wake {
            Wake::Bell => self.bell.pop(&self.keys.bell, at_most).await,
            Wake::Crown => self.crown.pop(&self.keys.crown, at_most).await,
        }
    }

    /// The call is sent together with the wait: the server makes it in the moment in which the bell rings, where a call after
    /// the ring would cost another round trip.
    async fn await_work(&self, exchange: &Exchange, at_most: Duration) -> Result<Exchanged> {
        let arguments = exchange_arguments(&self.keys, exchange);
        let waiting = self
            .bell
            .pop_then_run(&self.keys.bell, at_most, &self.scripts.exchange, arguments);
        match waiting.await? {
            Some(answer) => self.exchanged(answer).await,
            None => self.exchange(exchange).await,
        }
    }

    async fn collect(&self, collect: &Collect) -> Result<Collected> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.collect, |cmd| {
            cmd.arg(5)
                .arg(&[
                    &keys.meta,
                    &keys.errors,
                    &keys.records,
                    &keys.readers,
                    &keys.reading(&collect.reader),
                ])
                .arg(&collect.reader)
                .arg(collect.call)
                .arg(collect.below)
                .arg(collect.want)
                .arg(collect.lease_ms)
                .arg(collect.shown.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
        });
        let mut reply = Reply::of(run.await?)?;
        match reply.text()?.as_str() {
            "ok" => Ok(Collected::Batch {
                others: reply.uint()?,
                victim: reply.name()?,
                failed: decode_all(reply.list()?)?,
            }),
            "deposed" => Ok(Collected::Deposed),
            other => Err(unknown(other)),
        }
    }

    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.hold, |cmd| {
            cmd.arg(2).arg(&[&keys.meta, &keys.readers]).arg(reader).arg(lease_ms);
        });
        Ok(run.await? == redis::Value::Int(1))
    }

    async fn release(&self, reader: &str, expired: bool) -> Result<()> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.release, |cmd| {
            cmd.arg(5)
                .arg(&[
                    &keys.meta,
                    &keys.errors,
                    &keys.records,
                    &keys.readers,
                    &keys.reading(reader),
                ])
                .arg(reader)
                .arg(u8::from(expired));
        });
        run.await.map(drop)
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.failed, |cmd| {
            cmd.arg(2).arg(&[&keys.errors, &keys.records]).arg(from).arg(limit);
        });
        decode_all(Reply::of(run.await?)?)
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.latest, |cmd| {
            cmd.arg(2).arg(&[&keys.errors, &keys.records]).arg(below).arg(limit);
        });
        decode_all(Reply::of(run.await?)?)
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        let run = self.aside.run(&self.scripts.held, |cmd| {
            cmd.arg(2).arg(self.keys.taken(node)).arg(&self.keys.bodies);
            cmd.arg(limit).arg(HELD_START_BYTES);
        });
        let mut reply = Reply::of(run.await?)?;
        let mut held = Vec::with_capacity(reply.len());
        while reply.len() > 0 {
            let mut piece = reply.list()?;
            held.push(Held {
                first: piece.uint()?,
                count: piece.uint()?,
                attempt: piece.short()?,
                failures: piece.short()?,
                published_ms: piece.uint()?,
                start: piece.bytes()?,
            });
        }
        Ok(held)
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.requeue, |cmd| {
            cmd.arg(5)
                .arg(&[&keys.meta, &keys.errors, &keys.records, &keys.again, &keys.bell])
                .arg(numbers);
        });
        let mut reply = Reply::of(run.await?)?;
        Ok(Requeued {
            looked: usize::try_from(reply.uint()?).unwrap_or(numbers.len()),
            numbers: reply.list()?.uints()?,
        })
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.discard, |cmd| {
            cmd.arg(2).arg(&[&keys.errors, &keys.records]).arg(numbers);
        });
        Reply::of(run.await?)?.uints()
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        let keys = &self.keys;
        let run = self.control.run(&self.scripts.trim, |cmd| {
            cmd.arg(3)
                .arg(&[&keys.meta, &keys.errors, &keys.records])
                .arg(keep)
                .arg(TRIM_MAX);
        });
        Reply::of(run.await?)?.uints()
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        let flag = |paused: Option<bool>| paused.map_or("", |paused| if paused { "1" } else { "0" });
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.pause, |cmd| {
            cmd.arg(2)
                .arg(&[&keys.meta, &keys.bell])
                .arg(flag(generator))
                .arg(flag(handlers));
        });
        match run.await? {
            redis::Value::Int(bits) => match u64::try_from(bits) {
                Ok(bits) => Ok(Paused::of_bits(bits)),
                Err(_) => Err(self.no_queue()),
            },
            other => Err(unknown(&format!("{other:?}"))),
        }
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.handover, |cmd| {
            cmd.arg(3)
                .arg(&[&keys.meta, &keys.nodes, &keys.crown])
                .arg(to.unwrap_or("*"));
        });
        match run.await? {
            redis::Value::BulkString(answer) => match &answer[..] {
                b"asked" => Ok(Handover::Asked),
                b"reigns" => Ok(Handover::Reigns),
                b"unknown" => Ok(Handover::Unknown),
                _ => Err(self.no_queue()),
            },
            other => Err(unknown(&format!("{other:?}"))),
        }
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        for _ in 0..STATUS_TRIES {
            if let Some(purged) = self.try_purge(force).await? {
                return Ok(purged);
            }
        }
        Err(self.restless())
    }

    async fn report(&self, report: &Report) -> Result<Reported> {
        let keys = &self.keys;
        let (live, figures) = (record::live(&report.live), record::figures(&report.figures));
        let gauges = report.gauges.as_ref().map(record::gauges).unwrap_or_default();
        let run = self.aside.run(&self.scripts.report, |cmd| {
            cmd.arg(3)
                .arg(&[&keys.nodes, &keys.taken(&report.node), &keys.history])
                .arg(&report.node)
                .arg(report.number)
                .arg(&live)
                .arg(&figures)
                .arg(&gauges)
                .arg(LOOK_NODES_MAX);
            for range in Range::ALL {
                cmd.arg(range.step_ms()).arg(range.steps());
            }
        });
        match run.await? {
            redis::Value::Int(-1) => Ok(Reported::Stranger),
            redis::Value::Int(look) => Ok(Reported::Stored { look: look == 1 }),
            other => Err(unknown(&format!("{other:?}"))),
        }
    }

    async fn history(&self, range: Range) -> Result<History> {
        let keys = &self.keys;
        let run = self.aside.run(&self.scripts.history, |cmd| {
            cmd.arg(3)
                .arg(&[&keys.meta, &keys.history, &keys.reigns])
                .arg(range.ring())
                .arg(range.steps());
        });
        let mut reply = Reply::of(run.await?)?;
        if reply.text()? != "ok" {
            return Err(self.no_queue());
        }
        let (now_ms, ruled_ms) = (reply.uint()?, reply.uint()?);
        let reigns = reply.list()?.rest()?;
        let reigns = reigns.iter().map(|bytes| record::decode_crowned(bytes));
        let reigns = reigns.collect::<Result<Vec<_>>>()?;
        let slots = reply.list()?.rest()?;
        let slots = slots.iter().map(|bytes| record::decode_bucket(bytes));
        Ok(History::of(
            now_ms,
            range,
            slots.collect::<Result<_>>()?,
            &reigns,
            ruled_ms,
        ))
    }

    async fn status(&self) -> Result<Status> {
        for _ in 0..STATUS_TRIES {
            if let Some(status) = self.look().await? {
                return Ok(status);
            }
        }
        Err(self.restless())
    }
}

/// What is kept of a report; none, if its text is empty.
fn kept(node: &mut Reply) -> Result<Option<LastReport>> {
    let (number, time_ms, live) = (node.uint()?, node.uint()?, node.bytes()?);
    if live.is_empty() {
        return Ok(None);
    }
    let live = record::decode_live(&live)?;
    Ok(Some(LastReport { number, time_ms, live }))
}

fn decode_all(reply: Reply) -> Result<Vec<Failed>> {
    reply.rest()?.iter().map(|bytes| record::decode_failed(bytes)).collect()
}

fn unknown(answer: &str) -> Error {
    Error::Protocol {
        detail: format!("unknown answer {answer:?}"),
    }
}

/// Too old a server, or one that may evict our keys, is refused.
fn check_info(address: &str, info: &str) -> Result<()> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let store = format!("Redis at {address}");
    // Valkey says 7.2 here, and its own version elsewhere.
    let version = field("redis_version").unwrap_or("an unknown version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if number < (6, 2) {
        return Err(Error::OldServer {
            store,
            found: version.to_string(),
        });
    }
    let policy = field("maxmemory_policy").unwrap_or("noeviction");
    if policy.starts_with("allkeys-") && field("maxmemory").is_some_and(|bytes| bytes != "0") {
        return Err(Error::Evicts {
            store,
            policy: policy.to_string(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_info;

    #[test]
    fn servers_on_which_the_promises_would_not_hold_are_refused() {
        let info = |version: &str, maxmemory: &str, policy: &str| {
            let info = format!("redis_version:{version}\r\nmaxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n");
            check_info("here", &info)
        };
        assert!(info("6.2.0", "0", "noeviction").is_ok());
        assert!(info("10.0.1", "0", "noeviction").is_ok());
        assert!(info("6.0.16", "0", "noeviction").is_err());
        assert!(info("7.0.15", "0", "allkeys-lru").is_ok());
        assert!(info("7.0.15", "1000000", "allkeys-lfu").is_err());
        assert!(info("7.0.15", "1000000", "volatile-lru").is_ok());
    }
}
