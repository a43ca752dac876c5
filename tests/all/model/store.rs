//! The verbs, as `src/engine/rules.rs` has them, with one message to a pack and without a clock.

use super::guards::Guards;
use super::promises::Promise;
use super::protocol::Protocol;
use super::state::{Call, Id, Lane, Lapse, Lease, Node, Outcome, Record, Reign, Said, Seen, Set, State, bit};

/// What the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Joined, left, or reaped: nothing to learn from.
    Ok,
    Deposed,
    Alive {
        reign: Option<Reign>,
        seen: Seen,
        victims: u8,
    },
    Published {
        seq: u8,
        made: u8,
    },
    Moved {
        seq: u8,
    },
    /// Fenced, a gap, or finished: the generator tries again for as long as it reigns.
    Refused,
    Given(Set),
    /// Stale, or it names what is not held.
    Unheld,
}

impl State {
    /// Carries out one call, in one step.
    pub fn execute(&mut self, model: &Protocol, call: Call) -> Answer {
        let guards = &model.guards;
        match call {
            Call::Join { node, seen } => self.join(model, node, seen),
            Call::Beat { node, seen } => self.beat(model, node, seen),
            Call::Publish { node, reign, again } => self.publish(model, node, reign, again),
            Call::Exchange { node, call, said } => self.exchange(guards, node, call, said),
            Call::Reap { victim, .. } => self.reap(guards, model.deliveries_max, victim),
            Call::Leave { node } => self.leave(guards, node),
        }
    }

    pub fn record(&mut self, node: Id) -> &mut Record {
        &mut self.nodes[usize::from(node)].record
    }

    fn join(&mut self, model: &Protocol, node: Id, seen: Seen) -> Answer {
        let guards = &model.guards;
        if self.is_behind(seen) && !self.leaves_hole(model, None, seen) && guards.rewind_join {
            self.raise(seen);
        }
        let record = self.record(node);
        let dead = guards.join_dead && record.dead;
        if !dead && record.lease == Lease::None {
            record.lease = Lease::Runs;
            record.lane = Some(Lane::default());
        }
        Answer::Ok
    }

    fn beat(&mut self, model: &Protocol, node: Id, seen: Seen) -> Answer {
        let guards = &model.guards;
        if guards.beat_member && self.record(node).lease == Lease::None {
            return Answer::Deposed;
        }
        if self.is_behind(seen) && !self.leaves_hole(model, Some(node), seen) && guards.rewind_beat {
            self.raise(seen);
        }
        self.record(node).lease = Lease::Runs;
        let lapse = &mut self.nodes[usize::from(node)].process.lapse;
        if *lapse == Lapse::Silent {
            *lapse = Lapse::None;
        }
        if self.meta.generator != Some(node) && !self.meta.crown {
            self.meta.generator = Some(node);
            self.meta.epoch += 1;
            self.witness.reigns += 1;
            self.meta.nth = self.witness.reigns;
            // What another reign has published, this one cannot publish again.
            self.meta.hole = self.meta.hole.filter(|_| !guards.hole_reign);
        }
        let generates = self.meta.generator == Some(node);
        self.meta.crown |= generates;
        let meta = self.meta;
        let reign = Reign {
            epoch: meta.epoch,
            nth: meta.nth,
            seq: meta.seq,
            made: meta.made,
        };
        // The store names one: whose lease ended first, or who is first among the dead. Here it is any.
        let is_victim = |node: &Node| node.record.dead || node.record.lease == Lease::Ended;
        let victims = (0..).zip(&self.nodes).filter(|(_, node)| generates && is_victim(node));
        let victims = victims.fold(0, |victims, (id, _)| victims | 1 << id);
        Answer::Alive {
            reign: generates.then_some(reign),
            seen: Seen {
                seq: meta.seq,
                epoch: meta.epoch,
            },
            victims,
        }
    }

    fn publish(&mut self, model: &Protocol, node: Id, reign: Reign, again: bool) -> Answer {
        let (guards, meta) = (&model.guards, self.meta);
        let mine = meta.generator == Some(node) && meta.epoch == reign.epoch;
        if guards.token && !mine {
            return Answer::Refused;
        }
        if guards.crown_lease && !meta.crown {
            return Answer::Refused;
        }
        let published = |seq, made| Answer::Published { seq, made };
        if guards.made && reign.made < meta.made {
            return published(meta.seq, meta.made);
        }
        if guards.gap && reign.made != meta.made {
            return Answer::Refused;
        }
        let fills = self.fills(guards, reign, again);
        if guards.moved && reign.seq != meta.seq && !fills {
            return Answer::Moved { seq: meta.seq };
        }
        if meta.seq == model.messages && !fills {
            return Answer::Refused;
        }
        self.witness_publish(reign, mine, fills);
        self.meta.queue |= bit(reign.seq);
        self.meta.attempts[usize::from(reign.seq)] = 1;
        self.meta.newest = reign.epoch;
        self.meta.epochs[usize::from(reign.seq)] = reign.epoch;
        self.meta.seq += u8::from(!fills);
        self.meta.made = reign.made + 1;
        self.leaves_less_of_hole(model, reign, fills);
        published(self.meta.seq, self.meta.made)
    }

