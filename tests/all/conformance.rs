//! One suite of checks for every engine. A check is a sentence that holds for all of them.
//!
//! To add an engine: a [`Bench`] for it, and one line in `engines!`.

pub mod bench;
mod bodies;
mod calm;
mod cancels;
mod chains;
mod claims;
mod cursor;
mod effects;
mod election;
mod endings;
mod envelopes;
mod errors;
mod exchange;
mod foreign;
mod groups;
mod handing_on;
mod hearing;
pub mod hive;
mod leases;
mod limits;
mod looks;
mod managing;
mod older;
mod publish;
pub mod push;
mod redis_only;
mod replaying;
mod reports;
mod reshard;
mod retries;
mod rights;
mod sizes;
mod waits;
mod watching;
mod woken;

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::time::Duration;

pub use bench::{Bench, LocalBench, Opener, QUEUE, RedisBench, SqliteBench, engine, patient};
pub use hive::{Hive, packs};

use crate::fleet::PATIENCE;

type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A check, and its name.
pub struct Check<B: Bench> {
    pub name: &'static str,
    pub run: for<'a> fn(&'a Hive<B>) -> Running<'a>,
}

/// A list of checks from the names of functions.
macro_rules! checks {
    ($($check:ident),+ $(,)?) => {
        pub fn checks<B: Bench>() -> Vec<Check<B>> {
            vec![$(Check { name: stringify!($check), run: |hive| Box::pin($check(hive)) }),+]
        }
    };
}
use checks;

/// The checks that every engine must pass.
pub fn all<B: Bench>() -> Vec<Check<B>> {
    let mut all = election::checks();
    all.extend(leases::checks());
    all.extend(calm::checks());
    all.extend(claims::checks());
    all.extend(reshard::checks());
    all.extend(hearing::checks());
    all.extend(publish::checks());
    all.extend(replaying::checks());
    all.extend(cursor::checks());
    all.extend(push::checks());
    all.extend(exchange::checks());
    all.extend(groups::checks());
    all.extend(envelopes::checks());
    all.extend(cancels::checks());
    all.extend(endings::checks());
    all.extend(limits::checks());
    all.extend(handing_on::checks());
    all.extend(retries::checks());
    all.extend(effects::checks());
    all.extend(chains::checks());
    all.extend(errors::checks());
    all.extend(managing::checks());
    all.extend(reports::checks());
    all.extend(sizes::checks());
    all.extend(watching::checks());
    all.extend(woken::checks());
    all
}

/// Those that only Redis can be asked.
pub fn all_of_redis() -> Vec<Check<RedisBench>> {
    let mut checks = all();
    checks.extend(redis_only::checks());
    checks.extend(bodies::checks());
    checks.extend(looks::checks());
    checks.extend(rights::checks());
    checks.extend(foreign::checks());
    checks.extend(waits::checks());
    checks
}

/// Runs one check on a fresh queue, perhaps with a guard taken out. An error says why it failed.
pub fn verdict<B: Bench>(store: &B::Store, without: Option<&str>, check: &Check<B>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let run = async {
        let hive = Hive::new(B::fresh(store, without).await).await;
        (check.run)(&hive).await;
        hive.adds_up().await;
    };
    // Without a guard some never end.
    let most = without.map_or(PATIENCE, |_| Duration::from_secs(30));
    let run = async {
        tokio::time::timeout(most, run).await.expect("the check ends");
    };
    quietly(|| runtime.block_on(run))
}

/// What it panics with is returned, and not printed.
pub fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    quieten();
    PANIC.with_borrow_mut(|panic| *panic = Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let why = PANIC.with_borrow_mut(Option::take).unwrap_or_default();
    outcome.map_err(|_| why)
}

thread_local! {
    /// What the check on this thread failed with, while one runs.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A failing check is told of by who runs it: most of them are meant to fail.
fn quieten() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = PANIC.with_borrow_mut(|panic| panic.as_mut().map(|panic| *panic = info.to_string()));
            if kept.is_none() {
                loud(info);
            }
        }));
    });
}

/// Runs all and names those that fail.
fn pass<B: Bench>(checks: &[Check<B>]) {
    let store = B::store();
    let failures: Vec<String> = checks
        .iter()
        .filter_map(|check| {
            verdict(&store, None, check)
                .err()
                .map(|why| format!("{}: {why}", check.name))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} failed:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

macro_rules! engines {
    ($($test:ident: $bench:ty, $checks:expr;)+) => {
        $(
            #[test]
            fn $test() {
                pass::<$bench>(&$checks);
            }
        )+
    };
}

engines! {
    every_check_holds_for_memory: LocalBench, all();
    every_check_holds_for_redis: RedisBench, all_of_redis();
    every_check_holds_for_sqlite: SqliteBench, all();
}
