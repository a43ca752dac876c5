//! The processes of a fleet: nodes, readers of errors, and some that do not belong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use queenright::engine::{Engine, Exchange, Exchanged, Failed, Join, Run, Seen, Settle, Sights};
use queenright::error::Error;
use queenright::event::{Entry, Event, Observer, What};
use queenright::failed::{ShowAsync, collect_async};
use queenright::generate::{Draft, Generate, Made, Next};
use queenright::handle::{Failure, Handle, Handled};
use queenright::settings::Names;
use queenright::settings::Prefer;
use queenright::shutdown::{self, Stopper};
use queenright::{Message, Node, Outcome, Settings};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::plan::Deed;
use super::wire::Wire;
use super::world::{World, item, payload, sleep_ms};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Node,
    Reader,
    Rogue,
    Stranger,
    Operator,
    Pusher,
    /// A node that handles what is there, and ends.
    Burst,
}

/// A process, as the world sees it.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Process {
    pub kind: Kind,
    pub names: Names,
    pub prefer: Prefer,
    pub dead: bool,
    pub paused: bool,
    pub resumed: Arc<Notify>,
    /// How it ended by itself.
    pub ended: Option<Result<(), String>>,
    pub stopping: Option<u64>,
    pub dropped: bool,
    pub stopper: Option<Stopper>,
    pub abort: Option<AbortHandle>,
    /// Connections of an older generation are cut.
    pub generation: u32,
    pub slow_until: u64,
    pub mute_until: u64,
    pub hole_until: u64,
    /// The node that its connection shows.
    pub shows: String,
    /// Until then the store does not see its connection, although it lives.
    pub hidden_until: u64,
    /// It was killed, and its host has closed the connections.
    pub vanished: bool,
    /// When anything last befell it.
    pub trouble: u64,
    /// Its membership, as far as it knows, and since when.
    pub node: String,
    pub joined: u64,
    /// What it was told.
    pub halted: bool,
    pub reigns: Option<u64>,
    pub seen: u64,
    /// How often it heard, and how often it told, that the store went back in time.
    pub rewinds: (u64, u64),
    /// What it sent (epoch, made, first), and whether it had seen that number when it sent it first.
    pub publishes: BTreeMap<(u64, u64, u64), bool>,
    /// How many publishes, and how many exchanges, of it are on their way.
    pub flying: [u32; 2],
    /// In which epoch it publishes, and how many had been made before the oldest call that is not answered.
    pub oldest: (u64, u64),
    /// The last call of each of its lanes, how many messages that wants, and how many words of a limit were heard when it was made.
    pub last_calls: BTreeMap<u32, (u64, u32, u64)>,
    /// How many words of a limit were heard, and until when there is no more.
    pub limited: (u64, u64),
    pub last_sent: u64,
    pub last_was_empty: bool,
    /// What its handler does.
    pub running: u32,
    pub last_start: u64,
    pub got: BTreeMap<u64, u64>,
    /// What its calls were to settle, of those that are not answered.
    pub intents: Vec<u64>,
    /// What it was told of cancelled messages.
    pub doomed: super::cancels::Doomed,
    /// What its calls gave back, and it has not written down yet.
    pub given_back: BTreeSet<u64>,
}

impl Process {
    fn new(kind: Kind, names: Names, now: u64) -> Self {
        Self {
            kind,
            names,
            prefer: Prefer::Either,
            dead: false,
            paused: false,
            resumed: Arc::default(),
            ended: None,
            stopping: None,
            dropped: false,
            stopper: None,
            abort: None,
            generation: 0,
            slow_until: 0,
            mute_until: 0,
            hole_until: 0,
            shows: String::new(),
            hidden_until: 0,
            vanished: false,
            trouble: 0,
            node: String::new(),
            joined: now,
            halted: false,
            reigns: None,
            seen: 0,
            rewinds: (0, 0),
            publishes: BTreeMap::new(),
            flying: [0; 2],
            oldest: (0, 0),
            last_calls: BTreeMap::new(),
            limited: (0, 0),
            last_sent: 0,
            last_was_empty: false,
            running: 0,
            last_start: 0,
            got: BTreeMap::new(),
            intents: Vec::new(),
            given_back: BTreeSet::new(),
            doomed: super::cancels::Doomed::default(),
        }
    }

    /// Whether it runs as it should: not killed, stopped, ended or about to end.
    pub fn works(&self) -> bool {
        !self.dead && !self.paused && self.ended.is_none() && self.stopping.is_none() && !self.dropped
    }

