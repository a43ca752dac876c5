//! The verbs in plain Rust, over any [`Store`]. They follow the scripts of the Redis engine line by line.

mod errors;
mod exchange;
mod manage;
mod push;
mod report;

pub(crate) use exchange::counter;

use super::history::{Crowned, History, Range, Report, Reported};
use super::store::{About, Lane, Lessee, Line, Meta, Store};
use super::{
    Beat, Collect, Collected, DUE_BYTES_MAX, DUE_MAX, Exchange, Exchanged, Failed, GRAIN_START, HEIRS_MAX, Held, Join,
    Joined, LAYOUT, Member, NodeId, NodeStatus, Publish, Published, Push, Pushed, REAP_BYTES_MAX, REAP_PACKS_MAX, Reap,
    Reaped, Renewed, Seen, Status, Wake, check_layout,
};
use crate::engine::Requeued;
use crate::engine::{Handover, Paused, Purged};
use crate::error::{Error, Result};
use crate::message::Pack;

/// Every verb, with the wall clock passed in. Each is to be called as one step.
pub trait Rules: Store {
    fn join(&mut self, wall_ms: u64, join: &Join) -> Result<Joined> {
        let found = self.meta()?;
        if let Some(meta) = &found {
            let newer = self.guard("layout") && meta.layout > LAYOUT;
            let other = self.guard("names") && meta.names != self.names().line();
            if newer || other {
                check_layout(self.queue_name(), self.names(), meta.layout, &meta.names)?;
            }
        }
        let mut meta = found.unwrap_or_else(|| new_meta(self, wall_ms, &join.birth, join.step_ms));
        meta.layout = meta.layout.max(LAYOUT);
        meta.clock = hive(self, &meta, wall_ms, join.step_ms);
        meta.wall = wall_ms;
        meta.step = join.step_ms;
        let rewound = is_behind(&meta, &join.seen);
        if rewound && self.guard("rewind-join") {
            raise(&mut meta, &join.seen);
            meta.rewinds += 1;
        }
        // A late copy of the join of a node that was given up meanwhile does not bring it back.
        let dead = self.guard("join-dead") && self.dead()?.contains(&join.node);
        if !dead && self.lease(Lessee::Node, &join.node)?.is_none() {
            let about = About {
                host: join.host.clone(),
                pid: join.pid,
                version: join.version.clone(),
                concurrency: join.concurrency,
                joined: meta.clock,
                ..About::default()
            };
            self.set_about(&join.node, &about)?;
            for lane in 0..join.lanes {
                self.set_lane(&join.node, lane, &Lane::default())?;
            }
            self.set_lease(Lessee::Node, &join.node, meta.clock + join.lease_ms)?;
        }
        self.set_meta(&meta)?;
        Ok(Joined {
            birth: meta.birth,
            rewound,
        })
    }

