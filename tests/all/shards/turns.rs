//! How the lanes of one copy share it: they take turns, a call is not wasted, and one whose store is away is in nobody's way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use queenright::engine::{Engine, Item, Push};

use super::{ITEMS, World, play};

/// Messages that wait in each of the shards, pushed by key.
async fn fill(world: &World, count: usize) {
    let queue = world.queue(&Arc::default());
    for call in 0..count / 10 {
        let push = Push {
            call: format!("call{call}"),
            keep_ms: 600_000,
            backlog_max: 1_000_000,
            birth: "birth".into(),
            step_ms: 200,
            server: String::new(),
            only_known: false,
            items: (0..10)
                .map(|i| Item::new(format!("pushed-{call}-{i}")).key(format!("{call}-{i}")))
                .collect(),
        };
        queue.push(&push).await.expect("pushed");
    }
}

fn settled(world: &World) -> Vec<u64> {
    let of = |shard: &queenright::engine::memory::Local| shard.state().stored.len() as u64;
    world.shards.iter().take(world.names.shards as usize).map(of).collect()
}

#[test]
fn a_copy_that_takes_one_by_one_makes_one_call_for_each_message_and_leaves_no_shard_out() {
    play(3, None, async || {
        let mut world = World::new(4, Duration::from_hours(1));
        world.settings.concurrency = 1;
        world.settings.batch = Some(1);
        world.handling = Duration::from_millis(1);
        fill(&world, 4000).await;
        world.start();
        world.start();
        let calls = || world.weather.exchanges.load(Ordering::Relaxed);
        world
            .until("it works", |world| settled(world).iter().sum::<u64>() > 400)
            .await;
        let (before, done) = (calls(), settled(&world));
        world
            .until("half is done", |world| settled(world).iter().sum::<u64>() > 2000)
            .await;
        let (calls, now) = (calls() - before, settled(&world));
        let messages: u64 = now.iter().sum::<u64>() - done.iter().sum::<u64>();
        assert!(calls * 10 < messages * 13, "{calls} calls for {messages} messages");
        assert!(now.iter().all(|count| *count > 250), "all in turn: {now:?}");
    })
    .expect("it holds");
}

#[test]
fn a_copy_with_one_slot_goes_on_while_a_shard_is_away() {
    for seed in 0..20 {
        play(seed, None, async || {
            let mut world = World::new(3, Duration::from_millis(5));
            world.settings.concurrency = 1;
            world.handling = Duration::from_millis(30);
            world.start();
            world.start();
            world.until("it begins", |world| world.done() > 10).await;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..100))).await;
            world.weather.toggle(1 + fastrand::usize(..2));
            let before = world.done();
            world
                .until("the others go on", |world| world.done() >= before + 40)
                .await;
            assert!(world.done() < ITEMS);
            world.end().await;
        })
        .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
