//! The call of a lane: what is finished goes in, what comes next comes out.

use std::time::Duration;

use redis::Cmd;

use super::RedisEngine;
use super::keys::Keys;
use super::reply::{Decode, Reply};
use super::settles;
use crate::engine::{Exchange, Exchanged};
use crate::error::{Error, Refusal, Result};
use crate::message::{Effect, Outcome};

pub(super) async fn exchange(engine: &RedisEngine, exchange: &Exchange) -> Result<Exchanged> {
    match try_exchange(engine, exchange).await {
        // A cluster says so before anything is written, and of the whole call: so what caused it is taken out.
        Err(Error::Refused {
            refusal: Refusal::Slot, ..
        }) => {
            let (within, refused_here) = within_slot(&engine.keys, exchange);
            match try_exchange(engine, &within).await? {
                Exchanged::Ok { packs, refused } => Ok(Exchanged::Ok {
                    packs,
                    refused: [refused, refused_here].concat(),
                }),
                answer => Ok(answer),
            }
        }
        answer => answer,
    }
}

/// The call is sent together with the wait: the server makes it in the moment in which the bell rings, where a call after
/// the ring would cost another round trip.
pub(super) async fn await_work(engine: &RedisEngine, call: &Exchange, at_most: Duration) -> Result<Exchanged> {
    let arguments = arguments(&engine.keys, call);
    let waiting = engine
        .bell
        .pop_then_run(&engine.keys.bell, at_most, &engine.scripts.exchange, arguments);
    match waiting.await? {
        Some(answer) => exchanged(engine, answer).await,
        None => exchange(engine, call).await,
    }
}

async fn try_exchange(engine: &RedisEngine, exchange: &Exchange) -> Result<Exchanged> {
    let arguments = arguments(&engine.keys, exchange);
    let answer = engine.exchange.run(&engine.scripts.exchange, arguments).await?;
    exchanged(engine, answer).await
}

async fn exchanged(engine: &RedisEngine, answer: redis::Value) -> Result<Exchanged> {
    let mut reply = Reply::decode(answer)?;
    Ok(match reply.next::<String>()?.as_str() {
        "ok" => {
            let refused = reply.next::<Reply>()?.pairs()?;
            let packs = engine.joined(&engine.exchange, reply.next()?).await?;
            Exchanged::Ok { packs, refused }
        }
        "deposed" => Exchanged::Deposed,
        "stale" => Exchanged::Stale,
        "unheld" => Exchanged::Unheld,
        other => return Err(super::unknown(other)),
    })
}

/// What an exchange is called with.
fn arguments<'a>(keys: &'a Keys, exchange: &'a Exchange) -> impl Fn(&mut Cmd) + 'a {
    let taken = keys.taken(&exchange.node);
    let (settles, effect_keys) = settles::encode(&exchange.settles);
    move |cmd| {
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
        // The last three are for what is settled otherwise than as done.
        let keys = if settles.is_empty() { &keys[..6] } else { &keys[..] };
        cmd.arg(keys.len() + effect_keys.len())
            .arg(keys)
            .arg(&effect_keys)
            .arg(&exchange.node)
            .arg(exchange.lane)
            .arg(exchange.call)
            .arg(&settles)
            .arg(exchange.want)
            .arg(u8::from(exchange.woken))
            .arg(exchange.want_bytes);
        for (piece, count) in exchange.settles.iter().filter_map(settles::plain) {
            cmd.arg(piece).arg(count);
        }
    }
}

/// An exchange as bytes: for measuring what its making costs.
#[cfg(feature = "cli")]
pub(crate) fn exchange_bytes(keys: &Keys, exchange: &Exchange) -> Vec<u8> {
    let mut cmd = redis::cmd("EVALSHA");
    arguments(keys, exchange)(&mut cmd);
    cmd.get_packed_command()
}

/// The same call with outcomes that a cluster can write in one step, and what became an error for that.
fn within_slot(keys: &Keys, exchange: &Exchange) -> (Exchange, Vec<(u64, String)>) {
    let (mut within, mut refused) = (exchange.clone(), Vec::new());
    for settle in &mut within.settles {
        for run in &mut settle.runs {
            let Outcome::Done(effects) = &run.outcome else { continue };
            let Some(outside) = effects.iter().map(Effect::key).find(|key| !keys.shares_slot(key)) else {
                continue;
            };
            let why = format!(
                "effect refused: key {outside} is outside the queue's slot of the cluster; a name that ends in {} is inside",
                keys.tag()
            );
            let numbers = (0..run.count).map(|index| settle.piece + u64::from(run.from + index));
            refused.extend(numbers.map(|number| (number, why.clone())));
            run.outcome = Outcome::Error(why);
        }
    }
    (within, refused)
}
