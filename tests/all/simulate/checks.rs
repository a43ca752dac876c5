//! What must hold, in the words of the guarantees. The store is watched call by call, from the state that it leaves
//! behind and not from what its verbs say; the nodes are watched by what they were told.

use std::collections::BTreeMap;

use queenright::engine::{Exchange, Exchanged, Publish, Published, Pulse};
use queenright::message::Pack;

use super::process::Kind;
use super::world::Inner;
use crate::oracle::{Answer, Call};

/// How long a publish on its way is waited for when a node stops.
const LAST_PUBLISH_MS: u64 = 1000;

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Unborn,
    Waiting,
    /// In the hand of this membership.
    Held(u32),
    Done,
    Failed,
    /// A store that went back in time was raised over its number.
    Skipped,
}

/// Where a failed message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shelf {
    Errors,
    Reading(String),
    Confirmed,
}

/// What the store has done so far. Goes back in time with it.
#[derive(Debug, Clone, Default)]
pub struct Book {
    pub places: Vec<(Place, u16)>,
    pub shelves: BTreeMap<u64, Shelf>,
    last_epoch: u64,
    /// When the crown was last renewed.
    crown_beat: u64,
    /// When the queue was created.
    born: Option<u64>,
    /// How far the hive clock was ever ahead of the time that has passed, and behind where that would have led.
    lead: i64,
    lag: u64,
    reigns: BTreeMap<u64, String>,
    pub holders: BTreeMap<String, u32>,
    /// Who settled what.
    pub settlers: BTreeMap<u64, u32>,
}

/// What processes were told, and did.
#[derive(Debug, Default)]
pub struct Told {
    pub published: BTreeMap<u64, u64>,
    pub outcomes: BTreeMap<u64, bool>,
    pub shown: BTreeMap<u64, Vec<(usize, u64)>>,
    /// For the summary of a run.
    pub redelivered: u64,
    pub elections: u64,
}

/// The store right before a call.
pub struct Glance {
    pub now: u64,
    pub clock: u64,
    seq: u64,
    epoch: u64,
    crown: u64,
    old_clock: u64,
    generator: String,
    heirs: Vec<String>,
    /// The end of the lease of whom the call is about.
    pub lease: Option<u64>,
}

impl Glance {
    pub fn of(inner: &Inner, call: &Call, wall_ms: u64) -> Self {
        let lessee = match call {
            Call::Reap(reap) => inner.state.nodes.get(&reap.victim),
            Call::Release(reader, _) => inner.state.readers.get(reader),
            Call::Leave(node) => inner.state.nodes.get(node),
            _ => None,
        };
        let mut glance = Self {
            now: inner.now(),
            clock: 0,
            seq: 0,
            epoch: 0,
            crown: 0,
            old_clock: 0,
            generator: String::new(),
            heirs: Vec::new(),
            lease: lessee.copied(),
        };
        if let Some(meta) = &inner.state.meta {
            let moved = wall_ms.saturating_sub(meta.wall).min(meta.step);
            glance.clock = meta.clock + moved;
            glance.old_clock = meta.clock;
            (glance.seq, glance.epoch, glance.crown) = (meta.seq, meta.epoch, meta.crown);
            if matches!(call, Call::Beat(_) | Call::Publish(_)) {
                glance.generator.clone_from(&meta.generator);
            }
            if let Call::Beat(beat) = call
                && meta.generator != beat.node
            {
                glance.heirs.clone_from(&meta.heirs);
            }
        }
        glance
    }
}

