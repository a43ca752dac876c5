//! A server that lies: it answers with gigabytes, with lists and lines that never end, or speaks before it is asked. Every
//! command ends with one line, a node that was at work waits for the truth, and neither takes in more than a stated bound.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::fleet::{Fleet, PATIENCE, peak_memory, program, within};
use crate::server::RedisServer;

/// What a command may have taken in at most, in KB: a tenth of what a liar offers, and a program that has just started has 20 MB.
const PEAK_KB_MAX: u64 = 100_000;
/// What a liar sends at most on one connection.
const OFFERED: u64 = 1 << 30;

/// How a server lies.
#[derive(Debug, Clone, Copy)]
struct Lie {
    what: &'static str,
    /// Sent once, then the rest again and again.
    head: &'static [u8],
    again: &'static [u8],
    /// Whether it waits for a question.
    asked: bool,
    /// What the one line says.
    told: &'static str,
}

const fn answers(what: &'static str, head: &'static [u8], again: &'static [u8], told: &'static str) -> Lie {
    let asked = true;
    Lie {
        what,
        head,
        again,
        asked,
        told,
    }
}

const LIES: [Lie; 10] = [
    answers("a string of 100 GB", b"$99999999999\r\n", b"x", "more than 64 MB"),
    answers("a string in RESP3", b"=99999999999\r\n", b"x", "more than 64 MB"),
    answers("a list without end", b"*99999999999\r\n", b":1\r\n", "262144 values"),
    answers("lists in a list", b"*262143\r\n", b"*100\r\n", "values"),
    answers("a push without end", b">99999999999\r\n", b"+x\r\n", "262144 values"),
    answers("a line without end", b"+", b"x", "64 KB"),
    answers("a list in a list in a list", b"", b"*1\r\n", "32 deep"),
    answers("an error of 100 GB", b"!99999999999\r\n", b"x", "more than 64 MB"),
    Lie {
        asked: false,
        ..answers("not its language, unasked", b"", b"\0", "no Redis")
    },
    Lie {
        asked: false,
        ..answers("statuses, unasked", b"", b"+OK\r\n", "not asked")
    },
];

/// Listens, and lies to everybody; counts what it could send.
fn lying(lie: Lie) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = sent.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), counted) = (stream, counted.clone()) else {
                return;
            };
            std::thread::spawn(move || tell(stream, lie, &counted));
        }
    });
    (port, sent)
}

/// One conversation: the lie, until the other side has had enough.
fn tell(mut stream: TcpStream, lie: Lie, counted: &AtomicU64) {
    let mut question = [0; 4096];
    if lie.asked && !stream.read(&mut question).is_ok_and(|read| read > 0) {
        return;
    }
    let again = lie.again.repeat((1 << 16) / lie.again.len());
    let mut piece = lie.head;
    let mut told = 0;
    while told < OFFERED {
        let Ok(written) = stream.write(piece) else { return };
        counted.fetch_add(written as u64, Ordering::Relaxed);
        told += written as u64;
        // In the midst of a piece, too.
        piece = &piece[written..];
        if piece.is_empty() {
            piece = &again;
        }
    }
}

/// How it ended, what it said, and the most memory it had.
struct Ended {
    code: Option<i32>,
    said: String,
    peak_kb: u64,
}

/// Runs it until its memory was seen: on a machine that is busy it may be over before anybody looks.
fn run(args: &str) -> Ended {
    let seen = |ended: &Ended| ended.peak_kb > 0 || !cfg!(target_os = "linux");
    let mut tries = (0..50).map(|_| run_once(args));
    tries.find(seen).expect("its memory is seen once in fifty times")
}

fn run_once(args: &str) -> Ended {
    let mut child = program()
        .args(args.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let readers = [
        Box::new(child.stdout.take().expect("piped")) as Box<dyn Read + Send>,
        Box::new(child.stderr.take().expect("piped")),
    ]
    .map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        })
    });
    let mut peak_kb = 0;
    // Without a pause, so that it is seen at all: one that has ended has none.
    let first_seen = Instant::now() + PATIENCE;
    while peak_kb == 0 && Instant::now() < first_seen && child.try_wait().expect("a child").is_none() {
        peak_kb = peak_memory(child.id()).unwrap_or(0);
    }
    let status = within(PATIENCE, || {
        peak_kb = peak_kb.max(peak_memory(child.id()).unwrap_or(0));
        let is_large = peak_kb > 2 * PEAK_KB_MAX;
        if is_large {
            let _ = child.kill();
        }
        child.try_wait().expect("a child")
    });
    let _ = child.kill();
    Ended {
        code: status.and_then(|status| status.code()),
        said: readers.map(|reader| reader.join().expect("no panic")).concat(),
        peak_kb,
    }
}

