//! Effects that publish: the next message of a chain is numbered in the settle of the one before, once.

use std::time::Duration;

use queenright::engine::memory::State;
use queenright::engine::{
    Beat, CROWDED_MS, Chained, Engine, Exchange, Exchanged, Link, Published, Renewed, Seen, Wake,
};
use queenright::message::{Effect, Pack};

use super::hive::{done, numbers, part, run, whole, with};
use super::{Bench, Check, Hive, checks};

checks![
    a_message_that_is_done_publishes_the_next_once,
    a_chain_goes_on_by_itself,
    what_is_published_for_later_comes_later,
    several_publish_in_one_call_in_the_order_of_their_settles,
    a_late_settle_publishes_nothing,
    a_refused_effect_publishes_nothing,
    where_the_queue_is_full_a_message_is_tried_again_and_nothing_has_failed,
    whoever_finds_the_queue_full_makes_room_in_it,
    what_can_never_fit_is_an_error,
    what_is_published_for_later_fits_into_a_full_queue,
    a_settle_that_publishes_waits_until_all_members_have_spoken_to_another_server,
    a_repeat_that_wants_nothing_still_tells_what_was_published,
    a_settle_that_publishes_wakes_others_if_work_is_left,
    a_chain_goes_on_in_groups_and_in_order,
    where_lines_are_full_a_message_is_tried_again_unless_its_own_group_waits_for_it,
];

/// `a` generates single messages, `b` takes them.
async fn taken<B: Bench>(hive: &Hive<B>, count: usize) -> Vec<Pack> {
    hive.found("a", &["b"]).await;
    hive.publish("a", &vec![1; count]).await;
    hive.take("b", 1000).await
}

/// Makes a call that must be applied.
async fn chained<B: Bench>(hive: &Hive<B>, call: &Exchange) -> (Vec<Pack>, Vec<(u64, String)>, Chained) {
    match hive.call(call).await {
        Exchanged::Ok {
            packs,
            refused,
            chained,
            ..
        } => (packs, refused, chained),
        other => panic!("{call:?}: {other:?}"),
    }
}

fn link(cause: u64, first: u64, count: u64) -> Link {
    Link { cause, first, count }
}

fn payloads(packs: &[Pack]) -> Vec<String> {
    let each = packs
        .iter()
        .flat_map(|pack| (0..pack.count()).map(|index| pack.payload(index)));
    each.map(|payload| String::from_utf8_lossy(&payload).into_owned())
        .collect()
}

fn seq(state: &State) -> u64 {
    state.meta.as_ref().expect("a queue").seq
}

async fn a_message_that_is_done_publishes_the_next_once<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 2).await;
    let effects = [
        Effect::publish("next"),
        Effect::add("count", 1),
        Effect::publish("and next"),
    ];
    let call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&effects))], 0);
    let ahead = hive.publish_call("a", &[1]).await;
    let (_, refused, told) = chained(hive, &call).await;
    assert_eq!(refused, []);
    assert_eq!((told.epoch, &told.links[..]), (1, &[link(0, 2, 2)][..]));
    let before = hive.state().await;
    let again = chained(hive, &call).await;
    assert_eq!(again.2, told, "a repeat is answered with the same numbers");
    assert_eq!(hive.state().await, before, "and numbers nothing");
    let status = hive.status().await;
    assert_eq!((status.published, status.done, status.queued), (4, 1, 2));
    // The generator learns that others have taken its numbers.
    assert_eq!(hive.send(&ahead).await, Published::Moved { seq: 4 });
    let packs = hive.take("b", 9).await;
    assert_eq!(
        (numbers(&packs), payloads(&packs)),
        (vec![2, 3], vec!["next".into(), "and next".into()])
    );
    assert!(
        packs
            .iter()
            .all(|pack| (pack.deliveries(), pack.failures(), pack.epoch()) == (1, 0, 1))
    );
}

async fn a_chain_goes_on_by_itself<B: Bench>(hive: &Hive<B>) {
    let mut held = taken(hive, 1).await;
    // The call that settles one message brings the next.
    for number in 1..40 {
        let next = with(&[Effect::publish(format!("step {number}"))]);
        let call = hive.next_call("b", 0, vec![whole(&held[0], &next)], 1);
        let (packs, _, told) = chained(hive, &call).await;
        assert_eq!(
            (numbers(&packs), payloads(&packs)),
            (vec![number], vec![format!("step {number}")])
        );
        assert_eq!(told.links, [link(number - 1, number, 1)]);
        held = packs;
    }
    hive.exchange("b", vec![whole(&held[0], &done())], 0).await;
    assert_eq!(hive.status().await.done, 40);
}

