//! What processes do: they are members of each shard, beat there, publish, and handle what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use queenright::engine::sharded::process_of;
use queenright::engine::{
    Beat, Chained, Collect, Collected, Engine, Exchange, Exchanged, Figures, Join, Joined, Live, Member, Paused,
    Publish, Published, Range, Renewed, Report, Reported, Run, Seen, Settle,
};
use queenright::message::{CANCELLED, Effect, Message, Outcome, Pack, PackBuilder};

use super::side::{Side, Told, text, told};

/// Longer than a history takes between two beats: nobody is given up.
pub const LEASE_MS: u64 = 60_000;
const CROWN_MS: u64 = 30_000;
/// A message that is put off is due after this time.
const RETRY_MS: u64 = 150;
const WANT: u32 = 1000;
const BACKLOG_MAX: u64 = 1_000_000;

pub struct Process<S> {
    pub name: String,
    joins: u32,
    /// Its membership in each shard, the home shard first; none: it has not joined.
    pub seats: Vec<Seat<S>>,
}

pub struct Seat<S> {
    engine: Arc<S>,
    pub node: String,
    call: u64,
    held: BTreeMap<u64, Pack>,
    cancelled: BTreeSet<u64>,
    member: Option<Member>,
}

/// What a handler was told of a message, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handling {
    payload: String,
    /// How often it was handled before.
    times: usize,
    outcome: Outcome,
    group: Option<String>,
    headers: Vec<(String, String)>,
    is_asked: bool,
    deliveries: u16,
    failures: u16,
    published_ms: u64,
}

/// What was handled in one round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// By payload, and for each how often it was handled before: between shards there is no order.
    pub handled: Vec<Handling>,
    /// The messages of each group, in the order in which they came, without those that were put off: these may have left their group.
    pub orders: BTreeMap<String, Vec<String>>,
}

/// What members were told by their last beats.
#[derive(Debug, PartialEq, Eq)]
pub struct Beaten {
    /// In all shards the same.
    paused: Paused,
    crowned: String,
    epoch: u64,
}

impl<S> Process<S> {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            joins: 0,
            seats: Vec::new(),
        }
    }

    fn reigns(&self) -> Option<u64> {
        self.seats.first().and_then(Seat::reigned)
    }
}

impl<S> Seat<S> {
    /// In which epoch it is the generator.
    fn reigned(&self) -> Option<u64> {
        let member = self.member.as_ref().filter(|member| member.generator);
        member.map(|member| member.epoch)
    }
}

impl<S: Engine> Seat<S> {
    async fn exchange(&mut self, settles: Vec<Settle>, want: u32) -> Chained {
        self.call += 1;
        let exchange = Exchange {
            node: self.node.clone(),
            call: self.call,
            settles,
            want,
            want_bytes: u32::MAX,
            backlog_max: BACKLOG_MAX,
            ..Exchange::default()
        };
        match self.engine.exchange(&exchange).await.expect("an answer") {
            Exchanged::Ok {
                packs,
                refused,
                chained,
                cancelled,
                ..
            } => {
                assert!(
                    refused.is_empty() && chained.crowded.is_empty(),
                    "{refused:?} {chained:?}"
                );
                self.held.extend(packs.into_iter().map(|pack| (pack.first(), pack)));
                self.cancelled.extend(cancelled);
                chained
            }
            other => panic!("{}: {other:?}", self.node),
        }
    }

    /// `claims`: the epoch of its process in the home shard, if it reigns and this is another one; None: this is the home shard.
    async fn beat(&mut self, claims: Option<u64>) -> &Member {
        let beat = Beat {
            node: self.node.clone(),
            lease_ms: LEASE_MS,
            crown_ms: CROWN_MS,
            eligible: claims != Some(0),
            rank: 2,
            seen: Seen::default(),
            server: String::new(),
            reigned: self.reigned().unwrap_or(0),
            replays: None,
            gone: String::new(),
            claims: claims.unwrap_or(0),
        };
        match self.engine.beat(&beat).await.expect("an answer") {
            Renewed::Alive(member) => self.member.insert(member),
            Renewed::Deposed => panic!("{} was given up", self.node),
        }
    }
}

impl<E: Engine> Side<E> {
    pub fn has_joined(&self) -> bool {
        self.processes.iter().all(|process| !process.seats.is_empty())
    }

