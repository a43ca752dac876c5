//! `healthcheck`: asks the processes that run here, for `HEALTHCHECK` of a container and for probes that run a command.

use std::process::ExitCode;
use std::time::Duration;

use crate::app::args::Healthcheck;
use crate::app::exit::{FAILED, Failure};
use crate::app::health;
use crate::app::run::print;

/// Less than the five seconds that the image gives it.
const ANSWER_MAX: Duration = Duration::from_secs(4);

pub(in crate::app) fn run(flags: Healthcheck) -> Result<ExitCode, Failure> {
    let health =
        health::ask(flags.pid, ANSWER_MAX).map_err(|error| Failure::cannot("ask the processes here", error))?;
    print(&format!("{health}\n"))?;
    Ok(if health.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}
