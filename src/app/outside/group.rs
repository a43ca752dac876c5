//! A child and whatever it starts, ended as a whole.

use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::watcher::Watcher;
use super::{GOODBYE, Secrets};
use crate::app::args::program::Program;

/// What a process wrote before it ended is read for so long, if others hold its pipes open.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);

const UNBUFFERED: &str = "PYTHONUNBUFFERED";

/// The groups of this process, for an end that cannot wait for destructors; and who ends them if we cannot.
static ALIVE: Mutex<Alive> = Mutex::new(Alive {
    groups: BTreeSet::new(),
    watcher: None,
});

struct Alive {
    groups: BTreeSet<i32>,
    watcher: Option<Watcher>,
}

impl Alive {
    fn begun(&mut self, group: i32) {
        self.groups.insert(group);
        Watcher::note(&mut self.watcher, group, &self.groups);
    }

    fn ended(&mut self, group: i32) {
        self.groups.remove(&group);
        Watcher::note(&mut self.watcher, -group, &self.groups);
    }
}

fn alive() -> MutexGuard<'static, Alive> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a process watches over the groups, and ends them when this process is gone.
pub fn set_watcher() -> io::Result<()> {
    let mut alive = alive();
    alive.watcher = Some(Watcher::start(&alive.groups)?);
    Ok(())
}

/// Ends every group at once: right before the process exits.
pub fn kill_all() {
    for id in alive().groups.iter().filter_map(|id| Pid::from_raw(*id)) {
        let _ = kill_process_group(id, Signal::KILL);
    }
}

/// Waits until all groups have ended by themselves, for a while, and then ends what is left.
pub async fn stop_all(patience: Duration) {
    let ended = async {
        while !alive().groups.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(patience, ended).await.is_err() {
        kill_all();
    }
}

/// A child that leads a process group. Dropping it kills the group.
pub(super) struct Group {
    child: Child,
    id: Pid,
}

impl Group {
    /// Starts a command that `Program::command` has made, without our secrets.
    pub(super) fn start(command: &mut Command, secrets: &Secrets) -> io::Result<Self> {
        secrets.keep_from(command);
        // Python keeps what it prints into a pipe to itself until it has 8 KB of it.
        if std::env::var_os(UNBUFFERED).is_none() {
            command.env(UNBUFFERED, "1");
        }
        let mut alive = alive();
        let child = command.spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| io::Error::other("it has no process id"))?;
        alive.begun(id.as_raw_nonzero().get());
        Ok(Self { child, id })
    }

    pub(super) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("piped, and asked for once")
    }

    pub(super) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("piped, and asked for once")
    }

    pub(super) fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("piped, and asked for once")
    }

    /// A group that is gone gets no signal, which is fine.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Until the leader has ended. May be dropped and asked again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Waits until the leader has ended, and talks with it meanwhile. What it said before is read to its end; who else holds
    /// its pipes open is not waited for. If it is `cancelled`, it is asked to end, and after a while made to; it is talked with all the same, or what it says about that would end it.
    /// An error says that the time was over: the group is to be dropped.
    pub(super) async fn talk(
        &mut self,
        program: &Program,
        timeout: Option<Duration>,
        talking: impl Future<Output = ()>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<io::Result<ExitStatus>, String> {
        let (mut talking, mut talks, id) = (pin!(talking), true, self.id);
        let stopping = async {
            cancelled.await;
            let _ = kill_process_group(id, Signal::TERM);
            tokio::time::sleep(GOODBYE).await;
            let _ = kill_process_group(id, Signal::KILL);
            std::future::pending::<()>().await;
        };
        let mut stopping = pin!(stopping);
        let ending = async {
            loop {
                tokio::select! {
                    biased;
                    () = &mut talking, if talks => talks = false,
                    status = self.child.wait() => break status,
                    () = &mut stopping => {}
                }
            }
        };
        let status = match timeout {
            None => ending.await,
            Some(time) => tokio::time::timeout(time, ending)
                .await
                .map_err(|_| format!("{program} was killed after {time:?} (--timeout)"))?,
        };
        if talks {
            // What it started would hold its pipes open.
            self.kill();
            let _ = tokio::time::timeout(LAST_WORDS, talking).await;
        }
        Ok(status)
    }

    /// Lets it end by itself for a while, then asks it to, then makes it.
    pub(super) async fn stop(mut self, alone: Duration, asked: Duration) {
        if tokio::time::timeout(alone, self.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(asked, self.wait()).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Also after the leader has ended: what it left behind in its group goes with it.
        self.kill();
        alive().ended(self.id.as_raw_nonzero().get());
    }
}

/// How a child ended, for people.
pub(super) fn ended(status: &io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended".into(),
        },
        Err(error) => format!("cannot be waited for ({error})"),
    }
}
