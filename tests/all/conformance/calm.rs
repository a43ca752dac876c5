//! Most beats change nothing but a lease and the hive clock. An engine may have a shorter way for them: what happens between two such
//! beats is told by the next one all the same.

use queenright::engine::{Beat, Engine, Member, Renewed, Seen};

use super::hive::{CROWN_MS, LEASE_MS};
use super::redis_only::Redis;
use super::{Bench, Check, Hive, checks};

checks![
    a_beat_of_a_calm_member_renews_its_lease_and_moves_the_clock,
    a_calm_member_is_told_what_has_changed,
    a_calm_member_is_crowned_when_its_time_has_come,
    a_calm_member_that_left_stays_away,
    a_calm_member_takes_the_place_of_an_heir,
    a_calm_member_says_what_it_has_seen,
    a_calm_member_speaks_to_another_server,
];

/// As a node of production beats: with what it has seen.
fn call(node: &str, epoch: u64) -> Beat {
    Beat {
        seen: Seen {
            epoch,
            ..Seen::default()
        },
        ..Hive::<crate::conformance::LocalBench>::beat_call(node)
    }
}

async fn send<B: Bench>(hive: &Hive<B>, beat: &Beat) -> Member {
    hive.jump(1).await;
    match hive.engine().beat(beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{} was deposed", beat.node),
    }
}

/// A generator `a`, and `b`, whose beats have nothing to do any more.
async fn calm<B: Bench>(hive: &Hive<B>) -> Beat {
    let epoch = hive.found("a", &["b"]).await.epoch;
    let beat = call("b", epoch);
    for _ in 0..3 {
        let member = send(hive, &beat).await;
        assert!(!member.generator && member.heir && member.crown_in_ms > 0, "{member:?}");
    }
    beat
}

async fn a_beat_of_a_calm_member_renews_its_lease_and_moves_the_clock<B: Bench>(hive: &Hive<B>) {
    let beat = calm(hive).await;
    let before = hive.state().await;
    hive.jump(6).await;
    let member = send(hive, &beat).await;
    let mut expected = before.clone();
    let meta = expected.meta.as_mut().expect("a queue");
    meta.clock += 7;
    meta.wall += 7;
    expected.nodes.insert("b".into(), meta.clock + LEASE_MS);
    assert_eq!(hive.state().await, expected);
    let Member {
        epoch,
        crown_in_ms,
        wall_ms,
        ..
    } = member;
    assert_eq!(
        (epoch, crown_in_ms, wall_ms),
        (beat.seen.epoch, CROWN_MS - 10, hive.wall_ms())
    );
    // Neither way does the clock go back or jump.
    hive.jump(-3_600_000).await;
    assert_eq!(send(hive, &beat).await.crown_in_ms, CROWN_MS - 10);
    hive.jump(7_200_000).await;
    assert_eq!(send(hive, &beat).await.crown_in_ms, CROWN_MS / 2 - 10);
}

async fn a_calm_member_is_told_what_has_changed<B: Bench>(hive: &Hive<B>) {
    let beat = calm(hive).await;
    hive.publish("a", &[3]).await;
    let member = send(hive, &beat).await;
    assert_eq!((member.seq, member.made), (3, 3));
    hive.engine().pause(None, Some(true)).await.expect("paused");
    assert!(send(hive, &beat).await.paused.handlers);
    hive.engine().pause(None, Some(false)).await.expect("resumed");
    assert!(!send(hive, &beat).await.paused.handlers);
    let humble = Beat {
        eligible: false,
        ..beat.clone()
    };
    assert!(!send(hive, &humble).await.heir);
    assert!(!send(hive, &humble).await.heir);
    assert!(send(hive, &beat).await.heir);
}

