//! The call of a lane: what is finished goes in, what comes next comes out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Cmd;

use super::bodies::{Bodies, Joined};
use super::keys::Keys;
use super::reply::{Decode, Reply};
use super::settles;
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::{Chained, Exchange, Exchanged, NodeId, Settle, Ticket};
use crate::error::{Error, Refusal, Result};
use crate::message::{Effect, Outcome, Pack};

pub(super) async fn exchange(engine: &RedisEngine, exchange: &Exchange) -> Result<Exchanged> {
    let (exchanged, ticket) = exchange_ahead(engine, exchange).await?;
    engine.keep(ticket).await?;
    Ok(exchanged)
}

/// The same, and replicas may not have it yet.
pub(super) async fn exchange_ahead(engine: &RedisEngine, exchange: &Exchange) -> Result<(Exchanged, Option<Ticket>)> {
    let exchange = engine.unreadable.with(exchange);
    match try_exchange(engine, &exchange).await {
        // A cluster says so before anything is written, and of the whole call: so what caused it is taken out.
        Err(Error::Refused {
            refusal: Refusal::Slot, ..
        }) => {
            let outside = |key: &str| {
                let hint = "is outside the queue's slot of the cluster; a name that ends in";
                (!engine.keys.shares_slot(key)).then(|| format!("{hint} {} is inside", engine.keys.tag()))
            };
            settle_without(engine, &exchange, outside).await
        }
        // The same for keys that the user has no right to.
        Err(
            error @ Error::Refused {
                refusal: Refusal::Key, ..
            },
        ) => {
            let forbidden = forbidden(engine, &exchange).await?;
            if forbidden.is_empty() {
                return Err(error);
            }
            let why = |key: &str| {
                forbidden
                    .contains(key)
                    .then(|| "is outside the rights of this user".into())
            };
            settle_without(engine, &exchange, why).await
        }
        answer => answer,
    }
}

