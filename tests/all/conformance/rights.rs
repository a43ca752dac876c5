//! What rights that are missing, and keys outside them, cost: the call or the message that needs them, and nothing else.

use queenright::engine::memory::State;
use queenright::engine::redis::{ACL_LINE, RedisEngine};
use queenright::engine::{Collect, Engine, Exchange, Exchanged, Item, NodeId, Publish, Push, Reap};
use queenright::error::Error;
use queenright::message::{Effect, Outcome};
use redis::Value;

use super::hive::{LEASE_MS, done, failure, part, run, whole, with};
use super::push::push_call;
use super::redis_only::{Redis, engine, redis_checks};
use super::{Check, RedisBench};

redis_checks![
    a_right_that_effects_lack_costs_their_message_alone,
    an_effect_outside_the_rights_costs_its_message_alone,
    a_right_that_is_taken_away_shows_before_anything_is_written,
    a_last_delivery_waits_for_the_right_to_cut_its_pack,
];

/// A user with the rights that a node needs, on these keys.
pub(super) async fn grant(hive: &Redis, keys: &str) -> String {
    let line = ACL_LINE.replace("NAME", "bee").replace("PASSWORD", "honey");
    let line = line.replace("~{qr:QUEUE}:*", keys);
    hive.bench.command(&["ACL", "DELUSER", "bee"]).await;
    hive.bench.command(&line.split(' ').collect::<Vec<_>>()).await;
    format!("redis://bee:honey@127.0.0.1:{}", hive.bench.server.port())
}

/// The engine of that user.
async fn limited(hive: &Redis, keys: &str) -> RedisEngine {
    let url = grant(hive, keys).await;
    engine(&hive.bench.server, &url)
        .with_scripts(hive.bench.scripts.clone())
        .with_bodies_from(52)
}

async fn a_right_that_effects_lack_costs_their_message_alone(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1, 1]).await;
    let packs = hive.take("b", 4).await;
    // All that a node needs, and nothing for effects. The test's clock is a key of its own.
    let limited = limited(hive, "~*").await;
    let (key, value) = ("k".to_string(), b"v".to_vec());
    let effects = [
        Effect::add(&key, 1),
        Effect::set(&key, value.clone()),
        Effect::push("list", value),
    ];
    let settles = packs
        .iter()
        .zip(&effects)
        .map(|(pack, effect)| whole(pack, &with(std::slice::from_ref(effect))));
    let settles = settles.chain([whole(&packs[3], &done())]).collect();
    let call = hive.next_call("b", 0, settles, 0);
    let Exchanged::Ok { refused, .. } = limited.exchange(&call).await.expect("an answer") else {
        panic!("refused as a whole");
    };
    let numbers: Vec<u64> = refused.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1], "{refused:?}");
    assert!(
        refused[1]
            .1
            .contains("effect refused: this user has no right to run SET"),
        "{refused:?}"
    );
    let status = hive.status().await;
    assert_eq!((status.done, status.failed, status.in_hand), (2, 2, 0));
    assert_eq!(hive.state().await.stored.len(), 1, "the list");
}

async fn an_effect_outside_the_rights_costs_its_message_alone(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1, 1]).await;
    let packs = hive.take("b", 3).await;
    let limited = limited(hive, "~{qr:*}:* ~test:* ~mine").await;
    let settles = packs.iter().zip(["mine", "theirs", "mine"]);
    let settles = settles.map(|(pack, key)| whole(pack, &with(&[Effect::push(key, "v")])));
    let call = hive.next_call("b", 0, settles.collect(), 0);
    for _ in 0..2 {
        let Exchanged::Ok { refused, .. } = limited.exchange(&call).await.expect("an answer") else {
            panic!("refused as a whole");
        };
        let why = "effect refused: key theirs is outside the rights of this user";
        assert_eq!(refused, [(1, why.to_string())]);
    }
    let status = hive.status().await;
    assert_eq!((status.done, status.failed, status.in_hand), (2, 1, 0));
}

/// Every command that scripts call and that is sent besides.
const COMMANDS: &str = "HSET HSETNX HDEL HEXISTS HGET HINCRBY HKEYS HMGET LINDEX LLEN LPOP LPOS LPUSH LRANGE LREM LTRIM RPUSH ZADD \
                        HSTRLEN ZCARD ZCOUNT ZPOPMIN ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYRANK ZREVRANGEBYSCORE ZSCORE TYPE DEL EVALSHA TIME";