async fn a_calm_member_is_crowned_when_its_time_has_come<B: Bench>(hive: &Hive<B>) {
    let beat = calm(hive).await;
    hive.engine().handover(Some("b")).await.expect("handed over");
    let member = send(hive, &beat).await;
    assert!(member.generator && member.epoch == beat.seen.epoch + 1);
    // By its rank.
    let beat = call("a", member.epoch);
    for _ in 0..2 {
        assert!(!send(hive, &beat).await.generator);
    }
    let member = send(hive, &Beat { rank: 3, ..beat }).await;
    assert!(member.generator);
    // When the other one is silent.
    let beat = call("b", member.epoch);
    let mut passed = 0;
    while !send(hive, &beat).await.generator {
        hive.jump(9).await;
        passed += 10;
        assert!(passed <= CROWN_MS, "the crown's lease is over");
    }
    // And one whose beat was carried out without its knowing.
    let beat = call("a", member.epoch + 1);
    for _ in 0..2 {
        assert!(!send(hive, &beat).await.generator);
    }
    hive.engine().leave(&"b".into()).await.expect("leave");
    assert!(send(hive, &beat).await.generator);
}

async fn a_calm_member_that_left_stays_away<B: Bench>(hive: &Hive<B>) {
    let beat = calm(hive).await;
    hive.engine().leave(&"b".into()).await.expect("leave");
    hive.jump(1).await;
    let before = hive.state().await;
    assert_eq!(hive.engine().beat(&beat).await, Ok(Renewed::Deposed));
    assert_eq!(hive.state().await, before, "nothing is written");
}

async fn a_calm_member_takes_the_place_of_an_heir<B: Bench>(hive: &Hive<B>) {
    let epoch = hive.found("a", &["b", "c", "d", "e", "f", "g"]).await.epoch;
    let beat = call("g", epoch);
    for _ in 0..3 {
        assert!(!send(hive, &beat).await.heir, "there are five");
    }
    hive.engine().leave(&"c".into()).await.expect("leave");
    assert!(send(hive, &beat).await.heir);
}

async fn a_calm_member_says_what_it_has_seen<B: Bench>(hive: &Hive<B>) {
    let beat = calm(hive).await;
    let seen = |seq, made, epoch| Seen {
        seq,
        made,
        epoch: beat.seen.epoch + epoch,
        ..Seen::default()
    };
    for (rewinds, seen) in [(1, seen(5, 0, 0)), (2, seen(5, 4, 1)), (3, seen(5, 4, 4))] {
        let beat = Beat {
            eligible: false,
            seen: seen.clone(),
            ..beat.clone()
        };
        let member = send(hive, &beat).await;
        assert!(member.rewound.is_some(), "{seen:?}");
        assert_eq!((member.seq, member.made), (seen.seq, seen.made));
        let meta = hive.state().await.meta.expect("a queue");
        assert_eq!((meta.rewinds, meta.epoch), (rewinds, seen.epoch));
        assert!(hive.beat("a").await.generator);
        let epoch = hive.state().await.meta.expect("a queue").epoch;
        let calm = Beat {
            seen: Seen { epoch, ..seen },
            ..beat
        };
        for _ in 0..2 {
            assert!(send(hive, &calm).await.rewound.is_none());
        }
    }
}

async fn a_calm_member_speaks_to_another_server<B: Bench>(hive: &Hive<B>) {
    let beat = calm(hive).await;
    let on = |node: &str, server: &str| Beat {
        server: server.into(),
        ..call(node, beat.seen.epoch)
    };
    send(hive, &on("a", "s2")).await;
    assert_eq!(hive.state().await.unheard, ["b"]);
    // Who still speaks to the first one has made that another server.
    send(hive, &beat).await;
    assert_eq!(hive.state().await.unheard, ["a"]);
    send(hive, &on("a", "s2")).await;
    send(hive, &on("b", "s2")).await;
    assert_eq!(hive.state().await.unheard, [""; 0]);
    assert_eq!(hive.state().await.meta.expect("a queue").server, "s2");
}

/// For Redis alone: that it is the shorter way at all.
pub(super) async fn a_calm_member_costs_one_short_call(hive: &Redis) {
    let beat = calm(hive).await;
    hive.bench.command(&["CONFIG", "RESETSTAT"]).await;
    send(hive, &beat).await;
    let stats = hive.bench.command(&["INFO", "commandstats"]).await;
    let stats: String = redis::from_redis_value(stats).expect("a text");
    let calls = |command: &str| {
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or("0", |line| line.split(',').next().unwrap_or_default())
            .to_string()
    };
    assert_eq!(
        ["evalsha", "zadd", "type", "zscore", "lrem"].map(calls),
        ["1", "1", "0", "0", "0"]
    );
}
