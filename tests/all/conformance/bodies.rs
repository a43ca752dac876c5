//! The bytes of large packs, which Redis stores separately: they come with their messages, and go with the last of them.

use queenright::app::lab::proxy::Proxy;
use queenright::engine::{Engine, Exchanged, Publish, Published};
use queenright::message::Outcome;

use super::hive::{LEASE_MS, done, failure, numbers, part, run, whole};
use super::redis_only::{Redis, fill_memory, free_memory, redis_checks};
use super::{Check, RedisBench};

redis_checks![
    a_body_that_is_stored_separately_goes_with_its_last_message,
    bytes_sent_with_a_forgotten_script_go_with_the_next_publish,
    a_publish_whose_bytes_were_refused_is_not_applied,
    a_publish_that_is_not_applied_leaves_no_bytes,
    bytes_that_someone_removed_are_told_and_cost_no_other_message,
];

/// How many fields there are in `bodies`: two for each pack whose body is stored separately.
async fn in_bodies(hive: &Redis) -> usize {
    let found = hive.bench.command(&["HLEN", &hive.engine().keys().bodies]).await;
    redis::from_redis_value(found).expect("a length")
}

async fn a_body_that_is_stored_separately_goes_with_its_last_message(hive: &Redis) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[5, 1]).await;
    assert_eq!(in_bodies(hive).await, 2, "a single message does not");
    let packs = hive.take("b", 9).await;
    let settle = |runs: &[_]| vec![part(&packs[0], runs)];
    hive.exchange("b", settle(&[run(1, 1, &done()), run(3, 1, &failure())]), 0)
        .await;
    assert_eq!(in_bodies(hive).await, 2, "others refer to it");
    hive.state().await;
    // One part is handed on, one is given back; in the end nothing is left.
    let (kept, given_back) = ((0, 1), (2, 1));
    let rest = |(from, count), outcome| queenright::engine::Settle {
        piece: from,
        runs: vec![run(0, count, outcome)],
    };
    hive.exchange("b", vec![rest(given_back, &Outcome::Return)], 0).await;
    hive.bury("b", &["a", "c"]).await;
    hive.state().await;
    let mut seen = Vec::new();
    loop {
        let packs = hive.take("c", 9).await;
        if packs.is_empty() {
            break;
        }
        seen.extend(numbers(&packs));
        let payloads = packs
            .iter()
            .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index)));
        for message in payloads {
            assert_eq!(message.payload, message.number.to_string());
        }
        hive.exchange("c", packs.iter().map(|pack| whole(pack, &done())).collect(), 0)
            .await;
    }
    seen.sort_unstable();
    assert_eq!(seen, [kept.0, given_back.0, 4, 5]);
    assert_eq!(in_bodies(hive).await, 0);
}

async fn bytes_sent_with_a_forgotten_script_go_with_the_next_publish(hive: &Redis) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1]).await;
    let port = hive.bench.server.port();
    let proxy = Proxy::start(([127, 0, 0, 1], port).into()).expect("a proxy");
    let mut server = hive.bench.server.server_as(&format!("redis://{}", proxy.address()));
    server.answer_timeout = std::time::Duration::from_millis(300);
    let cut_off = super::bench::engine(&server, hive.engine().keys().clone(), &hive.bench.scripts);
    let lost = hive.publish_call("a", &[5, 5]).await;
    let late = Publish {
        epoch: 0,
        ..lost.clone()
    };
    let fenced = cut_off.publish(&late).await.expect("it is connected");
    assert_eq!(fenced, Published::Fenced);

    hive.bench.command(&["SCRIPT", "FLUSH"]).await;
    proxy.half_open(true);
    assert!(cut_off.publish(&lost).await.is_err_and(|error| error.is_away()));
    drop(cut_off);
    assert_eq!(
        in_bodies(hive).await,
        2,
        "the script was not known, so nobody looked at them"
    );
    // Nothing is wrong with the queue.
    hive.state().await;

    hive.engine().leave(&"a".into()).await.expect("leave");
    assert!(hive.beat("b").await.generator);
    hive.publish("b", &[5]).await;
    let packs = hive.take("c", 9).await;
    let settles = packs.iter().map(|pack| whole(pack, &done())).collect();
    hive.exchange("c", settles, 0).await;
    assert_eq!(in_bodies(hive).await, 0);
}

