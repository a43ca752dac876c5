//! One copy of this program as a child: a real process, as a user would start it. It ends when this one does, however
//! that comes.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::app::systemd;

/// Which of a copy's streams is read line by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    Nothing,
    Log,
    Stdout,
}

/// A line, and when it came.
pub type Line = (Instant, String);

/// One process. Killed when dropped.
pub struct Copy {
    child: Child,
    lines: Option<Receiver<Line>>,
}

impl Copy {
    pub fn spawn(mut command: Command, capture: Capture) -> io::Result<Self> {
        match capture {
            Capture::Nothing => {}
            Capture::Log => _ = command.stderr(Stdio::piped()),
            Capture::Stdout => _ = command.stdout(Stdio::piped()),
        }
        for name in systemd::VARIABLES {
            command.env_remove(name);
        }
        // Ctrl-C is for the parent, which then stops its copies in good order.
        let mut child = command.process_group(0).spawn()?;
        let lines = match capture {
            Capture::Nothing => None,
            Capture::Log => child.stderr.take().map(|from| read(BufReader::new(from))),
            Capture::Stdout => child.stdout.take().map(|from| read(BufReader::new(from))),
        };
        Ok(Self { child, lines })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Must not be called once [`Self::ended`] has returned a status: the id may then be another's.
    pub fn signal(&self, to: Signal) {
        signal(self.pid(), to);
    }

    /// kill -9: the power cut.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended; none while it runs.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Until it has ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// The lines that came since the last time.
    pub fn new_lines(&self) -> Vec<Line> {
        self.lines.iter().flat_map(Receiver::try_iter).collect()
    }

    /// Waits for the next line, for so long at most.
    pub fn next_line(&self, at_most: Duration) -> Option<Line> {
        self.lines.as_ref()?.recv_timeout(at_most).ok()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads on a thread of its own.
fn read(from: impl BufRead + Send + 'static) -> Receiver<Line> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in from.lines().map_while(Result::ok) {
            if sender.send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    lines
}

/// `get-errors --json`, as a user would run it.
pub fn get_errors(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["get-errors", "--json"])
        .stdin(Stdio::null())
        .process_group(0);
    command
}

/// Points a copy at this store and queue, and at nothing that our environment names.
pub fn on(mut command: Command, url: &str, queue: &str) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("REDIS") || text.starts_with("QUEENRIGHT") {
            command.env_remove(&name);
        }
    }
    // Not as an argument, which others could see: a password may be inside.
    command.env("REDIS_URL", url).args(["--queue", queue]);
    command
}

/// Only for a child that was not waited for yet: until then the id is its own.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The number in a line of `get-errors --json`, where it stands first.
pub fn number(line: &str) -> Option<u64> {
    let digits = line.strip_prefix("{\"number\":")?;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
