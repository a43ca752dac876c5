//! `get-errors`: printed at least once, by one reader, and never lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use queenright::app::lab::proxy::{Direction, Proxy};

use serde_json::Value;

use super::checks::each_once;
use crate::fleet::{Fleet, PATIENCE, json_lines, said, wait_exit, within};
use crate::server::RedisServer;

/// A queue on which so many messages have failed; nobody is at work on it any more.
fn failed(server: &RedisServer, count: u64) -> Fleet {
    let mut fleet = Fleet::on(server)
        .copies(2)
        .args(&format!(
            "--interval 0 --messages {count} --work 0 --error-rate 1 --quiet"
        ))
        .start();
    let status = fleet.wait_through(count);
    assert_eq!((status.done, status.errors), (0, count), "{status:?}");
    for copy in 0..fleet.len() {
        fleet.term(copy);
        assert_eq!(fleet.wait_exit(copy).code(), Some(0));
    }
    fleet
}

fn start_reader(fleet: &Fleet, stdout: impl Into<Stdio>) -> Child {
    let mut command = fleet.command(&["get-errors", "--json"]);
    command
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn numbers(errors: &[Value]) -> Vec<u64> {
    let mut numbers: Vec<u64> = errors.iter().filter_map(|error| error["number"].as_u64()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[test]
fn eight_readers_at_once_share_the_errors_and_print_none_twice() {
    let server = RedisServer::start();
    let fleet = failed(&server, 20_000);
    let readers: Vec<Child> = (0..8).map(|_| start_reader(&fleet, Stdio::piped())).collect();
    let threads = readers
        .into_iter()
        .map(|child| std::thread::spawn(|| child.wait_with_output().expect("it ends")));
    let threads: Vec<_> = threads.collect();
    let mut errors = Vec::new();
    for thread in threads {
        let output = thread.join().expect("no panic");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        errors.extend(json_lines(&output.stdout));
    }
    assert_eq!(each_once(&errors).len(), 20_000);
    let after = fleet.status();
    assert_eq!((after.failed, after.errors), (20_000, 0), "{after:?}");
}

#[test]
fn a_limit_prints_the_oldest_and_keep_removes_nothing() {
    let server = RedisServer::start();
    let fleet = failed(&server, 1200);
    let run = |args: &[&str]| {
        let output = fleet.command(args).output().expect("the program starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        output.stdout
    };
    let kept = json_lines(&run(&["get-errors", "--keep", "--json"]));
    assert_eq!(numbers(&kept), (0..1200).collect::<Vec<_>>());
    assert_eq!(
        json_lines(&run(&["get-errors", "--keep", "--limit", "700", "--json"])).len(),
        700
    );
    assert_eq!(fleet.status().errors, 1200);
    let first = json_lines(&run(&["get-errors", "--limit", "100", "--json"]));
    assert_eq!(numbers(&first), (0..100).collect::<Vec<_>>());
    assert_eq!(fleet.status().errors, 1100);
    let text = String::from_utf8(run(&["getErrors", "--limit", "1"])).expect("text");
    assert!(
        text.starts_with("100 ") && text.contains("error=") && text.lines().count() == 1,
        "{text}"
    );
    let text = String::from_utf8(run(&["getError"])).expect("text");
    let firsts: Vec<_> = text
        .lines()
        .map(|line| line.split(' ').next().unwrap_or_default())
        .collect();
    let wanted: Vec<_> = (101..1200).map(|number| number.to_string()).collect();
    assert_eq!(firsts, wanted, "the message comes first");
    assert_eq!(run(&["get-errors"]), b"", "nothing is left");
}

#[test]
fn a_pipe_that_is_closed_after_the_first_line_loses_nothing_that_was_not_written() {
    let server = RedisServer::start();
    let fleet = failed(&server, 5000);
    let mut reader = start_reader(&fleet, Stdio::piped());
    let mut pipe = BufReader::with_capacity(256, reader.stdout.take().expect("piped"));
    let mut line = String::new();
    pipe.read_line(&mut line).expect("a line");
    drop(pipe);
    wait_exit(&mut reader);
    let rest = fleet.errors();
    let printed = each_once(&rest);
    // What a pipe holds (64 KB) may have been written before it was closed; a line has more than 100 bytes.
    assert!(
        printed.len() > 5000 - 500 - 700,
        "only {} of 5000 are left",
        printed.len()
    );
    let first = *printed.keys().next().expect("not empty");
    assert_eq!(numbers(&rest), (first..5000).collect::<Vec<_>>(), "a gap");
}

#[test]
fn a_pipe_that_nobody_reads_from_at_all_loses_nothing() {
    let server = RedisServer::start();
    let fleet = failed(&server, 50);
    let mut command = fleet.command(&["get-errors", "--json"]);
    let (pipe, writer) = std::io::pipe().expect("a pipe");
    drop(pipe);
    let output = command
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("the program starts");
    assert!(
        String::from_utf8_lossy(&output.stderr).lines().count() <= 1,
        "{}",
        said(&output)
    );
    assert_eq!(numbers(&fleet.errors()), (0..50).collect::<Vec<_>>());
}

#[test]
fn what_a_reader_had_not_confirmed_when_it_was_killed_is_printed_by_the_next() {
    let server = RedisServer::start();
    let fleet = failed(&server, 3000);
    let mut killed = start_reader(&fleet, Stdio::piped());
    let mut pipe = killed.stdout.take().expect("piped");
    let key = format!("{{qr:{}}}:readers", fleet.queue());
    let reads = || {
        server
            .command(&["ZCARD", &key])
            .ok()
            .filter(|count| *count == redis::Value::Int(1))
    };
    within(PATIENCE, reads).expect("it has taken errors");
    // It blocks in a pipe that is full, and renews its lease; the next one waits for it.
    let mut next = start_reader(&fleet, Stdio::piped());
    let mut told = BufReader::new(next.stderr.take().expect("piped"));
    let next = std::thread::spawn(|| next.wait_with_output().expect("it ends"));
    let mut line = String::new();
    told.read_line(&mut line).expect("text");
    assert!(line.contains("waiting for another get-errors"), "{line:?}");
    assert!(
        !next.is_finished(),
        "the next reader did not wait for one that is alive"
    );
    let _ = killed.kill();
    let _ = killed.wait();
    let mut got = Vec::new();
    pipe.read_to_end(&mut got).expect("what was in the pipe");
    // Its last line may be half a line.
    let whole = got.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut errors = json_lines(&got[..whole]);
    let output = next.join().expect("no panic");
    assert!(output.status.success(), "{}", said(&output));
    let printed = json_lines(&output.stdout);
    each_once(&printed);
    errors.extend(printed);
    assert_eq!(numbers(&errors), (0..3000).collect::<Vec<_>>());
    assert_eq!(fleet.status().errors, 0);
}

/// The reader's connection falls silent after so many bytes of its requests or of the replies, and then it is killed:
/// before it has taken anything, in a take, between take and print, between print and confirm, in the leave.
#[test]
fn a_reader_that_is_killed_at_any_step_loses_nothing_and_only_its_last_batch_is_printed_again() {
    const COUNT: u64 = 30_000;
    const STEPS: [(Direction, u64); 2] = [(Direction::Requests, 30), (Direction::Replies, 10)];
    let server = RedisServer::start();
    let fleet = failed(&server, COUNT);
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
    let url = format!("redis://{}", proxy.address());
    let read = || {
        let mut command = fleet.command_at(&url, &["get-errors", "--json", "--limit", "700"]);
        command.stdout(Stdio::piped());
        let mut reader = command.spawn().expect("the program starts");
        let mut pipe = reader.stdout.take().expect("piped");
        let printing = std::thread::spawn(move || {
            let mut printed = Vec::new();
            pipe.read_to_end(&mut printed).expect("readable");
            printed
        });
        let ended = within(PATIENCE, || {
            let ended = reader.try_wait().expect("a child of ours");
            (ended.is_some() || proxy.is_black_hole()).then_some(ended)
        });
        let _ = reader.kill();
        let _ = reader.wait();
        proxy.cut();
        proxy.black_hole(false);
        let printed = printing.join().expect("no panic");
        let whole = printed.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let printed = json_lines(&printed[..whole]);
        each_once(&printed);
        (numbers(&printed), ended.expect("it ends, or is met"))
    };

    let (mut confirmed, mut unconfirmed) = (Vec::new(), Vec::new());
    let mut totals = [0; 2];
    // The first one sends the scripts, the second one is measured.
    for _ in 0..2 {
        let before = STEPS.map(|(direction, _)| proxy.passed(direction));
        let (printed, ended) = read();
        assert!(ended.is_some_and(|status| status.success()) && printed.len() == 700);
        confirmed.extend(printed);
        totals = std::array::from_fn(|index| proxy.passed(STEPS[index].0) - before[index]);
    }
    for ((direction, steps), total) in STEPS.into_iter().zip(totals) {
        for step in 1..=steps {
            proxy.black_hole_after(direction, total * step / steps);
            let (printed, ended) = read();
            // Batches are of 500: one that has printed more has confirmed the first.
            let sure = match ended {
                Some(_) => printed.len(),
                None => printed.len() / 501 * 500,
            };
            confirmed.extend(&printed[..sure]);
            unconfirmed.extend(&printed[sure..]);
        }
    }
    assert!(!unconfirmed.is_empty(), "nobody was killed between print and confirm");

    let rest = fleet.errors();
    assert_eq!(each_once(&rest).len(), rest.len());
    assert_eq!(fleet.status().errors, 0);
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for number in numbers(&rest).iter().chain(&confirmed).chain(&unconfirmed) {
        *times.entry(*number).or_default() += 1;
    }
    assert!(
        times.keys().copied().eq(0..COUNT),
        "{} of {COUNT} were printed",
        times.len()
    );
    let explained: BTreeSet<u64> = unconfirmed.into_iter().collect();
    for (number, times) in times.iter().filter(|(_, times)| **times > 1) {
        assert!(explained.contains(number), "{number} was printed {times} times");
    }
}

#[test]
fn a_full_disk_is_one_line_and_loses_nothing() {
    let server = RedisServer::start();
    let fleet = failed(&server, 700);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let Ok(full) = full else { return }; // Only Linux has it.
    let output = start_reader(&fleet, full).wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr).lines().count(),
        1,
        "{}",
        said(&output)
    );
    assert_eq!(numbers(&fleet.errors()), (0..700).collect::<Vec<_>>());
}

#[test]
fn a_reader_does_not_wait_for_ever_for_one_whose_output_stands_still() {
    let server = RedisServer::start();
    let fleet = failed(&server, 3000);
    // Nobody reads what it prints, which is more than a pipe holds.
    let mut stuck = start_reader(&fleet, Stdio::piped());
    let key = format!("{{qr:{}}}:readers", fleet.queue());
    let reads = || {
        server
            .command(&["ZCARD", &key])
            .ok()
            .filter(|count| *count == redis::Value::Int(1))
    };
    within(PATIENCE, reads).expect("it holds some");
    let output = fleet.command(&["get-errors", "--json"]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("waiting for another get-errors") && told.contains("still holds"),
        "{told}"
    );
    let mut printed = numbers(&json_lines(&output.stdout));
    assert!(!printed.is_empty() && printed.len() < 3000, "{}", printed.len());
    stuck.kill().expect("killed");
    stuck.wait().expect("gone");
    printed.extend(numbers(&fleet.errors()));
    printed.sort_unstable();
    printed.dedup();
    // What the other one had printed and confirmed is nobody's any more.
    assert!(printed.len() >= 2000, "{}", printed.len());
}