    /// Nothing has befallen it since then.
    pub fn is_calm(&self, since: u64) -> bool {
        !self.dead && !self.paused && !self.dropped && self.trouble < since
    }
}

#[cfg(feature = "mutants")]
impl super::world::Inner {
    /// The next node draws the id of one that works.
    fn draw_twin(&mut self) {
        let works = |process: &&Process| process.works() && self.state.nodes.contains_key(&process.node);
        let ids: Vec<String> = self
            .processes
            .iter()
            .filter(works)
            .map(|process| process.node.clone())
            .collect();
        if let Some(id) = self.rng.choice(&ids).cloned() {
            queenright::mutants::draw_next(id);
        }
    }
}

pub fn add(world: &World, kind: Kind, names: Names) -> usize {
    world.with(|inner| {
        let now = inner.now();
        inner.processes.push(Process::new(kind, names, now));
        inner.processes.len() - 1
    })
}

pub fn wire(world: &Arc<World>, process: usize) -> Arc<Wire> {
    Arc::new(Wire {
        world: world.clone(),
        process,
        sights: Sights::default(),
    })
}

/// One more node.
pub fn start_node(world: &Arc<World>, kind: Kind) -> usize {
    let prefer = world.plan.prefer(world.lock().processes.len());
    start_node_that(world, kind, prefer)
}

/// One more node, that would like to generate or not.
pub fn start_node_that(world: &Arc<World>, kind: Kind, prefer: Prefer) -> usize {
    let mut settings: Settings = world.plan.settings.clone();
    (settings.prefer, settings.burst) = (prefer, kind == Kind::Burst);
    if kind == Kind::Stranger {
        settings.names.errors = "failures".into();
    }
    let process = add(world, kind, settings.names.clone());
    settings.lease = world.plan.lease(process);
    world.lock().processes[process].prefer = prefer;
    #[cfg(feature = "mutants")]
    if world.plan.twins && kind == Kind::Node {
        world.with(super::world::Inner::draw_twin);
    }
    let (stopper, shutdown) = shutdown::channel();
    let generate = Maker {
        world: world.clone(),
        process,
    };
    let handle = Worker {
        world: world.clone(),
        process,
    };
    let watch = Arc::new(Watch {
        world: world.clone(),
        process,
    });
    let node = Node::new(wire(world, process), settings, generate, handle)
        .observer(watch)
        .beats_here();
    let (here, over) = (world.clone(), world.clone());
    let running = tokio::spawn(async move {
        let ended = node.run(shutdown).await;
        over.with(|inner| inner.ended(process, ended));
    });
    here.with(|inner| {
        inner.note(|| format!("{process}: starts as {kind:?}"));
        inner.processes[process].stopper = Some(stopper);
        inner.processes[process].abort = Some(running.abort_handle());
    });
    process
}

/// kill -9: nothing that it still wants to say reaches anyone.
pub fn kill(world: &Arc<World>, process: usize) {
    let node = world.with(|inner| {
        inner.note(|| format!("{process}: killed"));
        // Its host closes the connections, unless the host is gone as well.
        let closed = inner.rng.bool();
        let killed = &mut inner.processes[process];
        killed.dead = true;
        killed.generation += u32::from(closed);
        killed.vanished = closed;
        if let Some(abort) = &killed.abort {
            abort.abort();
        }
        killed.kind == Kind::Node && killed.ended.is_none()
    });
    if node {
        let world = world.clone();
        let prefer = world.lock().processes[process].prefer;
        let pause = world.with(|inner| inner.rng.u64(0..inner.plan.lease_ms()));
        tokio::spawn(async move {
            sleep_ms(pause).await;
            let nodes = world.with(|inner| inner.nodes_at_work());
            if nodes < world.plan.nodes_max {
                start_node_that(&world, Kind::Node, prefer);
            }
        });
    }
}

pub fn pause(world: &Arc<World>, process: usize, ms: u64) {
    world.with(|inner| {
        inner.note(|| format!("{process}: stopped for {ms} ms"));
        inner.processes[process].paused = true;
    });
    let world = world.clone();
    tokio::spawn(async move {
        sleep_ms(ms).await;
        resume(&world, process);
    });
}

