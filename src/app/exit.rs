//! How a command ends when it does not end well: one line for people, and an exit code for programs.

use crate::api::failed::ReadError;
use crate::app::args::explain;
use crate::error::{Absence, Error};

/// Something went wrong.
pub(in crate::app) const FAILED: u8 = 1;
/// The command line, a variable or a file says something that cannot be.
pub(in crate::app) const WRONG_USAGE: u8 = 2;
/// The store does not answer: `EX_UNAVAILABLE`.
pub(in crate::app) const NO_REDIS: u8 = 69;

/// Why a command did not end well: one line, and the exit code that goes with it.
#[derive(Debug)]
pub struct Failure {
    pub line: String,
    pub code: u8,
    /// It is about a queue that is not there.
    pub no_queue: bool,
}

impl Failure {
    pub(in crate::app) fn failed(line: impl Into<String>) -> Self {
        Self::with(FAILED, line)
    }

    pub(in crate::app) fn usage(line: impl Into<String>) -> Self {
        Self::with(WRONG_USAGE, line)
    }

    pub(in crate::app) fn no_redis(line: impl Into<String>) -> Self {
        Self::with(NO_REDIS, line)
    }

    /// `cannot WHAT: ERROR`.
    pub(in crate::app) fn cannot(what: &str, error: impl std::fmt::Display) -> Self {
        Self::failed(format!("cannot {what}: {error}"))
    }

    fn with(code: u8, line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            code,
            no_queue: false,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Away {
                absence: Absence::Elsewhere,
                ..
            } => FAILED,
            Error::Away { .. } => NO_REDIS,
            Error::Setting { .. }
            | Error::TooLarge { .. }
            // The queue is there, and what was given to name it differs from what is recorded.
            | Error::OtherNames { .. }
            | Error::OtherShards { .. }
            | Error::OtherShard { .. } => WRONG_USAGE,
            _ => FAILED,
        };
        let hint = match &error {
            Error::Away {
                absence: Absence::Silent,
                ..
            } => "; start Redis there, give another address with --url or --host, or use --url sqlite:queue.db",
            _ => "",
        };
        Self {
            no_queue: matches!(error, Error::NoQueue { .. }),
            ..Self::with(code, format!("{}{hint}", explain(&error)))
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => error.into(),
            ReadError::Output(error) => Self::failed(format!(
                "cannot write the output ({error}); what was not written stays among the errors"
            )),
        }
    }
}
