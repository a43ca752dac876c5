//! Settling and taking, and the numbers of calls.

use std::time::Duration;

use queenright::engine::{Engine, Exchanged, Settle, Wake};
use queenright::message::{Outcome, Pack};

use super::hive::{done, failure, numbers, part, run, whole};
use super::{Bench, Check, Hive, checks};
use crate::fleet::PATIENCE;

checks![
    messages_are_taken_oldest_first_and_once,
    a_large_pack_is_cut_to_what_is_wanted,
    a_take_stops_at_a_megabyte,
    a_take_that_is_out_of_step_with_the_packs_does_not_cut_them_for_ever,
    a_take_that_has_much_leaves_a_pack_that_does_not_fit,
    a_take_brings_no_more_bytes_than_are_wanted_but_one_message,
    one_by_one_a_take_brings_no_more_bytes_than_are_wanted,
    a_repeated_exchange_is_applied_once,
    a_repeat_that_wants_nothing_gives_back_what_did_not_arrive,
    an_old_copy_of_an_exchange_writes_nothing,
    a_call_ahead_of_its_lane_is_refused,
    lanes_count_their_calls_apart,
    one_lane_may_settle_what_another_took,
    pieces_are_settled_in_part_and_in_any_order,
    a_settle_of_what_is_not_held_writes_nothing,
    a_piece_that_is_named_twice_writes_nothing,
    runs_that_overlap_or_overreach_write_nothing,
    returned_messages_come_back_first_with_their_attempt_unchanged,
    a_thousand_single_pieces_are_settled_in_one_call,
    one_by_one_every_call_is_counted_as_ever,
    what_one_lane_took_another_settles,
    work_that_is_awaited_comes_with_the_bell,
];

async fn one_by_one_every_call_is_counted_as_ever<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; 90]).await;
    hive.publish("a", &[2, 1]).await;
    let mut held = hive.take("b", 1).await;
    for number in 1..90 {
        let settles = vec![whole(&held[0], &done())];
        let call = hive.next_call("b", 0, settles, 1);
        let mut ahead = call.clone();
        ahead.call += 1;
        let before = hive.state().await;
        assert_eq!(hive.call(&ahead).await, Exchanged::Deposed, "a call was forgotten");
        assert_eq!(hive.state().await, before);
        let Exchanged::Ok { packs, refused, .. } = hive.call(&call).await else {
            panic!("not refused");
        };
        assert_eq!((numbers(&packs), refused.len()), (vec![number], 0));
        // A copy of the same call changes nothing; the one before it is old.
        let copy = hive.call(&call).await;
        assert!(matches!(copy, Exchanged::Ok { packs: again, .. } if again == packs));
        held = packs;
    }
    assert_eq!(hive.beat("a").await.grain, 1, "so the shortest way was taken");
    // A pack of two must be cut, and what is not held cannot be settled.
    let cut = hive.exchange("b", vec![whole(&held[0], &done())], 1).await;
    assert_eq!(numbers(&cut), [90]);
    let call = hive.next_call("b", 0, vec![whole(&held[0], &done())], 1);
    assert_eq!(hive.call(&call).await, Exchanged::Unheld);
    let status = hive.status().await;
    assert_eq!((status.done, status.in_hand, status.queued), (90, 1, 2));
}

/// A take of so many messages and bytes that settles these pieces.
async fn take_bytes<B: Bench>(hive: &Hive<B>, settles: Vec<Settle>, want: u32, want_bytes: u32) -> Vec<Pack> {
    let mut call = hive.next_call("b", 0, settles, want);
    call.want_bytes = want_bytes;
    match hive.call(&call).await {
        Exchanged::Ok { packs, .. } => packs,
        other => panic!("{other:?}"),
    }
}