async fn what_is_published_for_later_comes_later<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 1).await;
    let later = Effect::publish_after("later", Duration::from_millis(500));
    let effects = [Effect::publish("one"), later, Effect::publish("two")];
    let call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&effects))], 9);
    let (packs, _, told) = chained(hive, &call).await;
    assert_eq!(told.links, [link(0, 1, 3)]);
    assert_eq!(payloads(&packs), ["one", "two"]);
    assert_eq!(hive.status().await.later, 1);
    hive.pass(400, &["a", "b"]).await;
    assert!(hive.take("b", 9).await.is_empty(), "not yet");
    hive.pass(200, &["a", "b"]).await;
    let packs = hive.take("b", 9).await;
    assert_eq!((numbers(&packs), payloads(&packs)), (vec![2], vec!["later".into()]));
}

async fn several_publish_in_one_call_in_the_order_of_their_settles<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4, 1]).await;
    let packs = hive.take("b", 9).await;
    let next = |text: &str| with(&[Effect::publish(text.to_string())]);
    let settles = vec![
        whole(&packs[1], &next("of 4")),
        part(
            &packs[0],
            &[run(0, 1, &next("of 0")), run(1, 1, &done()), run(3, 1, &next("of 3"))],
        ),
    ];
    let (_, _, told) = chained(hive, &hive.next_call("b", 0, settles, 0)).await;
    assert_eq!(told.links, [link(4, 5, 1), link(0, 6, 1), link(3, 7, 1)]);
    let packs = hive.take("b", 9).await;
    assert_eq!(payloads(&packs), ["of 4", "of 0", "of 3"]);
    assert_eq!(packs.len(), 1, "as many in one pack as the grain says");
}

async fn a_late_settle_publishes_nothing<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 1).await;
    hive.bury("b", &["a"]).await;
    let before = hive.state().await;
    let late = hive.next_call("b", 0, vec![whole(&packs[0], &with(&[Effect::publish("next")]))], 0);
    assert_eq!(hive.call(&late).await, Exchanged::Deposed);
    assert_eq!(hive.state().await, before);
}

async fn a_refused_effect_publishes_nothing<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 2).await;
    hive.bench.put("text", b"x").await;
    let settles = vec![
        whole(&packs[0], &with(&[Effect::publish("never"), Effect::add("text", 1)])),
        whole(&packs[1], &with(&[Effect::publish("next"), Effect::add("count", 1)])),
    ];
    let (_, refused, told) = chained(hive, &hive.next_call("b", 0, settles, 0)).await;
    assert_eq!(refused.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
    assert_eq!(told.links, [link(1, 2, 1)]);
    assert_eq!(payloads(&hive.take("b", 9).await), ["next"]);
    let status = hive.status().await;
    assert_eq!((status.done, status.failed, status.published), (1, 1, 3));
}

async fn where_the_queue_is_full_a_message_is_tried_again_and_nothing_has_failed<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1, 1, 1]).await;
    let packs = hive.take("b", 2).await;
    // Three wait, and so many may.
    let effects = with(&[Effect::add("count", 1), Effect::publish("next")]);
    let settles = packs.iter().map(|pack| whole(pack, &effects)).collect();
    let mut call = hive.next_call("b", 0, settles, 0);
    call.backlog_max = 3;
    let (_, refused, told) = chained(hive, &call).await;
    assert_eq!(
        (refused.len(), &told.links[..], &told.crowded[..]),
        (0, &[][..], &[0, 1][..])
    );
    assert_eq!(chained(hive, &call).await.2, told, "and a repeat says the same");
    let status = hive.status().await;
    assert_eq!((status.published, status.done, status.failed), (5, 0, 0));
    assert_eq!((status.later, status.in_hand), (2, 0));
    assert!(hive.state().await.stored.is_empty(), "all of its effects or none");
    hive.pass(CROWDED_MS - 100, &["a", "b"]).await;
    let packs = hive.take("b", 2).await;
    assert_eq!(numbers(&packs), [2, 3], "they are not due yet");
    hive.pass(200, &["a", "b"]).await;
    let packs = hive.take("b", 2).await;
    assert_eq!(numbers(&packs), [0, 1]);
    assert!(packs.iter().all(|pack| (pack.deliveries(), pack.failures()) == (1, 0)));
    // There is room for two now, and one of them publishes two.
    let settles = vec![
        whole(&packs[0], &with(&[Effect::publish("x"), Effect::publish("y")])),
        whole(&packs[1], &effects),
    ];
    let mut call = hive.next_call("b", 0, settles, 0);
    call.backlog_max = 3;
    let (_, _, told) = chained(hive, &call).await;
    assert_eq!((&told.links[..], &told.crowded[..]), (&[link(0, 5, 2)][..], &[1][..]));
}

