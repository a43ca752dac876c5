//! One random history: what is asked of both queues, and that they tell the same.

use std::fmt::Debug;
use std::sync::Arc;

use fastrand::Rng;
use queenright::engine::memory::{Local, State};
use queenright::engine::sharded::Sharded;
use queenright::engine::{Engine, Limits, Purged, Range, Resharded};
use queenright::settings::Names;

use super::link::{Link, Losses};
use super::pushes::{Group, Standing};
use super::side::{Side, Target, Told};
use crate::conformance::{Bench, LocalBench, Opener};

const PROCESSES: [&str; 2] = ["p1", "p2"];
const HANDLES: usize = 2;
pub const SHARDS_MAX: u32 = 5;
const STEPS: u32 = 60;
/// Rounds until everything must have been settled.
const ROUNDS: u32 = 100;
/// How far the clock moves between two beats at most: less than any lease lets it.
const TICK_MS: u64 = 4000;
const START_MS: u64 = 1_700_000_000_000;
/// How many calls before a failure are shown.
const RECENT: usize = 20;
/// More than any history has.
const MANY: u64 = 1_000_000;

/// Asks both, the one with shards by either of its handles: they must tell the same, which is returned.
macro_rules! both {
    ($history:ident.$verb:ident($($given:expr),*)) => {{
        let via = $history.rng.usize(..$history.many.handles.len());
        let what = format!(concat!(stringify!($verb), " {:?}"), ($(&$given,)*));
        $history.note(what);
        let one = $history.one.$verb(0, $($given),*).await;
        let many = $history.many.$verb(via, $($given),*).await;
        $history.agree(&one, &many);
        one
    }};
}
pub(super) use both;

pub struct History<B: Bench> {
    alone: LocalBench,
    pub(super) one: Side<Local>,
    bench: B,
    pub(super) many: Side<Sharded<Link<B::Engine>>>,
    opener: Arc<Opener<B::Engine>>,
    pub(super) losses: Arc<Losses>,
    /// As the queue was made.
    names: Names,
    pub(super) rng: Rng,
    wall_ms: u64,
    pub(super) named: u64,
    /// All messages that outsiders or generators put in, each with its group.
    pub(super) messages: Vec<(String, Option<String>)>,
    pub(super) groups: Vec<Group>,
    skips_retries: bool,
    is_limited: bool,
    pub(super) reshards: u32,
    /// No group was cancelled in more than one shard.
    counts_cancels: bool,
    recent: Vec<String>,
}

impl<B: Bench> History<B> {
    pub async fn new(store: &B::Store, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (alone, bench) = (LocalBench::fresh(&(), None).await, B::fresh(store, None).await);
        let shards = rng.u32(1..=SHARDS_MAX) as usize;
        let names = Names::default().of_shard(0, shards);
        let (opener, losses) = (Arc::new(bench.opener()), Arc::new(Losses::default()));
        let handles = (0..HANDLES).map(|_| open(&names, &opener, &losses)).collect();
        let one = Arc::new(alone.engine().clone());
        let mut history = Self {
            one: Side::new(vec![one], &PROCESSES, 1),
            many: Side::new(handles, &PROCESSES, shards),
            alone,
            bench,
            opener,
            losses,
            names,
            skips_retries: rng.u32(..3) == 0,
            rng,
            wall_ms: START_MS,
            named: 0,
            messages: Vec::new(),
            groups: Vec::new(),
            is_limited: false,
            reshards: 0,
            counts_cancels: true,
            recent: Vec::new(),
        };
        history.note(format!("{shards} shards"));
        history.set_wall().await;
        history
    }

    pub(super) fn chance(&mut self, one_in: u32) -> bool {
        self.rng.u32(..one_in) == 0
    }

    pub(super) fn note(&mut self, what: String) {
        if self.recent.len() > RECENT {
            self.recent.remove(1);
        }
        self.recent.push(what);
    }

    pub(super) fn agree<T: Debug + PartialEq>(&self, one: &T, many: &T) {
        assert!(
            one == many,
            "one queue tells {one:#?}\nits like with shards tells {many:#?}\nafter {:#?}",
            self.recent
        );
    }

    /// What the queue without shards has.
    pub(super) fn state(&self) -> State {
        self.alone.engine().state().clone()
    }

    async fn set_wall(&self) {
        self.alone.set_wall(self.wall_ms).await;
        self.bench.set_wall(self.wall_ms).await;
    }

