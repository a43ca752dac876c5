//! An exchange: settles what is finished, takes what comes next, and remembers its answer for a repeat of the call.

mod chain;
mod effects;
mod settle;
mod take;

use super::cancel::{among, settled};
use super::clock::hive;
use super::limit::{Limited, is_shut};
use super::membership::awaits_members;
use crate::engine::store::{Lane, Line, Store};
use crate::engine::{Exchange, Exchanged, Run, Settle, Wake};
use crate::error::Result;
use crate::message::{Outcome, Pack};
use settle::Plan;
use take::take;

pub(crate) use effects::counter;
pub(super) use take::Take;

/// Settles what is finished and takes what comes next.
pub fn exchange(store: &mut impl Store, wall_ms: u64, exchange: &Exchange) -> Result<Exchanged> {
    let node = &exchange.node;
    let Some(mut meta) = store.meta()? else {
        return Ok(Exchanged::Deposed);
    };
    let lane = match store.lane(node, exchange.lane)? {
        Some(lane) => lane,
        None if store.guard("lane-record") => return Ok(Exchanged::Deposed),
        None => Lane {
            call: exchange.call.saturating_sub(1),
            ..Lane::default()
        },
    };
    let mut given_back = None;
    if store.guard("call-repeat") && exchange.call == lane.call {
        let packs = still_held(store, node, &lane.pieces)?;
        let unarrived = exchange.want == 0 && !packs.is_empty();
        if !(unarrived && store.guard("unarrived")) {
            return Ok(Exchanged::Ok {
                cancelled: among(store, &meta.cancels, &packs),
                packs,
                refused: lane.refused,
                chained: lane.chained,
                // What the limit said then says nothing now: the next call asks it again.
                wait_ms: meta.limit.map(|_| 0),
            });
        }
        given_back = Some(giving_back(exchange, &packs));
    }
    let exchange = given_back.as_ref().unwrap_or(exchange);
    let is_new = given_back.is_none();
    if store.guard("call-stale") && exchange.call < lane.call {
        return Ok(Exchanged::Stale);
    }
    if store.guard("call-ahead") && exchange.call > lane.call + 1 {
        return Ok(Exchanged::Deposed);
    }
    let mut about = store.about(node)?.unwrap_or_default();
    let before = (about.suspects, about.alone);
    let time_ms = store.time_ms(wall_ms);
    let Some(plan) = Plan::of(store, &meta, time_ms, exchange, &mut about)? else {
        return Ok(Exchanged::Unheld);
    };
    if !plan.chain.told.links.is_empty() {
        let waits = awaits_members(store, &mut meta, wall_ms, &exchange.server)?;
        store.set_meta(&meta)?;
        if waits && store.guard("chain-unheard") {
            return Ok(Exchanged::Unheard);
        }
    }

    let readied = plan.write(store, node)?;
    let (chains, lines) = plan.chain.write(store, &mut meta)?;
    let was = (meta.again, meta.grain, meta.clearing, meta.limit);
    meta.again |= !plan.back_again.is_empty();
    let paused = store.guard("paused-handlers") && meta.paused.handlers;
    let want = if paused { 0 } else { exchange.want };
    let clock = hive(store, &meta, wall_ms);
    let cancels_changed = settled(store, &mut meta, clock, &plan.over, &plan.put_off());
    let mut limited = Limited::look(store, &meta, wall_ms, u64::from(want), plan.returned)?;
    // Whoever finds the queue full makes room in it. What is tried again for lack of room comes first otherwise, each time in vain.
    let makes_room = !plan.chain.told.crowded.is_empty() && store.guard("chain-turn");
    let wanted = (&mut limited, exchange.want_bytes);
    let packs = take(store, &mut meta, (node, &mut about), clock, wanted, makes_room)?;
    let mut taken = 0;
    for pack in &packs {
        store.put_piece(node, pack)?;
        taken += pack.count() as u64;
    }
    let wait_ms = limited.end(store, &mut meta, taken)?;
    let (refused, chained) = if is_new {
        (plan.refused.clone(), plan.chain.told.clone())
    } else {
        (lane.refused, lane.chained)
    };
    let record = Lane {
        call: exchange.call,
        done: lane.done + plan.done,
        failed: lane.failed + plan.errors.len() as u64,
        held: lane.held + taken.cast_signed() - plan.released().cast_signed(),
        pieces: packs.iter().map(Pack::first).collect(),
        refused: refused.clone(),
        chained: chained.clone(),
    };
    store.set_lane(node, exchange.lane, &record)?;
    if (about.suspects, about.alone) != before {
        store.set_about(node, &about)?;
    }
    if cancels_changed || was != (meta.again, meta.grain, meta.clearing, meta.limit) {
        store.set_meta(&meta)?;
    }
    // A handler that the bell woke wakes the next one if work is left, also when it takes nothing itself.
    let passes_on = exchange.woken && !paused && (taken > 0 || want == 0);
    let groups_wait = (passes_on || readied || lines) && store.ready_count()? > 0;
    // A group that may go on, and that this node left to others, wakes one of them.
    let waits = groups_wait || meta.again && passes_on || (passes_on || chains) && !store.is_empty(Line::Queue)?;
    if (plan.returned > 0 || waits) && !is_shut(store, &meta, wall_ms) {
        store.ring(Wake::Bell)?;
    }
    Ok(Exchanged::Ok {
        cancelled: among(store, &meta.cancels, &packs),
        packs,
        refused,
        chained,
        wait_ms,
    })
}

/// Of the pieces that a call took, those that are in hand still.
fn still_held(store: &mut impl Store, node: &str, pieces: &[u64]) -> Result<Vec<Pack>> {
    let mut packs = Vec::with_capacity(pieces.len());
    for first in pieces {
        packs.extend(store.piece(node, *first)?);
    }
    Ok(packs)
}

/// What the call took and its node never got: an exchange that returns it, in the place of the call that was made.
fn giving_back(exchange: &Exchange, packs: &[Pack]) -> Exchange {
    let settles = packs.iter().map(|pack| Settle {
        piece: pack.first(),
        runs: vec![Run {
            from: 0,
            count: u32::try_from(pack.count()).expect("at most a thousand"),
            outcome: Outcome::Return,
        }],
    });
    Exchange {
        settles: settles.collect(),
        ..exchange.clone()
    }
}
