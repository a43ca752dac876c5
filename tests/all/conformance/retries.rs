//! Messages that are put off: tried again after a failure, under the same number.

use queenright::engine::{DUE_MAX, Engine, Wake};
use queenright::message::{Outcome, Pack};

use super::hive::{CROWN_MS, LEASE_MS, done, failure, numbers, part, run, whole};
use super::{Bench, Check, Hive, checks};

checks![
    a_message_that_is_put_off_comes_when_it_is_due,
    failures_are_counted_apart_from_deliveries,
    a_part_of_a_pack_is_put_off_one_by_one,
    what_is_due_rings_the_bell_and_comes_before_the_queue,
    what_is_put_off_counts_neither_as_queued_nor_as_backlog,
    a_repeated_exchange_puts_off_once,
    many_that_are_due_are_moved_in_bounded_steps,
    a_step_back_of_the_clock_only_delays,
    while_there_is_no_generator_any_member_keeps_house,
];

pub fn retry(after_ms: u64) -> Outcome {
    Outcome::Retry {
        error: "not now".into(),
        after_ms,
    }
}

async fn a_message_that_is_put_off_comes_when_it_is_due<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    hive.exchange("b", vec![whole(&packs[0], &retry(300))], 0).await;
    let status = hive.status().await;
    assert_eq!((status.later, status.queued, status.in_hand), (1, 0, 0));
    hive.pass(299, &["a", "b"]).await;
    assert_eq!(hive.take("b", 9).await, [], "not yet");
    hive.pass(1, &["a", "b"]).await;
    assert_eq!(hive.status().await.later, 0);
    let again = hive.take("b", 9).await;
    assert_eq!((numbers(&again), again[0].payload(0)), (vec![0], "0".into()));
    assert_eq!(again[0].published_ms(), packs[0].published_ms());
    hive.exchange("b", vec![whole(&again[0], &done())], 0).await;
    let status = hive.status().await;
    assert_eq!((status.done, status.failed), (1, 0), "one outcome");
}

async fn failures_are_counted_apart_from_deliveries<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1]).await;
    for failures in 0..3 {
        let packs = hive.take("b", 1).await;
        assert_eq!((packs[0].deliveries(), packs[0].failures()), (1, failures));
        hive.exchange("b", vec![whole(&packs[0], &retry(0))], 0).await;
        hive.beat("a").await;
    }
    // A delivery without an outcome counts as that.
    hive.take("b", 1).await;
    assert_eq!(hive.bury("b", &["a", "c"]).await.redelivered, 1);
    let packs = hive.take("c", 1).await;
    assert_eq!((packs[0].deliveries(), packs[0].failures()), (2, 3));
    hive.exchange("c", vec![whole(&packs[0], &failure())], 0).await;
    let failed = hive.failed().await;
    assert_eq!((failed[0].deliveries, failed[0].failures), (2, 3));
}

async fn a_part_of_a_pack_is_put_off_one_by_one<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[6]).await;
    let packs = hive.take("b", 6).await;
    let runs = [run(1, 3, &retry(50)), run(4, 1, &retry(10)), run(5, 1, &done())];
    hive.exchange("b", vec![part(&packs[0], &runs)], 0).await;
    let status = hive.status().await;
    assert_eq!((status.later, status.in_hand, status.done), (4, 1, 1));
    assert_eq!(hive.engine().unsettled().await.expect("unsettled").len(), 5);
    hive.pass(50, &["a", "b"]).await;
    // Those that are due first; of two at the same time the older one. They were not delivered in vain: all at once.
    let packs = hive.take("b", 9).await;
    assert_eq!(numbers(&packs), [4, 1, 2, 3]);
    for pack in &packs {
        assert_eq!(pack.payload(0), pack.first().to_string());
    }
    // Given back, they do not go into the queue, whose head tells the backlog.
    hive.exchange("b", packs.iter().map(|pack| whole(pack, &Outcome::Return)).collect(), 0)
        .await;
    let state = hive.state().await;
    assert_eq!((state.again.len(), state.queue.len()), (4, 0));
    let packs = hive.take("b", 2).await;
    assert_eq!(numbers(&packs), [4, 1]);
}

