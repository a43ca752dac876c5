//! How the copies of a fleet are started, each with a book and a log of its own, and stopped.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::copy::{self, Copy};

/// Starts copies, one like the other.
pub(in crate::app) struct Starter {
    pub(in crate::app) program: PathBuf,
    pub(in crate::app) directory: PathBuf,
    /// The options of `start`.
    pub(in crate::app) arguments: Vec<OsString>,
    started: usize,
}

/// What the next copy is to be.
pub(in crate::app) struct Next {
    pub(in crate::app) number: usize,
    /// Where it writes down what it does.
    pub(in crate::app) book: PathBuf,
    pub(in crate::app) command: Command,
}

impl Starter {
    pub(in crate::app) fn new(directory: &Path, arguments: Vec<OsString>) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            directory: directory.to_path_buf(),
            arguments,
            started: 0,
        })
    }

    /// The next copy, which the caller spawns.
    pub(in crate::app) fn next(&mut self) -> Next {
        let number = self.started;
        self.started += 1;
        let book = self.directory.join(format!("book-{number}"));
        let mut command = copy::start(&self.program, &book);
        command.args(&self.arguments);
        Next { number, book, command }
    }
}

/// Tells copies to stop in good order; those that are frozen go on for that.
pub(in crate::app) fn stop<'a>(copies: impl IntoIterator<Item = &'a Copy>) {
    for copy in copies {
        copy.signal(Signal::TERM);
        copy.signal(Signal::CONT);
    }
}
