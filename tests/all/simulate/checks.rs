//! What must hold, in the words of the guarantees. The store is watched call by call, from the state that it leaves
//! behind and not from what its verbs say; the nodes are watched by what they were told.

use std::collections::BTreeMap;

use bytes::Bytes;
use queenright::engine::memory::State;
use queenright::engine::{Exchange, Exchanged, Link, Paused, Purged, Reap, Renewed, SUSPECTS_MAX};
use queenright::message::Pack;

use super::process::Kind;
use super::pushes::Remembered;
use super::world::Inner;
use crate::checker;
use crate::conformance::QUEUE;
use crate::oracle::{Answer, Call};

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Unborn,
    Waiting,
    /// In the hand of this membership.
    Held(u32),
    /// Put off, until this time of day.
    Later(u64),
    Done,
    Failed,
    /// A store that went back in time was raised over its number.
    Skipped,
}

/// Where a message is, how often it was delivered, and how often it has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    pub place: Place,
    pub deliveries: u16,
    pub failures: u16,
}

/// Where a failed message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shelf {
    Errors,
    Reading(String),
    Confirmed,
    /// Discarded, or trimmed.
    Removed,
}

/// What the store has done so far. Goes back in time with it.
#[derive(Debug, Clone, Default)]
pub struct Book {
    pub places: Vec<Spot>,
    pub shelves: BTreeMap<u64, Shelf>,
    pub last_epoch: u64,
    /// When the crown was last renewed.
    pub crown_beat: u64,
    /// And for how long.
    pub crown_ms: u64,
    /// When the queue was created.
    born: Option<u64>,
    /// How far the hive clock was ever ahead of the time that has passed, and behind where that would have led.
    lead: i64,
    pub lag: u64,
    pub reigns: BTreeMap<u64, String>,
    /// Who is to be crowned next, and how much the last one who was liked to be.
    pub chosen: String,
    pub rank: u8,
    /// How often messages were put in again.
    pub lives: BTreeMap<u64, u32>,
    pub trimmed: u64,
    pub holders: BTreeMap<String, u32>,
    /// What was pushed, under which calls and keys, and how far the clock was then.
    pub pushed: BTreeMap<u64, Bytes>,
    pub calls: BTreeMap<String, Remembered>,
    pub keys: BTreeMap<String, Remembered>,
    pub last_push_ms: u64,
    pub paused: Paused,
    /// The item of the generator's source that comes next.
    pub item: u64,
    /// Who settled what.
    pub settlers: BTreeMap<u64, u32>,
    pub cancels: super::cancels::Cancels,
    /// What effects published, by the message that had them.
    pub links: BTreeMap<u64, Link>,
}

/// What processes were told, and did.
#[derive(Debug, Default)]
pub struct Told {
    pub published: BTreeMap<u64, u64>,
    pub outcomes: BTreeMap<u64, u32>,
    pub shown: BTreeMap<u64, Vec<(usize, u64)>>,
    /// What was published under each number, by epoch.
    pub made: BTreeMap<(u64, u64), Bytes>,
    /// For the summary of a run.
    pub redelivered: u64,
    pub elections: u64,
    /// The most publishes, and the most exchanges, that a process had on their way at once.
    pub flying_max: [u32; 2],
}

