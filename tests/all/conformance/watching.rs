//! Who is connected: what looks show, and what follows from a connection that is closed.

use queenright::engine::{Beat, Engine, Exchanged, Gone, Member, Published, Reap, Reaped, Renewed};

use super::hive::{CROWN_MS, done, numbers, whole};
use super::{Bench, Check, Hive, checks};

checks![
    whoever_was_seen_and_is_connected_no_more_is_gone,
    a_generator_whose_connection_is_closed_is_followed_at_once,
    a_suspicion_against_a_generator_that_is_connected_changes_nothing,
    a_suspicion_against_the_generator_before_changes_nothing,
    a_member_whose_connection_is_closed_is_reaped_before_its_lease_ends,
    a_suspicion_against_a_member_that_is_connected_changes_nothing,
    a_node_that_was_never_seen_is_not_gone,
    heirs_know_their_place_and_who_has_the_crown,
];

async fn look<B: Bench>(hive: &Hive<B>) -> Gone {
    let gone = hive.engine().gone(None).await.expect("a look");
    gone.expect("it tells")
}

async fn beat_against<B: Bench>(hive: &Hive<B>, node: &str, gone: &str) -> Member {
    let beat = Beat {
        gone: gone.into(),
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn reap_gone<B: Bench>(hive: &Hive<B>, victim: &str) -> Reaped {
    let reap = Reap {
        victim: victim.into(),
        gone: true,
    };
    hive.engine().reap(&reap).await.expect("reap")
}

async fn whoever_was_seen_and_is_connected_no_more_is_gone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    let nobody = Gone {
        nodes: Vec::new(),
        among: 3,
    };
    assert_eq!(look(hive).await, nobody);
    hive.bench.hide("b").await;
    assert_eq!(look(hive).await.nodes, ["b"]);
    let of = |node: &str| node.to_string();
    let one = |gone: Option<Gone>| gone.expect("it tells").nodes;
    assert_eq!(one(hive.engine().gone(Some(&of("b"))).await.expect("a look")), ["b"]);
    assert!(one(hive.engine().gone(Some(&of("a"))).await.expect("a look")).is_empty());
    // It is back.
    hive.join("b").await;
    assert_eq!(look(hive).await, nobody);
    hive.engine().leave(&of("c")).await.expect("left");
    assert_eq!(look(hive).await.among, 2);
}

async fn a_generator_whose_connection_is_closed_is_followed_at_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    let late = hive.publish_call("a", &[1]).await;
    look(hive).await;
    hive.bench.hide("a").await;
    let b = beat_against(hive, "b", "a").await;
    assert!(b.generator);
    assert_eq!((b.epoch, b.crown_in_ms), (2, CROWN_MS));
    assert_eq!(hive.send(&late).await, Published::Fenced);
    // The other heir has seen the same, and comes too late.
    assert!(!beat_against(hive, "c", "a").await.generator);
    assert!(!hive.beat("a").await.generator, "it is a member all the same");
}

async fn a_suspicion_against_a_generator_that_is_connected_changes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    look(hive).await;
    let b = beat_against(hive, "b", "a").await;
    assert!(!b.generator && b.epoch == 1, "{b:?}");
    assert!(hive.beat("a").await.generator);
}

async fn a_suspicion_against_the_generator_before_changes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    look(hive).await;
    hive.bench.hide("a").await;
    assert!(beat_against(hive, "b", "a").await.generator);
    // Nor if the one that reigns now does not show that it is there.
    hive.bench.hide("b").await;
    let c = beat_against(hive, "c", "a").await;
    assert!(!c.generator && c.epoch == 2, "{c:?}");
}

async fn a_member_whose_connection_is_closed_is_reaped_before_its_lease_ends<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    let taken = hive.take("b", 3).await;
    assert_eq!(numbers(&taken), [0, 1, 2]);
    look(hive).await;
    hive.bench.hide("b").await;
    let reaped = reap_gone(hive, "b").await;
    assert!(reaped.deposed && reaped.redelivered == 3, "{reaped:?}");
    assert_eq!(hive.try_beat("b").await, Renewed::Deposed);
    let late = hive.next_call("b", 0, taken.iter().map(|pack| whole(pack, &done())).collect(), 0);
    assert_eq!(hive.call(&late).await, Exchanged::Deposed);
}

async fn a_suspicion_against_a_member_that_is_connected_changes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    look(hive).await;
    assert_eq!(reap_gone(hive, "b").await, Reaped::default());
    hive.beat("b").await;
    // Nor, if it says that its lease has run out.
    assert_eq!(hive.reap("b").await, Reaped::default());
}

async fn a_node_that_was_never_seen_is_not_gone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.bench.hide("a").await;
    hive.bench.hide("b").await;
    assert!(look(hive).await.nodes.is_empty());
    assert!(!beat_against(hive, "c", "a").await.generator);
    assert_eq!(reap_gone(hive, "b").await, Reaped::default());
}

async fn heirs_know_their_place_and_who_has_the_crown<B: Bench>(hive: &Hive<B>) {
    let a = hive.found("a", &["b", "bb", "c"]).await;
    assert_eq!((a.before, a.crowned.as_str()), (0, "a"));
    for _ in 0..2 {
        for (place, node) in ["b", "bb", "c"].into_iter().enumerate() {
            let member = hive.beat(node).await;
            assert_eq!(
                (member.heir, member.before, member.crowned.as_str()),
                (true, place as u64, "a")
            );
        }
    }
    hive.engine().leave(&"b".into()).await.expect("left");
    assert_eq!(hive.beat("c").await.before, 1);
    hive.beat_humbly("a").await;
    assert_eq!(hive.beat_humbly("bb").await.crowned, "");
}