    fn exchange(&mut self, guards: &Guards, node: Id, call: u8, said: Said) -> Answer {
        let record = *self.record(node);
        let lane = match record.lane {
            Some(lane) => lane,
            None if guards.lane_record => return Answer::Deposed,
            None => Lane {
                call: call.saturating_sub(1),
                given: 0,
            },
        };
        if guards.call_repeat && call == lane.call {
            return Answer::Given(lane.given & record.hand);
        }
        if guards.call_stale && call < lane.call {
            return Answer::Unheld;
        }
        if guards.call_ahead && call > lane.call + 1 {
            return Answer::Deposed;
        }
        if let Some((number, outcome)) = said.settle {
            if record.hand & bit(number) == 0 {
                return Answer::Unheld;
            }
            self.record(node).hand &= !bit(number);
            self.settle(node, number, outcome);
        }
        // What was delivered before comes first; the oldest of each.
        let mut given = 0;
        if said.want {
            let meta = &mut self.meta;
            let source = if meta.again == 0 {
                &mut meta.queue
            } else {
                &mut meta.again
            };
            given = *source & source.wrapping_neg();
            *source &= !given;
        }
        let record = self.record(node);
        record.hand |= given;
        record.lane = Some(Lane { call, given });
        Answer::Given(given)
    }

    fn settle(&mut self, node: Id, number: u8, outcome: Outcome) {
        if outcome == Outcome::Return {
            let again = self.meta.attempts[usize::from(number)] > 1;
            let line = if again {
                &mut self.meta.again
            } else {
                &mut self.meta.queue
            };
            *line |= bit(number);
            return;
        }
        if self.record(node).lease == Lease::None {
            self.breaks(Promise::MembersSettle);
        }
        if (self.meta.done | self.meta.failed) & bit(number) != 0 {
            self.breaks(Promise::OneOutcome);
        }
        if outcome == Outcome::Done {
            self.meta.done |= bit(number);
            self.meta.effects[usize::from(number)] += 1;
        } else {
            self.meta.failed |= bit(number);
        }
    }

    fn reap(&mut self, guards: &Guards, deliveries_max: u8, victim: Id) -> Answer {
        let record = *self.record(victim);
        match record.lease {
            Lease::Runs if guards.reap_expired => return Answer::Ok,
            Lease::Runs | Lease::Ended => self.depose(guards, victim),
            Lease::None if record.dead => {}
            Lease::None => return Answer::Ok,
        }
        for number in (0..8).filter(|number| record.hand & bit(*number) != 0) {
            let deliveries = &mut self.meta.attempts[usize::from(number)];
            if guards.deliveries && *deliveries >= deliveries_max {
                self.meta.failed |= bit(number);
            } else {
                *deliveries += 1;
                self.meta.again |= bit(number);
            }
        }
        *self.record(victim) = Record::default();
        let lapse = &mut self.nodes[usize::from(victim)].process.lapse;
        if *lapse == Lapse::Silent {
            *lapse = Lapse::GivenUp;
        }
        Answer::Ok
    }

    fn leave(&mut self, guards: &Guards, node: Id) -> Answer {
        if self.record(node).lease != Lease::None {
            self.depose(guards, node);
            if self.record(node).hand == 0 {
                *self.record(node) = Record::default();
            }
        }
        Answer::Ok
    }

    /// Ends a membership.
    fn depose(&mut self, guards: &Guards, node: Id) {
        let record = self.record(node);
        record.lease = Lease::None;
        record.dead = true;
        if guards.depose_lanes {
            record.lane = None;
        }
        if self.meta.generator == Some(node) {
            self.free_crown();
        }
    }

    fn free_crown(&mut self) {
        self.meta.generator = None;
        self.meta.crown = false;
        self.meta.nth = 0;
    }

    fn is_behind(&mut self, seen: Seen) -> bool {
        if self.witness.rewound {
            self.witness.told = self.witness.told.max(seen.seq);
        }
        seen.seq > self.meta.seq || seen.epoch > self.meta.epoch
    }

    /// Brings a store that went back in time up to what was seen.
    fn raise(&mut self, seen: Seen) {
        for number in self.meta.seq..seen.seq {
            self.meta.skipped |= bit(number);
        }
        self.meta.seq = self.meta.seq.max(seen.seq);
        self.meta.epoch = self.meta.epoch.max(seen.epoch);
        self.free_crown();
    }
}