pub fn resume(world: &World, process: usize) {
    world.with(|inner| {
        let now = inner.now();
        let resumed = &mut inner.processes[process];
        if resumed.paused {
            resumed.paused = false;
            resumed.trouble = now;
            resumed.resumed.notify_waiters();
            inner.note(|| format!("{process}: goes on"));
        }
    });
}

/// What a node generates: each message says its number. Where there is a cursor, it stands for a source of items in a
/// row, which has nothing at times, or is slow.
struct Maker {
    world: Arc<World>,
    process: usize,
}

impl Generate for Maker {
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        draft.payload.extend(payload(next.number));
        draft.group = self.world.plan.group(next.number);
        if !self.world.plan.cursor {
            return Made::Message;
        }
        let mood = self.world.with(|inner| inner.rng.u64(..64));
        if mood < 4 {
            return Made::Nothing;
        }
        if mood < 6 && !next.others_wait {
            sleep_ms(self.world.plan.lease_ms() * (mood - 3) / 16).await;
            self.world.gate(self.process).await;
        }
        let item = item(&draft.cursor);
        draft.payload.extend(item.to_le_bytes());
        draft.cursor = (item + 1).to_le_bytes().to_vec();
        Made::Message
    }
}

/// The work of a node.
struct Worker {
    world: Arc<World>,
    process: usize,
}

/// Ends also when the slot is dropped.
struct Running<'a>(&'a Worker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.world.with(|inner| inner.processes[self.0.process].running -= 1);
    }
}

impl Handle for Worker {
    async fn handle(&self, message: Message) -> Handled {
        let handled = self.work(&message).await;
        if handled.is_err() && message.is_cancelled() {
            self.world
                .with(|inner| inner.fails_when_told(self.process, message.number));
        }
        handled
    }
}

impl Worker {
    async fn work(&self, message: &Message) -> Handled {
        self.world.with(|inner| inner.starts(self.process, message));
        let running = Running(self);
        let (plan, number) = (&self.world.plan, message.number);
        let (deed, fails) = (plan.deed(number), message.failures < plan.failures(number));
        let working = sleep_ms(plan.work_ms(number));
        // Some handlers look whether they are to go on.
        let is_stopped = if plan.cancels && number.is_multiple_of(2) {
            let cancellation = message.cancellation();
            tokio::select! {
                biased;
                () = working => false,
                () = cancellation.cancelled() => true,
            }
        } else {
            working.await;
            false
        };
        self.world.gate(self.process).await;
        drop(running);
        if is_stopped {
            return Err("stopped".into());
        }
        match deed {
            Deed::Fail => Err("does not work".into()),
            Deed::Flaky if fails => Err("does not work yet".into()),
            Deed::Busy if fails => Err(match plan.another_time(number) {
                Some(after) => Failure::retry_after("busy", after),
                None => Failure::retry("busy"),
            }),
            Deed::Panic => panic!("meant to"),
            Deed::Poison => {
                kill(&self.world, self.process);
                std::future::pending().await
            }
            deed => {
                let result = message
                    .is_asked()
                    .then(|| queenright::Effect::result(format!("of {number}")));
                let effects = deed.effects(number).into_iter().chain(plan.published(number));
                Ok(effects.chain(result).collect())
            }
        }
    }
}

/// Passes on what a node is told.
struct Watch {
    world: Arc<World>,
    process: usize,
}

