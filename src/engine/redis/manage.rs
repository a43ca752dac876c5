//! What an operator does to a queue: pause, hand the crown over, purge.

use super::link::Keyed;
use super::membership::end_members;
use super::reply::{Decode, Reply};
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::{Handover, Limits, Paused, PausedGroup, Purged, Rate};
use crate::error::Result;

pub(super) async fn pause(engine: &RedisEngine, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
    let flag = |paused: Option<bool>| paused.map_or("", |paused| if paused { "1" } else { "0" });
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.pause, |cmd| {
        cmd.keys([&keys.meta, &keys.bell])
            .arg(flag(generator))
            .arg(flag(handlers));
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => reply.next(),
        _ => Err(engine.no_queue()),
    }
}

pub(super) async fn pause_group(engine: &RedisEngine, group: &str, paused: bool) -> Result<PausedGroup> {
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.pause_group, |cmd| {
        cmd.keys([
            &keys.meta,
            &keys.bell,
            &keys.groups_paused,
            &keys.lines,
            &keys.ready,
            &keys.turns,
            &keys.groups,
        ])
        .arg(group)
        .arg(u8::from(paused));
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(PausedGroup::Ok { waiting: reply.next()? }),
        "many" => Ok(PausedGroup::TooMany),
        _ => Err(engine.no_queue()),
    }
}

pub(super) async fn limit(engine: &RedisEngine, limits: &Limits) -> Result<()> {
    let (keys, limits) = (&engine.keys, limits.with_burst());
    let of = |rate: Option<Rate>| rate.map_or([0, 1], |rate| [rate.messages, rate.per_ms]);
    let run = engine.aside.run(&engine.scripts.limit, |cmd| {
        cmd.keys([&keys.meta, &keys.bell])
            .arg(&of(limits.rate))
            .arg(limits.burst)
            .arg(&of(limits.group));
    });
    match Reply::decode(run.await?)?.next::<String>()?.as_str() {
        "ok" => Ok(()),
        _ => Err(engine.no_queue()),
    }
}

pub(super) async fn reshard(engine: &RedisEngine, server: &str) -> Result<bool> {
    for _ in 0..LOOKS_MAX {
        if let Some(is_noted) = try_reshard(engine, server).await? {
            return Ok(is_noted);
        }
        end_members(engine).await?;
    }
    Err(engine.restless())
}

/// None: a shard that was left over from another reshard has members.
async fn try_reshard(engine: &RedisEngine, server: &str) -> Result<Option<bool>> {
    let keys = &engine.keys;
    let run = engine.aside.run_kept(&engine.scripts.reshard, &keys.replicated, |cmd| {
        cmd.keys([&keys.meta, &keys.crown, &keys.nodes, &keys.unheard])
            .arg(keys.names.line())
            .arg(engine.aside.server_or(server));
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(Some(true)),
        "unheard" => Ok(Some(false)),
        "members" => Ok(None),
        "none" => Err(engine.no_queue()),
        other => Err(engine.not_ours(other, reply)),
    }
}

pub(super) async fn handover(engine: &RedisEngine, to: Option<&str>) -> Result<Handover> {
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.handover, |cmd| {
        cmd.keys([&keys.meta, &keys.nodes, &keys.crown]).arg(to.unwrap_or("*"));
    });
    match String::decode(run.await?)?.as_str() {
        "asked" => Ok(Handover::Asked),
        "reigns" => Ok(Handover::Reigns),
        "unknown" => Ok(Handover::Unknown),
        _ => Err(engine.no_queue()),
    }
}

pub(super) async fn purge(engine: &RedisEngine, force: bool) -> Result<Purged> {
    for _ in 0..LOOKS_MAX {
        if let Some(purged) = try_purge(engine, force).await? {
            return Ok(purged);
        }
    }
    Err(engine.restless())
}

/// None: a node or a reader came or went meanwhile.
async fn try_purge(engine: &RedisEngine, force: bool) -> Result<Option<Purged>> {
    let keys = &engine.keys;
    let there = engine.there().await?;
    let mut all = vec![
        &keys.meta,
        &keys.nodes,
        &keys.dead,
        &keys.readers,
        &keys.purged,
        &keys.replicated,
    ];
    let others = keys.typed().map(|(key, _)| key).into_iter();
    let others: Vec<&String> = others.filter(|key| !all.contains(key)).collect();
    let of_each = there.keys(keys);
    all.extend(&of_each);
    all.extend(others);
    let run = engine.aside.run(&engine.scripts.purge, |cmd| {
        cmd.arg(all.len()).arg(&all).arg(u8::from(force));
        there.name(cmd);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "gone" => Ok(Some(Purged::Gone)),
        "alive" => Ok(Some(Purged::Alive(reply.next()?))),
        "moved" => Ok(None),
        _ => Err(engine.no_queue()),
    }
}
