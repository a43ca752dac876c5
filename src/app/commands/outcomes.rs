//! `push --wait` and `where`: outcomes that are waited for, and where messages are.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::api::push::{Waited, wait_all};
use crate::app::args::Where;
use crate::app::args::sources::Resolved;
use crate::app::exit::Failure;
use crate::app::output::found::{FoundView, words};
use crate::engine::{Engine, Found, NodeStatus, Receipt};

/// Prints where messages are, or waits for their outcomes.
pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, flags: &Where) -> Result<(), Failure> {
    engine.check().await?;
    if flags.wait {
        let receipts = flags.numbers.iter().map(|number| (*number, None));
        let mut tally = Tally::new(flags.json, flags.timeout);
        tally.wait(&*engine, resolved, &receipts.collect::<Vec<_>>()).await?;
        return tally.end(&*engine).await;
    }
    for number in &flags.numbers {
        let found = engine.find(*number).await?;
        print(&FoundView::of(*number, &found).line(flags.json))?;
    }
    Ok(())
}

/// What was waited for so far.
pub(super) struct Tally {
    json: bool,
    timeout: Duration,
    all: u64,
    not_done: u64,
    /// The first whose outcome is not known, and where it is.
    late: Option<(u64, Found)>,
}

impl Tally {
    pub(super) fn new(json: bool, timeout: Duration) -> Self {
        Self {
            json,
            timeout,
            all: 0,
            not_done: 0,
            late: None,
        }
    }

    /// Waits for messages that were pushed.
    pub(super) async fn pushed<E: Engine>(
        &mut self,
        engine: &E,
        resolved: &Resolved,
        receipts: &[Receipt],
    ) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (receipts.first(), receipts.last()) else {
            return Ok(());
        };
        // Whoever is killed while it waits can ask again.
        let which = if receipts.len() == 1 {
            format!("message {}", first.number)
        } else {
            format!("{} messages, {} to {}", receipts.len(), first.number, last.number)
        };
        let _ = writeln!(
            io::stderr(),
            "queenright: pushed {which}; waiting for at most {:?}",
            self.timeout
        );
        let numbers: Vec<_> = receipts
            .iter()
            .map(|receipt| (receipt.number, Some(receipt.repeated)))
            .collect();
        self.wait(engine, resolved, &numbers).await
    }

    async fn wait<E: Engine>(
        &mut self,
        engine: &E,
        resolved: &Resolved,
        receipts: &[(u64, Option<bool>)],
    ) -> Result<(), Failure> {
        let numbers: Vec<u64> = receipts.iter().map(|(number, _)| *number).collect();
        let (mut printed, mut rest) = (Ok(()), receipts.iter());
        let told = |waited| {
            let Some((number, repeated)) = rest.next() else { return };
            self.all += 1;
            let view = match &waited {
                Waited::Ended(ending) => FoundView::ended(*number, ending),
                Waited::Late(found) | Waited::Untold(found) => FoundView::of(*number, found),
            };
            self.not_done += u64::from(view.state != "done");
            if let Waited::Late(found) | Waited::Untold(found) = waited
                && self.late.is_none()
            {
                self.late = Some((*number, found));
            }
            let view = FoundView {
                repeated: *repeated,
                ..view
            };
            if printed.is_ok() {
                printed = print(&view.line(self.json));
            }
        };
        wait_all(engine, &resolved.settings, &numbers, self.timeout, told).await?;
        printed
    }

    /// One line, if not all are done.
    pub(super) async fn end<E: Engine>(self, engine: &E) -> Result<(), Failure> {
        if let Some((number, found)) = &self.late {
            let is_late = matches!(found, Found::Queued | Found::Later { .. } | Found::Held { .. });
            let why = if is_late {
                format!("has no outcome after {:?}: {}", self.timeout, words(found))
            } else {
                format!("has no outcome that is known: {}", words(found))
            };
            let idle = if is_late { nobody_works(engine).await } else { "" };
            let others = match self.not_done {
                1 => String::new(),
                count => format!("; {count} of {} messages are not done", self.all),
            };
            let again = if is_late {
                format!("; it stays, ask again: queenright where {number} --wait")
            } else {
                String::new()
            };
            return Err(Failure::failed(format!("message {number} {why}{idle}{others}{again}")));
        }
        match (self.not_done, self.all) {
            (0, _) => Ok(()),
            (1, 1) => Err(Failure::failed("the message was not done")),
            (count, all) => Err(Failure::failed(format!("{count} of {all} messages were not done"))),
        }
    }
}

/// Why nothing goes on, if that is so.
async fn nobody_works<E: Engine>(engine: &E) -> &'static str {
    match engine.status().await {
        Ok(status) if !status.nodes.iter().any(NodeStatus::is_alive) => " (no copy runs: queenright start)",
        Ok(status) if status.paused.handlers => " (handlers are paused: queenright resume handlers)",
        _ => "",
    }
}

fn print(line: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::cannot("write the outcome, which stays as it is", error))
}
