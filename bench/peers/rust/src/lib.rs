//! What the harnesses share: how many, which way, and when all are handled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static HANDLED: AtomicU64 = AtomicU64::new(0);

pub fn url() -> String {
    std::env::var("REDIS_URL").expect("REDIS_URL")
}

pub fn messages() -> u64 {
    std::env::var("MESSAGES").expect("MESSAGES").parse().expect("a number")
}

/// In batches, as large as the peer allows; otherwise one by one.
pub fn in_batches() -> bool {
    std::env::var("MODE").expect("MODE") == "batch"
}

pub fn handled() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Waits until no more than `most` of those that were pushed are still to be handled.
pub async fn room(pushed: u64, most: u64) {
    while pushed > HANDLED.load(Ordering::Relaxed) + most {
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}

/// Waits until all are handled and `settled` says so too, and prints what `run` reads.
pub async fn report(start: Instant, mut settled: impl AsyncFnMut() -> bool) {
    let deadline = start + Duration::from_secs(60);
    while HANDLED.load(Ordering::Relaxed) < messages() || !settled().await {
        if Instant::now() > deadline {
            let count = HANDLED.load(Ordering::Relaxed);
            println!("{{\"error\":\"{count} of {} after 60 s\"}}", messages());
            std::process::exit(0);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("{{\"messages\":{},\"seconds\":{}}}", messages(), start.elapsed().as_secs_f64());
    std::process::exit(0);
}
