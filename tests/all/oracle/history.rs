//! One random history: a few nodes and readers who lose replies, repeat themselves, pause and die.

mod handling;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use queenright::engine::{
    Beat, Collect, Collected, Exchange, Exchanged, Item, Join, Joined, Limits, Member, Publish, Published, Push, Reap,
    Renewed, Run, Seen, Settle,
};
use queenright::engine::{Gauges, Range, Report};
use queenright::message::{Envelope, Outcome, Pack};

use super::ledger::{COUNTER, Ledger};
use super::twin::{Answer, Call, Twin};
use crate::conformance::{Bench, packs};

const LEASE_MS: u64 = 800;
const CROWN_MS: u64 = 200;
const STEP_MS: u64 = 100;
const NODES: usize = 4;
const LANES: u32 = 2;
const STEPS: u32 = 300;
/// Rounds until everything must have been settled.
const ROUNDS: u32 = 600;

/// What a node knows: nothing but what it was told.
#[derive(Default)]
struct Node {
    id: String,
    /// The last call of each lane that was answered.
    calls: [u64; LANES as usize],
    /// Calls whose answers were lost: they are made again before others on the same lane.
    unanswered: [Option<Exchange>; LANES as usize],
    unanswered_publish: Option<Publish>,
    held: BTreeMap<u64, Pack>,
    member: Option<Member>,
}

#[derive(Default)]
struct Reader {
    id: String,
    call: u64,
}

pub struct History<B> {
    twin: Twin<B>,
    rng: Rng,
    ledger: Ledger,
    nodes: Vec<Node>,
    readers: Vec<Reader>,
    log: Vec<Call>,
    named: u64,
    server: &'static str,
}

impl<B: Bench> History<B> {
    pub fn new(twin: Twin<B>, seed: u64) -> Self {
        Self {
            twin,
            rng: Rng::with_seed(seed),
            ledger: Ledger::default(),
            nodes: Vec::new(),
            readers: Vec::new(),
            log: Vec::new(),
            named: 0,
            server: "s1",
        }
    }

    pub async fn unfold(&mut self) {
        for _ in 0..STEPS {
            self.step().await;
        }
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.rng.u32(..one_in) == 0
    }

    fn name(&mut self, kind: &str) -> String {
        self.named += 1;
        format!("{kind}{}", self.named)
    }

    async fn call(&mut self, call: Call) -> Answer {
        let answer = self.twin.call(&call).await;
        self.ledger.note(&call, &answer);
        self.log.push(call);
        answer
    }

    async fn step(&mut self) {
        let moved = match self.rng.u32(..60) {
            0 => -self.rng.i64(0..5_000),
            1 => self.rng.i64(0..20_000),
            2..20 => 0,
            _ => self.rng.i64(0..60),
        };
        self.twin.set_wall(self.twin.wall_ms.strict_add_signed(moved)).await;
        if self.nodes.is_empty() || (self.nodes.len() < NODES && self.chance(10)) {
            self.join().await;
        }
        let node = self.rng.usize(..self.nodes.len());
        if self.chance(20) {
            self.twin.look().await;
        }
        if self.chance(40) {
            let id = self.nodes[node].id.clone();
            self.twin.hide(&id).await;
        }
        match self.rng.u32(..100) {
            0..30 => self.beat(node).await,
            30..46 => self.publish(node).await,
            46..50 => self.push().await,
            50..78 => self.exchange(node).await,
            78..82 => self.reap(node).await,
            82..84 => {
                let gone = self.nodes.swap_remove(node).id;
                self.call(Call::Leave(gone.clone())).await;
                if self.chance(3) {
                    let joined = |call: &&Call| matches!(call, Call::Join(join) if join.node == gone);
                    let late = self.log.iter().find(joined).expect("it joined").clone();
                    self.call(late).await;
                }
            }
            84..87 => drop(self.nodes.swap_remove(node)),
            87..92 => self.read().await,
            92 => self.manage().await,
            93 => self.rule().await,
            94..96 => self.late_copy().await,
            96 => self.report(node).await,
            97 => {
                let range = self.range();
                self.call(Call::History(range)).await;
            }
            98 => {
                self.call(Call::Status).await;
                for number in [self.rng.u64(..60), self.rng.u64(..600)] {
                    self.call(Call::Find(number)).await;
                    self.call(Call::Endings(vec![number, number + 1, 7])).await;
                }
                self.twin.hush().await;
            }
            _ => {
                let from = self.rng.u64(..50);
                let limit = self.rng.u32(..9);
                self.call(Call::Failed(from, limit)).await;
            }
        }
    }

