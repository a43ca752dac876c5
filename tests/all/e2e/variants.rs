//! The published variants of the task: every command line of the table in docs/exercise.md is run, and does what its row says.
//!
//! The table has the header `| variant | command |`. A command cell holds command lines in backticks, each of the form
//! `NAME=value … queenright …`; `N ×` in front of one starts N copies (three otherwise) and what is no `start` runs
//! once something has failed. Where a row names a Redis, it is replaced by the test's; where it names `config.txt`, such
//! a file is put beside the executable.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::fleet::{PATIENCE, PROGRAM, bare, json_lines, said, within};
use crate::server::RedisServer;

const HEADER: &str = "| variant | command |";

/// A command line of the table.
#[derive(Debug, Clone)]
struct Line {
    copies: usize,
    environment: Vec<(String, String)>,
    args: Vec<String>,
}

impl Line {
    fn read(copies: usize, text: &str) -> Self {
        let mut words = text.split_whitespace().map(String::from).peekable();
        let mut environment = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
            environment.push((name.to_string(), value.to_string()));
            words.next();
        }
        assert_eq!(words.next().as_deref(), Some("queenright"), "{text}");
        Self {
            copies,
            environment,
            args: words.collect(),
        }
    }

    fn is_start(&self) -> bool {
        self.args
            .first()
            .is_none_or(|word| word == "start" || word.starts_with('-'))
    }

    fn value(&self, flag: &str) -> Option<&str> {
        let at = self.args.iter().position(|word| word == flag)?;
        self.args.get(at + 1).map(String::as_str)
    }
}

/// The rows of the first table with our header.
fn rows(text: &str) -> Vec<(String, Vec<Line>)> {
    let lines = text.lines().skip_while(|line| line.trim() != HEADER).skip(2);
    let table = lines.take_while(|line| line.trim_start().starts_with('|'));
    table
        .map(|row| {
            let mut cells = row.trim().trim_matches('|').split(" | ");
            let (name, commands) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            let pieces: Vec<&str> = commands.split('`').collect();
            let lines = pieces.chunks_exact(2).map(|piece| {
                let before = piece[0].trim().strip_suffix('×').unwrap_or("3").trim();
                let before = before.rsplit([' ', ',']).next().unwrap_or_default();
                Line::read(before.parse().unwrap_or_else(|_| panic!("copies: {row}")), piece[1])
            });
            (name.trim().to_string(), lines.collect())
        })
        .collect()
}

/// A row at work: ends its copies when dropped.
struct Row {
    server: RedisServer,
    name: String,
    queue: String,
    program: PathBuf,
    beside: Option<tempfile::TempDir>,
    copies: Vec<Child>,
}

impl Row {
    fn new(name: &str) -> Self {
        let mut row = Self {
            server: RedisServer::start(),
            name: name.into(),
            queue: "of-the-row".into(),
            program: PROGRAM.into(),
            beside: None,
            copies: Vec::new(),
        };
        if name.contains("config.txt") {
            let directory = tempfile::tempdir().expect("a directory");
            row.program = directory.path().join("queenright");
            std::fs::copy(PROGRAM, &row.program).expect("copied");
            let lines = format!(
                "127.0.0.1:{}\n{}\nold-errors\nnotify\nelect\n",
                row.server.port(),
                row.queue
            );
            std::fs::write(directory.path().join("config.txt"), lines).expect("written");
            row.beside = Some(directory);
        }
        row
    }

    /// The row's own words; the environment, which flags win over, adds which Redis, and how fast.
    fn command(&self, line: &Line) -> Command {
        let mut command = bare(Command::new(&self.program));
        command.args(&line.args).stdout(Stdio::piped()).stderr(Stdio::null());
        if line.is_start() {
            command.env("QUEENRIGHT_INTERVAL", "20ms");
        }
        if self.beside.is_some() {
            return command;
        }
        command.env("QUEENRIGHT_QUEUE", &self.queue);
        let named = |name: &str| line.environment.iter().any(|(given, _)| given == name);
        if named("REDIS_HOST") {
            command
                .env("REDIS_HOST", "127.0.0.1")
                .env("REDIS_PORT", self.server.port().to_string());
        } else {
            command.env(
                if named("REDISURL") { "REDISURL" } else { "REDIS_URL" },
                self.server.url(),
            );
        }
        for (name, value) in line.environment.iter().filter(|(name, _)| !name.starts_with("REDIS")) {
            command.env(name, value);
        }
        command
    }

    fn start(&mut self, line: &Line) {
        for _ in 0..line.copies {
            let child = self.command(line).spawn().expect("the program starts");
            self.copies.push(child);
        }
    }

    /// What the program itself says of the queue.
    fn ask(&self, args: &str) -> Option<Vec<Value>> {
        let output = self
            .command(&Line::read(1, &format!("queenright {args}")))
            .output()
            .expect("it starts");
        output.status.success().then(|| json_lines(&output.stdout))
    }

    fn wait_status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = within(PATIENCE, || {
            last = self.ask("status --json")?.remove(0);
            holds(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("{}: waited in vain until {what}: {last}", self.name))
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for child in &mut self.copies {
            let _ = child.kill();
        }
        for child in &mut self.copies {
            let _ = child.wait();
        }
    }
}

fn works(name: &str, lines: &[Line]) {
    let mut row = Row::new(name);
    let (starts, others): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.is_start());
    assert!(!starts.is_empty(), "{name}: nothing is started");
    let mut fails = false;
    let mut wanted = None;
    for start in &starts {
        row.start(start);
        fails |= start.value("--error-rate") != Some("0");
        wanted = start
            .value("--messages")
            .map(|count| count.parse::<u64>().expect("a number"));
    }
    let count = |status: &Value, name: &str| status[name].as_u64().unwrap_or_default();
    let copies = row.copies.len();
    row.wait_status("all copies are there and one generates", |status| {
        let roles = status["nodes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|node| &node["role"]);
        roles.clone().count() == copies && roles.filter(|role| *role == "generator").count() == 1
    });
    let status = row.wait_status("messages get their outcome", |status| match wanted {
        Some(all) => count(status, "published") == all && count(status, "done") + count(status, "failed") == all,
        None => count(status, "done") >= 3 && (!fails || count(status, "failed") >= 1),
    });
    assert!(fails || count(&status, "failed") == 0, "{name}: {status}");
    if fails {
        let text = starts[0].value("--generate") == Some("text");
        for error in row.ask("get-errors --keep --json").expect("it answers") {
            let (number, payload) = (&error["number"], error["payload"].as_str().expect("text"));
            let fits = if text {
                payload.ends_with(&format!(" number={number}")) && payload.contains(" epoch=")
            } else {
                number.as_u64() == payload.parse().ok()
            };
            assert!(fits, "{name}: {error}");
        }
    }
    for other in &others {
        let before = row.wait_status("something has failed", |status| count(status, "errors") > 0);
        let output = row.command(other).output().expect("the program starts");
        assert!(output.status.success(), "{name}: {}", said(&output));
        let printed = String::from_utf8_lossy(&output.stdout).lines().count() as u64;
        let least = other
            .value("--limit")
            .map_or(u64::MAX, |limit| limit.parse().expect("a number"));
        assert!(
            printed >= least.min(count(&before, "errors")),
            "{name}: {}",
            said(&output)
        );
    }
}

#[test]
fn every_variant_of_the_task_works_by_the_command_line_of_its_row() {
    let found = rows(include_str!("../../../docs/exercise.md"));
    assert!(found.len() >= 8, "the table is cut short: {found:?}");
    for (name, lines) in &found {
        works(name, lines);
    }
}
