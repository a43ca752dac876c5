//! One file per command: [`run`] is the table of contents.

pub mod bench;
mod dashboard;
mod demo;
mod doctor;
mod errors;
mod get_errors;
mod manage;
mod push;
mod start;
mod status;
mod verify;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::app::args::sources::{Resolved, Store};
use crate::app::args::{Command, Invocation, Manage};
use crate::app::exit::{FAILED, Failure, NO_REDIS};
use crate::app::output::log::Log;
use crate::app::run::runtime;
use crate::engine::Engine;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::{RedisEngine, Server};
use crate::engine::sqlite::SqliteEngine;

/// How long a command that only reads waits for an answer.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Runs what was asked for.
pub fn run(asked: &Invocation, resolved: Resolved) -> Result<ExitCode, Failure> {
    if let Command::Verify(flags) = &asked.command {
        return verify::run(asked, resolved, flags);
    }
    if let Command::Bench(flags) = &asked.command {
        return bench::run(asked, &resolved, flags);
    }
    if let Command::BenchHot(flags) = &asked.command {
        return bench::hot::run(flags);
    }
    if let Command::BenchNode(flags) = &asked.command {
        return bench::run_node(&resolved, flags);
    }
    if let Command::Doctor(flags) = &asked.command {
        return doctor::run(&resolved, *flags);
    }
    let stage = demo::Stage::set_for(asked)?;
    let (asked, resolved) = match &stage {
        Some(stage) => (&stage.asked, stage.resolved.clone()),
        None => (asked, resolved),
    };
    let no_color = std::env::var("NO_COLOR").ok();
    let log = Log::to_stderr(resolved.log, resolved.quiet, no_color.as_deref());
    let log = Arc::new(log.with_starts(resolved.verbose > 0));
    for note in &resolved.notes {
        log.note(note);
    }
    let runtime = runtime()?;
    let (settings, address) = (&resolved.settings, resolved.address.clone());
    let ended = match &resolved.store {
        Store::Redis(info) => {
            let mut server = Server::new((**info).clone(), address, settings);
            if asked.command != Command::Start {
                // Nobody's lease depends on it.
                server.answer_timeout = server.answer_timeout.max(LOOK_MAX);
            }
            let engine = RedisEngine::new(&server, Keys::new(&settings.queue, &settings.names))?;
            runtime.block_on(dispatch(asked, &resolved, engine, log))
        }
        Store::Sqlite(database) => {
            let engine = SqliteEngine::open(database.clone(), &settings.queue, &settings.names)?;
            runtime.block_on(dispatch(asked, &resolved, engine, log))
        }
    };
    // A write to a pipe that nobody reads may still hang in a thread: leave without it.
    runtime.shutdown_timeout(Duration::ZERO);
    ended.map(|()| ExitCode::SUCCESS)
}

/// The same commands, whatever keeps the queue.
async fn dispatch<E: Engine>(asked: &Invocation, resolved: &Resolved, engine: E, log: Arc<Log>) -> Result<(), Failure> {
    let engine = Arc::new(engine);
    match &asked.command {
        Command::Start => start::run(engine, resolved, &asked.start, log).await,
        Command::GetErrors(flags) => get_errors::run(engine, flags).await,
        Command::Status(flags) => status::run(engine, resolved, flags).await,
        Command::Demo(flags) => demo::run(engine, asked, resolved, flags).await,
        Command::Dashboard(flags) => dashboard::run(engine, resolved, flags, log).await,
        Command::Verify(_) | Command::Doctor(_) | Command::Bench(_) | Command::BenchNode(_) | Command::BenchHot(_) => {
            unreachable!("they make their own engine")
        }
        Command::Manage(manage) => match manage {
            Manage::Push(flags) => push::run(engine, resolved, flags).await,
            Manage::Errors(asked) => errors::run(engine, asked).await,
            Manage::Pause(which) => manage::pause(engine, which, true).await,
            Manage::Resume(which) => manage::pause(engine, which, false).await,
            Manage::Handover(flags) => manage::handover(engine, flags).await,
            Manage::Nodes(flags) => manage::nodes(engine, flags).await,
            Manage::Drain(flags) => manage::drain(engine, flags).await,
            Manage::Purge(flags) => manage::purge(engine, resolved, flags).await,
        },
    }
}
