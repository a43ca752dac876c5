//! `status`: one look at everything.

mod watch;

use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::app::args::Status as Flags;
use crate::app::args::sources::Resolved;
use crate::app::exit::Failure;
use crate::app::output::json;
use crate::app::output::status::text;
use crate::app::output::view::StatusView;
use crate::engine::{Engine, Status};
use crate::error::Error;
use crate::node::event::escape;

/// Between the two looks that a rate is told from.
const RATE_OVER: Duration = Duration::from_millis(250);
const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, flags: &Flags) -> Result<(), Failure> {
    engine.check().await?;
    let mut before = engine.status().await?;
    if flags.watch && !flags.json && io::stdin().is_terminal() && io::stdout().is_terminal() {
        return watch::run(engine, resolved, before).await;
    }
    let as_json = |status: &Status| json::for_terminal(&StatusView::from(status)) + "\n";
    let mut pause = RATE_OVER;
    loop {
        let shown = if flags.json && !flags.watch {
            as_json(&before)
        } else {
            tokio::time::sleep(pause).await;
            let now = if flags.watch {
                patiently(&*engine).await?
            } else {
                engine.status().await?
            };
            let shown = if flags.json {
                as_json(&now)
            } else {
                text(&now, &resolved.settings.queue, &before, pause)
            };
            before = now;
            shown
        };
        let mut out = io::stdout().lock();
        let written = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
        drop(out);
        match written {
            // Whoever read has seen enough, also of `--watch`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Failure::cannot("write the output", error)),
            Ok(()) if !flags.watch => return Ok(()),
            Ok(()) => pause = WATCH_EVERY,
        }
    }
}

/// Whether `--watch` waits for this to pass: a store that is away, or a queue that was removed.
fn passes(error: &Error) -> bool {
    error.is_away() || matches!(error, Error::NoQueue { .. })
}

/// The status, as soon as there is one: says once why there is none.
async fn patiently<E: Engine>(engine: &E) -> Result<Status, Failure> {
    let mut said = false;
    loop {
        match engine.status().await {
            Err(error) if passes(&error) => {
                if !said {
                    said = true;
                    let _ = writeln!(
                        io::stderr(),
                        "queenright: {}; waiting for it",
                        escape(error.to_string().as_bytes())
                    );
                }
                tokio::time::sleep(WATCH_EVERY).await;
            }
            looked => return Ok(looked?),
        }
    }
}
