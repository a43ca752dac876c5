//! One message a call: what is left when packs do not help.

use super::measure::{GENERATOR, compared, through};
use super::raw;
use super::row::Target::RatioAtLeast;
use super::session::Session;
use super::{Load, Rows};

const CONNECTIONS: usize = 50;
/// Fifty nodes in one process, as redis-benchmark has fifty clients in one.
pub(super) const HANDLER: &str = "bench-node --nodes 50 --prefer never --work 0 --error-rate 0 --batch 1";
/// The generator is never far ahead of the handlers, so that what is measured is both at once.
pub(super) const BACKLOG: u64 = 20_000;

pub(super) fn generator() -> String {
    format!("{GENERATOR} --max-backlog {BACKLOG}")
}

pub(super) fn one_by_one(session: &Session, load: Load) -> Rows {
    let messages = load.of(200_000, 5_000);
    let ours = || through(session, messages, &generator(), (1, HANDLER));
    let row = compared("one-by-one", load.rounds, ours, || {
        raw::lpush(session, messages, CONNECTIONS)
    })?;
    Ok(vec![row.target(RatioAtLeast(0.5)).moonshot(RatioAtLeast(0.8))])
}
