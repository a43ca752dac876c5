//! A lane that the bell has woken. An engine may have a shorter way for the commonest take: it brings what any other would.

use queenright::engine::Exchanged;
use queenright::message::Pack;

use super::hive::{done, numbers, whole};
use super::{Bench, Check, Hive, checks};

checks![
    a_lane_that_the_bell_woke_is_counted_as_ever,
    a_lane_that_the_bell_woke_takes_all_that_it_wants,
    a_lane_that_the_bell_woke_takes_nothing_beside_a_last_delivery,
];

/// A lane of `b` is woken and wants three. Where so many are wanted for long, the shorter way is open.
async fn woken<B: Bench>(hive: &Hive<B>, lane: u32) -> Vec<Pack> {
    let mut call = hive.next_call("b", lane, Vec::new(), 3);
    call.woken = true;
    match hive.call(&call).await {
        Exchanged::Ok { packs, refused, .. } => {
            assert_eq!(refused, []);
            packs
        }
        refused => panic!("{refused:?}"),
    }
}

async fn settle<B: Bench>(hive: &Hive<B>, node: &str, packs: &[Pack]) {
    let settles = packs.iter().map(|pack| whole(pack, &done())).collect();
    hive.exchange(node, settles, 0).await;
}

/// `a` generates; packs have three messages at most. So short that all of them are stored in one place.
async fn begun<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    while hive.beat("a").await.grain > 3 {
        hive.take("c", 3).await;
    }
}

async fn publish<B: Bench>(hive: &Hive<B>, sizes: &[usize]) -> u64 {
    let mut call = hive.publish_call("a", &[]).await;
    let mut builder = queenright::message::PackBuilder::new();
    let mut next = call.first;
    for size in sizes {
        for _ in 0..*size {
            builder.push(b"");
        }
        call.packs.push(builder.build(next, call.epoch, 0));
        next += *size as u64;
    }
    hive.send(&call).await;
    call.first
}

async fn a_lane_that_the_bell_woke_is_counted_as_ever<B: Bench>(hive: &Hive<B>) {
    begun(hive).await;
    for size in [1, 2, 3] {
        let first = publish(hive, &[size]).await;
        let mut call = hive.next_call("b", 0, Vec::new(), 3);
        call.woken = true;
        let mut ahead = call.clone();
        ahead.call += 1;
        let before = hive.state().await;
        assert_eq!(hive.call(&ahead).await, Exchanged::Deposed, "a call was forgotten");
        assert_eq!(hive.state().await, before);
        let Exchanged::Ok { packs, .. } = hive.call(&call).await else {
            panic!("not refused");
        };
        let all: Vec<u64> = (first..first + size as u64).collect();
        assert_eq!(numbers(&packs), all);
        assert_eq!(hive.status().await.in_hand, size as u64);
        let copy = hive.call(&call).await;
        assert!(matches!(copy, Exchanged::Ok { packs: again, .. } if again == packs));
        settle(hive, "b", &packs).await;
    }
    let status = hive.status().await;
    assert_eq!((status.done, status.in_hand, status.queued), (6, 0, 0));
}

async fn a_lane_that_the_bell_woke_takes_all_that_it_wants<B: Bench>(hive: &Hive<B>) {
    begun(hive).await;
    assert!(woken(hive, 0).await.is_empty());
    publish(hive, &[1, 1, 1, 1]).await;
    assert_eq!(numbers(&woken(hive, 0).await), [0, 1, 2]);
    assert_eq!(numbers(&woken(hive, 0).await), [3], "also beside what it holds");
}

async fn a_lane_that_the_bell_woke_takes_nothing_beside_a_last_delivery<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["c"]).await;
    hive.join_for("b", 2).await;
    while hive.beat("a").await.grain > 3 {
        hive.take("c", 3).await;
        hive.beat("b").await;
    }
    publish(hive, &[1]).await;
    hive.join_for("d", 2).await;
    assert_eq!(hive.take("d", 1).await.len(), 1);
    hive.bury("d", &["a", "b", "c"]).await;
    let last = woken(hive, 0).await;
    assert_eq!((numbers(&last), last[0].deliveries()), (vec![0], 2));
    // It is the last one of its hand: another lane takes what comes.
    hive.take("c", 3).await;
    publish(hive, &[1]).await;
    assert!(
        woken(hive, 1).await.is_empty(),
        "it would come to its last delivery for its neighbour"
    );
    assert_eq!(numbers(&hive.take("c", 3).await), [1]);
}
