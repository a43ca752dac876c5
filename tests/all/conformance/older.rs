//! Queues that the first layout wrote: they are taken over, whole.

use queenright::engine::sqlite::{Database, SqliteEngine};
use queenright::engine::{Engine, LAYOUT, Range, Renewed};
use queenright::settings::Names;

use super::bench::Bench;
use super::{Hive, LocalBench, QUEUE, RedisBench, Running, verdict};

/// The tables of the first layout, as far as they have changed since.
const FIRST: &str = "
CREATE TABLE meta (queue TEXT PRIMARY KEY, birth TEXT, layout INT, names TEXT, clock INT, wall INT, step INT,
  generator TEXT, epoch INT, crown INT, heirs TEXT, seq INT, made INT, due INT, grain INT, again INT, head INT,
  done INT, failed INT, requeued INT, rewinds INT, paused_generator INT, paused_handlers INT, ruled INT, chosen TEXT,
  rank INT, skipped INT, trimmed INT) WITHOUT ROWID;
CREATE TABLE cursors (queue TEXT PRIMARY KEY, cursor BLOB) WITHOUT ROWID;
CREATE TABLE bells (queue TEXT, bell INT, rung INT, PRIMARY KEY (queue, bell)) WITHOUT ROWID;
CREATE TABLE leases (queue TEXT, lessee INT, name TEXT, until INT, PRIMARY KEY (queue, lessee, name)) WITHOUT ROWID;
CREATE TABLE dead (position INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, node TEXT);
CREATE TABLE nodes (queue TEXT, node TEXT, host TEXT, pid INT, version TEXT, concurrency INT, joined INT,
  redelivered INT, suspects INT, held INT, PRIMARY KEY (queue, node)) WITHOUT ROWID;
CREATE TABLE lanes (queue TEXT, node TEXT, lane INT, record BLOB, PRIMARY KEY (queue, node, lane)) WITHOUT ROWID;
CREATE TABLE pieces (queue TEXT, node TEXT, first INT, pack BLOB);
CREATE UNIQUE INDEX pieces_by_node ON pieces (queue, node, first);
CREATE TABLE lines (queue TEXT, line INT, position INT, pack BLOB);
CREATE UNIQUE INDEX lines_by_position ON lines (queue, line, position);
CREATE TABLE later (queue TEXT, due INT, number INT, pack BLOB);
CREATE UNIQUE INDEX later_by_due ON later (queue, due, number);
CREATE TABLE once (queue TEXT, name TEXT, until INT, receipts BLOB, PRIMARY KEY (queue, name)) WITHOUT ROWID;
CREATE INDEX once_by_end ON once (queue, until, name);
CREATE TABLE errors (queue TEXT, number INT, record BLOB);
CREATE UNIQUE INDEX errors_by_number ON errors (queue, number);
CREATE TABLE readers (queue TEXT, reader TEXT, call INT, PRIMARY KEY (queue, reader)) WITHOUT ROWID;
CREATE TABLE reading (queue TEXT, reader TEXT, number INT, record BLOB);
CREATE UNIQUE INDEX reading_by_number ON reading (queue, reader, number);
CREATE TABLE reports (queue TEXT, node TEXT, number INT, time INT, live BLOB, PRIMARY KEY (queue, node)) WITHOUT ROWID;
CREATE TABLE history (queue TEXT, ring INT, slot INT, bucket BLOB, PRIMARY KEY (queue, ring, slot)) WITHOUT ROWID;
CREATE TABLE reigns (queue TEXT, position INT, epoch INT, node TEXT, time INT, before INT,
  PRIMARY KEY (queue, position)) WITHOUT ROWID;
