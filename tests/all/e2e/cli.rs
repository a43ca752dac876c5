//! The command line's contracts: exit codes, one line for what went wrong, and no password anywhere.

use std::process::{Command, Output};

use crate::fleet::{Fleet, program, said};
use crate::server::RedisServer;

const SECRET: &str = "swordfish-7f3a";

/// Runs the program to its end.
fn run(args: &str, environment: &[(&str, &str)]) -> Output {
    finish(
        program()
            .args(args.split_whitespace())
            .envs(environment.iter().copied()),
    )
}

fn finish(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

/// It failed with this code and one line on stderr, which contains all of `words`.
fn fails(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    assert_eq!(stderr.lines().count(), 1, "{}", said(output));
    assert!(
        stderr.starts_with("queenright: ") && stderr.ends_with('\n'),
        "{}",
        said(output)
    );
    assert!(output.stdout.is_empty(), "{}", said(output));
    for word in words {
        assert!(stderr.contains(word), "no {word:?}: {}", said(output));
    }
}

/// A port on which nobody listens.
const NOBODY: u16 = 1;

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    for (args, words) in [
        ("--no-such-flag", ["--no-such-flag", "--help"]),
        ("start --concurrency many", ["--concurrency", "many"]),
        ("--concurrency 0", ["--concurrency", "1 to"]),
        ("--interval 500", ["--interval", "500ms"]),
        ("--port 70000", ["--port", "65535"]),
        ("--work 2s..1s", ["--work", "shorter"]),
        ("--error-rate 15%", ["--error-rate", "0.15"]),
        ("--handle=", ["--handle", "names no program"]),
        ("--handle 'python3", ["--handle", "quote"]),
        (
            "--handle no-such-program",
            ["--handle: there is no program", "no-such-program"],
        ),
        ("--handle /etc/passwd", ["--handle", "/etc/passwd"]),
        (
            "--handle-each no-such-program",
            ["--handle-each: there is no program", "no-such-program"],
        ),
        (
            "--handle-each sh --handle sh",
            ["--handle and --handle-each", "exclude each other"],
        ),
        ("--handle http://", ["--handle", "http://host:port/path"]),
        ("--timeout 0", ["--timeout", "more than 0"]),
        ("--timeout 5", ["--timeout", "5s"]),
        ("--generate poems", ["--generate: there is no program", "poems"]),
        (
            "--generate-each poems",
            ["--generate-each: there is no program", "poems"],
        ),
        ("--cron nonsense", ["--cron", "*/5 * * * *"]),
        ("--tz Mars/Olympus", ["--tz", "Europe/Berlin"]),
        ("--url http://localhost", ["--url", "redis://"]),
        ("--url localhost", ["--url", "redis://"]),
        ("get-errors --limit none", ["--limit", "none"]),
        ("get-errors --interval 1s", ["--interval", "--help"]),
        ("nonsense", ["nonsense", "--help"]),
        ("--config /no/such/file", ["--config", "/no/such/file"]),
        ("--env=/no/such/file", ["--env", "/no/such/file"]),
    ] {
        fails(&run(args, &[]), 2, &words);
    }
    fails(
        &run("start", &[("QUEENRIGHT_LEASE", "soon")]),
        2,
        &["QUEENRIGHT_LEASE", "soon"],
    );
}

#[test]
fn help_and_version_are_shown_on_stdout() {
    let help = run("--help", &[]);
    assert!(help.status.success() && help.stderr.is_empty(), "{}", said(&help));
    assert!(String::from_utf8_lossy(&help.stdout).contains("--host beats REDIS_URL"));
    let version = run("--version", &[]);
    let wanted = format!("queenright {}", env!("CARGO_PKG_VERSION"));
    let text = String::from_utf8_lossy(&version.stdout);
    assert!(text.starts_with(&wanted), "{text}");
    assert!(text.contains("\nfeatures: cli cron otel serde sqlite tls"), "{text}");
    let short = run("-V", &[]);
    assert_eq!(String::from_utf8_lossy(&short.stdout), format!("{wanted}\n"));
}

#[test]
fn what_cannot_be_shown_on_a_full_disk_is_said() {
    for arguments in ["--help", "--version", "completions bash", "man"] {
        // Only Linux has it.
        let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
            return;
        };
        let output = program().args(arguments.split(' ')).stdout(full).output();
        fails(&output.expect("the program starts"), 1, &["cannot write the output"]);
    }
}

