//! Other programs at work: commands and services that handle and generate.

mod child;
mod cron;
mod each;
mod generating;
mod groups;
mod http;
mod orphans;
mod printed;
mod secrets;

use std::path::PathBuf;

use crate::fleet::{Fleet, PATIENCE, Plan, within};

/// A place for a queue and for the programs of a test.
struct Workshop {
    directory: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A shell script. Returns the command that runs it.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        let text = text.replace("$HERE", &self.directory.path().display().to_string());
        std::fs::write(&path, text).expect("written");
        format!("sh {}", path.display())
    }

    /// A fleet on a file. Nobody loses the lease, however slow the machine is.
    fn fleet(&self) -> Plan {
        Fleet::in_file(&self.path("queue.db")).args("--lease 30s --error-rate 1")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// Waits until a process has ended.
fn wait_gone(pid: &str) {
    assert!(!pid.is_empty(), "nobody said its process id");
    let gone = within(PATIENCE, || {
        let alive = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        // A process that has ended and was not asked after yet is a zombie.
        alive.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    });
    assert!(gone.is_some(), "process {pid} still runs");
}
