//! Membership and the crown: join, beat, reap, leave, and waiting for a bell.

use std::time::Duration;

use super::RedisEngine;
use super::link::Keyed;
use super::reply::{Decode, Reply, named};
use crate::engine::{Beat, Join, Joined, Member, NodeId, Reap, Reaped, Renewed, Wake, record};
use crate::error::Result;

pub(super) async fn join(engine: &RedisEngine, join: &Join) -> Result<Joined> {
    let keys = &engine.keys;
    let taken = keys.taken(&join.node);
    let mut typed = keys.typed().to_vec();
    typed.insert(2, (&taken, "hash"));
    let (all, kinds): (Vec<&String>, Vec<&str>) = typed.into_iter().unzip();
    let process = record::encode(&record::Process::of(join));
    let run = engine.control.run(&engine.scripts.join, |cmd| {
        cmd.arg(all.len())
            .arg(&all)
            .arg(&join.node)
            .arg(join.lanes)
            .arg(join.lease_ms)
            .arg(join.step_ms)
            .arg(keys.names.line())
            .arg(&join.birth)
            .arg(join.seen.seq)
            .arg(join.seen.epoch)
            .arg(&process)
            .arg(&kinds);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(named!(reply => Joined { birth, rewound })),
        other => Err(engine.not_ours(other, reply)),
    }
}

pub(super) async fn beat(engine: &RedisEngine, beat: &Beat) -> Result<Renewed> {
    let keys = &engine.keys;
    let run = engine.control.run(&engine.scripts.beat, |cmd| {
        cmd.keys([
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
        .arg(beat.seen.epoch);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(Renewed::Alive(named!(reply => Member {
            generator,
            epoch,
            seq,
            made,
            grain,
            due_in_ms,
            crown_in_ms,
            heir,
            wall_ms,
            victim,
            more_due,
            rewound,
            paused,
            cursor,
        }))),
        "deposed" => Ok(Renewed::Deposed),
        other => Err(super::unknown(other)),
    }
}

pub(super) async fn reap(engine: &RedisEngine, reap: &Reap) -> Result<Reaped> {
    let keys = &engine.keys;
    let taken = keys.taken(&reap.victim);
    let run = engine.control.run(&engine.scripts.reap, |cmd| {
        cmd.keys([
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
        .arg(&reap.victim);
    });
    let reply = Reply::decode(run.await?)?;
    Ok(named!(reply => Reaped { redelivered, failed, more, deposed }))
}

pub(super) async fn leave(engine: &RedisEngine, node: &NodeId) -> Result<()> {
    let keys = &engine.keys;
    let taken = keys.taken(node);
    let run = engine.control.run(&engine.scripts.leave, |cmd| {
        cmd.keys([&keys.meta, &keys.nodes, &keys.dead, &taken, &keys.crown])
            .arg(node);
    });
    run.await.map(drop)
}

pub(super) async fn listen(engine: &RedisEngine, wake: Wake, at_most: Duration) -> Result<bool> {
    match wake {
        Wake::Bell => engine.bell.pop(&engine.keys.bell, at_most).await,
        Wake::Crown => engine.crown.pop(&engine.keys.crown, at_most).await,
    }
}
