//! The number of shards is changed while the fleet works, by an operator who may be killed at any point.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use queenright::Settings;
use queenright::engine::memory::Local;
use queenright::engine::sharded::{Sharded, shard_of_group};
use queenright::engine::{
    CANCELLED_GROUPS_MAX, CancelledGroup, Engine, Item, PAUSED_GROUPS_MAX, PausedGroup, Resharded,
};
use queenright::error::Error;
use queenright::settings::Names;

use super::{World, play, push};

/// How many seeds the gate plays.
const SEEDS: u64 = 80;

impl World {
    /// Someone changes the number of shards, again until it is answered, and gives up after a while: then it is done, or not.
    pub(super) async fn reshard(&self, to: u32, patience: Duration) -> Option<Resharded> {
        let operator = Arc::new(AtomicBool::new(false));
        let queue = self.queue(&operator);
        let again = async {
            loop {
                match queue.reshard_to(to).await {
                    Ok(resharded) => return resharded,
                    Err(error) => assert!(error.is_away(), "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(patience, again).await.ok()
    }

    /// How many shards get new messages, as the home shard says.
    fn shards_now(&self) -> usize {
        let state = self.shards[0].state();
        let line = state.meta.as_ref().map_or("", |meta| &meta.names);
        let last = line
            .split_once("then=")
            .and_then(|(_, then)| then.split(',').next_back());
        last.map_or(self.names.shards as usize, |last| last.parse().expect("a number"))
    }

    fn made(&self, shard: usize) -> u64 {
        self.shards[shard].state().meta.as_ref().map_or(0, |meta| meta.made)
    }
}

/// Grows and shrinks while items are published.
async fn grow_and_shrink() {
    for first in [1, 2] {
        let mut world = World::new(first, Duration::from_millis(5));
        world.settings.messages = None;
        for _ in 0..3 {
            world.start();
        }
        world.until("it begins", |world| world.done() > 10).await;
        super::push(&world, 1, 20).await;
        let told = world.reshard(5, Duration::from_secs(9)).await.expect("it is answered");
        assert_eq!((told.before, told.now, told.in_all), (first, 5, 5));
        // What was pushed before is known, wherever its key belongs now.
        super::push(&world, 1, 20).await;
        world
            .until("all shards are used", |world| (0..5).all(|shard| world.made(shard) > 3))
            .await;
        let told = world.reshard(2, Duration::from_secs(9)).await.expect("it is answered");
        assert_eq!((told.before, told.now, told.in_all), (5, 2, 5));
        let before = [world.made(2), world.made(3), world.made(4)];
        super::push(&world, 1, 20).await;
        super::push(&world, 2, 20).await;
        let (done, all) = (world.done(), world.items);
        assert!(done < all, "it is not over: {}", world.told());
        world.until("two go on", |world| world.done() > done + 20).await;
        assert_eq!(
            [world.made(2), world.made(3), world.made(4)],
            before,
            "nothing new is there"
        );
        world.end().await;
    }
}

/// Messages of groups, before and after each reshard.
async fn groups() {
    const GROUPS: usize = 20;
    let mut world = World::new(2, Duration::from_millis(5));
    world.settings.messages = None;
    (world.items, world.settings.concurrency) = (20, 8);
    for _ in 0..3 {
        world.start();
    }
    let queue = world.queue(&Arc::default());
    for (round, to) in [(0, 5), (1, 1), (2, 6), (3, 6)] {
        for step in 0..3 {
            let items =
                (0..GROUPS).map(|group| Item::new(format!("g{group}-{}", 3 * round + step)).group(format!("g{group}")));
            let items: Vec<Item> = items.collect();
            let pushed = queenright::push::push(&*queue, &world.settings, Duration::from_mins(1), &items);
            pushed.await.expect("pushed");
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
        world.reshard(to, Duration::from_secs(9)).await.expect("it is answered");
    }
    world
        .until("all are handled", |world| world.handled().len() >= 12 * GROUPS * 2)
        .await;
    let handled = world.handled();
    for group in 0..GROUPS {
        let prefix = format!("g{group}-");
        let seen = handled.iter().filter(|(payload, _)| payload.starts_with(&prefix));
        let expected =
            (0..12).flat_map(|place| [(format!("{prefix}{place}"), true), (format!("{prefix}{place}"), false)]);
        let expected: Vec<(String, bool)> = expected.collect();
        assert_eq!(seen.cloned().collect::<Vec<_>>(), expected, "one at a time, in order");
    }
    world.end().await;
}

#[test]
fn groups_keep_their_order_across_a_reshard() {
    for seed in 0..5 {
        play(seed, None, groups).expect("it holds");
    }
}

#[test]
fn a_queue_gets_more_shards_and_fewer_while_it_is_in_use() {
    play(1, None, grow_and_shrink).expect("it holds");
}

/// A shard that gets no new messages is away while the generator dies, and while the number of shards is changed.
async fn away() {
    let mut world = World::new(3, Duration::from_millis(5));
    world.settings.messages = None;
    for _ in 0..3 {
        world.start();
    }
    world.until("it begins", |world| world.done() > 10).await;
    world.reshard(2, Duration::from_secs(9)).await.expect("it is answered");
    let done = world.done();
    world.until("two are used", |world| world.done() > done + 10).await;
    world.weather.toggle(2);
    let generator = world.generator().expect("somebody generates");
    world.kill(generator);
    let done = world.done();
    world
        .until("another generator begins without it", |world| world.done() > done + 20)
        .await;
    let told = world.reshard(4, Duration::from_secs(9)).await.expect("it is answered");
    assert_eq!((told.before, told.now, told.in_all), (2, 4, 4));
    let done = world.done();
    world
        .until("all follow, and what is new is used", |world| {
            world.done() > done + 20 && world.made(3) > 3
        })
        .await;
    assert!(world.done() < world.items, "it is not over: {}", world.told());
    world.end().await;
}

#[test]
fn a_shard_that_is_away_keeps_nobody_from_following_or_generating() {
    play(1, None, away).expect("it holds");
}

/// The generator of a queue without shards puts its messages into a group, and somebody spreads the queue.
async fn grouped() {
    let mut world = World::new(1, Duration::from_millis(5));
    world.settings.messages = None;
    world.group = Some("all".into());
    for _ in 0..3 {
        world.start();
    }
    world.until("it begins", |world| world.done() > 10).await;
    world.reshard(3, Duration::from_secs(9)).await.expect("it is answered");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let ended = world.processes.iter().filter(|process| process.running.is_finished());
    assert_eq!(ended.count(), 0, "a copy goes on handling");
    push(&world, 1, 20).await;
    let is_pushed = |key: &&String| key.starts_with("item:pushed");
    let handled = |shard: &Local| shard.state().stored.keys().filter(is_pushed).count();
    let done = world.done();
    world
        .until("what is pushed is handled", |world| {
            world.shards.iter().map(handled).sum::<usize>() == 20
        })
        .await;
    assert_eq!(world.done(), done, "nothing of the group can be spread");
    world.reshard(1, Duration::from_secs(9)).await.expect("it is answered");
    world
        .until("it is generated again", |world| world.done() > done + 20)
        .await;
    world.end().await;
}

#[test]
fn a_generator_of_groups_waits_in_a_queue_that_was_spread_and_goes_on_when_it_has_one_shard_again() {
    play(1, None, grouped).expect("it holds");
}

/// A copy has messages of the home shard in hand. The other shard has given the copy up, and is the first to hear of a reshard: the copy is told of it where it
/// joins again.
async fn told_by_a_join() {
    let mut world = World::new(2, Duration::from_millis(5));
    (world.items, world.handling) = (0, Duration::from_secs(1));
    world.settings.also_handle = true;
    world.start();
    let is_here = |key: &String| shard_of_group(key, 2) == 0;
    let keys = (0..100).map(|i| format!("g{i}")).filter(is_here).take(6);
    let items: Vec<Item> = keys.map(|key| Item::new(key.clone()).key(key)).collect();
    let queue = world.queue(&Arc::default());
    let pushed = queenright::push::push(&*queue, &world.settings, Duration::from_mins(1), &items);
    pushed.await.expect("pushed");
    world
        .until("some are in hand", |world| {
            world.handled().len() == 3 && !world.shards[1].state().nodes.is_empty()
        })
        .await;
    let later = world.names.resharded(3, 1).in_shard(1);
    let shard = world.shards[1].named(&later);
    shard.reshard("").await.expect("it is told");
    let members: Vec<String> = world.shards[1].state().nodes.keys().cloned().collect();
    shard.leave(&members[0]).await.expect("it is given up");
    world.until("it has followed", |world| world.shards_now() == 3).await;
    let count = |world: &World, begins| world.handled().iter().filter(|(_, other)| *other == begins).count();
    world.until("all are handled", |world| count(world, false) >= 6).await;
    assert_eq!(count(&world, true), 6, "none is begun twice");
    world.end().await;
}

#[test]
fn a_copy_that_is_told_of_a_reshard_by_a_join_finishes_what_it_has_in_hand() {
    play(1, None, told_by_a_join).expect("it holds");
}

/// The home shard goes back in time while its only copy has left it, to follow a reshard.
async fn back_while_it_follows() {
    let mut world = World::new(1, Duration::from_millis(5));
    (world.settings.messages, world.settings.also_handle) = (None, true);
    world.start();
    world.until("it begins", |world| world.done() > 10).await;
    let before = world.shards[0].state().clone();
    world.until("it goes on", |world| world.done() > 60).await;
    let goes_back = async {
        while !world.shards[0].state().nodes.is_empty() {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        *world.shards[0].state() = before;
    };
    let (told, ()) = tokio::join!(world.reshard(2, Duration::from_secs(9)), goes_back);
    told.expect("it is answered");
    world.until("it has followed", |world| world.made(1) > 3).await;
    let rewinds = world.shards[0].state().meta.as_ref().map(|meta| meta.rewinds);
    assert_eq!(rewinds, Some(1), "what it has seen is told");
    world.end().await;
}

#[test]
fn what_a_copy_has_seen_it_tells_also_after_it_has_followed_a_reshard() {
    play(1, None, back_while_it_follows).expect("it holds");
}

#[test]
fn what_a_queue_is_made_of_is_told_as_it_is_at_one_moment() {
    let locals: Vec<Local> = (0..50).map(|_| Local::new("jobs")).collect();
    let open = move |names: &Names| Ok(locals[names.shard as usize].named(names));
    let queue = Arc::new(Sharded::open(&Names::default(), open).expect("one shard"));
    let other = queue.clone();
    let resharding = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (items, settings) = ([Item::new("x")], Settings::default());
            let push = queenright::push::push(&*other, &settings, Duration::from_mins(1), &items);
            push.await.expect("a queue");
            for to in 2..=50 {
                other.reshard_to(to).await.expect("it is answered");
            }
        });
    });
    while !resharding.is_finished() {
        let (names, shards) = Sharded::made_of(&queue);
        assert_eq!(names.expect("shards").shards_in_all(), shards.len());
    }
    resharding.join().expect("it ends well");
}

/// A shard that is to be made is there already, as one of another number, and in use. Nobody has come yet to some of those that there are.
async fn in_use() {
    let world = World::new(3, Duration::from_millis(5));
    let queue = world.queue(&Arc::default());
    let used = |names: &Names| (world.shards[names.shard as usize].named(names), [Item::new("x")]);
    for (shard, items) in [used(&world.names), used(&world.names.resharded(6, 1).in_shard(3))] {
        let pushed = queenright::push::push(&shard, &world.settings, Duration::from_mins(1), &items);
        pushed.await.expect("pushed");
    }
    let refused = queue.reshard_to(5).await;
    assert!(
        matches!(
            refused,
            Err(Error::OtherShards {
                recorded: 6,
                given: 5,
                ..
            })
        ),
        "{refused:?}"
    );
    for shard in 1..3 {
        let line = world.shards[shard].state().meta.as_ref().map(|meta| meta.names.clone());
        assert_eq!(
            line,
            Some(world.names.in_shard(shard).line()),
            "of a reshard that is not made"
        );
    }
}

#[test]
fn what_keeps_a_reshard_from_being_made_is_said_if_nobody_else_makes_one() {
    play(1, None, in_use).expect("it holds");
}

/// What happens under a seed.
async fn storm() {
    let shards = fastrand::usize(1..=3);
    let mut world = World::new(shards, Duration::from_millis([0, 5][fastrand::usize(..2)]));
    world.handling = Duration::from_millis(fastrand::u64(..20));
    // The source ends by itself: in a queue with one shard, pushed messages would count, too.
    world.settings.messages = None;
    let replicated = fastrand::bool();
    if replicated {
        world = world.replicated(Duration::from_millis(fastrand::u64(..30)));
    }
    for _ in 0..fastrand::u32(2..5) {
        world.start();
    }
    world.weather.set(fastrand::u32(..40), fastrand::u32(..40));
    for step in 0..fastrand::u32(..25) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..300))).await;
        match fastrand::u32(..12) {
            0..3 => {
                let generator = world.generator().filter(|_| fastrand::bool());
                let any = fastrand::usize(..world.processes.len());
                world.kill(generator.unwrap_or(any));
                world.start();
            }
            3..6 => {
                let patience = Duration::from_millis(fastrand::u64(..300));
                world.reshard(fastrand::u32(1..=6), patience).await;
            }
            6 => world.weather.toggle(fastrand::usize(..world.shards_now())),
            7 => world.weather.clear(),
            // Also what was pushed before: a key is remembered, wherever it belongs by now.
            8..10 => super::push(&world, fastrand::u32(..=step), 3).await,
            10 if replicated => world.weather.cut_off(fastrand::usize(..6), fastrand::bool()),
            11 if replicated => {
                let shard = fastrand::usize(..6);
                world.weather.go_back(shard, &world.shards[shard]);
                // A store that tells its run, as servers do, lets members speak before anyone changes the number of shards.
                if shard == 0 {
                    tokio::time::sleep(world.settings.lease).await;
                }
            }
            _ => {}
        }
    }
    world.end().await;
}

