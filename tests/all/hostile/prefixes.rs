//! The log of a real run, cut off at any byte, as a crash of the machine may leave it: what Redis makes of it is sound,
//! can be worked off, and a node that had seen more notices.
//!
//! `QUEENRIGHT_PREFIXES` sets how many offsets; `QUEENRIGHT_SEED` replays them.

use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Join, Joined, Reap, Renewed, Run, Seen, Settle,
};
use queenright::error::Error;
use queenright::message::{Outcome, Pack, PackBuilder};
use queenright::settings::Names;

use crate::checker;
use crate::conformance::bench::scripts;
use crate::fleet::Fleet;
use crate::oracle::variable;
use crate::server::RedisServer;

/// How many offsets, unless told otherwise.
const PREFIXES: u64 = 24;
const MESSAGES: u64 = 200;
const LEASE_MS: u64 = 1000;
const STEP_MS: u64 = 80;
/// More steps than any lease lasts.
const STEPS_MAX: u32 = 500;

struct History {
    log: Vec<u8>,
    queue: String,
    seen: Seen,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_prefix_of_a_log_is_a_sound_queue_and_is_noticed_by_who_had_seen_more() {
    let run = tokio::task::spawn_blocking(a_real_run).await.expect("no panic");
    let seed = variable("QUEENRIGHT_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut rng = fastrand::Rng::with_seed(seed);
    let (count, bytes) = (
        variable("QUEENRIGHT_PREFIXES").unwrap_or(PREFIXES),
        run.log.len() as u64,
    );
    let mut behind = 0;
    for index in 0..=count {
        // Half of them evenly, from nothing to everything.
        let offset = match index % 2 {
            0 => bytes * index / count,
            _ => rng.u64(..bytes),
        };
        let at = format!("the log cut off at {offset} of {bytes} bytes, QUEENRIGHT_SEED={seed}");
        let log = &run.log[..usize::try_from(offset).expect("in memory")];
        let lacks = Prefix::load(log, &run).await.check(&run, &at).await;
        assert!(offset < bytes || !lacks, "the whole log lacks something");
        behind += u64::from(lacks);
    }
    println!("{count} prefixes, {behind} of them lack what a node had seen");
    assert!(behind > 1);
}

/// Processes at work, two of them killed, errors read in between.
fn a_real_run() -> History {
    let server = RedisServer::durable();
    let mut fleet = Fleet::on(&server)
        .copies(4)
        .args(&format!("--interval 5ms --messages {MESSAGES} --lease {LEASE_MS}ms"))
        .args("--work 0..20ms --error-rate 0.3 --concurrency 4")
        .start_led();
    fleet.wait_for_more("done", 10);
    fleet.kill9(0);
    fleet.wait_for_more("done", 10);
    fleet.errors();
    fleet.kill9(1);
    fleet.add("");
    let status = fleet.wait_through(MESSAGES);
    for copy in 2..fleet.len() {
        fleet.term(copy);
        fleet.wait_exit(copy);
    }
    History {
        log: server.log(),
        queue: fleet.queue().to_string(),
        seen: Seen {
            birth: String::new(),
            seq: status.published,
            epoch: status.epoch,
            ..Seen::default()
        },
    }
}

/// A server that was started on a part of the log, and a fleet of one that works it off, in a time of its own.
struct Prefix {
    server: RedisServer,
    engine: RedisEngine,
    wall_ms: u64,
    call: u64,
}

impl Prefix {
    async fn load(log: &[u8], run: &History) -> Self {
        let server = RedisServer::on_log(log);
        let keys = Keys::new(&run.queue, &Names::default());
        let engine = crate::conformance::engine(&server.server(), keys, &scripts(None));
        let wall_ms = engine.dump().await.expect("readable").meta.map_or(1, |meta| meta.wall);
        let prefix = Self {
            server,
            engine,
            wall_ms,
            call: 0,
        };
        prefix.set_wall();
        prefix
    }

    fn set_wall(&self) {
        let (s, us) = (self.wall_ms / 1000, self.wall_ms % 1000 * 1000);
        let set = ["HSET", "test:time", "s", &s.to_string(), "us", &us.to_string()];
        self.server.command(&set).expect("set");
    }

    /// Whether something was missing.
    async fn check(mut self, run: &History, at: &str) -> bool {
        let before = match self.engine.status().await {
            Ok(status) => Some(status),
            Err(Error::NoQueue { .. }) => None,
            Err(error) => panic!("{error}: {at}"),
        };
        self.adds_up(at).await;
        let (published, epoch) = before.map_or((0, 0), |status| (status.published, status.epoch));
        let behind = published < run.seen.seq || epoch < run.seen.epoch;
        let joined = self.engine.join(&join(run)).await.expect("joined");
        assert!(
            matches!(joined, Joined::Ok { rewound, .. } if rewound.is_some() == behind),
            "{at}: {joined:?}"
        );
        let status = self.engine.status().await.expect("status");
        assert_eq!(status.rewinds, u64::from(behind), "{at}");
        self.work_off(run, at).await;
        self.read_errors(at).await;
        behind
    }

    async fn adds_up(&self, at: &str) {
        let state = self.engine.dump().await.unwrap_or_else(|error| panic!("{error}: {at}"));
        let Some(meta) = &state.meta else { return };
        let status = self.engine.status().await.expect("status");
        checker::adds_up(&state, &status);
        for (first, count) in self.engine.unsettled().await.expect("readable") {
            assert!(first + count <= meta.seq, "{first} + {count}: {at}");
        }
    }

    /// Generates one more message, hands on what the dead held, and handles everything.
    async fn work_off(&mut self, run: &History, at: &str) {
        let mut published = false;
        for _ in 0..STEPS_MAX {
            self.wall_ms += STEP_MS;
            self.set_wall();
            let Renewed::Alive(member) = self.engine.beat(&beat(run)).await.expect("beat") else {
                panic!("deposed: {at}");
            };
            assert!(member.seq >= run.seen.seq, "{member:?}: {at}");
            if member.generator && !published {
                assert!(member.epoch > run.seen.epoch, "{member:?}: {at}");
                assert_eq!(member.seq, run.seen.seq, "a number is skipped or used again: {at}");
                published = self.publish(member.seq, member.epoch, member.made, at).await;
            }
            if let Some(victim) = member.victim {
                let reap = Reap::of(&victim);
                while self.engine.reap(&reap).await.expect("reap").more {}
            }
            let mut packs = self.exchange(Vec::new(), 100, at).await;
            while !packs.is_empty() {
                packs = self.exchange(packs.iter().map(done).collect(), 100, at).await;
            }
            let status = self.engine.status().await.expect("status");
            if published && status.queued == 0 && status.in_hand == 0 && status.nodes.len() == 1 {
                self.adds_up(at).await;
                return assert_eq!(self.engine.unsettled().await, Ok(vec![]), "{at}");
            }
        }
        panic!("something is stranded: {:?}: {at}", self.engine.status().await);
    }

    /// False: this is another server, and members of the log may have seen more.
    async fn publish(&self, first: u64, epoch: u64, made: u64, at: &str) -> bool {
        let mut builder = PackBuilder::new();
        builder.push(b"one more");
        let publish = queenright::engine::Publish {
            node: "late".into(),
            epoch,
            made,
            first,
            messages: None,
            backlog_max: 1000,
            interval_ms: 0,
            cursor: None,
            server: "s1".into(),
            again: false,
            packs: vec![builder.build(first, epoch, 1)],
        };
        match self.engine.publish(&publish).await.expect("published") {
            queenright::engine::Published::Ok { .. } => true,
            queenright::engine::Published::Unheard => false,
            answer => panic!("{answer:?}: {at}"),
        }
    }

    async fn exchange(&mut self, settles: Vec<Settle>, want: u32, at: &str) -> Vec<Pack> {
        self.call += 1;
        let exchange = Exchange {
            node: "late".into(),
            lane: 0,
            call: self.call,
            settles,
            want,
            want_bytes: u32::MAX,
            woken: false,
            ..Exchange::default()
        };
        match self.engine.exchange(&exchange).await.expect("exchange") {
            Exchanged::Ok { packs, .. } => packs,
            other => panic!("{other:?}: {at}"),
        }
    }

    /// Those that a reader had in hand as well.
    async fn read_errors(&mut self, at: &str) {
        let errors = self.engine.status().await.expect("status").errors;
        let (mut read, mut shown) = (0, Vec::new());
        for call in 1..=u64::from(STEPS_MAX) {
            let collect = Collect {
                reader: "reader".into(),
                call,
                shown,
                below: u64::MAX,
                want: 100,
                lease_ms: LEASE_MS,
            };
            let Collected::Batch { failed, others, victim } = self.engine.collect(&collect).await.expect("collect")
            else {
                panic!("given up: {at}");
            };
            read += failed.len() as u64;
            shown = failed.iter().map(|failed| failed.number).collect();
            if failed.is_empty() && others == 0 {
                return assert_eq!(read, errors, "{at}");
            }
            if let Some(victim) = victim {
                self.engine.release(&victim, true).await.expect("release");
            }
            self.wall_ms += STEP_MS;
            self.set_wall();
        }
        panic!("errors are stranded: {at}");
    }
}

fn join(run: &History) -> Join {
    Join {
        node: "late".into(),
        lanes: 1,
        lease_ms: LEASE_MS,
        seen: run.seen.clone(),
        token: "another".into(),
        host: "host".into(),
        pid: 1,
        version: "0".into(),
        concurrency: 1,
        deliveries_max: 5,
        group_concurrency: 1,
        group_skip_retries: false,
    }
}

fn beat(run: &History) -> Beat {
    Beat {
        node: "late".into(),
        lease_ms: LEASE_MS,
        crown_ms: LEASE_MS / 6,
        eligible: true,
        rank: 2,
        seen: run.seen.clone(),
        server: "s1".into(),
        reigned: 0,
        replays: None,
        gone: String::new(),
        claims: 0,
    }
}

fn done(pack: &Pack) -> Settle {
    Settle {
        piece: pack.first(),
        runs: vec![Run {
            from: 0,
            count: u32::try_from(pack.count()).expect("small"),
            outcome: Outcome::Done(Vec::new()),
        }],
    }
}
