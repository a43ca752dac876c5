//! Settling and taking.

use std::collections::BTreeMap;

use super::{Lane, Meta, State, Stored, Taken};
use crate::engine::{Exchange, Exchanged, TAKE_BYTES_MAX, TAKE_PACKS_MAX};
use crate::message::{Effect, Outcome, Pack};

/// Counters stay where a double counts exactly.
const COUNTER_MAX: i64 = (1 << 53) - 1;

/// What an exchange is going to change, worked out before anything is written.
#[derive(Default)]
struct Plan {
    taken: Taken,
    /// What is left of pieces that were settled in part.
    kept: Vec<Pack>,
    errors: Vec<(Pack, usize, String)>,
    refused: Vec<(u64, String)>,
    back: Vec<Pack>,
    back_again: Vec<Pack>,
    /// What the keys of effects will hold.
    stored: BTreeMap<String, Stored>,
    done: u64,
    failed: u64,
    returned: u64,
}

impl State {
    pub fn exchange(&mut self, wall_ms: u64, exchange: &Exchange) -> Exchanged {
        let mut taken = self.taken.get(&exchange.node).cloned().unwrap_or_default();
        let Some(mut meta) = self.meta.clone() else {
            return Exchanged::Deposed;
        };
        let lane = match taken.lanes.get(&exchange.lane) {
            Some(lane) => lane.clone(),
            None if self.guard("lane-record") => return Exchanged::Deposed,
            None => Lane {
                call: exchange.call.saturating_sub(1),
                ..Lane::default()
            },
        };
        if self.guard("call-repeat") && exchange.call == lane.call {
            return Exchanged::Ok {
                packs: lane
                    .pieces
                    .iter()
                    .filter_map(|first| taken.pieces.get(first).cloned())
                    .collect(),
                refused: lane.refused,
            };
        }
        if self.guard("call-stale") && exchange.call < lane.call {
            return Exchanged::Stale;
        }
        if self.guard("call-ahead") && exchange.call > lane.call + 1 {
            return Exchanged::Deposed;
        }
        let Some(mut plan) = self.plan(&mut taken, exchange) else {
            return Exchanged::Unheld;
        };

        self.stored.append(&mut plan.stored);
        for (pack, index, text) in plan.errors {
            self.fail(&pack, index, wall_ms, &exchange.node, text);
        }
        for pack in plan.back.into_iter().rev() {
            self.queue.push_front(pack);
        }
        meta.again |= !plan.back_again.is_empty();
        for pack in plan.back_again.into_iter().rev() {
            self.again.push_front(pack);
        }
        let mut taken = plan.taken;
        let packs = self.take(&mut meta, &mut taken, u64::from(exchange.want));
        let total: u64 = packs.iter().map(|pack| pack.count() as u64).sum();
        taken.lanes.insert(
            exchange.lane,
            Lane {
                call: exchange.call,
                done: lane.done + plan.done,
                failed: lane.failed + plan.failed,
                held: lane.held + total.cast_signed() - (plan.done + plan.failed + plan.returned).cast_signed(),
                pieces: packs.iter().map(Pack::first).collect(),
                refused: plan.refused.clone(),
            },
        );
        let left = meta.again || !self.queue.is_empty();
        let woken = exchange.woken && (total > 0 || exchange.want == 0);
        if plan.returned > 0 || (woken && left) {
            self.bell = true;
        }
        self.taken.insert(exchange.node.clone(), taken);
        self.meta = Some(meta);
        Exchanged::Ok {
            packs,
            refused: plan.refused,
        }
    }

    /// None: names something that is not held.
    fn plan(&self, taken: &mut Taken, exchange: &Exchange) -> Option<Plan> {
        let mut plan = Plan {
            taken: std::mem::take(taken),
            ..Plan::default()
        };
        for settle in &exchange.settles {
            let pack = plan.taken.pieces.remove(&settle.piece)?;
            let (mut at, mut released) = (0, 0);
            for run in &settle.runs {
                let (from, count) = (run.from as usize, run.count as usize);
                if self.guard("runs") && (count < 1 || from < at || from + count > pack.count()) {
                    return None;
                }
                if from > at {
                    plan.kept.push(pack.piece(at, from - at));
                }
                match &run.outcome {
                    Outcome::Done(effects) if !effects.is_empty() => match self.admit(&mut plan, effects) {
                        Ok(()) => plan.done += count as u64,
                        Err(why) => {
                            let text = format!("effect refused: {why}");
                            for index in from..from + count {
                                plan.refused.push((pack.first() + index as u64, text.clone()));
                                plan.errors.push((pack.clone(), index, text.clone()));
                            }
                            plan.failed += count as u64;
                        }
                    },
                    Outcome::Done(_) => plan.done += count as u64,
                    Outcome::Error(text) => {
                        plan.errors
                            .extend((from..from + count).map(|index| (pack.clone(), index, text.clone())));
                        plan.failed += count as u64;
                    }
                    Outcome::Return => {
                        let piece = pack.piece(from, count);
                        if pack.attempt() > 1 {
                            plan.back_again.push(piece);
                        } else {
                            plan.back.push(piece);
                        }
                        plan.returned += count as u64;
                    }
                }
                at = from + count;
                released += count as u64;
            }
            if at < pack.count() {
                plan.kept.push(pack.piece(at, pack.count() - at));
            }
            if pack.attempt() > 1 {
                plan.taken.worn.0 -= released;
            }
            if pack.attempt() > 2 {
                plan.taken.worn.1 -= released;
            }
        }
        let kept = std::mem::take(&mut plan.kept);
        plan.taken
            .pieces
            .extend(kept.into_iter().map(|pack| (pack.first(), pack)));
        Some(plan)
    }

