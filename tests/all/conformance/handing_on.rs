//! What a node held that died or left.

use queenright::engine::{Engine, Exchanged, Reaped};
use queenright::message::Pack;

use super::hive::{LEASE_MS, done, numbers, whole};
use super::{Bench, Check, Hive, checks};

checks![
    what_a_dead_node_held_is_handed_on_once,
    a_node_that_was_given_up_cannot_settle,
    a_node_that_left_cannot_settle_what_it_still_held,
    a_large_holding_is_handed_on_in_bounded_steps,
    redelivered_messages_come_one_at_a_time,
    a_poison_message_takes_no_neighbours_with_it,
    a_message_delivered_too_often_becomes_an_error,
    what_was_settled_before_a_death_stays_settled,
];

async fn what_a_dead_node_held_is_handed_on_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[2, 1]).await;
    hive.take("b", 3).await;
    hive.pass(LEASE_MS, &["a", "c"]).await;
    assert_eq!(
        hive.beat("a").await.victim.as_deref(),
        Some("b"),
        "the generator is told whom to reap"
    );
    assert_eq!(hive.beat("c").await.victim, None, "only the generator");
    let handed_on = Reaped {
        redelivered: 3,
        failed: 0,
        more: false,
        deposed: true,
    };
    assert_eq!(hive.reap("b", 5).await, handed_on);
    assert_eq!(hive.reap("b", 5).await.redelivered, 0, "once");
    assert_eq!(hive.beat("a").await.victim, None);
    assert_eq!(hive.status().await.queued, 3);
    let mut all = Vec::new();
    for _ in 0..3 {
        let packs = hive.take("c", 1).await;
        assert_eq!(
            (packs[0].attempt(), packs[0].payload(0)),
            (2, packs[0].first().to_string().into())
        );
        all.extend(numbers(&packs));
        hive.exchange("c", vec![whole(&packs[0], &done())], 0).await;
    }
    assert_eq!(all, [0, 1, 2]);
    assert_eq!(hive.status().await.done, 3);
}

async fn a_node_that_was_given_up_cannot_settle<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    hive.bury("b", &["a"]).await;
    let before = hive.state().await;
    let late = hive.next_call("b", 0, vec![whole(&packs[0], &done())], 1);
    assert_eq!(hive.call(&late).await, Exchanged::Deposed);
    let late = hive.next_call("b", 1, Vec::new(), 1);
    assert_eq!(hive.call(&late).await, Exchanged::Deposed);
    assert_eq!(hive.state().await, before);
}

async fn a_node_that_left_cannot_settle_what_it_still_held<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    let packs = hive.take("b", 2).await;
    hive.engine().leave(&"b".into()).await.expect("leave");
    assert_eq!(hive.status().await.in_hand, 2, "nobody has handed them on yet");
    let before = hive.state().await;
    let late = hive.next_call("b", 0, vec![whole(&packs[0], &done())], 1);
    assert_eq!(hive.call(&late).await, Exchanged::Deposed);
    assert_eq!(hive.state().await, before);
    assert_eq!(
        hive.beat("a").await.victim.as_deref(),
        Some("b"),
        "without waiting for a lease"
    );
    assert_eq!(hive.reap("b", 5).await.redelivered, 2);
}

async fn a_large_holding_is_handed_on_in_bounded_steps<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let (mut sent, mut held) = (0, 0);
    while sent < 1500 {
        hive.publish("a", &[1; 50]).await;
        sent += 50;
    }
    while held < 1500 {
        held += hive.take("b", 1000).await.len();
    }
    let first = hive.bury("b", &["a"]).await;
    assert_eq!((first.redelivered, first.more), (1000, true));
    assert_eq!(hive.status().await.in_hand, 500);
    assert_eq!(hive.beat("a").await.victim.as_deref(), Some("b"), "there is more");
    // Half reaped: still no way back.
    let late = hive.next_call("b", 0, Vec::new(), 1);
    assert_eq!(hive.call(&late).await, Exchanged::Deposed);
    let second = hive.reap("b", 5).await;
    assert_eq!((second.redelivered, second.more), (500, false));
    assert_eq!(hive.status().await.queued, 1500);
}

async fn redelivered_messages_come_one_at_a_time<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[4, 4]).await;
    hive.take("b", 4).await;
    hive.bury("b", &["a", "c"]).await;
    let packs = hive.take("c", 3).await;
    assert_eq!(
        numbers(&packs),
        [0, 4, 5],
        "one that was delivered before, then new ones"
    );
    assert_eq!(packs.iter().map(Pack::attempt).collect::<Vec<_>>(), [2, 1]);
}

async fn a_poison_message_takes_no_neighbours_with_it<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[3]).await;
    hive.take("b", 3).await;
    hive.bury("b", &["a", "c"]).await;
    // At the second attempt one node may still gather several.
    for _ in 0..3 {
        assert_eq!(hive.take("c", 1).await.len(), 1);
    }
    hive.join("d").await;
    hive.bury("c", &["a", "d"]).await;
    // From the third on it holds one only, on whichever lane.
    let first = hive.take("d", 9).await;
    assert_eq!((numbers(&first), first[0].attempt()), (vec![0], 3));
    assert_eq!(numbers(&hive.take("d", 9).await), [0; 0]);
    let other_lane = hive.next_call("d", 1, Vec::new(), 9);
    assert!(matches!(hive.call(&other_lane).await, Exchanged::Ok { packs, .. } if packs.is_empty()));
    // New messages it takes all the same, and the next old one when this is settled.
    hive.publish("a", &[1]).await;
    let new = hive.take("d", 9).await;
    assert_eq!(numbers(&new), [3]);
    let next = hive.exchange("d", vec![whole(&first[0], &done())], 9).await;
    assert_eq!(numbers(&next), [1]);
    // One who holds a message at its second attempt takes none at its third.
    hive.join("e").await;
    hive.bury("d", &["a", "e"]).await;
    assert_eq!(numbers(&hive.take("e", 9).await), [2]);
    assert_eq!(numbers(&hive.take("e", 9).await), [0; 0]);
}

async fn a_message_delivered_too_often_becomes_an_error<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["n1"]).await;
    hive.publish("a", &[1]).await;
    for attempt in 1..=3_u16 {
        let node = format!("n{attempt}");
        let packs = hive.take(&node, 1).await;
        assert_eq!(packs[0].attempt(), attempt);
        let next = format!("n{}", attempt + 1);
        hive.join(&next).await;
        hive.pass(LEASE_MS, &["a", &next]).await;
        let reaped = hive.reap(&node, 3).await;
        let spent = u64::from(attempt == 3);
        assert_eq!((reaped.redelivered, reaped.failed), (1 - spent, spent));
    }
    assert_eq!(hive.take("n4", 1).await, []);
    let failed = hive.failed().await;
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0].number, failed[0].attempt, failed[0].node.as_str()),
        (0, 3, "n3")
    );
    assert_eq!(failed[0].error, b"delivered 3 times without an outcome");
    assert_eq!(failed[0].time_ms, hive.wall_ms());
    let status = hive.status().await;
    assert_eq!((status.failed, status.errors, status.queued), (1, 1, 0));
}

async fn what_was_settled_before_a_death_stays_settled<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    let packs = hive.take("b", 3).await;
    hive.exchange(
        "b",
        vec![super::hive::part(&packs[0], &[super::hive::run(0, 2, &done())])],
        0,
    )
    .await;
    assert_eq!(hive.bury("b", &["a"]).await.redelivered, 1);
    let status = hive.status().await;
    assert_eq!((status.done, status.queued, status.in_hand), (2, 2, 0));
}
