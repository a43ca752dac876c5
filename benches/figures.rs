//! The figures of the README, on a redis-server of its own: `cargo bench --bench figures [-- NAME ...]`.
//!
//! Real processes, as a user would start them. Each line says what was measured and what is to be reached.

#![allow(dead_code, reason = "shares the fleets of the tests, and needs a part of them")]

#[path = "../tests/all/fleet.rs"]
mod fleet;
#[path = "../tests/all/server.rs"]
mod server;

use std::time::{Duration, Instant};

use fleet::{Fleet, Line, Plan, Status};
use server::RedisServer;

type Figure = (&'static str, fn());

const FIGURES: [Figure; 11] = [
    ("million", million),
    ("file", file),
    ("memory", memory),
    ("task", task),
    ("failover", failover),
    ("handover", handover),
    ("redelivery", redelivery),
    ("idle", idle),
    ("latency", latency),
    ("child", child),
    ("each", each),
];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    for (name, figure) in FIGURES {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            figure();
        }
    }
}

fn report(name: &str, value: &str, wanted: &str) {
    println!("{name:<12} {value:<70} wanted: {wanted}");
}

fn settled(fleet: &Fleet, messages: u64) -> Status {
    fleet.wait_through(messages)
}

/// A million counters, no work, one generator and three handlers, from the first exec.
fn million() {
    let server = RedisServer::start();
    flat_out("million", "< 2 s", |round| {
        Fleet::on(&server).queue(&format!("million-{round}"))
    });
}

/// The same in an SQLite file.
fn file() {
    let directory = tempfile::tempdir().expect("a directory");
    flat_out("file", "<= 1 s", |round| {
        Fleet::in_file(&directory.path().join(format!("{round}.db")))
    });
}

fn flat_out(name: &str, wanted: &str, plan: impl Fn(u32) -> Plan) {
    let mut times: Vec<f64> = (0..5)
        .map(|round| {
            let plan = plan(round).copies(4);
            let start = Instant::now();
            let fleet = plan
                .args("--interval 0 --messages 1000000 --work 0 --error-rate 0 --quiet")
                .start();
            assert_eq!(settled(&fleet, 1_000_000).done, 1_000_000);
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (median, least, most) = (times[2], times[0], times[4]);
    let text = format!("{median:.2} s median of 5 ({least:.2} to {most:.2}), all settled once");
    report(name, &text, wanted);
}

/// What a million queued counters take.
fn memory() {
    let server = RedisServer::start();
    let used = || info(&server, "memory", "used_memory");
    let before = used();
    let fleet = Fleet::on(&server)
        .args("--interval 0 --messages 1000000 --quiet")
        .start();
    fleet.wait_status("all are queued", |status| status.queued == 1_000_000);
    report(
        "memory",
        &format!("{:.1} MB for a million queued", (used() - before) / 1e6),
        "< 30 MB",
    );
}

/// The million as the task has it.
fn task() {
    let server = RedisServer::start();
    let start = Instant::now();
    let fleet = Fleet::on(&server)
        .copies(4)
        .args("--interval 0 --messages 1000000 --concurrency 10000 --quiet")
        .start();
    // The ideal is 1,000,000 × 0.5 s / 30,000; the looks must not disturb.
    let deadline = start + Duration::from_mins(2);
    let status = loop {
        std::thread::sleep(Duration::from_millis(100));
        let status = fleet.status();
        if status.is_through(1_000_000) {
            break status;
        }
        assert!(Instant::now() < deadline, "{status:?}");
    };
    let seconds = start.elapsed().as_secs_f64();
    let printed = fleet.errors().len() as u64;
    assert_eq!(printed, status.failed, "getErrors prints exactly the failed");
    let text = format!(
        "{seconds:.1} s, {} failed, {printed} printed by getErrors",
        status.failed
    );
    report("task", &text, "<= 25 s (ideal 17)");
}

/// kill -9 of the generator at the default settings: from its last message to the next one.
fn failover() {
    let kills = 100;
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server).copies(4).args("--work 0 --error-rate 0").start();
    let mut gaps = Vec::new();
    for kill in 0..kills {
        fleet.wait_for_more("published", 2);
        // Kills fall evenly over the tick.
        std::thread::sleep(Duration::from_millis(500 * kill / kills));
        let victim = fleet.generator();
        fleet.kill9(victim);
        let last = last_published(&fleet.lines());
        fleet.wait_for("the next message", |lines| last_published(lines).0 > last.0);
        let lines = fleet.lines();
        let next = lines
            .iter()
            .filter(|line| line.is("published") && line.number > Some(last.0))
            .min_by_key(|line| line.number)
            .expect("waited for");
        gaps.push(next.at_ms().saturating_sub(last.1));
        fleet.add("");
    }
    let mut numbers: Vec<u64> = published(&fleet.lines());
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(count, numbers.len(), "a number was published twice");
    gaps.sort_unstable();
    let late = gaps.iter().filter(|gap| **gap > 1000).count();
    let text = format!(
        "{kills} kills: median {} ms, max {} ms, {late} over 1 s; {} numbers, none twice",
        gaps[gaps.len() / 2],
        gaps[gaps.len() - 1],
        numbers.len(),
    );
    report("failover", &text, "median <= 650 ms, 99 of 100 within 1 s");
}

fn published(lines: &[Line]) -> Vec<u64> {
    let published = lines.iter().filter(|line| line.is("published"));
    published.filter_map(|line| line.number).collect()
}

/// The highest number so far, and when it was published.
fn last_published(lines: &[Line]) -> (u64, u64) {
    let published = lines.iter().filter(|line| line.is("published"));
    published
        .map(|line| (line.number.unwrap_or_default(), line.at_ms()))
        .max()
        .unwrap_or_default()
}

/// SIGTERM of the generator: no tick is missed.
fn handover() {
    let rounds = 20;
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server).copies(4).args("--work 0 --error-rate 0").start();
    for round in 0..rounds {
        fleet.wait_for_more("published", 2);
        std::thread::sleep(Duration::from_millis(500 * round / rounds));
        let leaving = fleet.generator();
        fleet.term(leaving);
        fleet.wait_exit(leaving);
        fleet.add("");
    }
    fleet.wait_for_more("published", 2);
    let mut times: Vec<(u64, u64)> = fleet
        .lines()
        .iter()
        .filter(|line| line.is("published"))
        .map(|line| (line.number.unwrap_or_default(), line.at_ms()))
        .collect();
    times.sort_unstable();
    let widest = times.windows(2).map(|pair| pair[1].1.saturating_sub(pair[0].1)).max();
    let text = format!(
        "{rounds} hand-overs: widest gap between ticks {} ms",
        widest.unwrap_or_default()
    );
    report("handover", &text, "no tick missed (< 1000 ms)");
}

