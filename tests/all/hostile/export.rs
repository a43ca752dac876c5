//! However many errors there are, whoever prints them needs the memory of one batch.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use crate::dashboard::board::{Board, fail_all};
use crate::dashboard::client::get;
use crate::fleet::{Fleet, PATIENCE, peak_memory, program, within};
use crate::server::RedisServer;

/// As a payload of some weight: ten thousand of them have 20 MB.
const PAYLOAD_BYTES: usize = 2000;
const FEW: u64 = 1000;
const MANY: u64 = 20_000;
/// What a process may have more for twenty times as many, in KB. All of them have 40 MB, and more in a vector or a text.
const GROWN_KB_MAX: u64 = 8_000;

fn fail(server: &RedisServer, queue: &str, count: u64) {
    let payloads: Vec<_> = (0..count).map(|_| vec![b'x'; PAYLOAD_BYTES]).collect();
    fail_all(server, queue, &payloads, |_| "no".into());
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').count() as u64 - 1
}

/// Runs a command, counts its lines, and tells its most memory in KB.
fn measured(server: &RedisServer, args: &str, queue: &str) -> (u64, u64) {
    let mut child = program()
        .args(args.split(' '))
        .args(["--url", &server.url(), "--queue", queue])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("piped");
    let (mut lines, mut peak, mut piece) = (0, 0, vec![0; 1 << 16]);
    // Half a second late: a reader that is slow makes nothing pile up either.
    std::thread::sleep(Duration::from_millis(500));
    while let Ok(read @ 1..) = stdout.read(&mut piece) {
        lines += lines_in(&piece[..read]);
        peak = peak.max(peak_memory(child.id()).unwrap_or(0));
    }
    assert!(child.wait().expect("it ends").success(), "{args}");
    (lines, peak)
}

#[test]
fn printing_many_errors_takes_no_more_memory_than_printing_few() {
    let server = RedisServer::start();
    fail(&server, "few", FEW);
    fail(&server, "many", MANY);
    for args in [
        "errors list --text no",
        "errors export",
        "get-errors --keep",
        "get-errors --json",
    ] {
        let (few, many) = (measured(&server, args, "few"), measured(&server, args, "many"));
        assert_eq!((few.0, many.0), (FEW, MANY), "{args}");
        assert!(
            many.1 < few.1 + GROWN_KB_MAX,
            "{args}: {} KB for {FEW}, {} KB for {MANY}",
            few.1,
            many.1
        );
    }
}

#[test]
fn a_dashboard_exports_many_errors_in_the_memory_of_few() {
    let server = RedisServer::start();
    fail(&server, "exported", MANY);
    let board = Board::start(&server, "exported", &[]);
    let peak = || peak_memory(board.child.id()).expect("it runs");
    let some = board.ask(&get("/api/v1/errors/export?from=19000")).is(200);
    assert_eq!(lines_in(&some.body), 1000);
    let before = peak();
    // One who asks and does not read.
    let idle = get("/api/v1/errors/export").open(&board.address);
    let all = board.ask(&get("/api/v1/errors/export")).is(200);
    assert_eq!(lines_in(&all.body), MANY);
    drop(idle);
    assert!(peak() < before + GROWN_KB_MAX, "{} KB after {before} KB", peak());
}

#[test]
#[ignore = "takes minutes: cargo test --profile gate --all-features --test all -- --ignored --nocapture figures_of_a_million_errors"]
fn figures_of_a_million_errors_exported() {
    const MILLION: u64 = 1_000_000;
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args(&format!(
            "--interval 0 --messages {MILLION} --work 0 --error-rate 1 --quiet"
        ))
        .start();
    let all = || fleet.status().failed == MILLION;
    within(10 * PATIENCE, || all().then_some(())).expect("all have failed");
    for copy in 0..fleet.len() {
        fleet.term(copy);
        fleet.wait_exit(copy);
    }
    let queue = fleet.queue().to_string();
    let board = Board::start(&server, &queue, &[]);
    let begun = std::time::Instant::now();
    let mut stream = get("/api/v1/errors/export").open(&board.address);
    let (mut lines, mut bytes, mut piece) = (0, 0, vec![0; 1 << 16]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        // Of a stream in chunks: what is between the lines is none.
        lines += piece[..read].split(|byte| *byte == b'{').count() - 1;
        bytes += read;
    }
    println!(
        "GET /api/v1/errors/export: {lines} lines, {} MB, {:.1} s, peak {} KB",
        bytes >> 20,
        begun.elapsed().as_secs_f64(),
        peak_memory(board.child.id()).unwrap_or(0)
    );
    for args in ["errors export", "get-errors --json"] {
        let begun = std::time::Instant::now();
        let (lines, peak) = measured(&server, args, &queue);
        assert_eq!(lines, MILLION, "{args}");
        println!(
            "{args}: {lines} lines, {:.1} s, peak {peak} KB",
            begun.elapsed().as_secs_f64()
        );
    }
}
