//! The errors (dead letters): reading them, and withdrawing, discarding and trimming them.

use super::link::Keyed;
use super::reply::{Decode, Readable, Reply, named};
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::{Collect, Collected, Failed, Requeued};
use crate::error::Result;

pub(super) async fn collect(engine: &RedisEngine, collect: &Collect) -> Result<Collected> {
    let keys = &engine.keys;
    let reading = keys.reading(&collect.reader);
    // What is printed is told: a failover must not make it something else.
    let run = engine.aside.run_kept(&engine.scripts.collect, &keys.replicated, |cmd| {
        cmd.keys([
            &keys.meta,
            &keys.errors,
            &keys.records,
            &keys.readers,
            &reading,
            &keys.damaged,
        ])
        .arg(&collect.reader)
        .arg(collect.call)
        .arg(collect.below)
        .arg(collect.want)
        .arg(collect.lease_ms)
        .arg(collect.shown.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(named!(reply => Collected::Batch { others, victim, failed })),
        "deposed" => Ok(Collected::Deposed),
        other => Err(super::unknown(other)),
    }
}

pub(super) async fn hold(engine: &RedisEngine, reader: &str, lease_ms: u64) -> Result<bool> {
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.hold, |cmd| {
        cmd.keys([&keys.meta, &keys.readers]).arg(reader).arg(lease_ms);
    });
    bool::decode(run.await?)
}

pub(super) async fn release(engine: &RedisEngine, reader: &str, expired: bool) -> Result<()> {
    let keys = &engine.keys;
    let reading = keys.reading(reader);
    let run = engine.aside.run(&engine.scripts.release, |cmd| {
        cmd.keys([
            &keys.meta,
            &keys.errors,
            &keys.records,
            &keys.readers,
            &reading,
            &keys.damaged,
        ])
        .arg(reader)
        .arg(u8::from(expired));
    });
    run.await.map(drop)
}

pub(super) async fn failed(engine: &RedisEngine, from: u64, limit: u32) -> Result<Vec<Failed>> {
    list(engine, from, "up", limit).await
}

pub(super) async fn latest(engine: &RedisEngine, below: u64, limit: u32) -> Result<Vec<Failed>> {
    list(engine, below, "down", limit).await
}

/// The script says which fit into one answer, and a plain command reads them: Lua would read every byte of them.
async fn list(engine: &RedisEngine, mut from: u64, order: &str, limit: u32) -> Result<Vec<Failed>> {
    let keys = &engine.keys;
    for _ in 0..LOOKS_MAX {
        let run = engine.aside.look(&engine.scripts.failed, |cmd| {
            cmd.keys([&keys.errors, &keys.records]).arg(from).arg(order).arg(limit);
        });
        let numbers: Vec<u64> = Vec::decode(run.await?)?;
        let Some(last) = numbers.last() else {
            return Ok(Vec::new());
        };
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(&keys.records).arg(&numbers);
        // What cannot be read is not shown: whoever collects sets it aside.
        let Readable(failed) = Readable::decode(engine.aside.query(&cmd).await?)?;
        if !failed.is_empty() {
            return Ok(failed);
        }
        // Someone has taken all of them meanwhile, or none can be read; an empty answer would say that there are no more.
        from = if order == "up" { last + 1 } else { *last };
    }
    Err(engine.restless())
}

pub(super) async fn requeue(engine: &RedisEngine, numbers: &[u64]) -> Result<Requeued> {
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.requeue, |cmd| {
        cmd.keys([
            &keys.meta,
            &keys.errors,
            &keys.records,
            &keys.again,
            &keys.bell,
            &keys.lines,
            &keys.ready,
            &keys.turns,
            &keys.groups,
            &keys.asked,
            &keys.endings,
        ])
        .arg(numbers);
    });
    let reply = Reply::decode(run.await?)?;
    Ok(named!(reply => Requeued { looked, numbers }))
}

pub(super) async fn discard(engine: &RedisEngine, numbers: &[u64]) -> Result<Vec<u64>> {
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.discard, |cmd| {
        cmd.keys([&keys.errors, &keys.records]).arg(numbers);
    });
    Vec::decode(run.await?)
}

pub(super) async fn trim(engine: &RedisEngine, keep: u64) -> Result<Vec<u64>> {
    let keys = &engine.keys;
    let run = engine.control.run(&engine.scripts.trim, |cmd| {
        cmd.keys([&keys.meta, &keys.errors, &keys.records]).arg(keep);
    });
    Vec::decode(run.await?)
}
