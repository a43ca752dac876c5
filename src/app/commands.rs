//! One file per command: [`run`] is the table of contents.

pub mod bench;
mod cancel;
mod dashboard;
mod demo;
mod doctor;
mod errors;
mod get_errors;
mod healthcheck;
mod man;
mod manage;
mod offer;
mod outcomes;
mod push;
mod queues;
mod reshard;
mod start;
mod status;
mod verify;

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::app::args::options::connection::SHARDS;
use crate::app::args::sources::{Resolved, Shards, Store};
use crate::app::args::{Command, Errors, Invocation, Manage};
use crate::app::exit::{FAILED, Failure, NO_REDIS};
use crate::app::on_engine::{OnEngine, Opener, QueueAt};
use crate::app::output::log::Log;
use crate::app::password;
use crate::app::queues::which;
use crate::app::run::print;
use crate::engine::{Engine, Status};
use crate::error::Error;
use crate::node::event::escape;

/// How long a command that only reads waits for an answer: nobody's lease depends on it.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Runs what has to do with no queue: no variable and no file can be in its way. None: it is none of these.
#[must_use]
pub fn run_alone(command: &Command) -> Option<Result<ExitCode, Failure>> {
    let printed = match command {
        Command::Healthcheck(flags) => return Some(healthcheck::run(*flags)),
        Command::Offer(flags) => return Some(Ok(offer::run(flags))),
        Command::Completions(flags) => print(&flags.script()),
        Command::Man(flags) => man::run(flags),
        _ => return None,
    };
    Some(printed.map(|()| ExitCode::SUCCESS))
}

/// Runs what was asked for.
pub fn run(asked: &Invocation, resolved: Resolved) -> Result<ExitCode, Failure> {
    password::check(&resolved)?;
    if let Some(what) = not_for_shards(&asked.command, &resolved) {
        let line = format!("{what} does not know queues with shards yet: leave out --shards, and all URLs but one");
        return Err(Failure::usage(line));
    }
    if resolved.shards == Shards::Recorded && needs_a_number(&asked.command) {
        return Err(Failure::usage(format!(
            "{0}: this command may make the queue: say how many shards it has, as in {0} 3",
            SHARDS.flag()
        )));
    }
    match &asked.command {
        Command::Verify(flags) => verify::run(asked, resolved, flags),
        Command::Bench(flags) => bench::run(asked, &resolved, flags),
        Command::BenchHot(flags) => bench::hot::run(flags),
        Command::BenchNode(flags) => bench::run_node(&resolved, flags),
        Command::Doctor(flags) => doctor::run(&resolved, *flags),
        Command::Demo(flags) => demo::run(asked, &resolved, flags),
        Command::Queues(flags) => queues::run(&resolved, *flags),
        _ => {
            let log = log(&resolved);
            let answer_min = if asked.command == Command::Start {
                Duration::ZERO
            } else {
                LOOK_MAX
            };
            let work = OnQueue {
                asked,
                resolved: &resolved,
                log,
            };
            if let Store::Sqlite(database) = &resolved.store
                && !creates(&asked.command)
            {
                database.find()?;
            }
            let at = QueueAt {
                any_shards: takes_any_shards(&asked.command, &resolved),
                ..QueueAt::of(&resolved, answer_min).looking(only_looks(&asked.command, &resolved))
            };
            let ended = at.run(work);
            unknown_queue(asked, &resolved, ended)
        }
    }
}

/// What is asked for and cannot be done for a queue with shards yet.
fn not_for_shards(command: &Command, resolved: &Resolved) -> Option<&'static str> {
    if resolved.settings.names.shards <= 1 {
        return None;
    }
    match command {
        Command::Bench(_) => Some("bench"),
        _ => None,
    }
}

/// Whether the queue is taken with as many shards as it has. What may make it is told a number.
fn takes_any_shards(command: &Command, resolved: &Resolved) -> bool {
    match command {
        // Of all queues of a store, no number of shards is that of each.
        Command::Dashboard(flags) if flags.all_queues => true,
        _ => !creates(command) && resolved.shards != Shards::Given,
    }
}

/// Whether a command may make the queue, and so has to know how many shards it is to have.
fn needs_a_number(command: &Command) -> bool {
    creates(command)
        || matches!(
            command,
            Command::Verify(_) | Command::Demo(_) | Command::Bench(_) | Command::BenchNode(_)
        )
}

/// Whether a queue may come of a command. All others are about one that is there.
fn creates(command: &Command) -> bool {
    matches!(
        command,
        Command::Start | Command::Dashboard(_) | Command::Manage(Manage::Push(_))
    )
}

/// Whether a command changes nothing: then it creates nothing either, and needs no right to write.
fn only_looks(command: &Command, resolved: &Resolved) -> bool {
    match command {
        Command::GetErrors(flags) => flags.keep,
        Command::Dashboard(_) => resolved.serving.read_only,
        Command::Manage(Manage::Errors(Errors::Requeue(change) | Errors::Delete(change))) => change.dry_run,
        Command::Manage(Manage::Limit(flags)) => flags.rate.is_none(),
        Command::Status(_)
        | Command::Where(_)
        | Command::Manage(Manage::Nodes(_) | Manage::Drain(_) | Manage::Errors(_)) => true,
        _ => false,
    }
}

