//! One queue with N shards tells what one queue tells: random histories go at the same time through a queue in memory and through a [`Sharded`] of up to
//! five shards, in memory, on a Redis and in files. All that is told about the queue as a whole must be equal, up to the numbers and the order between shards:
//! a message is known by its payload.
//!
//! Processes work on both in rounds: they take all that there is, and what becomes of a message is written in its payload. Between the rounds others push
//! (again, with keys, after a lost answer), requeue, discard, trim, cancel, pause, limit, hand over, look and read errors, each by one of two handles of the queue; and
//! the number of shards is changed, of which the other handle is not told.
//!
//! What is left out, since it differs by what is documented:
//!
//! - **Room.** Each shard has an n-th of the backlog, and a push of which one shard has no room may be put in in part. So pushes find endless room, or none at all.
//! - **A rate.** Each shard has an n-th of it, whether messages wait there or not; the burst is rounded up. So rates are looked at and taken away again, or
//!   keep nobody waiting. That of a group is the same, since a group is in one shard; but it rests in the shard in which its last message was, so none is set after a reshard.
//! - **A trim** keeps an n-th in each shard: it is asked to keep none, or more than there are.
//! - **Order between shards**: of what is handled, of errors, of what is requeued. Within a group it counts.
//! - **A key** is remembered in the shard of its group: so a key is pushed with one group, or always without.
//! - **Groups and effects.** An effect publishes into groups of its own shard only, and counts in its own store: so effects here publish without groups, or are results.
//! - **After a reshard** what was put off, pushed for later or requeued stays in its shard, and may be in work beside a message of its group. So then nobody pushes
//!   into a group of which something is put off or failed, and nobody requeues what failed of one that may have moved ([`pushes::Standing`]). A cancelled group is counted in each shard in which it
//!   may be.
//! - **A call that was answered** and is made again after a reshard: nobody does that. One that was not answered is.
//! - **Births, epochs of messages, the grain, the age and the connections of members**: each shard has its own.

mod history;
mod link;
mod pushes;
mod side;
mod work;

use history::History;

use super::{Replay, variable};
use crate::conformance::{Bench, LocalBench, RedisBench, SqliteBench};

#[tokio::test]
async fn shards_in_memory_tell_what_one_queue_tells() {
    Box::pin(agree::<LocalBench>(300)).await;
}

#[tokio::test]
async fn shards_on_redis_tell_what_one_queue_tells() {
    Box::pin(agree::<RedisBench>(6)).await;
}

#[tokio::test]
async fn shards_in_files_tell_what_one_queue_tells() {
    Box::pin(agree::<SqliteBench>(6)).await;
}

/// So many histories, unless told otherwise.
async fn agree<B: Bench>(histories: u64) {
    let store = B::store();
    if let Some(seed) = variable("QUEENRIGHT_SEED") {
        return play::<B>(&store, seed).await;
    }
    let first = fastrand::u64(..u64::MAX / 2);
    for seed in first..first + variable("QUEENRIGHT_HISTORIES").unwrap_or(histories) {
        play::<B>(&store, seed).await;
    }
}

async fn play<B: Bench>(store: &B::Store, seed: u64) {
    let _replay = Replay(seed);
    let mut history = History::<B>::new(store, seed).await;
    history.unfold().await;
    history.settle_down().await;
    history.end().await;
}
