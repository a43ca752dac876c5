//! What the store did under a seed, call by call, done again by the scripts on a real Redis: every answer and everything
//! stored must be the same.
//!
//! `QUEENRIGHT_REPLAYS` sets how many seeds, `QUEENRIGHT_FIRST` where they begin, `QUEENRIGHT_SEED` takes one.

use super::plan::Plan;
use super::run::{Options, play};
use super::variable;
use super::world::Step;
use crate::conformance::{Bench, RedisBench};
use crate::oracle::Twin;

/// How many seeds, unless told otherwise.
const REPLAYS: u64 = 18;

#[tokio::test]
async fn redis_does_what_the_simulated_store_did() {
    let store = RedisBench::store();
    let only = variable("QUEENRIGHT_SEED");
    let first = only.or_else(|| variable("QUEENRIGHT_FIRST")).unwrap_or(0);
    let seeds = if only.is_some() {
        1
    } else {
        variable("QUEENRIGHT_REPLAYS").unwrap_or(REPLAYS)
    };
    let mut calls = 0;
    for seed in first..first + seeds {
        let _replay = Told(seed);
        // Who is connected is no call: the random histories of the oracle do that.
        if Plan::draw(seed).settings.watch {
            continue;
        }
        // A runtime of its own cannot be entered from this one.
        let options = Options {
            record: true,
            ..Options::default()
        };
        let played = std::thread::spawn(move || play(seed, options));
        let report = played.join().expect("a report");
        assert!(report.failure.is_none(), "{}", report.failure.unwrap_or_default());
        calls += Box::pin(again(&store, &report.history)).await;
    }
    println!("{calls} calls of {seeds} seeds");
    assert!(calls > 10 * seeds, "something was replayed: {calls}");
}

/// Tells how to see a failure again.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this seed with QUEENRIGHT_SEED={}", self.0);
        }
    }
}

/// How many calls were done again. What no call can do, as going back in time, ends it.
async fn again(store: &<RedisBench as Bench>::Store, history: &[Step]) -> u64 {
    let mut twin = Twin::<RedisBench>::new(store).await;
    let mut calls = 0;
    for step in history {
        match step {
            Step::Called { wall_ms, call, answer } => {
                twin.set_wall(*wall_ms).await;
                assert_eq!(twin.call(call).await, **answer, "{call:?}");
                calls += 1;
            }
            Step::Heard(wake) => twin.hear(*wake).await,
            Step::Miracle => break,
        }
    }
    twin.compare().await;
    calls
}