impl Inner {
    /// After every call.
    pub fn check(&mut self, process: usize, call: &Call, answer: &Answer, before: &Glance) {
        self.the_clock_never_goes_back(before);
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        let told = match call {
            Call::Beat(beat) if matches!(answer, Answer::Pulse(Pulse::Alive(_))) => beat.seen.seq,
            Call::Join(join) => join.seen.seq,
            _ => 0,
        };
        if seq < told {
            self.fail("the store went back in time, is told so, and goes on from there");
        }
        match (call, answer) {
            (Call::Beat(beat), Answer::Pulse(pulse)) => {
                self.one_crown(process, &beat.node, pulse, before);
                self.only_join_adds_members(&beat.node);
                self.a_lost_ring_is_rung_again(pulse);
            }
            (Call::Publish(publish), Answer::Published(published)) => {
                self.only_the_crowned_publish(publish, published, before);
                self.the_backlog_keeps_its_limit(before);
                self.the_ticks_keep_the_grid(before);
            }
            (Call::Exchange(exchange), Answer::Exchanged(exchanged)) => {
                self.a_member_is_not_refused(process, exchange, exchanged);
                self.worn_messages_come_alone(&exchange.node, exchanged);
            }
            (Call::Reap(reap), Answer::Reaped(reaped)) if reaped.deposed => {
                self.nobody_calm_is_given_up(&reap.victim, before);
            }
            (Call::Leave(node), _) => self.an_orderly_stop_hands_on_nothing(process, node, before),
            _ => {}
        }
        match call {
            Call::Publish(_) | Call::Exchange(_) | Call::Reap(_) | Call::Leave(_) | Call::Join(_) => {
                self.every_message_is_in_one_place(Some(call));
            }
            _ if seq != before.seq => self.every_message_is_in_one_place(Some(call)),
            _ => {}
        }
        let reads = matches!(call, Call::Drain(_) | Call::Release(..) | Call::Hold(..));
        if reads || self.state.errors.len() != self.book.shelved() {
            self.errors_are_kept_until_they_are_shown(call, before);
        }
    }

    pub fn check_push(&mut self) {
        self.every_message_is_in_one_place(None);
    }

    fn the_clock_never_goes_back(&mut self, before: &Glance) {
        let clock = self.state.meta.as_ref().map_or(0, |meta| meta.clock);
        if self.state.meta.is_some() {
            let born = *self.book.born.get_or_insert(before.now);
            let lead = clock.cast_signed() - (before.now - born).cast_signed();
            self.book.lead = self.book.lead.max(lead);
            let lag = u64::try_from(self.book.lead - lead).unwrap_or(0);
            self.book.lag = self.book.lag.max(lag);
        }
        if clock < before.old_clock {
            self.fail("the hive clock goes back");
        }
    }

    /// An epoch has one generator, epochs only grow, and nobody takes a crown whose lease runs.
    fn one_crown(&mut self, process: usize, node: &str, pulse: &Pulse, before: &Glance) {
        let Pulse::Alive(vitals) = pulse else { return };
        if vitals.epoch < before.epoch {
            self.fail("the epoch goes back");
        }
        if !vitals.generator {
            return;
        }
        let reign = self.book.reigns.entry(vitals.epoch).or_insert_with(|| node.to_string());
        if reign != node {
            self.fail(&format!("epoch {} has two generators", vitals.epoch));
        }
        if vitals.epoch != before.epoch {
            self.told.elections += 1;
            if before.crown > before.clock && !before.generator.is_empty() && !vitals.rewound {
                self.fail("a crown is taken from its bearer");
            }
            self.a_free_crown_is_soon_taken(before);
        }
        self.book.crown_beat = before.now;
        let lease = self.plan.lease_ms();
        let reigner = &self.processes[process];
        if let Some(stopped) = reigner.stopping
            && before.now > stopped + LAST_PUBLISH_MS + lease / 4
            && reigner.is_calm(stopped)
            && self.store_trouble < stopped
            && self.accidents == 0
        {
            self.fail("a node that stops keeps the crown");
        }
    }

    /// Heirs watch closely: a crown whose bearer has died is taken right after its lease. Whoever was in trouble waits a
    /// lease from its return.
    fn a_free_crown_is_soon_taken(&mut self, before: &Glance) {
        let (lease, step) = (self.plan.lease_ms(), self.plan.settings.step_ms());
        // One that could not reach the store waits a lease before it lets itself be crowned.
        let since = before.now.saturating_sub(2 * lease + lease / 2);
        let watched = before.heirs.iter().any(|heir| {
            let process = self.members.get(heir).map(|process| &self.processes[*process]);
            process.is_some_and(|process| {
                process.works() && process.is_calm(since) && process.joined < since && process.node == *heir
            })
        });
        let since_beat = before.now - self.book.crown_beat;
        let undisturbed = self.store_trouble < since && self.accidents == 0 && !self.rewound;
        let soon = self.plan.settings.crown_ms() + 3 * step;
        if watched && undisturbed && before.crown > 0 && since_beat > soon {
            self.fail(&format!("nobody took the crown for {since_beat} ms"));
        }
    }