    async fn join(&mut self) {
        let mut join = Join {
            node: self.name("n"),
            lanes: LANES,
            lease_ms: *self
                .rng
                .choice(&[LEASE_MS, LEASE_MS, LEASE_MS / 4, 2 * LEASE_MS])
                .expect("some"),
            seen: Seen::default(),
            token: self.name("birth"),
            host: "host".into(),
            pid: self.rng.u32(..),
            version: "0.1.0".into(),
            concurrency: self.rng.u32(..1000),
            deliveries_max: self.rng.u16(1..6),
            group_concurrency: *self.rng.choice(&[1, 1, 1, 2, 3]).expect("some"),
            group_skip_retries: self.chance(4),
        };
        // Now and then it has drawn the id of another.
        if self.chance(20)
            && !self.nodes.is_empty()
            && let Some(other) = self.twin.state.nodes.keys().next()
        {
            join.node.clone_from(other);
        }
        let node = Node {
            id: join.node.clone(),
            ..Node::default()
        };
        let again = self.chance(10).then(|| join.clone());
        let joined = self.call(Call::Join(join)).await;
        if let Some(again) = again {
            self.call(Call::Join(again)).await;
        }
        if joined == Answer::Joined(Joined::Taken) {
            return;
        }
        self.nodes.push(node);
    }

    /// Now and then it is another one.
    fn server(&mut self) -> String {
        if self.chance(60) {
            self.server = ["s1", "s2"][self.rng.usize(..2)];
        }
        self.server.to_string()
    }

    async fn beat(&mut self, index: usize) {
        let server = self.server();
        let node = &self.nodes[index];
        let node_epoch = node.member.as_ref().map_or(0, |member| member.epoch);
        let mut beat = Beat {
            node: node.id.clone(),
            lease_ms: LEASE_MS,
            crown_ms: CROWN_MS,
            eligible: true,
            rank: 2,
            seen: node.member.as_ref().map_or_else(Seen::default, |member| Seen {
                birth: String::new(),
                seq: member.seq,
                epoch: member.epoch,
                made: member.made,
            }),
            server,
            reigned: node
                .member
                .as_ref()
                .filter(|member| member.generator)
                .map_or(0, |member| member.epoch),
            replays: None,
            gone: String::new(),
            claims: 0,
        };
        beat.eligible = !self.chance(8);
        if self.chance(6) {
            let generator = self.twin.state.meta.as_ref().map(|meta| meta.generator.clone());
            let anyone = self.nodes[self.rng.usize(..self.nodes.len())].id.clone();
            beat.gone = generator.filter(|_| !self.chance(3)).unwrap_or(anyone);
        }
        if self.chance(4) {
            beat.seen.epoch = 0;
            beat.reigned = self.rng.u64(..=4);
        }
        if self.chance(12) {
            // As in a shard in which nobody is elected: with the epoch of another one.
            beat.claims = node_epoch + self.rng.u64(..3);
        }
        if self.chance(40) {
            beat.rank = self.rng.u8(1..4);
        }
        if B::HAS_REPLICAS && self.chance(3) {
            // It waits for replicas, and may have published more on a server before this one.
            beat.replays = Some(beat.seen.seq + self.rng.u64(..4));
        }
        if self.chance(150) {
            // As if the store had gone back.
            beat.seen.seq += self.rng.u64(..5);
            beat.seen.epoch += self.rng.u64(..3);
            beat.seen.made += self.rng.u64(..3);
        }
        let lost = self.chance(12);
        match self.call(Call::Beat(beat)).await {
            Answer::Renewed(Renewed::Alive(member)) if !lost => {
                let told = member.victim.is_some();
                self.nodes[index].member = Some(member);
                if told && self.rng.bool() {
                    self.reap(index).await;
                }
            }
            Answer::Renewed(Renewed::Deposed) if !lost => drop(self.nodes.swap_remove(index)),
            _ => {}
        }
    }

    async fn publish(&mut self, index: usize) {
        let call = match self.nodes[index].unanswered_publish.take() {
            Some(call) => call,
            None => match self.new_publish(index) {
                Some(call) => call,
                None => return,
            },
        };
        let answer = self.call(Call::Publish(call.clone())).await;
        if self.chance(6) {
            self.nodes[index].unanswered_publish = Some(call);
            return;
        }
        let member = self.nodes[index].member.as_mut().expect("a generator has beaten");
        match answer {
            Answer::Published(Published::Ok { seq, made, .. }) => (member.seq, member.made) = (seq, made),
            Answer::Published(Published::Moved { seq }) => member.seq = seq,
            Answer::Published(Published::Fenced | Published::Gap) => member.generator = false,
            _ => {}
        }
    }

