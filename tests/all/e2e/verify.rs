//! `verify`: it passes where all is well, and fails where it is not.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::fleet::{PATIENCE, json_lines, program, said, within};
use crate::server::RedisServer;

fn verify(arguments: &str) -> Output {
    let temporary = tempfile::tempdir().expect("a directory");
    let mut command = program();
    command.arg("verify").args(arguments.split_whitespace());
    command.env("TMPDIR", temporary.path());
    command.output().expect("the program starts")
}

/// Passed, and the result says so.
fn passed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    let result = json_lines(&output.stdout).remove(0);
    for (name, wanted) in [("lost", 0), ("settled_twice", 0), ("effects_twice", 0)] {
        assert_eq!(result[name], wanted, "{result}");
    }
    assert_eq!(result["findings"], serde_json::json!([]), "{result}");
    let count = |name: &str| result[name].as_u64().unwrap_or_else(|| panic!("no {name}: {result}"));
    assert_eq!(count("published"), count("done") + count("failed"), "{result}");
    for name in ["failovers", "redeliveries"] {
        for figure in ["count", "p50_ms", "p99_ms", "max_ms"] {
            assert!(result[name][figure].is_u64(), "{name}.{figure}: {result}");
        }
    }
    assert!(result["seconds"].is_number() && result["messages_per_second"].is_number());
    assert!(result["handled_more_than_once"].is_u64() && result["faults"].is_object());
    result
}

fn keys(server: &RedisServer) -> Vec<String> {
    let keys = server.command(&["KEYS", "*"]).expect("an answer");
    redis::from_redis_value(keys).expect("names")
}

#[test]
fn it_counts_every_message_on_a_server_of_its_own() {
    let output = verify("--messages 30000 --json");
    let result = passed(&output);
    assert_eq!(result["published"], 30_000);
    assert!(result["failed"].as_u64() > Some(0), "{result}");
    let table = verify("--messages 2000");
    let text = String::from_utf8_lossy(&table.stdout);
    assert!(table.status.success(), "{}", said(&table));
    for row in [
        "published ",
        "done ",
        "failed ",
        "lost ",
        "settled twice ",
        "time ",
        "messages/s ",
    ] {
        assert!(
            text.lines().any(|line| line.trim_start().starts_with(row)),
            "{row}: {text}"
        );
    }
}

#[test]
fn a_queue_with_shards_is_counted_over_all_of_them() {
    let result = passed(&verify("--messages 30000 --shards 3 --json"));
    assert_eq!(result["published"], 30_000);
    let refused = verify("--messages 10 --shards 2 --url sqlite:/tmp/none.db");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}

#[test]
fn chaos_on_several_shards_loses_nothing_and_leaves_nothing_out() {
    let output = verify("--chaos --shards 3 --seed 3 --duration 8s --json");
    let result = passed(&output);
    for count in ["chains_complete", "groups_in_order"] {
        assert!(result[count].as_u64() > Some(0), "{count}: {result}");
    }
}

#[test]
fn chaos_on_a_server_of_its_own_harms_everything_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = directory.path().join("kept");
    let keep = kept.display();
    let output = verify(&format!("--chaos --seed 5 --duration 25s --json --keep {keep}"));
    for count in ["chains_complete", "groups_in_order"] {
        let seen = json_lines(&output.stdout).remove(0)[count].as_u64();
        assert!(
            seen > Some(0),
            "{count}: chains and groups are in the load: {}",
            said(&output)
        );
    }
    let result = passed(&output);
    assert_eq!(result["seed"], 5);
    let faults = result["faults"].as_object().expect("an object");
    assert!(faults.len() >= 5, "{result}");
    assert!(result["failovers"]["count"].as_u64() > Some(0), "{result}");
    for name in [
        "plan.txt",
        "faults.txt",
        "samples.jsonl",
        "result.json",
        "book-0",
        "log-0",
        "redis.log",
    ] {
        assert!(kept.join(name).is_file(), "{name} is kept");
    }
}