/// What was put off comes before the queue, and each time in vain: messages that take long would take turns with each other for ever.
async fn whoever_finds_the_queue_full_makes_room_in_it<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; 5]).await;
    let mut held = hive.take("b", 2).await;
    let next = with(&[Effect::publish("next")]);
    let mut taken = Vec::new();
    for _ in 0..12 {
        let settles = held.iter().map(|pack| match pack.first() {
            0 | 1 => whole(pack, &next),
            _ => whole(pack, &done()),
        });
        let mut call = hive.next_call("b", 0, settles.collect(), 1);
        call.backlog_max = 1;
        held = chained(hive, &call).await.0;
        taken.extend(numbers(&held));
        hive.pass(CROWDED_MS + 100, &["a", "b"]).await;
    }
    assert_eq!(hive.status().await.done, 7, "{taken:?}");
}

async fn what_can_never_fit_is_an_error<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 1).await;
    let effects = vec![Effect::publish("x"); 4];
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&effects))], 0);
    call.backlog_max = 3;
    let (_, refused, told) = chained(hive, &call).await;
    let why = "effect refused: it publishes 4 messages, and 3 may wait";
    assert_eq!(refused, [(0, why.to_string())]);
    assert_eq!(told, Chained::default());
    assert_eq!(hive.failed().await[0].error, why.as_bytes());
}

async fn what_is_published_for_later_fits_into_a_full_queue<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1, 1]).await;
    let packs = hive.take("b", 1).await;
    let effects = vec![Effect::publish_after("x", Duration::from_secs(1)); 4];
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&effects))], 0);
    call.backlog_max = 3;
    let (_, _, told) = chained(hive, &call).await;
    assert_eq!(told.links, [link(0, 4, 4)]);
    assert_eq!(hive.status().await.later, 4);
}

async fn beat_at<B: Bench>(hive: &Hive<B>, server: &str, node: &str, seen_seq: u64) {
    let beat = Beat {
        server: server.into(),
        seen: Seen {
            seq: seen_seq,
            ..Seen::default()
        },
        ..Hive::<B>::beat_call(node)
    };
    let renewed = hive.engine().beat(&beat).await.expect("beat");
    assert!(matches!(renewed, Renewed::Alive(_)), "{renewed:?}");
}

async fn a_settle_that_publishes_waits_until_all_members_have_spoken_to_another_server<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 2).await;
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&[Effect::publish("next")]))], 0);
    call.server = "s2".into();
    for _ in 0..3 {
        let before = hive.state().await;
        assert_eq!(hive.call(&call).await, Exchanged::Unheard);
        let after = hive.state().await;
        assert_eq!(
            (seq(&after), &after.taken, &after.queue),
            (seq(&before), &before.taken, &before.queue)
        );
        // No clock that jumps ends it, nor does one who has spoken.
        hive.jump(3_600_000).await;
        beat_at(hive, "s2", "b", 0).await;
    }
    // What publishes nothing need not wait.
    let other = hive.next_call("b", 1, vec![whole(&packs[1], &done())], 0);
    assert!(matches!(hive.call(&other).await, Exchanged::Ok { .. }));
    beat_at(hive, "s2", "a", 40).await;
    let (_, _, told) = chained(hive, &call).await;
    assert_eq!(told.links, [link(0, 40, 1)], "behind all that anyone has seen");
    // A repeat is answered, whoever is silent.
    call.server = "s3".into();
    assert_eq!(chained(hive, &call).await.2, told);
}

