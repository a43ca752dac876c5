//! One call is one step of the store, and holds up everybody else: however many large messages there are, it moves about a
//! megabyte. Small messages come first here, so that whoever measures only now and then is caught.

use queenright::engine::{Engine, Exchange, Settle};
use queenright::message::{Outcome, Pack, PackBuilder};

use super::hive::{failure, whole};
use super::{Bench, Check, Hive, checks};

checks![
    a_look_at_large_errors_brings_what_fits,
    a_reader_takes_and_a_requeue_moves_what_fits,
    of_large_messages_in_hand_what_fits_is_told_and_handed_on,
    of_large_messages_that_are_due_a_beat_moves_a_few,
];

const SMALL: u64 = 7;
const LARGE: u64 = 6;
/// One fits beside the small ones, two do not.
const LARGE_BYTES: usize = 900_000;
/// All small ones and one large one.
const FIT: u64 = SMALL + 1;

/// Publishes small messages and then large ones, each in a pack of its own, and takes them all.
async fn taken<B: Bench>(hive: &Hive<B>) -> Vec<Pack> {
    hive.found("a", &["b"]).await;
    let mut call = hive.publish_call("a", &[]).await;
    let mut builder = PackBuilder::new();
    for number in 0..SMALL + LARGE {
        builder.push(&vec![b'x'; if number < SMALL { 1 } else { LARGE_BYTES }]);
        call.packs.push(builder.build(number, call.epoch, 0));
    }
    hive.send(&call).await;
    let mut taken = Vec::new();
    while (taken.len() as u64) < SMALL + LARGE {
        let packs = hive.take("b", 100).await;
        assert!(!packs.is_empty(), "all are there");
        taken.extend(packs);
    }
    taken
}

/// The same, and gives all of them this outcome.
async fn settled<B: Bench>(hive: &Hive<B>, outcome: &Outcome) {
    for pack in taken(hive).await {
        let settles: Vec<Settle> = vec![whole(&pack, outcome)];
        let call: Exchange = hive.next_call("b", 0, settles, 0);
        hive.call(&call).await;
    }
}

async fn a_look_at_large_errors_brings_what_fits<B: Bench>(hive: &Hive<B>) {
    settled(hive, &failure()).await;
    let numbers =
        |failed: Vec<queenright::engine::Failed>| -> Vec<u64> { failed.iter().map(|failed| failed.number).collect() };
    let seen = hive.engine().failed(0, 500).await.expect("failed");
    assert_eq!(numbers(seen), (0..FIT).collect::<Vec<_>>());
    let seen = hive.engine().failed(FIT, 500).await.expect("failed");
    assert_eq!(numbers(seen), [FIT], "one at least");
    let seen = hive.engine().latest(u64::MAX, 500).await.expect("latest");
    assert_eq!(numbers(seen), [SMALL + LARGE - 1]);
}

async fn a_reader_takes_and_a_requeue_moves_what_fits<B: Bench>(hive: &Hive<B>) {
    settled(hive, &failure()).await;
    assert_eq!(hive.batch("one", 1, 500).await, (0..FIT).collect::<Vec<_>>());
    hive.engine().release("one", false).await.expect("release");
    let all: Vec<u64> = (0..SMALL + LARGE).collect();
    let requeued = hive.engine().requeue(&all).await.expect("requeue");
    assert_eq!((requeued.looked as u64, requeued.numbers.len() as u64), (FIT, FIT));
    let requeued = hive.engine().requeue(&all[requeued.looked..]).await.expect("requeue");
    assert_eq!(requeued.numbers, [FIT], "one at least");
}

async fn of_large_messages_in_hand_what_fits_is_told_and_handed_on<B: Bench>(hive: &Hive<B>) {
    taken(hive).await;
    let held = hive.engine().held("b", 500).await.expect("held");
    assert_eq!(
        held.iter().map(|piece| piece.first).collect::<Vec<_>>(),
        (0..FIT).collect::<Vec<_>>()
    );
    let reaped = hive.bury("b", &["a"]).await;
    assert_eq!((reaped.redelivered, reaped.more), (FIT, true));
    let reaped = hive.reap("b").await;
    assert_eq!((reaped.redelivered, reaped.more), (1, true), "one at least");
}

async fn of_large_messages_that_are_due_a_beat_moves_a_few<B: Bench>(hive: &Hive<B>) {
    settled(hive, &super::retries::retry(0)).await;
    assert_eq!(hive.status().await.later, SMALL + LARGE);
    assert!(hive.beat("a").await.more_due);
    // It ends with the one that passes the megabyte: how long an element of a sorted set is, Redis does not tell.
    assert_eq!(hive.status().await.later, SMALL + LARGE - (FIT + 1));
}
