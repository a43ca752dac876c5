//! What every command needs around it: a runtime, stdout, and the signals that end it.

use std::io::{self, Write};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::app::exit::Failure;

/// Wrappers such as timeout(1) send the same signal twice in a row; that is one.
const SAME_SIGNAL: Duration = Duration::from_millis(250);

/// One thread does everything: a node waits most of the time.
pub(in crate::app) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::cannot("start the runtime", error))
}

/// Writes to stdout. A reader that has gone away is no failure: it has what it wanted.
pub(in crate::app) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::cannot("write the output", error)),
        _ => Ok(()),
    }
}

/// Calls `first` on the first SIGTERM or SIGINT, and `again` on each that follows. On a thread of its own, so that it
/// works whatever the rest of the program is stuck in.
pub(in crate::app) fn on_signals(
    first: impl FnOnce() + Send + 'static,
    again: impl Fn() + Send + 'static,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::cannot("listen to signals", error);
    let runtime = runtime()?;
    let entered = runtime.enter();
    let mut term = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut int = signal(SignalKind::interrupt()).map_err(cannot)?;
    drop(entered);
    let listen = async move {
        let mut next = async || {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        next().await;
        let stopping = Instant::now();
        first();
        loop {
            next().await;
            if stopping.elapsed() > SAME_SIGNAL {
                again();
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || runtime.block_on(listen)).map_err(cannot)?;
    Ok(())
}
