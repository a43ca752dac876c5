//! What it costs that someone has put something else in the place of one of the queue's keys: the calls that need it, until it is gone.

use std::collections::BTreeSet;

use queenright::engine::{Engine, Item, Push, Pushed};
use redis::Value;

use super::push::push_call;
use super::redis_only::{Redis, redis_checks};
use super::rights::{keep, quiet, restore, scene};
use super::{Check, QUEUE, RedisBench};

redis_checks![
    a_key_of_another_type_shows_before_anything_is_written,
    a_push_that_meets_a_foreign_key_gives_no_number_twice,
];

/// Something else comes to stand there, and what stood there is kept.
const REPLACE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], 'test:aside') end \
                       redis.call('SET', KEYS[1], 'something else')";
const REPAIR: &str = "redis.call('DEL', KEYS[1]) \
                      if redis.call('EXISTS', 'test:aside') == 1 then redis.call('RENAME', 'test:aside', KEYS[1]) end";

/// The keys of the queue that are there. If what a node holds is gone, it is gone.
async fn keys(hive: &Redis) -> BTreeSet<String> {
    let found = hive.bench.command(&["KEYS", &format!("{{qr:{QUEUE}}}:*")]).await;
    let found: Vec<String> = redis::from_redis_value(found).expect("names");
    let taken = hive.engine().keys().taken("");
    found.into_iter().filter(|key| !key.starts_with(&taken)).collect()
}

async fn a_key_of_another_type_shows_before_anything_is_written(hive: &Redis) {
    let verbs = scene(hive).await;
    let own = hive.engine().keys().clone();
    keep(hive).await;
    let mut complaints = Vec::new();
    for (name, verb) in &verbs {
        restore(hive).await;
        let mut keys_of_both = keys(hive).await;
        verb.run(hive.engine()).await.expect("an answer");
        let after = quiet(hive).await;
        keys_of_both.extend(keys(hive).await);
        for key in &keys_of_both {
            restore(hive).await;
            hive.bench.command(&["EVAL", REPLACE, "1", key]).await;
            let refused = verb.run(hive.engine()).await;
            hive.bench.command(&["EVAL", REPAIR, "1", key]).await;
            // As a node does: the same call once more.
            if let Err(error) = verb.run(hive.engine()).await {
                complaints.push(format!("{name} after {key} came back: {error}"));
            } else if *name == "take" && [&own.queue, &own.again].contains(&key) {
                // What is finished is settled; nothing can be taken.
            } else if quiet(hive).await != after {
                complaints.push(format!("{name} beside {key} leaves something else ({refused:?})"));
            }
        }
    }
    restore(hive).await;
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

async fn a_push_that_meets_a_foreign_key_gives_no_number_twice(hive: &Redis) {
    hive.found("a", &["b"]).await;
    let keys = hive.engine().keys().clone();
    let items = |name: &str| {
        let later = Item::new("later").delay(std::time::Duration::from_secs(5));
        vec![Item::new("now").key(name), later]
    };
    let mut given = BTreeSet::new();
    for (call, key) in [("p", &keys.later), ("q", &keys.once), ("r", &keys.once_values)] {
        let (push, before) = (push_call(call, items(call)), quiet(hive).await);
        hive.bench.command(&["EVAL", REPLACE, "1", key]).await;
        let refused = hive.engine().push(&push).await;
        assert!(refused.is_err(), "{refused:?}");
        hive.bench.command(&["EVAL", REPAIR, "1", key]).await;
        assert_eq!(quiet(hive).await, before, "{key}: nothing of it is in");
        // Another call, with the same key of the message.
        let again = Push {
            call: format!("{call}-again"),
            ..push
        };
        let Ok(Pushed::Ok(receipts)) = hive.engine().push(&again).await else {
            panic!("refused");
        };
        assert!(receipts.iter().all(|receipt| !receipt.repeated), "{receipts:?}");
        given.extend(receipts.iter().map(|receipt| receipt.number));
    }
    assert_eq!(given, (0..6).collect());
    assert_eq!(hive.bench.command(&["LLEN", &keys.queue]).await, Value::Int(3));
}
