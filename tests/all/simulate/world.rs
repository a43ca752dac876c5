//! The world that a fleet lives in: one store, one clock, the wires in between, and whoever watches.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use queenright::engine::memory::State;
use queenright::engine::rules;
use queenright::engine::{Exchanged, Wake};
use queenright::error::Error;
use queenright::settings::Names;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::checks::{Book, Glance, Told};
use super::plan::Plan;
use super::process::{Kind, Process};
use super::replica::Replica;
use crate::conformance::QUEUE;
use crate::oracle::{Answer, Call, local};

/// The wall clock at the beginning.
pub const WALL_MS: u64 = 1_700_000_000_000;
/// More calls than any sound fleet makes in a plan.
const CALLS_MAX: u64 = 60_000;

/// One step of what the store did, to be replayed on another.
#[derive(Debug, Clone)]
pub enum Step {
    Called {
        wall_ms: u64,
        call: Box<Call>,
        answer: Box<Answer>,
    },
    Heard(Wake),
    /// What no call can do: replays end here.
    Miracle,
}

pub struct World {
    pub plan: Plan,
    inner: Mutex<Inner>,
    pub failed: Notify,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Inner {
    pub plan: Plan,
    pub rng: Rng,
    pub state: State,
    pub processes: Vec<Process>,
    /// Node and reader ids, and the processes behind them.
    pub members: BTreeMap<String, usize>,
    pub book: Book,
    pub told: Told,
    pub kept: Option<(State, Book)>,
    pub replica: Replica,
    pub rewound: bool,
    /// All nodes have ended.
    pub is_over: bool,
    /// Someone else has appended messages.
    pub pushed: bool,
    start: Instant,
    wall_offset: i64,
    /// The furthest that the wall clock was ever ahead.
    wall_offset_max: i64,
    /// When it was last set.
    pub wall_set: u64,
    pub up: bool,
    pub frozen_until: u64,
    pub full: bool,
    pub accidents: u32,
    /// When anything last befell the store itself.
    pub store_trouble: u64,
    /// And when a row of that began.
    pub store_trouble_since: u64,
    /// One more each time that the store goes back: what was sent to the store that was does not reach the one that is.
    pub era: u32,
    waiters: [VecDeque<Waiter>; 2],
    pub history: Option<Vec<Step>>,
    pub hash: u64,
    pub calls: u64,
    pub failure: Option<String>,
    notes: VecDeque<String>,
    pub chatty: bool,
}

struct Waiter {
    process: usize,
    generation: u32,
    until: u64,
    ring: oneshot::Sender<()>,
}

fn index(wake: Wake) -> usize {
    match wake {
        Wake::Bell => 0,
        Wake::Crown => 1,
    }
}

impl World {
    pub fn new(plan: Plan, record: bool, chatty: bool) -> Arc<Self> {
        let inner = Inner {
            rng: Rng::with_seed(plan.seed ^ 0x5eed),
            state: State::new(QUEUE, &Names::default()),
            processes: Vec::new(),
            members: BTreeMap::new(),
            book: Book::default(),
            told: Told::default(),
            kept: None,
            replica: Replica::default(),
            rewound: false,
            is_over: false,
            pushed: false,
            start: Instant::now(),
            wall_offset: 0,
            wall_offset_max: 0,
            wall_set: 0,
            up: true,
            frozen_until: 0,
            full: false,
            accidents: plan.accidents,
            store_trouble: 0,
            store_trouble_since: 0,
            era: 0,
            waiters: [VecDeque::new(), VecDeque::new()],
            history: record.then(Vec::new),
            hash: 0xcbf2_9ce4_8422_2325,
            calls: 0,
            failure: None,
            notes: VecDeque::new(),
            chatty,
            plan: plan.clone(),
        };
        Arc::new(Self {
            plan,
            inner: Mutex::new(inner),
            failed: Notify::new(),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One look, or one change, and whether it broke something.
    pub fn with<T>(&self, what: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let answer = what(&mut inner);
        if inner.failure.is_some() {
            self.failed.notify_one();
        }
        answer
    }

    /// Waits while the process is stopped; for ever, if it was killed.
    pub async fn gate(&self, process: usize) {
        loop {
            let resumed = {
                let inner = self.lock();
                let process = &inner.processes[process];
                if !process.paused && !process.dead {
                    return;
                }
                process.resumed.clone()
            };
            resumed.notified().await;
        }
    }
}

pub async fn sleep_ms(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl Inner {
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).expect("short")
    }

    pub fn wall(&self) -> u64 {
        (WALL_MS + self.now()).saturating_add_signed(self.wall_offset)
    }

    pub fn step_wall(&mut self, by: i64) {
        self.wall_offset += by;
        self.wall_set = self.now();
        self.wall_offset_max = self.wall_offset_max.max(self.wall_offset);
    }

    /// As far ahead as it ever was: what is put off until then need not be waited for.
    pub fn set_wall_right(&mut self) {
        self.wall_offset = self.wall_offset_max;
        self.wall_set = self.now();
    }

    pub fn nodes_at_work(&self) -> usize {
        let works = |process: &&Process| process.works() && process.kind == Kind::Node;
        self.processes.iter().filter(works).count()
    }

    pub fn someone_is_alive(&self) -> bool {
        let Some(meta) = &self.state.meta else { return false };
        let clock = meta.clock + self.wall().saturating_sub(meta.wall).min(meta.step);
        self.state.nodes.values().any(|until| *until > clock)
    }

    /// The first thing that broke; the rest follows from it.
    pub fn fail(&mut self, what: &str) {
        if self.failure.is_none() {
            let notes: Vec<_> = self.notes.iter().cloned().collect();
            let now = self.now();
            self.failure = Some(format!("at {now} ms: {what}\nafter\n  {}", notes.join("\n  ")));
        }
    }

    pub fn note(&mut self, note: impl FnOnce() -> String) {
        if self.chatty {
            let line = format!("{:>6} {}", self.now(), note());
            println!("{line}");
            self.notes.push_back(line);
            if self.notes.len() > 40 {
                self.notes.pop_front();
            }
        }
    }

    pub fn trace(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    }

    /// Whose connections the store sees: of those that live, and of the dead whose hosts are gone as well.
    pub fn see_connections(&mut self) {
        let now = self.now();
        let seen = self.members.iter().filter(|(node, process)| {
            let process = &self.processes[**process];
            let open = !process.vanished && !process.dropped && process.ended.is_none();
            process.shows == **node && open && process.hidden_until <= now
        });
        self.state.connected.0 = seen.map(|(node, _)| node.clone()).collect();
    }

    /// The connection of a process that lives breaks for a while.
    pub fn hide(&mut self, process: usize) {
        let (now, lease) = (self.now(), self.plan.lease_ms());
        let until = now + self.rng.u64(1..=lease / 4);
        let hidden = &mut self.processes[process];
        hidden.hidden_until = until;
        hidden.trouble = hidden.trouble.max(until + lease / 2);
    }

    pub fn execute(&mut self, process: usize, call: &Call) -> Result<Answer, Error> {
        let wall_ms = self.wall();
        if self.plan.settings.watch {
            self.see_connections();
        }
        self.calls += 1;
        if self.calls > CALLS_MAX {
            self.fail("the fleet calls and calls");
        }
        let before = Glance::of(self, call, wall_ms);
        let answer = match call {
            Call::Join(join) => {
                // A node with other key names looks at the same `meta` with other eyes.
                let names = self.processes[process].names.clone();
                let own = std::mem::replace(&mut self.state.names, names);
                let joined = rules::join(&mut self.state, wall_ms, join);
                self.state.names = own;
                Answer::Joined(joined?)
            }
            Call::Push(push) => {
                let names = self.processes[process].names.clone();
                if self.state.meta.is_none() && names != self.state.names {
                    return Err(no_queue());
                }
                let own = std::mem::replace(&mut self.state.names, names);
                let pushed = rules::push(&mut self.state, wall_ms, push);
                self.state.names = own;
                Answer::Pushed(pushed?)
            }
            Call::Pause(..)
            | Call::PauseGroup(..)
            | Call::Limit(_)
            | Call::Cancel(_)
            | Call::CancelGroup(_)
            | Call::Handover(_)
            | Call::Purge(_)
                if self.state.meta.is_none() =>
            {
                return Err(no_queue());
            }
            call => local(&mut self.state, wall_ms, call),
        };
        self.note(|| format!("{process}: {}", brief(call, &answer)));
        if let Some(history) = &mut self.history {
            let (call, answer) = (Box::new(call.clone()), Box::new(answer.clone()));
            history.push(Step::Called { wall_ms, call, answer });
        }
        self.replicate();
        self.trace_call(process, call, &answer);
        self.check(process, call, &answer, &before);
        self.ring();
        Ok(answer)
    }

    fn trace_call(&mut self, process: usize, call: &Call, answer: &Answer) {
        let verb = match call {
            Call::Join(_) => 1,
            Call::Beat(_) => 2,
            Call::Publish(_) => 3,
            Call::Exchange(exchange) => 4 + 16 * exchange.call + 4096 * exchange.settles.len() as u64,
            Call::Reap(_) => 5,
            Call::Leave(_) => 6,
            Call::Collect(collect) => 7 + 16 * collect.call,
            Call::Hold(..) => 8,
            Call::Release(..) => 9,
            Call::Failed(..) => 10,
            Call::Status => 11,
            Call::Push(_) => 12,
            Call::Requeue(_) => 13,
            Call::Discard(_) => 14,
            Call::Pause(..) => 15,
            Call::Handover(_) => 0,
            Call::Trim(_) => 16,
            Call::Report(_) => 17,
            Call::History(_) => 18,
            Call::Purge(_) => 32,
            Call::PauseGroup(..) => 33,
            Call::Limit(_) => 34,
            Call::Cancel(numbers) => 37 + 64 * numbers.len() as u64,
            Call::CancelGroup(_) => 38,
            Call::Find(_) => 35,
            Call::Endings(_) => 36,
        };
        let told = match answer {
            Answer::Exchanged(Exchanged::Ok { packs, .. }) => packs.iter().map(|pack| pack.first() + 1).sum(),
            Answer::Exchanged(_) => 77,
            Answer::Published(published) => u64::from(matches!(published, queenright::engine::Published::Ok { .. })),
            _ => 0,
        };
        let (now, wall) = (self.now(), self.wall());
        let meta = self.state.meta.as_ref();
        let meta = meta.map_or((0, 0, 0, 0), |meta| (meta.clock, meta.epoch, meta.seq, meta.grain));
        let node = self
            .state
            .nodes
            .keys()
            .flat_map(|node| node.bytes())
            .map(u64::from)
            .sum();
        for word in [
            now,
            wall,
            process as u64,
            verb,
            told,
            meta.0,
            meta.1,
            meta.2,
            meta.3,
            node,
        ] {
            self.trace(word);
        }
    }

    /// Whoever has waited longest at a rung bell hears it, if its connection still carries anything.
    pub fn ring(&mut self) {
        for wake in [Wake::Bell, Wake::Crown] {
            let now = self.now();
            loop {
                let rung = match wake {
                    Wake::Bell => self.state.bell,
                    Wake::Crown => self.state.crown_bell,
                };
                if !rung || !self.up || self.frozen_until > now {
                    break;
                }
                let Some(waiter) = self.waiters[index(wake)].pop_front() else {
                    break;
                };
                let process = &self.processes[waiter.process];
                if waiter.until <= now || waiter.generation != process.generation {
                    continue;
                }
                let swallowed = process.dead || process.mute_until > now || process.hole_until > now;
                match wake {
                    Wake::Bell => self.state.bell = false,
                    Wake::Crown => self.state.crown_bell = false,
                }
                if let Some(history) = &mut self.history {
                    history.push(Step::Heard(wake));
                }
                self.trace(1000 + waiter.process as u64);
                if !swallowed {
                    let _ = waiter.ring.send(());
                }
            }
        }
    }

    /// Waits at a bell, at the store's side.
    pub fn wait(&mut self, process: usize, wake: Wake, at_most: Duration) -> oneshot::Receiver<()> {
        let (ring, heard) = oneshot::channel();
        let until = self.now() + u64::try_from(at_most.as_millis()).expect("short");
        let generation = self.processes[process].generation;
        self.waiters[index(wake)].push_back(Waiter {
            process,
            generation,
            until,
            ring,
        });
        self.ring();
        heard
    }

    /// The store goes back to what was kept, and so does the book of what it did.
    pub fn rewind(&mut self) {
        if let Some((state, book)) = self.kept.clone() {
            self.note(|| "the store goes back in time".into());
            if self.plan.settings.replicas > 0 {
                self.kept = None;
                self.promote_replica(&book);
            }
            #[cfg(feature = "mutants")]
            let without = self.state.without.take();
            self.state = state;
            #[cfg(feature = "mutants")]
            {
                self.state.without = without;
            }
            self.book = book;
            self.rewound = true;
            self.era += 1;
            self.miracle();
        }
    }

    fn miracle(&mut self) {
        if let Some(history) = &mut self.history {
            history.push(Step::Miracle);
        }
    }
}

fn no_queue() -> Error {
    Error::NoQueue { queue: QUEUE.into() }
}

/// What comes behind the cursor, or behind the number in a payload.
pub fn item(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |item| u64::from_le_bytes(*item))
}

/// A message says its own number.
pub fn payload(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// One line for whoever looks into a failure.
fn brief(call: &Call, answer: &Answer) -> String {
    let call = match call {
        Call::Join(join) => format!("join {}", join.node),
        Call::Beat(beat) => format!("beat {} eligible {} seen {:?}", beat.node, beat.eligible, beat.seen.seq),
        Call::Publish(publish) => {
            let count: usize = publish.packs.iter().map(queenright::message::Pack::count).sum();
            format!(
                "publish {}:{} {}+{count} made {}",
                publish.node, publish.epoch, publish.first, publish.made
            )
        }
        other => format!("{other:?}"),
    };
    let mut answer = format!("{answer:?}");
    if let Some((at, _)) = answer.char_indices().nth(300) {
        answer.truncate(at);
    }
    format!("{call} → {answer}")
}
