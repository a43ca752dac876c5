//! The processes that work, and what they cost.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use super::raw::float;
use super::site::{Queue, Site};
use crate::app::exit::Failure;
use crate::app::lab::copy;
use std::os::unix::process::CommandExt;

/// What a message costs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Microseconds of Redis' CPU.
    pub(super) redis_cpu: f64,
    /// Microseconds of the clients' CPU.
    pub(super) client_cpu: f64,
    /// As Redis counts them, those inside scripts too.
    pub(super) commands: f64,
    /// The largest process, in MB.
    pub(super) peak_rss: f64,
    /// In Redis, of a message that waits.
    pub(super) queued_bytes: f64,
}

/// The meters of Redis.
pub(super) struct Meter {
    cpu: f64,
    commands: f64,
}

impl Cost {
    pub(super) fn of_redis(site: &Site) -> Result<Meter, Failure> {
        let mut socket = site.socket()?;
        let (cpu, stats) = (socket.info("cpu")?, socket.info("stats")?);
        Ok(Meter {
            cpu: cpu.number("used_cpu_sys") + cpu.number("used_cpu_user"),
            commands: stats.number("total_commands_processed"),
        })
    }

    /// The CPU time of this process.
    pub(super) fn own_cpu() -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
}

impl Meter {
    pub(super) fn until_now(&self, site: &Site, messages: u64, client: Duration) -> Result<Cost, Failure> {
        let now = Cost::of_redis(site)?;
        let each = |total: f64| total / float(messages.max(1));
        Ok(Cost {
            redis_cpu: each((now.cpu - self.cpu) * 1e6),
            client_cpu: each(client.as_secs_f64() * 1e6),
            commands: each(now.commands - self.commands),
            ..Cost::default()
        })
    }

    pub(super) fn redis_seconds(&self, site: &Site) -> Result<f64, Failure> {
        Ok(Cost::of_redis(site)?.cpu - self.cpu)
    }
}

/// One process. Killed when dropped.
pub(super) struct Copy {
    child: Child,
    lines: Option<Receiver<(Instant, String)>>,
}

/// Whose output is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hear {
    Nothing,
    Log,
    Output,
}

impl Queue<'_> {
    /// Starts `start`, or another command word, with these options on this queue.
    pub(super) fn copy(&self, arguments: &str, hear: Hear) -> Result<Copy, Failure> {
        spawn(&self.site.url(), &self.name, arguments, hear)
    }

    pub(super) fn copies(&self, count: usize, arguments: &str) -> Result<Vec<Copy>, Failure> {
        (0..count).map(|_| self.copy(arguments, Hear::Nothing)).collect()
    }
}

/// A copy of this program. What comes without a command word is `start`.
pub(super) fn spawn(url: &str, queue: &str, arguments: &str, hear: Hear) -> Result<Copy, Failure> {
    let failing = |error: std::io::Error| Failure::cannot("start a copy", error);
    let mut command = copy::bare(Command::new(std::env::current_exe().map_err(failing)?));
    command
        .args(arguments.split_whitespace())
        .args(["--until-stdin-closes", "--queue", queue]);
    if hear == Hear::Log {
        command.args(["--log", "json"]);
    } else {
        command.arg("--quiet");
    }
    let pipe = |wanted| if hear == wanted { Stdio::piped() } else { Stdio::null() };
    command
        .env("REDIS_URL", url)
        .stdin(Stdio::piped())
        .stderr(pipe(Hear::Log))
        .stdout(pipe(Hear::Output))
        .process_group(0);
    let mut child = command.spawn().map_err(failing)?;
    let lines = match hear {
        Hear::Nothing => None,
        Hear::Log => child.stderr.take().map(|from| read(BufReader::new(from))),
        Hear::Output => child.stdout.take().map(|from| read(BufReader::new(from))),
    };
    Ok(Copy { child, lines })
}

/// Lines with the time at which they came.
fn read(from: impl BufRead + Send + 'static) -> Receiver<(Instant, String)> {
    let (told, lines) = channel();
    std::thread::spawn(move || {
        for line in from.lines().map_while(Result::ok) {
            if told.send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    lines
}

impl Copy {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What was said since the last time.
    pub(super) fn said(&self) -> Vec<(Instant, String)> {
        self.lines.iter().flat_map(Receiver::try_iter).collect()
    }

    /// Waits for the next thing that is said, for so long at most.
    pub(super) fn hears(&self, at_most: Duration) -> Option<(Instant, String)> {
        self.lines.as_ref()?.recv_timeout(at_most).ok()
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn terminate(&self) {
        copy::signal(self.pid(), Signal::TERM);
    }

    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The CPU time so far, of all threads that are alive; Linux only.
    pub(super) fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let nanos = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    fn memory(&self, name: &str) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
    }

    /// The most memory it ever had, in MB.
    pub(super) fn peak_rss(&self) -> f64 {
        self.memory("VmHWM:")
    }

    pub(super) fn rss(&self) -> f64 {
        self.memory("VmRSS:")
    }
}

pub(super) fn cpu(copies: &[Copy]) -> Duration {
    copies.iter().map(Copy::cpu).sum()
}

pub(super) fn peak_rss(copies: &[Copy]) -> f64 {
    copies.iter().map(Copy::peak_rss).fold(0.0, f64::max)
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The event and the number of a line of the log.
pub(super) fn event(line: &str) -> Option<(String, Option<u64>)> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    Some((line["event"].as_str()?.to_string(), line["number"].as_u64()))
}