    fn new_publish(&mut self, index: usize) -> Option<Publish> {
        let member = self.nodes[index].member.clone().filter(|member| member.generator)?;
        let sizes: Vec<usize> = (0..self.rng.usize(..4)).map(|_| self.rng.usize(1..12)).collect();
        let mut call = Publish {
            node: self.nodes[index].id.clone(),
            epoch: member.epoch,
            made: member.made,
            first: member.seq,
            messages: self.chance(6).then(|| member.seq + self.rng.u64(..20)),
            backlog_max: if self.chance(4) { self.rng.u64(1..30) } else { 1_000_000 },
            interval_ms: self.rng.choice([0, 50, 500]).expect("some"),
            cursor: self.rng.bool().then(|| self.rng.u64(..).to_string().into()),
            server: self.server(),
            again: false,
            packs: packs(member.seq, member.epoch, self.twin.wall_ms, &sizes),
        };
        if self.chance(2) {
            let first = call.first + call.count();
            for number in first..first + self.rng.u64(1..6) {
                let envelope = Envelope::of_group(Some(&self.group()));
                let payload = number.to_string();
                let wall_ms = self.twin.wall_ms;
                let pack = Pack::of_one(&envelope, payload.as_bytes(), number, call.epoch, wall_ms);
                call.packs.push(pack);
            }
        }
        match self.rng.u32(..40) {
            0 => call.made += 1,
            1 => call.epoch += 1,
            2 => {
                call.first += 1;
                call.packs = packs(call.first, call.epoch, self.twin.wall_ms, &sizes);
            }
            // As what a failover took back.
            3..8 => {
                call.first = self.rng.u64(member.seq.saturating_sub(4)..=member.seq);
                call.again = true;
                call.packs = packs(call.first, call.epoch, self.twin.wall_ms, &sizes);
            }
            _ => {}
        }
        Some(call)
    }

    pub(super) fn group(&mut self) -> String {
        format!("g{}", self.rng.u32(..4))
    }

    async fn push(&mut self) {
        let mut items = Vec::new();
        for _ in 0..self.rng.u32(..6) {
            let mut item = Item::new(self.rng.u64(..).to_string());
            if self.rng.bool() {
                item = item.key(format!("key {}", self.rng.u32(..6)));
            }
            if self.chance(2) {
                item = item.group(self.group());
            }
            if self.chance(4) {
                item = item.header("trace", self.rng.u64(..).to_string());
            }
            if self.chance(4) {
                item = item.expires(Duration::from_millis(self.rng.u64(1..9)));
            }
            if self.chance(3) {
                item = item.ask();
            }
            if self.chance(3) {
                item = item.delay(Duration::from_millis(self.rng.u64(..300)));
            }
            items.push(item);
        }
        let push = Push {
            call: self.name("p"),
            keep_ms: self.rng.u64(..3000),
            backlog_max: if self.chance(4) { self.rng.u64(1..30) } else { 1_000_000 },
            birth: if self.chance(8) {
                String::new()
            } else {
                self.name("birth")
            },
            step_ms: STEP_MS,
            server: self.server(),
            only_known: self.chance(5),
            items,
        };
        self.call(Call::Push(push.clone())).await;
        if self.chance(6) {
            self.call(Call::Push(push)).await;
        }
    }

    async fn reap(&mut self, index: usize) {
        let told = self.nodes[index]
            .member
            .as_ref()
            .and_then(|member| member.victim.clone());
        let anyone = format!("n{}", self.rng.u64(..=self.named));
        let reap = Reap {
            victim: told.filter(|_| !self.chance(4)).unwrap_or(anyone),
            gone: self.chance(2),
        };
        self.call(Call::Reap(reap)).await;
    }

    async fn read(&mut self) {
        if self.readers.len() < 2 {
            let id = self.name("r");
            self.readers.push(Reader { id, call: 0 });
        }
        let index = self.rng.usize(..self.readers.len());
        let id = self.readers[index].id.clone();
        match self.rng.u32(..10) {
            0 => drop(self.call(Call::Hold(id, LEASE_MS)).await),
            1 => self.release(id, true).await,
            2 => {
                self.release(id, false).await;
                self.readers.swap_remove(index);
            }
            3 => drop(self.readers.swap_remove(index)),
            _ => self.collect(index).await,
        }
    }

