//! Whole fleets of production nodes in one process and in virtual time, against the state machine, with everything going
//! wrong that can. A seed decides all of it.
//!
//! `QUEENRIGHT_SEEDS` sets how many seeds, `QUEENRIGHT_FIRST` where they begin; `QUEENRIGHT_SEED` replays one, and tells
//! what happens.

mod cancels;
mod chains;
mod checks;
mod crown;
mod errands;
mod faults;
#[cfg(feature = "mutants")]
mod groups;
mod guards;
mod places;
mod plan;
mod process;
mod publishes;
mod pushes;
mod replay;
mod replica;
mod run;
mod shelves;
mod told;
mod wire;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use run::{Options, Report, play};

/// How many seeds, unless told otherwise.
const SEEDS: u64 = 2000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn replay(seed: u64) -> String {
    format!("QUEENRIGHT_SEED={seed} cargo test --profile gate --all-features --test all -- --nocapture seeded_fleets")
}

#[test]
fn seeded_fleets_keep_every_promise() {
    if let Some(seed) = variable("QUEENRIGHT_SEED") {
        let options = Options {
            chatty: true,
            ..Options::default()
        };
        let report = play(seed, options);
        assert!(
            report.failure.is_none(),
            "seed {seed}: {}",
            report.failure.unwrap_or_default()
        );
        return;
    }
    let seeds = variable("QUEENRIGHT_SEEDS").unwrap_or(SEEDS);
    let first = variable("QUEENRIGHT_FIRST").unwrap_or(0);
    let begun = std::time::Instant::now();
    let total = Mutex::new((0, 0, 0, 0, 0));
    let failures = Mutex::new(Vec::new());
    each(first..first + seeds, |seed| {
        let Report {
            failure,
            calls,
            virtual_ms,
            published,
            elections,
            redelivered,
            ..
        } = play(seed, Options::default());
        let mut total = total.lock().expect("whole");
        *total = (
            total.0 + calls,
            total.1 + virtual_ms,
            total.2 + published,
            total.3 + elections,
            total.4 + redelivered,
        );
        if let Some(why) = failure {
            failures.lock().expect("whole").push((seed, why));
        }
        failures.lock().expect("whole").len() < 10
    });
    let (calls, ms, published, elections, redelivered) = *total.lock().expect("whole");
    println!(
        "{seeds} seeds in {:?}: {calls} calls, {} s of virtual time, {published} messages, {elections} elections, {redelivered} redelivered",
        begun.elapsed(),
        ms / 1000,
    );
    let failures = failures.into_inner().expect("whole");
    let shown: Vec<String> = failures
        .iter()
        .map(|(seed, why)| format!("seed {seed}: {why}\nreplay: {}", replay(*seed)))
        .collect();
    assert!(failures.is_empty(), "\n{}", shown.join("\n\n"));
}

/// Seeds over all cores, until one says false.
fn each(seeds: std::ops::Range<u64>, play: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !play(seed) {
                        break;
                    }
                }
            });
        }
    });
}

#[test]
fn a_seed_plays_the_same_twice() {
    for seed in 0..50 {
        let (first, second) = (play(seed, Options::default()), play(seed, Options::default()));
        assert_eq!((first.hash, first.calls), (second.hash, second.calls), "seed {seed}");
        assert!(first.calls > 0);
    }
}

#[test]
fn far_away_several_calls_are_on_their_way_at_once_and_nearby_one() {
    let most = |far| {
        let seeds = (0..200).filter(|seed| (plan::Plan::draw(*seed).trip_ms > 0) == far);
        let most = seeds.map(|seed| play(seed, Options::default()).flying_max);
        most.reduce(|[a, b], [c, d]| [a.max(c), b.max(d)]).expect("some")
    };
    let ([near_publishes, near_exchanges], [publishes, exchanges]) = (most(false), most(true));
    assert_eq!((near_publishes, near_exchanges), (1, 1));
    assert!(
        publishes > 3 && exchanges > 1,
        "{publishes} publishes, {exchanges} exchanges"
    );
}
