//! Groups: one message at a time and in order within each, and groups take turns.

use std::time::Duration;

use queenright::engine::{Engine, Item, Join, PausedGroup, Published, Pushed, Wake};
use queenright::message::{Envelope, Pack};

use super::hive::{done, failure, numbers, whole};
use super::push::push_call;
use super::retries::retry;
use super::{Bench, Check, Hive, checks};

checks![
    a_group_is_handled_one_message_at_a_time_and_in_order,
    what_a_generator_publishes_for_groups_stands_in_line_with_what_is_pushed,
    a_group_with_many_messages_does_not_delay_one_with_few,
    a_failed_message_lets_its_group_go_on,
    a_retry_holds_its_group_up,
    where_retries_are_skipped_the_group_goes_on_and_is_counted_right,
    a_message_that_is_given_back_is_the_next_of_its_group,
    a_group_stays_in_order_when_its_node_dies,
    a_message_delivered_too_often_lets_its_group_go_on,
    a_delayed_message_gets_into_line_when_it_is_due,
    a_requeued_error_is_the_first_of_its_line,
    a_paused_group_waits_until_it_is_resumed,
    more_of_a_group_are_handled_at_once_where_that_is_allowed,
    a_change_of_the_concurrency_loses_no_turn,
    neither_groups_nor_the_queue_starve,
    what_waits_in_lines_counts_as_backlog,
    status_tells_how_many_groups_wait_and_which_are_the_longest,
    a_group_that_may_go_on_wakes_another_node,
    a_take_from_groups_brings_no_more_bytes_than_are_wanted,
    a_repeated_push_into_a_group_is_applied_once,
    a_group_has_any_name_that_fits,
];

/// Pushes one message into each of these groups.
async fn push<B: Bench>(hive: &Hive<B>, call: &str, groups: &[&str]) -> Vec<u64> {
    let items = groups
        .iter()
        .map(|group| Item::new(group.to_string()).group(*group))
        .collect();
    match hive.engine().push(&push_call(call, items)).await.expect("push") {
        Pushed::Ok(receipts) => receipts.iter().map(|receipt| receipt.number).collect(),
        other => panic!("{other:?}"),
    }
}

async fn join_with<B: Bench>(hive: &Hive<B>, node: &str, group_concurrency: u32, group_skip_retries: bool) {
    let join = Join {
        group_concurrency,
        group_skip_retries,
        ..Hive::<B>::join_call(node)
    };
    hive.engine().join(&join).await.expect("join");
    hive.beat(node).await;
}

/// Settles these as done and takes more.
async fn finish<B: Bench>(hive: &Hive<B>, node: &str, packs: &[Pack], want: u32) -> Vec<Pack> {
    let settles = packs.iter().map(|pack| whole(pack, &done())).collect();
    hive.exchange(node, settles, want).await
}

async fn a_group_is_handled_one_message_at_a_time_and_in_order<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    push(hive, "p", &["g", "g", "g"]).await;
    let mut held = hive.take("b", 9).await;
    assert_eq!(held[0].message(0).group(), Some("g"));
    for number in 0..3 {
        assert_eq!(numbers(&held), [number]);
        assert_eq!(held[0].payload(0), "g");
        assert_eq!(hive.take("c", 9).await, [], "one is in hand");
        hive.adds_up().await;
        held = finish(hive, "b", &held, 9).await;
    }
    assert_eq!(held, []);
    let status = hive.status().await;
    assert_eq!((status.done, status.queued), (3, 0));
    assert!(hive.state().await.turns.is_empty(), "nothing is left of it");
}