/// Of a queue that is not there it is said which ones are. To read no errors before the first copy has run is no failure: then there
/// is no queue at all. Where there are others, a wrong name would look like a queue without errors.
fn unknown_queue(asked: &Invocation, resolved: &Resolved, ended: Result<(), Failure>) -> Result<ExitCode, Failure> {
    let failure = match ended {
        Ok(()) => return Ok(ExitCode::SUCCESS),
        Err(failure) if failure.no_queue => failure,
        Err(failure) => return Err(failure),
    };
    let (line, is_empty) = which(&failure.line, resolved);
    if !is_empty || !matches!(asked.command, Command::GetErrors(_)) {
        return Err(Failure { line, ..failure });
    }
    // Nobody may be listening.
    let _ = writeln!(io::stderr(), "queenright: {}", escape(line.as_bytes()));
    Ok(ExitCode::SUCCESS)
}

/// What works on the queue that was named.
struct OnQueue<'a> {
    asked: &'a Invocation,
    resolved: &'a Resolved,
    log: Arc<Log>,
}

impl OnEngine for OnQueue<'_> {
    type Output = ();

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<(), Failure> {
        let Self { asked, resolved, log } = self;
        match &asked.command {
            Command::Start => start::run(engine, resolved, log).await,
            Command::GetErrors(flags) => get_errors::run(engine, flags).await,
            Command::Status(flags) => status::run(engine, resolved, flags).await,
            Command::Dashboard(flags) => dashboard::run(engine, resolved, flags, log, None).await,
            Command::Manage(Manage::Push(flags)) => push::run(engine, resolved, flags).await,
            Command::Where(flags) => outcomes::run(engine, resolved, flags).await,
            Command::Manage(Manage::Errors(asked)) => errors::run(engine, asked).await,
            Command::Manage(Manage::Pause(which)) => manage::pause(engine, which, true).await,
            Command::Manage(Manage::Resume(which)) => manage::pause(engine, which, false).await,
            Command::Manage(Manage::Limit(flags)) => manage::limit(engine, flags).await,
            Command::Manage(Manage::Cancel(flags)) => cancel::run(engine, flags).await,
            Command::Manage(Manage::Handover(flags)) => manage::handover(engine, flags).await,
            Command::Manage(Manage::Nodes(flags)) => manage::nodes(engine, flags).await,
            Command::Manage(Manage::Drain(flags)) => manage::drain(engine, flags).await,
            Command::Manage(Manage::Reshard(flags)) => reshard::run(engine, flags).await,
            Command::Manage(Manage::Purge(flags)) => manage::purge(engine, resolved, flags).await,
            Command::Verify(_)
            | Command::Doctor(_)
            | Command::Bench(_)
            | Command::BenchNode(_)
            | Command::BenchHot(_)
            | Command::Demo(_)
            | Command::Queues(_)
            | Command::Healthcheck(_)
            | Command::Offer(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::WatchChildren => unreachable!("they open their own engine, or none"),
        }
    }

    async fn run_among<E: Engine>(self, engine: Arc<E>, others: Opener<E>) -> Result<(), Failure> {
        match &self.asked.command {
            Command::Dashboard(flags) => dashboard::run(engine, self.resolved, flags, self.log, Some(others)).await,
            _ => self.run(engine).await,
        }
    }
}

/// Refuses a queue that is not there, or that this program cannot work on, before anything is done. A shard that is away is no reason: only the home
/// shard must be there.
async fn check_queue<E: Engine>(engine: &Arc<E>) -> Result<(), Error> {
    engine.check().await?;
    match engine.published().await {
        Err(error) if error.is_away() => E::shards(engine)[0].published().await.map(drop),
        published => published.map(drop),
    }
}

/// None: nobody has joined the queue yet.
async fn status_if_any<E: Engine>(engine: &E) -> Result<Option<Status>, Error> {
    match engine.status().await {
        Err(Error::NoQueue { .. }) => Ok(None),
        status => status.map(Some),
    }
}

/// Per second, over the last `most` samples at most, of which each counts what happened within `each`.
#[allow(clippy::cast_precision_loss)]
fn rate(samples: &VecDeque<u64>, most: usize, each: Duration) -> f64 {
    let looks = samples.len().clamp(1, most);
    let settled: u64 = samples.iter().rev().take(looks).sum();
    settled as f64 / (each.as_secs_f64() * looks as f64)
}

/// The log as it was asked for; what reading the options brought to light is told first.
fn log(resolved: &Resolved) -> Arc<Log> {
    let no_color = std::env::var("NO_COLOR").ok();
    let log = Log::to_stderr(resolved.log, resolved.quiet, no_color.as_deref());
    let log = log
        .with_starts(resolved.verbose)
        .with_payloads_to(resolved.log_payload as usize);
    let log = Arc::new(log);
    for note in &resolved.notes {
        log.note(note);
    }
    log
}
