//! Pushes into a queue whose number of shards was changed: nothing twice, and nothing out of its order.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::sharded::{shard_of, shard_of_group};
use queenright::engine::{Engine, Item, Push, Pushed, Receipt};
use queenright::error::Error;
use queenright::settings::Names;
use queenright::{Settings, push};

use super::{World, play};

/// A call that is refused in one shard has put in messages in another; it is made again after a reshard.
async fn refused_in_part() {
    let world = World::new(2, Duration::from_millis(5));
    let queue = world.queue(&Arc::default());
    let item = |shard| {
        let moves = |group: &String| shard_of_group(group, 2) == shard && shard_of_group(group, 5) != shard;
        let group = (0..1000).map(|i| format!("g{i}")).find(moves).expect("one of them");
        Item::new("x").group(group)
    };
    let call = |call: &str, backlog_max, items| Push {
        call: call.into(),
        keep_ms: 600_000,
        backlog_max,
        birth: "birth".into(),
        step_ms: 200,
        server: String::new(),
        only_known: false,
        items,
    };
    let full = call("full", 100, vec![item(1)]);
    queue.push(&full).await.expect("pushed");
    let both = |backlog_max| call("both", backlog_max, vec![item(0), item(1)]);
    let refused = queue.push(&both(2)).await.expect("answered");
    let Pushed::Part(told) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    world.reshard(5, Duration::from_secs(9)).await.expect("it is answered");
    let pushed = queue.push(&both(100)).await.expect("answered");
    assert!(matches!(pushed, Pushed::Ok(_)), "{pushed:?}");
    let published = queue.published().await.expect("a queue");
    assert_eq!(published, 3, "nothing is there twice");
}

#[test]
fn a_push_that_is_refused_in_part_and_made_again_after_a_reshard_puts_nothing_in_twice() {
    play(1, None, refused_in_part).expect("it holds");
}

/// A push as `push::push` makes it, of a queue with so much room in all.
async fn push_all<E: Engine>(queue: &E, world: &World, backlog_max: u64, items: &[Item]) -> (Result<(), Error>, usize) {
    let settings = Settings {
        backlog_max,
        ..world.settings.clone()
    };
    let mut told = 0;
    let count = |receipts: &[Receipt]| told += receipts.len();
    let pushed = push::push_with(queue, &settings, Duration::from_mins(1), items, count).await;
    (pushed, told)
}

/// One shard has no room for a message of a call of which another one is in, in another shard.
async fn full_in_part() {
    let group = |before: usize, now: usize, other: &str| {
        let is_there = |group: &String| shard_of_group(group, 2) == before && shard_of_group(group, 5) == now;
        let mut groups = (0..10_000).map(|i| format!("g{i}")).filter(is_there);
        groups.find(|group| group != other).expect("one of them")
    };
    let item = |group: &str| Item::new("x").group(group);
    let world = World::new(2, Duration::from_millis(5));
    // One that does not hear of the reshard before it pushes.
    let (queue, late) = (world.queue(&Arc::default()), world.queue(&Arc::default()));
    let (stays, moves) = (group(1, 4, ""), group(0, 4, ""));
    for _ in 0..2 {
        push_all(&*late, &world, 1000, &[item(&stays)])
            .await
            .0
            .expect("there is room");
    }
    world.reshard(5, Duration::from_secs(9)).await.expect("it is answered");
    // Five in each shard: there is no more room in the last one.
    let filling: Vec<Item> = (0..5).map(|_| item(&moves)).collect();
    push_all(&*queue, &world, 1000, &filling)
        .await
        .0
        .expect("there is room");
    let published = async || queue.published().await.expect("a queue");
    assert_eq!(published().await, 7);

    // The group of the first one still has a line in the shard of before.
    let both = [item(&stays), item(&moves)];
    let (refused, told) = push_all(&*queue, &world, 25, &both).await;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    assert_eq!((told, published().await), (1, 8), "the first one is in, once");

    // A call that was cut by the number of before.
    let both = [item(&group(1, 3, "")), item(&group(1, 4, &stays))];
    let (refused, told) = push_all(&*late, &world, 25, &both).await;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    assert_eq!((told, published().await), (1, 9), "the first one is in, once");

    // What is put in behind one that is refused at first is told in the order given, once there is room for all.
    let both = [item(&moves), item(&stays)];
    let (pushed, told) = push_all(&*queue, &world, 1000, &both).await;
    pushed.expect("there is room");
    assert_eq!((told, published().await), (2, 11));
}