CREATE TABLE effect_values (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE effect_fields (key TEXT, field TEXT, value BLOB, PRIMARY KEY (key, field)) WITHOUT ROWID;
CREATE TABLE effect_items (position INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value BLOB);
CREATE INDEX effect_items_by_key ON effect_items (key, position);
PRAGMA application_id = 0x71726774;
PRAGMA user_version = 1;
INSERT INTO meta VALUES ('bench', 'birth', 1, 'errors=errors bell=bell crown=crown', 5000, 5000, 166, 'old', 3, 5300, '',
  7, 7, 0, 1000, 0, 0, 7, 0, 0, 0, 0, 0, 5000, '', 2, 0, 0);
INSERT INTO leases VALUES ('bench', 0, 'old', 7000);
INSERT INTO nodes VALUES ('bench', 'old', 'host', 1, '0.1.0', 1, 0, 0, 0, NULL);
INSERT INTO reigns VALUES ('bench', 1, 3, 'old', 5000, 0);
";

#[test]
fn a_file_of_the_first_layout_is_taken_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("queue.db");
    let connection = rusqlite::Connection::open(&path).expect("a file");
    connection.execute_batch(FIRST).expect("tables");
    drop(connection);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        // Once by the file, once by the queue in it; and then it is as any other.
        for node in ["new", "newer"] {
            let database = Database {
                path: path.clone(),
                full: false,
            };
            let engine = SqliteEngine::with_clock(database, QUEUE, &Names::default(), || 5100).expect("it opens");
            let join = Hive::<LocalBench>::join_call(node);
            engine.join(&join).await.expect("joined");
            let old = engine.beat(&Hive::<LocalBench>::beat_call("old")).await;
            assert_eq!(old, Ok(Renewed::Deposed));
            let status = engine.status().await.expect("a queue");
            assert_eq!((status.published, status.done, status.epoch), (7, 7, 3));
            let history = engine.history(Range::ALL[0]).await.expect("history");
            assert_eq!(history.reigns.len(), 1);
            assert_eq!(
                engine.dump().await.expect("whole").meta.expect("a queue").layout,
                LAYOUT
            );
        }
        let first = engine_beat(&path).await;
        assert!(first, "a new member is crowned");
    });
}

async fn engine_beat(path: &std::path::Path) -> bool {
    let database = Database {
        path: path.into(),
        full: false,
    };
    let engine = SqliteEngine::with_clock(database, QUEUE, &Names::default(), || 5100).expect("it opens");
    let beat = engine.beat(&Hive::<LocalBench>::beat_call("new")).await;
    matches!(beat, Ok(Renewed::Alive(member)) if member.generator && member.epoch == 4)
}

#[test]
fn a_queue_of_the_first_layout_in_redis_is_taken_over() {
    let check = super::Check {
        name: "a queue of the first layout",
        run: |hive| -> Running<'_> { Box::pin(taken_over(hive)) },
    };
    verdict(&RedisBench::store(), None, &check).expect("it holds");
}

async fn taken_over(hive: &Hive<RedisBench>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[4]).await;
    hive.take("b", 2).await;
    let keys = hive.engine().keys();
    hive.bench
        .command(&["HDEL", &keys.meta, "steps", "clearing", "server", "waited", "waited_at"])
        .await;
    hive.bench.command(&["HSET", &keys.meta, "layout", "1"]).await;
    for node in ["a", "b"] {
        hive.bench.command(&["HDEL", &keys.taken(node), "token", "step"]).await;
        let process = "local p = cmsgpack.unpack(redis.call('HGET', KEYS[1], 'process'))
          return redis.call('HSET', KEYS[1], 'process', cmsgpack.pack({p[1], p[2], p[3], p[4]}))";
        hive.bench.command(&["EVAL", process, "1", &keys.taken(node)]).await;
    }
    let reign = "return redis.call('LSET', KEYS[1], 0, cmsgpack.pack({1, 'a', 5, 0}))";
    hive.bench.command(&["EVAL", reign, "1", &keys.reigns]).await;

    hive.join("c").await;
    for old in ["a", "b"] {
        assert_eq!(hive.try_beat(old).await, Renewed::Deposed, "{old}");
    }
    assert!(hive.beat("c").await.generator);
    assert_eq!(hive.reap("a").await.redelivered, 0);
    assert_eq!(hive.reap("b").await.redelivered, 2);
    assert_eq!(
        hive.engine()
            .history(Range::ALL[0])
            .await
            .expect("history")
            .reigns
            .len(),
        2
    );
    let status = hive.status().await;
    assert_eq!((status.published, status.queued), (4, 4));
}
