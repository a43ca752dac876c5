//! Histograms of how long something took.

/// Upper bounds of the classes of a [`Times`], in microseconds: three for each power of ten, from 10 µs to 100 s. One more class
/// holds what is longer.
pub const BOUNDS_US: [u64; 22] = {
    let (mut bounds, mut at) = ([0; 22], 0);
    let mut ten = 10;
    while at < bounds.len() {
        bounds[at] = [1, 2, 5][at % 3] * ten;
        at += 1;
        if at % 3 == 0 {
            ten *= 10;
        }
    }
    bounds
};

/// The classes of a [`Times`].
pub const CLASSES: usize = BOUNDS_US.len() + 1;

/// The class that a time belongs to.
#[must_use]
pub fn class(us: u64) -> usize {
    /// For a number of this many bits: the first bound that it may be below. At most two bounds have the same number of bits.
    const BEGIN: [u8; 28] = {
        let (mut begin, mut bits) = ([0; 28], 0);
        while bits < 28 {
            // The least number of this many bits.
            let least = if bits == 0 { 0 } else { 1 << (bits - 1) };
            let mut at = 0;
            while at < BOUNDS_US.len() && BOUNDS_US[at] < least {
                at += 1;
            }
            #[expect(clippy::cast_possible_truncation, reason = "there are 22 of them")]
            {
                begin[bits] = at as u8;
            }
            bits += 1;
        }
        begin
    };
    let bits = (64 - us.leading_zeros()) as usize;
    let mut at = usize::from(BEGIN[bits.min(27)]);
    while at < BOUNDS_US.len() && BOUNDS_US[at] < us {
        at += 1;
    }
    at
}

/// How long something took, how often: a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub counts: [u64; CLASSES],
    pub sum_us: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            counts: [0; CLASSES],
            sum_us: 0,
        }
    }
}

impl Times {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that this share (0 to 1) of all stayed within, in microseconds, interpolated between the bounds of its class.
    /// `None`, if nothing was counted. What is beyond the last bound counts as that bound.
    ///
    /// It never exceeds the longest time that was counted: in the class of the longest ones it is at most their mean, as far as the
    /// sum of all tells it.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * total as f64;
        let mut below = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            if count > 0 && (below + count) as f64 >= rank {
                let low = if at == 0 { 0 } else { BOUNDS_US[at - 1] };
                let high = BOUNDS_US.get(at).copied().unwrap_or(low);
                let part = ((rank - below as f64) / count as f64).clamp(0.0, 1.0);
                let within = low + ((high - low) as f64 * part) as u64;
                let is_last = self.counts[at + 1..].iter().all(|count| *count == 0);
                return Some(if is_last {
                    within.min(self.longest_mean_us(at).max(low))
                } else {
                    within
                });
            }
            below += count;
        }
        BOUNDS_US.last().copied()
    }

    /// The mean of the times in the last class, or less: those below took no longer than the bounds of theirs.
    fn longest_mean_us(&self, last: usize) -> u64 {
        let below = self.counts[..last].iter().zip(BOUNDS_US);
        let most: u64 = below.fold(0, |sum, (count, bound)| sum.saturating_add(count.saturating_mul(bound)));
        self.sum_us.saturating_sub(most) / self.counts[last].max(1)
    }

    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    pub(super) fn each(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = change(*mine, theirs);
        }
        self.sum_us = change(self.sum_us, other.sum_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_class_whose_bound_it_does_not_pass() {
        let slowly = |us| BOUNDS_US.iter().take_while(|bound| **bound < us).count();
        for bound in BOUNDS_US {
            for us in [bound - 1, bound, bound + 1, bound * 3 / 2] {
                assert_eq!(class(us), slowly(us), "{us}");
            }
        }
        for us in (0..64).map(|bits| 1u64 << bits).chain([0, u64::MAX]) {
            assert_eq!(class(us), slowly(us), "{us}");
        }
    }

    #[test]
    fn no_quantile_exceeds_what_was_measured() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let (mut times, mut longest) = (Times::default(), 0);
            for _ in 0..random.u64(1..20) {
                let digits = random.u32(1..8);
                let us = random.u64(1..10u64.pow(digits));
                times.counts[class(us)] += 1;
                times.sum_us += us;
                longest = longest.max(us);
            }
            for share in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let quantile = times.quantile_us(share).expect("something was counted");
                assert!(
                    quantile <= longest,
                    "{share}: {quantile} of at most {longest}: {times:?}"
                );
            }
        }
        let mut same = Times::default();
        same.counts[class(1_002_000)] = 5;
        same.sum_us = 5 * 1_002_000;
        assert_eq!(same.quantile_us(0.99), Some(1_002_000));
    }

    #[test]
    fn quantiles_lie_within_the_class_that_they_fall_into() {
        let mut times = Times::default();
        assert_eq!(times.quantile_us(0.5), None);
        times.counts[class(300)] = 98;
        times.counts[class(1_500_000)] = 2;
        assert!((200..=500).contains(&times.quantile_us(0.5).unwrap()));
        assert!((1_000_000..=2_000_000).contains(&times.quantile_us(0.99).unwrap()));
        times.sum_us = 98 * 300 + 2 * 1_500_000;
        assert!((1_000_000..=1_500_000).contains(&times.quantile_us(1.0).unwrap()));
        let mut long = Times::default();
        long.counts[CLASSES - 1] = 1;
        assert_eq!(long.quantile_us(0.5), Some(100_000_000));
    }
}