async fn what_is_due_rings_the_bell_and_comes_before_the_queue<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 3]).await;
    let packs = hive.take("b", 1).await;
    hive.exchange("b", vec![whole(&packs[0], &retry(100))], 3).await;
    hive.bench.hush().await;
    hive.jump(99).await;
    hive.beat("a").await;
    assert!(!hive.rung(Wake::Bell).await, "nothing is due");
    hive.jump(1).await;
    hive.beat("a").await;
    assert!(hive.rung(Wake::Bell).await);
    hive.publish("a", &[2]).await;
    assert_eq!(numbers(&hive.take("b", 2).await), [0, 4]);
}

async fn what_is_put_off_counts_neither_as_queued_nor_as_backlog<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; 10]).await;
    let packs = hive.take("b", 10).await;
    hive.exchange("b", packs.iter().map(|pack| whole(pack, &retry(50))).collect(), 0)
        .await;
    let mut call = hive.publish_call("a", &[3]).await;
    call.backlog_max = 3;
    hive.send(&call).await;
    hive.pass(50, &["a", "b"]).await;
    assert_eq!(hive.status().await.queued, 13);
    // Old numbers wait to be taken again, and do not make the queue look long.
    let taken = hive.take("b", 11).await;
    assert_eq!(taken.len(), 11);
    let mut call = hive.publish_call("a", &[1]).await;
    call.backlog_max = 3;
    let answer = hive.send(&call).await;
    assert!(matches!(answer, queenright::engine::Published::Ok { .. }), "{answer:?}");
}

async fn a_repeated_exchange_puts_off_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    let packs = hive.take("b", 2).await;
    let call = hive.next_call("b", 0, vec![whole(&packs[0], &retry(100))], 1);
    let answer = hive.call(&call).await;
    let before = hive.state().await;
    hive.jump(50).await;
    assert_eq!(hive.call(&call).await, answer);
    assert_eq!(hive.state().await, before);
    assert_eq!(hive.status().await.later, 2);
}

async fn many_that_are_due_are_moved_in_bounded_steps<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let count = DUE_MAX + 200;
    for _ in 0..count / 100 {
        hive.publish("a", &[100]).await;
    }
    let mut left = count;
    while left > 0 {
        let packs = hive.take("b", 500).await;
        left -= packs.iter().map(Pack::count).sum::<usize>();
        hive.exchange("b", packs.iter().map(|pack| whole(pack, &retry(0))).collect(), 0)
            .await;
    }
    assert_eq!(hive.status().await.later, count as u64);
    assert!(hive.beat("a").await.more_due, "come back at once");
    assert_eq!(hive.status().await.later, 200);
    assert!(!hive.beat("a").await.more_due);
    let status = hive.status().await;
    assert_eq!((status.later, status.queued), (0, count as u64));
}

async fn a_step_back_of_the_clock_only_delays<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    hive.exchange("b", vec![whole(&packs[0], &retry(100))], 0).await;
    hive.jump(-3_600_000).await;
    hive.beat("a").await;
    assert_eq!(hive.status().await.later, 1);
    // Delays run on the time of day: they go on while no node is there to move the hive clock.
    hive.jump(3_600_100).await;
    hive.beat("a").await;
    assert_eq!(numbers(&hive.take("b", 1).await), [0]);
}

async fn while_there_is_no_generator_any_member_keeps_house<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1, 1]).await;
    let packs = hive.take("b", 1).await;
    hive.exchange("b", vec![whole(&packs[0], &retry(10))], 1).await;
    hive.engine().leave(&"a".into()).await.expect("leave");
    for _ in 0..(LEASE_MS + CROWN_MS) / 100 {
        hive.jump(100).await;
        hive.beat_humbly("c").await;
    }
    let member = hive.beat_humbly("c").await;
    assert_eq!((member.generator, member.victim.as_deref()), (false, Some("b")));
    assert_eq!(hive.reap("b").await.redelivered, 1);
    assert_eq!(numbers(&hive.take("c", 9).await), [0, 1]);
}
