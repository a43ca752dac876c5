//! Readers of errors.

use queenright::engine::{Collect, Collected, Engine};

use super::hive::{LEASE_MS, STEP_MS, failure, whole};
use super::{Bench, Check, Hive, checks};

checks![
    a_failed_message_keeps_all_that_is_known_of_it,
    failed_messages_can_be_seen_without_taking_them,
    failed_messages_can_be_seen_from_the_other_end,
    two_readers_share_without_overlap,
    a_repeated_collect_gives_the_same_batch,
    a_late_collect_confirms_nothing,
    a_batch_that_a_late_call_took_is_not_confirmed_by_another,
    only_what_is_below_the_mark_is_collected,
    what_an_expired_reader_held_goes_back,
    what_a_live_reader_holds_stays,
    a_reader_can_give_back_what_it_could_not_print,
    a_reader_that_was_given_up_cannot_hold_on,
    a_batch_of_errors_stops_at_a_megabyte,
    readers_need_no_queue,
    a_requeued_error_is_a_new_life_of_its_message,
    what_is_no_error_is_neither_requeued_nor_discarded,
    large_errors_are_requeued_in_bounded_steps,
    discarded_errors_are_gone,
    the_oldest_errors_beyond_a_number_are_removed_and_counted,
];

async fn a_failed_message_keeps_all_that_is_known_of_it<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    let published = hive.wall_ms();
    let packs = hive.take("b", 2).await;
    hive.jump(70).await;
    hive.exchange("b", vec![whole(&packs[0], &failure())], 0).await;
    let failed = hive.failed().await;
    assert_eq!(failed.len(), 2);
    let second = &failed[1];
    assert_eq!((second.number, second.deliveries, second.epoch), (1, 1, 1));
    assert_eq!((second.published_ms, second.time_ms), (published, published + 70));
    assert_eq!(
        (second.node.as_str(), &second.error[..], &second.payload[..]),
        ("b", &b"it failed"[..], &b"1"[..])
    );
}

async fn failed_messages_can_be_seen_without_taking_them<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 12).await;
    let before = hive.state().await;
    let seen = hive.engine().failed(3, 4).await.expect("failed");
    assert_eq!(
        seen.iter().map(|failed| failed.number).collect::<Vec<_>>(),
        [3, 4, 5, 6]
    );
    assert_eq!(hive.engine().failed(10, 100).await.expect("failed").len(), 2);
    assert_eq!(hive.engine().failed(12, 100).await.expect("failed"), []);
    assert_eq!(hive.state().await, before);
}

async fn failed_messages_can_be_seen_from_the_other_end<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 12).await;
    let before = hive.state().await;
    let numbers = async |below, limit| {
        let seen = hive.engine().latest(below, limit).await.expect("latest");
        seen.iter().map(|failed| failed.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(9, 4).await, [8, 7, 6, 5]);
    assert_eq!(numbers(u64::MAX, 100).await, (0..12).rev().collect::<Vec<_>>());
    assert_eq!(numbers(2, 100).await, [1, 0]);
    assert!(numbers(0, 100).await.is_empty());
    let upwards = hive.engine().failed(11, 1).await.expect("failed");
    assert_eq!(hive.engine().latest(12, 1).await.expect("latest"), upwards);
    assert_eq!(hive.state().await, before);
}

async fn two_readers_share_without_overlap<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 7).await;
    let mut printed = Vec::new();
    for call in 1..=4 {
        printed.extend(hive.batch("one", call, 2).await);
        printed.extend(hive.batch("two", call, 1).await);
        hive.adds_up().await;
    }
    assert_eq!(printed, [0, 1, 2, 3, 4, 5, 6]);
    let Collected::Batch { others, .. } = hive.collect("one", 5, 0).await else {
        panic!("alive")
    };
    assert_eq!(others, 1, "the other still reads");
    hive.batch("two", 5, 0).await;
    let state = hive.state().await;
    assert!(state.readers.is_empty() && state.reading.is_empty());
    assert_eq!(hive.status().await.errors, 0);
}

async fn a_repeated_collect_gives_the_same_batch<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 5).await;
    let batch = hive.collect("one", 1, 2).await;
    assert_eq!(hive.collect("one", 1, 2).await, batch);
    assert_eq!(hive.batch("one", 2, 2).await, [2, 3]);
    assert_eq!(hive.batch("one", 2, 2).await, [2, 3]);
    assert_eq!(hive.status().await.errors, 3, "the first two are confirmed");
}

async fn a_late_collect_confirms_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 6).await;
    hive.batch("one", 1, 2).await;
    hive.batch("one", 2, 2).await;
    let before = hive.state().await;
    assert_eq!(hive.collect("one", 1, 2).await, Collected::Deposed);
    assert_eq!(hive.collect("one", 4, 2).await, Collected::Deposed);
    assert_eq!(hive.collect("other", 3, 2).await, Collected::Deposed);
    assert_eq!(hive.state().await, before);
}

