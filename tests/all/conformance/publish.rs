//! Numbers, the grid of ticks, the backlog.

use queenright::engine::{Beat, Engine, Publish, Published, Renewed, Seen, Wake};
use queenright::error::Error;

use super::hive::{CROWN_MS, STEP_MS, TICK_MS, done, numbers, packs, whole};
use super::{Bench, Check, Hive, checks};

checks![
    a_repeated_publish_is_applied_once,
    a_publish_that_builds_on_lost_messages_is_refused,
    numbers_that_others_took_are_not_given_again,
    packs_that_skip_a_number_are_refused,
    a_full_backlog_waits_until_messages_are_taken,
    no_number_reaches_the_limit,
    a_missed_tick_is_published_at_once_and_only_one,
    a_new_generator_goes_on_with_the_number_and_the_grid,
    a_shorter_interval_takes_effect_at_once,
    work_that_comes_or_waits_rings_the_bell,
    the_grain_follows_what_handlers_ask_for,
    numbers_beyond_ten_to_the_fourteen_stay_exact,
];

async fn a_repeated_publish_is_applied_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let call = hive.publish("a", &[2, 1]).await;
    let again = hive.send(&call).await;
    assert!(matches!(again, Published::Ok { seq: 3, made: 3, .. }), "{again:?}");
    hive.publish("a", &[1]).await;
    let late = hive.send(&call).await;
    assert!(matches!(late, Published::Ok { seq: 4, made: 4, .. }), "{late:?}");
    assert_eq!(hive.status().await.published, 4);
    assert_eq!(numbers(&hive.take("b", 10).await), [0, 1, 2, 3]);
}

async fn a_publish_that_builds_on_lost_messages_is_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let mut call = hive.publish_call("a", &[1]).await;
    call.made = 5;
    assert_eq!(hive.send(&call).await, Published::Gap);
    assert_eq!(hive.status().await.published, 0);
}

async fn numbers_that_others_took_are_not_given_again<B: Bench>(hive: &Hive<B>) {
    let a = hive.found("a", &[]).await;
    hive.publish("a", &[3]).await;
    let mut call = hive.publish_call("a", &[1]).await;
    call.first = 7;
    call.packs = packs(7, a.epoch, hive.wall_ms(), &[1]);
    assert_eq!(hive.send(&call).await, Published::Moved { seq: 3 });
    assert_eq!(hive.status().await.published, 3);
}

async fn packs_that_skip_a_number_are_refused<B: Bench>(hive: &Hive<B>) {
    let a = hive.found("a", &[]).await;
    let mut call = hive.publish_call("a", &[2]).await;
    call.packs.extend(packs(3, a.epoch, hive.wall_ms(), &[1]));
    let answer = hive.engine().publish(&call).await;
    assert!(matches!(answer, Err(Error::Protocol { .. })), "{answer:?}");
    call.packs = packs(0, a.epoch + 1, hive.wall_ms(), &[1]);
    let answer = hive.engine().publish(&call).await;
    assert!(matches!(answer, Err(Error::Protocol { .. })), "{answer:?}");
    assert_eq!(hive.status().await.published, 0);
}

async fn a_full_backlog_waits_until_messages_are_taken<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let limited = |call: Publish| Publish { backlog_max: 5, ..call };
    let call = limited(hive.publish_call("a", &[3, 2]).await);
    assert!(matches!(hive.send(&call).await, Published::Ok { .. }));
    let call = limited(hive.publish_call("a", &[1]).await);
    assert_eq!(hive.send(&call).await, Published::Full);
    assert_eq!(hive.status().await.queued, 5);
    hive.take("b", 3).await;
    let call = limited(hive.publish_call("a", &[3]).await);
    assert!(matches!(hive.send(&call).await, Published::Ok { seq: 8, .. }));
    let call = limited(hive.publish_call("a", &[1]).await);
    assert_eq!(hive.send(&call).await, Published::Full);
    hive.take("b", 100).await;
    let call = limited(hive.publish_call("a", &[5]).await);
    assert!(
        matches!(hive.send(&call).await, Published::Ok { seq: 13, .. }),
        "an empty queue has room"
    );
}

async fn no_number_reaches_the_limit<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let limited = |call: Publish| Publish {
        messages: Some(4),
        ..call
    };
    let call = limited(hive.publish_call("a", &[3]).await);
    assert!(matches!(hive.send(&call).await, Published::Ok { .. }));
    let over = limited(hive.publish_call("a", &[2]).await);
    assert_eq!(hive.send(&over).await, Published::Finished);
    assert_eq!(hive.status().await.published, 3);
    let last = limited(hive.publish_call("a", &[1]).await);
    assert!(matches!(hive.send(&last).await, Published::Ok { seq: 4, .. }));
    assert!(
        matches!(hive.send(&last).await, Published::Ok { seq: 4, .. }),
        "a repeat is still a repeat"
    );
    let over = limited(hive.publish_call("a", &[1]).await);
    assert_eq!(hive.send(&over).await, Published::Finished);
}

/// Publishes one message on the grid; the time until the next tick.
async fn tick<B: Bench>(hive: &Hive<B>, generator: &str) -> u64 {
    let call = Publish {
        interval_ms: TICK_MS,
        ..hive.publish_call(generator, &[1]).await
    };
    match hive.send(&call).await {
        Published::Ok { due_in_ms, .. } => due_in_ms,
        other => panic!("{other:?}"),
    }
}

