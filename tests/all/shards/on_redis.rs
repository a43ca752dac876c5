//! The same nodes on hash tags of one Redis.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use queenright::engine::any::AnyEngine;
use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::sharded::{Sharded, shard_of};
use queenright::engine::{Engine, Found, Item, Purged, Push, Pushed, Receipt};
use queenright::error::Error;
use queenright::generate::Next;
use queenright::settings::Names;
use queenright::shutdown::Shutdown;
use queenright::{Message, Node, Settings, failed, push, shutdown};
use tokio::task::JoinHandle;

use crate::fleet::PATIENCE;
use crate::server::RedisServer;

const SHARDS: usize = 4;
const MESSAGES: u64 = 20_000;
const PUSHED: u64 = 40;

fn queue(server: &RedisServer) -> Arc<Sharded<RedisEngine>> {
    let shard = |shard| {
        let keys = Keys::new("jobs", &Names::default().of_shard(shard, SHARDS));
        Arc::new(RedisEngine::new(&server.server(), keys).expect("an address"))
    };
    Arc::new(Sharded::new((0..SHARDS).map(shard).collect()).expect("a few"))
}

/// The numbers and payloads that were handled.
type Seen = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

fn start(server: &RedisServer, shutdown: &Shutdown, seen: &Seen) -> JoinHandle<queenright::Result<()>> {
    let settings = Settings {
        interval: Duration::ZERO,
        messages: Some(MESSAGES),
        concurrency: 4,
        ..Settings::default()
    };
    let seen = seen.clone();
    let handle = move |message: Message| {
        let seen = seen.clone();
        async move {
            seen.lock()
                .expect("whole")
                .push((message.number, message.payload.to_vec()));
            if message.payload.ends_with(b"13") {
                return Err("thirteen".into());
            }
            Ok(Vec::new())
        }
    };
    let generate = |next: Next| next.made.to_string().into_bytes();
    let node = Node::new(queue(server), settings, generate, handle);
    tokio::spawn(node.run(shutdown.clone()))
}

