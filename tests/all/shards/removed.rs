//! The queue is removed while the fleet works.

use std::time::Duration;

use queenright::engine::{Engine, Purged};

use super::{World, play};

/// It is removed by force under live copies, shard by shard, the home shard last.
async fn by_force() {
    let mut world = World::new(3, Duration::ZERO);
    world.settings.messages = None;
    world.items = 1_000_000;
    for _ in 0..3 {
        world.start();
    }
    world.until("it begins", |world| world.done() > 50).await;
    // A second generator: its epoch is higher than that of the first one in the next queue.
    let generator = world.generator().expect("somebody generates");
    world.kill(generator);
    let before = world.done();
    world
        .until("another one generates", |world| world.done() > before + 50)
        .await;
    let epoch = world.shards[0].state().meta.as_ref().map_or(0, |meta| meta.epoch);
    // A shard is gone, and its members have joined it again, when the home shard follows.
    assert_eq!(world.shards[2].purge(true).await, Ok(Purged::Gone));
    world
        .until("they have joined again", |world| {
            !world.shards[2].state().nodes.is_empty()
        })
        .await;
    tokio::time::sleep(Duration::from_millis(fastrand::u64(10..200))).await;
    for shard in [1, 0] {
        assert_eq!(world.shards[shard].purge(true).await, Ok(Purged::Gone));
    }
    let begun = |world: &World, item: &str| {
        let handled = world.handled.lock().expect("whole");
        handled
            .iter()
            .filter(|(other, begins)| other == item && *begins)
            .count()
    };
    let before = begun(&world, "0");
    world.until("it begins anew", |world| begun(world, "0") > before).await;
    tokio::time::sleep(2 * world.settings.lease).await;
    for (shard, local) in world.shards.iter().enumerate().take(3) {
        let meta = local.state().meta.clone().expect("somebody works there");
        assert_eq!(meta.rewinds, 0, "shard {shard} is a young one");
        assert!(meta.epoch <= epoch, "shard {shard}: epoch {}", meta.epoch);
        assert!(meta.made > 0, "shard {shard} is used");
    }
    for process in &world.processes {
        process.stopper.stop();
    }
    for process in world.processes {
        process.running.await.expect("no panic").expect("it ends well");
    }
}

#[test]
fn a_queue_that_is_removed_under_its_copies_begins_anew_and_is_not_taken_for_one_that_went_back() {
    for seed in 0..8 {
        if let Err(why) = play(seed, None, by_force) {
            panic!("{seed}: {why}");
        }
    }
}
