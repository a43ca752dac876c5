//! One message a call: what is left when packs do not help.

use super::measure::{GENERATOR, compared, through};
use super::raw;
use super::row::Target::RatioAtLeast;
use super::session::Session;
use super::{Load, Rows};

const CONNECTIONS: usize = 50;

/// A generator, and fifty nodes in one process, as redis-benchmark has fifty clients in one. The generator is never far ahead of the
/// handlers, so that what is measured is both at once.
pub(super) fn copies() -> (String, String) {
    let handler = format!("bench-node --nodes {CONNECTIONS} --prefer never --work 0 --error-rate 0 --batch 1");
    (format!("{GENERATOR} --max-backlog 20000"), handler)
}

pub(super) fn one_by_one(session: &Session, load: Load) -> Rows {
    let messages = load.of(200_000, 5_000);
    let (generator, handler) = copies();
    let ours = || through(session, messages, &generator, (1, &handler));
    let row = compared("one-by-one", load.rounds, ours, || {
        raw::lpush(session, messages, CONNECTIONS)
    })?;
    Ok(vec![row.target(RatioAtLeast(0.5)).moonshot(RatioAtLeast(0.8))])
}
