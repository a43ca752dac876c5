//! Membership, the crown, the hive clock.

use queenright::engine::{Beat, Engine, Exchanged, Join, Joined, LAYOUT, Published, Renewed, Seen, Wake};
use queenright::error::Error;
use queenright::settings::Names;

use super::hive::{CROWN_MS, LEASE_MS, STEP_MS, numbers};
use super::{Bench, Check, Hive, checks};

checks![
    the_first_to_beat_is_crowned_and_others_are_not,
    a_deposed_generator_cannot_publish,
    a_generator_whose_lease_has_run_out_cannot_publish,
    a_generator_that_nobody_followed_goes_on_in_its_epoch,
    the_hive_clock_ignores_a_step_back,
    a_pause_of_the_store_deposes_nobody,
    a_beat_after_leaving_does_not_bring_a_node_back,
    a_beat_before_joining_creates_nothing,
    a_late_join_does_not_bring_back_a_node_that_was_given_up,
    a_repeated_join_changes_nothing,
    an_orderly_leave_frees_the_crown_at_once,
    a_node_that_may_not_generate_is_not_crowned,
    heirs_are_at_most_five_and_are_refilled,
    a_beat_raises_a_store_that_went_back,
    a_join_raises_a_store_that_went_back,
    a_live_node_is_not_reaped,
    a_queue_of_a_newer_layout_is_refused,
    other_key_names_are_refused,
    a_status_tells_of_every_node,
    a_fleet_that_fell_silent_is_shown_as_that_and_nobody_is_deposed_by_it,
];

async fn the_first_to_beat_is_crowned_and_others_are_not<B: Bench>(hive: &Hive<B>) {
    let a = hive.found("a", &[]).await;
    assert_eq!((a.epoch, a.seq, a.made, a.crown_in_ms), (1, 0, 0, CROWN_MS));
    assert!(!a.heir, "the generator is no heir");
    hive.join("b").await;
    let b = hive.beat("b").await;
    assert!(!b.generator);
    assert!(b.heir);
    assert_eq!(hive.beat("a").await.epoch, 1, "renewing is not a new reign");
    assert_eq!(hive.status().await.generator.as_deref(), Some("a"));
}

async fn a_deposed_generator_cannot_publish<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let late = hive.publish_call("a", &[1]).await;
    hive.pass(CROWN_MS, &["b"]).await;
    let b = hive.beat("b").await;
    assert!(b.generator);
    assert_eq!(b.epoch, 2);
    assert_eq!(hive.send(&late).await, Published::Fenced);
    // Nor with half of the right token.
    let mut right = hive.publish_call("b", &[1]).await;
    right.node = "a".into();
    assert_eq!(hive.send(&right).await, Published::Fenced);
    (right.node, right.epoch) = ("b".into(), 1);
    assert_eq!(hive.send(&right).await, Published::Fenced);
    assert_eq!(hive.status().await.published, 0);
    assert!(hive.state().await.queue.is_empty());
}

async fn a_generator_whose_lease_has_run_out_cannot_publish<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let late = hive.publish_call("a", &[1]).await;
    for _ in 0..4 {
        hive.jump(100).await;
        hive.beat_humbly("b").await;
    }
    assert_eq!(hive.send(&late).await, Published::Fenced);
    assert_eq!(hive.status().await.published, 0);
    assert_eq!(hive.status().await.generator, None);
}

async fn a_generator_that_nobody_followed_goes_on_in_its_epoch<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    for _ in 0..10 {
        hive.jump(100).await;
        hive.beat_humbly("b").await;
    }
    let a = hive.beat("a").await;
    assert!(a.generator);
    assert_eq!(a.epoch, 1);
    hive.publish("a", &[1]).await;
}

async fn the_hive_clock_ignores_a_step_back<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.pass(1000, &["a", "b"]).await;
    hive.jump(-3_600_000).await;
    let b = hive.beat("b").await;
    assert!(!b.generator);
    assert_eq!(b.crown_in_ms, CROWN_MS, "time stood still");
    hive.pass(CROWN_MS, &["b"]).await;
    assert!(
        hive.beat("b").await.generator,
        "a silent generator is deposed in spite of it"
    );
}

async fn a_pause_of_the_store_deposes_nobody<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.jump(3_600_000).await;
    let b = hive.beat("b").await;
    assert!(!b.generator, "a had no chance to beat");
    assert_eq!(b.crown_in_ms, CROWN_MS - STEP_MS);
    let a = hive.beat("a").await;
    assert!(a.generator);
    assert_eq!((a.epoch, a.victim), (1, None));
    assert_eq!(hive.reap("c").await.redelivered, 0);
    hive.beat("c").await;
    hive.publish("a", &[1]).await;
}

