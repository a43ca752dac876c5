//! Another server than before, or one that has started anew, may lack the last writes: nobody numbers messages there before all members
//! have said what they have seen.

use queenright::engine::memory::State;
use queenright::engine::{Beat, Engine, Member, Publish, Published, Renewed, Seen};

use super::hive::LEASE_MS;
use super::{Bench, Check, Hive, checks};

checks![
    a_publish_waits_until_all_members_have_spoken_to_another_server,
    a_publish_waits_for_the_dead_no_longer_than_their_lease,
    a_publish_waits_for_nobody_who_has_left,
    a_repeated_publish_is_answered_whoever_is_silent,
    the_server_before_last_is_another_one_again,
    whoever_joins_is_not_waited_for,
];

async fn beat_at<B: Bench>(hive: &Hive<B>, server: &str, node: &str, seen: Seen) -> Member {
    let beat = Beat {
        server: server.into(),
        seen,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

/// One message that `a` would publish now on this server.
async fn call_at<B: Bench>(hive: &Hive<B>, server: &str) -> Publish {
    let meta = hive.state().await.meta.expect("a queue");
    Publish {
        node: "a".into(),
        epoch: meta.epoch,
        made: meta.made,
        first: meta.seq,
        messages: None,
        backlog_max: 1_000_000,
        interval_ms: 0,
        cursor: None,
        server: server.into(),
        again: false,
        packs: super::packs(meta.seq, meta.epoch, hive.wall_ms(), &[1]),
    }
}

/// Whether the next message of `a` is published on this server.
async fn publishes_at<B: Bench>(hive: &Hive<B>, server: &str) -> bool {
    let (call, before) = (call_at(hive, server).await, hive.state().await);
    match hive.send(&call).await {
        Published::Ok { .. } => true,
        Published::Unheard => {
            let after = hive.state().await;
            assert_eq!(after.queue, before.queue, "nothing is published");
            let numbers = |state: &State| state.meta.as_ref().map(|meta| (meta.seq, meta.made));
            assert_eq!(numbers(&after), numbers(&before));
            false
        }
        other => panic!("{other:?}"),
    }
}

async fn a_publish_waits_until_all_members_have_spoken_to_another_server<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert!(publishes_at(hive, "s1").await);
    assert!(!publishes_at(hive, "s2").await);
    // No clock that jumps ends it, nor does one who has spoken.
    hive.jump(3_600_000).await;
    assert!(!publishes_at(hive, "s2").await);
    beat_at(hive, "s2", "a", Seen::default()).await;
    assert!(!publishes_at(hive, "s2").await);
    let seen = Seen {
        seq: 40,
        epoch: 1,
        ..Seen::default()
    };
    assert!(beat_at(hive, "s2", "b", seen).await.rewound.is_some());
    // `b` has ended the reign, and may have taken the crown; behind all that was seen it goes on.
    hive.engine().leave(&"b".into()).await.expect("leave");
    let crowned = beat_at(hive, "s2", "a", Seen::default()).await;
    assert_eq!((crowned.generator, crowned.seq), (true, 40));
    assert!(publishes_at(hive, "s2").await);
    assert_eq!(hive.state().await.meta.expect("a queue").seq, 41);
}

async fn a_publish_waits_for_the_dead_no_longer_than_their_lease<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut waited = 0;
    while !publishes_at(hive, "s2").await {
        hive.jump(50).await;
        waited += 50;
        beat_at(hive, "s2", "a", Seen::default()).await;
        assert!(waited <= LEASE_MS + 100, "it waits for ever");
    }
    assert!(waited >= LEASE_MS - 100, "{waited}");
    assert!(publishes_at(hive, "s2").await, "and no longer for this server");
}

async fn a_publish_waits_for_nobody_who_has_left<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    beat_at(hive, "s2", "a", Seen::default()).await;
    assert!(!publishes_at(hive, "s2").await);
    hive.engine().leave(&"b".into()).await.expect("leave");
    assert!(publishes_at(hive, "s2").await);
}

async fn a_repeated_publish_is_answered_whoever_is_silent<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let call = call_at(hive, "s1").await;
    assert!(matches!(hive.send(&call).await, Published::Ok { seq: 1, .. }));
    let again = Publish {
        server: "s2".into(),
        ..call
    };
    assert!(matches!(hive.send(&again).await, Published::Ok { seq: 1, .. }));
    assert!(!publishes_at(hive, "s2").await);
}

async fn the_server_before_last_is_another_one_again<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert!(publishes_at(hive, "s1").await);
    beat_at(hive, "s2", "a", Seen::default()).await;
    assert!(!publishes_at(hive, "s1").await);
    for node in ["a", "b"] {
        beat_at(hive, "s1", node, Seen::default()).await;
    }
    assert!(publishes_at(hive, "s1").await);
}

async fn whoever_joins_is_not_waited_for<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    beat_at(hive, "s2", "a", Seen::default()).await;
    hive.join("b").await;
    assert!(publishes_at(hive, "s2").await);
}
