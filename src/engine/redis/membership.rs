//! Membership and the crown: join, beat, reap, leave, and waiting for a bell.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::link::Keyed;
use super::reply::{Decode, Reply, named};
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::store::StepCounts;
use crate::engine::{Beat, Join, Joined, Member, NodeId, Reap, Reaped, Renewed, Wake, record};
use crate::error::Result;

pub(super) async fn join(engine: &RedisEngine, join: &Join) -> Result<Joined> {
    for _ in 0..LOOKS_MAX {
        if let Some(joined) = try_join(engine, join).await? {
            return Ok(joined);
        }
        adopt(engine).await?;
    }
    Err(engine.restless())
}

/// Takes the queue over from an older program, unless a node comes or goes meanwhile.
async fn adopt(engine: &RedisEngine) -> Result<()> {
    let keys = &engine.keys;
    let mut look = redis::cmd("ZRANGE");
    look.arg(&keys.nodes).arg(0).arg(-1);
    let members = Vec::<String>::decode(engine.control.query(&look).await?)?;
    let of_each: Vec<String> = members.iter().map(|node| keys.taken(node)).collect();
    let run = engine.control.run(&engine.scripts.adopt, |cmd| {
        let fixed = [&keys.meta, &keys.nodes, &keys.dead];
        cmd.arg(fixed.len() + of_each.len())
            .arg(&fixed)
            .arg(&of_each)
            .arg(&members);
    });
    run.await.map(drop)
}

/// None: an older program works on the queue.
async fn try_join(engine: &RedisEngine, join: &Join) -> Result<Option<Joined>> {
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
            .arg(StepCounts::of(join.lease_ms))
            .arg(keys.names.line())
            .arg(&join.token)
            .arg(join.seen.seq)
            .arg(join.seen.epoch)
            .arg(join.seen.made)
            .arg(&join.seen.birth)
            .arg(&process)
            .arg(&kinds);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(Some(named!(reply => Joined::Ok { birth, rewound, purged }))),
        "taken" => Ok(Some(Joined::Taken)),
        "older" => Ok(None),
        other => Err(engine.not_ours(other, reply)),
    }
}

pub(super) async fn beat(engine: &RedisEngine, beat: &Beat) -> Result<Renewed> {
    // As the last one was: a handler's beats are short, a generator's long.
    let short = engine.beats_short.load(Ordering::Relaxed);
    let renewed = match if short {
        try_beat(engine, beat, false).await?
    } else {
        None
    } {
        Some(renewed) => renewed,
        None => try_beat(engine, beat, true)
            .await?
            .ok_or_else(|| super::unknown("long"))?,
    };
    let is_plain = matches!(&renewed, Renewed::Alive(member) if !member.generator && member.crown_in_ms > 0);
    engine.beats_short.store(is_plain, Ordering::Relaxed);
    Ok(renewed)
}

/// None: it must be asked in the long form.
async fn try_beat(engine: &RedisEngine, beat: &Beat, long: bool) -> Result<Option<Renewed>> {
    let keys = &engine.keys;
    let all = long.then(|| keys.typed());
    let (typed, kinds): (Vec<&String>, Vec<&str>) = all.into_iter().flatten().unzip();
    let run = engine.control.run(&engine.scripts.beat, |cmd| {
        let own = [
            &keys.meta,
            &keys.nodes,
            &keys.queue,
            &keys.again,
            &keys.dead,
            &keys.bell,
            &keys.crown,
            &keys.later,
            &keys.reigns,
            &keys.unheard,
            &keys.damaged,
        ];
        cmd.arg(own.len() + typed.len())
            .arg(&own)
            .arg(&typed)
            .arg(&beat.node)
            .arg(beat.lease_ms)
            .arg(beat.crown_ms)
            .arg(if beat.eligible { beat.rank } else { 0 })
            .arg(beat.seen.seq)
            .arg(beat.seen.epoch)
            .arg(beat.seen.made)
            .arg(engine.control.server_or(&beat.server))
            .arg(beat.reigned)
            .arg(&kinds);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(Some(Renewed::Alive(named!(reply => Member {
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
            made_before,
            damaged,
            wrong,
        })))),
        "deposed" => Ok(Some(Renewed::Deposed)),
        "long" => Ok(None),
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
            &keys.damaged,
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
        cmd.keys([&keys.meta, &keys.nodes, &keys.dead, &taken, &keys.crown, &keys.damaged])
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
