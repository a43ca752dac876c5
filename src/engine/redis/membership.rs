//! Membership and the crown: join, beat, reap, leave, and waiting for a bell.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::link::{Keyed, Link};
use super::reply::{Decode, Reply, named};
use super::{LOOKS_MAX, RedisEngine, watching};
use crate::engine::limits::CANCELS_BIT;
use crate::engine::sharded::first_number;
use crate::engine::store::{GroupRules, StepCounts};
use crate::engine::{Beat, HEIRS_MAX, Join, Joined, Member, NodeId, Paused, Reap, Reaped, Renewed, Wake, record};
use crate::error::Result;
use crate::message::Cancels;

pub(super) async fn join(engine: &RedisEngine, join: &Join) -> Result<Joined> {
    calm(engine).clear();
    // Before it is a member, so that nobody sees one without.
    watching::show(engine, &join.node, true);
    engine.control.keep_signs().await?;
    for _ in 0..LOOKS_MAX {
        let joined = match try_join(engine, join).await? {
            Tried::Joined(joined) => Some(joined),
            Tried::Older => {
                adopt(engine).await?;
                None
            }
            Tried::LeftOver => {
                end_members(engine).await?;
                None
            }
        };
        if let Some(joined) = joined {
            // What was looked at before is known: members hardly ever look.
            engine.aside.close().await;
            if joined == Joined::Taken {
                watching::hide(engine, &join.node).await;
            }
            return Ok(joined);
        }
    }
    Err(engine.restless())
}

/// What came of trying to join.
enum Tried {
    Joined(Joined),
    /// An older program works on the queue.
    Older,
    /// A shard that was left over from a reshard has members.
    LeftOver,
}

/// Ends the memberships in a shard that a reshard has left over which was given up before its one step. Nobody has used it, so they hold nothing.
pub(super) async fn end_members(engine: &RedisEngine) -> Result<()> {
    let members: Vec<NodeId> = engine.all_of("ZRANGE", &engine.keys.nodes).await?;
    for node in &members {
        leave(engine, node).await?;
    }
    Ok(())
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

async fn try_join(engine: &RedisEngine, join: &Join) -> Result<Tried> {
    let keys = &engine.keys;
    let taken = keys.taken(&join.node);
    let mut typed = keys.typed().to_vec();
    typed.insert(2, (&taken, "hash"));
    let (all, kinds): (Vec<&String>, Vec<&str>) = typed.into_iter().unzip();
    let process = record::encode(&record::Process::of(join, &keys.names));
    // A promoted replica that knows of a member waits for it before anyone numbers messages there.
    let run = engine
        .control
        .run_writing_kept(&engine.scripts.join, &keys.replicated, |cmd| {
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
                .arg(GroupRules::of_join(join).number())
                .arg(first_number(keys.names.shard as usize))
                .arg(&kinds);
        });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(Tried::Joined(named!(reply => Joined::Ok { birth, rewound, purged }))),
        "taken" => Ok(Tried::Joined(Joined::Taken)),
        "older" => Ok(Tried::Older),
        "members" => Ok(Tried::LeftOver),
        other => Err(engine.not_ours(other, reply)),
    }
}

/// What a member was like for whom a beat had nothing to do: no generator, under one, and heard by this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Calm {
    server: String,
    rank: u8,
    /// Who had the crown, and since which epoch.
    crowned: (NodeId, u64),
}

impl Calm {
    fn of(engine: &RedisEngine, beat: &Beat, crowned: &(NodeId, u64)) -> Self {
        Self {
            server: engine.control.server_or(&beat.server),
            rank: rank(beat),
            crowned: crowned.clone(),
        }
    }

    /// Whether nothing about the node and its server has changed.
    fn is_as(&self, engine: &RedisEngine, beat: &Beat) -> bool {
        *self == Self::of(engine, beat, &self.crowned)
    }
}

pub(super) async fn beat(engine: &RedisEngine, beat: &Beat) -> Result<Renewed> {
    engine.control.keep_signs().await?;
    // An error leaves nothing behind: then a whole beat is to find out how things stand.
    let last = calm(engine).remove(&beat.node);
    let is_calm = |last: &Calm| beat.gone.is_empty() && beat.claims == 0 && last.is_as(engine, beat);
    let renewed = match last.filter(is_calm) {
        Some(last) => renew(engine, beat, &last).await?,
        None => None,
    };
    let renewed = match renewed {
        Some(member) => Renewed::Alive(member),
        None => whole_beat(engine, beat).await?,
    };
    match &renewed {
        Renewed::Alive(member) => {
            // While something is cancelled, a whole beat tells what.
            if !member.generator && member.crown_in_ms > 0 && member.cancels.is_empty() {
                let crowned = (member.crowned.clone(), member.epoch);
                calm(engine).insert(beat.node.clone(), Calm::of(engine, beat, &crowned));
            }
            if let Some(signs) = engine.control.signs().filter(|_| member.heir)
                && signs.hear_the_crown()
            {
                engine.control.keep_signs().await?;
            }
        }
        Renewed::Deposed => watching::hide(engine, &beat.node).await,
    }
    Ok(renewed)
}

