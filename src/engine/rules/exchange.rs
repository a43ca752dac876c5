//! Settling and taking.

mod effects;
mod take;

use crate::engine::limits::DELAY_MS_MAX;
use crate::engine::store::{About, Lane, Line, Store};
use crate::engine::{Exchange, Exchanged, Failed, Wake};
use crate::error::Result;
use crate::message::{Effect, Outcome, Pack};
use effects::{Known, admit};
use take::take;

pub(crate) use effects::counter;

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
    if store.guard("call-repeat") && exchange.call == lane.call {
        let mut packs = Vec::with_capacity(lane.pieces.len());
        for first in lane.pieces {
            packs.extend(store.piece(node, first)?);
        }
        return Ok(Exchanged::Ok {
            packs,
            refused: lane.refused,
        });
    }
    if store.guard("call-stale") && exchange.call < lane.call {
        return Ok(Exchanged::Stale);
    }
    if store.guard("call-ahead") && exchange.call > lane.call + 1 {
        return Ok(Exchanged::Deposed);
    }
    let mut about = store.about(node)?.unwrap_or_default();
    let before = (about.redelivered, about.suspects);
    let time_ms = store.time_ms(wall_ms);
    let Some(plan) = plan(store, time_ms, exchange, &mut about)? else {
        return Ok(Exchanged::Unheld);
    };

    for first in &plan.gone {
        store.remove_piece(node, *first)?;
    }
    for pack in &plan.kept {
        store.put_piece(node, pack)?;
    }
    for effect in plan.effects {
        store.apply(effect)?;
    }
    for failed in &plan.errors {
        store.add_failed(failed)?;
    }
    for (due_ms, pack) in &plan.later {
        store.put_off(*due_ms, pack)?;
    }
    for pack in plan.back.iter().rev() {
        store.push_front(Line::Queue, pack)?;
    }
    for pack in plan.back_again.iter().rev() {
        store.push_front(Line::Again, pack)?;
    }
    let was = (meta.again, meta.grain);
    meta.again |= !plan.back_again.is_empty();
    let paused = store.guard("paused-handlers") && meta.paused.handlers;
    let want = if paused { 0 } else { exchange.want };
    let packs = take(store, &mut meta, &mut about, u64::from(want))?;
    let mut total = 0;
    for pack in &packs {
        store.put_piece(node, pack)?;
        total += pack.count() as u64;
    }
    let (failed, off) = (plan.errors.len() as u64, plan.later.len() as u64);
    let record = Lane {
        call: exchange.call,
        done: lane.done + plan.done,
        failed: lane.failed + failed,
        held: lane.held + total.cast_signed() - (plan.done + failed + off + plan.returned).cast_signed(),
        pieces: packs.iter().map(Pack::first).collect(),
        refused: plan.refused.clone(),
    };
    store.set_lane(node, exchange.lane, &record)?;
    if (about.redelivered, about.suspects) != before {
        store.set_about(node, &about)?;
    }
    if was != (meta.again, meta.grain) {
        store.set_meta(&meta)?;
    }
    // Whoever was woken wakes the next one if work is left, also when it turned out to have no use for any itself.
    let woken = exchange.woken && !paused && (total > 0 || want == 0);
    if plan.returned > 0 || (woken && (meta.again || !store.is_empty(Line::Queue)?)) {
        store.ring(Wake::Bell)?;
    }
    Ok(Exchanged::Ok {
        packs,
        refused: plan.refused,
    })
}

/// What an exchange is going to change, worked out before anything is written.
#[derive(Default)]
struct Plan<'a> {
    /// Pieces that are settled, whole or in part, and what is left of them.
    gone: Vec<u64>,
    kept: Vec<Pack>,
    errors: Vec<Failed>,
    refused: Vec<(u64, String)>,
    /// Messages that are put off, and until when.
    later: Vec<(u64, Pack)>,
    back: Vec<Pack>,
    back_again: Vec<Pack>,
    effects: Vec<&'a Effect>,
    done: u64,
    returned: u64,
}

/// None: names something that is not held.
fn plan<'a>(
    store: &mut impl Store,
    time_ms: u64,
    exchange: &'a Exchange,
    about: &mut About,
) -> Result<Option<Plan<'a>>> {
    let mut plan = Plan::default();
    let mut known = Known::new();
    let node = &exchange.node;
    for settle in &exchange.settles {
        if store.guard("named-once") && plan.gone.contains(&settle.piece) {
            return Ok(None);
        }
        let Some(pack) = store.piece(node, settle.piece)? else {
            return Ok(None);
        };
        let (mut at, mut released) = (0, 0);
        for run in &settle.runs {
            let (from, count) = (run.from as usize, run.count as usize);
            let fits = count > 0 && from >= at && from + count <= pack.count();
            if !fits && (store.guard("runs") || count == 0 || from + count > pack.count()) {
                return Ok(None);
            }
            if from > at {
                plan.kept.push(pack.piece(at, from - at));
            }
            match &run.outcome {
                Outcome::Done(effects) => match admit(store, &mut known, effects)? {
                    None => {
                        plan.done += count as u64;
                        plan.effects.extend(effects);
                    }
                    Some(why) => {
                        let text = format!("effect refused: {why}");
                        for index in from..from + count {
                            plan.errors.push(Failed::of(&pack, index, time_ms, node, &text));
                            plan.refused.push((pack.first() + index as u64, text.clone()));
                        }
                    }
                },
                Outcome::Error(text) => {
                    let failures = (from..from + count).map(|index| Failed::of(&pack, index, time_ms, node, text));
                    plan.errors.extend(failures);
                }
                Outcome::Retry { after_ms, .. } => {
                    let due_ms = time_ms + after_ms.min(&DELAY_MS_MAX);
                    for index in from..from + count {
                        let message = pack.piece(index, 1);
                        let failed = store.guard("failures");
                        let message = if failed { message.next_failure() } else { message };
                        plan.later.push((due_ms, message));
                    }
                }
                Outcome::Return => {
                    let back = if pack.attempt() > 1 || pack.unordered() {
                        &mut plan.back_again
                    } else {
                        &mut plan.back
                    };
                    back.push(pack.piece(from, count));
                    plan.returned += count as u64;
                }
            }
            at = from + count;
            released += count as u64;
        }
        if at < pack.count() {
            plan.kept.push(pack.piece(at, pack.count() - at));
        }
        plan.gone.push(settle.piece);
        if pack.attempt() > 1 {
            about.redelivered = about.redelivered.saturating_sub(released);
        }
        if pack.attempt() > 2 {
            about.suspects = about.suspects.saturating_sub(released);
        }
    }
    Ok(Some(plan))
}