async fn a_take_brings_no_more_bytes_than_are_wanted_but_one_message<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let publish = hive.publish("a", &[10, 1, 1, 1]).await;
    let bytes = |pack: usize| u32::try_from(publish.packs[pack].bytes().len()).expect("small");
    // A part of the first pack, by the mean length of its messages; at least one.
    let half = take_bytes(hive, Vec::new(), 10, bytes(0) / 2).await;
    assert_eq!(numbers(&half), [0, 1, 2, 3, 4]);
    let one = take_bytes(hive, Vec::new(), 10, 1).await;
    assert_eq!(numbers(&one), [5]);
    let rest = take_bytes(hive, Vec::new(), 4, u32::MAX).await;
    assert_eq!(numbers(&rest), [6, 7, 8, 9]);
    // Whole packs, as many as fit.
    let two = take_bytes(hive, Vec::new(), 10, bytes(1) + bytes(2)).await;
    assert_eq!(numbers(&two), [10, 11]);
    let mut held = Vec::new();
    for packs in [half, one, rest, two] {
        held.extend(packs);
    }
    let back: Vec<Settle> = held.iter().map(|pack| whole(pack, &Outcome::Return)).collect();
    hive.exchange("b", back, 0).await;
    assert_eq!(hive.status().await.queued, 13);

    // What is taken again is measured as well.
    let all = hive.take("b", 13).await;
    let later = Outcome::Retry {
        after_ms: 0,
        error: "later".into(),
    };
    let settles = all.iter().map(|pack| whole(pack, &later)).collect();
    hive.exchange("b", settles, 0).await;
    hive.beat("a").await;
    for number in 0..2 {
        assert_eq!(numbers(&take_bytes(hive, Vec::new(), 10, 1).await), [number]);
    }
    let next = take_bytes(hive, Vec::new(), 10, 2 * bytes(1)).await;
    assert_eq!(numbers(&next), [2, 3]);
    assert_eq!(numbers(&hive.take("b", 20).await), (4..13).collect::<Vec<u64>>());
}

async fn one_by_one_a_take_brings_no_more_bytes_than_are_wanted<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut call = hive.publish_call("a", &[]).await;
    // So short that they are stored in one place.
    let mut builder = queenright::message::PackBuilder::new();
    for pack in 0..90 {
        builder.push(b"x");
        builder.push(b"y");
        call.packs.push(builder.build(2 * pack, call.epoch, 0));
    }
    hive.send(&call).await;
    let mut held = hive.take("b", 2).await;
    for _ in 1..89 {
        held = hive.exchange("b", vec![whole(&held[0], &done())], 2).await;
    }
    assert_eq!(hive.beat("a").await.grain, 2, "so the shortest way was taken");
    let one = take_bytes(hive, vec![whole(&held[0], &done())], 2, 1).await;
    assert_eq!(numbers(&one), [178]);
}

async fn a_repeat_that_wants_nothing_gives_back_what_did_not_arrive<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1, 3, 1]).await;
    let first = hive.take("b", 1).await;
    let mut call = hive.next_call("b", 0, vec![whole(&first[0], &failure())], 3);
    let lost = hive.call(&call).await;
    assert!(
        matches!(&lost, Exchanged::Ok { packs, .. } if numbers(packs) == [1, 2, 3]),
        "{lost:?}"
    );
    let late = call.clone();
    call.want = 0;
    hive.rung(Wake::Bell).await;
    for _ in 0..2 {
        let answer = hive.call(&call).await;
        assert!(
            matches!(&answer, Exchanged::Ok { packs, .. } if packs.is_empty()),
            "{answer:?}"
        );
        let status = hive.status().await;
        assert_eq!(
            (status.failed, status.in_hand, status.queued),
            (1, 0, 4),
            "settled once"
        );
    }
    assert!(hive.rung(Wake::Bell).await, "others can do it");
    // A late copy of the call, as it was at first, brings nothing either.
    let answer = hive.call(&late).await;
    assert!(
        matches!(&answer, Exchanged::Ok { packs, .. } if packs.is_empty()),
        "{answer:?}"
    );
    let again = hive.take("c", 5).await;
    assert_eq!(numbers(&again), [1, 2, 3, 4]);
    assert!(
        again.iter().all(|pack| pack.deliveries() == 1),
        "nobody had begun with them"
    );
    hive.exchange("c", again.iter().map(|pack| whole(pack, &done())).collect(), 0)
        .await;
    let status = hive.status().await;
    assert_eq!((status.done, status.failed, status.in_hand), (4, 1, 0));
}

async fn what_one_lane_took_another_settles<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; 4]).await;
    let first = hive.take("b", 1).await;
    let other = hive.next_call("b", 1, Vec::new(), 1);
    let Exchanged::Ok { packs, .. } = hive.call(&other).await else {
        panic!("not refused");
    };
    assert_eq!((numbers(&first), numbers(&packs)), (vec![0], vec![1]));
    let third = hive.exchange("b", vec![whole(&packs[0], &done())], 1).await;
    assert_eq!(numbers(&third), [2]);
    let copy = hive.call(&other).await;
    assert!(
        matches!(copy, Exchanged::Ok { packs, .. } if packs.is_empty()),
        "it is settled"
    );
    let rest = vec![whole(&first[0], &done()), whole(&third[0], &done())];
    assert_eq!(numbers(&hive.exchange("b", rest, 1).await), [3]);
    let status = hive.status().await;
    assert_eq!((status.done, status.in_hand, status.queued), (3, 1, 0));
}