async fn a_repeat_that_wants_nothing_still_tells_what_was_published<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 1).await;
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&[Effect::publish("next")]))], 1);
    let (packs, _, told) = chained(hive, &call).await;
    assert_eq!(numbers(&packs), [1]);
    call.want = 0;
    for _ in 0..2 {
        let (packs, _, again) = chained(hive, &call).await;
        assert_eq!((packs.len(), &again), (0, &told));
    }
    let status = hive.status().await;
    assert_eq!((status.published, status.queued, status.in_hand), (2, 1, 0));
    assert_eq!(payloads(&hive.take("b", 1).await), ["next"]);
}

async fn a_settle_that_publishes_wakes_others_if_work_is_left<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 3).await;
    hive.rung(Wake::Bell).await;
    let next = with(&[Effect::publish("next")]);
    hive.call(&hive.next_call("b", 0, vec![whole(&packs[0], &next)], 1))
        .await;
    assert!(!hive.rung(Wake::Bell).await, "whoever publishes it takes it");
    hive.call(&hive.next_call("b", 0, vec![whole(&packs[1], &next)], 0))
        .await;
    assert!(hive.rung(Wake::Bell).await);
    let later = with(&[Effect::publish_after("later", Duration::from_secs(1))]);
    hive.take("b", 9).await;
    hive.call(&hive.next_call("b", 0, vec![whole(&packs[2], &later)], 0))
        .await;
    assert!(!hive.rung(Wake::Bell).await, "nobody can take it yet");
}

async fn a_chain_goes_on_in_groups_and_in_order<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 1).await;
    let later = Effect::publish_after("later", Duration::from_millis(500)).in_group("g");
    let effects = [
        later,
        Effect::publish("one").in_group("g"),
        Effect::publish("plain"),
        Effect::publish("two").in_group("g"),
        Effect::publish("other").in_group("h"),
    ];
    let call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&effects))], 9);
    let (packs, _, told) = chained(hive, &call).await;
    assert_eq!(told.links, [link(0, 1, 5)]);
    let mut first = payloads(&packs);
    first.sort_unstable();
    assert_eq!(first, ["one", "other", "plain"], "one of each group");
    let status = hive.status().await;
    assert_eq!((status.later, status.groups.groups), (1, 1));
    // The next of the same group, published by the one before it, comes behind what waits there.
    let one = packs.iter().find(|pack| pack.payload(0) == "one").expect("taken");
    assert_eq!(one.group(), Some("g"));
    let next = with(&[Effect::publish("three").in_group("g")]);
    let mut call = hive.next_call("b", 0, vec![whole(one, &next)], 9);
    for wanted in ["two", "three"] {
        let (packs, ..) = chained(hive, &call).await;
        assert_eq!(
            (payloads(&packs), packs[0].group()),
            (vec![wanted.to_string()], Some("g"))
        );
        call = hive.next_call("b", 0, vec![whole(&packs[0], &done())], 9);
    }
    let (packs, ..) = chained(hive, &call).await;
    assert_eq!(payloads(&packs), [""; 0]);
    hive.pass(600, &["a", "b"]).await;
    assert_eq!(payloads(&hive.take("b", 9).await), ["later"]);
}

async fn where_lines_are_full_a_message_is_tried_again_unless_its_own_group_waits_for_it<B: Bench>(hive: &Hive<B>) {
    let packs = taken(hive, 2).await;
    let grouped = |texts: &[&str]| {
        let each = texts.iter().map(|text| Effect::publish(text.to_string()).in_group("g"));
        with(&each.collect::<Vec<_>>())
    };
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &grouped(&["one", "two", "three"]))], 1);
    call.backlog_max = 3;
    let (one, _, told) = chained(hive, &call).await;
    assert_eq!((told.links.len(), payloads(&one)), (1, vec!["one".to_string()]));
    // Two wait: there is room for one.
    let mut call = hive.next_call("b", 0, vec![whole(&packs[1], &grouped(&["x", "y"]))], 0);
    call.backlog_max = 3;
    let (_, _, told) = chained(hive, &call).await;
    assert_eq!((&told.links[..], &told.crowded[..]), (&[][..], &[1][..]));
    let mut call = hive.next_call("b", 0, vec![whole(&one[0], &grouped(&["four", "five"]))], 1);
    call.backlog_max = 3;
    let (packs, _, told) = chained(hive, &call).await;
    assert_eq!((told.links.len(), told.crowded.len()), (1, 0));
    assert_eq!(payloads(&packs), ["two"]);
}
