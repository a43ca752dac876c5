//! Messages that fail and are tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use queenright::engine::Engine;
use queenright::engine::memory::Local;
use queenright::generate::Next;
use queenright::{Failure, Message, Node, Settings, shutdown};

use crate::fleet::{Fleet, PATIENCE};
use crate::server::RedisServer;

fn retried_until_they_are_errors(plan: crate::fleet::Plan) {
    let fleet = plan
        .copies(3)
        .args("--interval 10ms --messages 20 --work 0 --error-rate 1 --retries 2 --backoff 20ms --lease 10s")
        .start();
    let status = fleet.wait_through(20);
    assert_eq!((status.failed, status.later), (20, 0), "{status:?}");
    fleet.wait_for("all lines are there", |lines| {
        let count = |event: &str| lines.iter().filter(|line| line.is(event)).count();
        count("error") >= 20 && count("retried") >= 40
    });
    let mut tries: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in fleet.lines().iter().filter(|line| line.is("retried")) {
        assert!(
            line.error.contains("--error-rate") && line.fields["after_ms"].is_u64(),
            "{line:?}"
        );
        let failures = line.fields["failures"].as_u64().expect("told");
        tries.entry(line.number.expect("numbered")).or_default().push(failures);
    }
    assert_eq!(tries.len(), 20);
    assert!(tries.values().all(|failures| *failures == [1, 2]), "{tries:?}");
    for error in fleet.errors() {
        assert_eq!(
            (&error["failures"], &error["deliveries"]),
            (&2.into(), &1.into()),
            "{error}"
        );
    }
}

#[test]
fn a_message_that_fails_is_tried_again_as_often_as_allowed_and_then_an_error() {
    let server = RedisServer::start();
    retried_until_they_are_errors(Fleet::on(&server));
}

#[test]
fn the_same_in_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    retried_until_they_are_errors(Fleet::in_file(&directory.path().join("queue.db")));
}

#[test]
fn what_is_put_off_survives_the_death_of_all_and_comes_when_the_next_one_is_there() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(2)
        .args("--interval 10ms --messages 5 --work 0 --error-rate 1 --retries 1 --backoff 2s --lease 1s")
        .start();
    fleet.wait_status("some are put off", |status| status.later > 0);
    fleet.kill9(0);
    fleet.kill9(1);
    fleet.add("--also-handle --error-rate 0");
    fleet.wait_through(5);
}

#[test]
fn a_handler_may_ask_for_another_try_whatever_the_settings_say() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let handle = move |message: Message| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if message.failures < 2 {
                return Err(Failure::retry_after("the service is busy", Duration::from_millis(1)));
            }
            Ok(Vec::new())
        }
    };
    let settings = Settings {
        interval: Duration::from_millis(1),
        messages: Some(3),
        also_handle: true,
        ..Settings::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let engine = Arc::new(Local::new("jobs"));
        let (stopper, shutdown) = shutdown::channel();
        let node = Node::new(engine.clone(), settings, |_: Next| Vec::new(), handle);
        let running = tokio::spawn(node.run(shutdown));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while engine.status().await.map_or(0, |status| status.done) < 3 {
            assert!(tokio::time::Instant::now() < deadline, "{:?}", engine.status().await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stopper.stop();
        running.await.expect("no panic").expect("it ends well");
        assert_eq!(engine.status().await.expect("a queue").failed, 0);
    });
    assert_eq!(calls.load(Ordering::Relaxed), 9, "three tries each");
}