/// Which keys of effects the user has no right to. A script that does nothing is refused as one that does something is.
async fn forbidden(engine: &RedisEngine, exchange: &Exchange) -> Result<BTreeSet<String>> {
    let runs = exchange.settles.iter().flat_map(|settle| &settle.runs);
    let effects = runs.filter_map(|run| match &run.outcome {
        Outcome::Done(effects) => Some(effects),
        _ => None,
    });
    let keys: BTreeSet<&str> = effects.flatten().filter_map(Effect::key).collect();
    let mut forbidden = BTreeSet::new();
    for key in keys {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg("return 1").arg(1).arg(key);
        match engine.exchange.query(&cmd).await {
            Ok(_) => {}
            Err(Error::Refused {
                refusal: Refusal::Key, ..
            }) => _ = forbidden.insert(key.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(forbidden)
}

/// The call with what has a forbidden key settled as an error.
async fn settle_without(
    engine: &RedisEngine,
    exchange: &Exchange,
    why: impl Fn(&str) -> Option<String>,
) -> Result<(Exchanged, Option<Ticket>)> {
    let (without, refused_here) = without(exchange, why);
    let (answer, ticket) = try_exchange(engine, &without).await?;
    let answer = match answer {
        Exchanged::Ok {
            packs,
            refused,
            chained,
            wait_ms,
            cancelled,
        } => Exchanged::Ok {
            packs,
            refused: [refused, refused_here].concat(),
            chained,
            wait_ms,
            cancelled,
        },
        answer => answer,
    };
    Ok((answer, ticket))
}

/// The call is sent together with the wait: the server makes it in the moment in which the bell rings, where a call after
/// the ring would cost another round trip.
pub(super) async fn await_work(engine: &RedisEngine, call: &Exchange, at_most: Duration) -> Result<Exchanged> {
    let with = engine.unreadable.with(call);
    if !with.settles.is_empty() {
        return exchange(engine, call).await;
    }
    let arguments = arguments(engine, &with);
    let (link, script) = (engine.at_the_bell().await, &engine.scripts.exchange);
    let waiting = link.pop_then_run(&engine.keys.bell, at_most, script, arguments);
    if let Some(answer) = waiting.await?
        && let Some(answer) = exchanged(engine, &with, answer).await?
    {
        return Ok(answer);
    }
    exchange(engine, call).await
}

async fn try_exchange(engine: &RedisEngine, exchange: &Exchange) -> Result<(Exchanged, Option<Ticket>)> {
    let (link, script) = (&engine.exchange, &engine.scripts.exchange);
    for _ in 0..LOOKS_MAX {
        let arguments = arguments(engine, exchange);
        let (answer, ticket) = if exchange.settles.is_empty() {
            // What is only taken may be lost with the server: then it is there still.
            (link.run(script, arguments).await?, None)
        } else {
            link.run_marked(None, script, arguments).await?
        };
        if let Some(exchanged) = exchanged(engine, exchange, answer).await? {
            return Ok((exchanged, ticket));
        }
    }
    Err(engine.restless())
}

/// None: there are groups, or outcomes that are asked for, and the call must be made again with their keys.
async fn exchanged(engine: &RedisEngine, exchange: &Exchange, answer: redis::Value) -> Result<Option<Exchanged>> {
    // One pack came, and nothing was refused: a list around it would cost the server more than the take itself.
    if let redis::Value::BulkString(pack) = answer {
        return taken(
            engine,
            exchange,
            (vec![pack], None),
            Vec::new(),
            Chained::default(),
            (None, Vec::new()),
        )
        .await
        .map(Some);
    }
    let mut reply = Reply::decode(answer)?;
    let mut how = reply.next::<String>()?;
    let (mut wait_ms, mut cancelled) = (None, Vec::new());
    if how == "cancelled" {
        cancelled = reply.next()?;
        reply = reply.next()?;
        how = reply.next()?;
    }
    if how == "limited" {
        wait_ms = Some(reply.next()?);
        reply = reply.next()?;
        how = reply.next()?;
    }
    let answer = match how.as_str() {
        how @ ("ok" | "chained") => {
            let refused = reply.next::<Reply>()?.pairs()?;
            let packs = reply.next()?;
            let chained = if how == "chained" {
                reply.next()?
            } else {
                Chained::default()
            };
            let bodies = reply.next_if_any()?;
            return taken(
                engine,
                exchange,
                (packs, bodies),
                refused,
                chained,
                (wait_ms, cancelled),
            )
            .await
            .map(Some);
        }
        "groups" => {
            engine.groups.seen();
            return Ok(None);
        }
        "asked" => {
            engine.asked.seen();
            return Ok(None);
        }
        "unheard" => return Ok(Some(Exchanged::Unheard)),
        "deposed" => Exchanged::Deposed,
        "stale" => Exchanged::Stale,
        "unheld" => Exchanged::Unheld,
        other => return Err(super::unknown(other)),
    };
    engine.unreadable.forget(&exchange.node);
    Ok(Some(answer))
}

/// Whether calls are made with the keys of groups, or of outcomes that are asked for. A call that needs them and lacks them changes nothing, says so, and is
/// made again.
#[derive(Default)]
pub(super) struct Met(AtomicU32);

/// So many calls after the last one that met such a message, they are made without.
const CALLS_AFTER_IT: u32 = 64;

impl Met {
    fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn seen(&self) {
        self.0.store(CALLS_AFTER_IT, Ordering::Relaxed);
    }

    /// What a call brought, and whether a pack is such a message.
    fn came(&self, packs: &[Pack], is_one: fn(&Pack) -> bool) {
        if packs.iter().any(is_one) {
            self.seen();
        } else if self.are_there() {
            let fewer = |calls: u32| Some(calls.saturating_sub(1));
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        }
    }
}

/// What a call brought, with the bytes that are stored separately.
async fn taken(
    engine: &RedisEngine,
    exchange: &Exchange,
    (packs, bodies): (Vec<Vec<u8>>, Option<Bodies>),
    refused: Vec<(u64, String)>,
    chained: Chained,
    (wait_ms, cancelled): (Option<u64>, Vec<u64>),
) -> Result<Exchanged> {
    engine.unreadable.settled(exchange);
    let Joined { packs, unreadable } = engine.joined(&engine.exchange, packs, bodies).await?;
    engine.unreadable.add(&exchange.node, unreadable);
    engine.groups.came(&packs, Pack::is_enveloped);
    engine.asked.came(&packs, Pack::is_asked);
    Ok(Exchanged::Ok {
        packs,
        refused,
        chained,
        wait_ms,
        cancelled,
    })
}

/// What a node took and nobody can read, since someone has changed it in the store. The lane never hears of it: its next call
/// settles it as an error.
#[derive(Default)]
pub(super) struct Unreadable {
    any: AtomicBool,
    settles: Mutex<Vec<Lost>>,
}

struct Lost {
    node: NodeId,
    settle: Settle,
    /// The lane and the number of the call that settles it: no other may.
    sent: Option<(u32, u64)>,
}

impl Unreadable {
    fn with<'a>(&self, exchange: &'a Exchange) -> Cow<'a, Exchange> {
        if !self.any.load(Ordering::Relaxed) {
            return Cow::Borrowed(exchange);
        }
        let mut exchange = exchange.clone();
        let call = (exchange.lane, exchange.call);
        for lost in self.settles().iter_mut().filter(|lost| lost.node == exchange.node) {
            if *lost.sent.get_or_insert(call) == call {
                exchange.settles.push(lost.settle.clone());
            }
        }
        Cow::Owned(exchange)
    }

    fn add(&self, node: &NodeId, unreadable: Vec<Settle>) {
        if !unreadable.is_empty() {
            let mut all = self.settles();
            for settle in unreadable {
                all.retain(|lost| lost.node != *node || lost.settle.piece != settle.piece);
                all.push(Lost {
                    node: node.clone(),
                    settle,
                    sent: None,
                });
            }
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// A call was answered.
    fn settled(&self, exchange: &Exchange) {
        let named = |piece| exchange.settles.iter().any(|settle| settle.piece == piece);
        self.retain(|node, settle| *node != exchange.node || !named(settle.piece));
    }

    /// What the node held goes to others.
    fn forget(&self, node: &NodeId) {
        self.retain(|of, _| of != node);
    }

    fn retain(&self, keeps: impl Fn(&NodeId, &Settle) -> bool) {
        if self.any.load(Ordering::Relaxed) {
            let mut all = self.settles();
            all.retain(|lost| keeps(&lost.node, &lost.settle));
            self.any.store(!all.is_empty(), Ordering::Relaxed);
        }
    }

    fn settles(&self) -> MutexGuard<'_, Vec<Lost>> {
        self.settles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an exchange is called with.
fn arguments<'a>(engine: &'a RedisEngine, exchange: &'a Exchange) -> impl Fn(&mut Cmd) + 'a {
    let (mut settles, effect_keys) = settles::encode(&exchange.settles);
    let (groups, asked) = (engine.groups.are_there(), engine.asked.are_there());
    if (groups || asked) && settles.is_empty() {
        // An empty list, so that the script does not take its shortest path.
        settles = vec![0x90];
    }
    // It may be another one each time that the call is sent.
    let server =
        (!settles.is_empty() && exchange.publishes()).then_some(|| engine.exchange.server_or(&exchange.server));
    let bodies = engine.brings_bodies();
    let taken = engine.keys.taken(&exchange.node);
    move |cmd| {
        let server = server.map(|server| server());
        put(
            &engine.keys,
            exchange,
            &taken,
            (bodies, groups, asked),
            (&settles, &effect_keys),
            server,
            cmd,
        );
    }
}

fn put(
    keys: &Keys,
    exchange: &Exchange,
    taken: &str,
    (bodies, groups, asked): (bool, bool, bool),
    (settles, effect_keys): (&[u8], &[&str]),
    server: Option<String>,
    cmd: &mut Cmd,
) {
    let (nodes, unheard) = (&keys.nodes, &keys.unheard);
    let of_asked = if asked { &[&keys.asked, &keys.endings][..] } else { &[] };
    let keys = [
        &keys.meta,
        &keys.queue,
        taken,
        &keys.bodies,
        &keys.bell,
        &keys.again,
        &keys.damaged,
        &keys.errors,
        &keys.records,
        &keys.later,
        &keys.lines,
        &keys.ready,
        &keys.turns,
        &keys.groups,
        &keys.resting,
    ];
    // Three are for what is settled otherwise than as done, and the last five for groups.
    let keys = match (groups, settles.is_empty()) {
        (true, _) => &keys[..],
        (false, true) => &keys[..7],
        (false, false) => &keys[..10],
    };
    let more = if server.is_some() { 2 } else { 0 };
    cmd.arg(keys.len() + of_asked.len() + effect_keys.len() + more)
        .arg(keys)
        .arg(of_asked)
        .arg(effect_keys);
    if server.is_some() {
        cmd.arg(nodes).arg(unheard);
    }
    cmd.arg(&exchange.node).arg(exchange.lane).arg(exchange.call);
    match server {
        Some(server) => {
            let mut settles = settles.to_vec();
            settles::publishing(&mut settles, exchange.backlog_max, &server);
            if asked {
                settles::asked(&mut settles, true);
            }
            cmd.arg(settles);
        }
        None if asked => {
            let mut settles = settles.to_vec();
            settles::asked(&mut settles, false);
            cmd.arg(settles);
        }
        None => _ = cmd.arg(settles),
    }
    cmd.arg(exchange.want)
        .arg(u8::from(exchange.woken) + 2 * u8::from(bodies) + 4 * u8::from(groups))
        .arg(exchange.want_bytes);
    for (piece, count) in exchange.settles.iter().filter_map(settles::plain) {
        cmd.arg(piece).arg(count);
    }
}

/// An exchange as bytes: for measuring what its making costs.
#[cfg(feature = "cli")]
pub(crate) fn exchange_bytes(keys: &Keys, exchange: &Exchange) -> Vec<u8> {
    let mut cmd = redis::cmd("EVALSHA");
    let (settles, effect_keys) = settles::encode(&exchange.settles);
    let taken = keys.taken(&exchange.node);
    put(
        keys,
        exchange,
        &taken,
        (false, false, false),
        (&settles, &effect_keys),
        None,
        &mut cmd,
    );
    cmd.get_packed_command()
}

/// The same call with outcomes that the server lets one step write, and what became an error for that.
fn without(exchange: &Exchange, why: impl Fn(&str) -> Option<String>) -> (Exchange, Vec<(u64, String)>) {
    let (mut within, mut refused) = (exchange.clone(), Vec::new());
    for settle in &mut within.settles {
        for run in &mut settle.runs {
            let Outcome::Done(effects) = &run.outcome else { continue };
            let outside = |effect: &Effect| {
                let key = effect.key()?;
                why(key).map(|why| format!("effect refused: key {key} {why}"))
            };
            let Some(why) = effects.iter().find_map(outside) else {
                continue;
            };
            let numbers = (0..run.count).map(|index| settle.piece + u64::from(run.from + index));
            refused.extend(numbers.map(|number| (number, why.clone())));
            run.outcome = Outcome::Error(why);
        }
    }
    (within, refused)
}
