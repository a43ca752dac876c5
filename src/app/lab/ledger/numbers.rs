//! A set of numbers that come mostly in runs: bits in chunks, and nothing but a mark for a chunk that is full.

use std::collections::BTreeMap;

const WORDS: usize = 64;
const CHUNK: u64 = 64 * WORDS as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Chunk {
    Full,
    Bits(Box<[u64; WORDS]>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    chunks: BTreeMap<u64, Chunk>,
    len: u64,
}

impl Chunk {
    fn word(&self, index: usize) -> u64 {
        match self {
            Self::Full => u64::MAX,
            Self::Bits(bits) => bits[index],
        }
    }
}

impl Numbers {
    /// Of runs: first and count.
    pub fn of(runs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut numbers = Self::default();
        for (first, count) in runs {
            numbers.insert(first, count);
        }
        numbers
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, number: u64) -> bool {
        let index = (number % CHUNK / 64) as usize;
        self.chunks
            .get(&(number / CHUNK))
            .is_some_and(|chunk| chunk.word(index) >> (number % 64) & 1 == 1)
    }

    /// Those of a run that are here.
    pub fn among(&self, first: u64, count: u64) -> Self {
        let mut found = Self::default();
        for (key, from, to) in pieces(first, count) {
            let Some(chunk) = self.chunks.get(&key) else {
                continue;
            };
            // Mostly there are none, and then nothing is to be built.
            if masks(from, to).any(|(index, mask)| chunk.word(index) & mask != 0) {
                let mut bits = [0; WORDS];
                for (index, mask) in masks(from, to) {
                    bits[index] = chunk.word(index) & mask;
                }
                found.put(key, &bits);
            }
        }
        found
    }

    /// Adds a run.
    pub fn insert(&mut self, first: u64, count: u64) {
        for (key, from, to) in pieces(first, count) {
            let chunk = self
                .chunks
                .entry(key)
                .or_insert_with(|| Chunk::Bits(Box::new([0; WORDS])));
            if let Chunk::Bits(bits) = chunk {
                for (index, mask) in masks(from, to) {
                    self.len += u64::from((mask & !bits[index]).count_ones());
                    bits[index] |= mask;
                }
                if bits.iter().all(|word| *word == u64::MAX) {
                    *chunk = Chunk::Full;
                }
            }
        }
    }

    pub fn add(&mut self, other: &Self) {
        for number in other.iter() {
            self.insert(number, 1);
        }
    }

    pub fn remove(&mut self, first: u64, count: u64) {
        for (key, from, to) in pieces(first, count) {
            let Some(chunk) = self.chunks.get_mut(&key) else {
                continue;
            };
            if *chunk == Chunk::Full {
                *chunk = Chunk::Bits(Box::new([u64::MAX; WORDS]));
            }
            if let Chunk::Bits(bits) = chunk {
                for (index, mask) in masks(from, to) {
                    self.len -= u64::from((mask & bits[index]).count_ones());
                    bits[index] &= !mask;
                }
                if bits.iter().all(|word| *word == 0) {
                    self.chunks.remove(&key);
                }
            }
        }
    }

    /// Those of these that are in none of the others.
    pub fn minus(&self, others: &[&Self]) -> Self {
        self.combine(|key, index, word| {
            let taken = others.iter().filter_map(|other| other.chunks.get(&key));
            taken.fold(word, |word, chunk| word & !chunk.word(index))
        })
    }

    /// Those that are in both.
    pub fn and(&self, other: &Self) -> Self {
        self.combine(|key, index, word| word & other.chunks.get(&key).map_or(0, |chunk| chunk.word(index)))
    }

    fn combine(&self, word_of: impl Fn(u64, usize, u64) -> u64) -> Self {
        let mut result = Self::default();
        for (key, chunk) in &self.chunks {
            let mut bits = [0; WORDS];
            for (index, word) in bits.iter_mut().enumerate() {
                *word = word_of(*key, index, chunk.word(index));
            }
            result.put(*key, &bits);
        }
        result
    }

    fn put(&mut self, key: u64, bits: &[u64; WORDS]) {
        let count: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
        if count > 0 {
            self.len += count;
            let full = count == CHUNK;
            let chunk = if full {
                Chunk::Full
            } else {
                Chunk::Bits(Box::new(*bits))
            };
            self.chunks.insert(key, chunk);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.iter().flat_map(|(key, chunk)| {
            (0..CHUNK)
                .filter(|at| chunk.word((at / 64) as usize) >> (at % 64) & 1 == 1)
                .map(move |at| key * CHUNK + at)
        })
    }
}

/// A run, cut at the borders of chunks: the chunk, and from where to where within it.
fn pieces(first: u64, count: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = first.saturating_add(count);
    let keys = first / CHUNK..end.div_ceil(CHUNK);
    keys.map(move |key| {
        let start = key * CHUNK;
        (key, first.max(start) - start, end.min(start + CHUNK) - start)
    })
    .filter(|(_, from, to)| from < to)
}

/// The words that a piece touches, and which bits of each.
fn masks(from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
    (from / 64..to.div_ceil(64)).map(move |index| {
        let (low, high) = (from.max(index * 64) - index * 64, to.min(index * 64 + 64) - index * 64);
        let mask = (u64::MAX >> (64 - (high - low))) << low;
        (usize::try_from(index).expect("within a chunk"), mask)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set_whatever_runs_go_in_and_out() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut numbers, mut model) = (Numbers::default(), BTreeSet::new());
        for _ in 0..2000 {
            let (first, count) = (random.u64(..20_000), random.u64(..6_000));
            if random.u8(..3) > 0 {
                let before: Vec<u64> = (first..first + count).filter(|n| !model.insert(*n)).collect();
                assert!(numbers.among(first, count).iter().eq(before), "seed {seed}");
                numbers.insert(first, count);
            } else {
                numbers.remove(first, count);
                model.retain(|n| !(first..first + count).contains(n));
            }
            assert_eq!(numbers.len(), model.len() as u64, "seed {seed}");
        }
        assert!(numbers.iter().eq(model.iter().copied()), "seed {seed}");
        let others = [Numbers::of([(100, 9_000)]), Numbers::of([(12_000, 1)])];
        let left = numbers.minus(&[&others[0], &others[1]]);
        let wanted = model
            .iter()
            .copied()
            .filter(|n| !(100..9100).contains(n) && *n != 12_000);
        assert!(left.iter().eq(wanted), "seed {seed}");
        let both = numbers.and(&others[0]);
        assert!(
            both.iter()
                .eq(model.iter().copied().filter(|n| (100..9100).contains(n))),
            "seed {seed}"
        );
        assert!(model.iter().all(|n| numbers.contains(*n)) && !Numbers::default().contains(0));
    }
}