/// The store right before a call.
pub struct Glance {
    pub now: u64,
    pub clock: u64,
    pub wall_ms: u64,
    pub seq: u64,
    pub made: u64,
    later: usize,
    /// How many leases of nodes run.
    alive: usize,
    pub epoch: u64,
    pub crown: u64,
    old_clock: u64,
    pub generator: String,
    pub heirs: Vec<String>,
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
            wall_ms,
            seq: 0,
            made: 0,
            later: inner.state.later.len(),
            alive: 0,
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
            glance.made = meta.made;
            if matches!(call, Call::Purge(_)) {
                let runs = |until: &&u64| **until > glance.clock;
                glance.alive = inner.state.nodes.values().filter(runs).count();
            }
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
        if let (Call::Purge(force), Answer::Purged(purged)) = (call, answer) {
            return self.only_a_dead_queue_is_removed(*force, *purged, before);
        }
        self.the_clock_never_goes_back(before);
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        let told = match call {
            Call::Beat(beat) if matches!(answer, Answer::Renewed(Renewed::Alive(_))) => beat.seen.seq,
            Call::Join(join) => join.seen.seq,
            _ => 0,
        };
        if seq < told {
            self.fail("the store went back in time, is told so, and goes on from there");
        }
        match (call, answer) {
            (Call::Beat(beat), Answer::Renewed(pulse)) => {
                self.one_crown(process, beat, pulse, before);
                self.only_join_adds_members(&beat.node);
                self.a_lost_ring_is_rung_again(pulse);
            }
            (Call::Publish(publish), Answer::Published(published)) => {
                self.only_the_crowned_publish(publish, published, before);
                if !publish.again {
                    self.the_backlog_keeps_its_limit(before);
                }
                self.the_ticks_keep_the_grid(before);
            }
            (Call::Push(push), Answer::Pushed(pushed)) => self.a_push_is_applied_once(push, pushed, before),
            (Call::Handover(to), Answer::Handover(asked)) => self.a_member_is_chosen(to.as_deref(), *asked),
            (Call::Pause(generator, handlers), Answer::Paused(paused)) => {
                self.a_pause_is_what_was_asked_for(*generator, *handlers, *paused);
            }
            (Call::Exchange(exchange), Answer::Exchanged(exchanged)) => {
                self.a_member_is_not_refused(process, exchange, exchanged);
                self.worn_messages_come_alone(&exchange.node, exchanged);
                self.a_chain_goes_on_once(exchange, exchanged, before);
            }
            (Call::Reap(reap), Answer::Reaped(reaped)) if reaped.deposed => {
                self.nobody_calm_is_given_up(reap, before);
            }
            (Call::Leave(node), _) => self.an_orderly_stop_hands_on_nothing(process, node, before),
            _ => {}
        }
        self.groups_are_in_order(answer);
        if self.plan.asks
            && let Some(wrong) = checker::wrong_ending(&self.state)
        {
            self.fail(&wrong);
        }
        match call {
            Call::Publish(_)
            | Call::Exchange(_)
            | Call::Reap(_)
            | Call::Leave(_)
            | Call::Join(_)
            | Call::Requeue(_) => {
                self.every_message_is_in_one_place(call, before.wall_ms);
            }
            _ if seq != before.seq || self.state.later.len() != before.later => {
                self.every_message_is_in_one_place(call, before.wall_ms);
            }
            _ => {}
        }
        let reads = matches!(call, Call::Collect(_) | Call::Release(..) | Call::Hold(..));
        if reads || self.state.errors.len() != self.book.shelved() {
            self.errors_are_kept_until_they_are_shown(call, before);
        }
        if self.plan.cancels {
            self.the_cancelled_are_told(call, answer);
        }
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

    /// The generator's beat rings if work waits: nobody else may.
    fn a_lost_ring_is_rung_again(&mut self, pulse: &Renewed) {
        let generator = matches!(pulse, Renewed::Alive(member) if member.generator);
        if generator && self.work_waits() && !self.state.bell {
            self.fail("work waits, and the generator's beat does not ring");
        }
    }

    fn work_waits(&self) -> bool {
        let state = &self.state;
        let waits = !(state.queue.is_empty() && state.again.is_empty() && state.ready.is_empty());
        let limits = state.meta.as_ref().and_then(|meta| meta.limit);
        // A limit may keep it back.
        waits && !self.book.paused.handlers && limits.is_none()
    }

    fn only_a_dead_queue_is_removed(&mut self, force: bool, purged: Purged, before: &Glance) {
        if let Purged::Alive(alive) = purged {
            if force || alive != before.alive as u64 || self.state.meta.is_none() {
                self.fail(&format!("{alive} nodes are told to be alive"));
            }
            return;
        }
        if before.alive > 0 && !force {
            self.fail("a queue that nodes work on is removed");
        }
        let mut empty = State::new(QUEUE, &self.state.names);
        empty.stored.clone_from(&self.state.stored);
        // Only that it was.
        empty.purged.clone_from(&self.state.purged);
        #[cfg(feature = "mutants")]
        empty.without.clone_from(&self.state.without);
        if self.state != empty {
            self.fail("something is left of a queue that was removed");
        }
        self.book = Book::default();
        self.rewound = true;
    }

    /// Nobody need wait for the next beat after a pause.
    fn a_pause_is_what_was_asked_for(&mut self, generator: Option<bool>, handlers: Option<bool>, paused: Paused) {
        let before = self.book.paused;
        self.book.paused = Paused {
            generator: generator.unwrap_or(before.generator),
            handlers: handlers.unwrap_or(before.handlers),
        };
        if paused != self.book.paused {
            self.fail(&format!("{paused:?} is told to be paused"));
        }
        if self.work_waits() && !self.state.bell {
            self.fail("work waits, and who resumes wakes nobody");
        }
    }