async fn a_batch_that_a_late_call_took_is_not_confirmed_by_another<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 2).await;
    let collect = |call, shown: &[u64], want| Collect {
        reader: "one".into(),
        call,
        shown: shown.to_vec(),
        below: u64::MAX,
        want,
        lease_ms: LEASE_MS,
    };
    let (first, last) = (collect(1, &[], 1), collect(2, &[0], 0));
    for call in [&first, &last] {
        let answer = hive.engine().collect(call).await.expect("collect");
        assert!(matches!(answer, Collected::Batch { .. }), "{answer:?}");
    }
    // Late copies of both: nobody has seen what the first one takes.
    hive.engine().collect(&first).await.expect("collect");
    assert_eq!(hive.engine().collect(&last).await.expect("collect"), Collected::Deposed);
    // Nor one that names a part of it.
    hive.engine().release("one", false).await.expect("release");
    hive.fail("a", "b", 1).await;
    hive.engine().collect(&collect(1, &[], 2)).await.expect("collect");
    assert_eq!(
        hive.engine().collect(&collect(2, &[1], 0)).await.expect("collect"),
        Collected::Deposed
    );
    assert_eq!(hive.status().await.errors, 2);
}

async fn only_what_is_below_the_mark_is_collected<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 6).await;
    let collect = Collect {
        reader: "one".into(),
        call: 1,
        shown: Vec::new(),
        below: 3,
        want: 100,
        lease_ms: LEASE_MS,
    };
    let Collected::Batch { failed, others, victim } = hive.engine().collect(&collect).await.expect("collect") else {
        panic!("alive")
    };
    assert_eq!(failed.iter().map(|failed| failed.number).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((others, victim), (0, None));
}

async fn what_an_expired_reader_held_goes_back<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    hive.batch("dead", 1, 2).await;
    hive.engine().leave(&"a".into()).await.expect("leave");
    hive.engine().leave(&"b".into()).await.expect("leave");
    // No node is there to move the clock: readers do.
    let mut call = 0;
    let victim = loop {
        call += 1;
        hive.jump(STEP_MS.cast_signed()).await;
        match hive.collect("live", call, 5).await {
            Collected::Batch {
                victim: Some(victim), ..
            } => break victim,
            Collected::Batch { others, .. } => assert_eq!(others, 1),
            Collected::Deposed => panic!("alive"),
        }
        assert!(call < 20, "the lease of the dead one ends");
    };
    assert_eq!(victim, "dead");
    hive.engine().release("dead", true).await.expect("release");
    assert_eq!(hive.batch("live", call + 1, 5).await, [0, 1]);
    assert_eq!(
        hive.collect("dead", 2, 2).await,
        Collected::Deposed,
        "it can no longer confirm"
    );
    assert_eq!(hive.status().await.errors, 2);
}

async fn what_a_live_reader_holds_stays<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    hive.batch("one", 1, 2).await;
    hive.pass(LEASE_MS - 100, &["a", "b"]).await;
    let before = hive.state().await;
    hive.engine().release("one", true).await.expect("release");
    assert_eq!(hive.state().await, before);
    // Held on while its output blocks.
    assert!(hive.engine().hold("one", LEASE_MS).await.expect("hold"));
    hive.pass(LEASE_MS - 100, &["a", "b"]).await;
    hive.engine().release("one", true).await.expect("release");
    assert_eq!(hive.batch("one", 2, 2).await, [2]);
}

async fn a_reader_can_give_back_what_it_could_not_print<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    hive.batch("one", 1, 1).await;
    hive.batch("one", 2, 1).await;
    hive.engine().release("one", false).await.expect("release");
    hive.engine().release("one", false).await.expect("release");
    assert_eq!(hive.status().await.errors, 2);
    assert_eq!(hive.batch("two", 1, 9).await, [1, 2], "the first was confirmed");
}

async fn a_reader_that_was_given_up_cannot_hold_on<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 1).await;
    hive.batch("one", 1, 1).await;
    hive.pass(LEASE_MS, &["a", "b"]).await;
    hive.engine().release("one", true).await.expect("release");
    assert!(!hive.engine().hold("one", LEASE_MS).await.expect("hold"));
    assert!(hive.state().await.readers.is_empty());
}

async fn a_batch_of_errors_stops_at_a_megabyte<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut call = hive.publish_call("a", &[]).await;
    let mut builder = queenright::message::PackBuilder::new();
    for number in 0..8 {
        builder.push(&vec![b'x'; 400_000]);
        call.packs.push(builder.build(number, call.epoch, 0));
    }
    hive.send(&call).await;
    for _ in 0..4 {
        let packs = hive.take("b", 8).await;
        hive.exchange("b", packs.iter().map(|pack| whole(pack, &failure())).collect(), 0)
            .await;
    }
    assert_eq!(hive.engine().failed(0, 100).await.expect("failed").len(), 2);
    assert_eq!(hive.batch("one", 1, 100).await, [0, 1]);
    assert_eq!(hive.batch("one", 2, 100).await, [2, 3]);
}