    /// All processes become members of each shard, as this handle knows them once it has asked.
    pub async fn join(&mut self, via: usize, group_skip_retries: bool) {
        self.published(via).await.ok();
        let engines = E::shards(&self.handles[via]);
        assert_eq!(engines.len(), self.shards.1, "all shards");
        for process in &mut self.processes {
            process.joins += 1;
            for (shard, engine) in engines.iter().enumerate() {
                let in_shard = if shard > 0 { format!("-{shard}") } else { String::new() };
                let again = if process.joins > 1 {
                    format!(".{}", process.joins)
                } else {
                    String::new()
                };
                let node = format!("{}{in_shard}{again}", process.name);
                let join = Join {
                    node: node.clone(),
                    lanes: 1,
                    lease_ms: LEASE_MS,
                    seen: Seen::default(),
                    token: node.clone(),
                    host: "host".into(),
                    pid: 42,
                    version: "0.1.0".into(),
                    concurrency: 7,
                    deliveries_max: 5,
                    group_concurrency: 1,
                    group_skip_retries,
                };
                let joined = engine.join(&join).await.expect("an answer");
                assert!(matches!(joined, Joined::Ok { .. }), "{node}: {joined:?}");
                process.seats.push(Seat {
                    engine: engine.clone(),
                    node,
                    call: 0,
                    held: BTreeMap::new(),
                    cancelled: BTreeSet::new(),
                    member: None,
                });
            }
        }
    }

    pub async fn leave(&mut self) {
        for process in &mut self.processes {
            for seat in process.seats.drain(..) {
                assert!(seat.held.is_empty(), "nothing is left in hand");
                seat.engine.leave(&seat.node).await.expect("it leaves");
            }
        }
    }

    /// All members beat in all shards: who reigns in the home shard claims the others.
    pub async fn beat(&mut self) -> Option<Beaten> {
        let mut told = None;
        for process in &mut self.processes {
            let mut claims = None;
            for seat in &mut process.seats {
                let member = seat.beat(claims).await;
                assert!(member.victim.is_none() && member.rewound.is_none(), "{member:?}");
                let beaten = Beaten {
                    paused: member.paused,
                    crowned: process_of(&member.crowned).to_string(),
                    epoch: member.epoch,
                };
                if claims.is_none() {
                    claims = Some(if member.generator { member.epoch } else { 0 });
                    told = Some(beaten);
                } else if let Some(told) = &told {
                    assert_eq!(beaten.paused, told.paused, "{} hears what all hear", seat.node);
                }
            }
        }
        told
    }

    /// A process takes all that it can get.
    pub async fn take(&mut self, process: usize) {
        for seat in &mut self.processes[process].seats {
            let mut before = None;
            while before != Some(seat.held.len()) {
                before = Some(seat.held.len());
                seat.exchange(Vec::new(), WANT).await;
            }
        }
    }

    /// It handles what it has and all that comes after it, until there is nothing more; or, if it is about to leave, only what it has.
    pub async fn finish(&mut self, process: usize, leaves: bool, now_ms: u64) -> Round {
        let (mut round, want) = (Round::default(), if leaves { 0 } else { WANT });
        for shard in 0..self.processes[process].seats.len() {
            loop {
                let seat = &mut self.processes[process].seats[shard];
                let (held, cancelled) = (std::mem::take(&mut seat.held), std::mem::take(&mut seat.cancelled));
                let (mut settles, mut children) = (Vec::new(), BTreeMap::new());
                for pack in held.values() {
                    let mut runs = Vec::new();
                    for index in 0..pack.count() {
                        let message = pack.message(index);
                        let handling = self.handle(&message, cancelled.contains(&message.number), now_ms);
                        if let Outcome::Done(effects) = &handling.outcome
                            && effects.iter().any(Effect::publishes)
                        {
                            children.insert(message.number, child_of(&handling));
                        }
                        runs.push(Run {
                            from: u32::try_from(index).expect("few"),
                            count: 1,
                            outcome: handling.outcome.clone(),
                        });
                        if let Some(group) = handling.group.clone().filter(|_| handling.failures == 0) {
                            round.orders.entry(group).or_default().push(handling.payload.clone());
                        }
                        round.handled.push(handling);
                    }
                    settles.push(Settle {
                        piece: pack.first(),
                        runs,
                    });
                }
                let seat = &mut self.processes[process].seats[shard];
                let chained = seat.exchange(settles, want).await;
                let is_dry = seat.held.is_empty();
                assert_eq!(chained.links.len(), children.len(), "each of them published");
                for link in chained.links {
                    assert_eq!(link.count, 1, "one message");
                    self.note(link.first, &children[&link.cause]);
                }
                if is_dry {
                    break;
                }
            }
        }
        let key = |handling: &Handling| (handling.payload.clone(), handling.times);
        round.handled.sort_by_key(key);
        round
    }

    /// A payload says what becomes of its message: a letter for each time that it is handled.
    fn handle(&mut self, message: &Message, is_cancelled: bool, now_ms: u64) -> Handling {
        let payload = text(&message.payload);
        let times = self.times.entry(payload.clone()).or_default();
        let (_, script) = payload.split_once(':').expect("a script");
        let letter = script.chars().nth(*times).unwrap_or('d');
        let envelope = message.envelope.open();
        let expires_ms = envelope.and_then(|envelope| envelope.expires_ms);
        let is_late = expires_ms.is_some_and(|expires_ms| now_ms > message.published_ms + expires_ms);
        let mut handling = Handling {
            times: *times,
            outcome: Outcome::Return,
            group: message.group().map(str::to_string),
            headers: message
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            is_asked: message.is_asked(),
            deliveries: message.deliveries,
            failures: message.failures,
            published_ms: message.published_ms,
            payload,
        };
        *times += 1;
        handling.outcome = match letter {
            _ if is_cancelled => Outcome::Error(CANCELLED.into()),
            _ if is_late => Outcome::Error(format!("expired: {}", handling.payload)),
            'e' => Outcome::Error(format!("{} fails at {}", handling.payload, handling.times)),
            't' => Outcome::Retry {
                error: "not now".into(),
                after_ms: RETRY_MS,
            },
            'r' => Outcome::Return,
            'p' => Outcome::Done(vec![Effect::publish(child_of(&handling))]),
            _ if handling.is_asked => Outcome::Done(vec![Effect::result(format!("of {}", handling.payload))]),
            _ => Outcome::Done(Vec::new()),
        };
        handling
    }

