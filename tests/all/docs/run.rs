//! Runs the command lines of a page, from top to bottom, as a reader would: in one directory, on one Redis.
//!
//! A line that starts a node or a service goes on until its block ends. A node must get something done: an outcome, or, if it
//! never generates, all that waits; and it must end well. Every other line must succeed. The environment, which flags win
//! over, adds which Redis, and that nobody waits; ports are those that are free here.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::page::{Use, blocks, words, write_files};
use crate::fleet::{Ends, PATIENCE, PROGRAM, bare, json_lines, left_out, said, signal, wait_exit, within};
use crate::server::{RedisServer, free_port};

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        /// The pages that are run.
        pub const PAGES: &[&str] = &[$($page),*];
        $(#[test]
        fn $test() {
            run($page);
        })*
    };
}

pages! {
    the_commands_of_the_readme_work: "README.md",
    the_commands_of_commands_work: "docs/commands.md",
    the_commands_of_dashboard_work: "docs/dashboard.md",
    the_commands_of_exercise_work: "docs/exercise.md",
    the_commands_of_guarantees_work: "docs/guarantees.md",
    the_commands_of_operations_work: "docs/operations.md",
    the_commands_of_programs_work: "docs/programs.md",
    the_commands_of_start_work: "docs/start.md",
    the_commands_of_chains_work: "docs/recipes/chains.md",
    the_commands_of_cron_work: "docs/recipes/cron.md",
    the_commands_of_effects_work: "docs/recipes/effects.md",
    the_commands_of_groups_work: "docs/recipes/groups.md",
    the_commands_of_limits_work: "docs/recipes/limits.md",
    the_commands_of_headers_work: "docs/recipes/headers.md",
    the_commands_of_traces_work: "docs/recipes/traces.md",
    the_commands_of_outcomes_work: "docs/recipes/outcomes.md",
    the_commands_of_cancel_work: "docs/recipes/cancel.md",
    the_commands_of_http_work: "docs/recipes/http.md",
    the_commands_of_jobs_work: "docs/recipes/jobs.md",
    the_commands_of_poller_work: "docs/recipes/poller.md",
    the_commands_of_producers_work: "docs/recipes/producers.md",
    the_commands_of_python_work: "docs/recipes/python.md",
    the_commands_of_tests_work: "docs/recipes/tests.md",
}

/// The ports that the pages name.
const PORTS: [&str; 4] = ["4318", "8000", "8077", "9464"];
/// So many messages have failed before a page begins, so that there are errors to look at.
const FAILED: u64 = 40;

fn run(page: &str) {
    let reader = Reader::new();
    for block in blocks() {
        if block.page != page || block.usage() != Use::Lines {
            continue;
        }
        let mut started = Vec::new();
        for (at, line) in (block.line + 1..).zip(block.text.lines()) {
            started.extend(reader.line(line, &format!("{page}:{at}: {line}")));
        }
        while let Some((mut started, is_node, place)) = started.pop() {
            signal(started.0.id(), "TERM");
            let ended = wait_exit(&mut started.0);
            assert!(!is_node || ended.success(), "{place}: {ended}");
        }
    }
}

/// Someone who follows a page.
struct Reader {
    directory: tempfile::TempDir,
    server: RedisServer,
    ports: [String; PORTS.len()],
}

type Started = (Ends, bool, String);

