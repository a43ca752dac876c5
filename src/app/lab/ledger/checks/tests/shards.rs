//! Queues with shards: each numbers by itself, and one sequence goes through all of them.

use super::*;

/// The first number of the second shard.
const FAR: u64 = 10_000_000_000_000;
/// The books of three processes, in the home shard; those in the other one follow.
const OLD: usize = 0;
const NEW: usize = 2;
const WORKER: usize = 4;

/// Eight messages in two shards, by two generators of which the second claimed both shards after the first.
struct Sharded {
    run: Run,
    /// What each message says: its place in the sequence.
    says: BTreeMap<u64, String>,
}

impl Sharded {
    fn new() -> Self {
        let mut history = History::default();
        for _ in 0..6 {
            history.add(Path::new("none"));
        }
        let mut run = Run {
            history,
            observed: Observed::default(),
        };
        for (book, node) in [(OLD, "old"), (NEW, "new"), (WORKER, "worker")] {
            run.write(book, &Record::Joined { node: node.into() });
            run.write(
                book + 1,
                &Record::Joined {
                    node: format!("{node}-1"),
                },
            );
        }
        for (shard, base) in [(0, 0), (1, FAR)] {
            run.does(OLD + shard, base, 2, What::Publish { epoch: 1 }, 100);
            run.does(NEW + shard, base + 2, 2, What::Publish { epoch: 2 }, 700);
        }
        let numbers = [0, 1, FAR, FAR + 1, 2, 3, FAR + 2, FAR + 3];
        let says = numbers
            .iter()
            .zip(0u64..)
            .map(|(number, place)| (*number, place.to_string()));
        run.observed.remains.published = 8;
        run.observed.remains.shards = vec![4, 4];
        run.observed.done = 8;
        Self {
            run,
            says: says.collect(),
        }
    }

    /// Everything is taken and done, then this is found.
    fn finds(mut self, wanted: &[&str]) {
        for (number, says) in &self.says {
            let book = WORKER + usize::from(*number >= FAR);
            let epoch = if number % FAR < 2 { 1 } else { 2 };
            self.run.takes(book, *number, 1, 1, epoch, 900);
            self.run.starts_with(book, *number, 1, says);
            self.run.does(book, *number, 1, What::Done, 1000);
        }
        self.run.finds(wanted);
    }
}

#[test]
fn epochs_go_up_in_each_shard_by_itself() {
    Sharded::new().finds(&[]);
}

#[test]
fn what_an_old_generator_wrote_after_the_claim_of_the_next() {
    let mut late = Sharded::new();
    late.run.takes(WORKER + 1, FAR + 3, 1, 1, 1, 950);
    late.finds(&["an epoch went back: message 10000000000002 is of epoch 2, and message 10000000000003 of epoch 1"]);
}

#[test]
fn two_processes_that_publish_in_one_epoch_in_different_shards() {
    let mut two = Sharded::new();
    two.run.does(OLD, 4, 1, What::Publish { epoch: 2 }, 710);
    two.run.observed.remains.shards[0] += 1;
    two.run.observed.remains.published += 1;
    two.run.observed.done += 1;
    two.says.insert(4, "8".into());
    two.finds(&["two generators: several nodes published in epoch 2"]);
}

#[test]
fn a_gap_in_the_numbers_of_a_shard() {
    let mut gap = Sharded::new();
    gap.run.does(NEW + 1, FAR + 5, 1, What::Publish { epoch: 2 }, 720);
    gap.run.observed.remains.shards[1] += 2;
    gap.run.observed.remains.published += 2;
    gap.run.observed.done += 2;
    gap.says.insert(FAR + 4, "8".into());
    gap.says.insert(FAR + 5, "9".into());
    gap.finds(&["in the queue, and published by nobody: 10000000000004"]);
}

#[test]
fn a_number_that_no_shard_has_given_out() {
    let mut beyond = Sharded::new();
    beyond.run.does(NEW, 4, 1, What::Publish { epoch: 2 }, 720);
    beyond.finds(&["lost, confirmed as published and unknown to the store: 4"]);
}

#[test]
fn a_place_of_the_sequence_that_is_left_out() {
    let mut missing = Sharded::new();
    missing.says.insert(3, "8".into());
    missing.finds(&["left out: nobody saw these places of the generator's sequence: 5"]);
}

#[test]
fn a_place_of_the_sequence_that_comes_in_two_shards() {
    let mut again = Sharded::new();
    again.says.insert(FAR + 3, "5".into());
    again.finds(&[
        "published twice: place 5 of the generator's sequence is message 3 of shard 0, and message 10000000000003 of shard 1",
    ]);
    // One that the shard forgot before it was told was made again.
    let mut forgot = Sharded::new();
    forgot.run.history.forget(&[(600, 800)], true);
    forgot.run.takes(WORKER + 1, FAR + 4, 1, 1, 2, 700);
    forgot.run.starts_with(WORKER + 1, FAR + 4, 1, "5");
    forgot.run.observed.remains.shards[1] += 1;
    forgot.run.observed.remains.published += 1;
    forgot.finds(&[]);
}
