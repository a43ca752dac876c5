//! How long failovers and redeliveries took, from what was written down.

use super::history::{History, Take};

/// From the last message of an epoch to the first of the next, of when each published first and last, in milliseconds.
pub fn failover_gaps_ms(published: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let published: Vec<(u64, u64)> = published.collect();
    let pairs = published.windows(2);
    pairs.map(|pair| pair[1].0.saturating_sub(pair[0].1)).collect()
}

/// The longest time between two of these moments that falls into each of these windows, in milliseconds.
#[must_use]
pub fn silences_ms(mut moments: Vec<u64>, windows: &[(u64, u64)]) -> Vec<u64> {
    moments.sort_unstable();
    let longest = |(from, to): &(u64, u64)| {
        let start = moments.partition_point(|ms| ms < from).saturating_sub(1);
        let pairs = moments[start..].windows(2).take_while(|pair| pair[0] <= *to);
        pairs.map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    };
    windows.iter().map(longest).collect()
}

/// How long after each of these times the first of these moments came, in milliseconds; those that none came after are left out.
#[must_use]
pub fn waits_ms(mut moments: Vec<u64>, from: impl Iterator<Item = u64>) -> Vec<u64> {
    moments.sort_unstable();
    let next = |from: u64| {
        moments
            .get(moments.partition_point(|ms| *ms < from))
            .map(|ms| ms - from)
    };
    from.filter_map(next).collect()
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
        // Who was stopped before it took the message lost it for another reason.
        let struck = before
            .filter_map(|earlier| {
                recorded
                    .struck_ms(earlier.member, take.ms)
                    .filter(|ms| *ms >= earlier.ms)
            })
            .max()?;
        Some(take.ms - struck)
    });
    delays.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silence_of_a_window_is_the_longest_that_touches_it() {
        let told = vec![10, 0, 20, 500, 510, 900];
        assert_eq!(
            silences_ms(told.clone(), &[(100, 200), (15, 505), (505, 508), (1000, 2000)]),
            [480, 480, 10, 0]
        );
        assert_eq!(silences_ms(Vec::new(), &[(1, 2)]), [0]);
    }

    #[test]
    fn what_goes_on_is_waited_for_until_the_next_message() {
        let told = vec![510, 0, 20, 500];
        assert_eq!(waits_ms(told, [20, 21, 505, 511].into_iter()), [0, 479, 5]);
    }
}