    pub async fn unfold(&mut self) {
        // Also what is asked before there is a queue, and before anyone has joined.
        let joins_at = if self.rng.bool() { 0 } else { self.rng.u32(..STEPS / 2) };
        for step in 0..STEPS {
            if step == joins_at {
                self.join(0).await;
            }
            self.step().await;
            self.look().await;
        }
    }

    async fn step(&mut self) {
        match self.rng.u32(..100) {
            0..22 => {
                let resharded = self.push().await;
                self.rejoin(resharded).await;
            }
            22..42 => self.work().await,
            42..50 => {
                let most = if self.rng.bool() { 200 } else { TICK_MS };
                let ms = self.rng.u64(..most);
                self.tick(ms).await;
            }
            50..55 => self.read_errors().await,
            55..61 => {
                let targets = self.errors_to_requeue();
                both!(self.requeue(&targets)).ok();
            }
            61..63 => {
                let targets = self.errors_or_others();
                both!(self.discard(&targets)).ok();
            }
            63 => {
                let keep = if self.chance(3) { 0 } else { MANY };
                both!(self.trim(keep)).ok();
            }
            64..69 => {
                let targets = self.targets();
                both!(self.cancel(&targets)).ok();
            }
            69..72 => self.cancel_group().await,
            72..77 => self.pause().await,
            77..80 => self.limit().await,
            80..83 => {
                let to = [None, Some(""), Some("p1"), Some("p2"), Some("nobody")][self.rng.usize(..5)];
                both!(self.handover(to)).ok();
            }
            83..88 => self.find().await,
            88..93 => self.publish().await,
            93..95 => self.report().await,
            _ => {
                let resharded = self.reshard(None).await;
                self.rejoin(resharded).await;
            }
        }
    }

    pub(super) async fn join(&mut self, via: usize) {
        self.note("join".into());
        self.one.join(0, self.skips_retries).await;
        self.many.join(via, self.skips_retries).await;
        self.tick(0).await;
    }

    async fn tick(&mut self, ms: u64) {
        self.note(format!("{ms} ms pass"));
        self.wall_ms += ms;
        self.set_wall().await;
        let (one, many) = (self.one.beat().await, self.many.beat().await);
        self.agree(&one, &many);
    }

    /// A look at both, mostly by the same handle: so the other one is told of a reshard with whatever it asks next.
    async fn look(&mut self) {
        let via = usize::from(self.chance(4));
        let published = (self.one.published(0).await, self.many.published(via).await);
        self.agree(&published.0, &published.1);
        let (one, many) = (self.one.status(0).await, self.many.status(via).await);
        if let (Ok((mut one, burst)), Ok((mut many, bursts))) = (one.clone(), many.clone()) {
            if !self.counts_cancels {
                (one.cancels, many.cancels) = (0, 0);
            }
            self.agree(&one, &many);
            let most = burst + u32::try_from(self.many.shards.0).expect("few");
            assert!(burst <= bursts && bursts < most, "{burst} in parts is {bursts}");
        } else {
            self.agree(&one, &many);
        }
    }

    /// A process takes all that there is; others may come between that and its outcomes.
    async fn work(&mut self) {
        let (process, mut resharded) = (self.rng.usize(..PROCESSES.len()), None);
        self.note(format!("{} works", PROCESSES[process]));
        self.one.take(process).await;
        self.many.take(process).await;
        both!(self.held(process)).ok();
        match self.rng.u32(..8) {
            0 => self.find().await,
            1 => {
                let targets = self.targets();
                both!(self.cancel(&targets)).ok();
            }
            2 => self.pause().await,
            3 => resharded = self.push().await,
            4 => self.look().await,
            5 => resharded = self.reshard(None).await,
            _ => {}
        }
        self.finish(process, resharded.is_some()).await;
        self.rejoin(resharded).await;
    }

    async fn finish(&mut self, process: usize, leaves: bool) {
        let one = self.one.finish(process, leaves, self.wall_ms).await;
        let many = self.many.finish(process, leaves, self.wall_ms).await;
        self.agree(&one.handled, &many.handled);
        self.agree(&one.orders, &many.orders);
    }

    async fn read_errors(&mut self) {
        let (limit, backwards) = (self.rng.u32(1..5), self.rng.bool());
        both!(self.errors(limit, backwards)).ok();
        if self.one.has_joined() && self.chance(3) {
            let (reader, shows) = (format!("reader {}", self.named), self.chance(3));
            self.named += 1;
            both!(self.read(&reader, shows)).ok();
        }
    }

    async fn cancel_group(&mut self) {
        let used: Vec<String> = self
            .groups
            .iter()
            .filter(|group| group.is_used)
            .map(Group::name)
            .collect();
        let Some(group) = self.rng.choice(used) else { return };
        self.counts_cancels &= self.reshards == 0;
        both!(self.cancel_group(&group)).ok();
    }

