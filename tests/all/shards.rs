//! Fleets of production nodes on several shards, in virtual time: one seed decides what is killed, lost, late and away.
//!
//! The source has an item for each message, and a cursor: the next item. Each message that is done adds one to a counter of its item, in the
//! step that records its outcome. So at the end every counter is 1: no item was published twice or not at all, none was settled twice.

mod beside;
mod crowd;
mod on_redis;
mod removed;
mod resharded_pushes;
mod resharding;
mod store;
mod turns;
mod young;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queenright::engine::memory::{Local, Stored};
use queenright::engine::sharded::{Sharded, first_number};
use queenright::engine::{Engine, Item, Push};
use queenright::generate::{Draft, Generate, Made, Next};
use queenright::settings::Names;
use queenright::shutdown::{self, Stopper};
use queenright::{Effect, Message, Node, Settings};
use tokio::time::Instant;

use store::{Store, Weather};

/// How many items the source has in most stories.
const ITEMS: u64 = 200;
/// The most shards of a reshard.
const SHARDS_MAX: usize = 6;
/// How many seeds the gate plays.
const SEEDS: u64 = 90;

/// Reads items from its cursor on.
#[derive(Clone)]
struct Source {
    items: u64,
    /// All messages are of one group.
    group: Option<String>,
}

impl Generate for Source {
    async fn generate(&mut self, _: Next, draft: &mut Draft) -> Made {
        let item: u64 = std::str::from_utf8(&draft.cursor).map_or(0, |text| text.parse().unwrap_or(0));
        if item >= self.items {
            return Made::End;
        }
        draft.payload.extend(item.to_string().bytes());
        draft.group.clone_from(&self.group);
        draft.cursor = (item + 1).to_string().into_bytes();
        Made::Message
    }
}

struct World {
    /// Also those that only a reshard would use.
    shards: Vec<Local>,
    /// What copies are told when they start: how many shards there were in the beginning.
    names: Names,
    weather: Arc<Weather>,
    processes: Vec<Process>,
    settings: Settings,
    handling: Duration,
    /// What handlers have begun with (true) and ended.
    handled: Arc<Mutex<Vec<(String, bool)>>>,
    /// How many items the source has.
    items: u64,
    /// The group into which the generator puts its messages.
    group: Option<String>,
}

struct Process {
    dead: Arc<AtomicBool>,
    running: tokio::task::JoinHandle<queenright::Result<()>>,
    stopper: Stopper,
}

impl World {
    fn new(shards: usize, interval: Duration) -> Self {
        let all = shards.max(SHARDS_MAX);
        Self {
            shards: (0..all).map(|_| Local::new("jobs")).collect(),
            names: Names::default().of_shard(0, shards),
            weather: Arc::new(Weather::new(all)),
            processes: Vec::new(),
            settings: Settings {
                interval,
                messages: Some(ITEMS),
                concurrency: 3,
                lease: Duration::from_millis(600),
                watch: false,
                ..Settings::default()
            },
            handling: Duration::from_millis(2),
            handled: Arc::default(),
            items: ITEMS,
            group: None,
        }
    }

    /// The same, and each shard has a replica.
    fn replicated(mut self, lag: Duration) -> Self {
        let weather = Weather::new(self.shards.len()).with_replicas(&self.shards, lag);
        self.weather = Arc::new(weather);
        self.settings.replicas = 1;
        self
    }

    fn queue(&self, dead: &Arc<AtomicBool>) -> Arc<Sharded<Store>> {
        let (locals, weather, dead) = (self.shards.clone(), self.weather.clone(), dead.clone());
        let open = move |names: &Names| {
            let shard = names.shard as usize;
            Ok(Store {
                local: locals[shard].named(names),
                shard,
                weather: weather.clone(),
                dead: dead.clone(),
                called: std::sync::Mutex::default(),
            })
        };
        Arc::new(Sharded::open(&self.names, open).expect("a few shards"))
    }

