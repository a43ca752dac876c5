//! Limits: how fast messages are taken by the whole fleet, and of each group.

use queenright::engine::{Engine, Exchanged, Item, Limits, Pushed, Rate, Wake};
use queenright::error::Error;
use queenright::message::{Outcome, Pack};

use super::hive::{done, numbers, whole};
use super::push::push_call;
use super::retries::retry;
use super::{Bench, Check, Hive, checks};

checks![
    a_fleet_takes_what_its_limit_allows_over_a_minute,
    a_clock_that_jumps_forward_opens_the_gate_for_a_burst_alone,
    a_clock_that_steps_back_shuts_the_gate_for_one_message_alone,
    after_a_quiet_time_no_more_than_a_burst_is_taken,
    what_is_given_back_unhandled_does_not_count,
    what_is_delivered_again_counts_again,
    a_repeat_of_a_take_that_was_limited_takes_nothing_more,
    a_group_is_taken_no_faster_than_its_limit,
    a_message_of_a_group_that_is_tried_again_counts_again,
    groups_that_rest_by_a_limit_that_was_removed_go_on,
    a_limit_that_is_set_wakes_who_waits,
    while_nothing_may_be_taken_nobody_is_woken,
    what_is_published_wakes_nobody_whom_the_limit_has_told_when_to_come,
    a_group_that_has_rested_wakes_somebody,
    a_change_of_the_limit_fills_no_bucket,
    a_limit_stays_while_handling_is_paused,
    the_limit_is_told,
];

fn rate(text: &str) -> Rate {
    text.parse().expect("a rate")
}

async fn limit<B: Bench>(hive: &Hive<B>, limits: Limits) {
    hive.engine().limit(&limits).await.expect("a queue");
}

/// Of the whole fleet.
async fn limit_fleet<B: Bench>(hive: &Hive<B>, text: &str, burst: u32) {
    let (rate, group) = (Some(rate(text)), None);
    limit(hive, Limits { rate, burst, group }).await;
}

async fn limit_groups<B: Bench>(hive: &Hive<B>, text: &str) {
    let group = Some(rate(text));
    limit(hive, Limits { group, ..Limits::NONE }).await;
}

/// Settles as done what is given, takes more, and is told when to come back.
async fn take<B: Bench>(hive: &Hive<B>, node: &str, held: &[Pack], want: u32) -> (Vec<Pack>, Option<u64>) {
    let settles = held.iter().map(|pack| whole(pack, &done())).collect();
    let call = hive.next_call(node, 0, settles, want);
    match hive.call(&call).await {
        Exchanged::Ok { packs, wait_ms, .. } => (packs, wait_ms),
        other => panic!("{other:?}"),
    }
}

async fn count<B: Bench>(hive: &Hive<B>, node: &str, want: u32) -> usize {
    let (packs, _) = take(hive, node, &[], want).await;
    numbers(&packs).len()
}

async fn push_groups<B: Bench>(hive: &Hive<B>, call: &str, groups: &[&str]) {
    let item = |group: &&str| Item::new(group.to_string()).group(*group);
    let push = push_call(call, groups.iter().map(item).collect());
    assert!(matches!(hive.engine().push(&push).await, Ok(Pushed::Ok(_))));
}

/// Two nodes, of whom each comes when it was told to, or up to a fifth of a second late.
async fn a_fleet_takes_what_its_limit_allows_over_a_minute<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    for (text, burst) in [("10/s", 1), ("97/s", 0), ("600/m", 3)] {
        hive.publish("a", &[500; 13]).await;
        let per_minute = u64::from(rate(text).messages) * 60_000 / u64::from(rate(text).per_ms);
        limit_fleet(hive, text, burst).await;
        let end = hive.wall_ms() + 60_000;
        let (mut next, mut held) = ([hive.wall_ms(); 2], [Vec::new(), Vec::new()]);
        let (mut taken, mut turn) = (0, 0_u64);
        loop {
            let who = usize::from(next[1] < next[0]);
            if next[who] >= end {
                break;
            }
            let node = ["b", "c"][who];
            hive.jump(next[who].saturating_sub(hive.wall_ms()).cast_signed()).await;
            let (packs, wait_ms) = take(hive, node, &held[who], 50).await;
            taken += numbers(&packs).len() as u64;
            turn += 1;
            let late = [0, 1, 13, 60, 180][usize::try_from(turn % 5).expect("small")];
            next[who] = hive.wall_ms() + wait_ms.expect("there is always more") + late;
            held[who] = packs;
            hive.beat("a").await;
            hive.beat("b").await;
            hive.beat("c").await;
        }
        let off = taken.abs_diff(per_minute);
        assert!(
            off * 100 <= per_minute,
            "{taken} of {per_minute} in a minute, at {text}"
        );
        for (node, held) in ["b", "c"].into_iter().zip(&held) {
            take(hive, node, held, 0).await;
        }
        limit(hive, Limits::NONE).await;
        let mut left = take(hive, "b", &[], 1000).await.0;
        while !left.is_empty() {
            left = take(hive, "b", &left, 1000).await.0;
        }
    }
}