    fn beat(&mut self, wall_ms: u64, beat: &Beat) -> Result<Renewed> {
        let member = self.lease(Lessee::Node, &beat.node)?.is_some() || !self.guard("beat-member");
        let Some(mut meta) = self.meta()?.filter(|_| member) else {
            return Ok(Renewed::Deposed);
        };
        meta.clock = hive(self, &meta, wall_ms, meta.step);
        meta.wall = wall_ms;
        let rewound = is_behind(&meta, &beat.seen);
        if rewound {
            if self.guard("rewind-beat") {
                raise(&mut meta, &beat.seen);
            }
            meta.rewinds += 1;
        }
        self.set_lease(Lessee::Node, &beat.node, meta.clock + beat.lease_ms)?;

        let mut generator = meta.generator == beat.node;
        let called = self.guard("chosen") && (meta.chosen == beat.node || meta.chosen == "*");
        let outranks = self.guard("rank") && u64::from(beat.rank) > meta.rank;
        if !generator && beat.eligible && (meta.crown <= meta.clock || called || outranks) {
            generator = true;
            meta.generator.clone_from(&beat.node);
            meta.epoch += 1;
            meta.chosen = String::new();
            // Who was chosen takes the place of the one before, also against those who would rather reign.
            let before = if called { meta.rank } else { 0 };
            meta.rank = before.max(beat.rank.into());
            let reign = Crowned {
                epoch: meta.epoch,
                node: beat.node.clone(),
                time_ms: self.time_ms(wall_ms),
                before_ms: meta.ruled,
            };
            self.add_reign(&reign)?;
        }
        if generator && !beat.eligible {
            generator = false;
            meta.generator = String::new();
            meta.crown = 0;
            self.ring(Wake::Crown)?;
        }
        if generator {
            meta.crown = meta.clock + beat.crown_ms;
            meta.ruled = self.time_ms(wall_ms);
        }
        let mut heir = meta.heirs.contains(&beat.node);
        if heir && (generator || !beat.eligible) {
            meta.heirs.retain(|other| *other != beat.node);
            heir = false;
        } else if !heir && !generator && beat.eligible && meta.heirs.len() < HEIRS_MAX {
            meta.heirs.push(beat.node.clone());
            heir = true;
        }

        let (mut victim, mut more_due) = (None, false);
        // While there is no generator, whoever beats keeps house.
        let vacant = self.guard("vacant") && meta.crown <= meta.clock;
        if generator || vacant {
            more_due = move_due(self, &mut meta, wall_ms)?;
            let rings = self.guard("second-bell") && !meta.paused.handlers;
            if rings && !(self.is_empty(Line::Queue)? && self.is_empty(Line::Again)?) {
                self.ring(Wake::Bell)?;
            }
            victim = self.dead()?.into_iter().next();
            if victim.is_none() {
                victim = expired(self, Lessee::Node, meta.clock)?;
            }
        }
        self.set_meta(&meta)?;
        let untold = generator && beat.seen.epoch < meta.epoch;
        let cursor = if untold { Some(self.cursor()?.into()) } else { None };
        Ok(Renewed::Alive(Member {
            generator,
            epoch: meta.epoch,
            seq: meta.seq,
            made: meta.made,
            grain: meta.grain,
            due_in_ms: meta.due.saturating_sub(meta.clock),
            crown_in_ms: meta.crown.saturating_sub(meta.clock),
            heir,
            wall_ms: self.time_ms(wall_ms),
            victim,
            paused: meta.paused,
            cursor,
            more_due,
            rewound,
        }))
    }

    fn publish(&mut self, wall_ms: u64, publish: &Publish) -> Result<Published> {
        let Some(mut meta) = self.meta()? else {
            return Ok(Published::Fenced);
        };
        let clock = hive(self, &meta, wall_ms, meta.step);
        if self.guard("token") && (meta.generator != publish.node || meta.epoch != publish.epoch) {
            return Ok(Published::Fenced);
        }
        if self.guard("crown-lease") && meta.crown <= clock {
            return Ok(Published::Fenced);
        }
        let mut count = 0;
        for pack in &publish.packs {
            if pack.first() != publish.first + count || pack.epoch() != meta.epoch {
                return Err(Error::Protocol {
                    detail: "malformed pack".into(),
                });
            }
            count += pack.count() as u64;
        }
        if self.guard("made") && publish.made + count <= meta.made {
            return Ok(published(&meta, clock));
        }
        if self.guard("gap") && publish.made != meta.made {
            return Ok(Published::Gap);
        }
        if self.guard("paused-generator") && meta.paused.generator {
            return Ok(Published::Paused);
        }
        if self.guard("moved") && publish.first != meta.seq {
            return Ok(Published::Moved { seq: meta.seq });
        }
        if publish.messages.is_some_and(|last| meta.seq + count > last) {
            return Ok(Published::Finished);
        }
        if meta.seq + count - meta.head > publish.backlog_max {
            let head = self.front(Line::Queue)?.map_or(meta.seq, |pack| pack.first());
            if self.guard("full") && meta.seq + count - head > publish.backlog_max {
                return Ok(Published::Full);
            }
            meta.head = head;
        }
        for pack in &publish.packs {
            self.push_back(Line::Queue, pack)?;
        }
        if publish.interval_ms > 0 {
            meta.due = next_due(meta.due, clock, publish.interval_ms);
        }
        meta.seq += count;
        meta.made = publish.made + count;
        if let Some(cursor) = &publish.cursor
            && self.guard("cursor")
        {
            self.set_cursor(cursor)?;
        }
        self.ring(Wake::Bell)?;
        self.set_meta(&meta)?;
        Ok(published(&meta, clock))
    }

