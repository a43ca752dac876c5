//! Real processes on a real Redis: starts copies of the program, collects what they log, and ends them when dropped,
//! also by a panic.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::RedisServer;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_queenright");
/// Longer than anything takes, even on a machine that does much else. Only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks at something that tells nothing by itself.
const LOOK: Duration = Duration::from_millis(20);

static QUEUES: AtomicU32 = AtomicU32::new(0);

/// One line of the log, in the order in which lines were read.
#[derive(Debug, Clone)]
pub struct Line {
    /// Which copy wrote it.
    pub copy: usize,
    pub event: String,
    pub node: String,
    pub epoch: Option<u64>,
    pub number: Option<u64>,
    pub deliveries: Option<u64>,
    pub payload: String,
    pub error: String,
    /// All fields, `ts` and what is not above.
    pub fields: Value,
}

impl Line {
    fn read(copy: usize, text: &str) -> Self {
        let fields: Value = serde_json::from_str(text).unwrap_or_else(|_| serde_json::json!({ "event": text }));
        let string = |name: &str| fields[name].as_str().unwrap_or_default().to_string();
        Self {
            copy,
            event: string("event"),
            node: string("node"),
            epoch: fields["epoch"].as_u64(),
            number: fields["number"].as_u64(),
            deliveries: fields["deliveries"].as_u64(),
            payload: string("payload"),
            error: string("error"),
            fields,
        }
    }

    pub fn is(&self, event: &str) -> bool {
        self.event == event
    }

    /// Milliseconds since midnight, by the clock of the process that wrote the line.
    pub fn at_ms(&self) -> u64 {
        let ts = self.fields["ts"].as_str().expect("every line has ts");
        let digits = |from: usize, to: usize| ts[from..to].parse::<u64>().expect("YYYY-MM-DDThh:mm:ss.mmmZ");
        ((digits(11, 13) * 60 + digits(14, 16)) * 60 + digits(17, 19)) * 1000 + digits(20, 23)
    }
}

/// What all copies have logged so far.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<Line>>,
    grown: Condvar,
}

/// `status --json`, as scripts read it.
#[derive(Debug, Clone)]
pub struct Status {
    pub generator: Option<String>,
    pub epoch: u64,
    pub published: u64,
    pub queued: u64,
    pub in_hand: u64,
    pub later: u64,
    pub done: u64,
    pub failed: u64,
    pub errors: u64,
    pub requeued: u64,
    pub trimmed: u64,
    pub nodes: Vec<Member>,
}

#[derive(Debug, Clone)]
pub struct Member {
    pub node: String,
    pub role: String,
    pub pid: u64,
    pub in_hand: u64,
    pub watched: bool,
}

impl Status {
    fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("no {name}: {text}"));
        let string = |of: &Value, name: &str| of[name].as_str().map(String::from);
        let nodes = value["nodes"].as_array().expect("nodes is an array");
        Self {
            generator: string(&value, "generator"),
            epoch: number(&value, "epoch"),
            published: number(&value, "published"),
            queued: number(&value, "queued"),
            in_hand: number(&value, "in_hand"),
            later: number(&value, "later"),
            done: number(&value, "done"),
            failed: number(&value, "failed"),
            errors: number(&value, "errors"),
            requeued: number(&value, "requeued"),
            trimmed: number(&value, "trimmed"),
            nodes: nodes
                .iter()
                .map(|node| {
                    assert!(node["host"].is_string() && node["age_ms"].is_u64(), "{text}");
                    Member {
                        node: string(node, "node").expect("node"),
                        role: string(node, "role").expect("role"),
                        pid: number(node, "pid"),
                        in_hand: number(node, "in_hand"),
                        watched: node["watched"].as_bool().expect("watched"),
                    }
                })
                .collect(),
        }
    }

    pub fn settled(&self) -> u64 {
        self.done + self.failed
    }

    /// `published` messages are out, and each has its outcome.
    pub fn is_through(&self, published: u64) -> bool {
        self.published == published && self.settled() == published
    }

    /// What the copy with this process id holds.
    pub fn held_by(&self, pid: u32) -> u64 {
        let of = self.nodes.iter().filter(|node| node.pid == u64::from(pid));
        of.map(|node| node.in_hand).sum()
    }
}

/// A fleet to be started.
pub struct Plan {
    url: String,
    queue: String,
    copies: usize,
    args: Vec<String>,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    within: Vec<String>,
}

impl Plan {
    /// Every command is run by this one, which becomes it.
    #[cfg(target_os = "linux")]
    pub fn within(mut self, command: &[&str]) -> Self {
        self.within = command.iter().map(ToString::to_string).collect();
        self
    }

