//! The program: the command line and all that is behind it. No part of the library's API.
//!
//! Each of these uses only those above it:
//!
//! | module | |
//! | --- | --- |
//! | `base64` | bytes as text |
//! | `ahead` | lines that were read before they are wanted |
//! | `args` | flags, variables and files, read into one set of values |
//! | `exit`, `run` | how a command ends, and what every command needs around it |
//! | `init` | process 1 of a container |
//! | `health` | whether the processes here are well |
//! | `systemd` | what a service tells systemd |
//! | `password` | one that is asked for at each connect |
//! | `on_engine` | opens the engine of a store for a command |
//! | `queues` | which queues there are at a store |
//! | `output` | what people and programs read: log, JSON, tables, the terminal's screen |
//! | `otel` | traces for OpenTelemetry |
//! | `http`, `metrics` | a small server, and the figures for Prometheus |
//! | `outside` | other programs as handlers and generators |
//! | `lab` | what `demo`, `verify` and `bench` share |
//! | `dashboard` | the page and its API |
//! | `commands` | one file per command |

mod ahead;
pub mod base64;

pub mod args;

mod exit;
mod run;

mod health;
mod init;
mod password;
mod systemd;

mod on_engine;
mod queues;

pub mod output;

mod otel;

mod http;
mod metrics;

pub mod outside;

pub mod lab;

pub mod dashboard;

pub mod commands;

use std::io::Write;
use std::process::ExitCode;

use crate::node::event::escape;
use args::{Stop, sources};
use exit::Failure;

/// Reads the command line, adds what the environment and files say, and runs the command. What goes wrong is one line on
/// stderr, and the exit code that belongs to it.
#[must_use]
pub fn run() -> ExitCode {
    if let Some(code) = init::run() {
        return code;
    }
    let asked = match args::parse(std::env::args_os()) {
        Ok(asked) => asked,
        Err(Stop::Show(text)) => {
            return run::print(&text).map_or_else(|failure| fail(&failure), |()| ExitCode::SUCCESS);
        }
        Err(Stop::Usage(wrong)) => return fail(&Failure::usage(wrong.to_string())),
    };
    if asked.command == args::Command::WatchChildren {
        outside::watch();
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = commands::run_alone(&asked.command) {
        return ended.unwrap_or_else(|failure| fail(&failure));
    }
    let resolved = match sources::of_this_process(&asked) {
        Ok(resolved) => resolved,
        Err(wrong) => return fail(&Failure::usage(wrong.to_string())),
    };
    match commands::run(&asked, resolved) {
        Ok(code) => code,
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &Failure) -> ExitCode {
    // Nobody may be listening; the exit code says the same.
    let _ = writeln!(std::io::stderr(), "queenright: {}", escape(failure.line.as_bytes()));
    ExitCode::from(failure.code)
}