async fn readers_need_no_queue<B: Bench>(hive: &Hive<B>) {
    assert_eq!(hive.batch("one", 1, 5).await, [0; 0]);
    assert!(!hive.engine().hold("one", LEASE_MS).await.expect("hold"));
    hive.engine().release("one", false).await.expect("release");
    assert_eq!(hive.engine().failed(0, 5).await.expect("failed"), []);
    assert_eq!(hive.state().await.meta, None);
}

async fn a_requeued_error_is_a_new_life_of_its_message<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    hive.exchange("b", vec![whole(&packs[0], &super::retries::retry(0))], 0)
        .await;
    hive.beat("a").await;
    let packs = hive.take("b", 1).await;
    hive.exchange("b", vec![whole(&packs[0], &failure())], 0).await;
    hive.bench.hush().await;
    let requeued = hive.engine().requeue(&[0]).await.expect("requeue");
    assert_eq!((requeued.numbers, requeued.looked), (vec![0], 1));
    assert!(hive.rung(queenright::engine::Wake::Bell).await);
    let status = hive.status().await;
    assert_eq!(
        (status.errors, status.failed, status.requeued, status.queued),
        (0, 1, 1, 1),
        "it has failed once, and lives again"
    );
    let requeued = hive.engine().requeue(&[0]).await.expect("requeue");
    assert_eq!(requeued.numbers, [0; 0], "a repeat finds nothing");
    let again = hive.take("b", 9).await;
    assert_eq!(
        (again[0].first(), again[0].deliveries(), again[0].failures()),
        (0, 1, 0)
    );
    assert_eq!((again[0].payload(0), again[0].epoch()), ("0".into(), 1));
    assert_eq!(again[0].published_ms(), packs[0].published_ms());
    hive.exchange("b", vec![whole(&again[0], &super::hive::done())], 0)
        .await;
    let status = hive.status().await;
    assert_eq!(
        (status.done, status.failed, status.requeued, status.published),
        (1, 1, 1, 1)
    );
}

async fn what_is_no_error_is_neither_requeued_nor_discarded<B: Bench>(hive: &Hive<B>) {
    assert_eq!(hive.engine().requeue(&[0]).await.expect("no queue").numbers, [0; 0]);
    assert_eq!(hive.engine().discard(&[0]).await.expect("no queue"), [0; 0]);
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    hive.publish("a", &[1]).await;
    hive.batch("reader", 1, 1).await;
    let before = hive.state().await;
    // One in a reader's hand, one in the queue, one that never was.
    let requeued = hive.engine().requeue(&[0, 3, 99]).await.expect("requeue");
    assert_eq!((requeued.numbers, requeued.looked), (vec![], 3));
    assert_eq!(hive.engine().discard(&[0, 3, 99]).await.expect("discard"), [0; 0]);
    assert_eq!(hive.state().await, before);
    let requeued = hive.engine().requeue(&[2, 1, 2]).await.expect("requeue");
    assert_eq!(requeued.numbers, [2, 1], "named twice, once");
}

async fn large_errors_are_requeued_in_bounded_steps<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut call = hive.publish_call("a", &[]).await;
    let mut builder = queenright::message::PackBuilder::new();
    for number in 0..4 {
        builder.push(&vec![b'x'; 400_000]);
        call.packs.push(builder.build(number, call.epoch, 0));
    }
    hive.send(&call).await;
    for _ in 0..2 {
        let packs = hive.take("b", 9).await;
        hive.exchange("b", packs.iter().map(|pack| whole(pack, &failure())).collect(), 0)
            .await;
    }
    let requeued = hive.engine().requeue(&[0, 1, 2, 3]).await.expect("requeue");
    assert_eq!((requeued.numbers, requeued.looked), (vec![0, 1], 2));
    assert_eq!(hive.status().await.errors, 2);
}

async fn discarded_errors_are_gone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    assert_eq!(hive.engine().discard(&[2, 0, 2]).await.expect("discard"), [2, 0]);
    let status = hive.status().await;
    assert_eq!((status.errors, status.failed), (1, 3));
    assert_eq!(hive.failed().await[0].number, 1);
}

async fn the_oldest_errors_beyond_a_number_are_removed_and_counted<B: Bench>(hive: &Hive<B>) {
    assert_eq!(hive.engine().trim(0).await.expect("no queue"), [0; 0]);
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 5).await;
    assert_eq!(hive.engine().trim(5).await.expect("trim"), [0; 0]);
    assert_eq!(hive.engine().trim(2).await.expect("trim"), [0, 1, 2]);
    assert_eq!(hive.engine().trim(2).await.expect("trim"), [0; 0]);
    let status = hive.status().await;
    assert_eq!((status.errors, status.failed, status.trimmed), (2, 5, 3));
    let left: Vec<u64> = hive.failed().await.iter().map(|failed| failed.number).collect();
    assert_eq!(left, [3, 4]);
}
