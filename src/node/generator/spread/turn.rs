//! Whose turn it is: which shard the next publish goes to.

use super::super::batch::PUBLISH_BYTES_MAX;

/// A shard is sent so many bytes before it is the turn of the next, if each publish is as large as it may be. Large messages are few in each
/// publish: then several go to the same shard, so that whoever takes them finds more than a few there.
const TURN_BYTES: usize = 16 * PUBLISH_BYTES_MAX;

pub(super) struct Turn {
    shard: usize,
    shards: usize,
    /// How many bytes were sent in this turn.
    bytes: usize,
}

impl Turn {
    /// Reigns may be short: they do not all begin with the same shard.
    pub(super) fn of(epoch: u64, shards: usize) -> Self {
        let shard = usize::try_from(epoch).unwrap_or(0) % shards;
        Self {
            shard,
            shards,
            bytes: 0,
        }
    }

    /// There is more than one.
    pub(super) fn is_spread(&self) -> bool {
        self.shards > 1
    }

    /// All shards, the one whose turn it is first.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.shard, self.shards);
        (0..count).map(move |step| (first + step) % count)
    }

    /// So many bytes were sent to a shard.
    pub(super) fn sent(&mut self, shard: usize, bytes: usize) {
        self.bytes += bytes;
        if bytes < PUBLISH_BYTES_MAX || self.bytes >= TURN_BYTES {
            (self.shard, self.bytes) = ((shard + 1) % self.shards, 0);
        } else {
            self.shard = shard;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_publishes_go_to_each_shard_in_turn_and_large_ones_sixteen_in_a_row() {
        let mut turn = Turn::of(5, 3);
        let mut next = |bytes| {
            let shard = turn.in_turn().next().expect("one");
            turn.sent(shard, bytes);
            shard
        };
        let small: Vec<usize> = (0..4).map(|_| next(10)).collect();
        assert_eq!(small, [2, 0, 1, 2]);
        let large: Vec<usize> = (0..33).map(|_| next(PUBLISH_BYTES_MAX)).collect();
        assert_eq!(
            large,
            [[0; 16], [1; 16]].concat().into_iter().chain([2]).collect::<Vec<_>>()
        );
    }
}
