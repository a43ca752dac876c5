//! Cancelling: whoever takes a cancelled message is told, and nothing is remembered for longer than it can matter.

use std::collections::{BTreeMap, BTreeSet};

use queenright::engine::{
    Beat, CANCEL_MS, CANCEL_MS_MAX, CANCELLED_GROUPS_MAX, CANCELS_MAX, Cancelled, CancelledGroup, Engine, Exchanged,
    Item, Join, Limits, Member, Pushed, Renewed,
};
use queenright::message::{Outcome, Pack};

use super::hive::{done, failure, numbers, part, run, whole};
use super::push::push_call;
use super::retries::retry;
use super::{Bench, Check, Hive, checks};

checks![
    whoever_takes_a_cancelled_message_is_told_until_it_has_ended,
    what_cannot_be_cancelled_is_told_so,
    a_group_is_cancelled_up_to_what_was_published_before,
    a_beat_tells_what_is_cancelled,
    a_new_life_is_not_cancelled,
    a_cancelled_message_delivered_too_often_has_ended,
    no_more_than_a_thousand_cancels_are_pending,
    a_cancel_that_can_match_nothing_is_forgotten_after_an_hour,
    a_cancel_outlasts_what_is_put_off,
    a_cancel_is_kept_while_its_message_may_wait,
    cancels_limits_and_pauses_leave_each_other_alone,
];

async fn push<B: Bench>(hive: &Hive<B>, call: &str, items: Vec<Item>) -> Vec<u64> {
    match hive.engine().push(&push_call(call, items)).await {
        Ok(Pushed::Ok(receipts)) => receipts.iter().map(|receipt| receipt.number).collect(),
        other => panic!("{other:?}"),
    }
}

async fn cancel<B: Bench>(hive: &Hive<B>, numbers: &[u64]) -> Vec<Cancelled> {
    hive.engine().cancel(numbers).await.expect("a cancel")
}

/// What a take brings, and what of that is cancelled; told twice alike.
async fn take<B: Bench>(hive: &Hive<B>, node: &str, want: u32) -> (Vec<Pack>, Vec<u64>) {
    let call = hive.next_call(node, 0, Vec::new(), want);
    let answer = hive.call(&call).await;
    assert_eq!(hive.call(&call).await, answer, "a repeat is told the same");
    match answer {
        Exchanged::Ok { packs, cancelled, .. } => (packs, cancelled),
        other => panic!("{other:?}"),
    }
}

fn cancelled() -> Outcome {
    Outcome::Error("cancelled".into())
}

async fn settle<B: Bench>(hive: &Hive<B>, node: &str, packs: &[Pack], outcome: &Outcome) {
    let settles = packs.iter().map(|pack| whole(pack, outcome)).collect();
    hive.exchange(node, settles, 0).await;
}

async fn pending<B: Bench>(hive: &Hive<B>) -> Vec<u64> {
    let state = hive.state().await;
    state.meta.expect("a queue").cancels.numbers.into_keys().collect()
}

/// A member whose lease lets one look move the hive clock by hours.
async fn patient<B: Bench>(hive: &Hive<B>, node: &str) {
    let lease_ms = 6 * CANCEL_MS_MAX;
    let join = Join {
        lease_ms,
        ..Hive::<B>::join_call(node)
    };
    hive.engine().join(&join).await.expect("join");
    beat_patiently(hive, node).await;
}

