//! What only Redis can be asked: full memory, forgotten scripts, replicas, credentials, foreign keys.

use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::{
    Beat, Collect, Collected, Engine, Exchange, Exchanged, Figures, Item, Join, Live, Publish, Published, Purged,
    Range, Reap, Renewed, Report, Wake,
};
use queenright::error::Error;
use queenright::message::{Effect, Outcome};
use queenright::settings::Names;

use super::bench::QUEUE;
use super::calm::a_calm_member_costs_one_short_call;
use super::hive::{LEASE_MS, done, failure, numbers, whole, with};
use super::push::push_call;
use super::replaying::with_memory_full_what_is_settled_can_be_waited_for;
use super::rights::grant;
use super::{Bench, Check, Hive, RedisBench};
use crate::server::RedisServer;

macro_rules! redis_checks {
    ($($check:ident),+ $(,)?) => {
        pub fn checks() -> Vec<Check<RedisBench>> {
            vec![$(Check { name: stringify!($check), run: |hive| Box::pin($check(hive)) }),+]
        }
    };
}
pub(super) use redis_checks;

redis_checks![
    with_memory_full_nodes_join_beat_and_leave,
    with_memory_full_work_in_hand_is_settled,
    with_memory_full_what_a_settle_publishes_is_numbered,
    with_memory_full_the_dead_are_handed_on,
    with_memory_full_errors_are_collected,
    with_memory_full_errors_are_requeued,
    with_memory_full_a_queue_is_paused_and_handed_over,
    with_memory_full_nothing_is_published,
    with_memory_full_what_is_settled_can_be_waited_for,
    with_memory_full_nothing_is_pushed,
    a_backlog_of_many_packs_is_read_in_pages,
    a_push_into_a_foreign_key_is_refused,
    forgotten_scripts_are_sent_again,
    a_foreign_key_is_refused,
    an_effect_on_a_foreign_type_is_refused,
    an_error_that_cannot_be_read_costs_no_other,
    what_waits_is_not_lost_where_a_node_cannot_be_read,
    every_verb_works_with_the_rights_that_a_node_needs,
    a_replica_is_away,
    wrong_credentials_are_refused_without_telling_them,
    a_server_that_evicts_is_refused,
    a_calm_member_costs_one_short_call,
    a_look_that_does_not_reach_everybody_forgets_nobody,
];

pub(super) type Redis = Hive<RedisBench>;

pub(super) async fn fill_memory(hive: &Redis) {
    hive.bench.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
}

pub(super) async fn free_memory(hive: &Redis) {
    hive.bench.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
}

/// The test's clock is a key too, and cannot be set while memory is full.
async fn jump(hive: &Redis, ms: i64) {
    free_memory(hive).await;
    hive.jump(ms).await;
    fill_memory(hive).await;
}

async fn with_memory_full_nodes_join_beat_and_leave(hive: &Redis) {
    fill_memory(hive).await;
    hive.found("a", &["b"]).await;
    jump(hive, 100).await;
    hive.beat("b").await;
    assert!(hive.beat("a").await.generator);
    hive.engine().leave(&"a".into()).await.expect("leave");
    assert!(hive.beat("b").await.generator);
    assert_eq!(hive.status().await.nodes.len(), 1);
}

async fn with_memory_full_work_in_hand_is_settled(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[3, 1, 1]).await;
    let packs = hive.take("b", 1).await;
    fill_memory(hive).await;
    assert_eq!(hive.take("b", 0).await, [], "a call that does nothing");
    let next = hive
        .exchange(
            "b",
            vec![whole(&packs[0], &with(&[Effect::Add { key: "n".into(), by: 1 }]))],
            9,
        )
        .await;
    assert_eq!(numbers(&next), [1, 2, 3, 4]);
    let returned = next
        .iter()
        .map(|pack| whole(pack, &queenright::message::Outcome::Return))
        .collect();
    hive.exchange("b", returned, 0).await;
    let next = hive.take("b", 9).await;
    hive.exchange("b", vec![whole(&next[0], &super::hive::failure())], 9)
        .await;
    assert_eq!(hive.take("b", 9).await, [], "an empty take");
    let status = hive.status().await;
    assert_eq!((status.done, status.failed, status.in_hand), (1, 2, 2));
}