fn calm(engine: &RedisEngine) -> MutexGuard<'_, BTreeMap<NodeId, Calm>> {
    engine.calm.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 0: it is not to be crowned.
fn rank(beat: &Beat) -> u8 {
    if beat.eligible { beat.rank } else { 0 }
}

/// Renews a lease. None: there is more to do, or it is a lease no more.
async fn renew(engine: &RedisEngine, beat: &Beat, last: &Calm) -> Result<Option<Member>> {
    let keys = &engine.keys;
    let run = engine.control.run(&engine.scripts.renew, |cmd| {
        cmd.keys([&keys.meta, &keys.nodes, &keys.unheard])
            .arg(&beat.node)
            .arg(beat.lease_ms);
    });
    let Some(told) = Option::<Vec<u8>>::decode(run.await?)? else {
        return Ok(None);
    };
    let told = String::from_utf8_lossy(&told);
    let told: Vec<&str> = told.split('\n').collect();
    // What someone else has written there, a whole beat tells.
    let [
        clock,
        wall_ms,
        paused,
        crown,
        seq,
        made,
        epoch,
        heirs,
        chosen,
        server,
        due,
        crowned,
    ] = told[..]
    else {
        return Ok(None);
    };
    let numbers = [clock, wall_ms, paused, crown, seq, made, epoch, due].map(|text| text.parse::<u64>().ok());
    let [
        Some(clock),
        Some(wall_ms),
        Some(paused),
        Some(crown),
        Some(seq),
        Some(made),
        Some(epoch),
        Some(due),
    ] = numbers
    else {
        return Ok(None);
    };
    let before = heirs.split(' ').position(|heir| heir == beat.node);
    let heir = before.is_some();
    let heirs_stay = if last.rank == 0 {
        !heir
    } else {
        heir || heirs.split_whitespace().count() >= HEIRS_MAX
    };
    let seen = &beat.seen;
    let is_behind = seq < seen.seq || made < seen.made || epoch < seen.epoch;
    // A claim may be made again under the same epoch, by the same process as another member.
    let is_crowned_anew = (crowned, epoch) != (last.crowned.0.as_str(), last.crowned.1);
    // The call may have made the connection anew.
    let is_heard = server == last.server && last.is_as(engine, beat);
    // A whole beat tells what is cancelled.
    let are_cancelled = paused >= CANCELS_BIT;
    if crown <= clock || are_cancelled || is_behind || is_crowned_anew || !chosen.is_empty() || !heirs_stay || !is_heard
    {
        return Ok(None);
    }
    Ok(Some(Member {
        generator: false,
        epoch,
        seq,
        made,
        grain: 0,
        due_in_ms: if heir { due.saturating_sub(clock) } else { 0 },
        crown_in_ms: crown - clock,
        heir,
        before: before.unwrap_or(0) as u64,
        crowned: last.crowned.0.clone(),
        wall_ms,
        victim: None,
        cursor: None,
        made_before: None,
        paused: Paused::of_bits(paused),
        more_due: false,
        rewound: None,
        damaged: None,
        cancels: Cancels::default(),
        wrong: None,
        resharded: None,
    }))
}

async fn whole_beat(engine: &RedisEngine, beat: &Beat) -> Result<Renewed> {
    let keys = &engine.keys;
    let (typed, kinds): (Vec<&String>, Vec<&str>) = keys.typed().into_iter().unzip();
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
            .arg(rank(beat))
            .arg(beat.seen.seq)
            .arg(beat.seen.epoch)
            .arg(beat.seen.made)
            .arg(engine.control.server_or(&beat.server))
            .arg(beat.reigned)
            .arg(beat.replays.map_or(String::new(), |below| below.to_string()))
            .arg(watching::suspect(engine, &beat.gone))
            .arg(keys.alive())
            .arg(beat.claims)
            .arg(keys.names.line())
            .arg(&kinds);
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
            before,
            crowned,
            wall_ms,
            victim,
            more_due,
            rewound,
            paused,
            cursor,
            made_before,
            damaged,
            cancels,
            wrong,
            resharded,
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
            &keys.damaged,
            &keys.lines,
            &keys.ready,
            &keys.turns,
            &keys.groups,
            &keys.asked,
            &keys.endings,
        ])
        .arg(&reap.victim)
        .arg(watching::channel_of(engine, reap));
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
    run.await?;
    watching::hide(engine, node).await;
    Ok(())
}

pub(super) async fn listen(engine: &RedisEngine, wake: Wake, at_most: Duration) -> Result<bool> {
    match wake {
        Wake::Bell => engine.at_the_bell().await.pop(&engine.keys.bell, at_most).await,
        Wake::Crown => match watching::hear_the_crown(engine, at_most).await {
            Some(rung) => Ok(rung),
            None => engine.crown.pop(&engine.keys.crown, at_most).await,
        },
    }
}

impl RedisEngine {
    /// Where to wait for the bell.
    pub(super) async fn at_the_bell(&self) -> &Link {
        if self.exchange.can_wait() {
            // What was needed while no wait could be ended there is not needed any more.
            self.bell.close().await;
            &self.exchange
        } else {
            &self.bell
        }
    }
}
