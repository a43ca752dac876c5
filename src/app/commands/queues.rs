//! `queues`: which queues there are, and what waits in them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::LOOK_MAX;
use crate::app::args::Queues;
use crate::app::args::sources::Resolved;
use crate::app::exit::Failure;
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::app::output::json;
use crate::app::output::status::{away, shards_away};
use crate::app::queues::find;
use crate::app::run::print;
use crate::engine::{Engine, NodeStatus, Status};
use crate::node::event::escape;

/// How long to look for queues.
const TIME: Duration = Duration::from_secs(10);

/// A queue in the list.
#[derive(Serialize)]
struct Line {
    queue: String,
    #[serde(flatten)]
    counts: Option<Counts>,
    /// Why there are no counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct Counts {
    queued: u64,
    in_hand: u64,
    later: u64,
    errors: u64,
    /// Those that are alive.
    nodes: usize,
    generator: Option<String>,
    /// Shards that do not answer: what is in them is not in these counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    away: Vec<usize>,
}

impl From<Status> for Counts {
    fn from(status: Status) -> Self {
        Self {
            away: shards_away(&status),
            queued: status.queued,
            in_hand: status.in_hand,
            later: status.later,
            errors: status.errors,
            nodes: status.nodes.iter().filter(|node| NodeStatus::is_alive(node)).count(),
            generator: status.generator,
        }
    }
}

struct Look;

impl OnEngine for Look {
    type Output = Status;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Status, Failure> {
        Ok(engine.status().await?)
    }
}

pub(super) fn run(resolved: &Resolved, flags: Queues) -> Result<ExitCode, Failure> {
    let found = find(resolved, TIME)?;
    let mut out = String::new();
    if !flags.json && !found.names.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<28} {:>10} {:>9} {:>9} {:>9} {:>6}  GENERATOR",
            "QUEUE", "QUEUED", "IN HAND", "LATER", "ERRORS", "NODES"
        );
    }
    for name in found.names {
        let line = look(resolved, name);
        out += &if flags.json {
            json::for_terminal(&line) + "\n"
        } else {
            text(&line)
        };
    }
    print(&out)?;
    if out.is_empty() {
        let _ = writeln!(
            io::stderr(),
            "queenright: {} has no queue",
            escape(resolved.address.as_bytes())
        );
    } else if found.may_be_more {
        let _ = writeln!(
            io::stderr(),
            "queenright: there may be more queues: not all keys were looked at"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn look(resolved: &Resolved, name: String) -> Line {
    let mut settings = resolved.settings.clone();
    settings.queue.clone_from(&name);
    let at = QueueAt {
        settings: &settings,
        any_shards: true,
        ..QueueAt::of(resolved, LOOK_MAX).looking(true)
    };
    let (counts, problem) = match at.run(Look) {
        Ok(status) => (Some(status.into()), None),
        Err(failure) => (None, Some(failure.line)),
    };
    Line {
        queue: name,
        counts,
        problem,
    }
}

fn text(line: &Line) -> String {
    let name = escape(line.queue.as_bytes());
    match (&line.counts, &line.problem) {
        (Some(counts), _) => format!(
            "{name:<28} {:>10} {:>9} {:>9} {:>9} {:>6}  {}{}\n",
            counts.queued,
            counts.in_hand,
            counts.later,
            counts.errors,
            counts.nodes,
            escape(counts.generator.as_deref().unwrap_or("none").as_bytes()),
            away(&counts.away).map(|text| format!("  ({text})")).unwrap_or_default()
        ),
        (None, problem) => format!(
            "{name:<28} {}\n",
            escape(problem.as_deref().unwrap_or_default().as_bytes())
        ),
    }
}
