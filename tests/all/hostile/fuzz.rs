//! Bytes that nobody meant: what decodes, parses or prints them never panics and never accepts what it should not.
//!
//! Each target has a small corpus in `tests/corpus/`, which is run as it is and then mutated from a seed that is printed
//! when something fails. There is no coverage to guide this, since that needs a nightly compiler: instead, an input to
//! which the target answers in a new way joins the pool that further ones are made from.
//!
//! `QUEENRIGHT_FUZZ` sets how many inputs a target gets; `QUEENRIGHT_SEED` replays a run.

mod command_line;
mod packs;
mod replies;
mod settings;
mod terminal;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use fastrand::Rng;

/// How many inputs, unless told otherwise.
const INPUTS: u64 = 20_000;
/// The pool stops growing here, and an input there.
const POOL_MAX: usize = 2000;
const BYTES_MAX: usize = 4096;

/// Numbers at which decoders err.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    1000,
    1001,
    65_535,
    u32::MAX as u64,
    (1 << 53) - 1,
    1 << 53,
    u64::MAX,
];

/// Gives every input to `run`, which panics at a fault and otherwise names what it answered.
fn fuzz<A: Hash>(target: &str, words: &[&[u8]], mut run: impl FnMut(&[u8]) -> A) {
    let mut answers = HashSet::new();
    let mut pool = Vec::new();
    let mut try_on = |input: &[u8], seed: u64| {
        let replay = Replay { target, input, seed };
        let mut hasher = DefaultHasher::new();
        run(input).hash(&mut hasher);
        std::mem::forget(replay);
        answers.insert(hasher.finish())
    };
    for input in corpus(target) {
        try_on(&input, 0);
        pool.push(input);
    }
    assert!(!pool.is_empty(), "{target} has a corpus");
    let seed = crate::oracle::variable("QUEENRIGHT_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut mutator = Mutator {
        rng: Rng::with_seed(seed),
        words,
    };
    let inputs = crate::oracle::variable("QUEENRIGHT_FUZZ").unwrap_or(INPUTS);
    let mut input = Vec::new();
    for _ in 0..inputs {
        mutator.next(&pool, &mut input);
        if try_on(&input, seed) && pool.len() < POOL_MAX {
            pool.push(input.clone());
        }
    }
    println!("{target}: {inputs} inputs, {} different answers", answers.len());
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let inputs = paths.iter().map(|path| std::fs::read(path).expect("readable"));
    inputs.collect()
}

/// Tells which input did it, and how to see it again.
struct Replay<'a> {
    target: &'a str,
    input: &'a [u8],
    seed: u64,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        eprintln!(
            "{} failed on the input b\"{}\" of QUEENRIGHT_SEED={}; keep it in tests/corpus/{}/",
            self.target,
            self.input.escape_ascii(),
            self.seed,
            self.target
        );
    }
}

struct Mutator<'a> {
    rng: Rng,
    /// What the target has a meaning for.
    words: &'a [&'a [u8]],
}

impl Mutator<'_> {
    /// One from the pool, changed a few times.
    fn next(&mut self, pool: &[Vec<u8>], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&pool[self.rng.usize(..pool.len())]);
        for _ in 0..=self.rng.u32(..4) {
            let other = &pool[self.rng.usize(..pool.len())];
            self.change(out, other);
        }
        out.truncate(BYTES_MAX);
    }

    fn change(&mut self, out: &mut Vec<u8>, other: &[u8]) {
        let rng = &mut self.rng;
        let at = rng.usize(..=out.len());
        let some = at + rng.usize(..=(out.len() - at).min(16));
        let edge = EDGES[rng.usize(..EDGES.len())];
        match rng.u32(..10) {
            0 if at < out.len() => out[at] ^= 1 << rng.u32(..8),
            1 if at < out.len() => out[at] = rng.u8(..),
            2 => drop(out.drain(at..some)),
            3 => {
                let piece = out[at..some].to_vec();
                let to = rng.usize(..=out.len());
                out.splice(to..to, piece);
            }
            4 => {
                let from = rng.usize(..=other.len());
                let until = from + rng.usize(..=(other.len() - from).min(64));
                out.splice(at..some, other[from..until].iter().copied());
            }
            5 if !self.words.is_empty() => {
                let word = self.words[rng.usize(..self.words.len())];
                out.splice(at..at, word.iter().copied());
            }
            6 if !self.words.is_empty() => {
                let word = self.words[rng.usize(..self.words.len())];
                out.splice(at..some, word.iter().copied());
            }
            7 => {
                let width = [1, 2, 4, 8][rng.usize(..4)];
                let end = (at + width).min(out.len());
                out.splice(at..end, edge.to_le_bytes()[..width].iter().copied());
            }
            8 => {
                let digits = edge.to_string();
                out.splice(at..some, digits.bytes());
            }
            _ => out.truncate(at),
        }
    }
}