    fn start(&mut self) {
        let dead = Arc::new(AtomicBool::new(false));
        let queue = self.queue(&dead);
        let (stopper, shutdown) = shutdown::channel();
        let (takes, handled) = (self.handling, self.handled.clone());
        let handle = move |message: Message| {
            let handled = handled.clone();
            async move {
                let item = String::from_utf8_lossy(&message.payload).into_owned();
                handled.lock().expect("whole").push((item.clone(), true));
                tokio::time::sleep(takes).await;
                handled.lock().expect("whole").push((item.clone(), false));
                Ok(vec![Effect::add(format!("item:{item}"), 1)])
            }
        };
        let source = Source {
            items: self.items,
            group: self.group.clone(),
        };
        let node = Node::new(queue, self.settings.clone(), source, handle).beats_here();
        let running = tokio::spawn(node.run(shutdown));
        self.processes.push(Process { dead, running, stopper });
    }

    /// kill -9: nothing that it still wants to say reaches anyone.
    fn kill(&mut self, process: usize) {
        let killed = self.processes.swap_remove(process);
        killed.dead.store(true, Ordering::Relaxed);
        killed.running.abort();
    }

    /// What handlers did with messages of groups, which begin with a g.
    fn handled(&self) -> Vec<(String, bool)> {
        let handled = self.handled.lock().expect("whole");
        handled
            .iter()
            .filter(|(item, _)| item.starts_with('g'))
            .cloned()
            .collect()
    }

    /// How often each item was done.
    fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; usize::try_from(self.items).expect("few")];
        for shard in &self.shards {
            for (key, value) in &shard.state().stored {
                let item = key.strip_prefix("item:").expect("an item");
                let Stored::Value(value) = value else {
                    panic!("{key} is a counter")
                };
                let count: u64 = std::str::from_utf8(value).expect("digits").parse().expect("a number");
                if let Ok(item) = item.parse::<usize>() {
                    counts[item] += count;
                } else {
                    assert_eq!(count, 1, "{key} was pushed once");
                }
            }
        }
        counts
    }

    fn done(&self) -> u64 {
        self.counts().iter().filter(|count| **count > 0).count() as u64
    }

    /// The process that generates.
    fn generator(&self) -> Option<usize> {
        let home = self.shards[0].state().meta.clone().map(|meta| meta.generator)?;
        self.weather.process_of(
            &home,
            &self
                .processes
                .iter()
                .map(|process| process.dead.clone())
                .collect::<Vec<_>>(),
        )
    }

    async fn until(&self, what: &str, reached: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            assert!(begun.elapsed() < Duration::from_mins(2), "{what}: {}", self.told());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn told(&self) -> String {
        let shards = self.shards.iter().map(|shard| {
            let state = shard.state();
            let meta = state.meta.clone().unwrap_or_default();
            format!(
                "{} e{} {} made {} queued {}",
                meta.generator,
                meta.epoch,
                meta.seq,
                meta.made,
                state.queue.len()
            )
        });
        format!("{} items done; {:?}", self.done(), shards.collect::<Vec<_>>())
    }

    /// All is well again, and all that is left is done: each item once.
    async fn end(mut self) {
        self.weather.clear();
        if self.processes.len() < 2 {
            self.start();
            self.start();
        }
        self.until("all items are done", |world| world.done() == world.items)
            .await;
        // What came twice would come now.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(
            self.counts().iter().all(|count| *count == 1),
            "each item once: {:?}",
            self.counts()
        );
        let unsettled: usize = self.shards.iter().map(|shard| shard.state().unsettled().len()).sum();
        assert_eq!(unsettled, 0, "nothing is left");
        for process in &self.processes {
            process.stopper.stop();
        }
        for process in self.processes {
            process.running.await.expect("no panic").expect("it ends well");
        }
        for (shard, local) in self.shards.iter().enumerate() {
            let state = local.state();
            assert!(state.nodes.is_empty(), "all have left shard {shard}");
            let Some(seq) = state.meta.as_ref().map(|meta| meta.seq) else {
                assert!(shard >= self.names.shards as usize, "nobody has made it");
                continue;
            };
            assert!(
                seq >= first_number(shard) && seq < first_number(shard + 1),
                "its own numbers"
            );
        }
    }
}

