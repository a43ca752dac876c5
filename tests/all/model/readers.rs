//! Reading the errors, as `src/engine/rules/errors.rs` and `src/api/failed.rs` have it: take, print, confirm with the next
//! take. Apart from the rest, since nothing but the list of errors connects the two.

use super::explore::Model;
use super::guards::Guards;
use super::state::{Id, Lease, Set, bit};

const IDS: usize = 6;
const WIRE: usize = 3;
/// Most errors that a reader takes at a time: less than there are, so that it comes back.
const BATCH: u32 = 2;

/// How large a world to explore.
#[derive(Debug, Clone, Copy)]
pub struct Readers {
    pub processes: u8,
    /// How many errors there are, and how many of them only turn up later.
    pub errors: u8,
    pub later: u8,
    pub faults: Faults,
    pub guards: Guards,
    /// A collect names every error that it confirms, as it should, and not only the first.
    pub names_all: bool,
}

/// How many of each fault there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Faults {
    pub kills: u8,
    pub pauses: u8,
    /// Calls that are not answered, and may be carried out at any time later.
    pub unanswered: u8,
    /// Outputs that fail.
    pub closed: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    errors: Set,
    later: Set,
    readers: [Reader; IDS],
    wire: [Option<Call>; WIRE],
    faults: Faults,
    /// What was shown; what was taken back from a reader that was given up; what nobody will see again.
    printed: Set,
    excused: Set,
    gone: Set,
    twice: bool,
}

/// One id: what the store keeps under it, and the process that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Reader {
    lease: Lease,
    /// The call that filled the reader's list, and the list.
    reading: Option<(u8, Set)>,
    process: Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Process {
    life: Life,
    /// The last call that was answered, and what it gave.
    call: u8,
    batch: Set,
    /// Whether the next one was sent and not answered.
    asked: bool,
    /// The reader whose lease was seen to have ended.
    victim: Option<Id>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum Life {
    #[default]
    None,
    /// Has something to show, or nothing in hand.
    Reads,
    Printed,
    /// Its output failed: gives back what it has, and ends.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    Collect {
        reader: Id,
        call: u8,
        shown: Set,
        want: bool,
    },
    Hold {
        reader: Id,
    },
    Release {
        reader: Id,
        only_expired: bool,
    },
}

enum Answer {
    Batch(Set, Option<Id>),
    Deposed,
    Ok,
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    Answered(Id, Call),
    Unanswered(Id, Call),
    Arrives(Call),
    /// The errors of later turn up.
    Fails,
    Prints(Id),
    OutputFails(Id),
    LeaseEnds(Id),
    Killed(Id),
}

impl Readers {
    /// By what a collect names the batch that it confirms.
    fn name(&self, batch: Set) -> Set {
        if self.names_all {
            batch
        } else {
            batch & batch.wrapping_neg()
        }
    }
}

/// The store.
impl State {
    fn reader(&mut self, id: Id) -> &mut Reader {
        &mut self.readers[usize::from(id)]
    }

    fn execute(&mut self, model: &Readers, call: Call) -> Answer {
        let guards = &model.guards;
        match call {
            Call::Collect {
                reader,
                call,
                shown,
                want,
            } => self.collect(model, reader, call, shown, want),
            Call::Hold { reader } => {
                let reader = self.reader(reader);
                if !guards.hold_member || reader.lease != Lease::None {
                    reader.lease = Lease::Runs;
                }
                Answer::Ok
            }
            Call::Release { reader, only_expired } => {
                let reader = self.reader(reader);
                if only_expired && reader.lease != Lease::Ended && guards.reader_lease {
                    return Answer::Ok;
                }
                let given_up = !only_expired || reader.lease == Lease::Ended;
                reader.lease = Lease::None;
                let (_, batch) = reader.reading.take().unwrap_or_default();
                self.errors |= batch;
                self.excused |= if given_up { batch } else { 0 };
                Answer::Ok
            }
        }
    }

