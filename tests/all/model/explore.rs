//! Visits every state that a model can reach, breadth first, so that the first violation found is a shortest one.
//!
//! Of a state that was visited only a fingerprint of 64 bits is kept. Two states with the same one would be taken for
//! one: with a hundred million states the odds that this happens at all are one to four thousand.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Mutex;
use std::time::Instant;

/// What can be explored.
pub trait Model: Sync {
    type State: Clone + Eq + Hash + Debug + Send + Sync;
    type Step: Copy + Debug;

    fn start(&self) -> Self::State;
    /// Every step that can be taken; those that change nothing may be among them.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Self::Step>);
    fn next(&self, state: &Self::State, step: Self::Step) -> Self::State;
    /// Whether nodes and time take this step of themselves, so that it will be taken if nothing goes wrong any more.
    fn is_due(&self, state: &Self::State, step: Self::Step) -> bool;
    /// The promise that is broken in this state.
    fn broken(&self, state: &Self::State) -> Option<&'static str>;
    /// Whether everything has come to its end.
    fn is_settled(&self, state: &Self::State) -> bool;
}

/// The promise that is broken if nobody has anything to do before everything is settled.
pub const STUCK: &str = "everything is settled in the end";
/// The promise that is broken if nodes can go round in circles without any fault.
pub const CIRCLES: &str = "nobody goes round in circles";

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Steps tried, different states, and the length of the longest shortest path.
    pub steps: u64,
    pub states: u64,
    pub depth: usize,
    pub seconds: f64,
    /// The broken promise, with the steps that lead there.
    pub violation: Option<(&'static str, Vec<String>)>,
    /// Whether the time given was too short to see every state.
    pub cut: bool,
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept");
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

type Prints = HashSet<u64, BuildHasherDefault<AsItIs>>;

/// Packs what it is given into words, and mixes those: states are short, and nobody chooses them to collide.
#[derive(Default)]
struct Mix {
    mixed: u64,
    word: u64,
    bytes: u32,
}

impl Mix {
    fn stir(&mut self) {
        let product = u128::from(self.mixed ^ self.word ^ 0x9e37_79b9_7f4a_7c15) * 0xda94_2042_e4dd_58b5;
        let [low, high] = [product & u128::from(u64::MAX), product >> 64];
        self.mixed = u64::try_from(low ^ high).expect("64 bits");
        (self.word, self.bytes) = (0, 0);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.stir();
        last.word = u64::from(self.bytes);
        last.stir();
        last.mixed
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }
    fn write_u8(&mut self, byte: u8) {
        self.word = self.word << 8 | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.stir();
        }
    }
    /// Which variant of an enum it is: never more than a few.
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(variant.to_le_bytes()[0]);
    }
}

fn print(state: &impl Hash) -> u64 {
    let mut mix = Mix::default();
    state.hash(&mut mix);
    mix.finish()
}

/// How far and how closely to look.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub threads: usize,
    pub seconds: u64,
    /// Also look for circles, which takes the memory for every step.
    pub circles: bool,
}

/// Fingerprints by their lowest bits, so that threads seldom wait for each other.
const SHARDS: usize = 256;
/// From so many states on, progress is told.
const TOLD: u64 = 1_000_000;
/// States that a thread takes at a time.
const CHUNK: usize = 512;

/// What one thread has found on one level.
struct Part<S> {
    next: Vec<Vec<S>>,
    steps: u64,
    /// Which promise, and the fingerprint of the state in which it is broken.
    broken: Option<(&'static str, u64)>,
    due: Vec<(u64, u64)>,
}

impl<S> Part<S> {
    fn push(&mut self, state: S) {
        match self.next.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(state),
            None => self.next.push(vec![state]),
        }
    }
}