async fn work_that_is_awaited_comes_with_the_bell<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.rung(Wake::Bell).await;
    let publish = hive.publish_call("a", &[2]).await;
    let work = async {
        loop {
            let call = hive.next_call("b", 0, Vec::new(), 5);
            let answer = hive.engine().await_work(&call, PATIENCE).await;
            match answer.expect("work") {
                // Another call over the same engine may have ended the wait.
                Exchanged::Ok { packs, .. } if packs.is_empty() => {}
                Exchanged::Ok { packs, .. } => break (call, packs),
                refused => panic!("{refused:?}"),
            }
        }
    };
    let ((call, packs), _) = tokio::join!(work, async {
        // Whether the wait has begun by now or not: the bell keeps one ring.
        tokio::task::yield_now().await;
        hive.send(&publish).await
    });
    assert_eq!(numbers(&packs), [0, 1]);
    // Whoever gave up waiting makes the same call, and gets the same answer.
    assert!(matches!(hive.call(&call).await, Exchanged::Ok { packs: again, .. } if again == packs));
    let call = hive.next_call("b", 0, Vec::new(), 5);
    let answer = hive.engine().await_work(&call, Duration::from_millis(5)).await;
    let empty = matches!(answer.expect("nothing"), Exchanged::Ok { packs, .. } if packs.is_empty());
    assert!(empty, "without a ring the call is made all the same");
    assert_eq!(hive.status().await.in_hand, 2);
}

async fn messages_are_taken_oldest_first_and_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[2, 1, 3]).await;
    assert_eq!(numbers(&hive.take("b", 3).await), [0, 1, 2]);
    assert_eq!(numbers(&hive.take("c", 2).await), [3, 4]);
    assert_eq!(numbers(&hive.take("b", 9).await), [5]);
    assert_eq!(numbers(&hive.take("c", 9).await), [0; 0]);
    assert_eq!(hive.status().await.in_hand, 6);
}

async fn a_large_pack_is_cut_to_what_is_wanted<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1000]).await;
    let first = hive.take("b", 3).await;
    assert_eq!(numbers(&first), [0, 1, 2]);
    assert_eq!(
        hive.state().await.queue.len(),
        8,
        "broken into eight, so that the next copy less"
    );
    let mut all = first;
    for _ in 0..250 {
        let taken = hive.take("b", 7).await;
        if taken.is_empty() {
            break;
        }
        all.extend(taken);
    }
    assert_eq!(numbers(&all), (0..1000).collect::<Vec<u64>>());
    for message in all
        .iter()
        .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index)))
    {
        assert_eq!(message.payload, message.number.to_string());
    }
}

async fn a_take_stops_at_a_megabyte<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut call = hive.publish_call("a", &[]).await;
    let mut builder = queenright::message::PackBuilder::new();
    for number in 0..4 {
        builder.push(&vec![b'x'; 400_000]);
        call.packs.push(builder.build(number, call.epoch, 0));
    }
    hive.send(&call).await;
    assert_eq!(numbers(&hive.take("b", 4).await), [0, 1]);
    assert_eq!(numbers(&hive.take("b", 4).await), [2, 3]);
}

async fn a_take_that_is_out_of_step_with_the_packs_does_not_cut_them_for_ever<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1000, 1000, 1000]).await;
    assert_eq!(hive.take("b", 1).await.len(), 1);
    let rest = hive.take("b", 1000).await;
    assert_eq!(
        numbers(&rest),
        (1..1000).collect::<Vec<u64>>(),
        "no more for the one that is missing"
    );
    let whole = hive.take("b", 1000).await;
    assert_eq!((whole.len(), whole[0].count()), (1, 1000));
    let most = hive.take("b", 900).await;
    assert_eq!(numbers(&most), (2000..2900).collect::<Vec<u64>>());
    assert_eq!(numbers(&hive.take("b", 8).await), (2900..2908).collect::<Vec<u64>>());
}