    /// The generator's beat rings if work waits: nobody else may.
    fn a_lost_ring_is_rung_again(&mut self, pulse: &Pulse) {
        let generator = matches!(pulse, Pulse::Alive(vitals) if vitals.generator);
        let waits = !self.state.queue.is_empty() || !self.state.again.is_empty();
        if generator && waits && !self.state.bell {
            self.fail("work waits, and the generator's beat does not ring");
        }
    }

    fn only_join_adds_members(&mut self, node: &str) {
        if self.state.nodes.contains_key(node) && !self.state.taken.contains_key(node) {
            self.fail(&format!("{node} is a member without ever having joined"));
        }
    }

    fn only_the_crowned_publish(&mut self, publish: &Publish, published: &Published, before: &Glance) {
        let process = self.members.get(&publish.node).map(|process| &self.processes[*process]);
        let call = Some((publish.epoch, publish.made, publish.first));
        let current = process.is_some_and(|process| process.last_publish == call);
        if matches!(published, Published::Gap) && current && !self.rewound {
            self.fail("a publish meets a gap although the store never went back");
        }
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        if seq == before.seq {
            return;
        }
        if before.generator != publish.node || before.epoch != publish.epoch {
            self.fail("one who is no generator publishes");
        }
        if before.crown <= before.clock {
            self.fail("a generator publishes after its lease");
        }
        if publish.first != before.seq || !matches!(published, Published::Ok { .. }) {
            self.fail("numbers have a gap or a repeat");
        }
        if publish.epoch < self.book.last_epoch {
            self.fail("epochs go down along the numbers");
        }
        self.book.last_epoch = publish.epoch;
        let process = self.members.get(&publish.node).map(|process| &self.processes[*process]);
        let anew = process.is_some_and(|process| process.last_publish == call && process.publishes_anew);
        if anew && !self.pushed {
            let number = publish.first;
            self.fail(&format!("a node gives number {number} anew, and has seen it"));
        }
    }

    fn the_backlog_keeps_its_limit(&mut self, before: &Glance) {
        let Some(meta) = &self.state.meta else { return };
        let seq = meta.seq;
        // What was given back to the head since the last look does not count.
        let head = self.state.queue.front().map_or(seq, Pack::first).max(meta.head);
        if seq != before.seq && seq - head > self.plan.settings.backlog_max {
            self.fail("more is queued than the limit");
        }
    }

    fn the_ticks_keep_the_grid(&mut self, before: &Glance) {
        let interval = self.plan.settings.interval_ms();
        let Some(meta) = self
            .state
            .meta
            .as_ref()
            .filter(|meta| interval > 0 && meta.seq != before.seq)
        else {
            return;
        };
        // Where the hive clock was held back for longer than a tick, the grid begins anew.
        let on_grid = meta.due.is_multiple_of(interval) || self.book.lag + 50 > interval;
        if !on_grid || meta.due <= before.clock || meta.due > before.clock + 2 * interval {
            let (due, clock) = (meta.due, before.clock);
            self.fail(&format!(
                "the next tick is at {due}, now it is {clock}, ticks come every {interval}"
            ));
        }
    }

    /// What a member sends in order is taken: only strangers, the deposed and old copies are refused.
    fn a_member_is_not_refused(&mut self, process: usize, exchange: &Exchange, exchanged: &Exchanged) {
        let sender = &self.processes[process];
        let current = sender.node == exchange.node && sender.last_call == exchange.call;
        let member = self.state.nodes.contains_key(&exchange.node);
        let refused = !matches!(exchanged, Exchanged::Ok { .. });
        // A late copy of a join may have brought it back, with an empty lane.
        let lane = self
            .state
            .taken
            .get(&exchange.node)
            .and_then(|taken| taken.lanes.get(&0));
        let member = member && lane.is_some_and(|lane| lane.call > 0);
        if refused && current && member && sender.kind == Kind::Node && !self.rewound {
            self.fail(&format!("a member is refused: {exchanged:?}"));
        }
    }