async fn beat_patiently<B: Bench>(hive: &Hive<B>, node: &str) -> Member {
    let beat = Beat {
        lease_ms: 6 * CANCEL_MS_MAX,
        crown_ms: 6 * CANCEL_MS_MAX,
        ..Hive::<B>::beat_call(node)
    };
    match hive.engine().beat(&beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn passes<B: Bench>(hive: &Hive<B>, ms: u64) {
    hive.jump(ms.cast_signed()).await;
    beat_patiently(hive, "a").await;
}

async fn whoever_takes_a_cancelled_message_is_told_until_it_has_ended<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 4, 1]).await;
    assert_eq!(cancel(hive, &[1, 4]).await, [Cancelled::Asked; 2]);
    assert_eq!(
        cancel(hive, &[4, 4]).await,
        [Cancelled::Asked; 2],
        "twice is as good as once"
    );
    assert_eq!((pending(hive).await, hive.status().await.cancels), (vec![1, 4], 2));
    let (packs, told) = take(hive, "b", 1).await;
    assert_eq!((numbers(&packs), told), (vec![0], vec![]));
    let (more, told) = take(hive, "b", 9).await;
    assert_eq!((numbers(&more), told), ((1..7).collect(), vec![1, 4]));
    // Given back, and taken again.
    settle(hive, "b", &more, &Outcome::Return).await;
    let (more, told) = take(hive, "b", 9).await;
    assert_eq!(told, [1, 4]);
    for pack in &more {
        let runs = match pack.first() {
            1 => vec![run(0, 1, &cancelled())],
            2 => vec![run(0, 2, &done()), run(2, 1, &cancelled()), run(3, 1, &done())],
            _ => vec![run(0, 1, &done())],
        };
        hive.exchange("b", vec![part(pack, &runs)], 0).await;
    }
    assert_eq!((pending(hive).await, hive.status().await.cancels), (vec![], 0));
    let failed = hive.failed().await;
    let texts: Vec<_> = failed.iter().map(|failed| (failed.number, &failed.error[..])).collect();
    assert_eq!(texts, [(1, &b"cancelled"[..]), (4, b"cancelled")]);
    // One that was in work, and is done all the same.
    assert_eq!(cancel(hive, &[0]).await, [Cancelled::Asked]);
    settle(hive, "b", &packs, &done()).await;
    assert!(pending(hive).await.is_empty());
    // All is as it was before: one by one, the shortest path is taken again.
    hive.publish("a", &[1, 1]).await;
    let packs = hive.take("b", 1).await;
    assert_eq!(
        numbers(&hive.exchange("b", vec![whole(&packs[0], &done())], 1).await),
        [8]
    );
}

async fn what_cannot_be_cancelled_is_told_so<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![Item::new("x"), Item::new("y").ask(), Item::new("z")]).await;
    let packs = hive.take("b", 9).await;
    hive.exchange("b", vec![whole(&packs[0], &failure()), whole(&packs[1], &done())], 0)
        .await;
    let told = cancel(hive, &[0, 1, 2, 3, 99]).await;
    let [ended, unpublished] = [Cancelled::Ended, Cancelled::Unpublished];
    assert_eq!(told, [ended, ended, Cancelled::Asked, unpublished, unpublished]);
    assert_eq!(pending(hive).await, [2]);
}

async fn a_group_is_cancelled_up_to_what_was_published_before<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let of = |group: &str| Item::new("x").group(group);
    push(hive, "p", vec![of("g"), of("g"), of("h"), of("g")]).await;
    let asked = hive.engine().cancel_group("g").await.expect("a cancel");
    assert_eq!(asked, CancelledGroup::Asked { waiting: 3 });
    push(hive, "q", vec![of("g")]).await;
    let (mut told, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (packs, cancelled) = take(hive, "b", 9).await;
        seen.extend(numbers(&packs));
        told.extend(cancelled);
        settle(hive, "b", &packs, &done()).await;
    }
    assert_eq!((seen.len(), told), (5, vec![0, 1, 3]));
    let none = hive.engine().cancel_group("nobody").await.expect("a cancel");
    assert_eq!(none, CancelledGroup::Asked { waiting: 0 });
    for group in 0..CANCELLED_GROUPS_MAX - 2 {
        let asked = hive.engine().cancel_group(&group.to_string()).await;
        assert_eq!(asked.expect("a cancel"), CancelledGroup::Asked { waiting: 0 });
    }
    let many = hive.engine().cancel_group("one more").await.expect("a cancel");
    assert_eq!(many, CancelledGroup::TooMany);
    let again = hive.engine().cancel_group("nobody").await.expect("a cancel");
    assert_eq!(again, CancelledGroup::Asked { waiting: 0 });
}

