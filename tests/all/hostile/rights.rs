//! Rights are taken away from a fleet at work and given back, one command at a time: nothing is lost, nothing happens twice, and
//! no node ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use queenright::engine::redis::ACL_LINE;
use queenright::engine::{Engine, Item};
use queenright::{Effect, Failure, Message, Next, Settings, push};
use tokio::sync::watch;

use super::damage::{BAD, LEASE, Told, node, patient, until};
use crate::server::RedisServer;

/// Every command that a node at work sends or its scripts call.
const COMMANDS: &str = "hset hsetnx hdel hget hincrby hkeys hmget blpop lindex llen lpop lpos lpush lrange lrem ltrim rpush zadd zcard \
                        zrange zrangebyscore zrem zremrangebyrank zcount hstrlen hexists zscore evalsha type time del incrby get";

/// A message that is 6 KB large, fails, fails at first, or adds to a counter.
async fn handle(message: Message) -> Result<Vec<Effect>, Failure> {
    if message.payload == BAD {
        return Err(Failure::from(BAD));
    }
    if message.number % 10 == 3 && message.failures == 0 {
        return Err(Failure::retry_after("later", Duration::from_millis(5)));
    }
    Ok(vec![Effect::add("count", 1)])
}

#[test]
fn a_fleet_loses_nothing_when_a_right_is_taken_away_for_a_while() {
    let server = RedisServer::start();
    if server.command(&["ACL", "DRYRUN", "default", "PING"]).is_err() {
        // Redis 6.2 cannot be asked what a user may do.
        return;
    }
    let line = ACL_LINE.replace("NAME", "bee").replace("PASSWORD", "honey");
    let line = line.replace("~{qr:QUEUE}:*", "~{qr:rights}:* ~count +get +set +incrby");
    server.command(&line.split(' ').collect::<Vec<_>>()).expect("a user");
    let url = format!("redis://bee:honey@127.0.0.1:{}", server.port());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(works_on(&server, url));
}

#[test]
fn a_node_that_may_not_leave_does_not_say_that_it_has_left() {
    let server = RedisServer::start();
    if server.command(&["ACL", "DRYRUN", "default", "PING"]).is_err() {
        // Redis 6.2 cannot be asked what a user may do: there it leaves.
        return;
    }
    let line = ACL_LINE.replace("NAME", "bee").replace("PASSWORD", "honey");
    let line = line.replace("QUEUE", "leave");
    server.command(&line.split(' ').collect::<Vec<_>>()).expect("a user");
    let url = format!("redis://bee:honey@127.0.0.1:{}", server.port());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let settings = Settings {
            queue: "leave".into(),
            lease: LEASE,
            ..Settings::default()
        };
        let (told, (_open, opened)) = (Arc::new(Told::default()), watch::channel(true));
        let (stop, mut stopped) = watch::channel(false);
        let node = node(url, "leave", told.clone(), opened).run_until(async move {
            _ = stopped.wait_for(|stopped| *stopped).await;
        });
        let node = tokio::spawn(node);
        until("it has joined", async || told.nodes.lock().unwrap().len() == 1).await;
        server
            .command(&["ACL", "SETUSER", "bee", "-lrem"])
            .expect("a right less");
        stop.send_replace(true);
        node.await.expect("no panic").expect("a node ends well");
        let status = patient(&server, &settings).status().await.expect("a look");
        let lines = told.lines.lock().unwrap();
        assert_eq!(status.nodes.len(), 1, "without the right it cannot leave");
        assert!(!lines.contains(&"Left".to_string()), "{lines:?}");
    });
}

async fn works_on(server: &RedisServer, url: String) {
    let settings = Settings {
        queue: "rights".into(),
        lease: LEASE,
        ..Settings::default()
    };
    let (told, (stop, stopped)) = (Arc::new(Told::default()), watch::channel(false));
    let made = Arc::new(AtomicU64::new(0));
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let (mut stopped, made) = (stopped.clone(), made.clone());
        let node = queenright::on(url.clone())
            .queue("rights")
            .concurrency(20)
            .observer(told.clone())
            .settings(|settings| {
                settings.lease = LEASE;
                settings.retries = 3;
                settings.backlog_max = 2000;
            })
            .generate(move |next: Next| {
                made.fetch_add(1, Ordering::Relaxed);
                let payload = match next.number % 50 {
                    7 => BAD.into(),
                    8 => "x".repeat(6000),
                    number => number.to_string(),
                };
                async move {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                    payload
                }
            })
            .handle(handle)
            .also_handle();
        nodes.push(tokio::spawn(node.run_until(async move {
            _ = stopped.wait_for(|stopped| *stopped).await;
        })));
    }
    let engine = patient(server, &settings);
    until("all have joined", async || told.nodes.lock().unwrap().len() == 3).await;
    for command in COMMANDS.split(' ') {
        let before = told.outcomes.lock().unwrap().len();
        server
            .command(&["ACL", "SETUSER", "bee", &format!("-{command}")])
            .expect("a right less");
        let items = [
            Item::new("pushed"),
            Item::new("pushed").delay(Duration::from_millis(20)),
        ];
        push::push(&engine, &settings, Duration::from_mins(1), &items)
            .await
            .expect("as another user");
        tokio::time::sleep(Duration::from_millis(60)).await;
        server
            .command(&["ACL", "SETUSER", "bee", &format!("+{command}")])
            .expect("it is back");
        until(&format!("work goes on after {command}"), async || {
            told.outcomes.lock().unwrap().len() > before + 20
        })
        .await;
        for node in &nodes {
            assert!(
                !node.is_finished(),
                "without {command} a node has ended: {:?}",
                told.lines.lock().unwrap()
            );
        }
    }
    engine.pause(Some(true), None).await.expect("no more messages");
    until("all have their outcome", async || {
        let status = engine.status().await.expect("a look");
        let waits = status.queued + status.in_hand + status.later;
        assert_eq!(status.missing, 0, "{status:?}");
        waits == 0 && status.done + status.failed == status.published
    })
    .await;
    stop.send_replace(true);
    for node in nodes {
        node.await.expect("no panic").expect("a node ends well");
    }
    let status = engine.status().await.expect("a look");
    let outcomes = told.outcomes.lock().unwrap().clone();
    let twice: BTreeSet<_> = outcomes.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let count: u64 = redis::from_redis_value(server.command(&["GET", "count"]).expect("a counter")).expect("a number");
    assert_eq!(
        (count, status.damaged, status.missing),
        (status.done, 0, 0),
        "{status:?}"
    );
}