async fn a_take_that_has_much_leaves_a_pack_that_does_not_fit<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let mut call = hive.publish_call("a", &[]).await;
    let (mut builder, mut number) = (queenright::message::PackBuilder::new(), 0);
    for count in [40, 40, 5, 33, 60, 60] {
        for _ in 0..count {
            builder.push(&[b'x'; 1000]);
        }
        call.packs.push(builder.build(number, call.epoch, 0));
        number += count;
    }
    hive.send(&call).await;
    let mut taken = Vec::new();
    // The next would not fit if it were like the others; a small one is not much; the last does not fit.
    for (want, first, counts) in [
        (60, 0, vec![40]),
        (40, 40, vec![40]),
        (60, 80, vec![5, 33]),
        (10, 118, vec![10]),
        (105, 128, vec![50]),
        (120, 178, vec![60]),
    ] {
        let packs = hive.take("b", want).await;
        assert_eq!(packs[0].first(), first, "in order");
        assert_eq!(
            packs.iter().map(Pack::count).collect::<Vec<_>>(),
            counts,
            "{want} from {first}"
        );
        taken.extend(packs);
    }
    assert_eq!(numbers(&taken), (0..238).collect::<Vec<u64>>());
}

async fn a_repeated_exchange_is_applied_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2, 2, 2]).await;
    let take = hive.next_call("b", 0, Vec::new(), 2);
    let answer = hive.call(&take).await;
    assert_eq!(hive.call(&take).await, answer);
    let Exchanged::Ok { packs, .. } = answer else {
        panic!("{answer:?}")
    };
    let settle = hive.next_call("b", 0, vec![whole(&packs[0], &failure())], 2);
    let answer = hive.call(&settle).await;
    let before = hive.state().await;
    assert_eq!(hive.call(&settle).await, answer, "the same packs again");
    assert_eq!(hive.state().await, before);
    let status = hive.status().await;
    assert_eq!((status.in_hand, status.failed), (2, 2));
}

async fn an_old_copy_of_an_exchange_writes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1]).await;
    let old = hive.next_call("b", 0, Vec::new(), 1);
    hive.call(&old).await;
    hive.take("b", 1).await;
    let before = hive.state().await;
    assert_eq!(hive.call(&old).await, Exchanged::Stale);
    assert_eq!(hive.state().await, before);
}

async fn a_call_ahead_of_its_lane_is_refused<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    hive.next_call("b", 0, Vec::new(), 1);
    let ahead = hive.next_call("b", 0, Vec::new(), 1);
    let before = hive.state().await;
    assert_eq!(
        hive.call(&ahead).await,
        Exchanged::Deposed,
        "the store has forgotten a call: it went back"
    );
    assert_eq!(hive.state().await, before);
}

async fn lanes_count_their_calls_apart<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1]).await;
    hive.take("b", 1).await;
    hive.take("b", 1).await;
    let other = hive.next_call("b", 1, Vec::new(), 1);
    assert_eq!(other.call, 1);
    assert!(matches!(hive.call(&other).await, Exchanged::Ok { packs, .. } if numbers(&packs) == [2]));
    let none = hive.next_call("b", 2, Vec::new(), 1);
    assert_eq!(hive.call(&none).await, Exchanged::Deposed, "it joined with two lanes");
}

async fn one_lane_may_settle_what_another_took<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 3]).await;
    let take = hive.next_call("b", 0, Vec::new(), 4);
    let Exchanged::Ok { packs, .. } = hive.call(&take).await else {
        panic!("taken")
    };
    let settle = hive.next_call(
        "b",
        1,
        vec![whole(&packs[0], &done()), part(&packs[1], &[run(0, 1, &done())])],
        0,
    );
    assert!(matches!(hive.call(&settle).await, Exchanged::Ok { .. }));
    let status = hive.status().await;
    assert_eq!((status.done, status.in_hand), (2, 2));
    // The first lane's answer may still be asked for: what is settled is no longer in it.
    assert!(matches!(hive.call(&take).await, Exchanged::Ok { packs, .. } if packs.is_empty()));
    hive.engine().leave(&"b".into()).await.expect("leave");
    assert_eq!(hive.reap("b").await.redelivered, 2);
    assert_eq!(hive.status().await.done, 2);
}

