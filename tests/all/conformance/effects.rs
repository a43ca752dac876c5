//! Effects: in the same step as the settle, all or none, once.

use queenright::engine::memory::Stored;
use queenright::message::{Effect, Outcome, Pack};

use super::bench::QUEUE;
use super::hive::{failure, numbers, part, run, whole, with};
use super::{Bench, Check, Hive, checks};

const MOST: i64 = (1 << 53) - 1;

checks![
    effects_are_applied_with_the_settle_and_once,
    effects_of_a_late_settle_are_not_applied,
    a_refused_effect_applies_none_and_makes_an_error,
    effects_on_a_queue_are_refused,
    only_whole_numbers_are_counted_on,
    counters_stay_where_they_are_exact,
    effects_of_one_call_see_each_other,
    a_refused_run_fails_every_message_of_it,
];

fn add(key: &str, by: i64) -> Effect {
    Effect::Add { key: key.into(), by }
}

fn set(key: &str, value: &str) -> Effect {
    Effect::Set {
        key: key.into(),
        value: value.into(),
    }
}

fn field(key: &str, field: &str, value: &str) -> Effect {
    Effect::SetField {
        key: key.into(),
        field: field.into(),
        value: value.into(),
    }
}

fn push(key: &str, value: &str) -> Effect {
    Effect::Push {
        key: key.into(),
        value: value.into(),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "compared with what `stored` returns")]
fn value(text: &str) -> Option<Stored> {
    Some(Stored::Value(text.into()))
}

/// Publishes single messages and has `b` take them.
async fn taken<B: Bench>(hive: &Hive<B>, count: usize) -> Vec<Pack> {
    hive.found("a", &["b"]).await;
    hive.publish("a", &vec![1; count]).await;
    hive.take("b", 1000).await
}

async fn stored<B: Bench>(hive: &Hive<B>, key: &str) -> Option<Stored> {
    hive.state().await.stored.get(key).cloned()
}

/// Settles one message with these effects; why they were refused.
async fn refusal<B: Bench>(hive: &Hive<B>, pack: &Pack, effects: &[Effect]) -> Option<String> {
    let (_, refused) = hive.exchange_fully("b", vec![whole(pack, &with(effects))], 0).await;
    assert!(refused.iter().all(|(number, _)| *number == pack.first()));
    refused.into_iter().next().map(|(_, why)| why)
}

async fn effects_are_applied_with_the_settle_and_once<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 2).await;
    let effects = [
        add("count", 3),
        set("last", "x"),
        field("by", "b", "1"),
        push("log", "one"),
        push("log", "two"),
    ];
    let call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&effects))], 0);
    let answer = hive.call(&call).await;
    let before = hive.state().await;
    assert_eq!(hive.call(&call).await, answer);
    assert_eq!(hive.state().await, before, "a repeat applies nothing");
    hive.exchange(
        "b",
        vec![whole(&packs[1], &with(&[add("count", -5), field("by", "c", "2")]))],
        0,
    )
    .await;
    assert_eq!(stored(hive, "count").await, value("-2"));
    assert_eq!(stored(hive, "last").await, value("x"));
    let by = [("b", "1"), ("c", "2")].map(|(field, value)| (field.to_string(), value.into()));
    assert_eq!(stored(hive, "by").await, Some(Stored::Hash(by.into())));
    assert_eq!(
        stored(hive, "log").await,
        Some(Stored::List(vec!["one".into(), "two".into()]))
    );
    assert_eq!(hive.status().await.done, 2);
}

async fn effects_of_a_late_settle_are_not_applied<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 1).await;
    hive.bury("b", &["a"]).await;
    let late = hive.next_call("b", 0, vec![whole(&packs[0], &with(&[add("count", 1)]))], 0);
    hive.call(&late).await;
    assert_eq!(stored(hive, "count").await, None);
}

async fn a_refused_effect_applies_none_and_makes_an_error<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 9).await;
    let first = [set("text", "5"), field("hash", "f", "v"), push("list", "v")];
    hive.exchange("b", vec![whole(&packs[0], &with(&first))], 0).await;
    let before = hive.state().await.stored;
    let wrong = [
        (add("hash", 1), "key hash holds a hash, not a value"),
        (set("list", "v"), "key list holds a list, not a value"),
        (set("hash", "v"), "key hash holds a hash, not a value"),
        (field("text", "f", "v"), "key text holds a value, not a hash"),
        (field("list", "f", "v"), "key list holds a list, not a hash"),
        (push("text", "v"), "key text holds a value, not a list"),
    ];
    for (i, (effect, why)) in wrong.into_iter().enumerate() {
        // The ones beside it would be right.
        let effects = [add("count", 1), effect, push("list", "w")];
        assert_eq!(
            refusal(hive, &packs[i + 1], &effects).await,
            Some(format!("effect refused: {why}"))
        );
        assert_eq!(hive.state().await.stored, before);
    }
    let failed = hive.failed().await;
    assert_eq!(failed.len(), 6);
    assert_eq!(failed[0].error, b"effect refused: key hash holds a hash, not a value");
    // Neighbours in the same call are not touched by it, and a repeat says the same.
    let settles = vec![
        whole(&packs[7], &with(&[add("count", 1)])),
        whole(&packs[8], &with(&[push("count", "v")])),
    ];
    let call = hive.next_call("b", 0, settles, 0);
    let answer = hive.call(&call).await;
    assert_eq!(hive.call(&call).await, answer);
    assert_eq!(stored(hive, "count").await, value("1"));
    let status = hive.status().await;
    assert_eq!((status.done, status.failed), (2, 7));
}