async fn a_clock_that_jumps_forward_opens_the_gate_for_a_burst_alone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[100]).await;
    limit_fleet(hive, "10/s", 5).await;
    assert_eq!(take(hive, "b", &[], 3).await.1, None, "it got what it wanted");
    hive.jump(3_600_000).await;
    hive.beat("b").await;
    let (packs, wait_ms) = take(hive, "b", &[], 50).await;
    assert_eq!((numbers(&packs).len(), wait_ms), (5, Some(100)));
}

async fn a_clock_that_steps_back_shuts_the_gate_for_one_message_alone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[100]).await;
    push_groups(hive, "p", &["g", "g"]).await;
    let (rate, burst, group) = (Some(rate("10/s")), 5, Some(rate("10/s")));
    limit(hive, Limits { rate, burst, group }).await;
    hive.jump(-3_600_000).await;
    assert_eq!(count(hive, "b", 5).await, 5);
    let (packs, wait_ms) = take(hive, "b", &[], 5).await;
    assert_eq!((packs, wait_ms), (Vec::new(), Some(100)));
    hive.jump(-3_600_000).await;
    assert_eq!(take(hive, "b", &[], 5).await, (Vec::new(), Some(100)));
    hive.jump(100).await;
    assert_eq!(count(hive, "b", 5).await, 1);
}

async fn after_a_quiet_time_no_more_than_a_burst_is_taken<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[100]).await;
    limit_fleet(hive, "10/s", 1).await;
    assert_eq!(count(hive, "b", 1).await, 1, "it wants no more");
    hive.pass(10_000, &["a", "b"]).await;
    assert_eq!(take(hive, "b", &[], 9).await.1, Some(100));
    hive.pass(350, &["a", "b"]).await;
    assert_eq!(count(hive, "b", 9).await, 3, "it was told to come back, and was late");
    hive.pass(60_000, &["a", "b"]).await;
    assert_eq!(
        count(hive, "b", 9).await,
        3,
        "a quarter of a second is kept for it, and not a minute"
    );
}

async fn what_is_given_back_unhandled_does_not_count<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1; 9]).await;
    limit_fleet(hive, "10/s", 5).await;
    let (packs, _) = take(hive, "b", &[], 9).await;
    assert_eq!(numbers(&packs), [0, 1, 2, 3, 4]);
    let back = packs[2..].iter().map(|pack| whole(pack, &Outcome::Return)).collect();
    hive.exchange("b", back, 0).await;
    assert_eq!(numbers(&take(hive, "c", &[], 9).await.0), [2, 3, 4]);
}

async fn what_is_delivered_again_counts_again<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1; 3]).await;
    limit_fleet(hive, "1/m", 1).await;
    assert_eq!(count(hive, "b", 9).await, 1);
    hive.bury("b", &["a", "c"]).await;
    assert_eq!(count(hive, "c", 9).await, 0, "it may have been handled");
    hive.pass(60_000, &["a", "c"]).await;
    let (packs, _) = take(hive, "c", &[], 9).await;
    assert_eq!(numbers(&packs), [0]);
    hive.exchange("c", vec![whole(&packs[0], &retry(0))], 0).await;
    hive.pass(1000, &["a", "c"]).await;
    assert_eq!(count(hive, "c", 9).await, 0, "a retry counts, too");
}

