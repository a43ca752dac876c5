//! Lines of a megabyte that come faster than they are used: what is read ahead of them is bounded in bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Stdio};

use crate::fleet::{Ends, Fleet, PATIENCE, peak_memory, within};
use crate::server::RedisServer;

/// A third of what is offered; a program that has just started has 20 MB.
const PEAK_KB_MAX: u64 = 100_000;
const LINES: usize = 300;
const PAYLOAD_BYTES: usize = 1_000_000;

/// Writes them all, as fast as they are read.
fn offer(mut stdin: ChildStdin, line: String) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for _ in 0..LINES {
            if stdin.write_all(line.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn large() -> String {
    "x".repeat(PAYLOAD_BYTES)
}

/// One message each 10 ms, of lines that come far faster.
const SLOW: &str = "--interval 10ms --also-handle --work 0 --error-rate 0 --quiet --lease 30s";

#[test]
fn a_generator_that_reads_stdin_reads_few_megabytes_ahead() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(0).start();
    let mut command = fleet.command(&["start", "--generate", "-"]);
    command
        .args(SLOW.split(' '))
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    let mut node = Ends(command.spawn().expect("it starts"));
    let feeding = offer(node.0.stdin.take().expect("piped"), large() + "\n");
    fleet.wait_through(LINES as u64);
    let peak = peak_memory(node.0.id()).expect("it runs");
    assert!(peak < PEAK_KB_MAX, "{peak} KB");
    feeding.join().expect("no panic");
}

#[test]
fn a_generator_that_reads_a_command_reads_few_megabytes_ahead() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().expect("a directory"));
    let (lines, script) = (directory.path().join("lines"), directory.path().join("prints.sh"));
    std::fs::write(&lines, (large() + "\n").repeat(LINES / 10)).expect("written");
    let text = format!("for i in 0 1 2 3 4 5 6 7 8 9; do cat {}; done", lines.display());
    std::fs::write(&script, text).expect("written");
    let fleet = Fleet::on(&server)
        .args(SLOW)
        .arg("--generate")
        .arg(&format!("sh {}", script.display()))
        .start_joined();
    fleet.wait_through(LINES as u64);
    let peak = peak_memory(fleet.pid(0)).expect("it runs");
    assert!(peak < PEAK_KB_MAX, "{peak} KB");
}

#[test]
fn a_push_from_stdin_reads_few_megabytes_ahead_of_a_store_that_hesitates() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(0).start();
    let mut command = fleet.command(&["push", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut push = Ends(command.spawn().expect("it starts"));
    let (mut stdin, stdout) = (push.0.stdin.take().expect("piped"), push.0.stdout.take());
    // All have one key, so that the store keeps one.
    let line = format!("{{\"key\":\"k\",\"payload\":\"{}\"}}\n", large());
    stdin.write_all(line.as_bytes()).expect("it reads");
    let (mut stdout, mut told) = (BufReader::new(stdout.expect("piped")), String::new());
    stdout.read_line(&mut told).expect("it prints");
    server.command(&["CLIENT", "PAUSE", "2000", "ALL"]).expect("it waits");
    let feeding = offer(stdin, line);
    let printing = std::thread::spawn(move || {
        let _ = stdout.read_to_string(&mut told);
        told.lines().count()
    });
    let mut peak = 0;
    let ended = within(PATIENCE, || {
        peak = peak.max(peak_memory(push.0.id()).unwrap_or(0));
        push.0.try_wait().expect("a child of ours")
    });
    assert!(ended.is_some_and(|status| status.success()));
    assert!(peak < PEAK_KB_MAX, "{peak} KB");
    feeding.join().expect("no panic");
    assert_eq!(printing.join().expect("no panic"), LINES + 1);
}
