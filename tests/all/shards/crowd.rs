//! A fleet as docs/scale.md has it: a thousand copies on 64 shards. Copies are killed, the generator among them, and every shard fails over.

use std::collections::VecDeque;
use std::time::Duration;

use queenright::engine::memory::Local;
use queenright::engine::sharded::first_number;
use tokio::time::Instant;

use super::{World, play};

/// How large it is.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    shards: usize,
    items: u64,
    /// After this time the next shard fails over.
    failover_every: Duration,
}

impl Size {
    /// How many messages are handled at once.
    fn slots(self) -> u64 {
        self.nodes as u64 * u64::from(CONCURRENCY)
    }
}

/// In the gate.
const SMALL: Size = Size {
    nodes: 60,
    shards: 16,
    items: 24_000,
    failover_every: Duration::from_secs(1),
};
/// In `scripts/prove`.
const LARGE: Size = Size {
    nodes: 1000,
    shards: 64,
    items: 200_000,
    failover_every: Duration::from_millis(300),
};

/// Each message takes so long, and each copy handles so many at once.
const HANDLING: Duration = Duration::from_secs(1);
const CONCURRENCY: u32 = 10;
/// How long a shard does not answer while its replica takes its place.
const FAILOVER: Duration = Duration::from_millis(1500);
/// So far from an even share a shard may be, in %.
const UNEVEN_MAX: u64 = 15;
/// The home shard has more: while it is away none is sent anything, and a new generator, here every 2.5 s, begins there while it claims the others.
const HOME_MAX: u64 = 25;
/// A copy is killed and another started each time; every fifth time it is the generator.
const KILL_EVERY: Duration = Duration::from_millis(500);

fn size() -> Size {
    match std::env::var("QUEENRIGHT_CROWD").as_deref() {
        Ok("large") => LARGE,
        _ => SMALL,
    }
}

fn world(size: Size) -> World {
    let mut world = World::new(size.shards, Duration::ZERO);
    world.items = size.items;
    world.handling = HANDLING;
    world.settings.messages = Some(size.items);
    world.settings.concurrency = CONCURRENCY;
    world.settings.lease = Duration::from_secs(2);
    // Little waits in each shard, so that publishes are small and many; but enough for a quarter of the slots, which are idle otherwise.
    world.settings.backlog_max = size.slots() / 4;
    for _ in 0..size.nodes {
        world.start();
    }
    world
}

/// How many messages of the generator each shard has.
fn made(world: &World) -> Vec<u64> {
    let made = |shard: &Local| shard.state().meta.as_ref().map_or(0, |meta| meta.made);
    world.shards.iter().map(made).collect()
}

fn settled(world: &World) -> u64 {
    let of = |(shard, local): (usize, &Local)| {
        let state = local.state();
        let published = state.meta.as_ref().map_or(0, |meta| meta.seq - first_number(shard));
        let left: u64 = state.unsettled().iter().map(|run| run.1).sum();
        published - left
    };
    world.shards.iter().enumerate().map(of).sum()
}

/// A look at everything is expensive: so often.
const STEP: Duration = Duration::from_millis(100);

/// Kills and failovers until all is done. Returns how many there were of each.
async fn faults(world: &mut World, size: Size) -> (u32, u32) {
    let (mut kills, mut failovers) = (0, 0);
    let mut away: VecDeque<(usize, Instant)> = VecDeque::new();
    let (mut killed, mut failed) = (Instant::now(), Instant::now());
    let begun = Instant::now();
    while settled(world) < size.items {
        let took = begun.elapsed();
        assert!(took < Duration::from_mins(5), "it hangs: {}", world.told());
        tokio::time::sleep(STEP).await;
        if killed.elapsed() >= KILL_EVERY {
            killed = Instant::now();
            let generator = world.generator().filter(|_| kills % 5 == 0);
            let any = fastrand::usize(..world.processes.len());
            world.kill(generator.unwrap_or(any));
            world.start();
            kills += 1;
        }
        if failed.elapsed() >= size.failover_every && (failovers as usize) < size.shards {
            failed = Instant::now();
            let shard = failovers as usize;
            world.weather.toggle(shard);
            away.push_back((shard, failed));
            failovers += 1;
        }
        while away.front().is_some_and(|(_, since)| since.elapsed() >= FAILOVER) {
            let (shard, _) = away.pop_front().expect("one");
            world.weather.toggle(shard);
        }
    }
    (kills, failovers)
}

/// By how much the shard that is furthest from an even share is off it, in %.
fn uneven(made: &[u64]) -> u64 {
    let even = made.iter().sum::<u64>() / made.len() as u64;
    let most = made.iter().map(|count| count.abs_diff(even)).max();
    most.unwrap_or(0) * 100 / even
}

#[test]
fn a_large_fleet_does_each_item_once_while_copies_are_killed_and_every_shard_fails_over() {
    let size = size();
    play(1, None, async || {
        let mut world = world(size);
        let begun = Instant::now();
        let (kills, failovers) = faults(&mut world, size).await;
        let (took, made) = (begun.elapsed(), made(&world));
        println!("{size:?}: {took:?}, {kills} kills, {failovers} failovers, made {made:?}");
        assert_eq!(
            (made.iter().sum::<u64>(), failovers as usize),
            (size.items, size.shards)
        );
        assert!(uneven(&made[1..]) <= UNEVEN_MAX, "shares are even: {made:?}");
        assert!(uneven(&made) <= HOME_MAX, "the home shard has little more: {made:?}");
        // Handlers are not idle while work waits, and what a fault costs is bounded.
        let ideal = HANDLING * u32::try_from(size.items.div_ceil(size.slots())).expect("few");
        assert!(took < 3 * ideal, "{took:?}, and {ideal:?} at best");
        world.end().await;
    })
    .expect("it holds");
}