async fn a_publish_whose_bytes_were_refused_is_not_applied(hive: &Redis) {
    hive.found("a", &["b"]).await;
    // From now on the server knows the script.
    hive.publish("a", &[5]).await;
    let before = hive.take("b", 9).await;
    hive.exchange("b", vec![whole(&before[0], &done())], 0).await;
    let publish = hive.publish_call("a", &[5]).await;
    let rights = async |of: &str| drop(hive.bench.command(&["ACL", "SETUSER", "default", of]).await);
    rights("-hsetnx").await;
    let refused = hive.engine().publish(&publish).await;
    rights("+hsetnx").await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(hive.take("b", 9).await, [], "nothing to handle without its bytes");
    assert_eq!(in_bodies(hive).await, 0);
    assert!(matches!(hive.send(&publish).await, Published::Ok { .. }));
    assert_eq!(hive.take("b", 9).await, publish.packs);
}

async fn a_publish_that_is_not_applied_leaves_no_bytes(hive: &Redis) {
    hive.found("a", &["b"]).await;
    let first = hive.publish("a", &[5]).await;
    assert!(matches!(hive.send(&first).await, Published::Ok { .. }), "a copy");
    assert_eq!(in_bodies(hive).await, 2, "a copy of what is queued changes nothing");
    let other = super::hive::packs(first.first, first.epoch, 7, &[5]);
    let other = Publish {
        packs: other,
        ..first.clone()
    };
    assert!(
        matches!(hive.send(&other).await, Published::Ok { .. }),
        "nor one that differs"
    );
    let packs = hive.take("b", 9).await;
    assert_eq!(packs, first.packs);
    hive.exchange("b", vec![whole(&packs[0], &done())], 0).await;
    assert!(matches!(hive.send(&first).await, Published::Ok { .. }), "a late copy");
    assert_eq!(in_bodies(hive).await, 0, "a late copy brings nothing back");
    let next = hive.publish_call("a", &[5]).await;
    let refused = [
        (
            Publish {
                epoch: 7,
                ..next.clone()
            },
            "another reign",
        ),
        (
            Publish {
                made: 9,
                ..next.clone()
            },
            "a gap",
        ),
        (
            Publish {
                first: 9,
                packs: super::hive::packs(9, next.epoch, 0, &[5]),
                ..next.clone()
            },
            "moved",
        ),
        (
            Publish {
                messages: Some(7),
                ..next.clone()
            },
            "no more are wanted",
        ),
        (
            Publish {
                backlog_max: 3,
                ..next.clone()
            },
            "a full backlog",
        ),
    ];
    for (publish, why) in refused {
        let answer = hive.send(&publish).await;
        assert!(!matches!(answer, Published::Ok { .. }), "{why}: {answer:?}");
        assert_eq!(in_bodies(hive).await, 0, "{why}");
    }
    fill_memory(hive).await;
    assert!(hive.engine().publish(&next).await.is_err_and(|error| error.is_away()));
    free_memory(hive).await;
    assert_eq!(in_bodies(hive).await, 0, "full memory");
    assert!(matches!(hive.send(&next).await, Published::Ok { .. }));
}

async fn bytes_that_someone_removed_are_told_and_cost_no_other_message(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.join_for("c", 1).await;
    hive.publish("a", &[5, 1, 5]).await;
    let epoch = hive.beat("a").await.epoch;
    for first in [0, 6] {
        let body = format!("{epoch}:{first}");
        hive.bench.command(&["HDEL", &hive.engine().keys().bodies, &body]).await;
    }
    // One that was delivered too often.
    let taken = hive.next_call("c", 0, Vec::new(), 3);
    assert!(matches!(hive.engine().exchange(&taken).await, Ok(Exchanged::Ok { packs, .. }) if packs.is_empty()));
    hive.pass(LEASE_MS, &["a", "b"]).await;
    assert_eq!(hive.reap("c").await.failed, 5);
    // The next call of whoever took one settles it.
    let packs = hive.take("b", 20).await;
    assert_eq!(numbers(&packs), [5]);
    hive.exchange("b", vec![whole(&packs[0], &done())], 0).await;
    let status = hive.status().await;
    assert_eq!(
        (status.done, status.failed, status.in_hand, status.queued),
        (1, 10, 0, 0)
    );
    let failed = hive.engine().failed(0, 20).await.expect("a look");
    assert!(
        failed
            .iter()
            .all(|one| String::from_utf8_lossy(&one.error).contains("gone")),
        "{failed:?}"
    );
}