/// kill -9 of a handler: until its message is taken again.
fn redelivery() {
    let rounds = 10;
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 50ms --work 100ms --error-rate 0 --concurrency 100")
        .copies(4)
        .start_led();
    let mut times = Vec::new();
    for _ in 0..rounds {
        let lines = fleet.lines();
        let victim = (0..fleet.len()).rev().find(|copy| {
            *copy != fleet.generator() && lines.iter().any(|line| line.copy == *copy && line.is("joined"))
        });
        let victim = victim.expect("there are handlers");
        let pid = fleet.pid(victim);
        fleet.wait_status("it holds something", |status| status.held_by(pid) > 0);
        let before = fleet.lines().iter().filter(|line| line.is("redelivered")).count();
        fleet.kill9(victim);
        let killed = Instant::now();
        let again = |lines: &[Line]| lines.iter().filter(|line| line.is("redelivered")).count() > before;
        let deadline = killed + Duration::from_secs(5);
        while !again(&fleet.lines()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if again(&fleet.lines()) {
            times.push(killed.elapsed().as_millis());
        }
        fleet.add("");
        fleet.wait_for_more("done", 10);
    }
    times.sort_unstable();
    let text = format!(
        "{} kills: median {} ms, max {} ms",
        times.len(),
        times[times.len() / 2],
        times[times.len() - 1]
    );
    report("redelivery", &text, "<= 3 s");
}

/// What 200 idle copies cost Redis.
fn idle() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(200)
        .args("--work 0 --error-rate 0 --quiet")
        .start();
    fleet.wait_status("all have joined", |status| status.nodes.len() == 200);
    let cpu = || info(&server, "cpu", "used_cpu_sys") + info(&server, "cpu", "used_cpu_user");
    let (before, start) = (cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let share = (cpu() - before) / start.elapsed().as_secs_f64() * 100.0;
    report("idle", &format!("200 copies: {share:.1} % of a core"), "< 10 %");
}

/// From the publish's answer to the settle's, at an idle handler: start of handling lies between.
fn latency() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(2)
        .args("--interval 20ms --messages 500 --work 0 --error-rate 0")
        .start();
    settled(&fleet, 500);
    fleet.wait_for("all is logged", |lines| {
        lines.iter().filter(|line| line.is("done")).count() == 500 && published(lines).len() == 500
    });
    let lines = fleet.lines();
    let at = |event: &str, number: u64| {
        let line = lines.iter().find(|line| line.is(event) && line.number == Some(number));
        line.expect("logged").at_ms()
    };
    let mut times: Vec<u64> = (0..500)
        .map(|number| at("done", number).saturating_sub(at("published", number)))
        .collect();
    times.sort_unstable();
    let text = format!("published to settled: median {} ms, p99 {} ms", times[250], times[495]);
    report("latency", &text, "median < 2 ms");
}