/// As all effects. The server is another one, so that members are waited for first.
async fn with_memory_full_what_a_settle_publishes_is_numbered(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    fill_memory(hive).await;
    let mut call = hive.next_call("b", 0, vec![whole(&packs[0], &with(&[Effect::publish("next")]))], 1);
    call.server = "s2".into();
    assert_eq!(hive.call(&call).await, Exchanged::Unheard);
    for node in ["a", "b"] {
        let beat = Beat {
            server: "s2".into(),
            ..Redis::beat_call(node)
        };
        hive.engine().beat(&beat).await.expect("a beat");
    }
    assert!(matches!(hive.call(&call).await, Exchanged::Ok { packs, .. } if numbers(&packs) == [1]));
}

async fn with_memory_full_the_dead_are_handed_on(hive: &Redis) {
    hive.found("a", &["c"]).await;
    hive.join_for("b", 1).await;
    hive.publish("a", &[3]).await;
    hive.take("b", 1).await;
    hive.take("c", 1).await;
    hive.pass(LEASE_MS - 100, &["a", "c"]).await;
    fill_memory(hive).await;
    jump(hive, 100).await;
    assert_eq!(hive.beat("a").await.victim.as_deref(), Some("b"));
    assert_eq!(hive.reap("b").await.failed, 1);
    hive.engine().leave(&"c".into()).await.expect("leave");
    assert_eq!(hive.reap("c").await.redelivered, 1);
    assert_eq!(hive.reap("c").await.redelivered, 0);
    let status = hive.status().await;
    assert_eq!((status.failed, status.queued, status.in_hand), (1, 2, 0));
}

async fn with_memory_full_errors_are_collected(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 6).await;
    fill_memory(hive).await;
    assert_eq!(hive.batch("one", 1, 2).await, [0, 1]);
    assert_eq!(hive.batch("one", 1, 2).await, [0, 1], "repeated");
    assert!(hive.engine().hold("one", LEASE_MS).await.expect("hold"));
    assert_eq!(hive.batch("one", 2, 2).await, [2, 3]);
    hive.engine().release("one", false).await.expect("release");
    assert_eq!(hive.batch("two", 1, 9).await, [2, 3, 4, 5]);
    assert!(matches!(hive.collect("two", 2, 0).await, Collected::Batch { .. }));
    assert_eq!(hive.status().await.errors, 0);
}

async fn with_memory_full_nothing_is_published(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let call = hive.publish_call("a", &[2]).await;
    hive.rung(queenright::engine::Wake::Bell).await;
    let before = hive.state().await;
    fill_memory(hive).await;
    let answer = hive.engine().publish(&call).await;
    assert!(
        matches!(&answer, Err(Error::Away { reason, .. }) if reason.contains("OOM")),
        "{answer:?}"
    );
    free_memory(hive).await;
    assert_eq!(hive.state().await, before);
    assert!(
        matches!(hive.send(&call).await, Published::Ok { seq: 3, .. }),
        "the same call, when there is room"
    );
}

async fn with_memory_full_a_queue_is_paused_and_handed_over(hive: &Redis) {
    hive.found("a", &["b"]).await;
    fill_memory(hive).await;
    hive.engine().pause(Some(true), None).await.expect("pause");
    hive.engine().handover(Some("b")).await.expect("handover");
    assert!(hive.beat("b").await.generator);
    let later = queenright::settings::Names::default().resharded(2, 1);
    assert!(hive.bench.reshard_with(&later, "s1").await.expect("reshard"));
    hive.engine().purge(true).await.expect("purge");
}

async fn with_memory_full_errors_are_requeued(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 2).await;
    fill_memory(hive).await;
    assert_eq!(hive.engine().requeue(&[0]).await.expect("requeue").numbers, [0]);
    assert_eq!(hive.engine().discard(&[1]).await.expect("discard"), [1]);
    assert_eq!(hive.status().await.queued, 1);
}

async fn with_memory_full_nothing_is_pushed(hive: &Redis) {
    let items = [
        Item::new("x"),
        Item::new("y").key("k"),
        Item::new("z").delay(std::time::Duration::from_secs(1)),
    ];
    for founded in [false, true] {
        let before = hive.state().await;
        for items in [&items[..], &items[2..]] {
            fill_memory(hive).await;
            let answer = hive.engine().push(&push_call("p", items.to_vec())).await;
            assert!(
                matches!(&answer, Err(Error::Away { reason, .. }) if reason.contains("OOM")),
                "{answer:?}"
            );
            assert_eq!(hive.state().await, before);
            free_memory(hive).await;
        }
        if !founded {
            hive.found("a", &[]).await;
        }
    }
}

