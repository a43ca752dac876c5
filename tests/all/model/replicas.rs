//! What `--replicas` adds: a publish is told when the replica has it, and is published again if a failover took it back.
//! As `src/node/kept.rs` has it for the process, and `leaves_hole` and `fills` of `src/engine/rules` for the store.
//!
//! The replica is what was saved. It gets nothing more, until the store goes back to it or it has caught up with all.
//!
//! What holds: what was told stays, whoever dies. What was not told stays as well while the generator that published it lives and
//! reigns: it puts the same message under the same number. If it died, or another reign began, the message is gone, and its
//! number is given again unless someone who has seen it beats first, as without replicas.

use super::guards::Guards;
use super::protocol::{Protocol, Step};
use super::state::{Id, LINE, Life, Meta, Process, Reign, Seen, State, Untold, bit};

/// The store.
impl State {
    /// While a generator reigns that has kept what the store lacks, nothing is raised: numbers go on behind what was seen, and
    /// the generator may fill those between. `by` is the member that beats, and none if a node joins.
    pub fn leaves_hole(&mut self, model: &Protocol, by: Option<Id>, seen: Seen) -> bool {
        let meta = &mut self.meta;
        let other = meta.generator.is_some() && meta.generator != by;
        let reigns = other && meta.crown && seen.epoch <= meta.epoch;
        if !(reigns && model.replicas) && model.guards.replays {
            return false;
        }
        if seen.seq > meta.seq {
            let open = meta.hole.filter(|(_, to)| *to == meta.seq);
            meta.hole = Some((open.map_or(meta.seq, |(from, _)| from), seen.seq));
            for number in meta.seq..seen.seq {
                meta.skipped |= bit(number);
            }
            meta.seq = seen.seq;
        }
        true
    }

    /// Whether a message comes back to its number.
    pub fn fills(&self, guards: &Guards, reign: Reign, again: bool) -> bool {
        let is_there = |(from, to): (u8, u8)| (from..to).contains(&reign.seq) && reign.seq != self.meta.seq;
        self.meta.hole.is_some_and(is_there) && guards.fills && (again || !guards.fills_again)
    }

    /// A message was published, in the hole or behind it.
    pub fn leaves_less_of_hole(&mut self, model: &Protocol, reign: Reign, fills: bool) {
        let meta = &mut self.meta;
        if model.replicas {
            meta.marks[usize::from(reign.seq)] = reign.mark();
        }
        if let Some((_, to)) = meta.hole {
            let next = reign.seq + 1;
            let hole = (fills && next < to).then_some((next, to));
            if fills {
                meta.skipped &= !bit(reign.seq);
            }
            if hole.is_none() || model.guards.filled {
                meta.hole = hole;
            }
        }
    }
}

/// The processes.
impl State {
    /// What the process with this id publishes again: the oldest that it has not told, if the store lacks it.
    pub fn replay(&self, node: Id) -> Option<Reign> {
        let process = &self.nodes[usize::from(node)].process;
        let untold = process.untold[0].filter(|untold| !has(&self.meta, *untold))?;
        process.may_replay(untold).then_some(untold.reign)
    }

    /// What may become of the oldest that it has not told.
    pub fn fate(&self, node: Id) -> Option<Step> {
        let process = &self.nodes[usize::from(node)].process;
        let untold = process.untold[0]?;
        if has(&self.meta, untold) {
            let kept = self.saved.is_none_or(|replica| has(&replica, untold));
            return kept.then_some(Step::Told(node));
        }
        (!process.may_replay(untold)).then_some(Step::GivenUp(node))
    }

    pub fn tells(&mut self, node: Id) {
        let process = &mut self.nodes[usize::from(node)].process;
        if let Some(Untold { reign, behind, .. }) = process.next_untold() {
            process.seen.seq = process.seen.seq.max(behind);
            self.witness.told_of[usize::from(reign.seq)] = reign.mark();
        }
    }

    /// Nobody publishes it again, and the store takes nothing that builds on it: another reign must begin.
    pub fn gives_up(&mut self, node: Id) {
        let process = &mut self.nodes[usize::from(node)].process;
        if process.next_untold().is_some_and(|untold| untold.own) {
            *process = Process {
                life: Life::Refused,
                ..process.without_membership()
            };
        }
    }
}

impl Process {
    pub fn has_room(&self) -> bool {
        self.untold[LINE - 1].is_none()
    }

    /// What it published is told when replicas have it.
    pub fn waits_to_tell(&mut self, reign: Reign, behind: u8) {
        let place = self.untold.iter_mut().find(|place| place.is_none());
        *place.expect("nothing is published while the line is full") = Some(Untold {
            reign,
            behind,
            own: true,
        });
    }

    fn next_untold(&mut self) -> Option<Untold> {
        self.untold.rotate_left(1);
        self.untold[LINE - 1].take()
    }

    /// Only the reign that published it may publish it again.
    fn may_replay(&self, untold: Untold) -> bool {
        let reigns = self.reign.is_some_and(|reign| reign.epoch == untold.reign.epoch);
        self.life == Life::Member && untold.own && reigns
    }

    /// What is left of it when its membership is gone.
    pub fn without_membership(&self) -> Self {
        let disowned = |untold: Untold| Untold { own: false, ..untold };
        Self {
            seen: self.seen,
            untold: self.untold.map(|untold| untold.map(disowned)),
            ..Self::default()
        }
    }
}

/// Whether a store has this message under its number.
fn has(meta: &Meta, untold: Untold) -> bool {
    meta.marks[usize::from(untold.reign.seq)] == untold.reign.mark()
}
