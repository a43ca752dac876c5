//! `push`: messages from outside.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::fleet::{Fleet, json_lines, said};
use crate::server::RedisServer;

/// Runs a command of the fleet's queue with this input.
pub fn feed(fleet: &Fleet, args: &[&str], input: &str) -> Output {
    let mut command = fleet.command(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_string();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    output
}

pub fn good(output: &Output) -> String {
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A queue that no copy works on yet.
fn alone(server: &RedisServer) -> Fleet {
    Fleet::on(server)
        .copies(0)
        .args("--interval 0 --work 0 --error-rate 0")
        .start()
}

#[test]
fn pushed_messages_are_numbered_before_and_beside_the_generated_ones() {
    let server = RedisServer::start();
    let mut fleet = alone(&server);
    assert_eq!(good(&feed(&fleet, &["push", "hello", "world"], "")), "0\n1\n");
    assert_eq!(good(&feed(&fleet, &["push"], "from\nstdin\n")), "2\n3\n");
    assert_eq!(good(&feed(&fleet, &["push", "-"], "no newline at the end")), "4\n");
    for _ in 0..2 {
        fleet.add("--messages 20");
    }
    let pushed = good(&feed(&fleet, &["push", "--json"], "{\"payload\":\"late\"}\n"));
    let number = json_lines(pushed.as_bytes())[0]["number"].as_u64().expect("a number");
    let published = (number + 1).max(20);
    fleet.wait_through(published);
    fleet.wait_for("all lines are there", |lines| {
        lines.iter().filter(|line| line.is("done")).count() as u64 >= published
    });
    let mut payloads = vec![String::new(); usize::try_from(published).expect("few")];
    for line in fleet.lines().iter().filter(|line| line.is("done")) {
        let number = usize::try_from(line.number.expect("numbered")).expect("few");
        payloads[number].clone_from(&line.payload);
    }
    assert_eq!(payloads[..4], ["hello", "world", "from", "stdin"]);
    let late = usize::try_from(number).expect("few");
    assert_eq!(payloads[late], "late");
    for (number, payload) in payloads
        .iter()
        .enumerate()
        .skip(5)
        .filter(|(number, _)| *number != late)
    {
        assert_eq!(
            *payload,
            number.to_string(),
            "the generator goes on behind those that were pushed"
        );
    }
}

#[test]
fn a_key_makes_a_repeat_a_no_op_and_a_delay_waits() {
    let server = RedisServer::start();
    let fleet = alone(&server);
    let push = |args: &[&str]| good(&feed(&fleet, args, ""));
    assert_eq!(push(&["push", "--key", "17", "--delay", "1h", "charge 17"]), "0\n");
    assert_eq!(push(&["push", "--key", "17", "charge 17"]), "0\n");
    let again = push(&["push", "--json", "--key", "17", "charge 17"]);
    assert_eq!(again, "{\"number\":0,\"repeated\":true}\n");
    let input = "{\"payload\":\"x\",\"key\":\"17\"}\n{\"payload\":{\"id\":18},\"key\":\"18\"}\n";
    let lines = json_lines(good(&feed(&fleet, &["push", "--json"], input)).as_bytes());
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line["number"].as_u64(), line["repeated"].as_bool()))
        .collect();
    assert_eq!(told, [(Some(0), Some(true)), (Some(1), Some(false))]);
    let status = fleet.status();
    assert_eq!((status.later, status.queued), (1, 1), "{status:?}");
}

#[test]
fn ten_thousand_lines_are_pushed_by_several_at_once_and_each_is_done_once() {
    let server = RedisServer::start();
    let mut fleet = alone(&server);
    for _ in 0..2 {
        fleet.add("--messages 0 --quiet");
    }
    let lines = "a line\n".repeat(5000);
    let mut given: Vec<u64> = std::thread::scope(|scope| {
        let pushers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| good(&feed(&fleet, &["push"], &lines))))
            .collect();
        pushers
            .into_iter()
            .flat_map(|pusher| {
                let printed = pusher.join().expect("no panic");
                let numbers = printed.lines().map(|line| line.parse().expect("a number"));
                numbers.collect::<Vec<u64>>()
            })
            .collect()
    });
    given.sort_unstable();
    assert_eq!(given, (0..10_000).collect::<Vec<u64>>());
    assert_eq!(fleet.wait_through(10_000).done, 10_000);
}

#[test]
fn a_bad_line_is_named_and_what_comes_before_it_is_pushed() {
    let server = RedisServer::start();
    let fleet = alone(&server);
    let output = feed(
        &fleet,
        &["push", "--json"],
        "{\"payload\":\"fine\"}\n{\"load\":1}\n{\"payload\":\"after\"}\n",
    );
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert_eq!(json_lines(&output.stdout).len(), 1, "{}", said(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("line 2"),
        "{}",
        said(&output)
    );
    let output = feed(&fleet, &["push", "--key", "k", "a", "b"], "");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let output = feed(&fleet, &["push", "--max-backlog", "1", "a", "b"], "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no room"),
        "{}",
        said(&output)
    );
    assert_eq!(fleet.status().published, 1);
}

#[test]
fn of_more_than_fits_what_fits_is_pushed_and_said() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(0).start();
    let lines = "a line\n".repeat(500);
    let output = feed(&fleet, &["push", "--max-backlog", "100"], &lines);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let printed: Vec<u64> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    assert_eq!(printed, (0..100).collect::<Vec<_>>());
    assert_eq!(fleet.status().queued, 100);
}

#[test]
fn a_file_of_windows_and_empty_lines_are_what_people_mean_and_it_is_said() {
    let server = RedisServer::start();
    let fleet = alone(&server);
    let output = feed(&fleet, &["push"], "\u{feff}one\r\n\r\n two \r\n\n");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n1\n");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["byte order mark", "off 3 lines", "skipped 2 empty lines"] {
        assert!(told.contains(word), "{told}");
    }
    assert_eq!(told.lines().count(), 1, "{told}");
    let output = feed(
        &fleet,
        &["push", "--json"],
        "{\"payload\":\"three\"}\r\n\r\n{\"payload\":\"\"}\n",
    );
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(json_lines(&output.stdout).len(), 2);
    // An argument is a payload, whatever is in it.
    good(&feed(&fleet, &["push", "", "four\r"], ""));
    let output = feed(&fleet, &["--burst", "--work", "0", "--error-rate", "1", "--quiet"], "");
    assert!(output.status.success(), "{}", said(&output));
    let payloads: Vec<_> = fleet.errors().iter().map(|error| error["payload"].clone()).collect();
    assert_eq!(payloads, ["one", " two ", "three", "", "", "four\r"]);
}