    /// What was delivered before comes one by one; from its third delivery on it is the only such one in its node's hand.
    fn worn_messages_come_alone(&mut self, node: &str, exchanged: &Exchanged) {
        let Exchanged::Ok { packs, .. } = exchanged else { return };
        let again: usize = packs.iter().filter(|pack| pack.attempt() > 1).map(Pack::count).sum();
        if again > 1 {
            self.fail("several redelivered messages come at once");
        }
        let Some(taken) = self.state.taken.get(node) else {
            return;
        };
        let worn = |least| {
            let pieces = taken.pieces.values().filter(move |pack| pack.attempt() >= least);
            pieces.map(Pack::count).sum::<usize>()
        };
        let neighbours = worn(3) > 0 && worn(2) > 1;
        let most = self.plan.settings.deliveries_max;
        let worn_out = worn(most + 1) > 0;
        if neighbours {
            self.fail("a worn message has neighbours");
        }
        if worn_out {
            self.fail("a message is delivered too often");
        }
    }

    /// Nobody loses its place for what befell the store, or for nothing.
    fn nobody_calm_is_given_up(&mut self, victim: &str, before: &Glance) {
        if before.lease.is_some_and(|until| until > before.clock) {
            self.fail("a node is given up before its lease ends");
        }
        let Some(process) = self.members.get(victim).map(|process| &self.processes[*process]) else {
            return;
        };
        let since = self.undisturbed_until().saturating_sub(self.plan.lease_ms() * 3 / 2);
        let alive = process.kind == Kind::Node && process.ended.is_none() && process.node == victim;
        if alive && process.joined < since && process.is_calm(since) && !self.rewound {
            self.fail(&format!("{victim} is given up although nothing has befallen it"));
        }
    }

    /// While the store is away or stands still, the hive clock does, and what befell a node before is as fresh as it was.
    fn undisturbed_until(&self) -> u64 {
        let now = self.now();
        if self.store_trouble + 2 * self.plan.lease_ms() > now {
            now.min(self.store_trouble_since)
        } else {
            now
        }
    }

    fn an_orderly_stop_hands_on_nothing(&mut self, process: usize, node: &str, before: &Glance) {
        let (leaver, grace) = (&self.processes[process], &self.plan.settings.grace);
        let grace = u64::try_from(grace.as_millis()).expect("short");
        let Some(stopped) = leaver.stopping else { return };
        let calm = leaver.is_calm(stopped) && self.store_trouble < stopped && before.lease.is_some() && !self.rewound;
        if calm && before.now + 50 < stopped + grace && self.state.taken.contains_key(node) {
            self.fail("a node leaves with work in hand although it has time to finish");
        }
    }
}

impl Book {
    fn shelved(&self) -> usize {
        self.shelves.values().filter(|shelf| **shelf == Shelf::Errors).count()
    }

    /// How many messages have an outcome, and whether all of these numbers do.
    pub fn is_settled(&self) -> bool {
        let settled = |place: &Place| matches!(place, Place::Done | Place::Failed | Place::Skipped);
        self.places.iter().all(|(place, _)| settled(place))
    }

    pub fn done(&self) -> impl Iterator<Item = u64> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, (place, _))| *place == Place::Done)
            .map(|(number, _)| number as u64)
    }

    pub fn unread(&self) -> Vec<u64> {
        let left = self.shelves.iter().filter(|(_, shelf)| **shelf != Shelf::Confirmed);
        left.map(|(number, _)| *number).collect()
    }

    pub fn failed(&self) -> usize {
        self.places.iter().filter(|(place, _)| *place == Place::Failed).count()
    }

    pub fn confirmed(&self) -> usize {
        self.shelves
            .values()
            .filter(|shelf| **shelf == Shelf::Confirmed)
            .count()
    }
}

pub fn count_of<'a>(packs: impl Iterator<Item = &'a Pack>) -> u64 {
    packs.map(|pack| pack.count() as u64).sum()
}
