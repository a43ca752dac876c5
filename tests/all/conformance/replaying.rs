//! After a failover that lost the tail: a generator that waits for replicas publishes the same numbers again.

use queenright::engine::{Beat, Engine, Exchanged, Item, Publish, Published, Pushed, Renewed, Seen};

use super::hive::{CROWN_MS, Hive, packs};
use super::push::push_call;
use super::redis_only::Redis;
use super::{Bench, Check, checks};

checks![
    what_a_failover_lost_is_published_again_under_its_numbers,
    numbers_that_others_have_taken_are_not_filled,
    another_reign_does_not_fill_what_was_lost,
    a_generator_keeps_the_numbers_of_what_it_publishes_again,
    only_a_generator_that_reigns_keeps_numbers,
];

/// A generator `a` that keeps what replicas may lack, and `b`.
async fn found<B: Bench>(hive: &Hive<B>) {
    hive.join("a").await;
    let beat = Beat {
        replays: Some(0),
        ..Hive::<B>::beat_call("a")
    };
    let Renewed::Alive(member) = hive.engine().beat(&beat).await.expect("beat") else {
        panic!("a member")
    };
    assert!(member.generator);
    hive.join("b").await;
    hive.beat("b").await;
}

/// `b` says that it has seen numbers below this one.
async fn sees<B: Bench>(hive: &Hive<B>, seq: u64) -> (Option<u64>, u64) {
    let seen = Seen {
        birth: "birth".into(),
        seq,
        epoch: 1,
        made: seq,
    };
    let beat = Beat {
        seen,
        ..Hive::<B>::beat_call("b")
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(b) => (b.rewound, b.seq),
        Renewed::Deposed => panic!("b was deposed"),
    }
}

fn call(node: &str, epoch: u64, made: u64, first: u64, count: usize) -> Publish {
    Publish {
        node: node.into(),
        epoch,
        made,
        first,
        messages: None,
        backlog_max: 1_000_000,
        interval_ms: 0,
        cursor: None,
        server: "s1".into(),
        again: false,
        packs: packs(first, epoch, 1, &[count]),
    }
}

/// As what a failover took back.
async fn publish<B: Bench>(hive: &Hive<B>, node: &str, epoch: u64, made: u64, first: u64, count: usize) -> Published {
    let publish = Publish {
        again: true,
        ..call(node, epoch, made, first, count)
    };
    hive.send(&publish).await
}

fn told(published: Published) -> (u64, u64) {
    match published {
        Published::Ok { seq, made, .. } => (seq, made),
        other => panic!("{other:?}"),
    }
}

async fn what_a_failover_lost_is_published_again_under_its_numbers<B: Bench>(hive: &Hive<B>) {
    if !B::HAS_REPLICAS {
        return;
    }
    found(hive).await;
    assert_eq!(told(publish(hive, "a", 1, 0, 0, 3).await), (3, 3));
    assert_eq!(sees(hive, 10).await, (Some(7), 10));
    let status = hive.status().await;
    assert_eq!(status.generator.as_deref(), Some("a"), "it reigns on");
    assert_eq!((status.epoch, status.queued), (1, 3));
    assert_eq!(sees(hive, 9).await, (None, 10), "it is known already");
    assert_eq!(publish(hive, "a", 1, 3, 2, 3).await, Published::Moved { seq: 10 });
    // Others may have seen something else under these numbers.
    assert_eq!(
        hive.send(&call("a", 1, 3, 3, 4)).await,
        Published::Moved { seq: 10 },
        "what is new"
    );
    assert_eq!(told(publish(hive, "a", 1, 3, 3, 4).await), (10, 7));
    assert_eq!(told(publish(hive, "a", 1, 3, 3, 4).await), (10, 7), "a copy");
    assert_eq!(publish(hive, "a", 1, 7, 3, 3).await, Published::Moved { seq: 10 });
    // The last one was seen in part.
    assert_eq!(told(publish(hive, "a", 1, 7, 7, 5).await), (12, 12));
    assert_eq!(publish(hive, "a", 1, 12, 9, 1).await, Published::Moved { seq: 12 });
    assert_eq!(hive.status().await.queued, 12);
    let mut numbers = Vec::new();
    for pack in hive.take("b", 99).await {
        numbers.extend(pack.first()..pack.first() + pack.count() as u64);
    }
    assert_eq!(numbers, (0..12).collect::<Vec<u64>>());
}