async fn effects_on_a_queue_are_refused<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 4).await;
    let own = format!("{{qr:{QUEUE}}}:");
    for (pack, key) in packs
        .iter()
        .zip([own.clone() + "queue", own + "anything", "{qr:other}:queue".into()])
    {
        let why = refusal(hive, pack, &[push(&key, "v")]).await;
        assert_eq!(why, Some(format!("effect refused: key {key} belongs to a queue")));
    }
    // What only shares the slot of a queue is nobody's.
    assert_eq!(refusal(hive, &packs[3], &[push("{qr:other}", "v")]).await, None);
    assert!(hive.state().await.queue.is_empty());
}

async fn only_whole_numbers_are_counted_on<B: Bench>(hive: &Hive<B>) {
    let texts = [
        "",
        "x",
        "1.5",
        "1e3",
        "01",
        "+1",
        "-0",
        " 1",
        "9007199254740993",
        "99999999999999999999",
    ];
    let packs = taken(hive, texts.len()).await;
    for (pack, text) in packs.iter().zip(texts) {
        hive.bench.put("count", text.as_bytes()).await;
        let why = refusal(hive, pack, &[add("count", 1)]).await;
        assert_eq!(
            why.as_deref(),
            Some("effect refused: key count holds no whole number"),
            "{text:?}"
        );
        assert_eq!(stored(hive, "count").await, value(text));
    }
}

async fn counters_stay_where_they_are_exact<B: Bench>(hive: &Hive<B>) {
    let steps = [
        (MOST, true),
        (1, false),
        (2, false),
        (-1, true),
        (1, true),
        (-MOST, true),
        (-MOST, true),
        (-1, false),
        (MOST + 1, false),
        (MOST + 2, false),
        (i64::MAX, false),
        (i64::MIN, false),
        (MOST, true),
    ];
    let packs = taken(hive, steps.len()).await;
    let mut count = 0;
    for (pack, (by, fits)) in packs.iter().zip(steps) {
        let why = refusal(hive, pack, &[add("count", by)]).await;
        if fits {
            count += by;
            assert_eq!(why, None, "{by}");
        } else {
            assert_eq!(
                why.as_deref(),
                Some("effect refused: key count would leave 2^53"),
                "{by}"
            );
        }
        assert_eq!(stored(hive, "count").await, value(&count.to_string()));
    }
}

async fn effects_of_one_call_see_each_other<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 6).await;
    let settles = vec![
        whole(&packs[0], &with(&[set("n", "40"), add("n", 1)])),
        whole(&packs[1], &with(&[add("n", 1), push("list", "v")])),
        whole(&packs[2], &with(&[push("n", "v")])),
        whole(&packs[3], &with(&[add("list", 1)])),
        // What a refused one would have written does not count.
        whole(&packs[4], &with(&[set("fresh", "v"), field("fresh", "f", "v")])),
        whole(&packs[5], &with(&[field("fresh", "f", "v")])),
    ];
    let (_, refused) = hive.exchange_fully("b", settles, 0).await;
    assert_eq!(refused.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(stored(hive, "n").await, value("42"));
    assert_eq!(stored(hive, "list").await, Some(Stored::List(vec!["v".into()])));
    let fresh = [("f".to_string(), "v".into())];
    assert_eq!(stored(hive, "fresh").await, Some(Stored::Hash(fresh.into())));
    let status = hive.status().await;
    assert_eq!((status.done, status.failed), (3, 3));
}

async fn a_refused_run_fails_every_message_of_it<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    let packs = hive.take("b", 4).await;
    hive.bench.put("text", b"x").await;
    let runs = [
        run(0, 1, &failure()),
        run(1, 2, &with(&[add("text", 1)])),
        run(3, 1, &Outcome::Return),
    ];
    let (_, refused) = hive.exchange_fully("b", vec![part(&packs[0], &runs)], 0).await;
    assert_eq!(refused.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2]);
    let status = hive.status().await;
    assert_eq!((status.failed, status.queued, status.in_hand), (3, 1, 0));
    assert_eq!(numbers(&hive.take("b", 4).await), [3]);
}