#[test]
fn a_push_for_which_one_shard_has_no_room_puts_nothing_in_twice() {
    play(1, None, full_in_part).expect("it holds");
}

/// What of a group was pushed for later becomes due in the shard of before, when its messages wait in the shard of now.
async fn straggler() {
    let mut world = World::new(2, Duration::from_millis(5));
    (world.settings.messages, world.items) = (Some(0), 0);
    world.settings.also_handle = true;
    world.start();
    let queue = world.queue(&Arc::default());
    let group = (0..10_000)
        .map(|i| format!("g{i}"))
        .find(|group| shard_of_group(group, 2) != shard_of_group(group, 5));
    let group = &group.expect("one of them");
    let (before, now) = (shard_of_group(group, 2), shard_of_group(group, 5));
    let item = |payload: &str| Item::new(format!("{group} {payload}")).group(group);
    let shard = async |item: Item| {
        let pushed = push::push(&*queue, &world.settings, Duration::from_mins(1), &[item]).await;
        shard_of(pushed.expect("there is room")[0].number)
    };
    let later = item("later").delay(Duration::from_secs(5));
    assert_eq!(shard(later).await, before);
    queue.pause_group(group, true).await.expect("paused");
    world.reshard(5, Duration::from_secs(9)).await.expect("it is answered");
    assert_eq!(shard(item("one")).await, now, "nothing waits in the shard of before");
    let is_due = |world: &World| world.shards[before].state().lines.keys().any(|(of, _)| of == group);
    world.until("what comes later is due", is_due).await;
    assert_eq!(shard(item("two").key("k")).await, now, "where the one before it waits");
    assert_eq!(
        shard(item("two again").key("k")).await,
        now,
        "where its key is remembered"
    );
    queue.pause_group(group, false).await.expect("resumed");
    world.until("all are handled", |world| world.handled().len() == 6).await;
    let handled = world.handled();
    let of_now: Vec<&str> = handled
        .iter()
        .map(|(payload, _)| &payload[group.len() + 1..])
        .filter(|payload| *payload != "later")
        .collect();
    assert_eq!(of_now, ["one", "one", "two", "two"]);
    world.end().await;
}

#[test]
fn messages_of_a_group_that_has_moved_do_not_go_after_one_that_was_left_behind() {
    play(1, None, straggler).expect("it holds");
}

/// A shard has lost the reshard in a failover. Messages of a group wait elsewhere that belonged there.
async fn forgotten() {
    let world = World::new(2, Duration::from_millis(5));
    let queue = world.queue(&Arc::default());
    let mut groups = (0..10_000).map(|i| format!("g{i}"));
    let group = groups.find(|group| shard_of_group(group, 2) == 1 && shard_of_group(group, 5) != 1);
    let item = Item::new("x").group(group.expect("one of them"));
    let push = async || {
        let pushed = push::push(
            &*queue,
            &world.settings,
            Duration::from_mins(1),
            std::slice::from_ref(&item),
        )
        .await;
        shard_of(pushed.expect("there is room")[0].number)
    };
    assert_eq!(push().await, 1);
    let purged = world.shards[1].state().lines.pop_first();
    assert!(purged.is_some(), "it is handled");
    world.reshard(5, Duration::from_secs(9)).await.expect("it is answered");
    let now = push().await;
    assert_ne!(now, 1);
    let line = |names: &Names| names.in_shard(1).line();
    if let Some(meta) = &mut world.shards[1].state().meta {
        assert_eq!(meta.names, line(&world.names.resharded(5, 1)));
        meta.names = line(&world.names);
    }
    assert_eq!(push().await, now, "where the one before it waits");
    let told = world.shards[1].state().meta.as_ref().map(|meta| meta.names.clone());
    assert_eq!(
        told,
        Some(line(&world.names.resharded(5, 1))),
        "nobody who knows less can put anything in there"
    );
}

#[test]
fn a_shard_of_before_hears_of_the_reshard_again_from_whoever_pushes_into_a_group_that_was_there() {
    play(1, None, forgotten).expect("it holds");
}
