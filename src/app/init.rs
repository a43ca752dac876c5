//! The first process of a container. The kernel treats it differently: signals that it does not listen to are dropped, Ctrl-C
//! among them, and whoever loses its parent becomes its child and stays a zombie until it is waited for.
//!
//! So process 1 does nothing but that: it starts this program again as its child, passes signals on, waits for whoever ends,
//! and ends with the child's exit code. Nobody else waits for strangers: exit codes of our own children cannot get lost. Under
//! another init (`docker run --init`, a shared process namespace) there is nothing to do, and no second process.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

use super::exit::FAILED;
use super::run::runtime;

/// Also while another file has been put in its place.
const OURSELVES: &str = "/proc/self/exe";
/// What people and container runtimes send, and what they mean.
const PASSED_ON: [(fn() -> SignalKind, Signal); 6] = [
    (SignalKind::terminate, Signal::TERM),
    (SignalKind::interrupt, Signal::INT),
    (SignalKind::quit, Signal::QUIT),
    (SignalKind::hangup, Signal::HUP),
    (SignalKind::user_defined1, Signal::USR1),
    (SignalKind::user_defined2, Signal::USR2),
];

/// Runs the program as a child, if this is process 1. None: it is not, or there cannot be a child; then this process does the work.
pub(super) fn run() -> Option<ExitCode> {
    if std::process::id() != 1 {
        return None;
    }
    runtime().ok()?.block_on(look_after_child())
}

async fn look_after_child() -> Option<ExitCode> {
    // Before the child is there: no signal and no end gets lost.
    let mut ends = signal(SignalKind::child()).ok()?;
    let mut signals = Vec::new();
    for (kind, passed) in PASSED_ON {
        signals.push((signal(kind()).ok()?, passed));
    }
    let mut arguments = std::env::args_os();
    let mut command = Command::new(OURSELVES);
    command.arg0(arguments.next()?).args(arguments);
    let child = command.spawn().ok()?.id();
    let child = i32::try_from(child).ok().and_then(Pid::from_raw)?;
    for (mut signals, passed) in signals {
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                // One that has just ended needs no signal, and is not waited for before this thread comes to it.
                let _ = kill_process(child, passed);
            }
        });
    }
    loop {
        if let Some(code) = bury(child) {
            return Some(code);
        }
        ends.recv().await?;
    }
}

/// Waits for all that have ended; the exit code, if the child is one of them.
fn bury(child: Pid) -> Option<ExitCode> {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == child {
            // As a shell tells it.
            let by_signal = status.terminating_signal().map(|signal| 128 + signal);
            let code = status
                .exit_status()
                .or(by_signal)
                .and_then(|code| u8::try_from(code).ok());
            return Some(ExitCode::from(code.unwrap_or(FAILED)));
        }
    }
    None
}
