//! Messages from outside.

use std::time::Duration;

use queenright::engine::{
    Beat, CALL_MS, Engine, Item, Join, Joined, LAYOUT, Member, Published, Push, Pushed, Renewed, Seen, Wake,
};
use queenright::error::Error;
use queenright::message::Pack;
use queenright::settings::Names;

use super::hive::{LEASE_MS, STEP_MS, done, numbers, whole};
use super::{Bench, Check, Hive, checks};

checks![
    pushed_messages_share_the_numbering,
    a_push_needs_no_node,
    a_push_that_is_to_make_no_queue_is_told_that_there_is_none,
    a_repeated_push_is_applied_once,
    a_key_makes_a_repeat_a_no_op_for_its_time,
    what_is_remembered_of_pushes_does_not_pile_up,
    a_delayed_message_waits,
    a_push_into_a_full_queue_writes_nothing,
    pushed_messages_are_cut_to_the_grain,
    a_push_into_a_queue_of_a_newer_layout_is_refused,
    a_push_with_other_key_names_is_refused,
    a_push_waits_until_all_members_have_spoken_to_another_server,
    a_push_waits_for_the_dead_no_longer_than_their_lease,
    pushes_do_not_hide_that_a_store_went_back,
];

pub const KEEP_MS: u64 = 3_600_000;

pub fn push_call(call: &str, items: Vec<Item>) -> Push {
    Push {
        call: call.into(),
        keep_ms: KEEP_MS,
        backlog_max: 1_000_000,
        birth: "birth".into(),
        step_ms: STEP_MS,
        server: "s1".into(),
        only_known: false,
        items,
    }
}

fn items(payloads: &[&'static str]) -> Vec<Item> {
    payloads.iter().map(|payload| Item::new(*payload)).collect()
}

/// The numbers that are given, and whether each is a repeat.
async fn send<B: Bench>(hive: &Hive<B>, push: &Push) -> Vec<(u64, bool)> {
    match hive.engine().push(push).await.expect("push") {
        Pushed::Ok(receipts) => receipts
            .iter()
            .map(|receipt| (receipt.number, receipt.repeated))
            .collect(),
        other => panic!("{push:?}: {other:?}"),
    }
}

async fn pushed_messages_share_the_numbering<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    let mut late = hive.publish_call("a", &[1]).await;
    hive.bench.hush().await;
    let pushed = send(hive, &push_call("p", items(&["x", "y"]))).await;
    assert_eq!(pushed, [(2, false), (3, false)]);
    assert!(hive.rung(Wake::Bell).await);
    // The generator learns that its number is taken, and takes the next one.
    assert_eq!(hive.send(&late).await, Published::Moved { seq: 4 });
    (late.first, late.packs) = (4, super::packs(4, late.epoch, hive.wall_ms(), &[1]));
    assert!(matches!(hive.send(&late).await, Published::Ok { seq: 5, made: 3, .. }));
    let packs = hive.take("b", 9).await;
    assert_eq!(numbers(&packs), [0, 1, 2, 3, 4]);
    let pushed = packs.iter().find(|pack| pack.first() == 2).expect("taken");
    assert_eq!((pushed.payload(0), pushed.payload(1)), ("x".into(), "y".into()));
    assert_eq!(
        (pushed.deliveries(), pushed.epoch(), pushed.published_ms()),
        (1, 1, hive.wall_ms())
    );
}

async fn a_push_needs_no_node<B: Bench>(hive: &Hive<B>) {
    assert_eq!(send(hive, &push_call("p", items(&["x"]))).await, [(0, false)]);
    assert_eq!(hive.status().await.queued, 1);
    let member = hive.found("a", &["b"]).await;
    assert_eq!((member.seq, member.made), (1, 0));
    assert_eq!(hive.take("b", 1).await[0].payload(0), "x");
}

async fn a_push_that_is_to_make_no_queue_is_told_that_there_is_none<B: Bench>(hive: &Hive<B>) {
    let into_what_is_there = Push {
        birth: String::new(),
        ..push_call("p", items(&["x"]))
    };
    let refused = hive.engine().push(&into_what_is_there).await;
    assert!(matches!(refused, Err(Error::NoQueue { .. })), "{refused:?}");
    let looked = hive.engine().status().await;
    assert!(matches!(looked, Err(Error::NoQueue { .. })), "{looked:?}");
    assert_eq!(send(hive, &push_call("q", items(&["y"]))).await, [(0, false)]);
    assert_eq!(send(hive, &into_what_is_there).await, [(1, false)]);
}