async fn a_push_into_a_foreign_key_is_refused(hive: &Redis) {
    let later = hive.engine().keys().later.clone();
    hive.bench.command(&["SET", &later, "something"]).await;
    let answer = hive.engine().push(&push_call("p", vec![Item::new("x")])).await;
    assert!(
        matches!(&answer, Err(Error::ForeignKey { key, .. }) if *key == later),
        "{answer:?}"
    );
    hive.bench.command(&["DEL", &later]).await;
    assert_eq!(hive.state().await.meta, None, "nothing was written");
}

async fn forgotten_scripts_are_sent_again(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[2]).await;
    hive.bench.command(&["SCRIPT", "FLUSH"]).await;
    let packs = hive.take("b", 1).await;
    hive.bench.command(&["SCRIPT", "FLUSH"]).await;
    hive.exchange("b", vec![whole(&packs[0], &done())], 0).await;
    hive.bench
        .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        .await;
    // A connection that was cut is away once, then made anew; the call may be repeated.
    let call = hive.next_call("b", 0, Vec::new(), 1);
    let mut answer = hive.engine().exchange(&call).await;
    for _ in 0..5 {
        if !answer.as_ref().is_err_and(Error::is_away) {
            break;
        }
        answer = hive.engine().exchange(&call).await;
    }
    assert!(matches!(answer, Ok(Exchanged::Ok { packs, .. }) if numbers(&packs) == [1]));
    while hive.engine().status().await.is_err_and(|error| error.is_away()) {}
}

async fn a_foreign_key_is_refused(hive: &Redis) {
    for (key, kind) in [("queue", "string"), ("meta", "string"), ("errors:records", "string")] {
        let key = format!("{{qr:{QUEUE}}}:{key}");
        hive.bench.put(&key, b"not ours").await;
        let answer = hive.engine().join(&Redis::join_call("a")).await;
        let Err(Error::ForeignKey { key: named, found }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!((named.as_str(), found.as_str()), (key.as_str(), kind));
        hive.bench.command(&["DEL", &key]).await;
    }
    assert_eq!(
        hive.bench.command(&["DBSIZE"]).await,
        redis::Value::Int(1),
        "nothing but the clock"
    );
}

async fn a_look_that_does_not_reach_everybody_forgets_nobody(hive: &Redis) {
    hive.found("a", &["b"]).await;
    let look = async || hive.engine().gone(None).await.expect("a look").expect("it tells");
    assert_eq!(look().await.among, 2);
    // So many whose leases end first.
    let nodes = hive.engine().keys().nodes.clone();
    let others: Vec<String> = (0..5000).map(|other| format!("other-{other}")).collect();
    let scored = others.iter().flat_map(|other| ["0", other.as_str()]);
    let add: Vec<&str> = ["ZADD", nodes.as_str()].into_iter().chain(scored).collect();
    hive.bench.command(&add).await;
    assert!(look().await.among < others.len());
    hive.bench.hide("b").await;
    let others = others.iter().map(String::as_str);
    let remove: Vec<&str> = ["ZREM", nodes.as_str()].into_iter().chain(others).collect();
    hive.bench.command(&remove).await;
    assert_eq!(look().await.nodes, ["b"]);
}

async fn an_effect_on_a_foreign_type_is_refused(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let packs = hive.take("b", 1).await;
    hive.bench.command(&["ZADD", "test:zset", "1", "x"]).await;
    let push = Effect::Push {
        key: "test:zset".into(),
        value: b"v".to_vec(),
    };
    let (_, refused) = hive
        .exchange_fully("b", vec![whole(&packs[0], &with(&[push]))], 0)
        .await;
    assert_eq!(
        refused,
        [(0, "effect refused: key test:zset holds a zset, not a list".to_string())]
    );
}

async fn an_error_that_cannot_be_read_costs_no_other(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 4).await;
    let keys = Keys::new(QUEUE, &Names::default());
    hive.bench.command(&["HSET", &keys.records, "1", "rubbish"]).await;
    hive.bench.command(&["HDEL", &keys.records, "3"]).await;
    let shown = |failed: Vec<queenright::engine::Failed>| -> Vec<u64> { failed.iter().map(|one| one.number).collect() };
    assert_eq!(shown(hive.engine().failed(0, 9).await.expect("a look")), [0, 2]);
    assert_eq!(shown(hive.engine().latest(9, 9).await.expect("a look")), [2, 0]);
    assert_eq!(hive.engine().requeue(&[0, 1, 0]).await.expect("requeue").numbers, [0]);
    let collect = Collect {
        reader: "reader".into(),
        call: 1,
        shown: Vec::new(),
        below: 9,
        want: 9,
        lease_ms: LEASE_MS,
    };
    let batch = hive.engine().collect(&collect).await.expect("a batch");
    assert!(matches!(batch, Collected::Batch { failed, .. } if shown(failed.clone()) == [2]));
    let status = hive.engine().status().await.expect("a look");
    assert_eq!((status.damaged, status.errors), (2, 1));
}