pub fn explore<M: Model>(model: &M, effort: Effort) -> Found {
    let began = Instant::now();
    let visited: Vec<Mutex<Prints>> = (0..SHARDS).map(|_| Mutex::default()).collect();
    let is_new = |print: u64| {
        let shard = &visited[usize::try_from(print >> 56).expect("eight bits")];
        shard.lock().expect("nobody panics with a shard in hand").insert(print)
    };
    let start = model.start();
    is_new(print(&start));
    let mut level = vec![vec![start]];
    let mut found = Found {
        steps: 0,
        states: 0,
        depth: 0,
        seconds: 0.0,
        violation: None,
        cut: false,
    };
    let mut due = Vec::new();
    let mut broken = None;
    while !level.is_empty() && broken.is_none() && !found.cut {
        found.states += level.iter().map(Vec::len).sum::<usize>() as u64;
        // A chunk that was visited is let go at once: two whole levels at a time would be too much.
        let chunks = Mutex::new(std::mem::take(&mut level));
        let work = || {
            let mut part = Part {
                next: Vec::new(),
                steps: 0,
                broken: None,
                due: Vec::new(),
            };
            loop {
                let chunk = chunks.lock().expect("nobody panics with the chunks in hand").pop();
                let Some(chunk) = chunk else { return part };
                for state in &chunk {
                    visit(model, state, effort, &is_new, &mut part);
                }
            }
        };
        let parts: Vec<Part<M::State>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..effort.threads).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("a model that does not panic"))
                .collect()
        });
        for part in parts {
            found.steps += part.steps;
            // Of several on one level the same is named whoever came first.
            broken = broken.into_iter().chain(part.broken).min();
            due.extend(part.due);
            level.extend(part.next);
        }
        if found.states > TOLD {
            let (states, seconds) = (found.states, began.elapsed().as_secs());
            println!("depth {}: {states} states so far, {seconds} s", found.depth);
        }
        found.depth += usize::from(!level.is_empty());
        found.cut = began.elapsed().as_secs() >= effort.seconds && !level.is_empty();
    }
    found.violation = broken.map(|(promise, last)| (promise, path(model, last)));
    if found.violation.is_none() && has_circle(&due) {
        found.violation = Some((CIRCLES, Vec::new()));
    }
    found.seconds = began.elapsed().as_secs_f64();
    found
}

fn visit<M: Model>(
    model: &M,
    state: &M::State,
    effort: Effort,
    is_new: &impl Fn(u64) -> bool,
    part: &mut Part<M::State>,
) {
    let (mut steps, mut rests) = (Vec::with_capacity(32), true);
    model.steps(state, &mut steps);
    for step in steps {
        let next = model.next(state, step);
        if next == *state {
            continue;
        }
        part.steps += 1;
        let is_due = model.is_due(state, step);
        rests &= !is_due;
        let to = print(&next);
        if effort.circles && is_due {
            part.due.push((print(state), to));
        }
        if is_new(to) {
            part.push(next);
        }
    }
    let stuck = (rests && !model.is_settled(state)).then_some(STUCK);
    if let Some(promise) = model.broken(state).or(stuck) {
        let here = Some((promise, print(state)));
        part.broken = part.broken.into_iter().chain(here).min();
    }
}

/// The steps of a shortest path to the state with this fingerprint.
fn path<M: Model>(model: &M, last: u64) -> Vec<String> {
    let start = model.start();
    let mut from = HashMap::from([(print(&start), None)]);
    let mut level = vec![start.clone()];
    let mut steps = Vec::new();
    while !from.contains_key(&last) {
        for state in std::mem::take(&mut level) {
            steps.clear();
            model.steps(&state, &mut steps);
            for step in &steps {
                let next = model.next(&state, *step);
                if let std::collections::hash_map::Entry::Vacant(entry) = from.entry(print(&next)) {
                    entry.insert(Some(print(&state)));
                    level.push(next);
                }
            }
        }
        assert!(!level.is_empty(), "what was found once is found again");
    }
    let mut prints = vec![last];
    while let Some(Some(before)) = prints.last().map(|print| from[print]) {
        prints.push(before);
    }
    let (mut state, mut path) = (start, Vec::new());
    for to in prints.into_iter().rev().skip(1) {
        steps.clear();
        model.steps(&state, &mut steps);
        let taken = steps.iter().find(|step| print(&model.next(&state, **step)) == to);
        let step = *taken.expect("it was found once");
        path.push(format!("{step:?}"));
        state = model.next(&state, step);
    }
    path.push(format!("{state:#?}"));
    path
}

/// Takes away every state that nothing leads to, until none is left, or only circles are.
fn has_circle(steps: &[(u64, u64)]) -> bool {
    let mut leading_to: HashMap<u64, u32> = HashMap::new();
    let mut after: HashMap<u64, Vec<u64>> = HashMap::new();
    for (from, to) in steps {
        leading_to.entry(*from).or_default();
        *leading_to.entry(*to).or_default() += 1;
        after.entry(*from).or_default().push(*to);
    }
    let mut free: Vec<u64> = leading_to
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(print, _)| *print)
        .collect();
    let mut taken = 0;
    while let Some(from) = free.pop() {
        taken += 1;
        for to in after.get(&from).into_iter().flatten() {
            let count = leading_to.get_mut(to).expect("counted above");
            *count -= 1;
            if *count == 0 {
                free.push(*to);
            }
        }
    }
    taken < leading_to.len()
}
