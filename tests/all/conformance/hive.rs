//! A fleet as a check plays it: short names for calls, and the numbers that lanes count.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use queenright::engine::memory::State;
use queenright::engine::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Failed, Join, Joined, Member, Publish, Published, Reap,
    Reaped, Renewed, Run, Seen, Settle, Status, Wake,
};
use queenright::error::Error;
use queenright::message::{Effect, Outcome, Pack, PackBuilder};
use queenright::settings::Names;

use super::Bench;
use crate::checker;

pub const LEASE_MS: u64 = 2000;
pub const CROWN_MS: u64 = 400;
pub const STEP_MS: u64 = 200;
/// The interval of ticks in calls that keep the grid.
pub const TICK_MS: u64 = 500;
const START_MS: u64 = 1_700_000_000_000;

pub struct Hive<B: Bench> {
    pub bench: B,
    wall_ms: Cell<u64>,
    calls: RefCell<BTreeMap<(String, u32), u64>>,
}

impl<B: Bench> Hive<B> {
    pub async fn new(bench: B) -> Self {
        bench.set_wall(START_MS).await;
        Self {
            bench,
            wall_ms: Cell::new(START_MS),
            calls: RefCell::default(),
        }
    }

    pub fn engine(&self) -> &B::Engine {
        self.bench.engine()
    }

    pub fn wall_ms(&self) -> u64 {
        self.wall_ms.get()
    }

    /// Moves the wall clock in one go, forwards or back.
    pub async fn jump(&self, ms: i64) {
        self.wall_ms.set(self.wall_ms.get().strict_add_signed(ms));
        self.bench.set_wall(self.wall_ms.get()).await;
    }