#[test]
fn on_a_redis_that_is_not_its_own_it_harms_only_its_own_and_leaves_nothing_behind() {
    let server = RedisServer::start();
    // Of every type, some under names like ours.
    for command in [
        "SET theirs 1",
        "SET {qr:verify}-effects:0 1",
        "HSET theirs:hash f v",
        "RPUSH theirs:list a b",
        "SADD theirs:set a b",
        "ZADD theirs:sorted 1 a 2 b",
        "ZADD {qr:theirs}:meta 1 a",
        "XADD theirs:stream 1-1 f v",
        "SETBIT theirs:bits 100 1",
        "PFADD theirs:log a b",
        "GEOADD theirs:geo 13.4 52.5 berlin",
    ] {
        server
            .command(&command.split(' ').collect::<Vec<_>>())
            .expect("written");
    }
    let contents = || -> BTreeMap<String, redis::Value> {
        let dump = |key: String| {
            let dumped = server.command(&["DUMP", &key]).expect("an answer");
            (key, dumped)
        };
        keys(&server).into_iter().map(dump).collect()
    };
    let (before, pid) = (contents(), server.pid());
    let url = format!("--url redis://127.0.0.1:{}", server.port());
    let result = passed(&verify(&format!("{url} --chaos --seed 3 --duration 8s --json")));
    for name in [
        "redis_killed",
        "scripts_flushed",
        "clients_killed",
        "redis_slept",
        "redis_out_of_memory",
    ] {
        assert!(result["faults"][name].is_null(), "{result}");
    }
    // What was to end the wait of a copy that was killed expires within seconds.
    let left = || {
        within(PATIENCE, || (contents() == before).then_some(()));
        contents()
    };
    assert_eq!((left(), server.pid()), (before.clone(), pid));
    passed(&verify(&format!("{url} --messages 2000 --json")));
    assert_eq!(left(), before, "the same without chaos");
}

#[test]
fn it_runs_on_a_file_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("queue.db");
    let url = format!("--url sqlite:{}", path.display());
    passed(&verify(&format!("{url} --chaos --seed 4 --duration 6s --json")));
    let file = rusqlite::Connection::open(&path).expect("the file");
    for table in ["meta", "lines", "pieces", "errors", "effect_values"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = file.query_row(&sql, [], |row| row.get(0)).expect("a count");
        assert_eq!(rows, 0, "{table}");
    }
}