async fn what_a_generator_publishes_for_groups_stands_in_line_with_what_is_pushed<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g"]).await;
    let mut publish = hive.publish_call("a", &[2]).await;
    for (number, group) in [(3, "g"), (4, "h"), (5, "g")] {
        let envelope = Envelope::of_group(Some(group));
        let pack = Pack::of_one(&envelope, group.as_bytes(), number, publish.epoch, hive.wall_ms());
        publish.packs.push(pack);
    }
    let answer = hive.send(&publish).await;
    assert!(matches!(answer, Published::Ok { seq: 6, .. }), "{answer:?}");
    // A copy that comes late changes nothing.
    assert_eq!(hive.send(&publish).await, answer);
    let (mut held, mut order) = (hive.take("b", 9).await, Vec::new());
    while !held.is_empty() {
        hive.adds_up().await;
        order.extend(
            held.iter()
                .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index))),
        );
        held = finish(hive, "b", &held, 9).await;
    }
    let of = |group: Option<&str>| -> Vec<u64> {
        let messages = order.iter().filter(|message| message.group() == group);
        messages.map(|message| message.number).collect()
    };
    assert_eq!(
        (of(Some("g")), of(Some("h")), of(None)),
        (vec![0, 3, 5], vec![4], vec![1, 2])
    );
}

async fn a_group_with_many_messages_does_not_delay_one_with_few<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "many", &["many"; 500]).await;
    push(hive, "few", &["few"; 10]).await;
    let (mut held, mut left, mut handled) = (hive.take("b", 1).await, 10, 0);
    while left > 0 {
        handled += 1;
        left -= u64::from(held[0].group() == Some("few"));
        // One more comes in now and then: it does not get its group a second turn.
        if handled % 3 == 0 {
            push(hive, &format!("more {handled}"), &["many"]).await;
            hive.adds_up().await;
        }
        held = finish(hive, "b", &held, 1).await;
    }
    assert!(handled <= 21, "ten are done after {handled}");
}

async fn a_failed_message_lets_its_group_go_on<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g", "g"]).await;
    let first = hive.take("b", 9).await;
    let next = hive.exchange("b", vec![whole(&first[0], &failure())], 9).await;
    assert_eq!(numbers(&next), [1]);
    let failed = hive.failed().await;
    assert_eq!(
        (failed[0].group.as_deref(), &failed[0].payload[..]),
        (Some("g"), &b"g"[..])
    );
    // A reader gets it, and puts it back.
    assert_eq!(hive.batch("r", 1, 9).await, [0]);
    hive.engine().release("r", false).await.expect("release");
    assert_eq!(hive.failed().await, failed);
}

async fn a_retry_holds_its_group_up<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g", "g"]).await;
    let first = hive.take("b", 9).await;
    assert_eq!(hive.exchange("b", vec![whole(&first[0], &retry(300))], 9).await, []);
    hive.pass(299, &["a", "b"]).await;
    assert_eq!(hive.take("b", 9).await, [], "its group waits for it");
    hive.pass(1, &["a", "b"]).await;
    let again = hive.take("b", 9).await;
    assert_eq!((numbers(&again), again[0].failures()), (vec![0], 1));
    assert_eq!(numbers(&finish(hive, "b", &again, 9).await), [1]);
}

async fn where_retries_are_skipped_the_group_goes_on_and_is_counted_right<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    join_with(hive, "b", 1, true).await;
    push(hive, "p", &["g", "g", "g"]).await;
    let first = hive.take("b", 9).await;
    let second = hive.exchange("b", vec![whole(&first[0], &retry(0))], 9).await;
    assert_eq!(numbers(&second), [1], "it went on");
    hive.beat("a").await;
    let again = hive.take("b", 9).await;
    assert_eq!(numbers(&again), [0]);
    // Put off once more, and then done: neither lets a third one in beside the second.
    assert_eq!(hive.exchange("b", vec![whole(&again[0], &retry(0))], 9).await, []);
    hive.beat("a").await;
    let again = hive.take("b", 9).await;
    hive.adds_up().await;
    assert_eq!(finish(hive, "b", &again, 9).await, []);
    assert_eq!(numbers(&finish(hive, "b", &second, 9).await), [2]);
}

