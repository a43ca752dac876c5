//! apalis-redis: locks and events off, which it allows and which is faster; results on, or it would not acknowledge.

use std::time::Instant;

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use peers::{handled, in_batches, messages, report, room, url};

async fn nothing(_: u64) -> Result<(), BoxDynError> {
    handled();
    Ok(())
}

#[tokio::main]
async fn main() {
    let results = std::env::var("ACKNOWLEDGE").map_or(true, |acknowledge| acknowledge != "no");
    let batch = if in_batches() { 500 } else { 1 };
    let config = Config::default()
        .queue("peers")
        .batch_size(batch)
        .lock_tasks(false)
        .emit_events(false)
        .persist_results(results);
    let storage = || async {
        let connection = apalis_redis::connect(url()).await.expect("Redis");
        RedisStorage::<u64>::new(connection).with_config(config.clone())
    };
    let (mut pusher, backend) = (storage().await, storage().await);
    let worker = WorkerBuilder::new("peer").backend(backend).concurrency(500).build(nothing);
    tokio::spawn(async move { worker.run().await });
    let start = Instant::now();
    tokio::spawn(async move {
        let mut next = 0;
        while next < messages() {
            let end = messages().min(next + batch as u64);
            // A backlog of 20,000 stops its worker for good ("too many results to unpack").
            room(next, 5_000).await;
            let sent = if in_batches() {
                pusher.push_bulk((next..end).collect()).await
            } else {
                pusher.push(next).await
            };
            sent.expect("pushed");
            next = end;
        }
    });
    report(start).await;
}
