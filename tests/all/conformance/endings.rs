//! Outcomes that are asked for, and where a message is.

use std::time::Duration;

use queenright::engine::{ENDING_MS, ENDINGS_MAX, Ended, Ending, Engine, FOUND_MAX, Found, Item, Pushed};
use queenright::message::{Effect, Outcome, Pack};

use super::hive::{done, failure, whole, with};
use super::push::push_call;
use super::retries::retry;
use super::{Bench, Check, Hive, checks};

checks![
    an_outcome_is_kept_with_its_result_if_it_was_asked_for,
    an_outcome_that_is_asked_for_is_that_of_the_last_try,
    what_a_refused_effect_does_to_a_message_whoever_asked_is_told,
    a_message_delivered_too_often_has_ended_for_whoever_asked,
    a_requeued_error_has_no_outcome_until_its_next_life_ends,
    an_outcome_is_kept_for_an_hour,
    of_outcomes_the_oldest_beyond_a_number_is_forgotten,
    whoever_waits_for_an_outcome_is_told_when_it_comes,
    an_outcome_that_is_asked_for_is_kept_however_late_it_is_settled,
    a_message_is_found_where_it_is,
    a_message_that_nobody_asked_for_is_found_where_it_waits,
    of_a_message_that_may_wait_behind_many_it_is_not_said_that_it_has_ended,
    a_message_of_a_group_is_asked_for_like_any_other,
    a_repeated_push_asks_once,
];

async fn push<B: Bench>(hive: &Hive<B>, call: &str, items: Vec<Item>) -> Vec<u64> {
    match hive.engine().push(&push_call(call, items)).await {
        Ok(Pushed::Ok(receipts)) => receipts.iter().map(|receipt| receipt.number).collect(),
        other => panic!("{other:?}"),
    }
}

async fn ending<B: Bench>(hive: &Hive<B>, number: u64) -> Option<Ending> {
    let endings = hive.engine().endings(&[number]).await.expect("a look");
    assert_eq!(endings.len(), 1);
    endings.into_iter().next().flatten()
}

async fn find<B: Bench>(hive: &Hive<B>, number: u64) -> Found {
    hive.engine().find(number).await.expect("a look")
}

async fn settle<B: Bench>(hive: &Hive<B>, node: &str, packs: &[Pack], outcome: &Outcome) {
    let settles = packs.iter().map(|pack| whole(pack, outcome)).collect();
    hive.exchange_fully(node, settles, 0).await;
}

fn asked(payload: &str) -> Item {
    Item::new(payload.to_string()).ask()
}

async fn an_outcome_is_kept_with_its_result_if_it_was_asked_for<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x"), Item::new("y"), asked("z"), asked("u")]).await;
    assert_eq!(find(hive, 0).await, Found::Queued);
    let packs = hive.take("b", 9).await;
    let settles = packs.iter().map(|pack| {
        let outcome = match pack.first() {
            0 | 1 => with(&[Effect::result("forty-two")]),
            2 => done(),
            _ => failure(),
        };
        whole(pack, &outcome)
    });
    hive.exchange("b", settles.collect(), 0).await;
    let ended = |how| Ending {
        how,
        time_ms: hive.wall_ms(),
        node: "b".into(),
        deliveries: 1,
        failures: 0,
    };
    let endings = hive.engine().endings(&[3, 1, 0, 2, 99]).await.expect("a look");
    let wanted = [
        Some(ended(Ended::Failed(b"it failed".to_vec()))),
        None,
        Some(ended(Ended::Done(Some(b"forty-two".to_vec())))),
        Some(ended(Ended::Done(None))),
        None,
    ];
    assert_eq!(endings, wanted);
    assert_eq!(hive.state().await.asked.len(), 3, "nothing is kept of the other");
    assert_eq!(find(hive, 1).await, Found::Settled);
    assert_eq!(find(hive, 2).await, Found::Ended(ended(Ended::Done(None))));
}

async fn an_outcome_that_is_asked_for_is_that_of_the_last_try<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x")]).await;
    settle(hive, "b", &hive.take("b", 9).await, &retry(500)).await;
    let until_ms = hive.wall_ms() + 500;
    assert_eq!(
        (ending(hive, 0).await, find(hive, 0).await),
        (None, Found::Later { until_ms })
    );
    hive.pass(700, &["a", "b"]).await;
    assert_eq!(find(hive, 0).await, Found::Queued);
    let packs = hive.take("b", 9).await;
    assert_eq!(find(hive, 0).await, Found::Held { node: "b".into() });
    settle(hive, "b", &packs, &done()).await;
    let ending = ending(hive, 0).await.expect("it has ended");
    assert_eq!((ending.how, ending.failures), (Ended::Done(None), 1));
}