async fn a_missed_tick_is_published_at_once_and_only_one<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    assert_eq!(tick(hive, "a").await, TICK_MS);
    hive.pass(TICK_MS, &["a"]).await;
    assert_eq!(hive.beat("a").await.due_in_ms, 0);
    assert_eq!(tick(hive, "a").await, TICK_MS);
    // Two ticks and a half go by.
    hive.pass(TICK_MS * 5 / 2, &["a"]).await;
    assert_eq!(hive.beat("a").await.due_in_ms, 0, "one is due at once");
    assert_eq!(tick(hive, "a").await, TICK_MS / 2, "then the grid goes on");
    // A publish flat out leaves the grid alone.
    hive.publish("a", &[1]).await;
    assert_eq!(hive.beat("a").await.due_in_ms, TICK_MS / 2);
}

async fn a_new_generator_goes_on_with_the_number_and_the_grid<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert_eq!(tick(hive, "a").await, TICK_MS);
    hive.pass(CROWN_MS, &["b"]).await;
    let b = hive.beat("b").await;
    assert!(b.generator);
    assert_eq!((b.seq, b.made, b.due_in_ms), (1, 1, TICK_MS - CROWN_MS));
    hive.pass(TICK_MS - CROWN_MS, &["b"]).await;
    assert_eq!(tick(hive, "b").await, TICK_MS);
    assert_eq!(hive.status().await.published, 2);
}

async fn a_shorter_interval_takes_effect_at_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let slow = Publish {
        interval_ms: 3_600_000,
        ..hive.publish_call("a", &[1]).await
    };
    hive.send(&slow).await;
    hive.jump(STEP_MS.cast_signed() / 2).await;
    assert_eq!(tick(hive, "a").await, TICK_MS);
}

async fn work_that_comes_or_waits_rings_the_bell<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert!(!hive.rung(Wake::Bell).await);
    hive.beat("a").await;
    assert!(!hive.rung(Wake::Bell).await, "no work, no bell");
    hive.publish("a", &[4]).await;
    assert!(hive.rung(Wake::Bell).await, "a publish rings");
    assert!(!hive.rung(Wake::Bell).await, "once");
    hive.beat("b").await;
    assert!(!hive.rung(Wake::Bell).await, "a handler's beat does not ring");
    hive.beat("a").await;
    assert!(hive.rung(Wake::Bell).await, "the generator's beat rings if work waits");
    let mut woken = hive.next_call("b", 0, Vec::new(), 1);
    woken.woken = true;
    hive.call(&woken).await;
    assert!(hive.rung(Wake::Bell).await, "one who was woken rings for the next");
    hive.take("b", 1).await;
    assert!(!hive.rung(Wake::Bell).await, "one who was not does not");
    let mut woken = hive.next_call("b", 0, Vec::new(), 5);
    woken.woken = true;
    hive.call(&woken).await;
    assert!(!hive.rung(Wake::Bell).await, "nothing is left");
}

async fn the_grain_follows_what_handlers_ask_for<B: Bench>(hive: &Hive<B>) {
    let first = hive.found("a", &["b"]).await.grain;
    assert_eq!(first, 1000);
    hive.take("b", 0).await;
    assert_eq!(hive.beat("a").await.grain, 1000, "who wants nothing has no say");
    hive.take("b", 200).await;
    assert_eq!(hive.beat("a").await.grain, 900, "an eighth of the way");
    for _ in 0..80 {
        hive.take("b", 1).await;
    }
    assert_eq!(hive.beat("a").await.grain, 1);
    let answer = hive.publish_call("a", &[1]).await;
    assert!(matches!(hive.send(&answer).await, Published::Ok { grain: 1, .. }));
    hive.take("b", 9).await;
    assert_eq!(hive.beat("a").await.grain, 2);
}

async fn numbers_beyond_ten_to_the_fourteen_stay_exact<B: Bench>(hive: &Hive<B>) {
    const FAR: u64 = 9_007_199_254_740_000;
    hive.found("a", &["b"]).await;
    let beat = Beat {
        seen: Seen {
            birth: "birth".into(),
            seq: FAR,
            epoch: 123_456_789_012_345,
            ..Seen::default()
        },
        ..Hive::<B>::beat_call("a")
    };
    let Renewed::Alive(a) = hive.engine().beat(&beat).await.expect("beat") else {
        panic!("a member")
    };
    assert_eq!((a.generator, a.epoch, a.seq), (true, 123_456_789_012_346, FAR));
    hive.publish("a", &[3, 2]).await;
    let taken = hive.take("b", 4).await;
    assert_eq!(numbers(&taken), [FAR, FAR + 1, FAR + 2, FAR + 3]);
    assert_eq!(taken[0].epoch(), 123_456_789_012_346);
    assert_eq!(taken[0].payload(1), (FAR + 1).to_string());
    let error = super::hive::failure();
    hive.exchange("b", vec![whole(&taken[0], &error), whole(&taken[1], &done())], 9)
        .await;
    let failed: Vec<u64> = hive.failed().await.iter().map(|failed| failed.number).collect();
    assert_eq!(failed, [FAR, FAR + 1, FAR + 2]);
    assert_eq!(hive.batch("reader", 1, 2).await, [FAR, FAR + 1]);
    assert_eq!(hive.bury("b", &["a"]).await.redelivered, 1);
    assert_eq!(hive.status().await.published, FAR + 5);
}