/// Runs it under a clock that stands still while anyone works. An error says what went wrong.
fn play(seed: u64, without: Option<&'static str>, story: impl AsyncFnOnce()) -> Result<(), String> {
    fastrand::seed(seed);
    #[cfg(feature = "mutants")]
    {
        queenright::mutants::seed(seed);
        queenright::mutants::take_out(without);
    }
    assert!(
        cfg!(feature = "mutants") || without.is_none(),
        "needs the feature mutants"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let played = crate::conformance::quietly(|| runtime.block_on(story()));
    #[cfg(feature = "mutants")]
    queenright::mutants::take_out(None);
    played
}

/// What happens under a seed.
async fn storm() {
    let rng = || fastrand::u64(..);
    let (shards, nodes) = (2 + (rng() % 3) as usize, 2 + rng() % 3);
    let interval = Duration::from_millis([0, 5][(rng() % 2) as usize]);
    let mut world = World::new(shards, interval);
    world.handling = Duration::from_millis(rng() % 20);
    let replicated = rng() % 2 == 0;
    if replicated {
        world = world.replicated(Duration::from_millis(rng() % 30));
    }
    for _ in 0..nodes {
        world.start();
    }
    world.weather.set(fastrand::u32(..40), fastrand::u32(..40));
    for step in 0..fastrand::u32(..25) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..400))).await;
        match fastrand::u32(..10) {
            0..3 => {
                let generator = world.generator().filter(|_| fastrand::bool());
                if world.processes.len() > 1 {
                    let any = fastrand::usize(..world.processes.len());
                    world.kill(generator.unwrap_or(any));
                    world.start();
                }
            }
            3..6 => world.weather.toggle(fastrand::usize(..shards)),
            6 => world.weather.clear(),
            7 => push(&world, step, 3).await,
            // A replica is cut off, and takes its shard's place some time later.
            8 if replicated => world.weather.cut_off(fastrand::usize(..shards), fastrand::bool()),
            9 if replicated => {
                let shard = fastrand::usize(..shards);
                world.weather.go_back(shard, &world.shards[shard]);
            }
            _ => {}
        }
    }
    world.end().await;
}