    /// Whoever reigns publishes into the shard whose turn it is.
    pub async fn publish(&mut self, turn: usize, payloads: &[String], wall_ms: u64) -> &'static str {
        let shard = turn % self.shards.0;
        let mut reigning = self.processes.iter_mut().filter(|process| process.reigns().is_some());
        let Some(process) = reigning.next() else {
            return "nobody reigns";
        };
        let seat = &mut process.seats[shard];
        let epoch = seat.reigned().expect("it has claimed all shards");
        let (mut first, made) = seat.member.as_ref().map_or((0, 0), |member| (member.seq, member.made));
        // Others may have pushed since it heard of the numbers.
        for _ in 0..2 {
            let mut builder = PackBuilder::new();
            for payload in payloads {
                builder.push(payload.as_bytes());
            }
            let publish = Publish {
                node: seat.node.clone(),
                epoch,
                made,
                first,
                messages: None,
                backlog_max: BACKLOG_MAX,
                interval_ms: 0,
                cursor: None,
                server: String::new(),
                again: false,
                packs: vec![builder.build(first, epoch, wall_ms)],
            };
            match seat.engine.publish(&publish).await.expect("an answer") {
                Published::Ok { seq, made, .. } => {
                    let member = seat.member.as_mut().expect("it has beaten");
                    (member.seq, member.made) = (seq, made);
                    for (number, payload) in (first..).zip(payloads) {
                        self.note(number, payload);
                    }
                    return "published";
                }
                Published::Moved { seq } => first = seq,
                Published::Paused => return "paused",
                Published::Fenced => return "fenced",
                other => panic!("{}: {other:?}", seat.node),
            }
        }
        panic!("nobody pushes meanwhile");
    }

    /// A reader takes all errors of each shard, and holds them; then it has shown them, or gives up.
    pub async fn read(&mut self, via: usize, reader: &str, shows: bool) -> Told<(BTreeSet<String>, bool)> {
        let mut read = BTreeSet::new();
        let engines: Vec<_> = self.processes[0].seats.iter().map(|seat| seat.engine.clone()).collect();
        let mut batches = Vec::new();
        for engine in &engines {
            let batch = collect(&**engine, reader, 1, Vec::new(), WANT).await;
            read.extend(batch.iter().map(|number| self.payload(*number)));
            batches.push(batch);
        }
        let held = self.hold(via, reader, LEASE_MS).await?;
        for (engine, batch) in engines.iter().zip(batches) {
            if shows {
                collect(&**engine, reader, 2, batch, 0).await;
            } else {
                engine.release(reader, false).await.expect("an answer");
            }
        }
        Ok((read, held))
    }

    /// A process tells of itself, and what is kept of that.
    pub async fn report(&mut self, via: usize, process: usize, number: u64, done: u64) -> Told<Reported> {
        let report = Report {
            node: self.processes[process].seats[0].node.clone(),
            number,
            live: Live {
                in_hand: done % 7,
                ..Live::default()
            },
            figures: Figures {
                done,
                ..Figures::default()
            },
            gauges: None,
        };
        told(self.handles[via].report(&report).await)
    }

    /// The sums over time, and the epochs of the reigns.
    pub async fn history(
        &self,
        via: usize,
        range: Range,
    ) -> Told<(Vec<queenright::engine::history::Bucket>, Vec<u64>)> {
        let history = told(self.handles[via].history(range).await)?;
        let epochs = history.reigns.iter().map(|reign| reign.epoch);
        Ok((history.buckets, epochs.collect()))
    }
}

/// What a message publishes when it is done.
fn child_of(handling: &Handling) -> String {
    let (name, _) = handling.payload.split_once(':').expect("a script");
    format!("{name}>{}:d", handling.times)
}

async fn collect<S: Engine>(engine: &S, reader: &str, call: u64, shown: Vec<u64>, want: u32) -> Vec<u64> {
    let collect = Collect {
        reader: reader.into(),
        call,
        shown,
        below: u64::MAX,
        want,
        lease_ms: LEASE_MS,
    };
    match engine.collect(&collect).await.expect("an answer") {
        Collected::Batch { failed, .. } => failed.iter().map(|failed| failed.number).collect(),
        Collected::Deposed => panic!("{reader} was given up"),
    }
}
