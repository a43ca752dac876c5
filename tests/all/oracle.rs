//! Random histories go through the memory engine's state (the oracle) and through each other store: every answer and everything stored must agree,
//! and at the end every message must have one outcome.
//!
//! `QUEENRIGHT_HISTORIES` sets how many; `QUEENRIGHT_SEED` replays one.

mod history;
mod ledger;
pub mod twin;
mod whole;

use history::History;
pub use twin::{Answer, Call, Twin, local};

use crate::conformance::{Bench, RedisBench, SqliteBench};

/// How many histories, unless told otherwise.
const HISTORIES: u64 = 100;

/// Tells how to see a failure again.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this history with QUEENRIGHT_SEED={}", self.0);
        }
    }
}

pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[tokio::test]
async fn redis_agrees_with_the_oracle_on_random_histories() {
    Box::pin(agrees::<RedisBench>()).await;
}

#[tokio::test]
async fn sqlite_agrees_with_the_oracle_on_random_histories() {
    agrees::<SqliteBench>().await;
}

async fn agrees<B: Bench>() {
    let store = B::store();
    if let Some(seed) = variable("QUEENRIGHT_SEED") {
        return play::<B>(&store, seed).await;
    }
    let first = fastrand::u64(..u64::MAX / 2);
    for seed in first..first + variable("QUEENRIGHT_HISTORIES").unwrap_or(HISTORIES) {
        play::<B>(&store, seed).await;
    }
}

async fn play<B: Bench>(store: &B::Store, seed: u64) {
    let _replay = Replay(seed);
    let twin = Twin::<B>::new(store).await;
    let mut history = History::new(twin, seed);
    history.unfold().await;
    history.settle_down().await;
    history.account().await;
}