/// A call that changes something.
pub(super) enum Verb {
    Join,
    Beat,
    Publish(Publish),
    Push(Push),
    Exchange(Exchange),
    Reap(Reap),
    Leave(NodeId),
    Collect(Collect),
    Release(&'static str),
    Requeue(u64),
    Discard(u64),
    Trim(u64),
}

impl Verb {
    pub(super) async fn run(&self, engine: &RedisEngine) -> Result<(), Error> {
        match self {
            Self::Join => engine.join(&Redis::join_call("new")).await.map(drop),
            Self::Beat => engine.beat(&Redis::beat_call("a")).await.map(drop),
            Self::Publish(publish) => engine.publish(publish).await.map(drop),
            Self::Push(push) => engine.push(push).await.map(drop),
            Self::Exchange(exchange) => engine.exchange(exchange).await.map(drop),
            Self::Reap(reap) => engine.reap(reap).await.map(drop),
            Self::Leave(node) => engine.leave(node).await,
            Self::Collect(collect) => engine.collect(collect).await.map(drop),
            Self::Release(reader) => engine.release(reader, false).await,
            Self::Requeue(number) => engine.requeue(&[*number]).await.map(drop),
            Self::Discard(number) => engine.discard(&[*number]).await.map(drop),
            Self::Trim(keep) => engine.trim(*keep).await.map(drop),
        }
    }
}

/// A queue in which every verb has something to do, and the calls. Nothing of it depends on the others.
pub(super) async fn scene(hive: &Redis) -> Vec<(&'static str, Verb)> {
    hive.found("a", &["b", "c", "d"]).await;
    // What is remembered of an early call is to be forgotten after a minute, by the next push.
    let early = Push {
        only_known: true,
        ..push_call("early", vec![Item::new("x")])
    };
    hive.engine().push(&early).await.expect("an answer");
    hive.jump(61_000).await;
    hive.fail("a", "b", 5).await;
    assert_eq!(hive.batch("reader", 1, 2).await.len(), 2);
    // Messages that are put off and due, pieces of a large pack, one that was delivered before.
    hive.publish("a", &[1, 40, 40, 40, 1, 1, 1]).await;
    hive.publish("a", &[1; 9]).await;
    let first = hive.take("d", 1).await;
    hive.exchange(
        "d",
        vec![whole(
            &first[0],
            &Outcome::Retry {
                error: "later".into(),
                after_ms: 1,
            },
        )],
        0,
    )
    .await;
    let packs = hive.take("b", 60).await;
    hive.take("d", 50).await;
    hive.engine().leave(&"d".into()).await.expect("leave");
    let settles = vec![part(
        &packs[0],
        &[
            run(0, 1, &done()),
            run(1, 1, &failure()),
            run(
                2,
                1,
                &Outcome::Retry {
                    error: "later".into(),
                    after_ms: 5,
                },
            ),
            run(3, 2, &Outcome::Return),
            run(
                5,
                1,
                &with(&[Effect::push("list", "v"), Effect::set_field("hash", "f", "v")]),
            ),
        ],
    )];
    let chain = hive.next_call("c", 1, Vec::new(), 1);
    let Exchanged::Ok { packs: linked, .. } = hive.call(&chain).await else {
        panic!("refused");
    };
    let later = Effect::publish_after("later", std::time::Duration::from_secs(5));
    let chain = vec![whole(&linked[0], &with(&[Effect::publish("next"), later]))];
    // One by one, on the shortest way.
    hive.take("b", 10).await;
    let held = hive.take("c", 1).await;
    let meta = &hive.engine().keys().meta;
    hive.bench.command(&["HSET", meta, "grain", "1", "shortcut", "1"]).await;
    let publish = hive.publish_call("a", &[40, 1]).await;
    hive.jump(100).await;
    let collect = Collect {
        reader: "reader".into(),
        call: 2,
        shown: vec![0, 1],
        below: 100,
        want: 2,
        lease_ms: LEASE_MS,
    };
    vec![
        ("join", Verb::Join),
        ("beat", Verb::Beat),
        ("publish", Verb::Publish(publish)),
        (
            "push",
            Verb::Push(push_call(
                "p",
                vec![
                    Item::new("x").key("k"),
                    Item::new("y").delay(std::time::Duration::from_secs(5)),
                ],
            )),
        ),
        ("settle", Verb::Exchange(hive.next_call("b", 0, settles, 7))),
        ("chain", Verb::Exchange(hive.next_call("c", 1, chain, 0))),
        ("take", Verb::Exchange(hive.next_call("b", 1, Vec::new(), 90))),
        (
            "shortest",
            Verb::Exchange(hive.next_call("c", 0, vec![whole(&held[0], &done())], 1)),
        ),
        ("reap", Verb::Reap(Reap::of("d"))),
        ("leave", Verb::Leave("b".into())),
        ("collect", Verb::Collect(collect)),
        ("release", Verb::Release("reader")),
        ("requeue", Verb::Requeue(3)),
        ("discard", Verb::Discard(3)),
        ("trim", Verb::Trim(1)),
    ]
}

/// Redis 6.2 cannot be asked what a user may do.
async fn can_be_asked(hive: &Redis) -> bool {
    let asks = ["EVAL", "return redis.acl_check_cmd and 1 or 0", "0"];
    hive.bench.command(&asks).await == Value::Int(1)
}

async fn a_last_delivery_waits_for_the_right_to_cut_its_pack(hive: &Redis) {
    if !can_be_asked(hive).await {
        return;
    }
    hive.found("a", &["b"]).await;
    hive.join_for("c", 2).await;
    let limited = limited(hive, "~*").await;
    let publish = hive.publish_call("a", &[3]).await;
    limited.publish(&publish).await.expect("a pack with a body");
    hive.take("b", 3).await;
    hive.bury("b", &["a", "c"]).await;
    hive.bench.command(&["ACL", "SETUSER", "bee", "-hincrby"]).await;
    let call = hive.next_call("c", 0, Vec::new(), 9);
    let refused = limited.exchange(&call).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    hive.bench.command(&["ACL", "SETUSER", "bee", "+hincrby"]).await;
    let Ok(Exchanged::Ok { packs, .. }) = limited.exchange(&call).await else {
        panic!("no answer with all rights");
    };
    assert_eq!((packs.len(), packs[0].count()), (1, 1), "it comes alone");
}

/// Keeps everything in another database.
pub(super) async fn keep(hive: &Redis) {
    let keep = "redis.call('SELECT', 1) redis.call('FLUSHDB') redis.call('SELECT', 0) \
                for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 1) end";
    hive.bench.command(&["EVAL", keep, "0"]).await;
}

/// Brings back what was kept, and nothing else.
pub(super) async fn restore(hive: &Redis) {
    let restore = "redis.call('FLUSHDB') redis.call('SELECT', 1) \
                   for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 0) end";
    hive.bench.command(&["EVAL", restore, "0"]).await;
}

async fn a_right_that_is_taken_away_shows_before_anything_is_written(hive: &Redis) {
    if !can_be_asked(hive).await {
        return;
    }
    let verbs = scene(hive).await;
    let limited = limited(hive, "~*").await;
    keep(hive).await;
    let mut complaints = Vec::new();
    for (name, verb) in &verbs {
        restore(hive).await;
        let before = quiet(hive).await;
        verb.run(&limited).await.expect("with all rights");
        let after = quiet(hive).await;
        assert!(before != after, "{name} changes something");
        for command in COMMANDS.split(' ') {
            restore(hive).await;
            hive.bench
                .command(&["ACL", "SETUSER", "bee", &format!("-{command}")])
                .await;
            let refused = verb.run(&limited).await;
            hive.bench
                .command(&["ACL", "SETUSER", "bee", &format!("+{command}")])
                .await;
            if !matches!(refused, Ok(()) | Err(Error::Refused { .. })) {
                complaints.push(format!("{name} without {command}: {refused:?}"));
            }
            if matches!(verb, Verb::Push(_)) && refused.is_err() && quiet(hive).await != before {
                complaints.push(format!(
                    "{name} without {command} is told as refused, and something was written"
                ));
            }
            // As a node does: the same call once more.
            if let Err(error) = verb.run(&limited).await {
                complaints.push(format!("{name} after {command} came back: {error}"));
            } else if command == "LPOP" && matches!(verb, Verb::Exchange(_)) {
                // What is finished is settled; nothing can be taken.
            } else if hive.engine().dump().await.ok().map(hushed).as_ref() != Some(&after) {
                complaints.push(format!("{name} without {command} leaves something else ({refused:?})"));
            }
        }
    }
    restore(hive).await;
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Nothing is lost with a bell.
fn hushed(state: State) -> State {
    State {
        bell: false,
        crown_bell: false,
        ..state
    }
}

pub(super) async fn quiet(hive: &Redis) -> State {
    hushed(hive.state().await)
}