async fn a_repeat_of_a_take_that_was_limited_takes_nothing_more<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; 9]).await;
    limit_fleet(hive, "10/s", 2).await;
    let call = hive.next_call("b", 0, Vec::new(), 9);
    let Exchanged::Ok { packs, wait_ms, .. } = hive.call(&call).await else {
        panic!("a member")
    };
    assert_eq!((numbers(&packs), wait_ms), (vec![0, 1], Some(100)));
    let before = hive.state().await;
    hive.jump(5000).await;
    let Exchanged::Ok {
        packs: again, wait_ms, ..
    } = hive.call(&call).await
    else {
        panic!("a member")
    };
    assert_eq!((again, wait_ms), (packs, Some(0)), "it asks again at once");
    assert_eq!(hive.state().await, before);
}

async fn a_group_is_taken_no_faster_than_its_limit<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push_groups(hive, "p", &["g", "g", "g", "h"]).await;
    limit_groups(hive, "10/s").await;
    let (packs, wait_ms) = take(hive, "b", &[], 9).await;
    assert_eq!((numbers(&packs), wait_ms), (vec![0, 3], Some(100)));
    let (packs, wait_ms) = take(hive, "b", &packs, 9).await;
    assert_eq!((packs, wait_ms), (Vec::new(), Some(100)));
    hive.jump(99).await;
    assert_eq!(take(hive, "b", &[], 9).await, (Vec::new(), Some(1)));
    // A little late, which the next one does not have to wait for.
    hive.jump(21).await;
    let (packs, wait_ms) = take(hive, "b", &[], 9).await;
    assert_eq!((numbers(&packs), wait_ms), (vec![1], Some(80)));
    hive.jump(80).await;
    let (packs, _) = take(hive, "b", &packs, 9).await;
    assert_eq!(numbers(&packs), [2]);
    hive.jump(100).await;
    assert_eq!(take(hive, "b", &packs, 9).await, (Vec::new(), None));
    assert!(hive.state().await.resting.is_empty(), "nothing is left of it");
}

async fn a_message_of_a_group_that_is_tried_again_counts_again<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push_groups(hive, "p", &["g", "g"]).await;
    limit_groups(hive, "1/s").await;
    let (packs, _) = take(hive, "b", &[], 9).await;
    hive.exchange("b", vec![whole(&packs[0], &retry(0))], 0).await;
    hive.pass(2000, &["a", "b"]).await;
    let (packs, _) = take(hive, "b", &[], 9).await;
    assert_eq!(numbers(&packs), [0]);
    assert_eq!(take(hive, "b", &packs, 9).await, (Vec::new(), Some(1000)));
    hive.pass(1000, &["a", "b"]).await;
    assert_eq!(numbers(&take(hive, "b", &[], 9).await.0), [1]);
}

async fn groups_that_rest_by_a_limit_that_was_removed_go_on<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push_groups(hive, "p", &["g", "g", "h", "h"]).await;
    for other in [Some(rate("1000/s")), None] {
        limit_groups(hive, "1/h").await;
        let (packs, wait_ms) = take(hive, "b", &[], 9).await;
        assert_eq!((packs.len(), wait_ms), (2, Some(3_600_000)));
        assert_eq!(take(hive, "b", &packs, 9).await.0, []);
        limit(
            hive,
            Limits {
                rate: other,
                ..Limits::NONE
            },
        )
        .await;
        let (packs, _) = take(hive, "b", &[], 9).await;
        assert_eq!(packs.len(), 2, "{other:?}");
        take(hive, "b", &packs, 9).await;
        let state = hive.state().await;
        let limits = state.meta.and_then(|meta| meta.limit).map(|gate| gate.limits.rate);
        assert_eq!((limits, state.resting.len()), (other.map(Some), 0));
        push_groups(hive, &format!("{other:?}"), &["g", "g", "h", "h"]).await;
        hive.jump(3_700_000).await;
        hive.beat("b").await;
    }
}