async fn what_waits_is_not_lost_where_a_node_cannot_be_read(hive: &Redis) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1, 1]).await;
    hive.take("b", 1).await;
    hive.take("b", 1).await;
    let keys = Keys::new(QUEUE, &Names::default());
    let (b, c) = (keys.taken("b"), keys.taken("c"));
    for taken in [&b, &c] {
        hive.bench.command(&["HSET", taken, "process", "junk"]).await;
    }
    hive.bench.command(&["HDEL", &keys.meta, "clearing"]).await;
    assert_eq!(hive.bury("b", &["a", "c"]).await.redelivered, 2);
    assert_eq!(numbers(&hive.take("c", 9).await), [0, 1]);
    hive.bench.command(&["HSET", &keys.meta, "clearing", "0"]).await;
    hive.bench.command(&["EVAL", COPY, "2", &c, &keys.taken("a")]).await;
}

/// What a node is, as another one is.
const COPY: &str = "redis.call('HSET', KEYS[1], 'process', redis.call('HGET', KEYS[2], 'process'))";

async fn every_verb_works_with_the_rights_that_a_node_needs(hive: &Redis) {
    let url = grant(hive, &format!("~{{qr:{QUEUE}}}:*")).await;
    // In another database than 0, which needs a right too; with some bodies stored separately.
    let engine = engine(&hive.bench.server, &format!("{url}/1")).with_bodies_from(200);
    verbs_of_a_node(&engine).await.expect("the rights suffice");
    verbs_of_an_operator(&engine).await.expect("the rights suffice");
}

async fn verbs_of_a_node(engine: &RedisEngine) -> Result<(), Error> {
    engine.check().await?;
    engine.store_info().await?;
    engine.push(&push_call("p", vec![Item::new("x")])).await?;
    let join = Join {
        deliveries_max: 1,
        ..Redis::join_call("a")
    };
    engine.join(&join).await?;
    let Renewed::Alive(member) = engine.beat(&Redis::beat_call("a")).await? else {
        panic!("deposed");
    };
    let publish = Publish {
        node: "a".into(),
        epoch: member.epoch,
        made: 0,
        first: 1,
        messages: None,
        backlog_max: 1000,
        interval_ms: 0,
        cursor: None,
        server: "s1".into(),
        again: false,
        packs: super::hive::packs(1, member.epoch, 0, &[50, 1]),
    };
    let published = engine.publish(&publish).await?;
    assert!(matches!(published, Published::Ok { .. }), "{published:?}");
    let mut call = Exchange {
        node: "a".into(),
        lane: 0,
        call: 1,
        settles: Vec::new(),
        want: 60,
        want_bytes: u32::MAX,
        woken: false,
        ..Exchange::default()
    };
    let at_most = std::time::Duration::from_millis(1);
    let Exchanged::Ok { packs, .. } = engine.await_work(&call, at_most).await? else {
        panic!("refused");
    };
    assert_eq!(packs.len(), 3);
    engine.held("a", 9).await?;
    call.call = 2;
    let retry = Outcome::Retry {
        after_ms: 1,
        error: "later".into(),
    };
    let outcomes = [failure(), retry, failure()];
    call.settles = packs
        .iter()
        .zip(&outcomes)
        .map(|(pack, outcome)| whole(pack, outcome))
        .collect();
    let settled = engine.exchange(&call).await?;
    assert!(matches!(settled, Exchanged::Ok { .. }), "{settled:?}");
    let report = Report {
        node: "a".into(),
        number: 1,
        live: Live::default(),
        figures: Figures::default(),
        gauges: None,
    };
    engine.report(&report).await?;
    engine.listen(Wake::Crown, at_most).await?;
    engine.leave(&"a".into()).await?;
    let reap = Reap::of("a");
    engine.reap(&reap).await.map(drop)
}

