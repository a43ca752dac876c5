//! What other programs as handlers cost, on a redis-server of its own: `cargo bench --bench outside [-- NAME ...]`. All other
//! figures come from `queenright bench`.

#![allow(dead_code, reason = "shares the fleets of the tests, and needs a part of them")]

#[path = "../tests/all/fleet.rs"]
mod fleet;
#[path = "../tests/all/server.rs"]
mod server;

use std::time::Instant;

use fleet::Fleet;
use server::RedisServer;

type Figure = (&'static str, fn());

const FIGURES: [Figure; 2] = [("child", child), ("each", each)];

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