async fn a_message_that_is_given_back_is_the_next_of_its_group<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    push(hive, "p", &["g", "g"]).await;
    let first = hive.take("b", 9).await;
    hive.exchange("b", vec![whole(&first[0], &queenright::message::Outcome::Return)], 0)
        .await;
    hive.adds_up().await;
    let next = hive.take("c", 9).await;
    assert_eq!((numbers(&next), next[0].deliveries()), (vec![0], 1));
    // What a call took and its node never got goes back the same way.
    let call = hive.next_call("c", 0, vec![whole(&next[0], &done())], 9);
    hive.call(&call).await;
    let unarrived = queenright::engine::Exchange { want: 0, ..call };
    hive.call(&unarrived).await;
    hive.adds_up().await;
    assert_eq!(numbers(&hive.take("b", 9).await), [1]);
}

async fn a_group_stays_in_order_when_its_node_dies<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    push(hive, "p", &["g", "g"]).await;
    hive.take("b", 9).await;
    assert_eq!(hive.bury("b", &["a", "c"]).await.redelivered, 1);
    hive.adds_up().await;
    let again = hive.take("c", 9).await;
    assert_eq!((numbers(&again), again[0].deliveries()), (vec![0], 2));
    assert_eq!(numbers(&finish(hive, "c", &again, 9).await), [1]);
}

async fn a_message_delivered_too_often_lets_its_group_go_on<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["c"]).await;
    hive.join_for("b", 1).await;
    hive.beat("b").await;
    push(hive, "p", &["g", "g"]).await;
    hive.take("b", 9).await;
    hive.rung(Wake::Bell).await;
    assert_eq!(hive.bury("b", &["c"]).await.failed, 1);
    assert!(hive.rung(Wake::Bell).await, "others hear of it");
    hive.adds_up().await;
    assert_eq!(numbers(&hive.take("c", 9).await), [1]);
}

async fn a_delayed_message_gets_into_line_when_it_is_due<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let item = || Item::new("x").group("g");
    let items = vec![item().delay(Duration::from_millis(200)), item(), item()];
    hive.engine().push(&push_call("p", items)).await.expect("push");
    let second = hive.take("b", 9).await;
    assert_eq!(numbers(&second), [1], "the first is put off");
    hive.pass(200, &["a", "b"]).await;
    hive.adds_up().await;
    assert_eq!(hive.take("b", 9).await, [], "one is in hand");
    let first = finish(hive, "b", &second, 9).await;
    assert_eq!(
        (numbers(&first), first[0].failures()),
        (vec![0], 0),
        "its number comes before"
    );
    assert_eq!(numbers(&finish(hive, "b", &first, 9).await), [2]);
}

async fn a_requeued_error_is_the_first_of_its_line<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g", "g", "g"]).await;
    let first = hive.take("b", 9).await;
    let second = hive.exchange("b", vec![whole(&first[0], &failure())], 9).await;
    let requeued = hive.engine().requeue(&[0]).await.expect("requeue");
    assert_eq!(requeued.numbers, [0]);
    hive.adds_up().await;
    assert_eq!(hive.take("b", 9).await, [], "one is in hand");
    let again = finish(hive, "b", &second, 9).await;
    assert_eq!((numbers(&again), again[0].payload(0)), (vec![0], "g".into()));
    assert_eq!(numbers(&finish(hive, "b", &again, 9).await), [2]);
}

