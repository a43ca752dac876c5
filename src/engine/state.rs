//! The queue in plain Rust: no I/O, time passed in.
//!
//! This is the oracle that the other engines must match, call for call and in every stored detail, and, behind a lock
//! ([`Local`]), the engine for tests that need no store. It follows the scripts of the Redis engine line by line.

mod errors;
mod exchange;
mod local;

use std::collections::{BTreeMap, VecDeque};

use crate::engine::keys::Names;
use crate::engine::{
    Beat, Failed, GRAIN_START, HEIRS_MAX, Join, Joined, LAYOUT, NodeId, NodeStatus, Publish, Published, Pulse,
    REAP_PACKS_MAX, Reap, Reaped, Seen, Status, Vitals,
};
use crate::error::{Error, Result};
use crate::message::Pack;

pub use local::Local;

/// A queue. Two of them are equal if a store would hold the same for both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub queue_name: String,
    pub names: Names,
    pub meta: Option<Meta>,
    pub queue: VecDeque<Pack>,
    pub again: VecDeque<Pack>,
    /// Members and when their leases end, on the hive clock.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Deposed or departed, and still holding something.
    pub dead: VecDeque<NodeId>,
    pub taken: BTreeMap<NodeId, Taken>,
    pub errors: BTreeMap<u64, Failed>,
    pub readers: BTreeMap<String, u64>,
    /// What each reader is printing, and the call that gave it that.
    pub reading: BTreeMap<String, (u64, Vec<Failed>)>,
    pub bell: bool,
    pub crown_bell: bool,
    /// What effects have written.
    pub stored: BTreeMap<String, Stored>,
    /// The guard that is taken out, to show that a test notices.
    #[cfg(feature = "mutants")]
    pub without: Option<String>,
}

/// What a queue knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub birth: String,
    pub layout: u64,
    pub names: String,
    /// The hive clock, and the wall clock when it was last moved.
    pub clock: u64,
    pub wall: u64,
    pub step: u64,
    pub generator: NodeId,
    pub epoch: u64,
    /// When the crown's lease ends.
    pub crown: u64,
    pub heirs: Vec<NodeId>,
    pub seq: u64,
    pub made: u64,
    pub due: u64,
    pub grain: u64,
    /// Whether `again` may hold something.
    pub again: bool,
    /// The number at the head of the queue when it was last looked up.
    pub head: u64,
    pub done: u64,
    pub failed: u64,
    pub requeued: u64,
    pub rewinds: u64,
}

/// What a node holds, and its lanes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub concurrency: u32,
    pub joined: u64,
    /// Messages in hand that were delivered before: at least twice, at least three times.
    pub worn: (u64, u64),
    pub lanes: BTreeMap<u32, Lane>,
    pub pieces: BTreeMap<u64, Pack>,
    /// Once deposed: how many messages are still to be handed on.
    pub held: Option<u64>,
}

/// The last call of a lane, with its answer, and the lane's counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    pub call: u64,
    pub done: u64,
    pub failed: u64,
    /// Taken less settled: below zero if it settles what other lanes of the node took.
    pub held: i64,
    pub pieces: Vec<u64>,
    pub refused: Vec<(u64, String)>,
}

/// What an effect has written under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    Value(Vec<u8>),
    Hash(BTreeMap<String, Vec<u8>>),
    List(Vec<Vec<u8>>),
}

impl State {
    #[must_use]
    pub fn new(queue_name: &str, names: &Names) -> Self {
        Self {
            queue_name: queue_name.to_string(),
            names: names.clone(),
            meta: None,
            queue: VecDeque::new(),
            again: VecDeque::new(),
            nodes: BTreeMap::new(),
            dead: VecDeque::new(),
            taken: BTreeMap::new(),
            errors: BTreeMap::new(),
            readers: BTreeMap::new(),
            reading: BTreeMap::new(),
            bell: false,
            crown_bell: false,
            stored: BTreeMap::new(),
            #[cfg(feature = "mutants")]
            without: None,
        }
    }

    /// Always true, but for the guard that a test has taken out.
    #[cfg(feature = "mutants")]
    fn guard(&self, name: &str) -> bool {
        self.without.as_deref() != Some(name)
    }

    #[cfg(not(feature = "mutants"))]
    #[allow(clippy::unused_self)]
    fn guard(&self, _: &str) -> bool {
        true
    }

