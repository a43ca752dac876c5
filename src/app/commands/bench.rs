//! `bench`: each regime beside its baseline, in turns, in the same run.
//!
//! | file | |
//! | --- | --- |
//! | `session` | the test bed on a Redis, fresh queues, waiting |
//! | `copies`, `cost` | the processes that work, and what they cost |
//! | `measure` | how fast they move messages |
//! | `node` | what such a process is where `start` does not say enough |
//! | `socket`, `raw` | the baselines: plain sockets, no guarantee |
//! | `hot` | the paths that every message takes, for counting instructions |
//! | `row`, `figures` | a figure beside its baseline |
//! | `table`, `docs`, `plot` | what is printed and written |
//! | `flat`, `single`, `working`, `grouped`, `limited`, `waiting`, `faults`, `replicas`, `shards`, `far`, `file`, `growth` | the regimes |

mod copies;
mod cost;
mod docs;
mod far;
mod faults;
mod figures;
mod file;
mod flat;
mod grouped;
mod growth;
pub mod hot;
mod limited;
mod measure;
mod node;
mod plot;
mod raw;
mod replicas;
mod row;
mod session;
mod shards;
mod single;
mod socket;
mod table;
mod waiting;
mod working;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::app::args::sources::Resolved;
use crate::app::args::{Bench, Invocation};
use crate::app::exit::Failure;
use row::Row;
use session::Session;

pub(super) use node::run as run_node;

type Rows = Result<Vec<Row>, Failure>;
type Regime = (&'static str, fn(&Session, Load) -> Rows);

const REGIMES: [Regime; 24] = [
    ("flat-out", flat::flat_out),
    ("payloads", flat::payloads),
    ("one-by-one", single::one_by_one),
    ("async-work", working::async_work),
    ("latency", waiting::latency),
    ("backlog", flat::backlog),
    ("fleet", working::fleet),
    ("persistence", flat::persistence),
    ("replicas", replicas::replicas),
    ("shards", shards::shards),
    ("far", far::far),
    ("failover", faults::failover),
    ("handover", faults::handover),
    ("redelivery", faults::redelivery),
    ("start-up", waiting::start_up),
    ("ticks", waiting::ticks),
    ("mixed", working::mixed),
    ("adapt", working::adapt),
    ("memory", flat::memory),
    ("idle", waiting::idle),
    ("task", working::task),
    ("groups", grouped::groups),
    ("limits", limited::limits),
    ("file", file::file),
];

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    rounds: u32,
    quick: bool,
}

impl Load {
    /// The full load, or the one that only shows that it works.
    fn of<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

pub(super) fn run(asked: &Invocation, resolved: &Resolved, flags: &Bench) -> Result<ExitCode, Failure> {
    let known: Vec<&str> = REGIMES.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = flags.regime.iter().find(|name| !known.contains(&name.as_str())) {
        let line = format!("--regime: there is no {unknown}; there are {}", known.join(", "));
        return Err(Failure::usage(line));
    }
    let load = Load {
        rounds: if flags.quick { 1 } else { flags.rounds },
        quick: flags.quick,
    };
    let session = Session::prepare(asked, resolved)?;
    let (mut rows, mut curves, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (name, regime) in REGIMES {
        if !flags.regime.is_empty() && !flags.regime.iter().any(|asked| asked == name) {
            continue;
        }
        progress(name);
        match regime(&session, load) {
            Ok(measured) => rows.extend(measured),
            Err(failure) if session.is_interrupted() => return Err(failure),
            Err(failure) => failures.push(format!("{name}: {}", failure.line)),
        }
    }
    if flags.growth {
        progress("growth");
        match growth::run(&session, load) {
            Ok(measured) => curves = measured,
            Err(failure) if session.is_interrupted() => return Err(failure),
            Err(failure) => failures.push(format!("growth: {}", failure.line)),
        }
    }
    progress("");
    let about = session.about();
    drop(session);
    let written = |error: std::io::Error| Failure::cannot("write the figures", error);
    print(&if flags.json {
        table::json(&rows)
    } else {
        table::table(&rows, &about.now())
    })
    .map_err(written)?;
    if let Some(path) = &flags.docs {
        docs::write(path, &rows, &curves, &about).map_err(written)?;
    }
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(failures.join("; ")))
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What is being measured, on a terminal only.
fn progress(what: &str) {
    let mut out = std::io::stderr().lock();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{what}");
    }
}
