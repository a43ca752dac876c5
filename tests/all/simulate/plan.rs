//! What a seed decides before anything runs: the fleet, its settings, and when which fault comes.

use std::time::Duration;

use fastrand::Rng;
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
    /// Someone else appends messages.
    Push,
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
}

#[derive(Debug, Clone)]
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
    /// What a message takes, in milliseconds; one in eight takes the second.
    pub work_ms: (u64, u64),
    pub poison: bool,
    pub rewinds: bool,
    /// At the end, a newer program takes the queue over.
    pub newer: bool,
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
            work_ms: (if quick { 0 } else { rng.u64(1..=30) }, rng.u64(0..=lease * 2)),
            poison: rng.u8(..8) == 0,
            rewinds: rng.u8(..8) == 0,
            newer: rng.u8(..32) == 0,
            settings,
        };
        plan.draw_faults(&mut rng, lease);
        plan
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
        self.faults.sort_by_key(|(at, fault)| (*at, *fault == Fault::Push));
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
            _ => Deed::Done,
        }
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
            Self::Count => vec![add(&format!("n:{number}")), add("sum")],
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
        matches!(self, Self::Done | Self::Count)
    }
}