    fn collect(&mut self, model: &Readers, id: Id, call: u8, shown: Set, want: bool) -> Answer {
        let found = self.reader(id).reading;
        let batch = match found {
            Some((filled_by, batch)) if filled_by == call => batch,
            _ => {
                let (filled_by, confirmed) = found.unwrap_or_default();
                if model.guards.collect_call && (filled_by + 1 != call || model.name(confirmed) != shown) {
                    return Answer::Deposed;
                }
                self.gone |= confirmed;
                let mut batch: Set = 0;
                while want && batch.count_ones() < BATCH && self.errors != 0 {
                    let first = self.errors & self.errors.wrapping_neg();
                    self.errors &= !first;
                    batch |= first;
                }
                let reader = self.reader(id);
                reader.reading = want.then_some((call, batch));
                reader.lease = if want { reader.lease } else { Lease::None };
                batch
            }
        };
        if want {
            self.reader(id).lease = Lease::Runs;
        }
        let ended = |other: &Id| *other != id && self.readers[usize::from(*other)].lease == Lease::Ended;
        Answer::Batch(batch, (0..).take(IDS).find(ended))
    }
}

/// The readers.
impl State {
    fn calls(&self, model: &Readers, id: Id, calls: &mut Vec<Call>) {
        let Process {
            life,
            call,
            batch,
            asked,
            victim,
        } = self.readers[usize::from(id)].process;
        let collect = |want| Call::Collect {
            reader: id,
            call: call + 1,
            shown: model.name(batch),
            want,
        };
        let holding = call > 0 && batch != 0;
        if holding && life != Life::None {
            calls.push(Call::Hold { reader: id });
        }
        match (life, victim) {
            (Life::None, _) => {}
            (Life::Closed, _) => calls.push(Call::Release {
                reader: id,
                only_expired: false,
            }),
            (_, Some(victim)) => calls.push(Call::Release {
                reader: victim,
                only_expired: true,
            }),
            (Life::Printed, None) => calls.push(collect(true)),
            // With nothing in hand it leaves, and comes back when there is something, or someone to take it from.
            (Life::Reads, None) if call > 0 && batch == 0 => calls.push(collect(false)),
            (Life::Reads, None) if call == 0 => {
                let ended = self.readers.iter().any(|reader| reader.lease == Lease::Ended);
                calls.extend((asked || self.errors != 0 || ended).then(|| collect(true)));
            }
            (Life::Reads, None) => {}
        }
    }

    fn heard(&mut self, id: Id, call: Call, answer: &Answer) {
        let process = &mut self.reader(id).process;
        match (call, answer) {
            (Call::Collect { want: true, .. }, Answer::Batch(batch, victim)) => {
                *process = Process {
                    life: Life::Reads,
                    call: process.call + 1,
                    batch: *batch,
                    asked: false,
                    victim: *victim,
                };
            }
            (Call::Release { only_expired: true, .. }, _) => process.victim = None,
            (Call::Collect { .. } | Call::Release { .. }, _) => self.replace(id),
            (Call::Hold { .. }, _) => {}
        }
    }

    /// The process goes on under another id, or another one is started.
    fn replace(&mut self, id: Id) {
        self.reader(id).process = Process::default();
        let named = |call: &Call, id: Id| match *call {
            Call::Collect { reader, .. } | Call::Hold { reader } | Call::Release { reader, .. } => reader == id,
        };
        let free = |id: &Id| {
            self.readers[usize::from(*id)] == Reader::default()
                && !self.wire.iter().flatten().any(|call| named(call, *id))
                && !self.readers.iter().any(|reader| reader.process.victim == Some(*id))
        };
        let id = (0..).take(IDS).find(free).expect("an id that is free");
        self.reader(id).process.life = Life::Reads;
    }
}