async fn pieces_are_settled_in_part_and_in_any_order<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[6, 4]).await;
    let packs = hive.take("b", 10).await;
    // The middle of the first, the end of the second, the second named first.
    let settles = vec![
        part(&packs[1], &[run(3, 1, &failure())]),
        part(&packs[0], &[run(2, 1, &done()), run(4, 1, &done())]),
    ];
    hive.exchange("b", settles, 0).await;
    let kept: Vec<Vec<u64>> = hive.state().await.taken["b"]
        .pieces
        .values()
        .map(|pack| numbers(std::slice::from_ref(pack)))
        .collect();
    assert_eq!(kept, [vec![0, 1], vec![3], vec![5], vec![6, 7, 8]]);
    let status = hive.status().await;
    assert_eq!((status.in_hand, status.done, status.failed), (7, 2, 1));
    // Nothing of a piece is named: all of it is kept.
    hive.exchange(
        "b",
        vec![Settle {
            piece: 6,
            runs: Vec::new(),
        }],
        0,
    )
    .await;
    let settles = [(5, 1), (0, 2), (3, 1), (6, 3)].map(|(piece, count)| Settle {
        piece,
        runs: vec![run(0, count, &done())],
    });
    hive.exchange("b", settles.to_vec(), 0).await;
    let status = hive.status().await;
    assert_eq!((status.in_hand, status.done, status.failed), (0, 9, 1));
}

async fn a_settle_of_what_is_not_held_writes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[2, 2]).await;
    let mine = hive.take("b", 2).await;
    let theirs = hive.take("c", 2).await;
    let before = hive.state().await;
    let call = hive.next_call("b", 0, vec![whole(&mine[0], &failure()), whole(&theirs[0], &done())], 1);
    assert_eq!(hive.call(&call).await, Exchanged::Unheld);
    assert_eq!(hive.state().await, before, "not even what was right in it");
}

async fn a_piece_that_is_named_twice_writes_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    let packs = hive.take("b", 4).await;
    let before = hive.state().await;
    let call = hive.next_call("b", 0, vec![whole(&packs[0], &done()), whole(&packs[0], &done())], 0);
    assert_eq!(hive.call(&call).await, Exchanged::Unheld);
    assert_eq!(hive.state().await, before);
}

async fn runs_that_overlap_or_overreach_write_nothing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    let packs = hive.take("b", 4).await;
    let wrong = [
        vec![run(0, 2, &done()), run(1, 1, &done())],
        vec![run(2, 1, &done()), run(0, 1, &done())],
        vec![run(3, 2, &done())],
        vec![run(1, 0, &done())],
    ];
    let before = hive.state().await;
    let mut call = hive.next_call("b", 0, Vec::new(), 0);
    for runs in wrong {
        call.settles = vec![part(&packs[0], &runs)];
        assert_eq!(hive.call(&call).await, Exchanged::Unheld, "{runs:?}");
        assert_eq!(hive.state().await, before, "{runs:?}");
    }
}

async fn returned_messages_come_back_first_with_their_attempt_unchanged<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[5, 5]).await;
    let packs = hive.take("b", 5).await;
    let returned = vec![part(
        &packs[0],
        &[
            run(0, 1, &done()),
            run(1, 2, &Outcome::Return),
            run(4, 1, &Outcome::Return),
        ],
    )];
    hive.exchange("b", returned, 0).await;
    assert_eq!(hive.status().await.queued, 8);
    let packs = hive.take("c", 4).await;
    assert_eq!(numbers(&packs), [1, 2, 4, 5]);
    assert!(packs.iter().all(|pack| pack.deliveries() == 1));
    // The same for one that was handed on before: it stays at its second deliveries.
    assert_eq!(hive.bury("c", &["a", "b"]).await.redelivered, 4);
    let again = hive.take("b", 1).await;
    assert_eq!((numbers(&again), again[0].deliveries()), (vec![1], 2));
    hive.exchange("b", vec![whole(&again[0], &Outcome::Return)], 0).await;
    let again = hive.take("b", 1).await;
    assert_eq!((numbers(&again), again[0].deliveries()), (vec![1], 2));
}

async fn a_thousand_single_pieces_are_settled_in_one_call<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    for _ in 0..10 {
        hive.publish("a", &[1; 100]).await;
    }
    let mut packs: Vec<Pack> = Vec::new();
    while packs.len() < 1000 {
        packs.extend(hive.take("b", 1000).await);
    }
    let outcomes = [done(), failure(), Outcome::Return];
    let settles = packs
        .iter()
        .zip(outcomes.iter().cycle())
        .map(|(pack, outcome)| whole(pack, outcome))
        .collect();
    hive.exchange("b", settles, 1).await;
    let status = hive.status().await;
    assert_eq!(
        (status.done, status.failed, status.queued, status.in_hand),
        (334, 333, 332, 1)
    );
}
