//! What a seed decides before anything runs: the fleet, its settings, and when which fault comes.

use std::time::Duration;

use fastrand::Rng;
use queenright::engine::Limits;
use queenright::settings::Prefer;
use queenright::{Effect, Settings};

use crate::conformance::QUEUE;

/// Something that befalls the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// kill -9; started again after a while.
    Kill,
    KillGenerator,
    /// SIGSTOP, and SIGCONT after so many milliseconds.
    Pause(u64),
    PauseGenerator(u64),
    /// An orderly end.
    Stop,
    StopGenerator,
    /// The future of a node is dropped inside a process that goes on.
    Drop,
    /// One more node.
    Start,
    /// One more that handles what is there, and ends.
    Burst,
    /// Connections break; what was on its way may have arrived or not.
    Cut,
    /// A node's packets are slow for so long.
    Delay(u64),
    /// Requests arrive, answers do not.
    HalfOpen(u64),
    BlackHole(u64),
    /// The store refuses connections.
    Away(u64),
    /// All connections break at once.
    Restart,
    /// The store stands still, and then answers everything.
    Freeze(u64),
    /// The store refuses to grow.
    Full(u64),
    /// Its wall clock steps.
    Step(i64),
    /// A copy of the state is kept, to go back to.
    Keep,
    Rewind,
    /// Someone pushes messages.
    Push,
    /// The generator, the handlers or both are paused, and resumed.
    Halt {
        generator: bool,
        handlers: bool,
    },
    Resume {
        generator: bool,
        handlers: bool,
    },
    /// A group is paused, and all are resumed.
    HaltGroup,
    ResumeGroups,
    /// How fast messages may be taken is limited, or not any more.
    Limit(Limits),
    /// A few messages, perhaps ones that are not there, are cancelled; or a group.
    Cancel,
    CancelGroup,
    /// The crown is handed to one of the nodes, to any, or to one that is not there.
    Handover,
    /// Errors are put in again, or removed.
    Requeue,
    Discard,
    /// Someone wants to remove the queue while nodes work on it.
    Purge,
    /// A reader of errors.
    Read,
    KillReader,
    PauseReader(u64),
    /// A member that names what it holds in wrong words.
    Rogue,
    /// A node with other key names.
    Stranger,
}