impl Reader {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        write_files(directory.path());
        let reader = Self {
            directory,
            server: RedisServer::start(),
            ports: PORTS.map(|_| free_port().to_string()),
        };
        reader.succeeds(&format!("seq {FAILED} | queenright push"), "the messages that fail");
        reader.succeeds("queenright --burst --error-rate 1", "their failure");
        reader
    }

    /// Runs a line to its end, or starts what goes on.
    fn line(&self, line: &str, place: &str) -> Option<Started> {
        let line = self.here(line);
        let words = words(&line);
        let (Some(program), command) = (words.first(), words.get(1).map_or("", String::as_str)) else {
            return None;
        };
        if program == "node" && Command::new("node").arg("--version").output().is_err() {
            left_out(place, "there is no node");
            return None;
        }
        let is_node = program == "queenright"
            && (command.is_empty() || command == "start" || command.starts_with('-'))
            && !words.contains(&"--burst".into());
        let is_service = ["queenright dashboard", "python3 service.py", "python3 collector.py"]
            .iter()
            .any(|service| line.starts_with(service));
        if !is_node && !is_service {
            self.succeeds(&line, place);
            return None;
        }
        let before = self.status(&words);
        let mut command = self.shell(&format!("exec {line}"));
        if is_worker(&words) {
            // It would have something to generate.
            command.env_remove("QUEENRIGHT_INTERVAL");
        }
        let child = command.spawn().expect("sh is there");
        let mut started = Ends(child);
        if is_node {
            self.wait_done(&words, before.as_ref(), &mut started.0, place);
        }
        for port in self.ports.iter().filter(|port| line.contains(*port)) {
            let listens = within(PATIENCE, || TcpStream::connect(format!("127.0.0.1:{port}")).ok());
            assert!(listens.is_some(), "{place}: nobody listens at {port}");
        }
        Some((started, is_node, place.into()))
    }

    /// The line as it can be run here.
    fn here(&self, line: &str) -> String {
        let mut line = line
            .replace("cargo run --release -- ", "queenright ")
            .replace("cargo run --release", "queenright")
            .replace("0.0.0.0:", "127.0.0.1:");
        if line.starts_with("queenright dashboard") && !line.contains("--listen") {
            line = line.replacen("dashboard", "dashboard --listen 127.0.0.1:8077", 1);
        }
        // What would take a minute, and is tested in full elsewhere.
        line = line.replace("queenright demo", "queenright demo --seconds 3");
        // It is said to find a server of its own when none is named.
        line = line.replace(
            "queenright verify",
            "env -u REDIS_URL queenright verify --messages 3000",
        );
        for (named, port) in PORTS.iter().zip(&self.ports) {
            line = line.replace(&format!(":{named}"), &format!(":{port}"));
            line = line.replace(&format!(" {named}"), &format!(" {port}"));
        }
        line
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = bare(Command::new("sh"));
        let mut path = PathBuf::from(PROGRAM)
            .parent()
            .expect("a directory")
            .as_os_str()
            .to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command
            .args(["-c", line])
            .current_dir(self.directory.path())
            .env("PATH", path)
            .env("REDIS_URL", self.server.url())
            .env("QUEENRIGHT_INTERVAL", "1ms")
            .env("QUEENRIGHT_WORK", "0")
            .env("QUEENRIGHT_LEASE", "30s")
            .env("QUEENRIGHT_ALSO_HANDLE", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn succeeds(&self, line: &str, place: &str) {
        let line = format!("timeout {} sh -ec {}", PATIENCE.as_secs(), shell_words::quote(line));
        let mut command = self.shell(&line);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.expect("sh is there");
        assert!(output.status.success(), "{place}: {}", said(&output));
    }

    /// What there is to say of the queue that a line names; nothing while there is none.
    fn status(&self, words: &[String]) -> Option<Value> {
        let named = words.windows(2).filter(|pair| {
            let names = ["-q", "--queue", "--url", "--config"];
            names.contains(&pair[0].as_str())
        });
        let mut line = "queenright status --json".to_string();
        for pair in named {
            line = format!("{line} {}", shell_words::join(pair));
        }
        let output = self.shell(&line).stdout(Stdio::piped()).output().expect("sh is there");
        json_lines(&output.stdout).into_iter().next()
    }

    /// Waits until a node has got something done.
    fn wait_done(&self, words: &[String], before: Option<&Value>, child: &mut Child, place: &str) {
        let settled = |status: &Value| count(status, "done") + count(status, "failed") + count(status, "later");
        let waited = before.map_or(0, |status| settled(status) + count(status, "queued"));
        let before = before.map_or(0, settled);
        let has = |word: &str| words.iter().any(|given| given == word);
        let mut last = None;
        let done = within(PATIENCE, || {
            let ended = child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "{place}: it ended, {ended:?}");
            last = self.status(words);
            let status = last.as_ref()?;
            let is_there = status["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty());
            let is_done = if has("--cron") {
                status["generator"].is_string()
            } else if has("never") || is_worker(words) {
                count(status, "queued") + count(status, "in_hand") == 0 && settled(status) >= waited
            } else {
                settled(status) > before
            };
            (is_there && is_done).then_some(())
        });
        assert!(done.is_some(), "{place}: it gets nothing done: {last:?}");
    }
}

/// It handles, and was told nothing of generating.
fn is_worker(words: &[String]) -> bool {
    let has = |start: &str| words.iter().any(|word| word.starts_with(start));
    has("--handle") && !has("--generate") && !has("--cron") && !has("--interval")
}

fn count(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or_default()
}