/// Someone pushes, with a key, again until it is answered.
async fn push(world: &World, step: u32, items: u32) {
    let queue = world.queue(&Arc::default());
    let push = Push {
        call: format!("call{step}"),
        keep_ms: 600_000,
        backlog_max: 1_000_000,
        birth: "birth".into(),
        step_ms: 200,
        server: String::new(),
        only_known: false,
        items: (0..items)
            .map(|i| Item::new(format!("pushed-{step}-{i}")).key(format!("{step}-{i}")))
            .collect(),
    };
    let again = async {
        while queue.push(&push).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // Whoever gives up has pushed some of them, or none.
    let _ = tokio::time::timeout(Duration::from_secs(2), again).await;
}

#[test]
fn under_every_seed_each_message_of_the_source_is_published_and_done_once() {
    let seeds = std::env::var("QUEENRIGHT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seeds.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Err(why) = play(seed, None, storm) {
            panic!("QUEENRIGHT_SEED={seed}: {why}");
        }
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_guard_of_several_shards_is_missed_by_some_fleet() {
    for guard in ["claims", "overtakes"] {
        assert!(play(1, Some(guard), away).is_err(), "nobody misses {guard}");
    }
    assert!(
        play(1, Some("claim-kept"), claimed_and_lost).is_err(),
        "nobody misses claim-kept"
    );
}

/// A shard is away while the fleet works, and while its generator is killed.
async fn away() {
    let mut world = World::new(3, Duration::from_millis(5));
    for _ in 0..3 {
        world.start();
    }
    world.until("it begins", |world| world.done() > 10).await;
    world.weather.toggle(2);
    let before = world.done();
    world
        .until("the others go on", |world| world.done() >= before + 40)
        .await;
    let generator = world.generator().expect("somebody generates");
    world.kill(generator);
    let before = world.done();
    world
        .until("another generator goes on without it", |world| {
            world.done() >= before + 40
        })
        .await;
    assert!(world.done() < ITEMS);
    let status = world.queue(&Arc::default()).status().await.expect("the others answer");
    let away: Vec<bool> = status.shards.iter().map(|shard| shard.away.is_some()).collect();
    assert_eq!(away, [false, false, true], "the look says which");
    world.end().await;
}

#[test]
fn a_shard_that_is_away_costs_its_own_messages_a_wait_and_nothing_else() {
    play(1, None, away).expect("it holds");
}

/// The replica of a shard is cut off while many messages wait in all of them.
async fn unreplicated() {
    let mut world = World::new(2, Duration::from_millis(5)).replicated(Duration::from_millis(1));
    world.handling = Duration::from_millis(1);
    (world.settings.concurrency, world.settings.batch) = (1, Some(1));
    world.start();
    world.start();
    world.until("it begins", |world| world.done() > 10).await;
    // More than outcomes that may wait for a replica.
    for step in 0..10 {
        push(&world, step, 600).await;
    }
    world.weather.cut_off(1, true);
    let is_done = |world: &World| world.done() > 100 && world.shards[0].state().unsettled().is_empty();
    world.until("the other shard is done", is_done).await;
    assert!(!world.shards[1].state().unsettled().is_empty(), "{}", world.told());
    world.end().await;
}

#[test]
fn a_shard_without_its_replica_costs_its_own_messages_a_wait_and_nothing_else() {
    play(1, None, unreplicated).expect("it holds");
}

/// A generator is killed whose last messages no replica has; the next one claims their shard, which then goes back to before all of that.
async fn claimed_and_lost() {
    let mut world = World::new(2, Duration::from_millis(5)).replicated(Duration::from_millis(1));
    for _ in 0..3 {
        world.start();
    }
    world.until("it begins", |world| world.done() > 10).await;
    let epoch = |world: &World| world.shards[1].state().meta.as_ref().map_or(0, |meta| meta.epoch);
    let before = epoch(&world);
    world.weather.cut_off(1, true);
    tokio::time::sleep(Duration::from_millis(40)).await;
    let generator = world.generator().expect("somebody generates");
    world.kill(generator);
    world
        .until("the next one has claimed it", |world| epoch(world) > before)
        .await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    world.weather.go_back(1, &world.shards[1]);
    world.end().await;
}

#[test]
fn a_claim_that_a_shard_forgets_says_nothing_of_what_was_published_before_it() {
    play(1, None, claimed_and_lost).expect("it holds");
}

/// All shards are used alike, and an idle node has taken from each.
async fn spread() {
    let mut world = World::new(4, Duration::ZERO);
    world.settings.batch = Some(5);
    for _ in 0..3 {
        world.start();
    }
    world.until("all is done", |world| world.done() == ITEMS).await;
    let made: Vec<u64> = world
        .shards
        .iter()
        .filter_map(|shard| shard.state().meta.as_ref().map(|meta| meta.made))
        .collect();
    assert_eq!(made.iter().sum::<u64>(), ITEMS);
    world.end().await;
}

#[test]
fn one_generator_publishes_into_all_shards() {
    play(7, None, spread).expect("it holds");
    play(8, None, async || {
        let mut world = World::new(4, Duration::from_millis(2));
        world.start();
        world.start();
        world.until("all is done", |world| world.done() == ITEMS).await;
        let made: Vec<u64> = world
            .shards
            .iter()
            .filter_map(|shard| shard.state().meta.as_ref().map(|meta| meta.made))
            .collect();
        assert_eq!(made, [ITEMS / 4; 4], "in turn");
        world.end().await;
    })
    .expect("it holds");
}
