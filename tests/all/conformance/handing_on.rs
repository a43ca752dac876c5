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
    two_deaths_do_not_slow_redelivery,
    before_their_last_delivery_a_node_holds_a_few,
    on_its_last_delivery_a_message_has_no_neighbours,
    a_busy_node_empties_its_hand_for_a_last_delivery,
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
    assert_eq!(hive.reap("b").await, handed_on);
    assert_eq!(hive.reap("b").await.redelivered, 0, "once");
    assert_eq!(hive.beat("a").await.victim, None);
    assert_eq!(hive.status().await.queued, 3);
    let mut all = Vec::new();
    for _ in 0..3 {
        let packs = hive.take("c", 1).await;
        assert_eq!(
            (packs[0].deliveries(), packs[0].payload(0)),
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
    assert_eq!(hive.reap("b").await.redelivered, 2);
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
    let second = hive.reap("b").await;
    assert_eq!((second.redelivered, second.more), (500, false));
    assert_eq!(hive.status().await.queued, 1500);
}

async fn two_deaths_do_not_slow_redelivery<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c", "d"]).await;
    hive.publish("a", &[60, 40]).await;
    assert_eq!(numbers(&hive.take("b", 100).await).len(), 100);
    hive.bury("b", &["a", "c", "d"]).await;
    assert_eq!(numbers(&hive.take("c", 100).await).len(), 100);
    hive.bury("c", &["a", "d"]).await;
    let third = hive.take("d", 100).await;
    assert_eq!(numbers(&third), (0..100).collect::<Vec<_>>());
    assert!(third.iter().all(|pack| pack.deliveries() == 3));
}

async fn before_their_last_delivery_a_node_holds_a_few<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.join_for("c", 3).await;
    hive.publish("a", &[20, 4]).await;
    hive.take("b", 20).await;
    hive.bury("b", &["a", "c"]).await;
    let packs = hive.take("c", 3).await;
    assert_eq!(
        numbers(&packs),
        [0, 20, 21],
        "one on the delivery before its last, then new ones"
    );
    assert_eq!(packs.iter().map(Pack::deliveries).collect::<Vec<_>>(), [2, 1]);
    let mut held = vec![packs[0].clone()];
    for number in 1..8 {
        held.extend(hive.take("c", 1).await);
        assert_eq!(numbers(&held).last(), Some(&number));
    }
    assert_eq!(numbers(&hive.take("c", 9).await), [22, 23], "new ones only");
    let next = hive.exchange("c", vec![whole(&held[0], &done())], 9).await;
    assert_eq!(numbers(&next), [8], "one for one");
}

async fn on_its_last_delivery_a_message_has_no_neighbours<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.join_for("c", 2).await;
    hive.publish("a", &[3]).await;
    hive.take("b", 3).await;
    hive.bury("b", &["a", "c"]).await;
    hive.publish("a", &[1]).await;
    let first = hive.take("c", 9).await;
    assert_eq!((numbers(&first), first[0].deliveries()), (vec![0], 2));
    // Nothing beside it, on whichever lane, old or new.
    assert_eq!(numbers(&hive.take("c", 9).await), [0; 0]);
    let other_lane = hive.next_call("c", 1, Vec::new(), 9);
    assert!(matches!(hive.call(&other_lane).await, Exchanged::Ok { packs, .. } if packs.is_empty()));
    let next = hive.exchange("c", vec![whole(&first[0], &done())], 9).await;
    assert_eq!(numbers(&next), [1]);
    // It is an error if its node dies; what had not come to its last delivery is not.
    let reaped = hive.bury("c", &["a"]).await;
    assert_eq!((reaped.redelivered, reaped.failed), (0, 1));
    hive.join("d").await;
    assert_eq!(
        numbers(&hive.take("d", 9).await),
        [2, 3],
        "not the last one for a node that allows more"
    );
}

async fn a_busy_node_empties_its_hand_for_a_last_delivery<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    for node in ["c", "d", "e"] {
        hive.join_for(node, 2).await;
    }
    hive.publish("a", &[1, 1, 1]).await;
    hive.take("b", 1).await;
    let [c, d] = [hive.take("c", 1).await, hive.take("d", 1).await];
    hive.bury("b", &["a", "c", "d", "e"]).await;
    hive.publish("a", &[1, 1, 1]).await;
    // The first that meets it stops taking; the others go on meanwhile.
    assert_eq!(numbers(&hive.take("c", 1).await), [0; 0]);
    assert_eq!(numbers(&hive.take("d", 1).await), [3]);
    assert_eq!(numbers(&hive.take("c", 1).await), [0; 0]);
    // If that takes long, one more does.
    hive.pass(1000, &["a", "c", "d", "e"]).await;
    assert_eq!(numbers(&hive.take("d", 1).await), [0; 0]);
    assert_eq!(numbers(&hive.take("c", 1).await), [0; 0]);
    let alone = hive.exchange("c", vec![whole(&c[0], &done())], 9).await;
    assert_eq!((numbers(&alone), alone[0].deliveries()), (vec![0], 2));
    // Then there is nothing more to wait for.
    assert_eq!(numbers(&hive.exchange("d", vec![whole(&d[0], &done())], 1).await), [4]);
    assert_eq!(numbers(&hive.take("c", 9).await), [0; 0]);
    assert_eq!(
        numbers(&hive.exchange("c", vec![whole(&alone[0], &done())], 9).await),
        [5]
    );
}

/// One among a hundred kills every node that has it. Nodes take as much as they get, and new messages come all the time.
async fn a_poison_message_takes_no_neighbours_with_it<B: Bench>(hive: &Hive<B>) {
    const POISON: u64 = 42;
    hive.found("a", &["n0"]).await;
    hive.publish("a", &[100]).await;
    let (mut deaths, mut published) = (0, 100);
    let mut node = "n0".to_string();
    loop {
        if published < 300 {
            hive.publish("a", &[10]).await;
            published += 10;
        }
        let mut held = Vec::new();
        loop {
            let packs = hive.take(&node, 100).await;
            if packs.is_empty() {
                break;
            }
            held.extend(packs);
        }
        if held.is_empty() && published == 300 {
            break;
        }
        if numbers(&held).contains(&POISON) {
            deaths += 1;
            let next = format!("n{deaths}");
            hive.join(&next).await;
            hive.bury(&node, &["a", &next]).await;
            node = next;
        } else {
            let settles = held.iter().map(|pack| whole(pack, &done())).collect();
            hive.exchange(&node, settles, 0).await;
        }
    }
    let failed: Vec<u64> = hive.failed().await.iter().map(|failed| failed.number).collect();
    assert_eq!((failed, deaths), (vec![POISON], 5));
    assert_eq!(hive.status().await.done, 299);
}

async fn a_message_delivered_too_often_becomes_an_error<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    hive.join_for("n1", 3).await;
    hive.publish("a", &[1]).await;
    for deliveries in 1..=3_u16 {
        let node = format!("n{deliveries}");
        let packs = hive.take(&node, 1).await;
        assert_eq!(packs[0].deliveries(), deliveries);
        let next = format!("n{}", deliveries + 1);
        hive.join_for(&next, 3).await;
        hive.pass(LEASE_MS, &["a", &next]).await;
        let reaped = hive.reap(&node).await;
        let spent = u64::from(deliveries == 3);
        assert_eq!((reaped.redelivered, reaped.failed), (1 - spent, spent));
    }
    assert_eq!(hive.take("n4", 1).await, []);
    let failed = hive.failed().await;
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0].number, failed[0].deliveries, failed[0].node.as_str()),
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