    fn only_join_adds_members(&mut self, node: &str) {
        if self.state.nodes.contains_key(node) && !self.state.taken.contains_key(node) {
            self.fail(&format!("{node} is a member without ever having joined"));
        }
    }

    /// What a member sends in order is taken: only strangers, the deposed and old copies are refused.
    fn a_member_is_not_refused(&mut self, process: usize, exchange: &Exchange, exchanged: &Exchanged) {
        let sender = &self.processes[process];
        let last = sender.last_calls.get(&exchange.lane);
        let current = sender.node == exchange.node && last.is_some_and(|(last, ..)| *last == exchange.call);
        let member = self.state.nodes.contains_key(&exchange.node);
        let refused = !matches!(exchanged, Exchanged::Ok { .. } | Exchanged::Unheard);
        // A late copy of a join may have brought it back, with an empty lane.
        let taken = self.state.taken.get(&exchange.node);
        let member = member && taken.is_some_and(|taken| taken.lanes.values().any(|lane| lane.call > 0));
        if refused && current && member && sender.kind == Kind::Node && !self.rewound {
            self.fail(&format!("a member is refused: {exchanged:?}"));
        }
    }

    /// On its last delivery a message comes alone; on the one before, with few of its kind, and one by one.
    fn worn_messages_come_alone(&mut self, node: &str, exchanged: &Exchanged) {
        let Exchanged::Ok { packs, .. } = exchanged else { return };
        let most = self.plan.settings.deliveries_max;
        let worn = |pack: &&Pack| pack.deliveries() > 1 && pack.deliveries() + 1 >= most;
        if packs.iter().filter(worn).map(Pack::count).sum::<usize>() > 1 {
            self.fail("several worn messages come at once");
        }
        let Some(taken) = self.state.taken.get(node) else {
            return;
        };
        let held = |least| {
            let pieces = taken.pieces.values().filter(move |pack| pack.deliveries() >= least);
            pieces.map(Pack::count).sum::<usize>()
        };
        let neighbours = most > 1 && held(most) > 0 && held(1) > 1;
        let crowd = most > 2 && held(most - 1) > usize::try_from(SUSPECTS_MAX).expect("few");
        let too_often = held(most + 1) > 0;
        if neighbours {
            self.fail("a message on its last delivery has neighbours");
        }
        if crowd {
            self.fail("a node holds many messages before their last delivery");
        }
        if too_often {
            self.fail("a message is delivered too often");
        }
    }

    /// Nobody loses its place for what befell the store, or for nothing.
    fn nobody_calm_is_given_up(&mut self, reap: &Reap, before: &Glance) {
        let victim = &reap.victim;
        let gone = reap.gone && !self.state.connected.0.contains(victim);
        if before.lease.is_some_and(|until| until > before.clock) && !gone {
            self.fail("a node is given up before its lease ends");
        }
        let Some(process) = self.members.get(victim).map(|process| &self.processes[*process]) else {
            return;
        };
        let since = self.undisturbed_until().saturating_sub(self.plan.lease_ms() * 3 / 2);
        let alive = process.kind == Kind::Node && process.ended.is_none() && process.node == *victim;
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
        self.places.iter().all(|spot| settled(&spot.place))
    }

    pub fn done(&self) -> impl Iterator<Item = u64> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, spot)| spot.place == Place::Done)
            .map(|(number, _)| number as u64)
    }

    pub fn unread(&self) -> Vec<u64> {
        let open = |shelf: &Shelf| !matches!(shelf, Shelf::Confirmed | Shelf::Removed);
        let left = self.shelves.iter().filter(|(_, shelf)| open(shelf));
        left.map(|(number, _)| *number).collect()
    }

    pub fn failed(&self) -> usize {
        self.places.iter().filter(|spot| spot.place == Place::Failed).count()
    }

    /// Read, or removed otherwise.
    pub fn confirmed(&self) -> usize {
        self.shelves
            .values()
            .filter(|shelf| matches!(shelf, Shelf::Confirmed | Shelf::Removed))
            .count()
    }
}

pub fn count_of<'a>(packs: impl Iterator<Item = &'a Pack>) -> u64 {
    packs.map(|pack| pack.count() as u64).sum()
}
