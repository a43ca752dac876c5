//! Copies of this program as children: real processes, as a user would start them. Each ends when this one does,
//! however that comes.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A copy that keeps its book here. The rest of its arguments is up to the caller.
pub(in crate::app) fn start(program: &Path, book: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["start", "--log=json", "--quiet", "--until-stdin-closes"])
        .arg("--ledger")
        .arg(book)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // Ctrl-C is for the parent, which then stops its copies in good order.
        .process_group(0);
    command
}

/// `get-errors --json`, as a user would run it.
pub(in crate::app) fn get_errors(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["get-errors", "--json"])
        .stdin(Stdio::null())
        .process_group(0);
    command
}

/// The copies get all that they need to know from us, and nothing from our environment.
pub(in crate::app) fn bare(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("REDIS") || text.starts_with("QUEENRIGHT") {
            command.env_remove(&name);
        }
    }
    command
}

/// Only for a child that was not waited for yet: until then the id is its own.
pub(in crate::app) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The number in a line of `get-errors --json`, where it stands first.
pub(in crate::app) fn number(line: &str) -> Option<u64> {
    let digits = line.strip_prefix("{\"number\":")?;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
