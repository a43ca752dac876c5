//! A queue into which somebody has pushed, and of whose shards nobody has come to most yet.

use std::sync::Arc;

use queenright::engine::memory::Local;
use queenright::engine::sharded::{Sharded, first_number, shard_of, shard_of_group};
use queenright::engine::{Cancelled, CancelledGroup, Engine, Found, Handover, Item, PausedGroup, Purged, Push, Pushed};
use queenright::error::Error;
use queenright::settings::Names;

use crate::conformance::push::push_call;

const SHARDS: usize = 4;

#[tokio::test]
async fn what_is_said_before_anyone_has_joined_counts_in_all_shards() {
    let shard = |shard| Arc::new(Local::new("jobs").shard(shard, SHARDS));
    let shards: Vec<Arc<Local>> = (0..SHARDS).map(shard).collect();
    let queue = Sharded::new(shards.clone()).expect("a few");
    let number = first_number(SHARDS - 1) + 5;
    let is_none = |error| matches!(error, Error::NoQueue { .. });
    assert!(is_none(queue.find(number).await.expect_err("no queue")));
    assert!(is_none(queue.cancel(&[number]).await.expect_err("no queue")));
    assert!(is_none(queue.cancel_group("g").await.expect_err("no queue")));
    assert!(is_none(queue.pause_group("g", true).await.expect_err("no queue")));
    assert!(is_none(queue.handover(None).await.expect_err("no queue")));

    // The home shard is made with the first push, and was lost since.
    let push = push_call("once", vec![Item::new("pushed").key("any")]);
    shards[SHARDS - 1].push(&push).await.expect("pushed");
    let mut made = 0;
    for shard in &shards {
        made += usize::from(shard.status().await.is_ok());
    }
    assert_eq!(made, 1, "nobody has come to the others");
    assert_eq!(queue.find(number).await, Ok(Found::Unpublished));
    assert_eq!(queue.cancel(&[number]).await, Ok(vec![Cancelled::Unpublished]));
    assert_eq!(queue.cancel_group("g").await, Ok(CancelledGroup::Asked { waiting: 0 }));
    assert_eq!(queue.pause_group("g", true).await, Ok(PausedGroup::Ok { waiting: 0 }));
    assert_eq!(queue.handover(None).await, Ok(Handover::Asked));
    queue.pause(None, Some(true)).await.expect("paused");
    for shard in &shards {
        assert!(shard.status().await.expect("it is there").paused.handlers, "in each");
    }
    let status = queue.status().await.expect("a look");
    assert_eq!((status.published, status.groups.paused), (1, vec!["g".to_string()]));
}

/// All shards of a queue, in these stores, as a process opens it that is told of so many.
fn queue_in(stores: &[Local], shards: usize) -> Sharded<Local> {
    let (names, stores) = (Names::default().of_shard(0, shards), stores.to_vec());
    let open = move |names: &Names| Ok(stores[names.shard as usize].named(names));
    Sharded::open(&names, open).expect("a few shards")
}

/// A push of a message that belongs to this shard of so many.
fn push_to(call: &str, shards: usize, shard: usize) -> Push {
    push_among(call, &[(shards, shard)])
}

/// The same, for several numbers of shards.
fn push_among(call: &str, places: &[(usize, usize)]) -> Push {
    let is_at = |key: &str, (shards, shard): (usize, usize)| shard_of_group(key, shards) == shard;
    let is_there = |key: &String| places.iter().all(|place| is_at(key, *place));
    let key = (0..10_000).map(|i| format!("k{i}")).find(is_there);
    push_call(call, vec![Item::new("x").key(key.expect("one of them"))])
}

#[tokio::test]
async fn a_pusher_that_outlives_its_queue_puts_nothing_where_the_next_one_has_no_shard() {
    // How many shards the queue has in the beginning, after a reshard, and when it was made anew.
    for (first, then, anew) in [(3, 3, 2), (3, 5, 4), (3, 5, 5)] {
        let stores: Vec<Local> = (0..5).map(|_| Local::new("jobs")).collect();
        let (old, operator) = (queue_in(&stores, first), queue_in(&stores, first));
        // The second time it knows that these are the shards.
        for call in ["one", "once more"] {
            let pushed = old.push(&push_to(call, first, first - 1)).await;
            assert!(matches!(pushed, Ok(Pushed::Ok(_))), "{pushed:?}");
        }
        if then != first {
            operator
                .reshard_to(u32::try_from(then).expect("a few"))
                .await
                .expect("made");
            let pushed = old.push(&push_to("two", then, then - 1)).await;
            assert!(matches!(pushed, Ok(Pushed::Ok(_))), "{pushed:?}");
        }
        assert_eq!(operator.purge(true).await, Ok(Purged::Gone));
        let young = queue_in(&stores, anew);
        let pushed = young.push(&push_to("three", anew, 1)).await;
        assert!(matches!(pushed, Ok(Pushed::Ok(_))), "{pushed:?}");
        for call in ["four", "five"] {
            let places = [(first, first - 1), (then, then - 1)];
            let refused = old.push(&push_among(call, &places)).await;
            let is_told = matches!(refused, Err(Error::OtherShards { .. } | Error::OtherNames { .. }));
            assert!(is_told, "{first} {then} {anew}: {refused:?}");
        }
        let made: Vec<usize> = (0..5).filter(|shard| stores[*shard].state().meta.is_some()).collect();
        assert_eq!(made, [0, 1], "{first} {then} {anew}: nobody works on others");
    }
}

#[tokio::test]
async fn a_pusher_that_outlives_its_queue_makes_the_next_one_if_nobody_else_does() {
    let stores: Vec<Local> = (0..3).map(|_| Local::new("jobs")).collect();
    let old = queue_in(&stores, 3);
    old.push(&push_to("one", 3, 2)).await.expect("pushed");
    assert_eq!(queue_in(&stores, 3).purge(true).await, Ok(Purged::Gone));
    let pushed = old.push(&push_to("two", 3, 2)).await;
    assert!(matches!(pushed, Ok(Pushed::Ok(_))), "{pushed:?}");
    let other = queue_in(&stores, 2).push(&push_to("three", 2, 1)).await;
    assert!(matches!(other, Err(Error::OtherShards { .. })), "{other:?}");
}

#[tokio::test]
async fn whoever_pushes_first_makes_the_home_shard_which_tells_others_how_many_shards_there_are() {
    let stores: Vec<Local> = (0..5).map(|_| Local::new("jobs")).collect();
    let (four, five) = (queue_in(&stores, 4), queue_in(&stores, 5));
    let full = Push {
        backlog_max: 0,
        ..push_to("full", 4, 2)
    };
    assert_eq!(four.push(&full).await, Ok(Pushed::Full));
    assert!(
        matches!(four.published().await, Err(Error::NoQueue { .. })),
        "none is made by that"
    );
    let pushed = four.push(&push_to("one", 4, 2)).await.expect("pushed");
    assert!(
        matches!(&pushed, Pushed::Ok(receipts) if shard_of(receipts[0].number) == 2),
        "{pushed:?}"
    );
    let refused = five.push(&push_to("other", 5, 3)).await;
    assert!(
        matches!(
            refused,
            Err(Error::OtherShards {
                recorded: 4,
                given: 5,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(four.published().await, Ok(1));
}
