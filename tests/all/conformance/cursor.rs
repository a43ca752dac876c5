//! What a generator leaves for the next one.

use queenright::engine::{Beat, Engine, Published, Renewed, Seen};

use super::hive::CROWN_MS;
use super::{Bench, Check, Hive, checks};

checks![
    a_cursor_is_stored_with_its_message_and_told_to_the_next_generator,
    a_publish_that_is_refused_leaves_the_cursor_alone,
    a_cursor_is_told_until_the_generator_knows_of_its_reign,
    a_generator_learns_how_far_its_last_reign_came,
];

async fn a_cursor_is_stored_with_its_message_and_told_to_the_next_generator<B: Bench>(hive: &Hive<B>) {
    let first = hive.found("a", &["b"]).await;
    assert_eq!(first.cursor.as_deref(), Some(&b""[..]), "there is none yet");
    let mut call = hive.publish_call("a", &[1]).await;
    call.cursor = Some("line 1".into());
    hive.send(&call).await;
    // One without leaves it.
    hive.publish("a", &[1]).await;
    let handler = hive.beat("b").await;
    assert_eq!(
        (handler.generator, handler.cursor),
        (false, None),
        "no business of a handler"
    );
    hive.engine().leave(&"a".into()).await.expect("leave");
    let next = hive.beat("b").await;
    assert_eq!((next.generator, next.cursor.as_deref()), (true, Some(&b"line 1"[..])));
}

async fn a_publish_that_is_refused_leaves_the_cursor_alone<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let mut call = hive.publish_call("a", &[1]).await;
    call.cursor = Some("one".into());
    let once = call.clone();
    hive.send(&call).await;
    let mut next = hive.publish_call("a", &[1]).await;
    next.cursor = Some("two".into());
    hive.send(&next).await;
    let before = hive.state().await;
    assert!(matches!(hive.send(&once).await, Published::Ok { .. }), "an old copy");
    next.made += 7;
    assert_eq!(hive.send(&next).await, Published::Gap);
    call.epoch += 1;
    assert_eq!(hive.send(&call).await, Published::Fenced);
    assert_eq!(hive.state().await, before);
    assert_eq!(before.cursor, b"two");
}

async fn a_cursor_is_told_until_the_generator_knows_of_its_reign<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let beat = |reigned, epoch| Beat {
        seen: Seen {
            epoch,
            ..Seen::default()
        },
        reigned,
        ..Hive::<B>::beat_call("a")
    };
    // The reply to the beat that elected it may be lost; and what was pushed in its reign may have told it of the epoch.
    for (reigned, seen, told) in [(0, 0, true), (0, 0, true), (0, 1, true), (1, 1, false)] {
        match hive.engine().beat(&beat(reigned, seen)).await.expect("beat") {
            Renewed::Alive(member) => assert_eq!(member.cursor.is_some(), told, "{reigned} {seen}"),
            Renewed::Deposed => panic!("deposed"),
        }
    }
}

async fn a_generator_learns_how_far_its_last_reign_came<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    // The last reply is lost, and two reigns of another follow.
    hive.publish("a", &[1]).await;
    for _ in 0..2 {
        hive.pass(CROWN_MS, &["b"]).await;
        assert!(hive.beat("b").await.generator);
        hive.publish("b", &[5]).await;
        hive.beat_humbly("b").await;
    }
    let call = |reigned| Beat {
        reigned,
        ..Hive::<B>::beat_call("a")
    };
    let told = |reigned| async move {
        match hive.engine().beat(&call(reigned)).await {
            Ok(Renewed::Alive(a)) => (a.generator, a.made, a.made_before),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(1).await, (true, 13, Some(3)));
    // Until its beats show that it has heard it; and only of a reign that is still known.
    assert_eq!(told(0).await, (true, 13, None));
    assert_eq!(told(2).await, (true, 13, Some(8)));
}
