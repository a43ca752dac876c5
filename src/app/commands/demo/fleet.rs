//! The copies: real processes, as a user would start them. Each ends when this one does, however that comes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::scene::Scene;
use crate::app::args::sources::{Resolved, Store};
use crate::app::args::{Demo, Invocation};
use crate::app::exit::Failure;
use crate::app::lab::copy;
use crate::app::lab::ledger::{Ledger, Record};

/// How long the row of a copy that is gone stays.
const GONE_SHOWN: Duration = Duration::from_secs(2);

pub(super) struct Fleet {
    program: PathBuf,
    /// The store and the options of `start`, as they were given.
    args: Vec<OsString>,
    connection: Vec<OsString>,
    directory: PathBuf,
    copies: Vec<Copy>,
    started: usize,
    lease: Duration,
    in_file: bool,
    /// Errors that are being drained.
    draining: Option<std::sync::mpsc::Receiver<Result<Vec<u64>, String>>>,
}

pub(super) struct Copy {
    child: Child,
    pub(super) book: usize,
    /// The id of its present membership; empty before it has one.
    pub(super) node: String,
    /// The epoch in which it generates.
    pub(super) reign: Option<u64>,
    pub(super) state: State,
    pub(super) started: Instant,
    /// The last line of its log.
    said: Arc<Mutex<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// With SIGSTOP, until then.
    Frozen(Instant),
    /// Was told to stop.
    Leaving,
    Killed(Instant),
    Left(Instant),
}

impl Copy {
    /// Short enough to be read; the pid as long as it has no other name.
    pub(super) fn name(&self) -> String {
        if self.node.is_empty() {
            return format!("({})", self.pid());
        }
        short(&self.node).to_string()
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, State::Killed(_) | State::Left(_))
    }

    /// The child was not waited for yet, so that the id is still its own.
    fn signal(&self, signal: Signal) {
        if !self.is_gone() {
            copy::signal(self.pid(), signal);
        }
    }
}

/// The beginning of a node's id.
pub(super) fn short(node: &str) -> &str {
    node.get(..6).unwrap_or(node)
}

