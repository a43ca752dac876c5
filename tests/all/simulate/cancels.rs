//! Cancelled messages: whoever takes one is told, no handler sees it, and it is remembered no longer than until it has ended.

use std::collections::{BTreeMap, BTreeSet};

use queenright::engine::{Cancelled, CancelledGroup, Exchange, Exchanged};
use queenright::message::{CANCELLED, Outcome, Pack};

use super::checks::Place;
use super::process::Kind;
use super::world::Inner;
use crate::oracle::{Answer, Call};

/// What was cancelled, as operators were told. Goes back in time with the store.
#[derive(Debug, Clone, Default)]
pub struct Cancels {
    /// In the present life of the message; whether it had not ended then.
    numbers: BTreeMap<u64, bool>,
    /// Up to which number.
    groups: BTreeMap<String, u64>,
    /// Requeued since its group was cancelled.
    spared: BTreeMap<u64, String>,
    /// In any life.
    ever: BTreeSet<u64>,
}

impl Cancels {
    fn covers(&self, number: u64, group: Option<&str>) -> bool {
        let last = group.and_then(|group| self.groups.get(group));
        self.numbers.contains_key(&number)
            || last.is_some_and(|last| number <= *last && !self.spared.contains_key(&number))
    }

    /// Whether a message may have ended as cancelled.
    pub fn may_have_ended(&self, number: u64, group: Option<&str>) -> bool {
        let last = group.and_then(|group| self.groups.get(group));
        self.ever.contains(&number) || last.is_some_and(|last| number <= *last)
    }
}

/// What a process was told of messages in its hand.
#[derive(Debug, Default)]
pub struct Doomed {
    /// When it took them.
    taken: BTreeSet<u64>,
    /// While it was at work with them, and then they failed.
    told: BTreeSet<u64>,
}

impl Inner {
    fn is_open(&self, number: u64) -> bool {
        let place = usize::try_from(number).ok().and_then(|at| self.book.places.get(at));
        place.is_some_and(|spot| matches!(spot.place, Place::Waiting | Place::Held(_) | Place::Later(_)))
    }

    /// After every call.
    pub fn the_cancelled_are_told(&mut self, call: &Call, answer: &Answer) {
        match (call, answer) {
            (Call::Cancel(numbers), Answer::Cancelled(answers)) => {
                let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
                for (number, answer) in numbers.iter().zip(answers) {
                    let is_open = self.is_open(*number);
                    let right = match answer {
                        Cancelled::Asked => *number < seq,
                        Cancelled::Ended => !is_open,
                        Cancelled::Unpublished => *number >= seq,
                        Cancelled::TooMany => false,
                    };
                    if !right && !self.rewound {
                        self.fail(&format!("a cancel of message {number} is answered by {answer:?}"));
                    }
                    if *answer == Cancelled::Asked {
                        self.book.cancels.numbers.insert(*number, is_open);
                        self.book.cancels.ever.insert(*number);
                    }
                }
            }
            (Call::CancelGroup(group), Answer::CancelledGroup(CancelledGroup::Asked { .. })) => {
                let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
                let cancels = &mut self.book.cancels;
                if let Some(last) = seq.checked_sub(1) {
                    cancels.groups.insert(group.clone(), last);
                    cancels.spared.retain(|_, of| of != group);
                }
            }
            (Call::Requeue(_), Answer::Requeued(requeued)) => {
                for number in &requeued.numbers {
                    self.book.cancels.numbers.remove(number);
                    let in_line = self.state.lines.keys().find(|(_, other)| other == number);
                    if let Some((group, _)) = in_line {
                        self.book.cancels.spared.insert(*number, group.clone());
                    }
                }
            }
            (Call::Exchange(_), Answer::Exchanged(Exchanged::Ok { packs, cancelled, .. })) => {
                let of = |pack: &Pack| {
                    let numbers = pack.first()..pack.first() + pack.count() as u64;
                    let covered = numbers.filter(|number| self.book.cancels.covers(*number, pack.group()));
                    covered.collect::<Vec<_>>()
                };
                let expected: Vec<u64> = packs.iter().flat_map(of).collect();
                if expected != *cancelled {
                    self.fail(&format!("{expected:?} are cancelled, and told are {cancelled:?}"));
                }
            }
            _ => {}
        }
        let kept = self.state.meta.iter().flat_map(|meta| meta.cancels.numbers.keys());
        let was_open = |number: &&u64| self.book.cancels.numbers.get(number) == Some(&true);
        let left = kept.filter(was_open).find(|number| !self.is_open(**number)).copied();
        if let Some(number) = left
            && !self.rewound
        {
            self.fail(&format!(
                "message {number} has ended, and its cancel is still remembered"
            ));
        }
    }

    /// A process has got the answer to a take.
    pub fn is_told_of_the_doomed(&mut self, process: usize, packs: &[Pack], cancelled: &[u64]) {
        let doomed = &mut self.processes[process].doomed;
        for pack in packs {
            for number in pack.first()..pack.first() + pack.count() as u64 {
                doomed.taken.remove(&number);
                doomed.told.remove(&number);
            }
        }
        doomed.taken.extend(cancelled);
    }

    /// A handler begins.
    pub fn the_doomed_are_not_handled(&mut self, process: usize, number: u64) {
        if self.processes[process].doomed.taken.contains(&number) {
            self.fail(&format!(
                "message {number} is handled, and was cancelled before it was taken"
            ));
        }
    }

    /// A handler was told, and failed.
    pub fn fails_when_told(&mut self, process: usize, number: u64) {
        self.processes[process].doomed.told.insert(number);
    }

    /// A process sends outcomes.
    pub fn the_doomed_end_as_cancelled(&mut self, process: usize, exchange: &Exchange) {
        // A rogue says what it likes.
        if self.processes[process].kind == Kind::Rogue {
            return;
        }
        let mut wrong = None;
        for settle in &exchange.settles {
            for run in &settle.runs {
                let first = settle.piece + u64::from(run.from);
                let is_right = match &run.outcome {
                    Outcome::Error(text) => text == CANCELLED,
                    Outcome::Return => true,
                    Outcome::Done(_) | Outcome::Retry { .. } => false,
                };
                let doomed = &self.processes[process].doomed;
                let mut numbers = first..first + u64::from(run.count);
                let is_doomed = |number: &u64| doomed.taken.contains(number) || doomed.told.contains(number);
                wrong = wrong.or(numbers.find(is_doomed).filter(|_| !is_right));
            }
        }
        if let Some(number) = wrong {
            self.fail(&format!("message {number} was cancelled, and gets another outcome"));
        }
    }
}