async fn a_paused_group_waits_until_it_is_resumed<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g", "h", "g", "h"]).await;
    let pause = async |group: &str, paused| hive.engine().pause_group(group, paused).await.expect("it is paused");
    assert_eq!(pause("g", true).await, PausedGroup::Ok { waiting: 2 });
    push(hive, "q", &["g"]).await;
    let held = hive.take("b", 9).await;
    assert_eq!(numbers(&held), [1]);
    assert_eq!(numbers(&finish(hive, "b", &held, 9).await), [3]);
    assert_eq!(hive.status().await.groups.paused, ["g"]);
    hive.rung(Wake::Bell).await;
    assert_eq!(pause("g", false).await, PausedGroup::Ok { waiting: 3 });
    assert!(hive.rung(Wake::Bell).await);
    assert!(hive.status().await.groups.paused.is_empty());
    assert_eq!(numbers(&hive.take("b", 9).await), [0]);
    // What is in hand ends as ever, and nothing follows it.
    pause("g", true).await;
    let packs = hive.state().await.taken["b"]
        .pieces
        .values()
        .cloned()
        .collect::<Vec<_>>();
    assert_eq!(finish(hive, "b", &packs, 9).await, []);
    assert_eq!(pause("nobody", false).await, PausedGroup::Ok { waiting: 0 });
}

async fn more_of_a_group_are_handled_at_once_where_that_is_allowed<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    join_with(hive, "b", 2, false).await;
    push(hive, "p", &["g", "g", "g", "g"]).await;
    let mut held = hive.take("b", 9).await;
    held.extend(hive.take("b", 9).await);
    assert_eq!(numbers(&held), [0, 1]);
    assert_eq!(hive.take("b", 9).await, []);
    hive.adds_up().await;
    assert_eq!(numbers(&finish(hive, "b", &held[1..], 9).await), [2]);
}

async fn a_change_of_the_concurrency_loses_no_turn<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    join_with(hive, "b", 3, false).await;
    push(hive, "p", &["g"; 9]).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.extend(hive.take("b", 1).await);
    }
    // It is ready for a third one, and may not have it any more.
    join_with(hive, "c", 1, false).await;
    assert_eq!(hive.take("b", 9).await, []);
    assert_eq!(finish(hive, "b", &held[..1], 9).await, [], "one is left");
    let third = finish(hive, "b", &held[1..], 9).await;
    assert_eq!(numbers(&third), [2]);
    // And the other way round.
    join_with(hive, "d", 2, false).await;
    let mut held = finish(hive, "b", &third, 9).await;
    held.extend(hive.take("b", 9).await);
    assert_eq!(numbers(&held), [3, 4]);
    for _ in 0..4 {
        hive.adds_up().await;
        held = finish(hive, "b", &held, 9).await;
        held.extend(hive.take("b", 9).await);
    }
    assert_eq!(hive.status().await.done, 9);
}

async fn neither_groups_nor_the_queue_starve<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    for want in [1, 2, 3, 100, 700] {
        hive.publish("a", &[1000; 3]).await;
        let groups: Vec<String> = (0..900).map(|group| format!("g{group}")).collect();
        push(
            hive,
            &format!("p{want}"),
            &groups.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await;
        let (mut grouped, mut plain) = (0, 0);
        for _ in 0..8 {
            let held = hive.take("b", want).await;
            for pack in &held {
                let of = if pack.group().is_some() {
                    &mut grouped
                } else {
                    &mut plain
                };
                *of += pack.count();
            }
            finish(hive, "b", &held, 0).await;
        }
        assert!(
            grouped >= 4.min(want as usize) && plain >= 4.min(want as usize),
            "{want}: {grouped} {plain}"
        );
        loop {
            let held = hive.take("b", 1000).await;
            if held.is_empty() {
                break;
            }
            finish(hive, "b", &held, 0).await;
        }
        hive.adds_up().await;
    }
}

async fn what_waits_in_lines_counts_as_backlog<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g", "h", "g"]).await;
    let mut call = push_call("q", vec![Item::new("x").group("g")]);
    call.backlog_max = 3;
    assert_eq!(hive.engine().push(&call).await.expect("push"), Pushed::Full);
    let mut publish = hive.publish_call("a", &[]).await;
    publish.backlog_max = 3;
    let envelope = Envelope::of_group(Some("g"));
    publish.packs = vec![Pack::of_one(
        &envelope,
        b"x",
        publish.first,
        publish.epoch,
        hive.wall_ms(),
    )];
    assert_eq!(hive.send(&publish).await, Published::Full);
    assert_eq!(hive.status().await.published, 3);
    hive.take("b", 1).await;
    assert!(matches!(hive.send(&publish).await, Published::Ok { .. }));
    assert_eq!(hive.engine().push(&call).await.expect("push"), Pushed::Full);
}