async fn what_a_refused_effect_does_to_a_message_whoever_asked_is_told<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x")]).await;
    let packs = hive.take("b", 9).await;
    let outcome = with(&[Effect::set("{qr:other}:meta", "v"), Effect::result("never told")]);
    settle(hive, "b", &packs, &outcome).await;
    let ending = ending(hive, 0).await.expect("it has ended");
    let error = String::from_utf8_lossy(ending.error().expect("it failed")).into_owned();
    assert!(error.starts_with("effect refused: "), "{error}");
}

async fn a_message_delivered_too_often_has_ended_for_whoever_asked<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    hive.join_for("b", 1).await;
    push(hive, "p", vec![asked("x")]).await;
    hive.take("b", 9).await;
    hive.bury("b", &["a"]).await;
    let ending = ending(hive, 0).await.expect("it has ended");
    assert_eq!(ending.error(), Some(&b"delivered 1 times without an outcome"[..]));
    assert_eq!(ending.node, "b");
}

async fn a_requeued_error_has_no_outcome_until_its_next_life_ends<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x"), asked("y").group("g")]).await;
    settle(hive, "b", &hive.take("b", 9).await, &failure()).await;
    assert!(ending(hive, 0).await.is_some_and(|ending| !ending.is_done()));
    hive.engine().requeue(&[0, 1]).await.expect("requeued");
    for number in [0, 1] {
        let found = (ending(hive, number).await, find(hive, number).await);
        assert_eq!(found, (None, Found::Queued));
    }
    settle(hive, "b", &hive.take("b", 9).await, &done()).await;
    for number in [0, 1] {
        assert!(ending(hive, number).await.is_some_and(|ending| ending.is_done()));
    }
}

async fn an_outcome_is_kept_for_an_hour<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x"), asked("y")]).await;
    settle(hive, "b", &hive.take("b", 1).await, &done()).await;
    hive.jump(ENDING_MS.cast_signed() - 1).await;
    assert!(ending(hive, 0).await.is_some());
    hive.jump(1).await;
    assert_eq!((ending(hive, 0).await, find(hive, 0).await), (None, Found::Settled));
    settle(hive, "b", &hive.take("b", 1).await, &done()).await;
    let state = hive.state().await;
    assert_eq!(
        state.asked.keys().copied().collect::<Vec<_>>(),
        [1],
        "the next one forgets it"
    );
    assert_eq!((state.endings.len(), find(hive, 0).await), (1, Found::Settled));
}

async fn of_outcomes_the_oldest_beyond_a_number_is_forgotten<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut left = ENDINGS_MAX + 2;
    while left > 0 {
        let count = left.min(250);
        push(hive, &format!("p{left}"), (0..count).map(|_| asked("")).collect()).await;
        hive.jump(1).await;
        left -= count;
        let mut packs = hive.take("b", 250).await;
        while !packs.is_empty() {
            settle(hive, "b", &packs, &done()).await;
            packs = hive.take("b", 250).await;
        }
    }
    let state = hive.state().await;
    assert_eq!(state.asked.len() as u64, ENDINGS_MAX);
    assert_eq!(state.asked.keys().next(), Some(&2));
    assert_eq!(find(hive, 1).await, Found::Settled);
}

async fn whoever_waits_for_an_outcome_is_told_when_it_comes<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x"), asked("y")]).await;
    let waits = async |number, at_most| hive.engine().await_ending(number, at_most).await.expect("a wait");
    assert!(!waits(0, Duration::from_millis(5)).await);
    let works = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        settle(hive, "b", &hive.take("b", 1).await, &done()).await;
    };
    let patience = Duration::from_mins(1);
    let (first, again, ()) = tokio::join!(waits(0, patience), waits(0, patience), works);
    assert!(first && again, "two may wait for one");
    assert!(waits(0, Duration::ZERO).await, "it can be asked again");
    assert!(!waits(1, Duration::from_millis(5)).await);
}

async fn an_outcome_that_is_asked_for_is_kept_however_late_it_is_settled<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![asked("x"), asked("y").group("g")]).await;
    let packs = hive.take("b", 9).await;
    // After so many calls the engine has forgotten that some outcomes are asked for.
    for _ in 0..70 {
        hive.take("b", 0).await;
    }
    settle(hive, "b", &packs, &done()).await;
    for number in [0, 1] {
        assert!(ending(hive, number).await.is_some());
    }
}

