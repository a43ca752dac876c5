//! The handlers of the README, as they are printed: each block whose first comment is a file's name becomes that file, and
//! each command line beside them is run.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fleet::{Fleet, PATIENCE, PROGRAM, bare, json_lines, said, within};
use crate::server::RedisServer;

const README: &str = include_str!("../../../../README.md");
const MESSAGES: u64 = 20;
const FILES: [&str; 4] = ["handler.py", "each.sh", "service.py", "poller.py"];

/// The code blocks of the README.
fn blocks() -> impl Iterator<Item = &'static str> {
    let pieces = README.split("\n```").collect::<Vec<_>>();
    let blocks: Vec<&str> = pieces.iter().skip(1).step_by(2).copied().collect();
    blocks
        .into_iter()
        .filter_map(|block| block.split_once('\n').map(|(_, text)| text))
}

/// The command line of the README that begins so.
fn command_line(start: &str) -> Vec<String> {
    let line = blocks().flat_map(str::lines).find(|line| line.starts_with(start));
    let line = line.unwrap_or_else(|| panic!("the README has no line {start}"));
    shell_words::split(line.split(" #").next().unwrap_or(line)).expect("words")
}

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
    /// All files of the README, in a directory of their own.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for block in blocks() {
            let name = block.lines().find_map(|line| line.strip_prefix("# "));
            if let Some(name) = name.filter(|name| FILES.contains(name)) {
                std::fs::write(directory.path().join(name), block).expect("written");
            }
        }
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
fn the_poller_of_the_readme_reads_every_line_once_and_in_order_while_generators_are_killed() {
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
    let example = include_str!("../../../../examples/feeds.rs");
    assert!(
        README.contains(&format!("```rust,no_run\n{example}```\n")),
        "they differ"
    );
    let program = std::path::Path::new(PROGRAM).with_file_name("examples").join("feeds");
    assert!(program.exists(), "cargo build --release --examples comes first");
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
    assert!(program.exists(), "cargo build --release --examples comes first");
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
    let errors = stage.run(&command_line("queenright --handle-each"));
    only_13(&errors, "unlucky");
}

#[test]
fn the_http_handler_of_the_readme_works_and_answers_curl() {
    let stage = Stage::new();
    let serve = command_line("python3 service.py");
    // The port of the README may be taken here, and whichever is free now may be taken in a moment.
    let (port, _service) = within(PATIENCE, || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port().to_string();
        drop(listener);
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
    let curl = here(command_line("curl "));
    let output = stage
        .command(&curl[0], &curl[1..])
        .output()
        .expect("curl is there: scripts/test installs it");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}