    /// Requeues or discards a few errors, or what are none; or the oldest.
    async fn manage(&mut self) {
        let there: Vec<u64> = self.twin.state.errors.keys().copied().collect();
        let mut numbers: Vec<u64> = (0..self.rng.u32(..4)).map(|_| self.rng.u64(..60)).collect();
        numbers.extend(self.rng.choice(&there));
        self.rng.shuffle(&mut numbers);
        let call = if self.chance(4) {
            Call::Trim(self.rng.u64(..10))
        } else if self.chance(3) {
            Call::Discard(numbers)
        } else {
            Call::Requeue(numbers)
        };
        self.call(call).await;
    }

    /// Pauses, resumes, or moves the crown.
    async fn rule(&mut self) {
        let maybe = |rng: &mut Rng| [None, Some(true), Some(false)][rng.usize(..3)];
        let call = match self.rng.u32(..12) {
            9 => Call::CancelGroup(self.group()),
            10.. => {
                let seq = self.twin.state.meta.as_ref().map_or(0, |meta| meta.seq);
                Call::Cancel((0..self.rng.u32(1..4)).map(|_| self.rng.u64(..=seq + 1)).collect())
            }
            0..3 => Call::Limit(self.limits()),
            3..5 => Call::PauseGroup(self.group(), self.rng.bool()),
            5..7 => Call::Pause(maybe(&mut self.rng), maybe(&mut self.rng)),
            _ => {
                let anyone = format!("n{}", self.rng.u64(..=self.named));
                Call::Handover([None, Some(anyone), Some(String::new())][self.rng.usize(..3)].clone())
            }
        };
        self.call(call).await;
    }

    /// How fast messages may be taken, if that is limited.
    fn limits(&mut self) -> Limits {
        let rates = ["1/s", "7/s", "300/s", "5000/m", "3/h"];
        let rate = |rng: &mut Rng| {
            rng.choice(&rates)
                .filter(|_| rng.bool())
                .map(|text| text.parse().expect("a rate"))
        };
        let (rate, group) = (rate(&mut self.rng), rate(&mut self.rng));
        let burst = if rate.is_some() { self.rng.u32(..8) } else { 0 };
        Limits { rate, burst, group }
    }

    fn range(&mut self) -> Range {
        Range::ALL[self.rng.usize(..3)]
    }

    /// A node tells of itself, or someone who was one does.
    async fn report(&mut self, index: usize) {
        self.named += 1;
        let mut report = Report {
            node: self.nodes[index].id.clone(),
            number: self.named,
            live: queenright::engine::Live {
                generates: self.rng.bool(),
                in_hand: self.rng.u64(..1 << 40),
                ..Default::default()
            },
            figures: queenright::engine::Figures::default(),
            gauges: self.rng.bool().then(|| Gauges {
                queued: self.rng.u64(..1 << 40),
                errors: self.rng.u64(..100),
                ..Gauges::default()
            }),
        };
        report.figures.done = self.rng.u64(..1000);
        report.figures.handle.sum_us = self.rng.u64(..1 << 40);
        for _ in 0..self.rng.u32(..4) {
            let class = self.rng.usize(..report.figures.wait.counts.len());
            report.figures.wait.counts[class] = self.rng.u64(..1 << 30);
            report.figures.handle.counts[class] = self.rng.u64(..3);
        }
        if self.chance(8) {
            report.node = format!("n{}", self.rng.u64(..=self.named));
        }
        self.call(Call::Report(Box::new(report))).await;
    }

    async fn release(&mut self, reader: String, expired: bool) {
        self.call(Call::Release(reader.clone(), expired)).await;
        if !self.twin.state.reading.contains_key(&reader) {
            self.ledger.forget_reader(&reader);
        }
    }

    async fn collect(&mut self, index: usize) {
        let reader = &self.readers[index];
        let collect = Collect {
            reader: reader.id.clone(),
            call: reader.call + 1,
            shown: self
                .twin
                .state
                .reading
                .get(&reader.id)
                .map_or_else(Vec::new, |(_, batch)| {
                    batch.iter().map(|failed| failed.number).collect()
                }),
            below: if self.rng.bool() { u64::MAX } else { self.rng.u64(..100) },
            want: self.rng.u32(..5),
            lease_ms: LEASE_MS,
        };
        let lost = self.chance(8);
        let (name, leaves) = (collect.reader.clone(), collect.want == 0);
        match self.call(Call::Collect(collect)).await {
            Answer::Collected(Collected::Deposed) => drop(self.readers.swap_remove(index)),
            Answer::Collected(Collected::Batch { .. }) if leaves => {
                self.readers.swap_remove(index);
                if !self.twin.state.reading.contains_key(&name) {
                    self.ledger.forget_reader(&name);
                }
            }
            Answer::Collected(Collected::Batch { victim, .. }) => {
                if !lost {
                    self.readers[index].call += 1;
                }
                if let Some(victim) = victim {
                    self.release(victim, true).await;
                }
            }
            other => panic!("{other:?}"),
        }
    }

