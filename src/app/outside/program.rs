//! A command, ready to be started.

use std::process::Stdio;

use tokio::process::Command;

use crate::app::args::value::Program;

/// Everything piped but stdout, which is ours.
pub(super) fn command(program: &Program) -> Command {
    let (name, arguments) = program.words();
    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}