    /// Lets time pass while these nodes beat: only looks move the hive clock, and each by no more than a step.
    pub async fn pass(&self, ms: u64, beating: &[&str]) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(STEP_MS / 2);
            self.jump(step.cast_signed()).await;
            for node in beating {
                self.beat(node).await;
            }
            left -= step;
        }
    }

    pub async fn state(&self) -> State {
        self.bench.state().await
    }

    /// A look at everything, which is checked against what is stored.
    pub async fn status(&self) -> Status {
        let status = self.engine().status().await.expect("status");
        checker::adds_up(&self.state().await, &status);
        status
    }

    /// The same for someone who knows these names.
    pub async fn status_as(&self, names: &Names) -> Status {
        self.bench.status_with(names).await.expect("status")
    }

    pub async fn adds_up(&self) {
        let state = self.state().await;
        let Some(meta) = &state.meta else { return };
        let status = match self.engine().status().await {
            Err(Error::Resharded { line, .. }) if line == meta.names => {
                let names = Names::default().continued(&line).expect("of this queue");
                self.status_as(&names).await
            }
            status => status.expect("status"),
        };
        checker::adds_up(&state, &status);
    }

    pub fn join_call(node: &str) -> Join {
        Join {
            node: node.into(),
            lanes: 2,
            lease_ms: LEASE_MS,
            seen: Seen::default(),
            token: "birth".into(),
            host: "host".into(),
            pid: 42,
            version: "0.1.0".into(),
            concurrency: 7,
            deliveries_max: 5,
            group_concurrency: 1,
            group_skip_retries: false,
        }
    }

    pub async fn join(&self, node: &str) -> Joined {
        self.engine().join(&Self::join_call(node)).await.expect("join")
    }

    /// Joins with another number of deliveries than 5.
    pub async fn join_for(&self, node: &str, deliveries_max: u16) {
        let join = Join {
            deliveries_max,
            ..Self::join_call(node)
        };
        self.engine().join(&join).await.expect("join");
    }

    pub fn beat_call(node: &str) -> Beat {
        Beat {
            node: node.into(),
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
        }
    }

    pub async fn try_beat(&self, node: &str) -> Renewed {
        self.engine().beat(&Self::beat_call(node)).await.expect("beat")
    }

    /// A beat of a member.
    pub async fn beat(&self, node: &str) -> Member {
        match self.try_beat(node).await {
            Renewed::Alive(member) => member,
            Renewed::Deposed => panic!("{node} was deposed"),
        }
    }

    /// A beat that does not ask for the crown.
    pub async fn beat_humbly(&self, node: &str) -> Member {
        let beat = Beat {
            eligible: false,
            ..Self::beat_call(node)
        };
        match self.engine().beat(&beat).await.expect("beat") {
            Renewed::Alive(member) => member,
            Renewed::Deposed => panic!("{node} was deposed"),
        }
    }

    /// Joins `generator`, crowned, and the others.
    pub async fn found(&self, generator: &str, others: &[&str]) -> Member {
        self.join(generator).await;
        let member = self.beat(generator).await;
        assert!(member.generator, "the first is crowned");
        for node in others {
            self.join(node).await;
            self.beat(node).await;
        }
        member
    }

    /// The call that this generator would make now, with packs of these sizes; payloads are the numbers as text.
    pub async fn publish_call(&self, generator: &str, sizes: &[usize]) -> Publish {
        let member = self.beat(generator).await;
        assert!(member.generator, "{generator} generates");
        Publish {
            node: generator.into(),
            epoch: member.epoch,
            made: member.made,
            first: member.seq,
            messages: None,
            backlog_max: 1_000_000,
            interval_ms: 0,
            cursor: None,
            server: "s1".into(),
            again: false,
            packs: packs(member.seq, member.epoch, self.wall_ms(), sizes),
        }
    }

    /// One message of this member's reign, which leaves its count as the cursor; and what became of it.
    pub async fn publish_as(&self, reign: &Member, generator: &str) -> (Publish, Published) {
        let publish = Publish {
            node: generator.into(),
            epoch: reign.epoch,
            made: reign.made,
            first: reign.seq,
            messages: None,
            backlog_max: 1_000_000,
            interval_ms: 0,
            cursor: Some((reign.made + 1).to_string().into()),
            server: "s1".into(),
            again: false,
            packs: packs(reign.seq, reign.epoch, self.wall_ms(), &[1]),
        };
        let answer = self.send(&publish).await;
        (publish, answer)
    }

    pub async fn send(&self, publish: &Publish) -> Published {
        self.engine().publish(publish).await.expect("publish")
    }

    /// Publishes packs of these sizes.
    pub async fn publish(&self, generator: &str, sizes: &[usize]) -> Publish {
        let publish = self.publish_call(generator, sizes).await;
        let answer = self.send(&publish).await;
        assert!(matches!(answer, Published::Ok { .. }), "{answer:?}");
        publish
    }

    /// The next call of a lane.
    pub fn next_call(&self, node: &str, lane: u32, settles: Vec<Settle>, want: u32) -> Exchange {
        let mut calls = self.calls.borrow_mut();
        let call = calls.entry((node.to_string(), lane)).or_default();
        *call += 1;
        Exchange {
            node: node.into(),
            lane,
            call: *call,
            settles,
            want,
            want_bytes: u32::MAX,
            woken: false,
            backlog_max: 1_000_000,
            server: "s1".into(),
        }
    }

    /// Makes a call; it was answered, so the lane goes on.
    pub async fn call(&self, exchange: &Exchange) -> Exchanged {
        self.engine().exchange(exchange).await.expect("exchange")
    }

    /// Settles and takes on lane 0.
    pub async fn exchange(&self, node: &str, settles: Vec<Settle>, want: u32) -> Vec<Pack> {
        let (packs, refused) = self.exchange_fully(node, settles, want).await;
        assert!(refused.is_empty(), "{refused:?}");
        packs
    }

    /// The same, with what was refused.
    pub async fn exchange_fully(&self, node: &str, settles: Vec<Settle>, want: u32) -> (Vec<Pack>, Vec<(u64, String)>) {
        let exchange = self.next_call(node, 0, settles, want);
        match self.call(&exchange).await {
            Exchanged::Ok { packs, refused, .. } => (packs, refused),
            other => panic!("{exchange:?}: {other:?}"),
        }
    }

    pub async fn take(&self, node: &str, want: u32) -> Vec<Pack> {
        self.exchange(node, Vec::new(), want).await
    }

    /// Publishes `count` single messages, lets `node` take them all, and fail them.
    pub async fn fail(&self, generator: &str, node: &str, count: usize) {
        self.publish(generator, &vec![1; count]).await;
        let mut left = count;
        while left > 0 {
            let packs = self.take(node, 100).await;
            assert!(!packs.is_empty(), "all are there");
            left -= packs.iter().map(Pack::count).sum::<usize>();
            self.exchange(node, packs.iter().map(|pack| whole(pack, &failure())).collect(), 0)
                .await;
        }
    }

    pub async fn reap(&self, victim: &str) -> Reaped {
        let reap = Reap::of(victim);
        self.engine().reap(&reap).await.expect("reap")
    }

    /// Lets `victim` fall silent, and has it reaped to the end.
    pub async fn bury(&self, victim: &str, beating: &[&str]) -> Reaped {
        self.pass(LEASE_MS + STEP_MS, beating).await;
        self.reap(victim).await
    }

    pub async fn collect(&self, reader: &str, call: u64, want: u32) -> Collected {
        let held = self.state().await.reading.get(reader).cloned();
        let shown = held.map_or_else(Vec::new, |(_, batch)| {
            batch.iter().map(|failed| failed.number).collect()
        });
        let collect = Collect {
            reader: reader.into(),
            call,
            shown,
            below: u64::MAX,
            want,
            lease_ms: LEASE_MS,
        };
        self.engine().collect(&collect).await.expect("collect")
    }

    /// The numbers of a batch, from a reader that was not given up.
    pub async fn batch(&self, reader: &str, call: u64, want: u32) -> Vec<u64> {
        match self.collect(reader, call, want).await {
            Collected::Batch { failed, .. } => failed.iter().map(|failed| failed.number).collect(),
            Collected::Deposed => panic!("{reader} was given up"),
        }
    }

    pub async fn failed(&self) -> Vec<Failed> {
        self.engine().failed(0, 1000).await.expect("failed")
    }

    /// Whether it has rung since someone last listened.
    pub async fn rung(&self, wake: Wake) -> bool {
        self.engine()
            .listen(wake, Duration::from_millis(5))
            .await
            .expect("listen")
    }
}

