//! What a handler does: settle some of what it holds, in some way, and take more.

use std::collections::BTreeSet;
use std::time::Duration;

use queenright::engine::{Exchange, Exchanged, Run, Settle};
use queenright::message::{Effect, Outcome, Pack};

use super::{History, LANES};
use crate::conformance::Bench;
use crate::oracle::ledger::COUNTER;
use crate::oracle::twin::{Answer, Call};

impl<B: Bench> History<B> {
    pub(super) async fn exchange(&mut self, index: usize) {
        let lane = self.rng.usize(..LANES as usize);
        let (call, repeat) = match self.nodes[index].unanswered[lane].take() {
            Some(mut call) => {
                // Once a copy wants nothing, those after it do not either.
                if self.chance(4) {
                    call.want = 0;
                }
                (call, true)
            }
            None => (self.new_exchange(index, lane), false),
        };
        let answer = self.call(Call::Exchange(call.clone())).await;
        // What is sent is out of the node's hands, whether or not the answer comes.
        if !repeat {
            self.let_go(index, &call);
        }
        if self.chance(8) {
            self.nodes[index].unanswered[lane] = Some(call);
            return;
        }
        match answer {
            Answer::Exchanged(Exchanged::Ok { packs, .. }) => {
                let node = &mut self.nodes[index];
                node.calls[lane] = call.call;
                node.held.extend(packs.into_iter().map(|pack| (pack.first(), pack)));
            }
            // Nothing was written: the same call is made again.
            Answer::Exchanged(Exchanged::Unheard) => self.nodes[index].unanswered[lane] = Some(call),
            // It cannot go on under this id.
            _ => drop(self.nodes.swap_remove(index)),
        }
    }

    fn new_exchange(&mut self, index: usize, lane: usize) -> Exchange {
        let held: Vec<Pack> = self.nodes[index].held.values().cloned().collect();
        let mut settles = Vec::new();
        for pack in &held {
            if self.rng.bool() {
                settles.push(self.settle(pack));
            }
        }
        self.rng.shuffle(&mut settles);
        match self.rng.u32(..40) {
            0 => settles.push(Settle {
                piece: self.rng.u64(..100),
                runs: vec![Run {
                    from: 0,
                    count: 1,
                    outcome: Outcome::Done(Vec::new()),
                }],
            }),
            1 => {
                if let Some(run) = settles.first_mut().and_then(|settle| settle.runs.first_mut()) {
                    run.count = self.rng.u32(..4) * 7;
                }
            }
            2 => settles.extend(settles.first().cloned()),
            _ => {}
        }
        let server = self.server();
        let (node, call) = (self.nodes[index].id.clone(), self.nodes[index].calls[lane] + 1);
        Exchange {
            node,
            lane: u32::try_from(lane).expect("few"),
            call,
            settles,
            want: self.rng.choice([0, 1, 2, 5, 30]).expect("some"),
            want_bytes: self.rng.choice([1, 100, 300, u32::MAX]).expect("some"),
            woken: self.rng.bool(),
            backlog_max: if self.chance(3) { self.rng.u64(1..30) } else { 1_000_000 },
            server,
        }
    }

    /// Some runs of a piece, perhaps not all of it.
    fn settle(&mut self, pack: &Pack) -> Settle {
        let (mut at, mut runs) = (0, Vec::new());
        let count = u32::try_from(pack.count()).expect("small");
        while at < count {
            let length = self.rng.u32(1..=count - at);
            match self.rng.u32(..9) {
                0..3 => runs.push((at, length, Outcome::Done(Vec::new()))),
                3 => runs.push((at, length, Outcome::Error(format!("error {at}")))),
                4 => runs.push((at, length, Outcome::Return)),
                7 => {
                    let error = String::from("not now");
                    let after_ms = self.rng.u64(..400);
                    runs.push((at, length, Outcome::Retry { error, after_ms }));
                }
                5..7 => {
                    let number = pack.first() + u64::from(at);
                    runs.push((at, 1, Outcome::Done(self.effects(number))));
                    at += 1;
                    continue;
                }
                _ => {}
            }
            at += length;
        }
        let run = |(from, count, outcome)| Run { from, count, outcome };
        Settle {
            piece: pack.first(),
            runs: runs.into_iter().map(run).collect(),
        }
    }

    fn effects(&mut self, number: u64) -> Vec<Effect> {
        let key = |key: &str| key.to_string();
        let value = number.to_string().into_bytes();
        let mut effects = vec![Effect::Add {
            key: key(COUNTER),
            by: 1,
        }];
        match self.rng.u32(..9) {
            0 => effects.push(Effect::Push {
                key: key("list"),
                value,
            }),
            1 => effects.push(Effect::Set {
                key: key("last"),
                value,
            }),
            2 => effects.push(Effect::SetField {
                key: key("hash"),
                field: number.to_string(),
                value,
            }),
            3 => effects.push(Effect::Push {
                key: key("last"),
                value,
            }),
            4 => effects.push(Effect::Add {
                key: key("hash"),
                by: -1,
            }),
            5 => effects.push(Effect::Add {
                key: key("big"),
                by: self.rng.i64(..) / 512,
            }),
            6 => effects.push(Effect::Set {
                key: key("big"),
                value: if self.rng.bool() { value } else { b"-0".to_vec() },
            }),
            7 => effects.push(Effect::Push {
                key: key("{qr:bench}:queue"),
                value,
            }),
            _ => {}
        }
        if self.chance(3) {
            effects.push(Effect::result(format!("of {number}")));
        }
        // The next one of a chain, or a few; few enough for chains to come to an end.
        if self.chance(3) {
            for next in 0..self.rng.u32(1..3) {
                let delay = Duration::from_millis(if self.chance(3) { self.rng.u64(..300) } else { 0 });
                let effect = Effect::publish_after(format!("{number} publishes {next}"), delay);
                let effect = if self.chance(4) {
                    effect.with_header("traceparent", number.to_string())
                } else {
                    effect
                };
                effects.push(if self.chance(3) {
                    effect.in_group(self.group())
                } else {
                    effect
                });
            }
        }
        effects
    }

    /// Takes what the call settles out of what the node thinks that it holds, and keeps the rest of each piece.
    pub(super) fn let_go(&mut self, index: usize, call: &Exchange) {
        let held = &mut self.nodes[index].held;
        for settle in &call.settles {
            let Some(pack) = held.remove(&settle.piece) else {
                continue;
            };
            let mut named = BTreeSet::new();
            for run in &settle.runs {
                named.extend(run.from..run.from.saturating_add(run.count));
            }
            let mut from = None;
            for at in 0..=u32::try_from(pack.count()).expect("small") {
                let kept = (at as usize) < pack.count() && !named.contains(&at);
                match (kept, from) {
                    (true, None) => from = Some(at),
                    (false, Some(start)) => {
                        let piece = pack.piece(start as usize, (at - start) as usize);
                        held.insert(piece.first(), piece);
                        from = None;
                    }
                    _ => {}
                }
            }
        }
    }
}
