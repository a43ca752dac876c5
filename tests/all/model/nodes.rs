//! What processes do: the calls that each may send, and what it makes of the answer.

use super::promises::Promise;
use super::protocol::Protocol;
use super::state::{Call, IDS, Id, Lapse, Life, Outcome, Process, Reign, Said, Seen, State, bit};
use super::store::Answer;

/// A message whose handler answers now this, now that; the handlers of all others have done their work.
const FICKLE: u8 = 0;

impl State {
    /// Every call that the process with this id may send now.
    pub fn calls(&self, model: &Protocol, node: Id, calls: &mut Vec<Call>) {
        let process = self.nodes[usize::from(node)].process;
        let seen = process.seen;
        match process.life {
            Life::None => {}
            Life::Joining => calls.push(Call::Join { node, seen }),
            Life::Refused | Life::Stopping => calls.push(Call::Leave { node }),
            Life::Member => {
                calls.push(Call::Beat { node, seen });
                let goes_on = |reign: &Reign| reign.seq < model.messages && process.has_room();
                let publish = |reign, again| Call::Publish { node, reign, again };
                calls.extend(process.reign.filter(goes_on).map(|reign| publish(reign, false)));
                calls.extend(self.replay(node).map(|reign| publish(reign, true)));
                let victims = (0..).take(IDS).filter(|id| process.victims & 1 << id != 0);
                calls.extend(victims.map(|victim| Call::Reap { node, victim }));
                let call = process.call + 1;
                let exchange = |said| Call::Exchange { node, call, said };
                calls.extend(self.says(model, node).into_iter().flatten().map(exchange));
            }
        }
    }

    /// What a lane may say: the same as before until that was answered; then what is finished, or that it has time.
    fn says(&self, model: &Protocol, node: Id) -> [Option<Said>; 3] {
        let process = &self.nodes[usize::from(node)].process;
        if process.unanswered.is_some() {
            return [process.unanswered, None, None];
        }
        let want = process.reign.is_none();
        if process.holds == 0 {
            let asks = want && self.meta.queue | self.meta.again != 0;
            // A lane speaks now and then with nothing to say; here only where that tells it something.
            let lane = self.nodes[usize::from(node)].record.lane;
            let learns = model.guards.silent_lane && lane.is_some_and(|lane| lane.call < process.call);
            return [(asks || learns).then_some(Said { settle: None, want }), None, None];
        }
        let number = u8::try_from(process.holds.trailing_zeros()).expect("below eight");
        let says = |outcome| {
            let settle = Some((number, outcome));
            Some(Said { settle, want })
        };
        [
            says(Outcome::Done),
            says(Outcome::Error).filter(|_| number == FICKLE),
            says(Outcome::Return).filter(|_| self.faults.returns > 0),
        ]
    }

    /// The call was sent.
    pub fn sent(&mut self, node: Id, call: Call) {
        let process = &mut self.nodes[usize::from(node)].process;
        match call {
            Call::Exchange { said, .. } if process.unanswered.is_none() => {
                process.unanswered = Some(said);
                let returned = said.settle.is_some_and(|(_, outcome)| outcome == Outcome::Return);
                self.faults.returns -= u8::from(returned);
            }
            // Whoever is still to be given up is named again.
            Call::Reap { .. } => process.victims = 0,
            // Nobody waits for long to be let go.
            Call::Leave { .. } => {
                let keeps = (process.life == Life::Refused).then(|| process.without_membership());
                self.replace(node, keeps.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// The call was answered.
    pub fn heard(&mut self, model: &Protocol, node: Id, call: Call, answer: Answer) {
        let process = &mut self.nodes[usize::from(node)].process;
        match (call, answer) {
            (Call::Join { .. }, _) => process.life = Life::Member,
            (Call::Beat { .. }, Answer::Alive { reign, seen, victims }) => {
                process.seen = Seen {
                    // With replicas, a generator has seen what they have: the rest it can publish again.
                    seq: if model.replicas && reign.is_some() {
                        process.seen.seq
                    } else {
                        process.seen.seq.max(seen.seq)
                    },
                    epoch: process.seen.epoch.max(seen.epoch),
                };
                process.victims = victims;
                // What was told of a reign at its beginning is out of date; its progress is known better here.
                let same = |new: &Reign| process.reign.is_some_and(|old| old.epoch == new.epoch);
                if !reign.as_ref().is_some_and(same) {
                    process.reign = reign;
                }
            }
            (Call::Beat { .. }, Answer::Deposed) => {
                let keeps = process.without_membership();
                self.replace(node, keeps);
            }
            (Call::Publish { again: true, reign, .. }, Answer::Published { .. }) => self.witness_own(reign),
            (Call::Publish { again: true, reign, .. }, Answer::Moved { seq }) => {
                // A store that went back twice may lack the numbers before it, which were passed over in between.
                if reign.seq < seq {
                    self.breaks(Promise::Replayed);
                }
                self.gives_up(node);
            }
            (Call::Publish { reign, .. }, Answer::Published { seq, made }) => {
                if model.replicas {
                    process.waits_to_tell(reign, seq);
                } else {
                    process.seen.seq = process.seen.seq.max(seq);
                }
                process.reign = Some(Reign {
                    seq: seq.max(reign.seq),
                    made,
                    ..reign
                });
                self.witness_own(reign);
            }
            (Call::Publish { reign, .. }, Answer::Moved { seq }) => process.reign = Some(Reign { seq, ..reign }),
            (Call::Exchange { said, .. }, Answer::Given(given)) => {
                process.call += 1;
                process.unanswered = None;
                process.holds &= !said.settle.map_or(0, |(number, _)| bit(number));
                process.holds |= given;
                let past = u8::try_from(8 - given.leading_zeros()).expect("at most eight");
                process.seen.seq = process.seen.seq.max(past);
                if let Some(taken) = past.checked_sub(1) {
                    process.seen.epoch = process.seen.epoch.max(self.meta.epochs[usize::from(taken)]);
                }
            }
            (Call::Exchange { .. }, Answer::Deposed | Answer::Unheld) => {
                let explained = process.lapse != Lapse::None || self.witness.rewound;
                *process = Process {
                    life: Life::Refused,
                    ..process.without_membership()
                };
                if !explained {
                    self.breaks(Promise::Explained);
                }
            }
            _ => {}
        }
    }

    /// The process with this id ends; another one, or the same under another id, is about to join.
    pub fn replace(&mut self, node: Id, keeps: Process) {
        self.nodes[usize::from(node)].process = Process::default();
        self.start(keeps, Some(node));
    }

    /// A process under an id that means nothing to anyone, and is not the one just given up.
    pub fn start(&mut self, keeps: Process, but: Option<Id>) {
        let free = |id: &Id| Some(*id) != but && self.is_free(*id);
        let id = (0..).take(IDS).find(free).expect("an id that is free");
        self.nodes[usize::from(id)].process = Process {
            life: Life::Joining,
            ..keeps
        };
    }

    /// Whether an id means nothing to anyone.
    pub fn is_free(&self, id: Id) -> bool {
        let named = |call: &Call| call.names().contains(&id);
        self.nodes[usize::from(id)].is_nobody()
            && !self.wire.iter().flatten().any(named)
            && !self.nodes.iter().any(|node| node.process.victims & 1 << id != 0)
            && self.meta.generator != Some(id)
            && self.saved.is_none_or(|saved| saved.generator != Some(id))
    }
}