    fn push(&mut self, wall_ms: u64, push: &Push) -> Result<Pushed> {
        push::push(self, wall_ms, push)
    }

    fn exchange(&mut self, wall_ms: u64, exchange: &Exchange) -> Result<Exchanged> {
        exchange::exchange(self, wall_ms, exchange)
    }

    fn collect(&mut self, wall_ms: u64, collect: &Collect) -> Result<Collected> {
        errors::collect(self, wall_ms, collect)
    }

    fn hold(&mut self, wall_ms: u64, reader: &str, lease_ms: u64) -> Result<bool> {
        errors::hold(self, wall_ms, reader, lease_ms)
    }

    fn release(&mut self, wall_ms: u64, reader: &str, only_expired: bool) -> Result<()> {
        errors::release(self, wall_ms, reader, only_expired)
    }

    /// Failed messages from `from` on, without taking them.
    fn failed(&mut self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        errors::batch(self, from, u64::MAX, limit as usize)
    }

    fn latest(&mut self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        errors::latest(self, below, limit as usize)
    }

    fn held(&mut self, node: &str, limit: u32) -> Result<Vec<Held>> {
        let pieces = self.pieces(node, limit as usize)?;
        Ok(pieces.iter().map(Held::of).collect())
    }

    fn requeue(&mut self, numbers: &[u64]) -> Result<Requeued> {
        errors::requeue(self, numbers)
    }

    fn discard(&mut self, numbers: &[u64]) -> Result<Vec<u64>> {
        errors::discard(self, numbers)
    }

    fn trim(&mut self, keep: u64) -> Result<Vec<u64>> {
        errors::trim(self, keep)
    }

    fn pause(&mut self, generator: Option<bool>, handlers: Option<bool>) -> Result<Option<Paused>> {
        manage::pause(self, generator, handlers)
    }

    fn handover(&mut self, wall_ms: u64, to: Option<&str>) -> Result<Option<Handover>> {
        manage::handover(self, wall_ms, to)
    }

    fn remove(&mut self, wall_ms: u64, force: bool) -> Result<Option<Purged>> {
        manage::remove(self, wall_ms, force)
    }

    fn take_report(&mut self, wall_ms: u64, report: &Report) -> Result<Reported> {
        report::report(self, wall_ms, report)
    }

    /// None: there is no queue.
    fn history(&mut self, wall_ms: u64, range: Range) -> Result<Option<History>> {
        report::history(self, wall_ms, range)
    }

    fn reap(&mut self, wall_ms: u64, reap: &Reap) -> Result<Reaped> {
        let mut reaped = Reaped {
            redelivered: 0,
            failed: 0,
            more: false,
            deposed: false,
        };
        let victim = &reap.victim;
        let Some(meta) = self.meta()? else { return Ok(reaped) };
        let clock = hive(self, &meta, wall_ms, meta.step);
        if let Some(deadline) = self.lease(Lessee::Node, victim)? {
            if self.guard("reap-expired") && deadline > clock {
                return Ok(reaped);
            }
            depose(self, victim)?;
            reaped.deposed = true;
        } else if !self.dead()?.contains(victim) {
            return Ok(reaped);
        }
        let (time_ms, mut bytes) = (self.time_ms(wall_ms), 0);
        for _ in 0..REAP_PACKS_MAX {
            if reaped.failed >= 1000 || bytes >= REAP_BYTES_MAX {
                break;
            }
            let Some(pack) = self.first_piece(victim)? else { break };
            bytes += pack.bytes().len();
            self.remove_piece(victim, pack.first())?;
            if self.guard("deliveries") && pack.attempt() >= reap.deliveries_max {
                let text = format!("delivered {} times without an outcome", pack.attempt());
                for index in 0..pack.count() {
                    self.add_failed(&failure(&pack, index, time_ms, victim, &text))?;
                }
                reaped.failed += pack.count() as u64;
            } else {
                reaped.redelivered += pack.count() as u64;
                self.push_back(Line::Again, &pack.next_attempt())?;
            }
        }
        let mut meta = self.meta()?.unwrap_or(meta);
        meta.failed += reaped.failed;
        if reaped.redelivered > 0 {
            meta.again = true;
            self.ring(Wake::Bell)?;
        }
        self.set_meta(&meta)?;
        reaped.more = self.first_piece(victim)?.is_some();
        if reaped.more {
            let mut about = self.about(victim)?.unwrap_or_default();
            about.held = about
                .held
                .map(|held| held.saturating_sub(reaped.redelivered + reaped.failed));
            self.set_about(victim, &about)?;
        } else {
            self.remove_dead(victim)?;
            self.forget(victim)?;
        }
        Ok(reaped)
    }

