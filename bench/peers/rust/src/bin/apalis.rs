//! apalis-redis: locks and events off, which it allows and which is faster; results on, or it would not acknowledge.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use peers::{handled, in_batches, messages, report, room, url};

/// With 20,000 that wait, its worker stops for good ("too many results to unpack").
const MOST_WAITING: u64 = 5_000;

async fn nothing(_: u64) -> Result<(), BoxDynError> {
    handled();
    Ok(())
}

#[tokio::main]
async fn main() {
    let acknowledges = std::env::var("ACKNOWLEDGE").map_or(true, |acknowledge| acknowledge != "no");
    let (batch, workers, pushers, look) = if in_batches() { (500, 1, 1, 1) } else { (1, 10, 50, 5) };
    // A worker that found nothing is woken by the interval, but not when a fetch took longer than that: then only its
    // next heartbeat wakes it. So they come often, and as many may be missed as make up the default of 300 s.
    let config = Config::default()
        .queue("peers")
        .batch_size(batch)
        .heartbeat_interval(Duration::from_millis(100))
        .missed_heartbeats(3_000)
        .lock_tasks(false)
        .emit_events(false)
        .persist_results(acknowledges);
    let storage = async || {
        let connection = apalis_redis::connect(url()).await.expect("Redis");
        RedisStorage::<u64>::new(connection).with_config(config.clone())
    };
    for name in 0..workers {
        let backend = storage().await.poll_with_interval(Duration::from_millis(look));
        let builder = WorkerBuilder::new(format!("peer-{name}")).backend(backend);
        let worker = builder.concurrency(500).build(nothing);
        tokio::spawn(async move { worker.run().await });
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut stores = Vec::new();
    for _ in 0..pushers {
        stores.push(storage().await);
    }
    let start = Instant::now();
    for mut store in stores {
        let next = next.clone();
        tokio::spawn(async move {
            loop {
                let begin = next.fetch_add(batch as u64, Ordering::Relaxed);
                let end = messages().min(begin + batch as u64);
                if begin >= end {
                    return;
                }
                room(begin, MOST_WAITING).await;
                let sent = if in_batches() {
                    store.push_bulk((begin..end).collect()).await
                } else {
                    store.push(begin).await
                };
                sent.expect("pushed");
            }
        });
    }
    let mut connection = apalis_redis::connect(url()).await.expect("Redis");
    report(start, async || {
        if !acknowledges {
            return true;
        }
        let done: u64 = redis::cmd("SCARD").arg("peers:done").query_async(&mut connection).await.expect("Redis");
        done >= messages()
    })
    .await;
}