impl Model for Readers {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let mut state = State {
            errors: bit(self.errors - self.later) - 1,
            later: (bit(self.errors) - 1) & !(bit(self.errors - self.later) - 1),
            readers: Default::default(),
            wire: [None; WIRE],
            faults: self.faults,
            printed: 0,
            excused: 0,
            gone: 0,
            twice: false,
        };
        for reader in state.readers.iter_mut().take(usize::from(self.processes)) {
            reader.process.life = Life::Reads;
        }
        state
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let mut calls = Vec::new();
        for (id, reader) in (0..).zip(&state.readers) {
            let process = reader.process;
            let lives = process.life != Life::None;
            calls.clear();
            state.calls(self, id, &mut calls);
            steps.extend(calls.iter().map(|call| Step::Answered(id, *call)));
            if state.faults.unanswered > 0 {
                steps.extend(calls.iter().map(|call| Step::Unanswered(id, *call)));
            }
            if process.life == Life::Reads && process.batch != 0 && process.victim.is_none() {
                steps.push(Step::Prints(id));
                steps.extend((state.faults.closed > 0).then_some(Step::OutputFails(id)));
            }
            if reader.lease == Lease::Runs && (!lives || state.faults.pauses > 0) {
                steps.push(Step::LeaseEnds(id));
            }
            if lives && state.faults.kills > 0 {
                steps.push(Step::Killed(id));
            }
        }
        steps.extend((state.later != 0).then_some(Step::Fails));
        steps.extend(state.wire.iter().flatten().map(|call| Step::Arrives(*call)));
    }

    fn next(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Answered(id, call) => {
                let answer = next.execute(self, call);
                next.heard(id, call, &answer);
            }
            Step::Unanswered(id, call) => {
                next.faults.unanswered -= 1;
                let room = next.wire.iter_mut().find(|place| place.is_none());
                *room.expect("as much room as faults") = Some(call);
                match call {
                    Call::Collect { .. } => next.reader(id).process.asked = true,
                    Call::Hold { .. } => {}
                    // Whoever cannot release gives up.
                    Call::Release { .. } => next.replace(id),
                }
            }
            Step::Arrives(call) => {
                let place = next.wire.iter_mut().find(|place| **place == Some(call));
                *place.expect("what arrives was sent") = None;
                next.execute(self, call);
            }
            Step::Fails => next.errors |= std::mem::take(&mut next.later),
            Step::Prints(id) => {
                let batch = next.reader(id).process.batch;
                next.reader(id).process.life = Life::Printed;
                next.twice |= next.printed & batch & !next.excused != 0;
                next.printed |= batch;
            }
            Step::OutputFails(id) => {
                next.faults.closed -= 1;
                next.reader(id).process.life = Life::Closed;
            }
            Step::LeaseEnds(id) => {
                next.faults.pauses -= u8::from(next.reader(id).process.life != Life::None);
                next.reader(id).lease = Lease::Ended;
            }
            Step::Killed(id) => {
                next.faults.kills -= 1;
                next.replace(id);
            }
        }
        next.wire.sort_unstable();
        next
    }

    fn is_due(&self, state: &State, step: Step) -> bool {
        match step {
            Step::Answered(..) | Step::Prints(_) | Step::Fails => true,
            Step::LeaseEnds(id) => state.readers[usize::from(id)].process.life == Life::None,
            Step::Arrives(_) | Step::Unanswered(..) | Step::OutputFails(_) | Step::Killed(_) => false,
        }
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        if state.gone & !state.printed != 0 {
            return Some("an error is gone only when it was printed");
        }
        if state.twice {
            return Some("an error is printed twice only if its reader was given up");
        }
        let mut all = state.later;
        for place in state.readers.iter().map(|reader| reader.reading.unwrap_or_default().1) {
            if all & place != 0 {
                return Some("an error is in one place");
            }
            all |= place;
        }
        if all & state.errors != 0 || all | state.errors | state.gone != bit(self.errors) - 1 {
            return Some("an error is in one place");
        }
        let known = |reader: &Reader| (reader.lease != Lease::None) == reader.reading.is_some();
        (!state.readers.iter().all(known)).then_some("a reader is known with what it holds, or not at all")
    }

    fn is_settled(&self, state: &State) -> bool {
        state.gone == bit(self.errors) - 1
    }
}