    /// The hive clock: moves by what the wall clock moved since the last look, within 0 ..= step.
    fn hive(&self, meta: &Meta, wall_ms: u64, step: u64) -> u64 {
        let mut moved = i128::from(wall_ms) - i128::from(meta.wall);
        if self.guard("clock-back") {
            moved = moved.max(0);
        }
        if self.guard("clock-step") {
            moved = moved.min(i128::from(step));
        }
        u64::try_from((i128::from(meta.clock) + moved).max(0)).unwrap_or(u64::MAX)
    }

    pub fn join(&mut self, wall_ms: u64, join: &Join) -> Result<Joined> {
        if let Some(meta) = &self.meta {
            if self.guard("layout") && meta.layout > LAYOUT {
                return Err(Error::NewerLayout {
                    queue: self.queue_name.clone(),
                    found: meta.layout,
                    known: LAYOUT,
                });
            }
            if self.guard("names") && meta.names != self.names.line() {
                return Err(Error::OtherNames {
                    queue: self.queue_name.clone(),
                    recorded: meta.names.clone(),
                    given: self.names.line(),
                });
            }
        }
        let mut meta = self.meta.take().unwrap_or_else(|| Meta {
            birth: join.birth.clone(),
            layout: LAYOUT,
            names: self.names.line(),
            clock: 0,
            wall: wall_ms,
            step: join.step_ms,
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
        });
        meta.clock = self.hive(&meta, wall_ms, join.step_ms);
        meta.wall = wall_ms;
        meta.step = join.step_ms;
        let rewound = is_behind(&meta, &join.seen);
        if rewound && self.guard("rewind-join") {
            raise(&mut meta, &join.seen);
            meta.rewinds += 1;
        }
        // A late copy of the join of a node that was given up meanwhile does not bring it back.
        let dead = self.guard("join-dead") && self.dead.contains(&join.node);
        if !dead && !self.nodes.contains_key(&join.node) {
            let taken = Taken {
                host: join.host.clone(),
                pid: join.pid,
                version: join.version.clone(),
                concurrency: join.concurrency,
                joined: meta.clock,
                lanes: (0..join.lanes).map(|lane| (lane, Lane::default())).collect(),
                ..Taken::default()
            };
            self.taken.insert(join.node.clone(), taken);
            self.nodes.insert(join.node.clone(), meta.clock + join.lease_ms);
        }
        let birth = meta.birth.clone();
        self.meta = Some(meta);
        Ok(Joined { birth, rewound })
    }

    pub fn beat(&mut self, wall_ms: u64, beat: &Beat) -> Pulse {
        let member = self.nodes.contains_key(&beat.node) || !self.guard("beat-member");
        let Some(mut meta) = self.meta.clone().filter(|_| member) else {
            return Pulse::Deposed;
        };
        meta.clock = self.hive(&meta, wall_ms, meta.step);
        meta.wall = wall_ms;
        let rewound = is_behind(&meta, &beat.seen);
        if rewound {
            if self.guard("rewind-beat") {
                raise(&mut meta, &beat.seen);
            }
            meta.rewinds += 1;
        }
        self.nodes.insert(beat.node.clone(), meta.clock + beat.lease_ms);

        let mut generator = meta.generator == beat.node;
        if !generator && beat.eligible && meta.crown <= meta.clock {
            generator = true;
            meta.generator.clone_from(&beat.node);
            meta.epoch += 1;
        }
        if generator && !beat.eligible {
            generator = false;
            meta.generator = String::new();
            meta.crown = 0;
            self.crown_bell = true;
        }
        if generator {
            meta.crown = meta.clock + beat.crown_ms;
        }
        let mut heir = meta.heirs.contains(&beat.node);
        if heir && (generator || !beat.eligible) {
            meta.heirs.retain(|other| *other != beat.node);
            heir = false;
        } else if !heir && !generator && beat.eligible && meta.heirs.len() < HEIRS_MAX {
            meta.heirs.push(beat.node.clone());
            heir = true;
        }

        let mut victim = None;
        if generator {
            if self.guard("second-bell") && (!self.queue.is_empty() || !self.again.is_empty()) {
                self.bell = true;
            }
            victim = self
                .dead
                .front()
                .cloned()
                .or_else(|| expired(&self.nodes, meta.clock).cloned());
        }
        let vitals = Vitals {
            generator,
            epoch: meta.epoch,
            seq: meta.seq,
            made: meta.made,
            grain: meta.grain,
            due_in_ms: meta.due.saturating_sub(meta.clock),
            crown_in_ms: meta.crown.saturating_sub(meta.clock),
            heir,
            wall_ms,
            victim,
            rewound,
        };
        self.meta = Some(meta);
        Pulse::Alive(vitals)
    }