    /// In the environment of every copy.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Where every copy runs.
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = directory.into();
        self
    }

    pub fn queue(mut self, name: &str) -> Self {
        self.queue = name.into();
        self
    }

    pub fn copies(mut self, copies: usize) -> Self {
        self.copies = copies;
        self
    }

    /// Arguments of every copy, separated by spaces.
    pub fn args(mut self, args: &str) -> Self {
        self.args.extend(args.split_whitespace().map(String::from));
        self
    }

    /// One argument of every copy, which may have spaces in it.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn start(self) -> Fleet {
        let mut fleet = Fleet {
            url: self.url,
            queue: self.queue,
            args: self.args,
            directory: self.directory,
            environment: self.environment,
            within: self.within,
            copies: Vec::new(),
            log: Arc::default(),
        };
        for _ in 0..self.copies {
            fleet.add("");
        }
        fleet
    }

    /// Starts all copies, and waits until each has joined: nobody looks at the queue before it is there.
    pub fn start_joined(self) -> Fleet {
        let copies = self.copies;
        let fleet = self.start();
        fleet.wait_for("all have joined", |lines| {
            lines.iter().filter(|line| line.is("joined")).count() >= copies
        });
        fleet
    }

    /// Starts one copy, waits until it generates, and only then starts the others: copy 0 is the generator.
    pub fn start_led(self) -> Fleet {
        let copies = self.copies;
        let mut fleet = self.copies(1).start();
        fleet.wait_for("copy 0 is elected", |lines| lines.iter().any(|line| line.is("elected")));
        for _ in 1..copies {
            fleet.add("");
        }
        fleet.wait_for("all have joined", |lines| {
            lines.iter().filter(|line| line.is("joined")).count() >= copies
        });
        fleet
    }
}

/// Running copies of the program on one queue.
pub struct Fleet {
    url: String,
    queue: String,
    args: Vec<String>,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    within: Vec<String>,
    copies: Vec<Child>,
    log: Arc<Log>,
}

impl Fleet {
    /// On this server, on a queue of its own, with one copy unless told otherwise.
    pub fn on(server: &RedisServer) -> Plan {
        Self::at(format!("redis://127.0.0.1:{}", server.port()))
    }

    /// The same through a proxy.
    pub fn through(proxy: &queenright::app::lab::proxy::Proxy) -> Plan {
        Self::at(format!("redis://{}", proxy.address()))
    }

    /// The same in an SQLite file.
    pub fn in_file(path: &Path) -> Plan {
        Self::at(format!("sqlite:{}", path.display()))
    }

