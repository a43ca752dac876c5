//! Signs that lie: nodes that live are seen to have died, a thousand times.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::redis::RedisEngine;
use queenright::engine::{Engine, Status};
use queenright::generate::Next;
use queenright::shutdown;
use queenright::{Effect, Message, Node, Settings};

use crate::fleet::PATIENCE;
use crate::server::RedisServer;

const NODES: usize = 5;
const LIARS: u64 = 8;
const LIES: u64 = 125;
const MESSAGES: u64 = 3000;

fn settings() -> Settings {
    Settings {
        queue: "suspicions".into(),
        interval: Duration::from_millis(3),
        messages: Some(MESSAGES),
        concurrency: 4,
        lease: Duration::from_secs(4),
        deliveries_max: 1000,
        ..Settings::default()
    }
}

/// Lets the sign of one node after the other vanish for a while, although it lives.
async fn lie(engines: Arc<Vec<Arc<RedisEngine>>>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..LIES {
        let status = engines[0].status().await.expect("a look");
        let Some(victim) = rng.choice(&status.nodes).map(|node| node.node.clone()) else {
            continue;
        };
        let mut hidden = None;
        for engine in engines.iter() {
            if engine.show(&victim, false).await.expect("the server answers") {
                hidden = Some(engine);
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(50..150))).await;
        if let Some(engine) = hidden {
            engine.show(&victim, true).await.expect("the server answers");
        }
    }
}

/// Looks again and again until the status is as described.
async fn until(engine: &RedisEngine, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
    let looking = async {
        loop {
            match engine.status().await {
                Ok(status) if holds(&status) => break status,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect(what)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_wrong_suspicions_lose_nothing_and_settle_nothing_twice() {
    let server = RedisServer::start();
    let (mut engines, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let engine = Arc::new(RedisEngine::open(&server.url(), &settings()).expect("an engine"));
        let generate = |next: Next| next.number.to_string().into_bytes();
        let handle = |message: Message| async move {
            let add = |key: String| Effect::Add { key, by: 1 };
            Ok(vec![add("all".into()), add(format!("n:{}", message.number))])
        };
        let (stopper, shutdown) = shutdown::channel();
        let node = Node::new(engine.clone(), settings(), generate, handle);
        nodes.push((stopper, tokio::spawn(node.run(shutdown))));
        engines.push(engine);
    }
    let engines = Arc::new(engines);
    until(&engines[0], "all have joined", |status| status.nodes.len() == NODES).await;
    let liars: Vec<_> = (0..LIARS)
        .map(|seed| tokio::spawn(lie(engines.clone(), seed)))
        .collect();
    for liar in liars {
        liar.await.expect("no panic");
    }
    let status = until(&engines[0], "all have their outcome", |status| {
        status.done + status.failed >= MESSAGES
    })
    .await;
    for (stopper, node) in nodes {
        stopper.stop();
        node.await.expect("no panic").expect("a node ends well");
    }
    println!("{} reigns, {} lies", status.epoch, LIARS * LIES);
    assert!(status.epoch > 5, "the lies were believed: {}", status.epoch);
    assert_eq!(
        (status.published, status.done, status.failed, status.missing),
        (MESSAGES, MESSAGES, 0, 0)
    );
    let count = |key: &str| server.command(&["GET", key]).expect("a count");
    let number = |value| redis::from_redis_value::<u64>(value).expect("a number");
    assert_eq!(number(count("all")), MESSAGES);
    for message in 0..MESSAGES {
        assert_eq!(number(count(&format!("n:{message}"))), 1, "{message}");
    }
}