impl Fleet {
    pub(super) fn new(asked: &Invocation, resolved: &Resolved, flags: &Demo) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::cannot("find this program", error))?;
        let mut connection = Vec::new();
        let shared = &asked.shared;
        for (name, path) in [("env", &shared.env), ("config", &shared.config)] {
            if let Some(path) = path {
                let mut arg = OsString::from(format!("--{name}="));
                arg.push(path);
                connection.push(arg);
            }
        }
        let given = |values: Vec<(&'static str, Option<&str>)>| -> Vec<OsString> {
            let mut args = Vec::new();
            for (name, value) in values {
                match (name, value) {
                    // One address cannot be served by several copies.
                    (_, None) | ("log" | "quiet" | "metrics" | "dashboard", _) => {}
                    ("also-handle" | "burst" | "generate-json" | "no-wait", Some(_)) => {
                        args.push(format!("--{name}").into());
                    }
                    (_, Some(value)) => args.push(format!("--{name}={value}").into()),
                }
            }
            args
        };
        connection.extend(given(shared.values()));
        Ok(Self {
            program,
            args: given(asked.start.values()),
            connection,
            directory: flags.directory.clone(),
            copies: Vec::new(),
            started: 0,
            lease: resolved.settings.lease,
            in_file: matches!(resolved.store, Store::Sqlite(_)),
            draining: None,
        })
    }

    pub(super) fn copies(&self) -> &[Copy] {
        &self.copies
    }

    pub(super) fn is_gone(&self) -> bool {
        self.copies.iter().all(Copy::is_gone)
    }

    /// Starts one more copy, and returns its process id.
    pub(super) fn add(&mut self, ledger: &mut Ledger) -> Result<u32, Failure> {
        let path = self.directory.join(format!("book-{}", self.started));
        self.started += 1;
        let mut command = copy::start(&self.program, &path);
        command.args(&self.connection).args(&self.args).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Failure::cannot("start a copy", error))?;
        let said = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = said.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    *said.lock().unwrap_or_else(PoisonError::into_inner) = line;
                }
            });
        }
        let pid = child.id();
        self.copies.push(Copy {
            child,
            book: ledger.add(&path),
            node: String::new(),
            reign: None,
            state: State::Running,
            started: Instant::now(),
            said,
        });
        Ok(pid)
    }

    /// Learns from a record.
    pub(super) fn note(&mut self, book: usize, record: &Record) {
        if let Record::Intends(_) | Record::Confirmed(..) = record {
            return;
        }
        if let Record::Elected { epoch } = record {
            for copy in self.copies.iter_mut().filter(|copy| copy.reign < Some(*epoch)) {
                copy.reign = None;
            }
        }
        let newest = self.copies.iter().filter_map(|copy| copy.reign).max();
        let Some(copy) = self.copies.iter_mut().find(|copy| copy.book == book) else {
            return;
        };
        match record {
            Record::Joined { node } => copy.node.clone_from(node),
            Record::Elected { epoch } if newest < Some(*epoch) && !copy.is_gone() => copy.reign = Some(*epoch),
            Record::Deposed { .. } | Record::Left => copy.reign = None,
            _ => {}
        }
    }

    /// Who keeps this book.
    pub(super) fn name(&self, book: usize) -> String {
        let copy = self.copies.iter().find(|copy| copy.book == book);
        copy.map(Copy::name).unwrap_or_default()
    }

    /// Sees who has ended, and lets go on who was frozen long enough.
    pub(super) fn look(&mut self, now: Instant, ledger: &mut Ledger, scene: &mut Scene) -> Result<(), Failure> {
        for copy in &mut self.copies {
            if copy.is_gone() {
                continue;
            }
            if let State::Frozen(until) = copy.state
                && now >= until
            {
                copy.signal(Signal::CONT);
                copy.state = State::Running;
                scene.say("goes on", &format!("{} (SIGCONT)", copy.name()));
            }
            let ended = copy
                .child
                .try_wait()
                .map_err(|error| Failure::cannot("watch a copy", error))?;
            if let Some(status) = ended {
                if copy.state != State::Leaving {
                    let said = copy.said.lock().unwrap_or_else(PoisonError::into_inner);
                    return Err(Failure::failed(format!(
                        "copy {} ended by itself ({status}): {said}",
                        copy.name()
                    )));
                }
                copy.state = State::Left(now);
                copy.reign = None;
                ledger.close(copy.book);
            }
        }
        self.copies.retain(|copy| match copy.state {
            State::Killed(at) | State::Left(at) => now < at + GONE_SHOWN,
            _ => true,
        });
        if let Some(drained) = self.draining.as_ref().and_then(|draining| draining.try_recv().ok()) {
            self.draining = None;
            match drained {
                Ok(numbers) => {
                    for number in &numbers {
                        ledger.saw_error(*number);
                    }
                    scene.say("drained", &format!("{} errors (get-errors --json)", numbers.len()));
                }
                Err(line) => scene.say("drain failed", &line),
            }
        }
        Ok(())
    }

    /// The power cut for the generator, and a new copy in its place. False: there is none at the moment.
    pub(super) fn kill_generator(&mut self, ledger: &mut Ledger, scene: &mut Scene) -> Result<bool, Failure> {
        let generator = self
            .copies
            .iter()
            .position(|copy| copy.reign.is_some() && copy.state == State::Running);
        match generator {
            Some(index) => {
                scene.count_kill();
                self.kill(index, "the generator", ledger, scene)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The same for a handler, preferably one that has something in hand.
    pub(super) fn kill_handler(&mut self, ledger: &mut Ledger, scene: &mut Scene) -> Result<(), Failure> {
        let handler = self.some_handler(|copy| ledger.book(copy.book).in_hand());
        if let Some(index) = handler {
            self.kill(index, "a handler", ledger, scene)?;
        }
        Ok(())
    }

    fn some_handler(&self, weight: impl Fn(&Copy) -> u64) -> Option<usize> {
        let handlers = self.copies.iter().enumerate();
        let handlers = handlers.filter(|(_, copy)| copy.reign.is_none() && copy.state == State::Running);
        let heaviest = handlers.max_by_key(|(_, copy)| (weight(copy).min(1), fastrand::u32(..)));
        heaviest.map(|(index, _)| index)
    }

    fn kill(&mut self, index: usize, what: &str, ledger: &mut Ledger, scene: &mut Scene) -> Result<(), Failure> {
        let copy = &mut self.copies[index];
        let held = ledger.book(copy.book).in_hand();
        let _ = copy.child.kill();
        let _ = copy.child.wait();
        let hand = if held > 0 {
            format!(", with {held} in hand")
        } else {
            String::new()
        };
        scene.say("kill -9", &format!("{what}, {}{hand}", copy.name()));
        copy.state = State::Killed(Instant::now());
        copy.reign = None;
        ledger.close(copy.book);
        self.add(ledger)?;
        Ok(())
    }

    /// Stops one with SIGSTOP for two leases: the generator, unless one is frozen already.
    pub(super) fn freeze(&mut self, now: Instant, scene: &mut Scene) {
        let frozen = self.copies.iter().any(|copy| matches!(copy.state, State::Frozen(_)));
        let generator = self
            .copies
            .iter()
            .position(|copy| copy.reign.is_some() && copy.state == State::Running);
        let Some(index) = generator.filter(|_| !frozen).or_else(|| self.some_handler(|_| 0)) else {
            return;
        };
        let copy = &mut self.copies[index];
        copy.signal(Signal::STOP);
        copy.state = State::Frozen(now + 2 * self.lease);
        let seconds = (2 * self.lease).as_secs_f32();
        scene.say(
            "SIGSTOP",
            &format!("{} is frozen for {seconds} s, and comes back as deposed", copy.name()),
        );
        if self.in_file {
            scene.say("", "(if inside a transaction of SQLite, the rest waits until then)");
        }
    }

    /// Tells the youngest handler to stop.
    pub(super) fn remove(&mut self, scene: &mut Scene) {
        let running = self.copies.iter().filter(|copy| copy.state == State::Running).count();
        let handler = |copy: &&mut Copy| copy.reign.is_none() && copy.state == State::Running;
        if running > 1
            && let Some(copy) = self.copies.iter_mut().rev().find(handler)
        {
            copy.signal(Signal::TERM);
            copy.state = State::Leaving;
            scene.say(
                "removed",
                &format!("{} (SIGTERM): it finishes what it has in hand", copy.name()),
            );
        }
    }

    /// Runs `get-errors --json`, as a user would.
    pub(super) fn drain(&mut self, scene: &mut Scene) {
        if self.draining.is_some() {
            return;
        }
        let mut command = copy::get_errors(&self.program);
        command.args(&self.connection);
        let (sender, receiver) = std::sync::mpsc::channel();
        self.draining = Some(receiver);
        scene.say("draining", "the errors");
        std::thread::spawn(move || {
            let drained = command.output().map_err(|error| error.to_string()).and_then(|output| {
                if !output.status.success() {
                    return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
                }
                let text = String::from_utf8_lossy(&output.stdout);
                Ok(text.lines().filter_map(copy::number).collect())
            });
            // Nobody may be there to hear it any more.
            let _ = sender.send(drained);
        });
    }

    /// Tells all to stop; the frozen go on for that.
    pub(super) fn stop(&mut self) {
        for copy in self.copies.iter_mut().filter(|copy| !copy.is_gone()) {
            copy.signal(Signal::TERM);
            copy.signal(Signal::CONT);
            copy.state = State::Leaving;
        }
    }

    /// Nobody is left when this returns.
    pub(super) fn end(&mut self, ledger: &mut Ledger) {
        for copy in self.copies.iter_mut().filter(|copy| !copy.is_gone()) {
            let _ = copy.child.kill();
            let _ = copy.child.wait();
            ledger.close(copy.book);
        }
        self.copies.clear();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for copy in &mut self.copies {
            let _ = copy.child.kill();
        }
    }
}