impl Observer for Watch {
    fn observe(&self, node: &str, events: &[Event]) {
        self.world.with(|inner| inner.observes(self.process, node, events));
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn intends(&self, _node: &str, entries: &[Entry]) {
        if !publishes(entries) {
            let numbers = entries.iter().flat_map(|entry| entry.first..entry.first + entry.count);
            let numbers: Vec<u64> = numbers.collect();
            self.world.with(|inner| {
                let process = &mut inner.processes[self.process];
                let early = numbers.iter().find(|number| process.given_back.contains(number)).copied();
                process.intents.extend(numbers);
                if let Some(number) = early {
                    inner.fail(&format!(
                        "the book does not say that message {number} was given back, and already that it is to be settled"
                    ));
                }
            });
        }
    }

    fn refuses(&self, node: &str) {
        self.world.with(|inner| inner.refused(self.process, node));
    }

    fn confirms(&self, _node: &str, entries: &[Entry]) {
        self.world.with(|inner| {
            if !publishes(entries) {
                let process = &mut inner.processes[self.process];
                for entry in entries.iter().filter(|entry| entry.what == What::Return) {
                    let behind = entry.first + entry.count;
                    process
                        .given_back
                        .retain(|number| !(entry.first..behind).contains(number));
                }
            }
            inner.confirmed(self.process, entries);
        });
    }
}

fn publishes(entries: &[Entry]) -> bool {
    let is_publish = |entry: &Entry| matches!(entry.what, What::Publish { .. });
    entries.iter().any(is_publish)
}

/// Reads errors, all or some.
pub fn start_reader(world: &Arc<World>, limit: Option<u64>, calm: bool) -> usize {
    let process = add(world, Kind::Reader, Names::default());
    let printer = Printer {
        world: world.clone(),
        process,
        calm,
    };
    let reading = collect_async(wire(world, process), limit, printer);
    let over = world.clone();
    let running = tokio::spawn(async move {
        let ended = reading.await;
        over.with(|inner| {
            inner.note(|| format!("{process}: has read: {ended:?}"));
            inner.processes[process].ended = Some(ended.map(drop).map_err(|error| error.to_string()));
        });
    });
    world.with(|inner| {
        inner.note(|| format!("{process}: starts to read"));
        inner.processes[process].abort = Some(running.abort_handle());
    });
    process
}

struct Printer {
    world: Arc<World>,
    process: usize,
    calm: bool,
}

impl ShowAsync for Printer {
    async fn show(self, failed: Vec<Failed>) -> std::io::Result<Self> {
        let (slow, breaks) = self.world.with(|inner| match inner.rng.u8(..16) {
            _ if self.calm => (0, false),
            0..=2 => (inner.rng.u64(0..3000), false),
            3 => (0, true),
            _ => (inner.rng.u64(0..20), false),
        });
        // One that is stopped in the middle has more to print when it goes on.
        for _ in 0..2 {
            sleep_ms(slow).await;
            self.world.gate(self.process).await;
        }
        if breaks {
            self.world.with(|inner| {
                let now = inner.now();
                inner.processes[self.process].trouble = now;
            });
            return Err(std::io::Error::other("the pipe is closed"));
        }
        let numbers: Vec<u64> = failed.iter().map(|failed| failed.number).collect();
        self.world.with(|inner| inner.shown(self.process, &numbers));
        Ok(self)
    }
}

/// A member that is not of our making: names what it holds twice, and in runs that overlap.
pub fn start_rogue(world: &Arc<World>) {
    let process = add(world, Kind::Rogue, Names::default());
    let wire = wire(world, process);
    tokio::spawn(async move {
        let node = format!("rogue-{process}");
        let join = Join {
            node: node.clone(),
            lanes: 1,
            lease_ms: wire.world.plan.lease_ms(),
            seen: Seen::default(),
            token: "rogue".into(),
            host: "elsewhere".into(),
            pid: 0,
            version: "0".into(),
            concurrency: 1,
            deliveries_max: wire.world.plan.settings.deliveries_max,
            group_concurrency: wire.world.plan.settings.group_concurrency,
            group_skip_retries: wire.world.plan.settings.group_skip_retries,
        };
        if wire.join(&join).await.is_err() {
            return;
        }
        let mut exchange = Exchange {
            node,
            lane: 0,
            call: 1,
            settles: Vec::new(),
            want: 3,
            want_bytes: u32::MAX,
            woken: true,
            ..Exchange::default()
        };
        let Ok(Exchanged::Ok { packs, .. }) = wire.exchange(&exchange).await else {
            return;
        };
        let Some(pack) = packs.first() else { return };
        let done = |from, count| Run {
            from,
            count,
            outcome: Outcome::Error("rogue".into()),
        };
        let settle = |runs| Settle {
            piece: pack.first(),
            runs,
        };
        (exchange.call, exchange.want) = (2, 0);
        exchange.settles = vec![settle(vec![done(0, 1)]), settle(vec![done(0, 1)])];
        let _ = wire.exchange(&exchange).await;
        exchange.call = 3;
        exchange.settles = vec![settle(vec![done(0, 1), done(0, 1)])];
        let _ = wire.exchange(&exchange).await;
        exchange.call = 2;
        let _ = wire.exchange(&exchange).await;
    });
}

/// What a node must end with.
pub fn is_right_end(kind: Kind, ended: &Result<(), Error>) -> bool {
    match kind {
        Kind::Stranger => matches!(ended, Err(Error::OtherNames { .. } | Error::NewerLayout { .. })),
        _ => ended.is_ok(),
    }
}
