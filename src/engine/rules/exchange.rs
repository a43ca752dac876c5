//! Settling and taking.

use std::collections::BTreeMap;

use super::failure;
use crate::engine::store::{About, Kind, Lane, Line, Meta, Store};
use crate::engine::{
    DELAY_MS_MAX, Exchange, Exchanged, Failed, GRAIN_START, TAKE_BYTES_MAX, TAKE_CUT_BYTES, TAKE_PACKS_MAX,
    TAKE_POP_START, TAKE_SHARES, Wake, take_cut, take_is_enough,
};
use crate::error::Result;
use crate::message::{Effect, Outcome, Pack};

/// Counters stay where a double counts exactly.
const COUNTER_MAX: i64 = (1 << 53) - 1;

pub(super) fn exchange<S: Store + ?Sized>(store: &mut S, wall_ms: u64, exchange: &Exchange) -> Result<Exchanged> {
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
fn plan<'a, S: Store + ?Sized>(
    store: &mut S,
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
                            plan.errors.push(failure(&pack, index, time_ms, node, &text));
                            plan.refused.push((pack.first() + index as u64, text.clone()));
                        }
                    }
                },
                Outcome::Error(text) => {
                    let failures = (from..from + count).map(|index| failure(&pack, index, time_ms, node, text));
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

/// What the keys of effects hold, or will hold once the effects admitted so far are applied.
type Known = BTreeMap<String, (Kind, Option<Vec<u8>>)>;

/// All effects of one message, or none. Some: why they are refused.
fn admit<S: Store + ?Sized>(store: &mut S, known: &mut Known, effects: &[Effect]) -> Result<Option<String>> {
    let own = format!("{{qr:{}}}:", store.queue_name());
    let mut trial = Known::new();
    for effect in effects {
        let key = effect.key();
        if store.guard("effect-own") && key.starts_with(&own) {
            return Ok(Some(format!("key {key} belongs to the queue")));
        }
        let held = match trial.get(key).or_else(|| known.get(key)) {
            Some(held) => Some(held.clone()),
            None => store.stored(key)?,
        };
        let kind = effect.kind();
        if let Some((found, _)) = &held
            && *found != kind
            && store.guard("effect-type")
        {
            let (found, kind) = (found.shown(), kind.shown());
            return Ok(Some(format!("key {key} holds a {found}, not a {kind}")));
        }
        let value = match effect {
            Effect::Add { by, .. } => {
                let text = held.and_then(|(_, value)| value).unwrap_or_else(|| b"0".to_vec());
                let old = match counter(&text) {
                    None if store.guard("effect-number") => {
                        return Ok(Some(format!("key {key} holds no whole number")));
                    }
                    old => old.unwrap_or(0),
                };
                let new = old.saturating_add(*by);
                if by.saturating_abs() > COUNTER_MAX || new.saturating_abs() > COUNTER_MAX {
                    return Ok(Some(format!("key {key} would leave 2^53")));
                }
                Some(new.to_string().into_bytes())
            }
            Effect::Set { value, .. } => Some(value.clone()),
            Effect::SetField { .. } | Effect::Push { .. } => None,
        };
        trial.insert(key.to_string(), (kind, value));
    }
    known.append(&mut trial);
    Ok(None)
}

impl Effect {
    /// What its key must hold.
    fn kind(&self) -> Kind {
        match self {
            Self::Add { .. } | Self::Set { .. } => Kind::Value,
            Self::SetField { .. } => Kind::Hash,
            Self::Push { .. } => Kind::List,
        }
    }
}

impl Kind {
    fn shown(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Hash => "hash",
            Self::List => "list",
        }
    }
}

/// A counter as a store would write it: no sign, zero or space too many.
pub(crate) fn counter(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.saturating_abs() <= COUNTER_MAX && value.to_string().as_bytes() == text).then_some(value)
}

