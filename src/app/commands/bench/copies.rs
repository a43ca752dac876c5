//! The processes that work.

use std::process::{Command, Stdio};

use super::session::Queue;
use crate::app::exit::Failure;
use crate::app::lab::copy::{self, Capture, Copy};
use crate::engine::Engine;

impl<E: Engine> Queue<'_, E> {
    /// Starts `start`, or another command word, with these options on this queue.
    pub(super) fn copy(&self, arguments: &str, capture: Capture) -> Result<Copy, Failure> {
        let shards = self.parts.len();
        if shards == 1 {
            return spawn(&self.url(), &self.name, arguments, capture);
        }
        spawn(
            &self.url(),
            &self.name,
            &format!("{arguments} --shards {shards}"),
            capture,
        )
    }

    pub(super) fn copies(&self, count: usize, arguments: &str) -> Result<Vec<Copy>, Failure> {
        (0..count).map(|_| self.copy(arguments, Capture::Nothing)).collect()
    }
}

/// A copy of this program. What comes without a command word is `start`.
pub(super) fn spawn(url: &str, queue: &str, arguments: &str, capture: Capture) -> Result<Copy, Failure> {
    let failing = |error: std::io::Error| Failure::cannot("start a copy", error);
    let mut command = Command::new(std::env::current_exe().map_err(failing)?);
    command.args(arguments.split_whitespace()).arg("--until-stdin-closes");
    if capture == Capture::Log {
        command.args(["--log", "json"]);
    } else {
        command.arg("--quiet");
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Copy::spawn(copy::on(command, url, queue), capture).map_err(failing)
}

/// The event and the number of a line of the log.
pub(super) fn event(line: &str) -> Option<(String, Option<u64>)> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    Some((line["event"].as_str()?.to_string(), line["number"].as_u64()))
}
