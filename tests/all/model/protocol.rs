//! What can happen: the steps from one state of the world to the next.

use super::alike::alike;
use super::explore::Model;
use super::guards::Guards;
use super::state::{Call, Faults, Id, Lapse, Lease, Life, Meta, Process, Record, State, WIRE, Witness};

/// How large a world to explore, and what is left of the protocol in it.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    pub nodes: u8,
    pub messages: u8,
    pub deliveries_max: u8,
    pub faults: Faults,
    pub guards: Guards,
    /// A publish is told when the replica has it: what the store will be if it goes back.
    pub replicas: bool,
    /// Hold it to what is not kept when the store goes back: see `Promise::NoReuseEver`.
    pub no_reuse_ever: bool,
    /// Tell states apart that go on alike.
    pub apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A call is sent, carried out and answered. Whether the answer is heard at once or later is all the same: nobody
    /// else can tell, and a node that heard late is one that acts late.
    Answered(Id, Call),
    /// A call is sent and not answered. It stays on the wire.
    Unanswered(Id, Call),
    /// What is on the wire is carried out.
    Arrives(Call),
    /// Time passes.
    LeaseEnds(Id),
    CrownEnds,
    Killed(Id),
    Stopped(Id),
    /// A publish is told, since the replica has it; or it is given up, since it was taken back and others reign.
    Told(Id),
    GivenUp(Id),
    /// The state to which the store will go back, and when it does.
    Saved,
    Rewound,
    /// The replica has all that the store has.
    CaughtUp,
}

impl Model for Protocol {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let mut state = State {
            meta: Meta::default(),
            nodes: Default::default(),
            wire: [None; WIRE],
            saved: None,
            faults: self.faults,
            witness: Witness::default(),
        };
        for _ in 0..self.nodes {
            state.start(Process::default(), None);
        }
        if self.apart { state } else { alike(state) }
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let mut calls = Vec::with_capacity(8);
        for (id, node) in (0..).zip(&state.nodes) {
            let lives = node.process.life != Life::None;
            if lives {
                calls.clear();
                state.calls(self, id, &mut calls);
                steps.extend(calls.iter().map(|call| Step::Answered(id, *call)));
                if state.faults.unanswered > 0 {
                    steps.extend(calls.iter().map(|call| Step::Unanswered(id, *call)));
                }
            }
            steps.extend(state.fate(id));
            let member = node.record.lease != Lease::None;
            if node.record.lease == Lease::Runs && (!lives || state.faults.pauses > 0) {
                steps.push(Step::LeaseEnds(id));
            }
            if lives && state.faults.kills > 0 && (member || node.process.life == Life::Member) {
                steps.push(Step::Killed(id));
            }
            if state.faults.stops > 0 && node.process.life == Life::Member {
                steps.push(Step::Stopped(id));
            }
        }
        steps.extend(state.wire.iter().flatten().map(|call| Step::Arrives(*call)));
        if state.meta.crown && (!lives(state) || state.faults.pauses > 0) {
            steps.push(Step::CrownEnds);
        }
        if state.saved.is_some() {
            steps.push(Step::Rewound);
            steps.extend(self.replicas.then_some(Step::CaughtUp));
        } else if state.faults.rewinds > 0 {
            steps.push(Step::Saved);
        }
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Answered(id, call) => {
                let answer = next.execute(self, call);
                next.sent(id, call);
                next.heard(self, id, call, answer);
            }
            Step::Unanswered(id, call) => {
                next.faults.unanswered -= 1;
                next.sent(id, call);
                let room = next.wire.iter_mut().find(|place| place.is_none());
                *room.expect("as much room as faults") = Some(call);
            }
            Step::Arrives(call) => {
                let place = next.wire.iter_mut().find(|place| **place == Some(call));
                *place.expect("what arrives was sent") = None;
                next.execute(self, call);
            }
            Step::LeaseEnds(id) => {
                let node = &mut next.nodes[usize::from(id)];
                node.record.lease = Lease::Ended;
                if node.process.life != Life::None {
                    next.faults.pauses -= 1;
                    node.process.lapse = node.process.lapse.max(Lapse::Silent);
                }
            }
            Step::CrownEnds => {
                next.faults.pauses -= u8::from(lives(&next));
                next.meta.crown = false;
            }
            Step::Killed(id) => {
                next.faults.kills -= 1;
                next.replace(id, Process::default());
            }
            Step::Stopped(id) => {
                next.faults.stops -= 1;
                let process = &mut next.nodes[usize::from(id)].process;
                *process = Process {
                    life: Life::Stopping,
                    ..Process::default()
                };
            }
            Step::Told(id) => next.tells(id),
            Step::GivenUp(id) => next.gives_up(id),
            Step::Saved => {
                next.faults.rewinds -= 1;
                next.saved = Some(next.meta);
                for node in &mut next.nodes {
                    node.saved = node.record;
                }
            }
            Step::CaughtUp => {
                next.saved = None;
                next.nodes.iter_mut().for_each(|node| node.saved = Record::default());
            }
            Step::Rewound => {
                next.meta = next.saved.take().expect("saved before");
                for node in &mut next.nodes {
                    node.record = std::mem::take(&mut node.saved);
                }
                // The connections end with the server that forgot; those who were not answered say it again.
                next.wire = [None; WIRE];
                next.witness.rewound = true;
                next.witness.told = next.meta.hole.map_or(0, |(_, to)| to);
            }
        }
        next.witness_told();
        if self.apart { next } else { alike(next) }
    }

    fn is_due(&self, state: &State, step: Step) -> bool {
        match step {
            Step::Answered(..) | Step::Told(_) | Step::GivenUp(_) | Step::CaughtUp => true,
            Step::LeaseEnds(id) => state.nodes[usize::from(id)].process.life == Life::None,
            Step::CrownEnds => !lives(state),
            // What is on the wire may as well be lost, and nobody may depend on it.
            Step::Arrives(_)
            | Step::Unanswered(..)
            | Step::Killed(_)
            | Step::Stopped(_)
            | Step::Saved
            | Step::Rewound => false,
        }
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        state.broken(self.deliveries_max, self.no_reuse_ever)
    }

    fn is_settled(&self, state: &State) -> bool {
        let meta = &state.meta;
        let all = meta.done | meta.failed | meta.skipped;
        meta.seq == self.messages && all.count_ones() == u32::from(self.messages)
    }
}

/// Whether the generator that the store knows is a process that lives.
fn lives(state: &State) -> bool {
    let process = |id: Id| state.nodes[usize::from(id)].process;
    state.meta.generator.is_some_and(|id| process(id).life == Life::Member)
}