async fn a_beat_tells_what_is_cancelled<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![Item::new("x"), Item::new("y").group("g")]).await;
    let packs = hive.take("b", 9).await;
    assert!(hive.beat("b").await.cancels.is_empty());
    // Now the shortest beat will do for it.
    assert!(hive.beat("b").await.cancels.is_empty());
    cancel(hive, &[0]).await;
    hive.engine().cancel_group("g").await.expect("a cancel");
    for node in ["b", "a", "b"] {
        let told = hive.beat(node).await.cancels;
        assert_eq!(
            (told.numbers, told.groups),
            (BTreeSet::from([0]), BTreeMap::from([("g".to_string(), 1)]))
        );
    }
    settle(hive, "b", &packs, &done()).await;
    assert!(hive.beat("b").await.cancels.numbers.is_empty());
}

async fn a_new_life_is_not_cancelled<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![Item::new("x"), Item::new("y").group("g")]).await;
    settle(hive, "b", &hive.take("b", 9).await, &failure()).await;
    // In the hand of a reader, it is not seen to have ended.
    assert_eq!(hive.batch("r", 1, 1).await, [0]);
    assert_eq!(cancel(hive, &[0]).await, [Cancelled::Asked]);
    hive.engine().cancel_group("g").await.expect("a cancel");
    hive.engine().release("r", false).await.expect("released");
    hive.engine().requeue(&[0, 1]).await.expect("requeued");
    let (packs, told) = take(hive, "b", 9).await;
    assert_eq!((packs.len(), told), (2, vec![]));
    assert!(!hive.beat("b").await.cancels.covers(1, Some("g")));
    settle(hive, "b", &packs, &failure()).await;
    // But what is cancelled after that is.
    hive.engine().requeue(&[1]).await.expect("requeued");
    hive.engine().cancel_group("g").await.expect("a cancel");
    assert_eq!(take(hive, "b", 9).await.1, [1]);
}

async fn a_cancelled_message_delivered_too_often_has_ended<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    hive.join_for("b", 1).await;
    hive.publish("a", &[1]).await;
    hive.take("b", 9).await;
    cancel(hive, &[0]).await;
    assert_eq!(hive.bury("b", &["a"]).await.failed, 1);
    assert!(pending(hive).await.is_empty());
}

async fn no_more_than_a_thousand_cancels_are_pending<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[600, 600]).await;
    let most = CANCELS_MAX as u64;
    let first: Vec<u64> = (0..most - 1).collect();
    assert_eq!(cancel(hive, &first).await, vec![Cancelled::Asked; CANCELS_MAX - 1]);
    let told = cancel(hive, &[most, most + 1, 7]).await;
    assert_eq!(told, [Cancelled::Asked, Cancelled::TooMany, Cancelled::Asked]);
    let (packs, told) = take(hive, "b", 1200).await;
    let there: Vec<u64> = numbers(&packs)
        .into_iter()
        .filter(|number| *number < most - 1)
        .collect();
    assert_eq!(
        told.iter()
            .filter(|number| **number != most)
            .copied()
            .collect::<Vec<_>>(),
        there
    );
    settle(hive, "b", &packs, &done()).await;
    assert!(pending(hive).await.len() < CANCELS_MAX);
    assert_eq!(
        cancel(hive, &[most + 1]).await,
        [Cancelled::Asked],
        "there is room again"
    );
}

async fn a_cancel_that_can_match_nothing_is_forgotten_after_an_hour<B: Bench>(hive: &Hive<B>) {
    patient(hive, "a").await;
    push(
        hive,
        "p",
        vec![Item::new("x"), Item::new("y").group("g"), Item::new("z")],
    )
    .await;
    let packs = hive.take("a", 9).await;
    settle(hive, "a", &packs[..1], &done()).await;
    settle(hive, "a", &packs[1..], &done()).await;
    // The store cannot tell that it is done.
    assert_eq!(cancel(hive, &[0]).await, [Cancelled::Asked]);
    hive.engine().cancel_group("g").await.expect("a cancel");
    passes(hive, CANCEL_MS - 1).await;
    assert_eq!(hive.status().await.cancels, 2, "it may be in a hand");
    passes(hive, 1).await;
    assert_eq!(hive.status().await.cancels, 0);
}

