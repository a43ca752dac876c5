//! Pausing, moving the crown, removing a queue.

use queenright::engine::memory::State;
use queenright::engine::{
    Beat, Engine, Handover, Join, Joined, Member, Paused, Published, Purged, Renewed, Seen, Wake,
};
use queenright::error::Error;
use queenright::message::Effect;

use super::hive::{CROWN_MS, LEASE_MS, done, numbers, whole, with};
use super::{Bench, Check, Hive, checks};

checks![
    while_generating_is_paused_nothing_is_published,
    while_handling_is_paused_nothing_is_taken,
    what_is_paused_is_told,
    the_crown_is_handed_to_whom_it_is_asked_for,
    a_handover_to_anyone_passes_over_the_generator,
    a_handover_can_be_withdrawn_and_ends_with_an_election,
    a_node_that_would_rather_generate_takes_the_crown,
    a_queue_with_live_nodes_is_purged_only_by_force,
    a_queue_that_was_removed_under_its_nodes_is_told_from_a_store_that_forgot,
    what_is_no_queue_is_not_managed,
    what_a_node_holds_is_told_and_stays_in_its_hand,
];

async fn while_generating_is_paused_nothing_is_published<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let applied = hive.publish("a", &[1]).await;
    hive.engine().pause(Some(true), None).await.expect("pause");
    let call = hive.publish_call("a", &[1]).await;
    let before = hive.state().await;
    assert_eq!(hive.send(&call).await, Published::Paused);
    assert_eq!(hive.state().await, before);
    assert!(
        matches!(hive.send(&applied).await, Published::Ok { .. }),
        "what was applied is"
    );
    assert_eq!(numbers(&hive.take("b", 9).await), [0], "handling goes on");
    hive.engine().pause(Some(false), None).await.expect("resume");
    assert!(matches!(hive.send(&call).await, Published::Ok { .. }));
}

async fn while_handling_is_paused_nothing_is_taken<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1]).await;
    let packs = hive.take("b", 1).await;
    hive.engine().pause(None, Some(true)).await.expect("pause");
    hive.bench.hush().await;
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &done())], 9);
    call.woken = true;
    let answer = hive.call(&call).await;
    assert!(
        matches!(&answer, queenright::engine::Exchanged::Ok { packs, .. } if packs.is_empty()),
        "{answer:?}"
    );
    assert_eq!(hive.status().await.done, 1, "what is in hand is finished");
    hive.beat("a").await;
    assert!(!hive.rung(Wake::Bell).await, "nobody is woken for nothing");
    hive.publish("a", &[1]).await;
    hive.bench.hush().await;
    hive.engine().pause(None, Some(false)).await.expect("resume");
    assert!(hive.rung(Wake::Bell).await);
    assert_eq!(numbers(&hive.take("b", 9).await), [1, 2]);
}

async fn what_is_paused_is_told<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let both = Paused {
        generator: true,
        handlers: true,
    };
    assert_eq!(hive.engine().pause(Some(true), Some(true)).await, Ok(both));
    assert_eq!(hive.engine().pause(None, None).await, Ok(both));
    assert_eq!(hive.beat("a").await.paused, both);
    let handlers = Paused {
        generator: false,
        ..both
    };
    assert_eq!(hive.engine().pause(Some(false), None).await, Ok(handlers));
    assert_eq!(hive.status().await.paused, handlers);
}

async fn the_crown_is_handed_to_whom_it_is_asked_for<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    let mut late = hive.publish_call("a", &[1]).await;
    hive.bench.hush().await;
    assert_eq!(hive.engine().handover(Some("c")).await, Ok(Handover::Asked));
    assert!(hive.rung(Wake::Crown).await, "the heirs look at once");
    assert!(!hive.beat("b").await.generator, "not its turn");
    assert!(
        hive.beat("a").await.generator,
        "until that very step the old one reigns"
    );
    let member = hive.beat("c").await;
    assert_eq!((member.generator, member.epoch), (true, 2));
    assert_eq!(hive.send(&late).await, Published::Fenced);
    assert!(!hive.beat("a").await.generator, "and cannot take it back");
    late = hive.publish_call("c", &[1]).await;
    assert!(matches!(hive.send(&late).await, Published::Ok { .. }));
    assert_eq!(hive.engine().handover(Some("c")).await, Ok(Handover::Reigns));
    assert_eq!(hive.engine().handover(Some("nobody")).await, Ok(Handover::Unknown));
}

async fn a_handover_to_anyone_passes_over_the_generator<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    assert_eq!(hive.engine().handover(None).await, Ok(Handover::Asked));
    assert!(hive.beat("a").await.generator);
    assert!(
        !hive.beat_humbly("c").await.generator,
        "one that may not is passed over too"
    );
    assert!(hive.beat("b").await.generator);
    assert!(!hive.beat("c").await.generator, "once");
}

async fn a_handover_can_be_withdrawn_and_ends_with_an_election<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.engine().handover(Some("b")).await.expect("handover");
    hive.engine().handover(Some("")).await.expect("withdrawn");
    assert!(!hive.beat("b").await.generator);
    hive.engine().handover(Some("b")).await.expect("handover");
    // The generator dies first, and another is elected: that settles it.
    hive.pass(CROWN_MS + 100, &["c"]).await;
    assert!(hive.beat("c").await.generator);
    assert!(!hive.beat("b").await.generator);
}

