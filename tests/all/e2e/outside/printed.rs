//! The programs that the README and the book print, run as they stand there: each block whose first line names a file becomes
//! that file, and the command line beside it is run. `docs.rs` sees to it that every line runs; here is what comes of it.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::docs::page::{command_line, write_files};
use crate::fleet::{Fleet, PATIENCE, PROGRAM, bare, json_lines, said, within};
use crate::server::{RedisServer, free_port};

const MESSAGES: u64 = 20;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // In good order, so that it can end what it has started.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = within(PATIENCE, || self.0.try_wait().ok().flatten());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Stage {
    directory: tempfile::TempDir,
    server: RedisServer,
}

impl Stage {
    /// All files of all pages, in a directory of their own.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        write_files(directory.path());
        let server = RedisServer::start();
        Self { directory, server }
    }

    fn command(&self, program: &str, args: &[String]) -> Command {
        let mut command = bare(Command::new(program));
        command
            .args(args)
            .current_dir(self.directory.path())
            .env("REDIS_URL", self.server.url())
            .stdout(Stdio::piped());
        command
    }

    /// Runs a `queenright` line as a fleet of one, until all messages have their outcome. Returns the errors.
    fn run(&self, words: &[String]) -> Vec<serde_json::Value> {
        assert_eq!(words[0], "queenright");
        let mut command = self.command(PROGRAM, &words[1..]);
        command
            .env("QUEENRIGHT_INTERVAL", "1ms")
            .env("QUEENRIGHT_MESSAGES", MESSAGES.to_string())
            .env("QUEENRIGHT_LEASE", "30s")
            .env("QUEENRIGHT_ALSO_HANDLE", "1");
        let _running = Running(command.stderr(Stdio::null()).spawn().expect("it starts"));
        let ask = |args: &str| {
            let args: Vec<String> = args.split(' ').map(String::from).collect();
            let output = self.command(PROGRAM, &args).output().expect("it starts");
            (output.status.success(), said(&output), json_lines(&output.stdout))
        };
        let mut last = String::new();
        within(PATIENCE, || {
            let (fine, text, lines) = ask("status --json");
            last = text;
            let settled = lines.first().filter(|_| fine)?;
            let count = |name: &str| settled[name].as_u64().unwrap_or_default();
            (count("done") + count("failed") == MESSAGES).then_some(())
        })
        .unwrap_or_else(|| panic!("not all are settled: {last}"));
        ask("get-errors --json").2
    }
}

/// For how many seconds generators are killed, one a second, in the long form.
const LONG: &str = "QUEENRIGHT_POLLER";

#[test]
fn the_poller_of_the_recipe_reads_every_line_once_and_in_order_while_generators_are_killed() {
    let stage = Stage::new();
    let words = command_line("queenright --generate 'python3 poller.py'");
    let log = stage.directory.path().join("access.log");
    std::fs::write(&log, "").expect("written");
    // Everything fails: so the store keeps what was published, in its order.
    let mut plan = Fleet::on(&stage.server)
        .copies(3)
        .args("--error-rate 1 --work 0 --quiet");
    for word in &words[1..=3] {
        plan = plan.arg(word);
    }
    let mut fleet = plan.directory(stage.directory.path()).start_joined();

    let seconds: Option<u64> = std::env::var(LONG).ok().map(|text| text.parse().expect("seconds"));
    let line = |number: u64| format!("{number} \"GET /{number}\" \\ ü");
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&log).expect("opened");
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                // In two parts: a line may be there by half.
                write!(file, "{}", line(written)).expect("written");
                std::thread::sleep(Duration::from_micros(500));
                writeln!(file).expect("written");
                written += 1;
            }
            written
        });
        let killing = scope.spawn(|| {
            for _ in 0..seconds.unwrap_or(4) {
                if seconds.is_some() {
                    std::thread::sleep(Duration::from_secs(1));
                }
                let before = fleet.status().published;
                fleet.wait_status("more lines are read", |status| status.published > before + 20);
                let generator = fleet.generator();
                fleet.kill9(generator);
                fleet.add("");
            }
        });
        let killed = killing.join();
        stop.store(true, Ordering::Relaxed);
        let written = writer.join().expect("it writes");
        killed.expect("it goes on");
        written
    });
    fleet.wait_through(written);
    let read = fleet.errors();
    assert_eq!(read.len() as u64, written);
    for (number, error) in (0..).zip(&read) {
        assert_eq!(error["number"], number);
        assert_eq!(error["payload"], line(number), "in order, none twice, none missing");
    }
}