async fn a_repeated_push_is_applied_once<B: Bench>(hive: &Hive<B>) {
    let push = push_call("p", items(&["x", "y"]));
    let answer = send(hive, &push).await;
    let before = hive.state().await;
    hive.jump((CALL_MS - 1).cast_signed()).await;
    assert_eq!(send(hive, &push).await, answer);
    assert_eq!(hive.state().await, before);
    assert_eq!(
        send(hive, &push_call("q", items(&["x"]))).await,
        [(2, false)],
        "another one"
    );
}

async fn a_key_makes_a_repeat_a_no_op_for_its_time<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let keyed = |payload: &'static str| Item::new(payload).key("order 7");
    let twice = push_call("p", vec![keyed("x"), Item::new("y"), keyed("z")]);
    assert_eq!(send(hive, &twice).await, [(0, false), (1, false), (0, true)]);
    hive.jump((KEEP_MS - 1).cast_signed()).await;
    assert_eq!(send(hive, &push_call("q", vec![keyed("x")])).await, [(0, true)]);
    // Also once it is done.
    let packs = hive.take("b", 9).await;
    hive.exchange("b", packs.iter().map(|pack| whole(pack, &done())).collect(), 0)
        .await;
    assert_eq!(send(hive, &push_call("r", vec![keyed("x")])).await, [(0, true)]);
    assert_eq!(hive.status().await.queued, 0);
    hive.jump(1).await;
    assert_eq!(send(hive, &push_call("s", vec![keyed("x")])).await, [(2, false)]);
    assert_eq!(send(hive, &push_call("t", vec![keyed("x")])).await, [(2, true)]);
}

async fn what_is_remembered_of_pushes_does_not_pile_up<B: Bench>(hive: &Hive<B>) {
    let many = (0..50).map(|i| Item::new("x").key(format!("k{i}"))).collect();
    send(hive, &push_call("p", many)).await;
    assert_eq!(hive.state().await.once.len(), 51);
    hive.jump(KEEP_MS.cast_signed()).await;
    for call in 0..20 {
        send(hive, &push_call(&format!("q{call}"), items(&["x"]))).await;
    }
    assert_eq!(hive.state().await.once.len(), 20, "only what is younger");
}

async fn a_delayed_message_waits<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let delayed = Item::new("later").delay(Duration::from_millis(500));
    let push = push_call("p", vec![Item::new("x"), delayed, Item::new("y"), Item::new("z")]);
    let given: Vec<u64> = send(hive, &push).await.iter().map(|(number, _)| *number).collect();
    assert_eq!(given, [0, 1, 2, 3]);
    let status = hive.status().await;
    assert_eq!((status.queued, status.later), (3, 1));
    assert_eq!(numbers(&hive.take("b", 9).await), [0, 2, 3]);
    hive.pass(499, &["a", "b"]).await;
    assert_eq!(hive.take("b", 9).await, []);
    hive.pass(1, &["a", "b"]).await;
    let packs = hive.take("b", 9).await;
    assert_eq!((numbers(&packs), packs[0].failures()), (vec![1], 0));
    assert_eq!(packs[0].payload(0), "later");
}

async fn a_push_into_a_full_queue_writes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4, 4]).await;
    let mut push = push_call("p", items(&["x", "y", "z"]));
    push.backlog_max = 10;
    let before = hive.state().await;
    assert_eq!(hive.engine().push(&push).await, Ok(Pushed::Full));
    assert_eq!(hive.state().await, before);
    hive.take("b", 1).await;
    assert_eq!(send(hive, &push).await.len(), 3, "the same call, once there is room");
}

async fn pushed_messages_are_cut_to_the_grain<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    for _ in 0..60 {
        hive.take("b", 4).await;
    }
    assert_eq!(hive.state().await.meta.expect("a queue").grain, 4);
    send(hive, &push_call("p", items(&["x"; 10]))).await;
    let sizes: Vec<usize> = hive.state().await.queue.iter().map(Pack::count).collect();
    assert_eq!(sizes, [4, 4, 2]);
    let large = vec![Item::new(vec![b'x'; 40_000]), Item::new(vec![b'y'; 40_000])];
    send(hive, &push_call("q", large)).await;
    assert_eq!(hive.state().await.queue.len(), 5, "and to 64 KB");
}

