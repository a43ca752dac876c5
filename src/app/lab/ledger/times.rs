//! How long failovers and redeliveries took, from what was written down.

use super::history::{History, Take};

/// From the last message of an epoch to the first of the next, in milliseconds.
#[must_use]
pub fn failover_gaps_ms(history: &History) -> Vec<u64> {
    let published: Vec<(u64, u64)> = history
        .recorded
        .reigns
        .values()
        .filter_map(|reign| reign.published_ms)
        .collect();
    let pairs = published.iter().zip(published.iter().skip(1));
    pairs
        .map(|((_, last), (first, _))| first.saturating_sub(*last))
        .collect()
}

/// From the moment at which a holder was killed or stopped to the one at which another had its messages, in
/// milliseconds, take by take.
#[must_use]
pub fn redelivery_delays_ms(history: &History) -> Vec<u64> {
    let recorded = &history.recorded;
    let again: Vec<&Take> = recorded.takes.iter().filter(|take| take.attempt > 1).collect();
    let takes = recorded.takes_of(&again.iter().map(|take| take.first).collect());
    let delays = again.iter().filter_map(|take| {
        let before = takes[&take.first]
            .iter()
            .filter(|earlier| earlier.attempt == take.attempt - 1);
        let struck = before
            .filter_map(|earlier| recorded.struck_ms(earlier.member, take.ms))
            .max()?;
        Some(take.ms - struck)
    });
    delays.collect()
}