    /// A copy of a call from long ago arrives.
    async fn late_copy(&mut self) {
        if let Some(call) = self.rng.choice(&self.log).cloned() {
            self.call(call.clone()).await;
            if let Call::Release(reader, _) | Call::Collect(Collect { reader, .. }) = call
                && !self.twin.state.reading.contains_key(&reader)
            {
                self.ledger.forget_reader(&reader);
            }
        }
    }

    /// Everyone who is left works until nothing is left to do.
    pub async fn settle_down(&mut self) {
        self.call(Call::Pause(Some(false), Some(false))).await;
        self.call(Call::Limit(Limits::NONE)).await;
        for group in 0..4 {
            self.call(Call::PauseGroup(format!("g{group}"), false)).await;
        }
        for _ in 0..ROUNDS {
            self.twin.set_wall(self.twin.wall_ms + 40).await;
            if self.nodes.len() < 2 {
                self.join().await;
            }
            for index in (0..self.nodes.len()).rev() {
                self.finish(index).await;
            }
            let Answer::Status(Some(look)) = self.call(Call::Status).await else {
                panic!("there is a queue")
            };
            let state = &self.twin.state;
            if look.in_hand == 0 && state.queue.is_empty() && state.again.is_empty() && state.lines.is_empty() {
                // The clock may have been set back since: nobody waits for what was put off.
                let Some((due_ms, _)) = state.later.keys().next().copied() else {
                    return;
                };
                self.twin.set_wall(due_ms.max(self.twin.wall_ms)).await;
            }
        }
        panic!("something is stuck: {:#?}", self.twin.state);
    }

    /// A beat, what the generator has to do, and on every lane what is in hand is done and more is taken.
    async fn finish(&mut self, index: usize) {
        let beat = Beat {
            node: self.nodes[index].id.clone(),
            lease_ms: LEASE_MS,
            crown_ms: CROWN_MS,
            eligible: true,
            rank: 2,
            seen: Seen::default(),
            server: "s1".into(),
            reigned: 0,
            replays: None,
            gone: String::new(),
            claims: 0,
        };
        let Answer::Renewed(Renewed::Alive(member)) = self.call(Call::Beat(beat)).await else {
            self.nodes.swap_remove(index);
            return;
        };
        if let Some(victim) = member.victim {
            let reap = Reap::of(&victim);
            self.call(Call::Reap(reap)).await;
        }
        for lane in 0..LANES as usize {
            let node = &self.nodes[index];
            let call = node.unanswered[lane].clone().unwrap_or_else(|| Exchange {
                node: node.id.clone(),
                lane: u32::try_from(lane).expect("few"),
                call: node.calls[lane] + 1,
                settles: node.held.values().map(all_done).collect(),
                want: 10,
                want_bytes: u32::MAX,
                woken: false,
                ..Exchange::default()
            });
            // Another server than that of the beats would be another one each time.
            let call = Exchange {
                server: "s1".into(),
                ..call
            };
            let answer = self.call(Call::Exchange(call.clone())).await;
            if self.nodes[index].unanswered[lane].take().is_none() {
                self.let_go(index, &call);
            }
            if answer == Answer::Exchanged(Exchanged::Unheard) {
                self.nodes[index].unanswered[lane] = Some(call);
                continue;
            }
            let Answer::Exchanged(Exchanged::Ok { packs, .. }) = answer else {
                self.nodes.swap_remove(index);
                return;
            };
            let node = &mut self.nodes[index];
            node.calls[lane] = call.call;
            node.held.extend(packs.into_iter().map(|pack| (pack.first(), pack)));
        }
    }

    pub async fn account(&mut self) {
        self.twin.compare().await;
        let state = &self.twin.state;
        let read = state.reading.values().flat_map(|(_, batch)| batch);
        let failed: BTreeSet<u64> = state.errors.values().chain(read).map(|failed| failed.number).collect();
        self.ledger.balance(&failed);
        let counted = state.stored.get(COUNTER).map_or("0".into(), |stored| match stored {
            queenright::engine::memory::Stored::Value(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("{other:?}"),
        });
        assert_eq!(counted, self.ledger.counted.to_string(), "effects happen once");
    }
}

fn all_done(pack: &Pack) -> Settle {
    Settle {
        piece: pack.first(),
        runs: vec![Run {
            from: 0,
            count: u32::try_from(pack.count()).expect("small"),
            outcome: Outcome::Done(Vec::new()),
        }],
    }
}