pub fn packs(first: u64, epoch: u64, wall_ms: u64, sizes: &[usize]) -> Vec<Pack> {
    let (mut number, mut builder, mut packs) = (first, PackBuilder::new(), Vec::new());
    for size in sizes {
        let start = number;
        for _ in 0..*size {
            builder.push(number.to_string().as_bytes());
            number += 1;
        }
        packs.push(builder.build(start, epoch, wall_ms));
    }
    packs
}

pub fn done() -> Outcome {
    Outcome::Done(Vec::new())
}

pub fn with(effects: &[Effect]) -> Outcome {
    Outcome::Done(effects.to_vec())
}

pub fn failure() -> Outcome {
    Outcome::Error("it failed".into())
}

pub fn run(from: u32, count: u32, outcome: &Outcome) -> Run {
    Run {
        from,
        count,
        outcome: outcome.clone(),
    }
}

/// The whole of a piece with one outcome.
pub fn whole(pack: &Pack, outcome: &Outcome) -> Settle {
    part(pack, &[run(0, u32::try_from(pack.count()).expect("small"), outcome)])
}

pub fn part(pack: &Pack, runs: &[Run]) -> Settle {
    Settle {
        piece: pack.first(),
        runs: runs.to_vec(),
    }
}

/// All numbers, in the order of the packs.
pub fn numbers(packs: &[Pack]) -> Vec<u64> {
    packs
        .iter()
        .flat_map(|pack| (0..pack.count() as u64).map(|index| pack.first() + index))
        .collect()
}