async fn verbs_of_an_operator(engine: &RedisEngine) -> Result<(), Error> {
    assert!(engine.failed(0, 9).await?.len() == 2 && engine.latest(100, 9).await?.len() == 2);
    let collect = Collect {
        reader: "r".into(),
        call: 1,
        shown: Vec::new(),
        below: 100,
        want: 1,
        lease_ms: LEASE_MS,
    };
    engine.collect(&collect).await?;
    assert!(engine.hold("r", LEASE_MS).await?);
    engine.release("r", false).await?;
    assert_eq!(engine.requeue(&[0]).await?.numbers, [0]);
    engine.discard(&[99]).await?;
    assert_eq!(engine.trim(0).await?.len(), 1);
    engine.pause(Some(true), Some(false)).await?;
    engine.handover(None).await?;
    engine.history(Range::Hour).await?;
    assert_eq!(
        engine.unsettled().await?.len() as u64,
        engine.status().await?.queued + 50
    );
    assert_eq!(engine.purge(false).await?, Purged::Gone);
    Ok(())
}

/// More packs than values may be in an answer, and more bytes: as far as `--max-backlog` lets it come.
async fn a_backlog_of_many_packs_is_read_in_pages(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let keys = Keys::new(QUEUE, &Names::default());
    let more = "local pack = redis.call('LINDEX', KEYS[1], 0) \
                for i = 1, 300000 do redis.call('RPUSH', KEYS[1], pack) end";
    hive.bench.command(&["EVAL", more, "1", &keys.queue]).await;
    let large = "for i = 1, 70 do redis.call('HSET', KEYS[1], i, string.rep('x', 1000000)) end";
    hive.bench.command(&["EVAL", large, "1", &keys.bodies]).await;
    // The bodies belong to nobody, which is found only by those who could read them all.
    let found = hive.engine().unsettled().await;
    assert!(
        matches!(&found, Err(Error::Protocol { .. })) && format!("{found:?}").contains("but stubs of"),
        "{found:?}"
    );
    hive.bench.command(&["DEL", &keys.bodies]).await;
    assert_eq!(hive.engine().unsettled().await.expect("readable").len(), 300_001);
    // What compares the whole queue after every check reads it at once.
    hive.bench.command(&["LTRIM", &keys.queue, "0", "0"]).await;
}

async fn a_replica_is_away(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    let call = hive.publish_call("a", &[1]).await;
    let before = hive.state().await;
    // Of a primary that does not exist: it keeps what it has, and takes no writes.
    hive.bench.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let take = hive.next_call("b", 0, Vec::new(), 1);
    assert!(
        hive.engine()
            .beat(&Redis::beat_call("a"))
            .await
            .is_err_and(|error| error.is_away())
    );
    assert!(hive.engine().publish(&call).await.is_err_and(|error| error.is_away()));
    assert!(hive.engine().exchange(&take).await.is_err_and(|error| error.is_away()));
    hive.bench.command(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(hive.state().await, before);
    hive.beat("a").await;
    assert!(matches!(hive.call(&take).await, Exchanged::Ok { packs, .. } if packs.len() == 1));
}

async fn wrong_credentials_are_refused_without_telling_them(hive: &Redis) {
    let locked = RedisServer::with_args(&["--requirepass", "right-secret"]);
    let open = &hive.bench.server;
    let attempts = [
        (&locked, format!("redis://127.0.0.1:{}", locked.port())),
        (&locked, format!("redis://:wrong-secret@127.0.0.1:{}", locked.port())),
        (&locked, format!("redis://me:wrong-secret@127.0.0.1:{}", locked.port())),
        (open, format!("redis://me:wrong-secret@127.0.0.1:{}", open.port())),
    ];
    for (server, url) in attempts {
        let engine = engine(server, &url);
        for answer in [
            engine.check().await,
            engine.beat(&Redis::beat_call("a")).await.map(drop),
        ] {
            let Err(error @ Error::Refused { .. }) = answer else {
                panic!("{url}: {answer:?}")
            };
            let told = format!("{error} {error:?}");
            assert!(told.contains("REDIS_PASS"), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }
    let right = engine(&locked, &format!("redis://:right-secret@127.0.0.1:{}", locked.port()));
    right.check().await.expect("the right password");
}

pub(super) fn engine(server: &RedisServer, url: &str) -> RedisEngine {
    let keys = Keys::new(QUEUE, &Names::default());
    RedisEngine::new(&server.server_as(url), keys).expect("a URL")
}

async fn a_server_that_evicts_is_refused(hive: &Redis) {
    hive.engine().check().await.expect("fine as it is");
    hive.bench.command(&["CONFIG", "SET", "maxmemory", "100000000"]).await;
    hive.engine().check().await.expect("a limit alone evicts nothing");
    hive.bench
        .command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .await;
    let answer = hive.engine().check().await;
    assert!(
        matches!(&answer, Err(Error::Evicts { policy, .. }) if policy == "allkeys-lru"),
        "{answer:?}"
    );
}