async fn status_tells_how_many_groups_wait_and_which_are_the_longest<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["x", "y", "z", "y", "x", "y"]).await;
    let figures = hive.status().await.groups;
    assert_eq!((figures.groups, figures.messages), (3, 6));
    let longest: Vec<(&str, u64)> = figures.longest.iter().map(|(group, n)| (group.as_str(), *n)).collect();
    assert_eq!(longest, [("y", 3), ("x", 2), ("z", 1)]);
    hive.take("b", 9).await;
    let figures = hive.status().await.groups;
    assert_eq!((figures.groups, figures.messages), (2, 3));
    hive.engine().purge(true).await.expect("purge");
    let state = hive.state().await;
    assert!(state.lines.is_empty() && state.turns.is_empty() && state.ready.is_empty());
}

async fn a_group_that_may_go_on_wakes_another_node<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    push(hive, "p", &["g", "g"]).await;
    assert!(hive.rung(Wake::Bell).await);
    let held = hive.take("b", 9).await;
    assert!(!hive.rung(Wake::Bell).await);
    finish(hive, "b", &held, 0).await;
    assert!(hive.rung(Wake::Bell).await, "there is work, and this node wants none");
    hive.beat("a").await;
    assert!(hive.rung(Wake::Bell).await, "a bell that is lost is rung again");
}

async fn a_take_from_groups_brings_no_more_bytes_than_are_wanted<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let items = (0..4).map(|group| Item::new(vec![b'x'; 1000]).group(group.to_string()));
    hive.engine()
        .push(&push_call("p", items.collect()))
        .await
        .expect("push");
    for left in [2, 1, 1] {
        let call = queenright::engine::Exchange {
            want_bytes: if left == 2 { 2500 } else { 1 },
            ..hive.next_call("b", 0, Vec::new(), 9)
        };
        let queenright::engine::Exchanged::Ok { packs, .. } = hive.call(&call).await else {
            panic!("it is a member");
        };
        assert_eq!(packs.len(), left);
        hive.adds_up().await;
    }
}

async fn a_repeated_push_into_a_group_is_applied_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert_eq!(push(hive, "p", &["g", "g"]).await, push(hive, "p", &["g", "g"]).await);
    let item = || Item::new("x").group("g").key("k");
    let mut calls = Vec::new();
    for call in ["q", "r"] {
        calls.push(
            hive.engine()
                .push(&push_call(call, vec![item(), Item::new("plain")]))
                .await
                .expect("push"),
        );
    }
    let status = hive.status().await;
    assert_eq!((status.published, status.groups.messages), (5, 3), "{calls:?}");
}

async fn a_group_has_any_name_that_fits<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let long = "ü".repeat(100);
    let names = ["g", "g\u{1}", "g g", "\u{7f}", "0", "", &long];
    let names: Vec<&str> = names.iter().filter(|name| !name.is_empty()).copied().collect();
    push(hive, "p", &[&names[..], &names[..]].concat()).await;
    let first = hive.take("b", 99).await;
    assert_eq!(numbers(&first), (0..names.len() as u64).collect::<Vec<_>>());
    let second = finish(hive, "b", &first, 99).await;
    let of = |packs: &[Pack]| -> Vec<String> {
        packs
            .iter()
            .filter_map(|pack| pack.group().map(str::to_string))
            .collect()
    };
    assert_eq!(
        (of(&first), of(&second)),
        (names.iter().map(ToString::to_string).collect(), of(&first))
    );
}
