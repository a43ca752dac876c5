//! Something else comes to stand in the place of one of the queue's keys, just when someone who holds messages dies or stops, or errors are put in
//! again: when it is gone, every message has an outcome, and all of them are counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::{Engine, Reap};
use queenright::{Next, Settings};
use redis::Connection;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::damage::{BAD, LEASE, Told, node, patient, put, until};
use crate::server::RedisServer;

/// Messages in hand when it happens.
const HELD: usize = 10;

/// How the holder ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Killed,
    Stopped,
}

struct Scene {
    server: RedisServer,
    settings: Settings,
    engine: Arc<RedisEngine>,
    connection: Connection,
    told: Arc<Told>,
    gate: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

impl Scene {
    fn new() -> Self {
        let server = RedisServer::start();
        let settings = Settings {
            queue: "foreign".into(),
            lease: LEASE,
            ..Settings::default()
        };
        let client = redis::Client::open(server.url()).expect("a client");
        Self {
            engine: Arc::new(patient(&server, &settings)),
            connection: client.get_connection().expect("a connection"),
            server,
            settings,
            told: Arc::default(),
            gate: watch::channel(true).0,
            stop: watch::channel(false).0,
        }
    }

    /// A node on a runtime of its own, with which all of it can die. It handles, or keeps house.
    fn node(&self, stop: &watch::Sender<bool>, told: &Arc<Told>, handles: bool) -> Runtime {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let node = node(
            self.server.url(),
            &self.settings.queue,
            told.clone(),
            self.gate.subscribe(),
        );
        let node = node.settings(|settings| settings.grace = Duration::from_millis(50));
        let mut stopped = stop.subscribe();
        let stopped = async move { _ = stopped.wait_for(|stopped| *stopped).await };
        if handles {
            runtime.spawn(node.run_until(stopped));
        } else {
            let node = node.generate(|_: Next| std::future::pending::<String>());
            runtime.spawn(node.run_until(stopped));
        }
        runtime
    }

    fn run(&mut self, name: &str, key: &str, args: &[&str]) {
        let mut cmd = redis::cmd(name);
        cmd.arg(key).arg(args);
        cmd.exec(&mut self.connection).expect("a command of the test");
    }

    async fn in_hand(&self) -> u64 {
        self.engine.status().await.expect("a look").in_hand
    }

    /// All have been handled, once each, and are counted.
    async fn all_are_done(&self, numbers: &BTreeSet<u64>) {
        until("all have their outcome", async || self.told.has(numbers)).await;
        let all = numbers.len() as u64;
        until("all are counted", async || {
            let status = self.engine.status().await.expect("a look");
            (status.done, status.queued, status.in_hand) == (all, 0, 0)
        })
        .await;
        assert!(self.told.outcomes.lock().unwrap().values().all(|times| *times == 1));
    }
}

async fn nothing_is_lost(key: fn(&Keys) -> &String, end: End) {
    let mut scene = Scene::new();
    let keeper = scene.node(&scene.stop, &scene.told, false);
    let (holder_told, holder_stop) = (Arc::<Told>::default(), watch::channel(false).0);
    let holder = scene.node(&holder_stop, &holder_told, true);
    let early = put(&scene.engine, &scene.settings, vec!["early"; 3]).await;
    until("the first have their outcome", async || holder_told.has(&early)).await;
    scene.gate.send_replace(false);
    let held = put(&scene.engine, &scene.settings, vec!["held"; HELD]).await;
    until("some are in hand", async || scene.in_hand().await > 0).await;
    let key = key(scene.engine.keys()).clone();
    scene.run("SET", &key, &["something else"]);
    let name = holder_told
        .nodes
        .lock()
        .unwrap()
        .first()
        .expect("it has joined")
        .clone();
    if end == End::Stopped {
        holder_stop.send_replace(true);
        until("it has gone", async || Arc::strong_count(&holder_told) == 1).await;
    }
    holder.shutdown_background();
    until("what it held cannot be handed on", async || {
        scene.engine.reap(&Reap::of(&name)).await.is_err()
    })
    .await;
    scene.run("DEL", &key, &[]);
    scene.gate.send_replace(true);
    let taker = scene.node(&scene.stop, &scene.told, true);
    until("the rest has its outcome", async || scene.told.has(&held)).await;
    let mut outcomes = scene.told.outcomes.lock().unwrap().clone();
    outcomes.append(&mut holder_told.outcomes.lock().unwrap());
    *scene.told.outcomes.lock().unwrap() = outcomes;
    scene.all_are_done(&early.union(&held).copied().collect()).await;
    for runtime in [keeper, taker] {
        runtime.shutdown_background();
    }
}

#[tokio::test]
async fn what_a_killed_node_held_outlasts_a_key_of_another_type() {
    nothing_is_lost(|keys| &keys.again, End::Killed).await;
}

#[tokio::test]
async fn what_a_stopped_node_held_outlasts_a_key_of_another_type() {
    nothing_is_lost(|keys| &keys.dead, End::Stopped).await;
}

#[tokio::test]
async fn an_error_outlasts_a_requeue_that_meets_a_key_of_another_type() {
    let mut scene = Scene::new();
    let keeper = scene.node(&scene.stop, &scene.told, true);
    let bad = put(&scene.engine, &scene.settings, vec![BAD]).await;
    until("it has failed", async || scene.told.has(&bad)).await;
    let (key, number) = (scene.engine.keys().again.clone(), *bad.first().expect("one"));
    scene.run("SET", &key, &["something else"]);
    let refused = scene.engine.requeue(&[number]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(
        scene.engine.failed(0, 9).await.expect("a look").len(),
        1,
        "it is still there"
    );
    scene.run("DEL", &key, &[]);
    assert_eq!(
        scene.engine.requeue(&[number]).await.expect("an answer").numbers,
        [number]
    );
    until("it has failed once more", async || {
        scene.told.outcomes.lock().unwrap().get(&number) == Some(&2)
    })
    .await;
    keeper.shutdown_background();
}
