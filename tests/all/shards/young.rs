//! A queue into which somebody has pushed, and of whose shards nobody has come to most yet.

use std::sync::Arc;

use queenright::engine::memory::Local;
use queenright::engine::sharded::{Sharded, first_number};
use queenright::engine::{Cancelled, CancelledGroup, Engine, Found, Handover, Item, PausedGroup};
use queenright::error::Error;

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

    let push = push_call("once", vec![Item::new("pushed").key("any")]);
    queue.push(&push).await.expect("pushed");
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