/// Pushes forty messages with keys, twice.
async fn push_forty(whole: &Sharded<RedisEngine>) {
    let push = Push {
        call: "once".into(),
        keep_ms: 60_000,
        backlog_max: 1_000_000,
        birth: "birth".into(),
        step_ms: 600,
        server: String::new(),
        only_known: false,
        items: (0..PUSHED).map(|i| Item::new("pushed").key(format!("k{i}"))).collect(),
    };
    let receipts = loop {
        match whole.push(&push).await.expect("pushed") {
            Pushed::Ok(receipts) => break receipts,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert_eq!(whole.push(&push).await.expect("again"), Pushed::Ok(receipts));
}

/// Each message of the generator came once, under a number of its own.
fn all_came_once(mut seen: Vec<(u64, Vec<u8>)>) {
    seen.retain(|(_, payload)| payload != b"pushed");
    let count = |(_, text): &(u64, Vec<u8>)| String::from_utf8_lossy(text).parse().expect("a count");
    let mut made: Vec<u64> = seen.iter().map(count).collect();
    made.sort_unstable();
    assert_eq!(made, (0..MESSAGES).collect::<Vec<_>>());
    let mut numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, MESSAGES);
}

/// Errors of all shards are read as those of one queue.
async fn errors_are_one_list(whole: &Arc<Sharded<RedisEngine>>, failures: u64) {
    let first = whole.failed(0, 1000).await.expect("errors");
    let is_sorted = first.windows(2).all(|pair| pair[0].number < pair[1].number);
    assert!(is_sorted, "in the order of their numbers");
    let mut last = whole.latest(u64::MAX, 1000).await.expect("errors");
    last.reverse();
    assert_eq!((first.len() as u64, &first), (failures, &last));
    let some: Vec<u64> = [&first[0], &first[first.len() - 1]].map(|failed| failed.number).into();
    assert_ne!(shard_of(some[0]), shard_of(some[1]));
    assert_eq!(whole.discard(&some).await.expect("removed"), some);
    let shown = failed::collect(whole.clone(), None, |_: &[_]| Ok(())).await;
    assert_eq!(shown.expect("shown"), failures - 2);
}

#[test]
fn four_shards_on_one_redis_are_one_queue() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (seen, (stopper, shutdown)) = (Seen::default(), shutdown::channel());
        let running: Vec<_> = (0..3).map(|_| start(&server, &shutdown, &seen)).collect();
        let whole = queue(&server);
        push_forty(&whole).await;
        let all = MESSAGES + PUSHED;
        let through = async {
            loop {
                let status = whole.status().await.expect("a look");
                if status.done + status.failed == all {
                    break status;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let status = tokio::time::timeout(PATIENCE, through).await.expect("all are settled");
        assert_eq!((status.published, status.queued, status.in_hand), (all, 0, 0));
        assert_eq!((status.nodes.len(), status.shards.len()), (3, SHARDS));
        assert_eq!(whole.published().await.expect("a count"), all);
        assert!(status.shards.iter().all(|shard| shard.published > 0));
        assert!(status.generator.is_some());
        all_came_once(std::mem::take(&mut *seen.lock().expect("whole")));
        assert_eq!(status.failed, MESSAGES / 100);
        errors_are_one_list(&whole, status.failed).await;

        let alone = RedisEngine::new(&server.server(), Keys::new("jobs", &Names::default())).expect("an address");
        let refused = alone.status().await.expect_err("it is a part of a queue");
        assert!(
            matches!(
                refused,
                Error::OtherShards {
                    recorded: 4,
                    given: 1,
                    ..
                }
            ),
            "{refused}"
        );

        assert!(matches!(whole.purge(false).await.expect("a purge"), Purged::Alive(3)));
        stopper.stop();
        for node in running {
            node.await.expect("no panic").expect("it ends well");
        }
        assert_eq!(whole.purge(false).await.expect("a purge"), Purged::Gone);
    });
    let keys = server.command(&["KEYS", "*meta"]).expect("keys");
    assert_eq!(format!("{keys:?}"), "array([])");
}

/// In a program: with the number of shards that there is since a reshard, which was opened while the home shard was away.
#[tokio::test]
async fn a_program_that_has_not_reached_the_home_shard_puts_nothing_in_elsewhere() {
    let mut servers = [RedisServer::durable(), RedisServer::durable()];
    let settings = |shards| {
        let mut settings = Settings::default();
        settings.names.shards = shards;
        settings
    };
    let urls = [servers[0].url(), servers[1].url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let open = |urls: &[&str], shards| AnyEngine::open_shards(urls, &settings(shards)).expect("two addresses");
    let first = open(&urls, 2);
    let item = |i: usize| Item::new(format!("p{i}")).key(format!("k{i}"));
    let all: Vec<Item> = (0..20).map(item).collect();
    let keep = Duration::from_mins(1);
    let receipts = push::push(&first, &settings(2), keep, &all).await.expect("pushed");
    let elsewhere: Vec<u64> = receipts
        .iter()
        .map(|receipt| receipt.number)
        .filter(|number| shard_of(*number) == 1)
        .collect();
    let number = *elsewhere.first().expect("some are there");

    // All others are there, so it is as many as there are.
    servers[0].kill();
    assert_eq!(open(&urls, 2).find(number).await, Ok(Found::Queued));
    servers[0].restart();
    first.reshard_to(5).await.expect("another number");

    // Whoever has not asked the home shard does not say that a message is not there, nor puts one in.
    servers[0].kill();
    let late = open(&urls, 5);
    let refused = [
        late.find(number).await.map(drop),
        late.cancel(&[number]).await.map(drop),
        late.requeue(&[number]).await.map(drop),
        late.endings(&[number]).await.map(drop),
        late.await_ending(number, Duration::from_millis(1)).await.map(drop),
    ];
    for (place, refused) in refused.iter().enumerate() {
        assert!(refused.as_ref().is_err_and(Error::is_away), "{place}: {refused:?}");
    }
    // Those who have asked it go on.
    assert_eq!(first.find(number).await, Ok(Found::Queued));
    let back = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        servers[0].restart();
    };
    let settings = settings(5);
    let (again, ()) = tokio::join!(push::push(&late, &settings, keep, &all), back);
    let again = again.expect("pushed");
    let numbers = |receipts: &[Receipt]| receipts.iter().map(|receipt| receipt.number).collect::<Vec<_>>();
    assert_eq!(numbers(&again), numbers(&receipts), "each is known");
    let free: Vec<Item> = (0..9).map(|_| Item::new("free")).collect();
    for item in free {
        push::push(&open(&urls, 5), &settings, keep, &[item])
            .await
            .expect("pushed");
    }
    assert_eq!(first.published().await, Ok(29));
}