    fn leave(&mut self, node: &NodeId) -> Result<()> {
        if self.lease(Lessee::Node, node)?.is_none() {
            return Ok(());
        }
        let (held, ruled) = depose(self, node)?;
        if held == 0 {
            self.remove_dead(node)?;
            self.forget(node)?;
        }
        if ruled {
            self.ring(Wake::Crown)?;
        }
        Ok(())
    }

    /// One consistent look; none if there is no queue.
    fn status(&mut self, wall_ms: u64) -> Result<Option<Status>> {
        let Some(meta) = self.meta()? else { return Ok(None) };
        check_layout(self.queue_name(), self.names(), meta.layout, &meta.names)?;
        let clock = hive(self, &meta, wall_ms, meta.step);
        let mut status = Status {
            birth: meta.birth,
            time_ms: self.time_ms(wall_ms),
            generator: Some(meta.generator).filter(|_| meta.crown > clock),
            epoch: meta.epoch,
            published: meta.seq,
            queued: 0,
            in_hand: 0,
            later: self.later_count()?,
            done: meta.done,
            failed: meta.failed,
            errors: self.failed_count()? + self.reading_count()?,
            requeued: meta.requeued,
            paused: meta.paused,
            trimmed: meta.trimmed,
            rewinds: meta.rewinds,
            grain: meta.grain,
            nodes: Vec::new(),
        };
        for (node, until) in self.leases(Lessee::Node)? {
            let report = self.report(&node)?;
            let about = self.about(&node)?.unwrap_or_default();
            let lanes = self.lanes(&node)?;
            let sum = |of: fn(&Lane) -> u64| lanes.iter().map(of).sum::<u64>();
            let held: i64 = lanes.iter().map(|lane| lane.held).sum();
            let entry = NodeStatus {
                node,
                host: about.host,
                pid: about.pid,
                version: about.version,
                concurrency: about.concurrency,
                age_ms: clock.saturating_sub(about.joined),
                in_hand: u64::try_from(held).unwrap_or(0),
                done: sum(|lane| lane.done),
                failed: sum(|lane| lane.failed),
                lease_in_ms: until.saturating_sub(clock),
                report,
            };
            status.in_hand += entry.in_hand;
            status.done += entry.done;
            status.failed += entry.failed;
            status.nodes.push(entry);
        }
        for node in self.dead()? {
            status.in_hand += self.about(&node)?.and_then(|about| about.held).unwrap_or(0);
        }
        status.count_queued(meta.skipped);
        Ok(Some(status))
    }
}

impl<S: Store + ?Sized> Rules for S {}

impl Status {
    /// What is neither settled nor in hand nor put off is queued: there is nowhere else to be.
    pub(crate) fn count_queued(&mut self, skipped: u64) {
        let elsewhere = skipped + self.done + self.failed + self.in_hand + self.later;
        self.queued = (self.published + self.requeued).saturating_sub(elsewhere);
    }
}

/// A queue that is new.
fn new_meta(store: &(impl Store + ?Sized), wall_ms: u64, birth: &str, step: u64) -> Meta {
    Meta {
        birth: birth.to_string(),
        layout: LAYOUT,
        names: store.names().line(),
        clock: 0,
        wall: wall_ms,
        step,
        generator: String::new(),
        epoch: 0,
        crown: 0,
        heirs: Vec::new(),
        seq: 0,
        made: 0,
        due: 0,
        grain: GRAIN_START,
        again: false,
        head: 0,
        done: 0,
        failed: 0,
        requeued: 0,
        rewinds: 0,
        paused: Paused::default(),
        ruled: 0,
        chosen: String::new(),
        rank: 0,
        skipped: 0,
        trimmed: 0,
    }
}