async fn numbers_that_others_have_taken_are_not_filled<B: Bench>(hive: &Hive<B>) {
    if !B::HAS_REPLICAS {
        return;
    }
    found(hive).await;
    assert_eq!(sees(hive, 10).await, (Some(10), 10));
    let push = push_call("p", vec![Item::new("by hand")]);
    hive.beat("a").await;
    let Pushed::Ok(receipts) = hive.engine().push(&push).await.expect("push") else {
        panic!("not pushed")
    };
    assert_eq!(receipts[0].number, 10);
    assert_eq!(publish(hive, "a", 1, 0, 5, 6).await, Published::Moved { seq: 11 });
    assert_eq!(told(publish(hive, "a", 1, 0, 5, 5).await), (11, 5));
    assert_eq!(
        told(publish(hive, "a", 1, 5, 11, 1).await),
        (12, 6),
        "it goes on behind them"
    );
}

async fn another_reign_does_not_fill_what_was_lost<B: Bench>(hive: &Hive<B>) {
    if !B::HAS_REPLICAS {
        return;
    }
    found(hive).await;
    assert_eq!(sees(hive, 10).await, (Some(10), 10));
    hive.pass(CROWN_MS, &["b"]).await;
    let b = hive.beat("b").await;
    assert_eq!((b.generator, b.epoch, b.seq, b.made), (true, 2, 10, 0));
    assert_eq!(publish(hive, "b", 2, 0, 5, 2).await, Published::Moved { seq: 10 });
    // Nor does one whose generator keeps nothing leave anything to fill.
    assert_eq!(told(publish(hive, "b", 2, 0, 10, 1).await), (11, 1));
}

/// A beat on another server, of a node that can publish again what it has published below this number.
async fn comes_to<B: Bench>(hive: &Hive<B>, server: &str, node: &str, below: Option<u64>) -> (Option<u64>, u64) {
    let beat = Beat {
        server: server.into(),
        replays: below,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => (member.rewound, member.seq),
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn a_generator_keeps_the_numbers_of_what_it_publishes_again<B: Bench>(hive: &Hive<B>) {
    if !B::HAS_REPLICAS {
        return;
    }
    found(hive).await;
    for node in ["a", "b"] {
        comes_to(hive, "s1", node, Some(0)).await;
    }
    assert_eq!(told(publish(hive, "a", 1, 0, 0, 3).await), (3, 3));
    // On the server before, 3 to 5, then a push under 6, then 7 and 8 were published: this one lacks them.
    assert_eq!(comes_to(hive, "s2", "a", Some(9)).await, (Some(6), 9));
    assert_eq!(
        comes_to(hive, "s2", "a", Some(12)).await,
        (None, 9),
        "only its first word counts"
    );
    comes_to(hive, "s2", "b", None).await;
    let push = queenright::engine::Push {
        server: "s2".into(),
        ..push_call("p", vec![Item::new("by hand")])
    };
    let Pushed::Ok(receipts) = hive.engine().push(&push).await.expect("push") else {
        panic!("not pushed")
    };
    assert_eq!(receipts[0].number, 9, "behind what comes again");
    let again = |made, first, count| Publish {
        server: "s2".into(),
        again: true,
        ..call("a", 1, made, first, count)
    };
    assert_eq!(told(hive.send(&again(3, 3, 3)).await), (10, 6));
    assert_eq!(told(hive.send(&again(6, 7, 2)).await), (10, 8), "6 is nobody's");
    let status = hive.status().await;
    assert_eq!((status.epoch, status.queued, status.rewinds), (1, 9, 1));
}

async fn only_a_generator_that_reigns_keeps_numbers<B: Bench>(hive: &Hive<B>) {
    if !B::HAS_REPLICAS {
        return;
    }
    found(hive).await;
    for node in ["a", "b"] {
        comes_to(hive, "s1", node, Some(0)).await;
    }
    assert_eq!(comes_to(hive, "s2", "b", Some(9)).await, (None, 0), "it does not reign");
    assert_eq!(comes_to(hive, "s2", "a", None).await, (None, 0), "it keeps nothing");
}

pub(super) async fn with_memory_full_what_is_settled_can_be_waited_for(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1]).await;
    let mut server = hive.bench.server.server();
    server.replicas = 1;
    let marking = super::bench::engine(&server, hive.engine().keys().clone(), &hive.bench.scripts);
    let taken = hive.take("b", 2).await;
    super::redis_only::fill_memory(hive).await;
    let mut numbers = Vec::new();
    for pack in &taken {
        let exchange = hive.next_call("b", 0, vec![super::hive::whole(pack, &super::hive::done())], 0);
        let (answer, ticket) = marking.exchange_ahead(&exchange).await.expect("exchange");
        assert!(matches!(answer, Exchanged::Ok { .. }), "{answer:?}");
        numbers.push(ticket.expect("it is marked").number);
    }
    assert_eq!(numbers[1], numbers[0] + 1);
    assert_eq!(hive.status().await.done, 2);
    super::redis_only::free_memory(hive).await;
}