    pub fn publish(&mut self, wall_ms: u64, publish: &Publish) -> Result<Published> {
        let Some(meta) = &self.meta else {
            return Ok(Published::Fenced);
        };
        let clock = self.hive(meta, wall_ms, meta.step);
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
            return Ok(published(meta, clock));
        }
        if self.guard("gap") && publish.made != meta.made {
            return Ok(Published::Gap);
        }
        if self.guard("moved") && publish.first != meta.seq {
            return Ok(Published::Moved { seq: meta.seq });
        }
        if publish.messages.is_some_and(|last| meta.seq + count > last) {
            return Ok(Published::Finished);
        }
        let mut head = meta.head;
        if meta.seq + count - head > publish.backlog_max {
            head = self.queue.front().map_or(meta.seq, Pack::first);
            if self.guard("full") && meta.seq + count - head > publish.backlog_max {
                return Ok(Published::Full);
            }
        }
        let mut meta = meta.clone();
        self.queue.extend(publish.packs.iter().cloned());
        if publish.interval_ms > 0 {
            meta.due = next_due(meta.due, clock, publish.interval_ms);
        }
        meta.head = head;
        meta.seq += count;
        meta.made = publish.made + count;
        self.bell = true;
        let answer = published(&meta, clock);
        self.meta = Some(meta);
        Ok(answer)
    }

    pub fn reap(&mut self, wall_ms: u64, reap: &Reap) -> Reaped {
        let nothing = Reaped {
            redelivered: 0,
            failed: 0,
            more: false,
        };
        let Some(meta) = &self.meta else { return nothing };
        let clock = self.hive(meta, wall_ms, meta.step);
        if let Some(deadline) = self.nodes.get(&reap.victim) {
            if self.guard("reap-expired") && *deadline > clock {
                return nothing;
            }
            self.depose(&reap.victim);
        } else if !self.dead.contains(&reap.victim) {
            return nothing;
        }
        let mut taken = self.taken.remove(&reap.victim).unwrap_or_default();
        let (mut redelivered, mut failed) = (0, 0);
        for _ in 0..REAP_PACKS_MAX {
            if failed >= 1000 {
                break;
            }
            let Some((_, pack)) = taken.pieces.pop_first() else {
                break;
            };
            if self.guard("deliveries") && pack.attempt() >= reap.deliveries_max {
                let text = format!("delivered {} times without an outcome", pack.attempt());
                for index in 0..pack.count() {
                    self.fail(&pack, index, wall_ms, &reap.victim, text.clone());
                }
                failed += pack.count() as u64;
            } else {
                redelivered += pack.count() as u64;
                self.again.push_back(pack.next_attempt());
            }
        }
        let meta = self.meta.as_mut().expect("seen above");
        if redelivered > 0 {
            meta.again = true;
            self.bell = true;
        }
        meta.failed += failed;
        let more = !taken.pieces.is_empty();
        if more {
            taken.held = taken.held.map(|held| held - redelivered - failed);
            self.taken.insert(reap.victim.clone(), taken);
        } else {
            self.dead.retain(|other| *other != reap.victim);
        }
        Reaped {
            redelivered,
            failed,
            more,
        }
    }

    pub fn leave(&mut self, node: &NodeId) {
        if !self.nodes.contains_key(node) {
            return;
        }
        let (held, ruled) = self.depose(node);
        if held == 0 {
            self.dead.retain(|other| other != node);
            self.taken.remove(node);
        }
        if ruled {
            self.crown_bell = true;
        }
    }

    /// Ends a membership; what it still holds, and whether it had the crown.
    fn depose(&mut self, node: &NodeId) -> (u64, bool) {
        let close = self.guard("depose-lanes");
        let meta = self.meta.as_mut().expect("a member has a queue");
        let taken = self.taken.entry(node.clone()).or_default();
        let mut held: i64 = 0;
        for lane in taken.lanes.values() {
            meta.done += lane.done;
            meta.failed += lane.failed;
            held += lane.held;
        }
        let held = u64::try_from(held).expect("a node settles only what it holds");
        if close {
            taken.lanes.clear();
            taken.worn = (0, 0);
        }
        taken.held = Some(held);
        self.nodes.remove(node);
        self.dead.push_back(node.clone());
        meta.heirs.retain(|other| other != node);
        let ruled = meta.generator == *node;
        if ruled {
            meta.generator = String::new();
            meta.crown = 0;
        }
        (held, ruled)
    }

    /// Keeps a failed message among the errors.
    fn fail(&mut self, pack: &Pack, index: usize, time_ms: u64, node: &str, error: String) {
        let message = pack.message(index);
        self.errors.insert(
            message.number,
            Failed {
                number: message.number,
                attempt: message.attempt,
                epoch: message.epoch,
                published_ms: message.published_ms,
                time_ms,
                node: node.to_string(),
                error: error.into_bytes(),
                payload: message.payload.to_vec(),
            },
        );
    }

    /// One consistent look; none if there is no queue.
    #[must_use]
    pub fn status(&self, wall_ms: u64) -> Option<Status> {
        let meta = self.meta.as_ref()?;
        let clock = self.hive(meta, wall_ms, meta.step);
        let sum = |of: fn(&Lane) -> i64, taken: &Taken| {
            u64::try_from(taken.lanes.values().map(of).sum::<i64>()).expect("counts of a node are not negative")
        };
        let mut order: Vec<_> = self.nodes.iter().map(|(node, deadline)| (*deadline, node)).collect();
        order.sort();
        let nodes: Vec<NodeStatus> = order
            .into_iter()
            .map(|(_, node)| {
                let taken = &self.taken[node];
                NodeStatus {
                    node: node.clone(),
                    host: taken.host.clone(),
                    pid: taken.pid,
                    version: taken.version.clone(),
                    concurrency: taken.concurrency,
                    age_ms: clock.saturating_sub(taken.joined),
                    in_hand: sum(|lane| lane.held, taken),
                    done: sum(|lane| lane.done.cast_signed(), taken),
                    failed: sum(|lane| lane.failed.cast_signed(), taken),
                }
            })
            .collect();
        let orphaned: u64 = self.dead.iter().filter_map(|node| self.taken.get(node)?.held).sum();
        let read: usize = self.reading.values().map(|(_, batch)| batch.len()).sum();
        let mut status = Status {
            birth: meta.birth.clone(),
            generator: (meta.crown > clock).then(|| meta.generator.clone()),
            epoch: meta.epoch,
            published: meta.seq,
            queued: 0,
            in_hand: orphaned + nodes.iter().map(|node| node.in_hand).sum::<u64>(),
            later: 0,
            done: meta.done + nodes.iter().map(|node| node.done).sum::<u64>(),
            failed: meta.failed + nodes.iter().map(|node| node.failed).sum::<u64>(),
            errors: (self.errors.len() + read) as u64,
            rewinds: meta.rewinds,
            grain: meta.grain,
            nodes,
        };
        status.count_queued(meta.requeued);
        Some(status)
    }
}

impl Status {
    /// What is neither settled nor in hand nor put off is queued: there is nowhere else to be.
    pub(crate) fn count_queued(&mut self, requeued: u64) {
        self.queued = (self.published + requeued).saturating_sub(self.done + self.failed + self.in_hand + self.later);
    }
}

fn is_behind(meta: &Meta, seen: &Seen) -> bool {
    seen.seq > meta.seq || seen.epoch > meta.epoch
}

/// Brings a store that went back in time up to what was seen: no number and no epoch is ever used twice.
fn raise(meta: &mut Meta, seen: &Seen) {
    meta.seq = meta.seq.max(seen.seq);
    meta.epoch = meta.epoch.max(seen.epoch);
    meta.generator = String::new();
    meta.crown = 0;
}

/// The one whose lease ended first, if it has ended.
fn expired(leases: &BTreeMap<String, u64>, clock: u64) -> Option<&String> {
    let (name, deadline) = leases.iter().min_by_key(|(name, deadline)| (**deadline, *name))?;
    (*deadline <= clock).then_some(name)
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