#[test]
fn every_command_ends_with_one_line_and_has_not_taken_the_lie_in() {
    std::thread::scope(|scope| {
        for lie in LIES {
            scope.spawn(move || {
                let (port, sent) = lying(lie);
                for command in [
                    "start --no-wait --quiet",
                    "start --quiet",
                    "status",
                    "get-errors",
                    "doctor",
                    "push x",
                ] {
                    let ended = run(&format!("{command} --url redis://127.0.0.1:{port}"));
                    let (what, said) = (format!("{command}, told {}", lie.what), &ended.said);
                    let seen = !cfg!(target_os = "linux") || ended.peak_kb > 0;
                    assert!(
                        seen && ended.peak_kb < PEAK_KB_MAX,
                        "{what}: {} KB: {said}",
                        ended.peak_kb
                    );
                    assert_eq!(ended.code, Some(1), "{what}: {said}");
                    let last = said.lines().last().unwrap_or_default();
                    assert!(said.contains(lie.told) && !last.is_empty(), "{what}: {said}");
                    assert!(command == "doctor" || said.lines().count() == 1, "{what}: {said}");
                    assert!(!said.contains("panicked"), "{what}: {said}");
                }
                // What both kernels hold goes with every connection.
                let sent = sent.load(Ordering::Relaxed);
                assert!(sent < OFFERED, "{}: {sent} bytes", lie.what);
            });
        }
    });
}

/// Passes connections on to a Redis, or lies.
struct Between {
    port: u16,
    /// The lie plus one; 0 is the truth.
    lies: Arc<AtomicU64>,
}

impl Between {
    fn start(server: &RedisServer) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let lies = Arc::new(AtomicU64::new(0));
        let (state, redis) = (lies.clone(), server.port());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), state) = (stream, state.clone()) else {
                    return;
                };
                std::thread::spawn(move || pass_on(stream, redis, &state));
            }
        });
        Self { port, lies }
    }
}

fn pass_on(mut node: TcpStream, redis: u16, state: &AtomicU64) {
    let at_first = state.load(Ordering::Relaxed);
    if let Some(lie) = LIES.get(usize::try_from(at_first).expect("small").wrapping_sub(1)) {
        return tell(node, *lie, &AtomicU64::new(0));
    }
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, redis)) else {
        return;
    };
    let (mut from_node, mut to_server) = (node.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
    std::thread::spawn(move || std::io::copy(&mut from_node, &mut to_server));
    server
        .set_read_timeout(Some(Duration::from_millis(20)))
        .expect("a time-out");
    let mut bytes = [0; 4096];
    // In the midst of a conversation the answers become lies.
    while state.load(Ordering::Relaxed) == at_first {
        match server.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) if node.write_all(&bytes[..read]).is_err() => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
    pass_on(node, redis, state);
}

#[test]
fn a_node_that_was_at_work_waits_for_the_truth_in_bounded_memory() {
    let server = RedisServer::start();
    let between = Between::start(&server);
    let mut fleet = Fleet::at(format!("redis://127.0.0.1:{}", between.port))
        .args("--interval 5ms --work 0 --also-handle --quiet")
        .start_led();
    let directly = format!("redis://127.0.0.1:{}", server.port());
    let queue = fleet.queue().to_string();
    let done = || {
        let output = program()
            .args(["status", "--json", "--url", &directly, "--queue", &queue])
            .output()
            .expect("the program starts");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["done"].as_u64().unwrap_or(0)
    };
    for number in 1..=LIES.len() as u64 {
        let lie = LIES[usize::try_from(number).expect("small") - 1];
        let before = done();
        within(PATIENCE, || (done() > before).then_some(())).unwrap_or_else(|| panic!("it works before {}", lie.what));
        between.lies.store(number, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(700));
        between.lies.store(0, Ordering::Relaxed);
        fleet.nobody_exited_but(&[]);
        let peak = peak_memory(fleet.pid(0)).expect("it runs");
        assert!(peak < PEAK_KB_MAX, "{}: {peak} KB", lie.what);
    }
    let before = done();
    within(PATIENCE, || (done() > before + 20).then_some(())).expect("it works again");
}
