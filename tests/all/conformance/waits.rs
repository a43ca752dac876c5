//! Waiting for the bell on the connection that calls use, too.

use std::time::Duration;

use queenright::engine::{Engine, Wake};
use redis::Value;

use super::hive::{done, numbers, whole};
use super::redis_only::{Redis, fill_memory, free_memory, redis_checks};
use super::{Check, RedisBench};

redis_checks![
    a_call_ends_the_wait_on_its_connection,
    a_wait_behind_one_that_was_ended_hears_the_bell,
    two_that_wait_hear_the_bell,
    a_wait_that_cannot_be_ended_is_given_a_connection_of_its_own,
    a_wait_that_is_given_up_leaves_the_bell_to_others,
];

/// Longer than any test takes.
const LONG: Duration = Duration::from_mins(1);

/// Returns when so many clients wait at a list.
async fn waiting(hive: &Redis, wanted: usize) {
    let blocked = format!("blocked_clients:{wanted}\r\n");
    loop {
        let Value::BulkString(info) = hive.bench.command(&["INFO", "clients"]).await else {
            panic!("no INFO");
        };
        if String::from_utf8_lossy(&info).contains(&blocked) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns when the bell has rung for this caller.
async fn heard(hive: &Redis) {
    while !hive.engine().listen(Wake::Bell, LONG).await.expect("listen") {}
}

/// Messages of `a`, all in the hand of `b`.
async fn in_hand(hive: &Redis) -> Vec<queenright::engine::Settle> {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3]).await;
    let taken = hive.take("b", 3).await;
    assert!(hive.rung(Wake::Bell).await);
    taken.iter().map(|pack| whole(pack, &done())).collect()
}

async fn a_call_ends_the_wait_on_its_connection(hive: &Redis) {
    let settles = in_hand(hive).await;
    let settle = async {
        waiting(hive, 1).await;
        hive.exchange("b", settles, 0).await
    };
    let (rung, _) = tokio::join!(hive.engine().listen(Wake::Bell, LONG), settle);
    assert!(!rung.expect("it was ended"));
    assert_eq!(hive.status().await.done, 3);
}

async fn a_wait_behind_one_that_was_ended_hears_the_bell(hive: &Redis) {
    let settles = in_hand(hive).await;
    let settle = async {
        waiting(hive, 1).await;
        hive.exchange("b", settles, 0).await;
    };
    let (rung, ()) = tokio::join!(hive.engine().listen(Wake::Bell, LONG), settle);
    assert!(!rung.expect("it was ended"));
    // What two calls left behind at most.
    let rings = async {
        waiting(hive, 1).await;
        hive.bench.command(&["RPUSH", &hive.engine().keys().bell, "1"]).await;
    };
    tokio::join!(heard(hive), rings);
}

async fn two_that_wait_hear_the_bell(hive: &Redis) {
    hive.found("a", &["b"]).await;
    let rings = async {
        waiting(hive, 2).await;
        hive.bench
            .command(&["RPUSH", &hive.engine().keys().bell, "1", "1"])
            .await;
    };
    tokio::join!(heard(hive), heard(hive), rings);
}

async fn a_wait_that_cannot_be_ended_is_given_a_connection_of_its_own(hive: &Redis) {
    let settles = in_hand(hive).await;
    let settle = async {
        waiting(hive, 1).await;
        fill_memory(hive).await;
        let call = hive.next_call("b", 0, settles, 0);
        // As a lane does: until it is answered.
        while hive.engine().exchange(&call).await.is_err() {}
        assert_eq!(hive.status().await.done, 3);
        free_memory(hive).await;
        hive.bench.command(&["RPUSH", &hive.engine().keys().bell, "1"]).await;
    };
    tokio::join!(heard(hive), settle);
    // The next one begins beside the calls.
    let call = async {
        waiting(hive, 1).await;
        hive.take("b", 0).await;
        waiting(hive, 1).await;
        hive.bench.command(&["RPUSH", &hive.engine().keys().bell, "1"]).await;
    };
    let (rung, ()) = tokio::join!(hive.engine().listen(Wake::Bell, LONG), call);
    assert!(rung.expect("no call has ended it"));
}

async fn a_wait_that_is_given_up_leaves_the_bell_to_others(hive: &Redis) {
    hive.found("a", &["b", "c"]).await;
    let call = hive.next_call("b", 0, Vec::new(), 3);
    let give_up = async {
        tokio::select! {
            _ = hive.engine().await_work(&call, LONG) => panic!("nothing came"),
            () = waiting(hive, 1) => {}
        }
    };
    give_up.await;
    waiting(hive, 0).await;
    hive.publish("a", &[3]).await;
    assert_eq!(numbers(&hive.take("c", 3).await), [0, 1, 2]);
}
