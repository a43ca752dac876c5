//! What a look costs Redis: nothing that grows with what nodes hold.

use std::sync::Arc;

use queenright::engine::Engine;

use super::{Check, Hive, RedisBench};

pub fn checks() -> Vec<Check<RedisBench>> {
    vec![
        Check {
            name: "a_look_at_a_queue_does_not_go_through_what_nodes_hold",
            run: |hive| Box::pin(a_look_at_a_queue_does_not_go_through_what_nodes_hold(hive)),
        },
        Check {
            name: "a_reader_of_errors_does_not_look_at_nodes",
            run: |hive| Box::pin(a_reader_of_errors_does_not_look_at_nodes(hive)),
        },
    ]
}

/// The commands that were called since the last time, also by scripts.
async fn called(hive: &Hive<RedisBench>) -> Vec<String> {
    let info: String = redis::from_redis_value(hive.bench.command(&["INFO", "commandstats"]).await).expect("text");
    hive.bench.command(&["CONFIG", "RESETSTAT"]).await;
    let names = info.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
    names
        .filter_map(|line| line.split(':').next())
        .map(str::to_string)
        .collect()
}

async fn a_look_at_a_queue_does_not_go_through_what_nodes_hold(hive: &Hive<RedisBench>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1; 40]).await;
    hive.take("b", 30).await;
    called(hive).await;
    assert_eq!(hive.engine().status().await.expect("status").in_hand, 30);
    hive.engine().leave(&"b".into()).await.expect("leave");
    let called = called(hive).await;
    assert!(called.iter().any(|name| name == "hget"), "{called:?}");
    for whole in ["hkeys", "hgetall", "hvals", "hscan"] {
        assert!(!called.iter().any(|name| name == whole), "{called:?}");
    }
}

async fn a_reader_of_errors_does_not_look_at_nodes(hive: &Hive<RedisBench>) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 3).await;
    called(hive).await;
    let engine = Arc::new(super::engine(
        &hive.bench.server.server(),
        hive.engine().keys().clone(),
        &hive.bench.scripts,
    ));
    let shown = queenright::failed::collect(engine, None, |_: &[queenright::engine::Failed]| Ok(())).await;
    assert_eq!(shown.expect("collected"), 3);
    let called = called(hive).await;
    assert!(
        !called.iter().any(|name| name == "hget"),
        "no node is looked at: {called:?}"
    );
}