#[test]
fn the_rust_of_the_readme_works() {
    let program = std::path::Path::new(PROGRAM).with_file_name("examples").join("feeds");
    assert!(program.exists(), "cargo build --profile gate --examples comes first");
    let stage = Stage::new();
    let start = || {
        Running(
            stage
                .command(&program.display().to_string(), &[])
                .spawn()
                .expect("it starts"),
        )
    };
    let mut copies = [start(), start()];
    let read = within(PATIENCE, || {
        let read = stage.server.command(&["GET", "feeds:read"]).ok()?;
        redis::from_redis_value::<Option<u64>>(read)
            .ok()?
            .filter(|read| *read >= 3)
    });
    assert!(read.is_some(), "nothing was read");
    for copy in &mut copies {
        crate::fleet::signal(copy.0.id(), "INT");
        assert!(crate::fleet::wait_exit(&mut copy.0).success());
    }
}

#[test]
fn the_example_of_a_test_passes() {
    let program = std::path::Path::new(PROGRAM).with_file_name("examples").join("testing");
    assert!(program.exists(), "cargo build --profile gate --examples comes first");
    let output = Command::new(program).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
}

fn only_13(errors: &[serde_json::Value], word: &str) {
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["number"], 13);
    assert!(
        errors[0]["error"].as_str().expect("a text").contains(word),
        "{errors:?}"
    );
}

#[test]
fn the_python_handler_of_the_readme_works() {
    let stage = Stage::new();
    let errors = stage.run(&command_line("queenright --handle 'python3 handler.py'"));
    only_13(&errors, "unlucky");
    let handled = stage.server.command(&["GET", "handled"]).expect("an answer");
    assert_eq!(redis::from_redis_value::<u64>(handled).expect("a number"), MESSAGES - 1);
}

#[test]
fn the_shell_handler_of_the_readme_works() {
    let stage = Stage::new();
    let errors = stage.run(&command_line("queenright --handle-each 'sh each.sh'"));
    only_13(&errors, "unlucky");
}

#[test]
fn the_http_handler_of_the_recipe_works_and_answers_curl() {
    let stage = Stage::new();
    let serve = command_line("python3 service.py");
    // The port on the page may be taken here, and whichever is free now may be taken in a moment.
    let (port, _service) = within(PATIENCE, || {
        let port = free_port().to_string();
        let args = serve[1..]
            .iter()
            .map(|word| word.replace("8000", &port))
            .collect::<Vec<_>>();
        let mut command = stage.command(&serve[0], &args);
        let mut service = Running(command.stderr(Stdio::null()).spawn().expect("python3 is there"));
        let ready = within(PATIENCE, || {
            if service.0.try_wait().expect("a child of ours").is_some() {
                return Some(false);
            }
            TcpStream::connect(format!("127.0.0.1:{port}")).ok().map(|_| true)
        });
        (ready == Some(true)).then_some((port, service))
    })
    .expect("it listens");
    let here = |words: Vec<String>| -> Vec<String> { words.iter().map(|word| word.replace("8000", &port)).collect() };
    let errors = stage.run(&here(command_line("queenright --handle http://")));
    only_13(&errors, "500");
    let curl = here(command_line("curl --silent --data"));
    let output = stage
        .command(&curl[0], &curl[1..])
        .output()
        .expect("curl is there: scripts/test installs it");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}