async fn a_limit_that_is_set_wakes_who_waits<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    limit_fleet(hive, "1/h", 1).await;
    assert_eq!(count(hive, "b", 9).await, 1);
    hive.bench.hush().await;
    limit(hive, Limits::NONE).await;
    assert!(hive.rung(Wake::Bell).await);
    assert_eq!(count(hive, "b", 9).await, 2);
}

async fn while_nothing_may_be_taken_nobody_is_woken<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[9]).await;
    limit_fleet(hive, "1/s", 1).await;
    let mut call = hive.next_call("b", 0, Vec::new(), 9);
    call.woken = true;
    hive.bench.hush().await;
    hive.call(&call).await;
    assert!(!hive.rung(Wake::Bell).await);
    hive.pass(900, &["a", "b"]).await;
    assert!(!hive.rung(Wake::Bell).await);
    hive.pass(100, &["a", "b"]).await;
    assert!(hive.rung(Wake::Bell).await, "who was told may have died");
}

async fn a_group_that_has_rested_wakes_somebody<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    push_groups(hive, "p", &["g", "g"]).await;
    limit_groups(hive, "1/s").await;
    let (packs, _) = take(hive, "b", &[], 9).await;
    take(hive, "b", &packs, 9).await;
    hive.bench.hush().await;
    hive.pass(900, &["a", "b", "c"]).await;
    assert!(!hive.rung(Wake::Bell).await);
    hive.pass(100, &["a", "b", "c"]).await;
    assert!(hive.rung(Wake::Bell).await);
    assert_eq!(count(hive, "c", 9).await, 1);
}

async fn a_change_of_the_limit_fills_no_bucket<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[99]).await;
    for (text, burst, taken) in [("1/h", 5, 5), ("2/h", 5, 0), ("2/h", 5, 0), ("1/d", 50, 0)] {
        limit_fleet(hive, text, burst).await;
        assert_eq!(count(hive, "b", 9).await, taken, "{text}");
    }
}

async fn a_limit_stays_while_handling_is_paused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[9]).await;
    limit_fleet(hive, "1/s", 2).await;
    hive.engine().pause(Some(true), Some(true)).await.expect("pause");
    assert_eq!(take(hive, "b", &[], 9).await, (Vec::new(), None));
    hive.engine().pause(Some(false), Some(false)).await.expect("resume");
    assert_eq!(count(hive, "b", 9).await, 2);
}

async fn the_limit_is_told<B: Bench>(hive: &Hive<B>) {
    let limits = Limits {
        rate: Some(rate("500/s")),
        burst: 0,
        group: Some(rate("7/m")),
    };
    assert!(matches!(hive.engine().limit(&limits).await, Err(Error::NoQueue { .. })));
    hive.found("a", &["b"]).await;
    assert_eq!(hive.status().await.limits, Limits::NONE);
    limit(hive, limits).await;
    assert_eq!(hive.status().await.limits, Limits { burst: 50, ..limits });
    limit(hive, Limits::NONE).await;
    assert_eq!(hive.status().await.limits, Limits::NONE);
    assert_eq!(hive.state().await.meta.and_then(|meta| meta.limit), None);
}

async fn what_is_published_wakes_nobody_whom_the_limit_has_told_when_to_come<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    limit_fleet(hive, "10/s", 1).await;
    hive.publish("a", &[1]).await;
    assert_eq!(count(hive, "b", 1).await, 1);
    hive.rung(Wake::Bell).await;
    hive.publish("a", &[1]).await;
    assert!(hive.rung(Wake::Bell).await, "nobody was told when there is more");
    let (packs, wait_ms) = take(hive, "b", &[], 1).await;
    assert!(
        packs.is_empty() && wait_ms.is_some_and(|wait_ms| wait_ms > 0),
        "{wait_ms:?}"
    );
    hive.rung(Wake::Bell).await;
    hive.publish("a", &[1]).await;
    assert!(!hive.rung(Wake::Bell).await, "it comes by itself");
    push_groups(hive, "p", &["g"]).await;
    assert!(!hive.rung(Wake::Bell).await, "it comes by itself");
    hive.pass(wait_ms.unwrap_or_default(), &["a", "b"]).await;
    hive.rung(Wake::Bell).await;
    hive.publish("a", &[1]).await;
    assert!(hive.rung(Wake::Bell).await, "there is more");
}