/// What a process and the children that it has waited for took of the processors so far, in seconds.
fn cpu(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux");
    // The name of the program may have spaces in it; behind it, user and system time of both are fields 12 to 15.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(11).take(4);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

/// How long one copy takes for one of the messages that wait for it, and how much of the processors.
fn handling(server: &RedisServer, messages: u64, args: &str, command: &[&str]) -> (f64, f64) {
    let mut fleet = Fleet::on(server)
        .args(&format!("--interval 0 --messages {messages} --quiet"))
        .start();
    // Alone, it generates and handles nothing.
    fleet.wait_status("all are queued", |status| status.published == messages);
    fleet.term(0);
    fleet.wait_exit(0);
    let waiting = fleet.status().queued;
    let mut words = vec!["start", "--prefer", "never", "--quiet"];
    words.extend(args.split_whitespace());
    words.extend(command);
    let before = fleet.status().done;
    let start = fleet.command(&words).stderr(std::process::Stdio::null()).spawn();
    let handler = fleet::Ends(start.expect("it starts"));
    fleet.wait_status("it has begun", |status| status.done > before);
    let (begun, first) = (Instant::now(), fleet.status().done);
    let end = before + waiting;
    fleet.wait_status("all are done", |status| status.done >= end);
    let count = u32::try_from(end - first).expect("not so many");
    let time = begun.elapsed().as_secs_f64() / f64::from(count);
    let all = u32::try_from(messages).expect("not so many");
    (time, cpu(&handler.0.id().to_string()) / f64::from(all))
}

/// One child that only answers, many messages in flight; beside the same with one message at a time.
fn child() {
    let server = RedisServer::start();
    let script = "import sys\nfor line in sys.stdin: print('{\"ok\":true}', flush=True)";
    let child = format!("python3 -c {}", shell_words::quote(script));
    let answers = ["--handle", &child];
    let many = 1.0 / handling(&server, 1_000_000, "--concurrency 1000", &answers).0;
    let one = 1.0 / handling(&server, 50_000, "--concurrency 1", &answers).0;
    let text = format!("{many:.0} messages/s through one child; in lock-step {one:.0}");
    report("child", &text, ">= 50,000/s");
}

/// A process for each message; beside the same processes started and waited for without a queue.
fn each() {
    const PROCESSES: u32 = 3000;
    let server = RedisServer::start();
    let (_, ours) = handling(&server, PROCESSES.into(), "--concurrency 2", &["--handle-each", "true"]);
    let before = cpu("self");
    for _ in 0..PROCESSES {
        let mut command = std::process::Command::new("true");
        command
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        assert!(command.output().expect("it starts").status.success());
    }
    let plain = (cpu("self") - before) / f64::from(PROCESSES);
    let text = format!(
        "{:.0} µs of a processor a message; fork and exec alone {:.0} µs: {:.2} times",
        ours * 1e6,
        plain * 1e6,
        ours / plain
    );
    report("each", &text, "<= 1.2 times");
}

fn info(server: &RedisServer, section: &str, field: &str) -> f64 {
    let Ok(redis::Value::BulkString(text)) = server.command(&["INFO", section]) else {
        panic!("INFO {section}");
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("it is in INFO").trim().parse().expect("a number")
}