/// What a handler does with a message, as its number decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Done,
    Count,
    Fail,
    Panic,
    /// Effects that must be refused.
    WrongType,
    NoNumber,
    OwnKey,
    /// Kills whoever handles it.
    Poison,
    /// Fails for a while, and then is done.
    Flaky,
    /// Requests for another time, and then is done and counts.
    Busy,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Plan {
    pub seed: u64,
    pub settings: Settings,
    pub nodes: usize,
    pub nodes_max: usize,
    /// When each fault comes, in milliseconds.
    pub faults: Vec<(u64, Fault)>,
    /// How long faults may come.
    pub trouble_ms: u64,
    /// One call in so many meets an accident; 0: none.
    pub accidents: u32,
    /// The longest way of a packet, in milliseconds.
    pub latency_ms: u64,
    /// What nodes take for the time there and back, right or wrong: so far they work ahead.
    pub trip_ms: u64,
    /// What a message takes, in milliseconds; one in eight takes the second.
    pub work_ms: (u64, u64),
    pub poison: bool,
    pub rewinds: bool,
    /// The leases of the nodes in the order of their start, in milliseconds, none longer than that of the settings; all alike, if
    /// it is empty.
    pub leases: Vec<u64>,
    /// Now and then a node draws an id that another has.
    pub twins: bool,
    /// Who would like to generate, in the order of their start; all alike, if it is empty.
    pub prefers: Vec<Prefer>,
    /// Nobody may generate: all messages are pushed.
    pub barren: bool,
    /// At the end the queue is removed.
    pub purge: bool,
    /// The generator reads from a source, and leaves a cursor.
    pub cursor: bool,
    /// Some messages publish others.
    pub chains: bool,
    /// At the end, a newer program takes the queue over.
    pub newer: bool,
    /// How far a replica is behind, in milliseconds, where nodes wait for one.
    pub lag_ms: u64,
    /// Of so many looks who is connected, one is lost, wrong, or misled by a connection that breaks; 0: none.
    pub lies: u32,
    /// Most messages belong to one of so many groups; 0: there are none.
    pub groups: u64,
    /// It is limited for a time how fast messages are taken.
    pub limited: bool,
    /// Operators cancel messages.
    pub cancels: bool,
    /// Of some messages that are pushed, the outcome is asked for.
    pub asks: bool,
}

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let lease = *rng.choice(&[600, 900, 1200, 2000]).expect("some");
        let trouble_ms = lease * rng.u64(3..=8);
        let paced = rng.u8(..8) < 5;
        let interval = if paced { rng.u64(lease / 20..=lease / 3) } else { 0 };
        let messages = if paced {
            (trouble_ms / interval).min(40) + 2
        } else {
            rng.u64(5..=80)
        };
        let nodes = rng.usize(1..=5);
        let settings = Settings {
            queue: QUEUE.into(),
            concurrency: *rng.choice(&[1, 1, 2, 4]).expect("some"),
            interval: Duration::from_millis(interval),
            messages: Some(messages),
            lease: Duration::from_millis(lease),
            batch: *rng.choice(&[None, None, Some(1), Some(3)]).expect("some"),
            grace: Duration::from_millis(lease * rng.u64(1..=4)),
            backlog_max: *rng.choice(&[1, 3, 10, 1000]).expect("some"),
            deliveries_max: rng.u16(2..=5),
            also_handle: nodes == 1 || rng.u8(..4) == 0,
            watch: false,
            ..Settings::default()
        };
        let quick = rng.u8(..4) < 3;
        let mut plan = Self {
            seed,
            nodes,
            nodes_max: 6,
            faults: Vec::new(),
            trouble_ms,
            accidents: *rng.choice(&[0, 0, 100, 30, 10]).expect("some"),
            latency_ms: rng.u64(1..=3),
            trip_ms: 0,
            work_ms: (if quick { 0 } else { rng.u64(1..=30) }, rng.u64(0..=lease * 2)),
            poison: rng.u8(..8) == 0,
            rewinds: rng.u8(..8) == 0,
            newer: rng.u8(..32) == 0,
            cursor: false,
            chains: false,
            leases: Vec::new(),
            twins: false,
            prefers: Vec::new(),
            barren: false,
            purge: false,
            lag_ms: 0,
            lies: 0,
            groups: 0,
            limited: false,
            cancels: false,
            asks: false,
            settings,
        };
        plan.draw_faults(&mut rng, lease);
        plan.draw_traits(&mut Rng::with_seed(seed ^ 0x7472_6169_7473), lease);
        plan.draw_nodes(&mut Rng::with_seed(seed ^ 0x6e6f_6465_7300), lease);
        plan.draw_replica(&mut Rng::with_seed(seed ^ 0x7265_706c_6963));
        plan.draw_watching(&mut Rng::with_seed(seed ^ 0x7761_7463_6800));
        // Drawn apart, too.
        plan.chains = Rng::with_seed(seed ^ 0x6368_6169_6e73).u8(..5) == 0;
        plan.draw_groups(&mut Rng::with_seed(seed ^ 0x6772_6f75_7073));
        plan.draw_limits(&mut Rng::with_seed(seed ^ 0x6c69_6d69_7473));
        plan.asks = Rng::with_seed(seed ^ 0x0061_736b_6564).u8(..3) == 0;
        plan.draw_cancels(&mut Rng::with_seed(seed ^ 0x6361_6e63_656c));
        plan.faults.sort_by_key(|(at, fault)| (*at, *fault == Fault::Push));
        plan
    }

    /// How nodes differ. Drawn apart, too.
    fn draw_nodes(&mut self, rng: &mut Rng, lease: u64) {
        if rng.u8(..6) == 0 {
            self.leases = (0..4).map(|_| lease / rng.u64(1..=3)).collect();
        }
        self.twins = rng.u8(..6) == 0;
        if rng.u8(..3) == 0 {
            self.trip_ms = *rng.choice(&[3, 10, 50, 300]).expect("some");
        }
    }

    /// In half of the fleets whose store goes back, that is a replica which takes its place, some times over, and nodes tell only what it
    /// has. Drawn apart, too.
    fn draw_replica(&mut self, rng: &mut Rng) {
        let is_removed = self.faults.iter().any(|(_, fault)| *fault == Fault::Purge);
        if !self.rewinds || is_removed || rng.bool() {
            return;
        }
        self.settings.replicas = 1;
        self.lag_ms = rng.u64(0..=20);
        for _ in 0..rng.u64(0..=3) {
            let cut_off = rng.u64(0..self.trouble_ms);
            let promoted = rng.u64(cut_off..=self.trouble_ms);
            self.faults.extend([(cut_off, Fault::Keep), (promoted, Fault::Rewind)]);
        }
    }

    /// Whether nodes look who is connected, and how often that misleads them. Drawn apart, too.
    fn draw_watching(&mut self, rng: &mut Rng) {
        // Whoever has the id of another that is given up meanwhile, wrongly, would be taken for it.
        if rng.u8(..3) == 0 && !self.twins {
            self.settings.watch = true;
            self.lies = *rng.choice(&[0, 100, 20, 5]).expect("some");
        }
    }

    /// Whether messages belong to groups. Drawn apart, too.
    fn draw_groups(&mut self, rng: &mut Rng) {
        if rng.u8(..4) > 0 {
            return;
        }
        self.groups = rng.u64(1..=4);
        self.settings.group_concurrency = *rng.choice(&[1, 1, 1, 2]).expect("some");
        self.settings.group_skip_retries = rng.u8(..3) == 0;
        if rng.u8(..3) == 0 {
            for _ in 0..rng.u64(1..=2) {
                let at = rng.u64(0..=self.trouble_ms);
                let until = at + rng.u64(1..=self.lease_ms());
                self.faults
                    .extend([(at, Fault::HaltGroup), (until, Fault::ResumeGroups)]);
            }
        }
    }

    /// Whether it is limited how fast messages are taken, mostly to the end. Drawn apart, too.
    fn draw_limits(&mut self, rng: &mut Rng) {
        if rng.u8(..5) > 0 {
            return;
        }
        let rate = |rng: &mut Rng, of: [&str; 4]| {
            rng.choice(of)
                .filter(|_| rng.bool())
                .map(|text| text.parse().expect("a rate"))
        };
        for _ in 0..rng.u64(1..=3) {
            let limits = Limits {
                rate: rate(rng, ["10/s", "50/s", "3000/m", "1000/s"]),
                burst: 0,
                group: rate(rng, ["5/s", "20/s", "600/m", "100/s"]),
            };
            self.faults.push((rng.u64(0..=self.trouble_ms), Fault::Limit(limits)));
            self.limited = true;
        }
    }

    /// Whether messages are cancelled. Drawn apart, too.
    fn draw_cancels(&mut self, rng: &mut Rng) {
        if rng.u8(..5) > 0 {
            return;
        }
        self.cancels = true;
        for _ in 0..rng.u64(1..=5) {
            let of_group = self.groups > 0 && rng.u8(..3) == 0;
            let fault = if of_group { Fault::CancelGroup } else { Fault::Cancel };
            self.faults.push((rng.u64(0..=self.trouble_ms), fault));
        }
    }

    /// The group of a message.
    pub fn group(&self, number: u64) -> Option<String> {
        let grouped = self.groups > 0 && self.dice(number ^ 0x67, 8) > 1;
        grouped.then(|| format!("g{}", self.dice(number ^ 0x68, 64) % self.groups))
    }

    /// What only some fleets do. Drawn apart, so that the others stay as they are.
    fn draw_traits(&mut self, rng: &mut Rng, lease: u64) {
        if rng.u8(..5) == 0 {
            self.settings.retries = rng.u16(1..=3);
            self.settings.backoff = Duration::from_millis(rng.u64(0..=lease / 2));
        }
        if rng.u8(..6) == 0 {
            for _ in 0..rng.u64(1..=2) {
                let both = [(true, true), (true, false), (false, true)];
                let (generator, handlers) = *rng.choice(&both).expect("some");
                let at = rng.u64(0..=self.trouble_ms);
                self.faults.push((at, Fault::Halt { generator, handlers }));
                let (generator, handlers) = *rng.choice(&both).expect("some");
                let until = at + rng.u64(1..=2 * lease);
                self.faults.push((until, Fault::Resume { generator, handlers }));
            }
        }
        self.cursor = rng.u8(..5) == 0;
        self.draw_some(rng, Fault::Push, 6, 4);
        if rng.u8(..6) == 0 {
            let all = [Prefer::Generator, Prefer::Either, Prefer::Handler, Prefer::Never];
            self.prefers = (0..4).map(|_| *rng.choice(&all).expect("some")).collect();
        }
        if rng.u8(..24) == 0 {
            (self.barren, self.prefers) = (true, vec![Prefer::Never]);
            self.draw_some(rng, Fault::Push, 1, 6);
        }
        self.draw_some(rng, Fault::Handover, 8, 3);
        self.draw_some(rng, Fault::Requeue, 6, 4);
        self.draw_some(rng, Fault::Discard, 12, 2);
        if rng.u8(..10) == 0 {
            self.settings.errors_max = Some(rng.u64(1..=3));
        }
        self.draw_some(rng, Fault::Burst, 16, 2);
        self.draw_some(rng, Fault::Purge, 16, 2);
        self.purge = !self.newer && rng.u8(..8) == 0;
    }

    /// In one plan of so many, the same fault some times.
    fn draw_some(&mut self, rng: &mut Rng, fault: Fault, one_in: u8, most: u64) {
        if rng.u8(..one_in) > 0 {
            return;
        }
        for _ in 0..rng.u64(1..=most) {
            self.faults.push((rng.u64(0..=self.trouble_ms), fault));
        }
    }

    fn draw_faults(&mut self, rng: &mut Rng, lease: u64) {
        let long = |rng: &mut Rng| rng.u64(lease / 2..=lease * 3);
        let mut kinds = Vec::new();
        for _ in 0..rng.u64(0..=4) {
            let kind = match rng.u8(..25) {
                0 | 1 => Fault::Kill,
                2 | 3 => Fault::KillGenerator,
                4 | 5 => Fault::Pause(0),
                6 => Fault::PauseGenerator(0),
                7 => Fault::Stop,
                8 => Fault::StopGenerator,
                9 => Fault::Drop,
                10 => Fault::Start,
                11 => Fault::Cut,
                12 => Fault::Delay(0),
                13 => Fault::HalfOpen(0),
                14 => Fault::BlackHole(0),
                15 => Fault::Away(0),
                16 => Fault::Restart,
                17 => Fault::Freeze(0),
                18 => Fault::Full(0),
                19 => Fault::Step(0),
                20 => Fault::Push,
                21 | 22 => Fault::Read,
                23 => Fault::Rogue,
                _ => Fault::Stranger,
            };
            kinds.push(kind);
        }
        for _ in 0..rng.u64(1..=8) {
            let Some(kind) = rng.choice(&kinds).copied() else { break };
            let at = rng.u64(0..=self.trouble_ms);
            let fault = match kind {
                Fault::Pause(_) => Fault::Pause(long(rng)),
                Fault::PauseGenerator(_) => Fault::PauseGenerator(long(rng)),
                Fault::Delay(_) => Fault::Delay(long(rng)),
                Fault::HalfOpen(_) => Fault::HalfOpen(long(rng)),
                Fault::BlackHole(_) => Fault::BlackHole(long(rng)),
                Fault::Away(_) => Fault::Away(long(rng)),
                Fault::Freeze(_) => Fault::Freeze(rng.u64(10..=lease * 2)),
                Fault::Full(_) => Fault::Full(long(rng)),
                Fault::Step(_) => Fault::Step(rng.i64(-7_200_000..=7_200_000)),
                other => other,
            };
            if fault == Fault::Read {
                self.draw_reading(rng, at);
            } else {
                self.faults.push((at, fault));
            }
        }
        if self.rewinds {
            let mut keep = rng.u64(0..self.trouble_ms);
            let back = rng.u64(keep..=self.trouble_ms);
            // As many as were lost are appended before anyone notices.
            if rng.u8(..4) == 0 {
                keep = back.saturating_sub(rng.u64(..=lease / 3));
                self.faults
                    .extend([(back, Fault::Push), (back + rng.u64(..20), Fault::Push)]);
            }
            self.faults.extend([(keep, Fault::Keep), (back, Fault::Rewind)]);
        }
        // Errors are wanted, whatever happens.
        if rng.u8(..4) == 0 {
            self.draw_reading(rng, self.trouble_ms);
        }
    }

    /// Readers, of whom some are killed or stopped in the middle.
    fn draw_reading(&mut self, rng: &mut Rng, at: u64) {
        for _ in 0..rng.u64(1..=2) {
            let start = (at + rng.u64(0..2000)).min(self.trouble_ms);
            self.faults.push((start, Fault::Read));
            let later = start + rng.u64(1..3000);
            match rng.u8(..4) {
                0 => self.faults.push((later, Fault::KillReader)),
                1 | 2 => self.faults.push((later, Fault::PauseReader(rng.u64(1500..4000)))),
                _ => {}
            }
        }
    }

    /// Whether a process would like to generate.
    pub fn prefer(&self, process: usize) -> Prefer {
        let prefers = self.prefers.iter().cycle();
        prefers.copied().nth(process).unwrap_or_default()
    }

    /// For how long a process may be silent.
    pub fn lease(&self, process: usize) -> Duration {
        let lease = self.leases.iter().cycle().nth(process);
        lease.map_or(self.settings.lease, |ms| Duration::from_millis(*ms))
    }

    /// A random number that only the seed and the message decide.
    fn dice(&self, number: u64, of: u64) -> u64 {
        let mixed = (self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32 & (of - 1)
    }

    pub fn deed(&self, number: u64) -> Deed {
        match self.dice(number, 32) {
            0 => Deed::Panic,
            1 => Deed::WrongType,
            2 => Deed::NoNumber,
            3 => Deed::OwnKey,
            4 if self.poison => Deed::Poison,
            5..=8 => Deed::Fail,
            9..=16 => Deed::Count,
            17..=20 if self.settings.retries > 0 => Deed::Flaky,
            21..=23 if self.settings.retries > 0 => Deed::Busy,
            _ => Deed::Done,
        }
    }

    /// How often a message fails before it is done, or an error.
    pub fn failures(&self, number: u64) -> u16 {
        let some = u16::try_from(self.dice(number ^ 0xf1a, 64)).expect("small");
        match self.deed(number) {
            Deed::Flaky => 1 + some % self.settings.retries,
            // A wish is granted beyond what the settings allow.
            Deed::Busy => 1 + some % 5,
            Deed::Fail | Deed::Panic => self.settings.retries,
            _ => 0,
        }
    }

    /// The other time that it asks for; none: the usual one.
    pub fn another_time(&self, number: u64) -> Option<Duration> {
        let ms = self.dice(number ^ 0xb5, 1024) * self.lease_ms() / 2048;
        (self.dice(number ^ 0xb6, 4) > 0).then(|| Duration::from_millis(ms))
    }

    /// How many others a message publishes: so few that chains come to an end.
    pub fn links(&self, number: u64) -> u64 {
        let some = self.chains && self.deed(number).succeeds() && self.dice(number ^ 0xc4a, 4) == 0;
        u64::from(some) * (1 + self.dice(number ^ 0xc4b, 2)).min(self.settings.backlog_max)
    }

    /// The same as effects; some are for later.
    pub fn published(&self, number: u64) -> impl Iterator<Item = Effect> {
        let late = self.dice(number ^ 0xc4c, 4) == 0;
        let delay = Duration::from_millis(if late { self.lease_ms() / 4 } else { 0 });
        let group = self.group(number ^ 0xc4d);
        (0..self.links(number)).map(move |index| {
            let effect = Effect::publish_after(format!("{index} of {number}"), delay);
            group.iter().fold(effect, Effect::in_group)
        })
    }

    pub fn work_ms(&self, number: u64) -> u64 {
        if self.dice(!number, 8) == 0 {
            self.work_ms.1
        } else {
            self.work_ms.0
        }
    }

    pub fn lease_ms(&self) -> u64 {
        self.settings.lease_ms()
    }
}

impl Deed {
    pub fn effects(self, number: u64) -> Vec<Effect> {
        let add = |key: &str| Effect::Add { key: key.into(), by: 1 };
        let value = number.to_string().into_bytes();
        let key = |key: &str| key.to_string();
        match self {
            Self::Count | Self::Busy => vec![add(&format!("n:{number}")), add("sum")],
            Self::WrongType => vec![
                Effect::Push {
                    key: key("list"),
                    value,
                },
                add("list"),
            ],
            Self::NoNumber => vec![
                Effect::Set {
                    key: key("text"),
                    value: b"x".into(),
                },
                add("text"),
            ],
            Self::OwnKey => vec![add(&format!("{{qr:{QUEUE}}}:mine"))],
            _ => Vec::new(),
        }
    }

    /// Whether its message is to end as done.
    pub fn succeeds(self) -> bool {
        matches!(self, Self::Done | Self::Count | Self::Flaky | Self::Busy)
    }

    /// Whether it counts itself once it is done.
    pub fn counts(self) -> bool {
        matches!(self, Self::Count | Self::Busy)
    }
}