    /// The same at any address.
    pub fn at(url: String) -> Plan {
        Plan {
            url,
            queue: format!("queue-{}", QUEUES.fetch_add(1, Ordering::Relaxed)),
            copies: 1,
            args: Vec::new(),
            directory: ".".into(),
            environment: Vec::new(),
            within: Vec::new(),
        }
    }

    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// One more copy, with arguments that win over the fleet's. Returns its index.
    pub fn add(&mut self, args: &str) -> usize {
        let copy = self.copies.len();
        let given = self.args.iter().map(String::as_str).chain(args.split_whitespace());
        let mut given: Vec<&str> = given.collect();
        let mut url = self.url.as_str();
        while let Some(flag) = given.iter().position(|arg| *arg == "--url") {
            url = given.remove(flag + 1);
            given.remove(flag);
        }
        let mut command = self.command_at(url, &["start", "--log", "json"]);
        command.args(given);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let (log, stderr) = (self.log.clone(), child.stderr.take().expect("piped"));
        self.copies.push(child);
        std::thread::spawn(move || {
            for text in BufReader::new(stderr).lines() {
                let Ok(text) = text else { return };
                log.lines
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Line::read(copy, &text));
                log.grown.notify_all();
            }
        });
        copy
    }

    /// The program with other arguments, on this fleet's queue.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_at(&self.url, args)
    }

    /// The same by another way.
    pub fn command_at(&self, url: &str, args: &[&str]) -> Command {
        let mut command = match self.within.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(PROGRAM);
                bare(command)
            }
            None => program(),
        };
        command.args(args).args(["--queue", &self.queue]);
        // Several are of a queue with shards.
        for url in url.split(' ') {
            command.args(["--url", url]);
        }
        command.current_dir(&self.directory);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn pid(&self, copy: usize) -> u32 {
        self.copies[copy].id()
    }

    pub fn len(&self) -> usize {
        self.copies.len()
    }

    pub fn lines(&self) -> Vec<Line> {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the log is as described; fails with its end if that does not come.
    pub fn wait_for(&self, what: &str, holds: impl Fn(&[Line]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while !holds(&lines) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let tail: Vec<_> = lines
                    .iter()
                    .rev()
                    .take(40)
                    .rev()
                    .map(|line| line.fields.to_string())
                    .collect();
                drop(lines);
                panic!("waited in vain until {what}; the log ends\n{}", tail.join("\n"));
            }
            let waited = self.log.grown.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for so many more lines of one event than there are now.
    pub fn wait_for_more(&self, event: &str, more: usize) {
        let count = |lines: &[Line]| lines.iter().filter(|line| line.is(event)).count();
        let wanted = count(&self.lines()) + more;
        self.wait_for(&format!("{wanted} × {event}"), |lines| count(lines) >= wanted);
    }

    /// Waits until so many outcomes have their line: the store counts one before the copy writes its line.
    pub fn wait_for_outcomes(&self, all: u64) {
        self.wait_for(&format!("{all} outcomes have their line"), |lines| {
            let outcomes = lines.iter().filter(|line| line.is("done") || line.is("error"));
            outcomes.count() as u64 >= all
        });
    }

    /// The copy that was elected last.
    pub fn generator(&self) -> usize {
        let lines = self.lines();
        let elected = lines.iter().filter(|line| line.is("elected"));
        elected.max_by_key(|line| line.epoch).expect("someone was elected").copy
    }

    /// The node that a copy is at the moment.
    pub fn node(&self, copy: usize) -> String {
        let lines = self.lines();
        let mut joined = lines.iter().rev().filter(|line| line.copy == copy && line.is("joined"));
        joined.next().expect("it has joined").node.clone()
    }

    /// The power cut.
    pub fn kill9(&mut self, copy: usize) {
        let _ = self.copies[copy].kill();
        let _ = self.copies[copy].wait();
    }

    pub fn stop(&self, copy: usize) {
        signal(self.pid(copy), "STOP");
    }

    pub fn cont(&self, copy: usize) {
        signal(self.pid(copy), "CONT");
    }

    pub fn term(&self, copy: usize) {
        signal(self.pid(copy), "TERM");
    }

    /// Waits until a copy has ended.
    pub fn wait_exit(&mut self, copy: usize) -> ExitStatus {
        wait_exit(&mut self.copies[copy])
    }

    pub fn has_exited(&mut self, copy: usize) -> Option<ExitStatus> {
        self.copies[copy].try_wait().expect("a child of ours")
    }

    /// All copies but these still run.
    pub fn nobody_exited_but(&mut self, gone: &[usize]) {
        for (copy, child) in self.copies.iter_mut().enumerate() {
            if !gone.contains(&copy) {
                let ended = child.try_wait().expect("a child of ours");
                assert!(ended.is_none(), "copy {copy} ended: {ended:?}");
            }
        }
    }

    pub fn status(&self) -> Status {
        self.wait_status("the store answers", |_| true)
    }

    /// Waits until the status is as described, and returns it.
    pub fn wait_status(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let mut last = None;
        let found = within(PATIENCE, || {
            let output = self
                .command(&["status", "--json"])
                .output()
                .expect("the program starts");
            if !output.status.success() {
                return None;
            }
            let status = Status::read(&String::from_utf8_lossy(&output.stdout));
            let holds = holds(&status);
            last = Some(status.clone());
            holds.then_some(status)
        });
        found.unwrap_or_else(|| {
            let lines = self.lines();
            let tail: Vec<_> = lines
                .iter()
                .rev()
                .take(20)
                .rev()
                .map(|line| line.fields.to_string())
                .collect();
            panic!("waited in vain until {what}; last seen {last:#?}\n{}", tail.join("\n"))
        })
    }

    /// Waits until so many messages are published and all have their outcome.
    pub fn wait_through(&self, published: u64) -> Status {
        self.wait_status(&format!("all of {published} are settled"), |status| {
            status.is_through(published)
        })
    }

    /// Drains the errors.
    pub fn errors(&self) -> Vec<Value> {
        let output = self
            .command(&["get-errors", "--json"])
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", said(&output));
        json_lines(&output.stdout)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.copies {
            let _ = child.kill();
        }
        for child in &mut self.copies {
            let _ = child.wait();
        }
    }
}

/// A process that ends with the test, also by a panic.
pub struct Ends(pub Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, deaf to what the environment of the tests says.
pub fn program() -> Command {
    bare(Command::new(PROGRAM))
}

/// Takes everything out of a command's environment that the program would read.
pub fn bare(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("REDIS") || text.starts_with("QUEENRIGHT") {
            command.env_remove(&name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// What cannot be tried here, and why. Not eprintln!, which tests that pass do not show.
pub fn left_out(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "left out: {what}, since {why}");
}

pub fn json_lines(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// What a program said, for a failing test.
pub fn said(output: &Output) -> String {
    format!(
        "{}\nstdout: {}\nstderr: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    assert!(sent.expect("kill is there").success(), "kill -{name} {pid}");
}

/// The most memory that a copy of the program has had, in KB. None: it has ended, or this is no Linux.
pub fn peak_memory(pid: u32) -> Option<u64> {
    // In the moment in which it starts, a child still has the memory of its parent, which is this one.
    let runs = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    if runs.file_name() != Path::new(PROGRAM).file_name() {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

pub fn wait_exit(child: &mut Child) -> ExitStatus {
    within(PATIENCE, || child.try_wait().expect("a child of ours")).expect("it ends")
}

/// Looks again and again until there is something.
pub fn within<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + time;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}
