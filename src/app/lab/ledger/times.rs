//! How long failovers and redeliveries took, from what was written down.

use super::history::{History, Take};

/// From the last message of an epoch to the first of the next, of when each published first and last, in milliseconds.
pub fn failover_gaps_ms(published: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let published: Vec<(u64, u64)> = published.collect();
    let pairs = published.windows(2);
    pairs.map(|pair| pair[1].0.saturating_sub(pair[0].1)).collect()
}

/// From the moment at which a holder was killed or stopped to the one at which another had its messages, in
/// milliseconds, take by take.
pub fn redelivery_delays_ms(history: &History) -> Vec<u64> {
    let recorded = &history.recorded;
    let again: Vec<&Take> = recorded.takes.iter().filter(|take| take.deliveries > 1).collect();
    let takes = recorded.takes_of(&again.iter().map(|take| take.first).collect());
    let delays = again.iter().filter_map(|take| {
        let before = takes[&take.first]
            .iter()
            .filter(|earlier| earlier.deliveries == take.deliveries - 1);
        let struck = before
            .filter_map(|earlier| recorded.struck_ms(earlier.member, take.ms))
            .max()?;
        Some(take.ms - struck)
    });
    delays.collect()
}
