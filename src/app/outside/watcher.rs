//! A process beside this one that ends our children when this one is gone. kill -9 leaves us no time to do it ourselves.
//!
//! It is this program again, and reads from a pipe which groups of processes began and which ended. Nobody else has the other
//! end of the pipe, so it closes when we are gone, however that came; then it kills the groups that are left. What it cannot
//! end: a process that has left its group (`setsid`), one that was started in the microseconds before the kill, and any if it
//! is killed as well. It has a group and a name of its own, so that whoever signals us by group or by name does not mean it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::app::run::on_signals;

/// The command word.
pub const WORD: &str = "watch-children";
const NAME: &str = "qr-watcher";
/// Also while another version is installed in its place.
const OURSELVES: &str = "/proc/self/exe";

/// Our end. Once it is dropped, the groups are killed.
pub(super) struct Watcher {
    child: Child,
    pipe: ChildStdin,
}

impl Watcher {
    pub(super) fn start(groups: &BTreeSet<i32>) -> io::Result<Self> {
        let path = Some(PathBuf::from(OURSELVES)).filter(|path| Path::exists(path));
        let mut command = Command::new(path.map_or_else(std::env::current_exe, Ok)?);
        command
            .arg0(NAME)
            .arg(WORD)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command.spawn()?;
        let pipe = child.stdin.take().expect("piped");
        let mut watcher = Self { child, pipe };
        for group in groups {
            watcher.tell(*group)?;
        }
        // One that is frozen must not hold up the work: its pipe is full some day, and then it is replaced.
        rustix::io::ioctl_fionbio(&watcher.pipe, true)?;
        Ok(watcher)
    }

    /// A group that began, or minus one that ended. So short a line is written wholly or not at all.
    fn tell(&mut self, group: i32) -> io::Result<()> {
        self.pipe.write_all(format!("{group}\n").as_bytes())
    }

    /// Tells the watcher, and sets another in its place if it does not listen. `groups` are all that there are now.
    pub(super) fn note(place: &mut Option<Self>, group: i32, groups: &BTreeSet<i32>) {
        let Some(watcher) = place else { return };
        if watcher.tell(group).is_err() {
            // Before its pipe is closed: it is not to kill anybody.
            let _ = watcher.child.kill();
            let _ = watcher.child.wait();
            if let Ok(next) = Self::start(groups) {
                *place = Some(next);
            }
        }
    }
}

/// What the process does.
pub fn watch() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"qr-watcher");
    // Whoever asks all processes of a service to end means the node, which may take its time.
    let _ = on_signals(|| {}, || {});
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match line.parse::<i32>() {
            Ok(group @ 2..) => _ = groups.insert(group),
            Ok(group) => _ = groups.remove(&group.saturating_neg()),
            Err(_) => {}
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