async fn ranked<B: Bench>(hive: &Hive<B>, node: &str, rank: u8) -> Member {
    let beat = Beat {
        rank,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn a_node_that_would_rather_generate_takes_the_crown<B: Bench>(hive: &Hive<B>) {
    for node in ["a", "b", "c"] {
        hive.join(node).await;
    }
    assert!(
        ranked(hive, "a", 1).await.generator,
        "better one that is not keen than none"
    );
    assert!(ranked(hive, "b", 2).await.generator, "one that does not mind takes it");
    assert!(!ranked(hive, "a", 1).await.generator);
    assert!(ranked(hive, "c", 3).await.generator, "one that is keen takes it");
    assert!(!ranked(hive, "b", 2).await.generator);
    assert!(
        !ranked(hive, "a", 3).await.generator,
        "two that are keen do not quarrel"
    );
    hive.engine().handover(Some("b")).await.expect("handover");
    assert!(ranked(hive, "b", 2).await.generator, "who is chosen takes it");
    assert!(!ranked(hive, "c", 3).await.generator, "and keeps it");
    hive.engine().handover(Some("c")).await.expect("handover");
    assert!(ranked(hive, "c", 3).await.generator);
    assert!(!ranked(hive, "b", 2).await.generator);
    assert_eq!(ranked(hive, "c", 3).await.epoch, 5);
    hive.engine().leave(&"c".into()).await.expect("leave");
    assert!(ranked(hive, "b", 1).await.generator);
}

async fn a_queue_with_live_nodes_is_purged_only_by_force<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    hive.publish("a", &[1, 1]).await;
    let packs = hive.take("b", 1).await;
    let effect = Effect::Add {
        key: "kept".into(),
        by: 1,
    };
    hive.exchange("b", vec![whole(&packs[0], &with(&[effect]))], 1).await;
    hive.batch("reader", 1, 1).await;
    let before = hive.state().await;
    assert_eq!(hive.engine().purge(false).await, Ok(Purged::Alive(2)));
    assert_eq!(hive.state().await, before);
    // Those whose leases have run out do not count, however they ended.
    for _ in 0..LEASE_MS / 100 {
        hive.jump(100).await;
        hive.beat("a").await;
    }
    assert_eq!(hive.engine().purge(false).await, Ok(Purged::Alive(1)));
    assert_eq!(hive.engine().purge(true).await, Ok(Purged::Gone));
    let mut empty = State::new(&before.queue_name, &before.names);
    empty.stored.clone_from(&before.stored);
    let after = hive.state().await;
    assert_eq!(after.stored.len(), 1, "what effects wrote is not the queue's");
    assert_eq!((after.meta, after.errors.len(), after.taken.len()), (None, 0, 0));
    assert!(after.queue.is_empty() && after.reading.is_empty() && after.nodes.is_empty());
    assert_eq!(hive.try_beat("a").await, Renewed::Deposed);
    hive.found("c", &[]).await;
}

async fn a_queue_that_was_removed_under_its_nodes_is_told_from_a_store_that_forgot<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    let seen = |birth: &str| Seen {
        birth: birth.into(),
        seq: 3,
        epoch: 1,
        made: 3,
    };
    assert_eq!(hive.engine().purge(true).await, Ok(Purged::Gone));
    let join = |node: &str, birth: &str| Join {
        token: "reborn".into(),
        seen: seen(birth),
        ..Hive::<B>::join_call(node)
    };
    let joined = |rewound, purged| Joined::Ok {
        birth: "reborn".into(),
        rewound,
        purged,
    };
    for back in ["c", "d"] {
        assert_eq!(hive.engine().join(&join(back, "birth")).await, Ok(joined(None, true)));
    }
    let status = hive.status().await;
    assert_eq!((status.published, status.rewinds, status.epoch), (0, 0, 0));
    // A queue that nobody removed, and that is not there, was forgotten.
    assert_eq!(hive.engine().join(&join("e", "lost")).await, Ok(joined(Some(3), false)));
    assert_eq!(hive.status().await.rewinds, 1);
    // So is one that was removed long ago.
    let mut old = join("f", "birth");
    old.seen.seq = 9;
    hive.jump(25 * 3_600_000).await;
    assert_eq!(hive.engine().join(&old).await, Ok(joined(Some(6), false)));
    // Nothing is kept of a queue that nobody knows.
    for node in ["c", "d", "e", "f"] {
        hive.engine().leave(&node.into()).await.expect("leave");
    }
    let before = hive.state().await.purged;
    assert_eq!(hive.engine().purge(false).await, Ok(Purged::Gone));
    assert_eq!(hive.state().await.purged, before);
}

async fn what_is_no_queue_is_not_managed<B: Bench>(hive: &Hive<B>) {
    let none = |answer: Result<(), Error>| matches!(answer, Err(Error::NoQueue { .. }));
    assert!(none(hive.engine().pause(Some(true), None).await.map(drop)));
    assert!(none(hive.engine().handover(None).await.map(drop)));
    assert!(none(hive.engine().purge(true).await.map(drop)));
    assert_eq!(hive.state().await.meta, None);
}

async fn what_a_node_holds_is_told_and_stays_in_its_hand<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let published_ms = hive.wall_ms();
    hive.publish("a", &[3, 2]).await;
    hive.publish("a", &[1]).await;
    hive.take("b", 4).await;
    let before = hive.state().await;
    let held = hive.engine().held("b", 9).await.expect("held");
    let pieces: Vec<_> = held.iter().map(|held| (held.first, held.count)).collect();
    assert_eq!(pieces, [(0, 3), (3, 1)]);
    let second = &held[1];
    assert_eq!((second.deliveries, second.failures), (1, 0));
    assert_eq!((second.published_ms, &second.start[..]), (published_ms, &b"3"[..]));
    assert_eq!(hive.engine().held("b", 1).await.expect("held"), held[..1]);
    assert_eq!(hive.engine().held("a", 9).await.expect("held"), []);
    assert_eq!(hive.engine().held("nobody", 9).await.expect("held"), []);
    assert_eq!(hive.state().await, before);
}