    /// All effects of one message, or none: what they write goes into the plan.
    fn admit(&self, plan: &mut Plan, effects: &[Effect]) -> Result<(), String> {
        let own = format!("{{qr:{}}}:", self.queue_name);
        let mut trial: BTreeMap<String, Stored> = BTreeMap::new();
        for effect in effects {
            let key = effect.key();
            if self.guard("effect-own") && key.starts_with(&own) {
                return Err(format!("key {key} belongs to the queue"));
            }
            let held = trial
                .get(key)
                .or_else(|| plan.stored.get(key))
                .or_else(|| self.stored.get(key));
            let check = self.guard("effect-type");
            let wrong = |held: &Stored, wanted: &str| format!("key {key} holds a {}, not a {wanted}", held.kind());
            let new = match (effect, held) {
                (Effect::Set { value, .. }, None | Some(Stored::Value(_))) => Stored::Value(value.clone()),
                (Effect::Set { value, .. }, Some(_)) if !check => Stored::Value(value.clone()),
                (Effect::Set { .. }, Some(held)) => return Err(wrong(held, "value")),
                (Effect::Add { by, .. }, held) => {
                    let old = match held {
                        Some(Stored::Value(text)) => match counter(text) {
                            None if self.guard("effect-number") => {
                                return Err(format!("key {key} holds no whole number"));
                            }
                            old => old.unwrap_or(0),
                        },
                        Some(held) if check => return Err(wrong(held, "value")),
                        _ => 0,
                    };
                    let new = old.saturating_add(*by);
                    if by.saturating_abs() > COUNTER_MAX || new.abs() > COUNTER_MAX {
                        return Err(format!("key {key} would leave 2^53"));
                    }
                    Stored::Value(new.to_string().into_bytes())
                }
                (Effect::SetField { field, value, .. }, held) => {
                    let mut hash = match held {
                        Some(Stored::Hash(hash)) => hash.clone(),
                        Some(held) if check => return Err(wrong(held, "hash")),
                        _ => BTreeMap::new(),
                    };
                    hash.insert(field.clone(), value.clone());
                    Stored::Hash(hash)
                }
                (Effect::Push { value, .. }, held) => {
                    let mut list = match held {
                        Some(Stored::List(list)) => list.clone(),
                        Some(held) if check => return Err(wrong(held, "list")),
                        _ => Vec::new(),
                    };
                    list.push(value.clone());
                    Stored::List(list)
                }
            };
            trial.insert(key.to_string(), new);
        }
        plan.stored.append(&mut trial);
        Ok(())
    }

    /// What was delivered before first, one message of it; then the queue.
    fn take(&mut self, meta: &mut Meta, taken: &mut Taken, want: u64) -> Vec<Pack> {
        let mut take = Take {
            packs: Vec::new(),
            total: 0,
            bytes: 0,
        };
        if want > 0 && meta.again {
            if let Some(pack) = self.again.pop_front() {
                let calm = taken.worn.0 == 0 || (pack.attempt() < 3 && taken.worn.1 == 0);
                let count = if self.guard("again-one") { 1 } else { pack.count() };
                if calm || !self.guard("worn") {
                    if pack.count() > count {
                        self.again.push_front(pack.piece(count, pack.count() - count));
                    }
                    take.add(taken, pack.piece(0, count));
                } else {
                    self.again.push_front(pack);
                }
            } else {
                meta.again = false;
            }
        }
        let mut pop = 8;
        while take.total < want && take.bytes < TAKE_BYTES_MAX && take.packs.len() < TAKE_PACKS_MAX {
            let expected = (want - take.total).div_ceil(meta.grain).max(1);
            let popped: Vec<Pack> = (0..expected.min(pop)).map_while(|_| self.queue.pop_front()).collect();
            if popped.is_empty() {
                break;
            }
            let mut left = Vec::new();
            for pack in popped {
                let (count, room) = (pack.count(), usize::try_from(want - take.total).unwrap_or(0));
                if room == 0 || take.bytes >= TAKE_BYTES_MAX {
                    left.push(pack);
                } else if count <= room {
                    take.add(taken, pack);
                } else {
                    take.add(taken, pack.piece(0, room));
                    // A pack far larger than its taker is broken into eight, so that the next takers copy less.
                    let rest = count - room;
                    let share = if rest > 8 * room { rest.div_ceil(8) } else { rest };
                    for from in (room..count).step_by(share) {
                        left.push(pack.piece(from, share.min(count - from)));
                    }
                }
            }
            let stop = !left.is_empty();
            for pack in left.into_iter().rev() {
                self.queue.push_front(pack);
            }
            if stop {
                break;
            }
            pop *= 2;
        }
        if want > 0 {
            meta.grain = if want < meta.grain {
                meta.grain - (meta.grain - want).div_ceil(8)
            } else {
                meta.grain + (want - meta.grain).div_ceil(8)
            };
        }
        take.packs
    }
}

/// What a take has so far.
struct Take {
    packs: Vec<Pack>,
    total: u64,
    bytes: usize,
}

impl Take {
    fn add(&mut self, taken: &mut Taken, pack: Pack) {
        let count = pack.count() as u64;
        self.total += count;
        self.bytes += pack.bytes().len();
        if pack.attempt() > 1 {
            taken.worn.0 += count;
        }
        if pack.attempt() > 2 {
            taken.worn.1 += count;
        }
        taken.pieces.insert(pack.first(), pack.clone());
        self.packs.push(pack);
    }
}

impl Stored {
    fn kind(&self) -> &'static str {
        match self {
            Self::Value(_) => "value",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
        }
    }
}

/// A counter as a store would write it: no sign, zero or space too many.
fn counter(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.abs() <= COUNTER_MAX && value.to_string().as_bytes() == text).then_some(value)
}
