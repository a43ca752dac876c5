//! What a message carries besides its payload: it stays with it, wherever it goes.

use std::time::Duration;

use queenright::engine::{Engine, Item, Pushed};
use queenright::message::{Effect, Envelope, Outcome, Pack};

use super::hive::{done, failure, numbers, whole};
use super::push::push_call;
use super::retries::retry;
use super::{Bench, Check, Hive, checks};

checks![
    headers_and_expiry_stay_with_a_message_until_its_outcome,
    an_error_keeps_headers_and_expiry_for_its_next_life,
    messages_with_and_without_headers_keep_the_order_of_their_numbers,
    what_a_generator_gives_headers_comes_with_them,
    what_an_effect_publishes_comes_with_its_headers,
];

fn item(name: &str) -> Item {
    let item = Item::new(name.to_string()).expires(Duration::from_mins(10));
    item.header("traceparent", format!("00-{name}-01"))
}

async fn push<B: Bench>(hive: &Hive<B>, call: &str, items: Vec<Item>) {
    let pushed = hive.engine().push(&push_call(call, items)).await;
    assert!(matches!(pushed, Ok(Pushed::Ok(_))), "{pushed:?}");
}

fn is_whole(pack: &Pack) {
    let (message, envelope) = (pack.message(0), pack.envelope());
    let name = String::from_utf8(message.payload.to_vec()).expect("text");
    let expected = format!("00-{name}-01");
    assert_eq!(message.headers().get("traceparent"), Some(expected.as_str()));
    let expires_ms = envelope.open().and_then(|envelope| envelope.expires_ms);
    assert_eq!(expires_ms, Some(600_000));
}

async fn headers_and_expiry_stay_with_a_message_until_its_outcome<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    let later = item("later").delay(Duration::from_millis(100));
    push(hive, "p", vec![item("one"), item("two").group("g"), later]).await;
    let mut packs = hive.take("b", 9).await;
    packs.iter().for_each(is_whole);
    assert_eq!(numbers(&packs).len(), 2);
    // Given back, put off, and in the hand of a node that dies.
    let settles = packs.iter().zip([Outcome::Return, retry(0)]);
    let settles = settles.map(|(pack, outcome)| whole(pack, &outcome)).collect();
    hive.exchange("b", settles, 0).await;
    hive.pass(200, &["a", "b", "c"]).await;
    packs = hive.take("b", 9).await;
    assert_eq!(numbers(&packs).len(), 3);
    hive.bury("b", &["a", "c"]).await;
    while !packs.is_empty() {
        packs = hive.take("c", 9).await;
        packs.iter().for_each(is_whole);
        hive.exchange("c", packs.iter().map(|pack| whole(pack, &done())).collect(), 0)
            .await;
    }
    assert_eq!(hive.status().await.done, 3);
}

async fn an_error_keeps_headers_and_expiry_for_its_next_life<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", vec![item("one"), item("two").group("g")]).await;
    let packs = hive.take("b", 9).await;
    hive.exchange("b", packs.iter().map(|pack| whole(pack, &failure())).collect(), 0)
        .await;
    let failed = hive.failed().await;
    assert_eq!(failed.len(), 2);
    for failed in failed {
        assert_eq!((failed.expires_ms, failed.headers.len()), (Some(600_000), 1));
    }
    let requeued = hive.engine().requeue(&[0, 1]).await.expect("requeued");
    assert_eq!(requeued.numbers, [0, 1]);
    let packs = hive.take("b", 9).await;
    assert_eq!(packs.len(), 2);
    packs.iter().for_each(is_whole);
}

async fn messages_with_and_without_headers_keep_the_order_of_their_numbers<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let plain = || Item::new("plain");
    push(
        hive,
        "p",
        vec![plain(), item("x"), plain(), plain(), item("y"), item("z"), plain()],
    )
    .await;
    let mut all = Vec::new();
    loop {
        let packs = hive.take("b", 2).await;
        if packs.is_empty() {
            break;
        }
        all.extend(numbers(&packs));
        hive.exchange("b", packs.iter().map(|pack| whole(pack, &done())).collect(), 0)
            .await;
    }
    assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
}

async fn what_a_generator_gives_headers_comes_with_them<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut publish = hive.publish_call("a", &[2]).await;
    let envelope = Envelope {
        expires_ms: Some(600_000),
        headers: [("traceparent", "00-x-01")].into_iter().collect(),
        ..Envelope::default()
    };
    publish
        .packs
        .push(Pack::of_one(&envelope, b"x", 2, publish.epoch, hive.wall_ms()));
    hive.send(&publish).await;
    let packs = hive.take("b", 9).await;
    assert_eq!(numbers(&packs), [0, 1, 2]);
    is_whole(packs.last().expect("three"));
}

async fn what_an_effect_publishes_comes_with_its_headers<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    let next = |text: &str| Effect::publish(text.to_string()).with_header("traceparent", text);
    let later = Effect::publish_after("later", Duration::from_millis(100)).with_header("traceparent", "later");
    let effects = [next("plain"), next("grouped").in_group("g"), later];
    hive.exchange("b", vec![whole(&packs[0], &Outcome::Done(effects.to_vec()))], 0)
        .await;
    hive.pass(300, &["a", "b"]).await;
    let packs = hive.take("b", 9).await;
    assert_eq!(packs.len(), 3);
    for pack in &packs {
        let message = pack.message(0);
        assert_eq!(
            message.headers().get("traceparent").map(str::as_bytes),
            Some(&message.payload[..])
        );
        assert_eq!(message.group().is_some(), &message.payload[..] == b"grouped");
    }
}
