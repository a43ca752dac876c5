//! The programs of `examples/`, run as their first lines say: on one Redis, until something has come of it; and SIGTERM ends them well.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::fleet::{Ends, PATIENCE, PROGRAM, bare, said, signal, wait_exit, within};
use crate::server::RedisServer;

fn example(name: &str) -> Command {
    let path = PathBuf::from(PROGRAM).with_file_name("examples").join(name);
    assert!(path.exists(), "cargo build --examples comes first");
    bare(Command::new(path))
}

/// Starts so many copies, waits until a command of Redis answers at least this, and stops them.
fn runs(name: &str, copies: usize, ask: &[&str], at_least: u64) {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("access.log"), "one\ntwo\n").expect("written");
    let start = |_| {
        let mut command = example(name);
        command
            .current_dir(directory.path())
            .env("REDIS_URL", server.url())
            .stdout(Stdio::null());
        Ends(command.spawn().expect("it starts"))
    };
    let mut started: Vec<Ends> = (0..copies).map(start).collect();
    let came = within(PATIENCE, || {
        let answer = server.command(ask).ok()?;
        let count: Option<u64> = redis::from_redis_value(answer).ok()?;
        count.filter(|count| *count >= at_least)
    });
    assert!(came.is_some(), "{name}: nothing comes of it");
    for copy in &mut started {
        signal(copy.0.id(), "TERM");
        assert!(wait_exit(&mut copy.0).success(), "{name}");
    }
}

#[test]
fn every_example_does_what_it_says() {
    let handled = |queue: &str| format!("{{qr:{queue}}}:meta");
    let (reports, poller, invoices) = (handled("reports"), handled("poller"), handled("invoices"));
    runs("feeds", 2, &["GET", "feeds:read"], 2);
    runs("effects", 2, &["GET", "effects:handled"], 2);
    runs("chain", 2, &["LLEN", "chain:stored"], 2);
    runs("two_queues", 1, &["GET", "invoices:sent"], 2);
    runs("poller", 2, &["HGET", &poller, "seq"], 2);
    runs("typed", 2, &["HGET", &invoices, "seq"], 2);
    // Nobody waits for six o'clock: it reigns.
    runs("cron", 1, &["HGET", &reports, "epoch"], 1);
    let server = RedisServer::start();
    for repeated in [false, true] {
        let output = example("enqueue").env("REDIS_URL", server.url()).output();
        let output = output.expect("it starts");
        let wanted = format!("message 0, repeated: {repeated}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{}", said(&output));
    }
    for name in ["unit", "testing"] {
        let output = example(name).output().expect("it starts");
        assert!(output.status.success(), "{name}: {}", said(&output));
    }
}

#[test]
fn a_store_that_is_away_is_told() {
    use std::io::{BufRead, BufReader};
    let mut child = example("feeds")
        .env("REDIS_URL", "127.0.0.1:1")
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let copy = Ends(child);
    let first = lines.next().expect("a line").expect("text");
    assert!(
        first.contains("127.0.0.1:1 is away") && first.contains("waiting"),
        "{first}"
    );
    drop(copy);
}