// Elsewhere there is no /proc to look at.
#[cfg(target_os = "linux")]
#[test]
fn when_it_is_killed_no_process_stays_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = program();
    command
        .args(["verify", "--chaos", "--duration", "10m", "--keep"])
        .arg(directory.path().join("kept"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut verifying = child.expect("the program starts");
    // The name of the directory is in the arguments of its copies, and is where its server works.
    let name = directory.path().display().to_string();
    let running = || processes(&name).len();
    let all = within(PATIENCE, || (running() >= 6).then_some(()));
    verifying.kill().expect("a child of ours");
    verifying.wait().expect("a child of ours");
    all.expect("four copies, the server and its keeper are there");
    let gone = within(PATIENCE, || (running() == 0).then_some(()));
    assert!(gone.is_some(), "still there: {:?}", processes(&name));
}

/// Processes that name this directory, or work in it.
#[cfg(target_os = "linux")]
fn processes(directory: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |path: std::path::PathBuf| {
        let arguments = std::fs::read_to_string(path.join("cmdline")).ok()?;
        let place = std::fs::read_link(path.join("cwd")).ok()?;
        let zombie = arguments.is_empty();
        let ours = arguments.contains(directory) || place.starts_with(directory);
        (ours && !zombie).then_some(arguments)
    };
    all.filter_map(|entry| of(entry.path())).collect()
}

/// Ends with the test, also by a panic.
struct Verifying(Option<Child>);

impl Verifying {
    fn output(mut self) -> Output {
        let child = self.0.take().expect("not waited for yet");
        child.wait_with_output().expect("it ends")
    }
}

impl Drop for Verifying {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Handlers that are slower than the generator, on this server; and the key of the queue, once something waits in it.
fn slowly(server: &RedisServer, temporary: &Path) -> (Verifying, String) {
    let mut command = program();
    let line = "verify --messages 300 --interval 1ms --work 50ms --batch 1 --lease 500ms --json --url";
    command.args(line.split_whitespace()).arg(server.url());
    command.env("TMPDIR", temporary);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let verifying = Verifying(Some(child.expect("the program starts")));
    let queue = within(PATIENCE, || {
        let queue = keys(server).into_iter().find(|key| key.ends_with("}:queue"))?;
        let length = server.command(&["LLEN", &queue]).ok()?;
        (redis::from_redis_value::<u64>(length).ok()? > 20).then_some(queue)
    });
    (verifying, queue.expect("something waits"))
}

fn finds(output: &Output, words: &str, count: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    let result = json_lines(&output.stdout).remove(0);
    assert!(result["findings"].to_string().contains(words), "{result}");
    assert!(result[count].as_u64() > Some(0), "{count}: {result}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(words),
        "{}",
        said(output)
    );
}

#[test]
fn a_message_that_the_store_hands_out_twice_is_found() {
    let (server, temporary) = (RedisServer::start(), tempfile::tempdir().expect("a directory"));
    let (verifying, queue) = slowly(&server, temporary.path());
    let copied = "local pack = redis.call('LINDEX', KEYS[1], -1) redis.call('RPUSH', KEYS[1], pack) return 1";
    server.command(&["EVAL", copied, "1", &queue]).expect("copied");
    finds(&verifying.output(), "settled twice", "settled_twice");
}

#[test]
fn a_message_that_vanishes_from_the_store_is_found() {
    let (server, temporary) = (RedisServer::start(), tempfile::tempdir().expect("a directory"));
    let (verifying, queue) = slowly(&server, temporary.path());
    server.command(&["RPOP", &queue]).expect("popped");
    finds(&verifying.output(), "lost, published and without an outcome", "lost");
}

#[test]
fn wrong_usage_is_one_line() {
    for (arguments, words) in [
        ("--queue mine", "a queue of its own"),
        ("--seed 1", "--chaos"),
        ("--nodes 1", "2 to 100"),
        ("--keep /", "is there already"),
    ] {
        let output = verify(arguments);
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", said(&output));
        assert!(line.contains(words) && line.lines().count() == 1, "{arguments}: {line}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full");
    // Only Linux has it.
    if let Ok(full) = full {
        let mut command = program();
        command.args(["verify", "--messages", "100"]).stdout(full);
        let output = command.output().expect("the program starts");
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            line.contains("cannot write the result") && line.lines().count() == 1,
            "{line}"
        );
    }
    let away = verify("--url redis://127.0.0.1:1");
    assert_eq!(away.status.code(), Some(69), "{}", said(&away));
}

/// Fails over, and finds that nothing that was told is lost. Numbers that nobody was told of may be skipped.
fn fails_over(on: &str, seconds: u32) {
    let output = verify(&format!(
        "--chaos --on {on} --replicas 1 --duration {seconds}s --seed 11 --json"
    ));
    assert!(output.status.success(), "{}", said(&output));
    let result = json_lines(&output.stdout).remove(0);
    assert_eq!(result["findings"], serde_json::json!([]), "{result}");
    let harmed = ["primary_replaced", "primary_lost_with_its_tail"];
    let came = |name: &&str| result["faults"][*name].as_u64().is_some_and(|times| times > 0);
    assert!(harmed.iter().any(came), "{result}");
}

#[test]
fn behind_sentinels_nothing_that_was_told_is_lost() {
    fails_over("sentinel", 12);
}

#[test]
fn in_shards_of_a_cluster_nothing_that_was_told_is_lost() {
    fails_over("cluster --shards 3", 7);
}

#[test]
fn in_a_cluster_nothing_that_was_told_is_lost() {
    fails_over("cluster", 12);
}