#[test]
fn no_redis_is_one_line_with_the_address_and_exit_code_69() {
    for command in [
        "start --no-wait",
        "--no-wait",
        "get-errors",
        "getErrors",
        "getError",
        "status",
        "status --json",
    ] {
        let address = format!("127.0.0.1:{NOBODY}");
        fails(
            &run(&format!("{command} -h 127.0.0.1 -p {NOBODY}"), &[]),
            69,
            &[&address],
        );
    }
}

#[test]
fn a_copy_waits_for_a_redis_that_is_not_there_yet() {
    let mut server = RedisServer::start();
    server.kill();
    let mut fleet = Fleet::on(&server).args("--interval 50ms").start();
    let address = format!("127.0.0.1:{}", server.port());
    fleet.wait_for("it says that it waits", |lines| {
        let ways = [&address, "--no-wait", "queenright demo", "--url sqlite:", "install"];
        let says = |text: &str| ways.iter().all(|way| text.contains(way));
        lines
            .iter()
            .any(|line| line.is("note") && line.fields["message"].as_str().is_some_and(says))
    });
    fleet.nobody_exited_but(&[]);
    server.restart();
    fleet.wait_for("it works", |lines| lines.iter().any(|line| line.is("published")));
}

#[test]
fn a_wrong_password_is_one_line_without_it_and_exit_code_1() {
    let server = RedisServer::with_args(&["--requirepass", SECRET]);
    let (port, wrong) = (server.port(), "hunter2-11b0");
    for command in ["start", "get-errors", "status"] {
        let at = format!("{command} -h 127.0.0.1 -p {port}");
        let output = run(&at, &[("REDIS_PASS", wrong)]);
        fails(&output, 1, &["REDIS_PASS"]);
        assert!(!said(&output).contains(wrong), "{}", said(&output));
        let url = format!("redis://:{wrong}@127.0.0.1:{port}");
        let output = run(command, &[("REDIS_URL", &url)]);
        fails(&output, 1, &["REDIS_PASS"]);
        assert!(!said(&output).contains(wrong), "{}", said(&output));
        fails(&run(&at, &[]), 1, &["REDIS_PASS"]);
    }
}

#[test]
fn a_password_on_the_command_line_works_and_warns() {
    let server = RedisServer::with_args(&["--requirepass", SECRET]);
    let at = format!("get-errors -h 127.0.0.1 -p {}", server.port());
    let output = run(&format!("{at} --pass {SECRET}"), &[]);
    assert!(output.status.success(), "{}", said(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("REDIS_PASS") && !stderr.contains(SECRET), "{stderr}");
    let output = run(&at, &[("REDIS_PASS", SECRET)]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !stderr.contains("REDIS_PASS"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_evicting_redis_is_refused() {
    let server = RedisServer::with_args(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let output = run(&format!("start -h 127.0.0.1 -p {}", server.port()), &[]);
    fails(&output, 1, &["allkeys-lru", "noeviction"]);
}

#[test]
fn a_queue_of_another_kind_is_refused() {
    let server = RedisServer::start();
    let start = |queue: &str| run(&format!("start -h 127.0.0.1 -p {} -q {queue}", server.port()), &[]);
    let newer = Fleet::on(&server).queue("newer").start();
    newer.wait_for("it has joined", |lines| lines.iter().any(|line| line.is("joined")));
    drop(newer);
    server
        .command(&["HSET", "{qr:newer}:meta", "layout", "99"])
        .expect("set");
    fails(&start("newer"), 1, &["newer", "99", "upgrade"]);
    server
        .command(&["SET", "{qr:foreign}:queue", "something"])
        .expect("set");
    fails(&start("foreign"), 1, &["{qr:foreign}:queue", "string"]);
    fails(
        &run(&format!("status -h 127.0.0.1 -p {} -q none", server.port()), &[]),
        1,
        &["none"],
    );
}

#[test]
fn status_has_a_form_for_people() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(2).args("--interval 20ms").start();
    fleet.wait_for("some are published", |lines| {
        lines.iter().any(|line| line.is("published"))
    });
    let output = finish(&mut fleet.command(&["status"]));
    let text = String::from_utf8_lossy(&output.stdout);
    for word in [
        "generator",
        "handler",
        "published",
        "in hand",
        "rate",
        &fleet.status().nodes[0].node,
    ] {
        assert!(text.contains(word), "no {word}: {text}");
    }
}