    async fn pause(&mut self) {
        if self.rng.bool() {
            let maybe = |rng: &mut Rng| [None, Some(true), Some(false), Some(false)][rng.usize(..4)];
            let (generator, handlers) = (maybe(&mut self.rng), maybe(&mut self.rng));
            both!(self.pause(generator, handlers)).ok();
        } else {
            let (group, paused) = (self.any_group(), self.chance(3));
            both!(self.pause_group(&group, paused)).ok();
        }
    }

    async fn limit(&mut self) {
        let rate = |text: &str| Some(text.parse().expect("a rate"));
        // After a reshard a group may have rested in another shard.
        let has_one = self.reshards == 0 && self.rng.bool();
        let group = rate(["1/s", "7/s", "300/m"][self.rng.usize(..3)]).filter(|_| has_one);
        let many = u32::try_from(MANY).expect("it fits");
        let limits = match self.rng.u32(..4) {
            0 => Limits::NONE,
            1 => Limits { group, ..Limits::NONE },
            2 => Limits {
                rate: rate("1000000/s"),
                burst: many,
                group,
            },
            // This one keeps somebody waiting: it is looked at, and taken away again.
            _ => {
                let limits = Limits {
                    rate: rate(["1/s", "7/s", "300/s", "3/h"][self.rng.usize(..4)]),
                    burst: self.rng.u32(..8),
                    group,
                };
                both!(self.limit(&limits)).ok();
                self.look().await;
                Limits::NONE
            }
        };
        if both!(self.limit(&limits)).is_ok() {
            self.is_limited = limits != Limits::NONE;
        }
    }

    async fn find(&mut self) {
        for target in self.targets() {
            both!(self.find(&target)).ok();
        }
        let targets = self.targets();
        both!(self.endings(&targets)).ok();
        both!(self.unsettled()).ok();
    }

    async fn publish(&mut self) {
        let payloads: Vec<String> = (0..self.rng.u32(1..6)).map(|_| self.payload()).collect();
        let turn = self.rng.usize(..60);
        self.note(format!("publish {turn} {payloads:?}"));
        let one = self.one.publish(turn, &payloads, self.wall_ms).await;
        let many = self.many.publish(turn, &payloads, self.wall_ms).await;
        self.agree(&one, &many);
        if one == "published" {
            self.messages
                .extend(payloads.into_iter().map(|payload| (payload, None)));
        }
    }

    async fn report(&mut self) {
        if self.one.has_joined() {
            self.named += 1;
            let (process, number, done) = (self.rng.usize(..PROCESSES.len()), self.named, self.rng.u64(..100));
            both!(self.report(process, number, done)).ok();
            let range = self.rng.choice(Range::ALL).expect("some");
            both!(self.history(range)).ok();
        }
    }

    /// Changes the number of shards, by one of the handles, which is returned: nothing else is told otherwise since.
    pub(super) async fn reshard(&mut self, pushing: Option<usize>) -> Option<usize> {
        let (via, to) = (self.rng.usize(..HANDLES), self.rng.u32(1..=SHARDS_MAX));
        let (now, in_all) = self.many.shards;
        self.note(format!("reshard to {to} by {via}"));
        let told = self.many.reshard_to(via, to).await;
        // A push that is not answered may be the first one.
        let there = self.many.published(via).await.map(drop);
        let now_in_all = in_all.max(to as usize);
        let expected: Told<Resharded> = match there {
            Err(why) => Err(why),
            // A limit is shared out: it must be taken away first.
            Ok(()) if self.is_limited && to as usize != now => Err("it cannot be so"),
            Ok(()) => Ok(Resharded {
                before: now,
                now: to as usize,
                in_all: now_in_all,
            }),
        };
        assert_eq!(told, expected, "after {:#?}", self.recent);
        if told.is_err() || to as usize == now {
            return None;
        }
        self.reshards += 1;
        self.groups_may_move();
        let other = (via + 1) % HANDLES;
        if pushing != Some(other) && self.rng.bool() {
            // Someone who starts with the number of shards that the queue was made with.
            self.many.handles[other] = open(&self.names, &self.opener, &self.losses);
        }
        Some(via)
    }

    /// Processes open the queue anew after a reshard, as the handle knows it that made it: a reign ends.
    async fn rejoin(&mut self, resharded: Option<usize>) {
        if let Some(via) = resharded.filter(|_| self.one.has_joined()) {
            self.one.leave().await;
            self.many.leave().await;
            self.join(via).await;
        }
    }