async fn a_beat_after_leaving_does_not_bring_a_node_back<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.engine().leave(&"b".into()).await.expect("leave");
    let before = hive.state().await;
    hive.jump(50).await;
    assert_eq!(hive.try_beat("b").await, Renewed::Deposed);
    assert_eq!(hive.state().await, before, "not even the clock moves");
    // The last one, too.
    hive.engine().leave(&"a".into()).await.expect("leave");
    assert_eq!(hive.try_beat("a").await, Renewed::Deposed);
    assert_eq!(hive.status().await.nodes, []);
}

async fn a_beat_before_joining_creates_nothing<B: Bench>(hive: &Hive<B>) {
    assert_eq!(hive.try_beat("a").await, Renewed::Deposed);
    let call = hive.next_call("a", 0, Vec::new(), 1);
    assert_eq!(hive.call(&call).await, Exchanged::Deposed);
    assert_eq!(hive.reap("a").await.failed, 0);
    hive.engine().leave(&"a".into()).await.expect("leave");
    assert_eq!(hive.state().await.meta, None);
    assert!(matches!(hive.engine().status().await, Err(Error::NoQueue { .. })));
}

async fn a_late_join_does_not_bring_back_a_node_that_was_given_up<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    hive.take("b", 3).await;
    hive.engine().leave(&"b".into()).await.expect("leave");
    hive.join("b").await;
    assert_eq!(hive.try_beat("b").await, Renewed::Deposed);
    assert_eq!(hive.status().await.in_hand, 3);
    assert_eq!(hive.beat("a").await.victim.as_deref(), Some("b"));
    assert_eq!(hive.reap("b").await.redelivered, 3);
    assert_eq!(hive.status().await.queued, 3);
}

async fn a_repeated_join_changes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    hive.take("b", 2).await;
    let before = hive.state().await;
    hive.join("b").await;
    assert_eq!(hive.state().await, before);
}

async fn an_orderly_leave_frees_the_crown_at_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    assert!(!hive.rung(Wake::Crown).await);
    hive.engine().leave(&"a".into()).await.expect("leave");
    assert!(hive.rung(Wake::Crown).await, "the heirs are woken");
    let b = hive.beat("b").await;
    assert!(b.generator);
    assert_eq!((b.epoch, b.seq, b.made), (2, 1, 1));
    // A handler that leaves wakes nobody, and changes nothing about the crown.
    hive.join("c").await;
    hive.engine().leave(&"c".into()).await.expect("leave");
    assert!(!hive.rung(Wake::Crown).await);
    assert!(hive.beat("b").await.generator);
}

async fn a_node_that_may_not_generate_is_not_crowned<B: Bench>(hive: &Hive<B>) {
    hive.join("a").await;
    let a = hive.beat_humbly("a").await;
    assert!(!a.generator && !a.heir);
    assert_eq!(a.epoch, 0);
}

async fn heirs_are_at_most_five_and_are_refilled<B: Bench>(hive: &Hive<B>) {
    let others = ["b", "c", "d", "e", "f", "g", "h"];
    hive.found("a", &others).await;
    let mut heirs = Vec::new();
    for node in others {
        if hive.beat(node).await.heir {
            heirs.push(node);
        }
    }
    assert_eq!(heirs, ["b", "c", "d", "e", "f"]);
    // One leaves, one may no longer generate: the next to beat take their places.
    hive.engine().leave(&"c".into()).await.expect("leave");
    assert!(!hive.beat_humbly("e").await.heir);
    assert!(hive.beat("g").await.heir);
    assert!(hive.beat("h").await.heir);
    assert!(!hive.beat("e").await.heir, "all places are taken");
    // The one who is crowned makes room.
    hive.engine().leave(&"a".into()).await.expect("leave");
    assert!(hive.beat("b").await.generator);
    assert!(hive.beat("e").await.heir);
    assert_eq!(
        hive.state().await.meta.expect("a queue").heirs,
        ["d", "f", "g", "h", "e"]
    );
}

async fn a_beat_raises_a_store_that_went_back<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let late = hive.publish_call("a", &[1]).await;
    let seen = Seen {
        birth: "birth".into(),
        seq: 100,
        epoch: 9,
        ..Seen::default()
    };
    let beat = Beat {
        seen: seen.clone(),
        ..Hive::<B>::beat_call("b")
    };
    let Renewed::Alive(b) = hive.engine().beat(&beat).await.expect("beat") else {
        panic!("a member")
    };
    assert_eq!(b.rewound, Some(100), "it had none");
    assert_eq!(
        (b.generator, b.epoch, b.seq),
        (true, 10, 100),
        "above what was seen, under a new reign"
    );
    assert_eq!(hive.send(&late).await, Published::Fenced);
    let Renewed::Alive(b) = hive.engine().beat(&beat).await.expect("beat") else {
        panic!("a member")
    };
    assert_eq!(b.rewound, None, "told once");
    assert_eq!(hive.publish("b", &[1]).await.first, 100);
    assert_eq!(hive.status().await.rewinds, 1);
}

