//! A shard in which nobody is elected: its crown is claimed with the epoch of the home shard.

use queenright::engine::{Beat, Engine, Member, Published, Renewed};

use super::{Bench, Check, Hive, checks};

checks![
    a_claim_takes_the_crown_with_its_epoch_whoever_has_it,
    a_claim_that_is_not_higher_than_all_before_changes_nothing,
    what_was_published_before_a_claim_is_told_by_it_and_nothing_of_it_comes_after,
    an_epoch_is_claimed_again_once_its_member_is_gone,
    a_node_that_claims_no_more_resigns,
    a_member_that_has_lost_its_claim_does_not_claim_the_same_epoch_again,
];

async fn claim<B: Bench>(hive: &Hive<B>, node: &str, claims: u64) -> Member {
    let beat = Beat {
        claims,
        eligible: claims > 0,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn shard<B: Bench>(hive: &Hive<B>, nodes: &[&str]) {
    for node in nodes {
        hive.join(node).await;
        assert!(!claim(hive, node, 0).await.generator, "nobody is elected here");
    }
}

async fn a_claim_takes_the_crown_with_its_epoch_whoever_has_it<B: Bench>(hive: &Hive<B>) {
    shard(hive, &["a", "b"]).await;
    let first = claim(hive, "a", 7).await;
    assert_eq!((first.generator, first.epoch), (true, 7));
    // It holds for as long as it is renewed.
    let still = claim(hive, "a", 7).await;
    assert_eq!((still.generator, still.epoch), (true, 7));
    let next = claim(hive, "b", 9).await;
    assert_eq!((next.generator, next.epoch), (true, 9));
    let reigns: Vec<u64> = hive.state().await.reigns.iter().map(|reign| reign.epoch).collect();
    assert_eq!(reigns, [9, 7]);
    // Elected again in the home shard, it claims again.
    let again = claim(hive, "b", 12).await;
    assert_eq!((again.generator, again.epoch), (true, 12));
}

async fn a_claim_that_is_not_higher_than_all_before_changes_nothing<B: Bench>(hive: &Hive<B>) {
    shard(hive, &["a", "b"]).await;
    claim(hive, "a", 7).await;
    for late in [3, 7] {
        let refused = claim(hive, "b", late).await;
        assert_eq!((refused.generator, refused.epoch), (false, 7), "{late}");
        assert_eq!(refused.crowned, "a");
    }
    hive.publish_as(&claim(hive, "a", 7).await, "a").await;
}

async fn what_was_published_before_a_claim_is_told_by_it_and_nothing_of_it_comes_after<B: Bench>(hive: &Hive<B>) {
    shard(hive, &["a", "b"]).await;
    let reign = claim(hive, "a", 7).await;
    let (mut call, answer) = hive.publish_as(&reign, "a").await;
    assert!(matches!(answer, Published::Ok { .. }), "{answer:?}");
    let next = claim(hive, "b", 8).await;
    assert_eq!((next.seq, next.made, next.cursor.as_deref()), (1, 1, Some(&b"1"[..])));
    // The one before comes too late, with a repeat and with something new.
    assert_eq!(hive.send(&call).await, Published::Fenced);
    (call.made, call.first) = (1, 1);
    call.packs = super::packs(1, 7, hive.wall_ms(), &[1]);
    assert_eq!(hive.send(&call).await, Published::Fenced);
    let (_, answer) = hive.publish_as(&next, "b").await;
    assert!(matches!(answer, Published::Ok { .. }), "{answer:?}");
    let epochs: Vec<u64> = hive
        .state()
        .await
        .queue
        .iter()
        .map(queenright::message::Pack::epoch)
        .collect();
    assert_eq!(epochs, [7, 8]);
}

async fn an_epoch_is_claimed_again_once_its_member_is_gone<B: Bench>(hive: &Hive<B>) {
    shard(hive, &["a", "b", "c"]).await;
    claim(hive, "a", 7).await;
    assert!(!claim(hive, "b", 7).await.generator, "it is a member still");
    // A whole beat, and one that only renews.
    for _ in 0..2 {
        assert_eq!(claim(hive, "c", 0).await.crowned, "a");
    }
    hive.engine().leave(&"a".into()).await.expect("leave");
    // The same process, under another id.
    let again = claim(hive, "b", 7).await;
    assert_eq!((again.generator, again.epoch), (true, 7));
    assert_eq!(claim(hive, "c", 0).await.crowned, "b");
}

async fn a_member_that_has_lost_its_claim_does_not_claim_the_same_epoch_again<B: Bench>(hive: &Hive<B>) {
    shard(hive, &["a", "b"]).await;
    claim(hive, "a", 7).await;
    claim(hive, "a", 0).await;
    let beat = |node: &str, reigned| Beat {
        claims: 7,
        eligible: true,
        reigned,
        ..Hive::<B>::beat_call(node)
    };
    for (node, reigned, generates) in [("a", 7, false), ("b", 0, true)] {
        let Renewed::Alive(member) = hive.engine().beat(&beat(node, reigned)).await.expect("beat") else {
            panic!("{node} was deposed")
        };
        assert_eq!((member.generator, member.epoch), (generates, 7), "{node}");
    }
}

async fn a_node_that_claims_no_more_resigns<B: Bench>(hive: &Hive<B>) {
    shard(hive, &["a"]).await;
    let reign = claim(hive, "a", 7).await;
    assert!(!claim(hive, "a", 0).await.generator);
    let (_, answer) = hive.publish_as(&reign, "a").await;
    assert_eq!(answer, Published::Fenced);
    assert_eq!(hive.state().await.meta.expect("a queue").epoch, 7);
}