/// The hive clock: moves by what the wall clock moved since the last look, within 0 ..= step.
fn hive(store: &(impl Store + ?Sized), meta: &Meta, wall_ms: u64, step: u64) -> u64 {
    let mut moved = i128::from(wall_ms) - i128::from(meta.wall);
    if store.guard("clock-back") {
        moved = moved.max(0);
    }
    if store.guard("clock-step") {
        moved = moved.min(i128::from(step));
    }
    u64::try_from((i128::from(meta.clock) + moved).max(0)).unwrap_or(u64::MAX)
}

/// Ends a membership; what it still holds, and whether it had the crown.
fn depose(store: &mut (impl Store + ?Sized), node: &str) -> Result<(u64, bool)> {
    let mut meta = store.meta()?.ok_or_else(|| Error::Protocol {
        detail: "a member without a queue".into(),
    })?;
    let mut held = 0i64;
    for lane in store.lanes(node)? {
        meta.done += lane.done;
        meta.failed += lane.failed;
        held += lane.held;
    }
    let held = u64::try_from(held).unwrap_or(0);
    let mut about = store.about(node)?.unwrap_or_default();
    if store.guard("depose-lanes") {
        store.close_lanes(node)?;
        about.redelivered = 0;
        about.suspects = 0;
    }
    about.held = Some(held);
    store.set_about(node, &about)?;
    store.drop_report(node)?;
    store.end_lease(Lessee::Node, node)?;
    store.add_dead(node)?;
    meta.heirs.retain(|other| other != node);
    let ruled = meta.generator == node;
    if ruled {
        meta.generator = String::new();
        meta.crown = 0;
    }
    store.set_meta(&meta)?;
    Ok((held, ruled))
}

/// What is kept of a failed message.
fn failure(pack: &Pack, index: usize, time_ms: u64, node: &str, error: &str) -> Failed {
    let message = pack.message(index);
    Failed {
        number: message.number,
        attempt: message.attempt,
        failures: message.failures,
        epoch: message.epoch,
        published_ms: message.published_ms,
        time_ms,
        node: node.to_string(),
        error: error.as_bytes().to_vec(),
        payload: message.payload.to_vec(),
    }
}

fn is_behind(meta: &Meta, seen: &Seen) -> bool {
    seen.seq > meta.seq || seen.epoch > meta.epoch
}

/// Brings a store that went back in time up to what was seen: no number and no epoch is ever used twice.
fn raise(meta: &mut Meta, seen: &Seen) {
    meta.skipped += seen.seq.saturating_sub(meta.seq);
    meta.seq = meta.seq.max(seen.seq);
    meta.epoch = meta.epoch.max(seen.epoch);
    meta.generator = String::new();
    meta.crown = 0;
}

/// Moves what is due back to be taken. True: there may be more.
fn move_due(store: &mut (impl Store + ?Sized), meta: &mut Meta, wall_ms: u64) -> Result<bool> {
    let until = if store.guard("due") {
        store.time_ms(wall_ms)
    } else {
        u64::MAX
    };
    let (mut moved, mut bytes, mut chunk) = (0, 0, 1);
    while moved < DUE_MAX && bytes < DUE_BYTES_MAX {
        let due = store.pop_due(until, chunk.min(DUE_MAX - moved))?;
        if due.is_empty() {
            return Ok(false);
        }
        for pack in &due {
            store.push_back(Line::Again, pack)?;
            bytes += pack.bytes().len();
        }
        moved += due.len();
        chunk = (chunk * 2).min(500);
        meta.again = true;
    }
    Ok(true)
}

/// The one whose lease ended first, if it has ended.
fn expired(store: &mut (impl Store + ?Sized), lessee: Lessee, clock: u64) -> Result<Option<String>> {
    let first = store.first_lease(lessee)?;
    Ok(first.filter(|(_, until)| *until <= clock).map(|(name, _)| name))
}

/// The tick after this one: on the grid, and after now. Missed ticks are left out.
fn next_due(due: u64, clock: u64, interval_ms: u64) -> u64 {
    let due = if due > clock + interval_ms { clock } else { due };
    let missed = if clock < due { 0 } else { (clock - due) / interval_ms };
    due + interval_ms * (missed + 1)
}

fn published(meta: &Meta, clock: u64) -> Published {
    Published::Ok {
        seq: meta.seq,
        made: meta.made,
        grain: meta.grain,
        due_in_ms: meta.due.saturating_sub(clock),
    }
}