async fn a_message_is_found_where_it_is<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[3]).await;
    let later = asked("later").delay(Duration::from_secs(5));
    push(hive, "p", vec![asked("x"), later]).await;
    let until_ms = hive.wall_ms() + 5000;
    assert_eq!(find(hive, 3).await, Found::Queued);
    assert_eq!(find(hive, 4).await, Found::Later { until_ms });
    assert_eq!(find(hive, 5).await, Found::Unpublished);
    assert_eq!(find(hive, 1).await, Found::Queued, "nobody asked");
    let packs = hive.take("b", 2).await;
    for (number, found) in [
        (0, Found::Held { node: "b".into() }),
        (1, Found::Held { node: "b".into() }),
        (2, Found::Queued),
    ] {
        assert_eq!(find(hive, number).await, found, "{number}");
    }
    settle(hive, "b", &packs, &failure()).await;
    let Found::Failed(failed) = find(hive, 1).await else {
        panic!("it is among the errors")
    };
    assert_eq!((failed.number, &failed.error[..]), (1, &b"it failed"[..]));
    // In the hand of one that was given up, and not handed on yet.
    hive.take("b", 1).await;
    hive.engine().leave(&"b".into()).await.expect("it leaves");
    assert_eq!(find(hive, 2).await, Found::Held { node: "b".into() });
}

async fn a_message_that_nobody_asked_for_is_found_where_it_waits<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1, 1, 1]).await;
    let later = Item::new("later").delay(Duration::from_secs(5));
    push(hive, "p", vec![Item::new("x").group("g"), later]).await;
    let until_ms = hive.wall_ms() + 5000;
    assert_eq!(find(hive, 2).await, Found::Queued);
    assert_eq!(find(hive, 3).await, Found::Queued, "in the line of its group");
    assert_eq!(find(hive, 4).await, Found::Later { until_ms });
    // What is given back unhandled is at the head of the queue, in any order.
    let (first, second) = (hive.take("b", 1).await, hive.take("c", 1).await);
    settle(hive, "b", &first, &Outcome::Return).await;
    settle(hive, "c", &second, &Outcome::Return).await;
    for number in 0..3 {
        assert_eq!(find(hive, number).await, Found::Queued, "{number}");
    }
    let packs = hive.take("b", 9).await;
    assert_eq!(find(hive, 1).await, Found::Held { node: "b".into() });
    settle(hive, "b", &packs, &done()).await;
    assert_eq!(find(hive, 1).await, Found::Settled);
    assert_eq!(find(hive, 4).await, Found::Later { until_ms });
    hive.pass(5200, &["a", "b", "c"]).await;
    assert_eq!(find(hive, 4).await, Found::Queued, "it is to be taken again");
}

async fn of_a_message_that_may_wait_behind_many_it_is_not_said_that_it_has_ended<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; FOUND_MAX]).await;
    let packs = hive.take("b", 1).await;
    settle(hive, "b", &packs, &done()).await;
    assert_eq!(find(hive, 0).await, Found::Settled);
    hive.publish("a", &[1; 9]).await;
    assert_eq!(find(hive, 0).await, Found::Unknown);
    for number in [1, FOUND_MAX as u64, FOUND_MAX as u64 + 3, FOUND_MAX as u64 + 8] {
        assert_eq!(find(hive, number).await, Found::Queued, "{number}");
    }
}

async fn a_message_of_a_group_is_asked_for_like_any_other<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(
        hive,
        "p",
        vec![asked("x").group("g"), asked("y").group("g"), Item::new("z").group("g")],
    )
    .await;
    let mut results = 0;
    while results < 3 {
        let packs = hive.take("b", 9).await;
        assert_eq!(packs.len(), 1, "one at a time");
        settle(hive, "b", &packs, &with(&[Effect::result(results.to_string())])).await;
        results += 1;
    }
    let endings = hive.engine().endings(&[0, 1, 2]).await.expect("a look");
    let results: Vec<_> = endings.iter().map(|ending| ending.as_ref()?.result()).collect();
    assert_eq!(results, [Some(&b"0"[..]), Some(&b"1"[..]), None]);
}

async fn a_repeated_push_asks_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let item = || asked("x").key("k");
    assert_eq!(push(hive, "p", vec![item(), item()]).await, [0, 0]);
    settle(hive, "b", &hive.take("b", 9).await, &done()).await;
    assert_eq!(push(hive, "q", vec![item()]).await, [0]);
    assert!(ending(hive, 0).await.is_some(), "the outcome is still there");
}