async fn a_cancel_outlasts_what_is_put_off<B: Bench>(hive: &Hive<B>) {
    patient(hive, "a").await;
    push(
        hive,
        "p",
        vec![
            Item::new("x").delay(std::time::Duration::from_millis(3 * CANCEL_MS)),
            Item::new("y"),
            Item::new("z").group("g"),
        ],
    )
    .await;
    // One waits already, two are in work.
    let packs = hive.take("a", 9).await;
    assert_eq!(cancel(hive, &[0, 1]).await, [Cancelled::Asked; 2]);
    hive.engine().cancel_group("g").await.expect("a cancel");
    settle(hive, "a", &packs, &retry(9 * CANCEL_MS)).await;
    passes(hive, 3 * CANCEL_MS + 1).await;
    let (packs, told) = take(hive, "a", 9).await;
    assert_eq!(told, [0]);
    settle(hive, "a", &packs, &cancelled()).await;
    // Now nothing waits but what is put off.
    passes(hive, 2 * CANCEL_MS).await;
    assert_eq!(hive.status().await.cancels, 2);
    passes(hive, 4 * CANCEL_MS).await;
    let (packs, mut told) = take(hive, "a", 9).await;
    told.sort_unstable();
    assert_eq!(told, [1, 2], "however long they were put off");
    settle(hive, "a", &packs, &cancelled()).await;
    passes(hive, 2 * CANCEL_MS).await;
    assert_eq!(hive.status().await.cancels, 0);
}

async fn a_cancel_is_kept_while_its_message_may_wait<B: Bench>(hive: &Hive<B>) {
    patient(hive, "a").await;
    push(
        hive,
        "p",
        vec![Item::new("x"), Item::new("y").group("g"), Item::new("z").group("g")],
    )
    .await;
    let first = hive.take("a", 1).await;
    cancel(hive, &[0, 1]).await;
    hive.engine().cancel_group("g").await.expect("a cancel");
    passes(hive, 2 * CANCEL_MS).await;
    assert_eq!(hive.status().await.cancels, 3);
    settle(hive, "a", &first, &done()).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let (packs, cancelled) = take(hive, "a", 9).await;
        told.extend(cancelled);
        settle(hive, "a", &packs, &done()).await;
    }
    told.extend(numbers(&first));
    told.sort_unstable();
    assert_eq!(told, [0, 1, 2]);
    // Others wait all the time: after a month it is forgotten all the same.
    push(hive, "q", vec![Item::new("x").group("h")]).await;
    cancel(hive, &[0]).await;
    passes(hive, CANCEL_MS_MAX).await;
    assert_eq!(pending(hive).await, [0]);
    passes(hive, CANCEL_MS).await;
    assert!(pending(hive).await.is_empty());
}

async fn cancels_limits_and_pauses_leave_each_other_alone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1, 1]).await;
    cancel(hive, &[0, 2]).await;
    let limits = Limits {
        rate: Some("1/s".parse().expect("a rate")),
        burst: 1,
        group: None,
    };
    hive.engine().limit(&limits).await.expect("a limit");
    hive.engine().pause(None, Some(true)).await.expect("a pause");
    assert!(hive.take("b", 1).await.is_empty());
    hive.engine().pause(None, Some(false)).await.expect("it goes on");
    let call = hive.next_call("b", 0, Vec::new(), 9);
    let Exchanged::Ok {
        packs,
        wait_ms,
        cancelled,
        ..
    } = hive.call(&call).await
    else {
        panic!("a member");
    };
    assert_eq!((numbers(&packs), cancelled), (vec![0], vec![0]));
    assert!(wait_ms.is_some(), "it is limited");
    settle(hive, "b", &packs, &done()).await;
    hive.engine().limit(&Limits::NONE).await.expect("no limit");
    let (packs, told) = take(hive, "b", 9).await;
    assert_eq!((numbers(&packs), told), (vec![1, 2, 3], vec![2]));
    hive.engine().limit(&limits).await.expect("a limit");
    settle(hive, "b", &packs, &done()).await;
    assert_eq!(hive.status().await.limits.rate, limits.rate);
    hive.adds_up().await;
}
