//! Signs that lie: nodes that live are seen to have died, a thousand times.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::Engine;
use queenright::engine::redis::RedisEngine;
use queenright::generate::Next;
use queenright::shutdown;
use queenright::{Effect, Message, Node, Settings};

use crate::server::RedisServer;

const NODES: usize = 5;
const LIARS: u64 = 4;
const LIES: u64 = 250;
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
    while engines[0].status().await.map_or(0, |status| status.nodes.len()) < NODES {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let liars: Vec<_> = (0..LIARS)
        .map(|seed| tokio::spawn(lie(engines.clone(), seed)))
        .collect();
    for liar in liars {
        liar.await.expect("no panic");
    }
    let status = loop {
        let status = engines[0].status().await.expect("a look");
        if status.done + status.failed >= MESSAGES {
            break status;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for (stopper, node) in nodes {
        stopper.stop();
        node.await.expect("no panic").expect("a node ends well");
    }
    println!("{} reigns, {} lies", status.epoch, LIARS * LIES);
    assert!(status.epoch > 10, "the lies were believed: {}", status.epoch);
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