/// What waits to be taken again first; then the queue.
fn take<S: Store + ?Sized>(store: &mut S, meta: &mut Meta, about: &mut About, want: u64) -> Result<Vec<Pack>> {
    let mut take = Take::default();
    if want > 0 && meta.again {
        take_again(store, meta, about, want, &mut take)?;
    }
    let mut pop = TAKE_POP_START;
    while take.total < want && take.bytes < TAKE_BYTES_MAX && take.packs.len() < TAKE_PACKS_MAX {
        // To cut a pack copies it. Whoever has nearly all that it wants needs no more. Whoever has much leaves a pack that does
        // not fit, or would not if it is like the others.
        let much = take.bytes >= TAKE_CUT_BYTES;
        if take_is_enough(take.total, want) || much && (want - take.total) * (take.packs.len() as u64) < take.total {
            break;
        }
        let expected = (want - take.total).div_ceil(meta.grain).max(1);
        let mut popped = Vec::new();
        while (popped.len() as u64) < expected.min(pop) {
            let Some(pack) = store.pop(Line::Queue)? else { break };
            popped.push(pack);
        }
        if popped.is_empty() {
            break;
        }
        let mut left = Vec::new();
        for pack in popped {
            let (count, room) = (pack.count(), usize::try_from(want - take.total).unwrap_or(0));
            let cut = usize::try_from(take_cut(take.total, want)).unwrap_or(0);
            let leaves = count > room && (cut == 0 || take.bytes >= TAKE_CUT_BYTES);
            if room == 0 || take.bytes >= TAKE_BYTES_MAX || leaves || !left.is_empty() {
                left.push(pack);
            } else if count <= room {
                take.add(about, pack);
            } else {
                take.add(about, pack.piece(0, cut));
                // A pack far larger than its taker is broken into eight, so that the next takers copy less.
                let rest = count - cut;
                let shares = usize::try_from(TAKE_SHARES).expect("a few");
                let share = if rest > shares * cut {
                    rest.div_ceil(shares)
                } else {
                    rest
                };
                for from in (cut..count).step_by(share) {
                    left.push(pack.piece(from, share.min(count - from)));
                }
            }
        }
        for pack in left.iter().rev() {
            store.push_front(Line::Queue, pack)?;
        }
        if !left.is_empty() {
            break;
        }
        pop = pop.saturating_mul(2);
    }
    if want > 0 {
        let want = want.min(GRAIN_START);
        meta.grain = if want < meta.grain {
            meta.grain - (meta.grain - want).div_ceil(TAKE_SHARES)
        } else {
            meta.grain + (want - meta.grain).div_ceil(TAKE_SHARES)
        };
    }
    Ok(take.packs)
}

/// Of what was delivered before, one message a call. What was only put off comes as it stands, up to the first of those.
fn take_again<S: Store + ?Sized>(
    store: &mut S,
    meta: &mut Meta,
    about: &mut About,
    want: u64,
    take: &mut Take,
) -> Result<()> {
    while take.total < want && take.bytes < TAKE_BYTES_MAX && take.packs.len() < TAKE_PACKS_MAX {
        let Some(pack) = store.pop(Line::Again)? else {
            meta.again = false;
            return Ok(());
        };
        let (count, redelivered) = (pack.count(), pack.attempt() > 1);
        let room = usize::try_from(want - take.total).unwrap_or(count);
        let calm = !redelivered || about.redelivered == 0 || (pack.attempt() < 3 && about.suspects == 0);
        if !calm && store.guard("alone") {
            return store.push_front(Line::Again, &pack);
        }
        let part = if redelivered && store.guard("again-one") {
            1
        } else {
            count.min(room)
        };
        if count > part {
            store.push_front(Line::Again, &pack.piece(part, count - part))?;
        }
        take.add(about, pack.piece(0, part));
        if redelivered {
            return Ok(());
        }
    }
    Ok(())
}

/// What a take has so far.
#[derive(Default)]
struct Take {
    packs: Vec<Pack>,
    total: u64,
    bytes: usize,
}

impl Take {
    fn add(&mut self, about: &mut About, pack: Pack) {
        let count = pack.count() as u64;
        self.total += count;
        self.bytes += pack.bytes().len();
        if pack.attempt() > 1 {
            about.redelivered += count;
        }
        if pack.attempt() > 2 {
            about.suspects += count;
        }
        self.packs.push(pack);
    }
}
