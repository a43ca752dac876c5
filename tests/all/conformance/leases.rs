//! The hive clock follows the leases in use; ids that collide; members of an older layout.

use queenright::engine::{Beat, Engine, Exchanged, Join, Joined, LAYOUT, Member, Published, Renewed};

use super::hive::{CROWN_MS, LEASE_MS};
use super::{Bench, Check, Hive, checks};

checks![
    an_id_that_another_node_has_is_refused,
    a_fleet_that_never_generates_gives_up_the_dead_within_its_lease,
    a_short_lease_slows_nothing_down_once_it_is_gone,
    a_long_lease_lets_no_pause_depose_the_others,
    members_of_an_older_layout_are_deposed,
];

/// A quarter of a lease: as often as a node beats that does not generate.
const BEAT_MS: u64 = LEASE_MS / 4;

async fn join_for<B: Bench>(hive: &Hive<B>, node: &str, lease_ms: u64) {
    let join = Join {
        lease_ms,
        ..Hive::<B>::join_call(node)
    };
    let joined = hive.engine().join(&join).await.expect("join");
    assert!(matches!(joined, Joined::Ok { .. }), "{joined:?}");
}

/// A beat of a node that never generates.
async fn beat_for<B: Bench>(hive: &Hive<B>, node: &str, lease_ms: u64) -> Member {
    let beat = Beat {
        lease_ms,
        eligible: false,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

/// How long it takes until `node`, the only one that beats, is told of a victim, and gives it up.
async fn time_to_reap<B: Bench>(hive: &Hive<B>, node: &str, victim: &str) -> u64 {
    let from = hive.wall_ms();
    loop {
        hive.jump(BEAT_MS.cast_signed()).await;
        let told = beat_for(hive, node, LEASE_MS).await.victim;
        if told.as_deref() == Some(victim) {
            assert!(hive.reap(victim).await.deposed);
            return hive.wall_ms() - from;
        }
        assert!(hive.wall_ms() < from + 20 * LEASE_MS, "it is never given up");
    }
}

async fn an_id_that_another_node_has_is_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    hive.take("b", 2).await;
    let other = Join {
        token: "another".into(),
        pid: 43,
        ..Hive::<B>::join_call("b")
    };
    let before = hive.state().await;
    assert_eq!(hive.engine().join(&other).await, Ok(Joined::Taken));
    assert_eq!(hive.state().await, before, "nothing is written");
    assert!(matches!(hive.join("b").await, Joined::Ok { .. }), "a repeat is none");
    // Nor one that was given up, and still holds something.
    hive.engine().leave(&"b".into()).await.expect("leave");
    assert_eq!(hive.engine().join(&other).await, Ok(Joined::Taken));
    assert_eq!(hive.reap("b").await.redelivered, 2);
    assert!(matches!(hive.engine().join(&other).await, Ok(Joined::Ok { .. })));
}

async fn a_fleet_that_never_generates_gives_up_the_dead_within_its_lease<B: Bench>(hive: &Hive<B>) {
    for node in ["a", "b"] {
        hive.join(node).await;
        beat_for(hive, node, LEASE_MS).await;
    }
    assert_eq!(time_to_reap(hive, "a", "b").await, LEASE_MS);
    // Also if the dead one had the crown: its short lease is waited for, and then slows nothing down.
    hive.found("c", &[]).await;
    let most = LEASE_MS + CROWN_MS + 2 * BEAT_MS;
    assert!(time_to_reap(hive, "a", "c").await <= most);
}

async fn a_short_lease_slows_nothing_down_once_it_is_gone<B: Bench>(hive: &Hive<B>) {
    join_for(hive, "short", 200).await;
    join_for(hive, "brief", 200).await;
    for node in ["a", "b"] {
        hive.join(node).await;
        beat_for(hive, node, LEASE_MS).await;
    }
    hive.engine().leave(&"brief".into()).await.expect("leave");
    time_to_reap(hive, "a", "short").await;
    beat_for(hive, "a", LEASE_MS).await;
    beat_for(hive, "b", LEASE_MS).await;
    assert_eq!(time_to_reap(hive, "a", "b").await, LEASE_MS);
    assert_eq!(
        hive.state().await.meta.expect("a queue").steps.line(),
        format!("{}=1", LEASE_MS / 3)
    );
}

async fn a_long_lease_lets_no_pause_depose_the_others<B: Bench>(hive: &Hive<B>) {
    join_for(hive, "long", 60_000).await;
    beat_for(hive, "long", 60_000).await;
    hive.join("b").await;
    hive.jump(4000).await;
    assert_eq!(
        beat_for(hive, "long", 60_000).await.victim,
        None,
        "b had no time to beat"
    );
    hive.beat_humbly("b").await;
    // Nor does it, if it comes last, a generator.
    let a = hive.found("a", &[]).await;
    join_for(hive, "longer", 60_000).await;
    hive.jump(4000).await;
    assert!(!hive.beat("b").await.generator, "a had no time to beat");
    let goes_on = hive.beat("a").await;
    assert_eq!((goes_on.generator, goes_on.epoch), (true, a.epoch));
}

async fn members_of_an_older_layout_are_deposed<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    hive.take("b", 2).await;
    let late = hive.publish_call("a", &[1]).await;
    hive.bench.set_layout(LAYOUT - 1).await;
    hive.join("c").await;
    assert_eq!(hive.state().await.meta.expect("a queue").layout, LAYOUT);
    for old in ["a", "b"] {
        assert_eq!(hive.try_beat(old).await, Renewed::Deposed, "{old}");
    }
    assert_eq!(hive.send(&late).await, Published::Fenced);
    let call = hive.next_call("b", 0, Vec::new(), 1);
    assert_eq!(hive.call(&call).await, Exchanged::Deposed);
    // What they held is handed on, and what they counted is kept.
    assert!(hive.beat("c").await.generator);
    assert_eq!(hive.reap("a").await.redelivered, 0);
    assert_eq!(hive.reap("b").await.redelivered, 2);
    let status = hive.status().await;
    assert_eq!((status.published, status.queued, status.nodes.len()), (4, 4, 1));
}