async fn a_push_into_a_queue_of_a_newer_layout_is_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    hive.bench.set_layout(99).await;
    let before = hive.state().await;
    let answer = hive.engine().push(&push_call("p", items(&["x"]))).await;
    assert!(
        matches!(answer, Err(Error::NewerLayout { found: 99, .. })),
        "{answer:?}"
    );
    assert_eq!(hive.state().await, before);
    hive.bench.set_layout(LAYOUT).await;
}

async fn a_push_with_other_key_names_is_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let before = hive.state().await;
    let other = Names {
        crown: "other".into(),
        ..Names::default()
    };
    let answer = hive.bench.push_with(&other, &push_call("p", items(&["x"]))).await;
    assert!(matches!(answer, Err(Error::OtherNames { .. })), "{answer:?}");
    assert_eq!(hive.state().await, before);
}

/// A push at another server than that of the beats before.
fn elsewhere(call: &str) -> Push {
    Push {
        server: "s2".into(),
        ..push_call(call, items(&["x"]))
    }
}

async fn beat_elsewhere<B: Bench>(hive: &Hive<B>, node: &str, seen: Seen) -> Member {
    let beat = Beat {
        server: "s2".into(),
        seen,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn a_push_waits_until_all_members_have_spoken_to_another_server<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    assert_eq!(send(hive, &push_call("p", items(&["x"]))).await, [(2, false)]);
    let waits = || async {
        let seq = hive.state().await.meta.expect("a queue").seq;
        assert_eq!(hive.engine().push(&elsewhere("q")).await, Ok(Pushed::Unheard));
        assert_eq!(
            hive.state().await.meta.expect("a queue").seq,
            seq,
            "nothing is numbered"
        );
    };
    waits().await;
    // No clock that jumps ends it, nor does one who has spoken.
    hive.jump(3_600_000).await;
    waits().await;
    beat_elsewhere(hive, "a", Seen::default()).await;
    waits().await;
    let seen = Seen {
        seq: 40,
        epoch: 1,
        ..Seen::default()
    };
    assert!(beat_elsewhere(hive, "b", seen).await.rewound.is_some());
    assert_eq!(
        send(hive, &elsewhere("q")).await,
        [(40, false)],
        "behind all that was seen"
    );
    assert_eq!(send(hive, &elsewhere("r")).await, [(41, false)]);
}

async fn a_push_waits_for_the_dead_no_longer_than_their_lease<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.engine().leave(&"b".into()).await.expect("leave");
    let mut waited = 0;
    while hive.engine().push(&elsewhere("p")).await == Ok(Pushed::Unheard) {
        hive.jump(100).await;
        waited += 100;
        assert!(waited <= LEASE_MS + 100, "it waits for ever");
    }
    assert!(waited >= LEASE_MS - 100, "{waited}");
    hive.engine().leave(&"a".into()).await.expect("leave");
    // Nobody who left is waited for.
    let third = Push {
        server: "s3".into(),
        ..elsewhere("q")
    };
    assert_eq!(send(hive, &third).await, [(1, false)]);
}

async fn pushes_do_not_hide_that_a_store_went_back<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    send(hive, &push_call("p", items(&["x", "y", "z"]))).await;
    // As if three more messages had been generated before, and the store forgot them.
    let seen = Seen {
        seq: 5,
        epoch: 1,
        made: 5,
        ..Seen::default()
    };
    let beat = Beat {
        seen: seen.clone(),
        ..Hive::<B>::beat_call("b")
    };
    let Ok(Renewed::Alive(b)) = hive.engine().beat(&beat).await else {
        panic!("a member")
    };
    assert_eq!((b.rewound, b.made, b.seq), (Some(0), 5, 5));
    let join = Join {
        seen,
        ..Hive::<B>::join_call("c")
    };
    let joined = hive.engine().join(&join).await;
    assert!(matches!(joined, Ok(Joined::Ok { rewound: None, .. })), "{joined:?}");
    assert_eq!(hive.status().await.rewinds, 1, "told once");
}