async fn a_join_raises_a_store_that_went_back<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let join = Join {
        seen: Seen {
            birth: "birth".into(),
            seq: 100,
            epoch: 9,
            ..Seen::default()
        },
        ..Hive::<B>::join_call("b")
    };
    let joined = hive.engine().join(&join).await.expect("join");
    assert!(matches!(joined, Joined::Ok { rewound: Some(100), .. }), "{joined:?}");
    let a = hive.beat("a").await;
    assert_eq!((a.generator, a.epoch, a.seq), (true, 10, 100));
    assert_eq!(hive.status().await.rewinds, 1);
    // Only what is behind is raised.
    let mut lower = Hive::<B>::join_call("c");
    lower.seen.epoch = 3;
    let joined = hive.engine().join(&lower).await.expect("join");
    assert!(matches!(joined, Joined::Ok { rewound: None, .. }), "{joined:?}");
}

async fn a_live_node_is_not_reaped<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    let packs = hive.take("b", 2).await;
    hive.pass(LEASE_MS - 100, &["a"]).await;
    assert_eq!(hive.beat("a").await.victim, None);
    assert_eq!(hive.reap("b").await.redelivered, 0);
    hive.beat("b").await;
    assert_eq!(hive.status().await.in_hand, 2);
    hive.pass(LEASE_MS, &["a"]).await;
    assert_eq!(hive.beat("a").await.victim.as_deref(), Some("b"));
    assert_eq!(hive.reap("b").await.redelivered, 2);
    assert_eq!(numbers(&packs), [0, 1]);
}

async fn a_queue_of_a_newer_layout_is_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    hive.bench.set_layout(LAYOUT + 1).await;
    let before = hive.state().await;
    let answer = hive.engine().join(&Hive::<B>::join_call("b")).await;
    assert!(
        matches!(answer, Err(Error::NewerLayout { found, known: LAYOUT, .. }) if found == LAYOUT + 1),
        "{answer:?}"
    );
    assert_eq!(hive.state().await, before);
    let look = hive.engine().status().await;
    assert!(matches!(look, Err(Error::NewerLayout { .. })), "{look:?}");
    let look = hive.engine().published().await;
    assert!(matches!(look, Err(Error::NewerLayout { .. })), "{look:?}");
    hive.bench.set_layout(LAYOUT).await;
}

async fn other_key_names_are_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let before = hive.state().await;
    let names = Names {
        errors: "failures".into(),
        ..Names::default()
    };
    let answer = hive.bench.join_with(&names, &Hive::<B>::join_call("b")).await;
    let Err(Error::OtherNames { recorded, given, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(recorded, "errors=errors bell=bell crown=crown");
    assert_eq!(given, "errors=failures bell=bell crown=crown");
    assert_eq!(hive.state().await, before);
}

async fn a_fleet_that_fell_silent_is_shown_as_that_and_nobody_is_deposed_by_it<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let status = hive.status().await;
    assert_eq!(
        (status.generator.as_deref(), status.generator_heard_ago_ms),
        (Some("a"), Some(0))
    );
    let before = hive.state().await;
    hive.jump(12_000).await;
    let status = hive.status().await;
    assert_eq!((status.generator, status.generator_heard_ago_ms), (None, Some(12_000)));
    for node in &status.nodes {
        assert_eq!(
            (node.lease_in_ms, node.silent_ms),
            (0, 12_000 - LEASE_MS),
            "{}",
            node.node
        );
    }
    assert_eq!(hive.state().await, before, "a look writes nothing");
    // It was only a step of the time of day: with the next beat all are what they were.
    assert!(hive.beat("a").await.generator);
    let status = hive.status().await;
    assert_eq!(status.generator.as_deref(), Some("a"));
    assert!(
        status.nodes.iter().all(|node| node.silent_ms == 0),
        "{:?}",
        status.nodes
    );
    hive.beat("b").await;
    // One that goes back hides nobody for longer than a beat either.
    hive.jump(-3_600_000).await;
    assert_eq!(hive.status().await.generator.as_deref(), Some("a"));
}

async fn a_status_tells_of_every_node<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    hive.take("b", 3).await;
    hive.pass(300, &["a", "b"]).await;
    let status = hive.status().await;
    assert_eq!((status.published, status.queued, status.in_hand), (4, 1, 3));
    assert_eq!(status.nodes.len(), 2);
    let b = status.nodes.iter().find(|node| node.node == "b").expect("b");
    assert_eq!((b.age_ms, b.in_hand, b.done, b.failed), (300, 3, 0, 0));
    assert_eq!(
        (b.host.as_str(), b.pid, b.version.as_str(), b.concurrency),
        ("host", 42, "0.1.0", 7)
    );
}