/// The words of a page as a fleet on the stage's Redis, in its directory.
fn fleet(stage: &Stage, words: &[String], more: &str) -> crate::fleet::Plan {
    let mut plan = Fleet::on(&stage.server).directory(stage.directory.path());
    for word in &words[1..] {
        plan = plan.arg(word);
    }
    plan.args(more)
}

/// Without the queue that the page names: the fleet has one of its own.
fn without_queue(mut words: Vec<String>) -> Vec<String> {
    let at = words.iter().position(|word| word == "-q").expect("it names a queue");
    words.drain(at..at + 2);
    words
}

#[test]
fn the_worker_of_the_recipe_is_done_with_one_puts_off_one_and_fails_at_one() {
    let stage = Stage::new();
    let fleet = fleet(
        &stage,
        &command_line("queenright --handle 'python3 worker.py'"),
        "--lease 30s",
    )
    .start_joined();
    let push = command_line("queenright push fine busy broken");
    let push: Vec<&str> = push[1..].iter().map(String::as_str).collect();
    let output = fleet.command(&push).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    fleet.wait_status("each has gone its way", |status| {
        (status.done, status.later, status.errors) == (1, 1, 1)
    });
    let errors = fleet.errors();
    assert_eq!(errors[0]["error"], "ValueError('nobody can read this')");
    assert_eq!(errors[0]["payload"], "broken");
}

#[test]
fn the_effects_of_the_recipe_are_there_once_for_each_message() {
    let stage = Stage::new();
    let words = without_queue(command_line("queenright -q orders --handle"));
    assert!(stage.run(&words).is_empty());
    let get = |args: &[&str]| stage.server.command(args).expect("an answer");
    let number = |value| redis::from_redis_value::<u64>(value).expect("a number");
    assert_eq!(number(get(&["GET", "orders:total"])), MESSAGES);
    assert_eq!(number(get(&["HLEN", "orders:by-number"])), MESSAGES);
    assert_eq!(number(get(&["LLEN", "orders:log"])), MESSAGES);
    assert!(number(get(&["GET", "orders:last"])) < MESSAGES);
}

#[test]
fn the_idempotency_key_of_the_recipe_keeps_work_from_being_done_twice_while_nodes_are_killed() {
    const ALL: u32 = 300;
    let stage = Stage::new();
    let words = without_queue(command_line("queenright -q charges --handle"));
    let mut fleet = fleet(&stage, &words, "--interval 2ms --messages 300 --lease 1s --quiet")
        .copies(3)
        .start_joined();
    for settled in [20, 80, 140] {
        fleet.wait_status("some are done", |status| status.settled() > settled);
        // A handler: what it had in hand is delivered again.
        let handler = (0..fleet.len()).rev().find(|copy| *copy != fleet.generator());
        fleet.kill9(handler.expect("there are three"));
        fleet.add("");
    }
    let status = fleet.wait_through(ALL.into());
    assert_eq!(status.done, u64::from(ALL), "{status:?}");
    let ledger = rusqlite::Connection::open(stage.directory.path().join("ledger.db")).expect("the ledger");
    let rows = ledger.query_row("SELECT count(*), count(DISTINCT what) FROM charged", [], |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?))
    });
    assert_eq!(rows.expect("rows"), (ALL, ALL), "each charged once");
}

#[test]
fn the_schedule_of_the_recipe_hands_each_tick_to_the_script() {
    let stage = Stage::new();
    let mut words = without_queue(command_line("queenright -q reports --cron"));
    // Nobody waits for three o'clock.
    let pattern = words.iter_mut().find(|word| word.contains('*')).expect("a pattern");
    *pattern = "* * * * * *".into();
    let fleet = fleet(&stage, &words, "--lease 30s").copies(2).start_joined();
    fleet.wait_for_more("done", 2);
    let lines = fleet.lines();
    let done = lines.iter().filter(|line| line.is("done"));
    let ticks: Vec<&String> = done.map(|line| &line.payload).collect();
    assert!(
        ticks.iter().all(|tick| tick.len() == 20 && tick.ends_with('Z')),
        "{ticks:?}"
    );
    assert_ne!(ticks[0], ticks[1]);
}