    /// All that waits is handled.
    pub async fn settle_down(&mut self) {
        if !self.one.has_joined() {
            self.join(0).await;
        }
        let targets = self.errors_to_requeue();
        both!(self.requeue(&targets)).ok();
        let (none, no) = (Limits::NONE, Some(false));
        both!(self.limit(&none)).expect("there is a queue");
        both!(self.pause(no, no)).expect("there is a queue");
        let groups: Vec<String> = self.groups.iter().map(Group::name).collect();
        for group in groups {
            both!(self.pause_group(&group, false)).expect("there is a queue");
        }
        for round in 0..ROUNDS {
            self.tick(TICK_MS).await;
            self.finish(round as usize % PROCESSES.len(), false).await;
            self.look().await;
            if both!(self.unsettled()).expect("there is a queue").is_empty() {
                return;
            }
        }
        panic!("something is stuck after {:#?}: {:#?}", self.recent, self.state());
    }

    /// What became of each message is the same; and when the queue is removed, nothing is left in any shard.
    pub async fn end(&mut self) {
        let messages: Vec<Target> = self
            .messages
            .iter()
            .map(|(payload, _)| Target::Of(payload.clone()))
            .collect();
        for some in messages.chunks(50) {
            both!(self.endings(some)).ok();
            for target in some {
                both!(self.find(target)).ok();
            }
        }
        both!(self.errors(7, false)).ok();
        let times = (&self.one.times, &self.many.times);
        self.agree(times.0, times.1);
        let force = self.rng.bool();
        if !force {
            let alive = both!(self.purge(false)).expect("there is a queue");
            assert_eq!(alive, Purged::Alive(PROCESSES.len() as u64));
            self.one.leave().await;
            self.many.leave().await;
        }
        assert_eq!(both!(self.purge(force)), Ok(Purged::Gone));
        both!(self.status()).expect_err("it is gone");
        both!(self.published()).expect_err("it is gone");
        both!(self.purge(force)).expect_err("it is gone");
        for handle in &self.many.handles {
            for (number, shard) in Sharded::shards(handle).iter().enumerate() {
                let state = B::dump(&shard.engine).await;
                // That each was removed is remembered, in Redis under keys of all shards.
                assert!(state.stored.keys().all(|key| key.ends_with(":purged")), "{state:?}");
                let empty = State {
                    purged: state.purged.clone(),
                    stored: state.stored.clone(),
                    ..State::new(&state.queue_name, &state.names)
                };
                assert_eq!(state, empty, "nothing is left in shard {number}");
            }
        }
    }

    /// Messages of all kinds, and numbers of nobody.
    pub(super) fn targets(&mut self) -> Vec<Target> {
        let mut targets: Vec<Target> = (0..self.rng.u32(..6))
            .filter_map(|_| self.rng.choice(&self.messages))
            .map(|(payload, _)| Target::Of(payload.clone()))
            .collect();
        targets.extend((0..self.rng.u32(..3)).map(|_| Target::Nobody(self.rng.u64(..100))));
        self.rng.shuffle(&mut targets);
        targets
    }

    fn errors_or_others(&mut self) -> Vec<Target> {
        let failed: Vec<String> = (self.state().errors.values())
            .map(|failed| super::side::text(&failed.payload))
            .collect();
        let mut targets = self.targets();
        targets.extend((0..self.rng.u32(1..5)).filter_map(|_| self.rng.choice(&failed).cloned().map(Target::Of)));
        self.rng.shuffle(&mut targets);
        targets
    }

    /// Of no group of which something may be in another shard.
    fn errors_to_requeue(&mut self) -> Vec<Target> {
        let mut targets = self.errors_or_others();
        let may = |target: &Target| {
            let Target::Of(payload) = target else { return true };
            let known = self.messages.iter().find(|(other, _)| other == payload);
            let group = known.and_then(|(_, group)| group.as_deref());
            group.is_none_or(|group| matches!(self.standing(group), Standing::Fresh | Standing::Frozen))
        };
        targets.retain(may);
        targets
    }
}

fn open<E: Engine>(names: &Names, opener: &Arc<Opener<E>>, losses: &Arc<Losses>) -> Arc<Sharded<Link<E>>> {
    let (opener, losses) = (opener.clone(), losses.clone());
    let open = move |names: &Names| {
        opener(names).map(|engine| Link {
            engine,
            losses: losses.clone(),
        })
    };
    Arc::new(Sharded::open(names, open).expect("a few shards"))
}