#[test]
fn under_every_seed_a_reshard_that_may_be_killed_loses_nothing_and_repeats_nothing() {
    let seeds = std::env::var("QUEENRIGHT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seeds.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let mut failed = Vec::new();
    for seed in seeds {
        if let Err(why) = play(seed, None, storm) {
            failed.push(format!("QUEENRIGHT_SEED={seed}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The shard that gets the messages of a group by now has no room for another pause, nor for another cancel. The one that had them before has.
async fn refused() {
    let world = World::new(2, Duration::from_millis(5));
    let queue = world.queue(&Arc::default());
    let all: Vec<Item> = (0..20).map(|i| Item::new("x").group(format!("g{i}"))).collect();
    let pushed = queenright::push::push(&*queue, &world.settings, Duration::from_mins(1), &all);
    pushed.await.expect("pushed");
    world.reshard(3, Duration::from_secs(9)).await.expect("it is answered");
    let moves = |group: &String| shard_of_group(group, 2) == 0 && shard_of_group(group, 3) == 2;
    let group = (0..20).map(|i| format!("g{i}")).find(moves).expect("one of them");
    let newest = world.shards[2].named(&world.names.resharded(3, 1).in_shard(2));
    for other in 0..PAUSED_GROUPS_MAX {
        newest.pause_group(&format!("other-{other}"), true).await.expect("made");
    }
    for other in 0..CANCELLED_GROUPS_MAX {
        newest.cancel_group(&format!("other-{other}")).await.expect("made");
    }
    assert_eq!(queue.pause_group(&group, true).await, Ok(PausedGroup::TooMany));
    assert_eq!(queue.cancel_group(&group).await, Ok(CancelledGroup::TooMany));
    let older = world.shards[0].state();
    let turn = older.turns.get(&group);
    assert!(!turn.is_some_and(|turn| turn.paused), "it is as it was");
    assert!(older.meta.as_ref().is_some_and(|meta| meta.cancels.groups.is_empty()));
}

#[test]
fn a_pause_or_cancel_of_a_group_that_is_refused_where_its_messages_go_is_refused_and_changes_nothing() {
    play(1, None, refused).expect("it holds");
}

/// A shard that only runs empty is away while handlers are paused, and is taken into use again afterwards.
async fn paused_while_away() {
    let world = World::new(3, Duration::from_millis(5));
    let queue = world.queue(&Arc::default());
    let keyed: Vec<Item> = (0..30).map(|i| Item::new("x").key(format!("{i}"))).collect();
    let pushed = queenright::push::push(&*queue, &world.settings, Duration::from_mins(1), &keyed);
    pushed.await.expect("pushed");
    world.reshard(2, Duration::from_secs(9)).await.expect("it is answered");
    let differing = async || {
        let shards = queue.status().await.expect("a look").shards.into_iter();
        shards.map(|shard| shard.differs).collect::<Vec<_>>()
    };
    assert_eq!(differing().await, [false; 3]);
    world.weather.toggle(2);
    queue.pause(None, Some(true)).await.expect("the others answer");
    assert_eq!(differing().await, [false; 3], "nobody knows");
    world.weather.toggle(2);
    assert_eq!(differing().await, [false, false, true]);
    // As one that was stopped half-way leaves it.
    world.shards[1].pause(None, Some(false)).await.expect("resumed");
    assert_eq!(differing().await, [false, true, true]);
    queue.pause(None, Some(true)).await.expect("all answer");
    assert_eq!(differing().await, [false; 3]);

    world.weather.toggle(2);
    queue.pause(None, Some(false)).await.expect("the others answer");
    world.weather.toggle(2);
    world.reshard(3, Duration::from_secs(9)).await.expect("it is answered");
    assert_eq!(differing().await, [false; 3], "it is as the others are");
    let paused = world.shards[2].state().meta.as_ref().map(|meta| meta.paused.handlers);
    assert_eq!(paused, Some(false));
}

#[test]
fn a_shard_that_missed_a_pause_is_named_and_has_it_before_it_is_used_again() {
    play(1, None, paused_while_away).expect("it holds");
}

#[cfg(feature = "mutants")]
#[test]
fn a_fleet_that_does_not_follow_a_reshard_uses_no_new_shard() {
    assert!(
        play(1, Some("reopen"), grow_and_shrink).is_err(),
        "nobody misses reopen"
    );
    assert!(
        play(1, Some("reopen"), told_by_a_join).is_err(),
        "what is in hand is begun twice"
    );
}
