//! How the copies of a fleet are started, each with a book and a log of its own, and stopped.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::copy::Copy;
use crate::engine::Status;

/// Starts copies, one like the other.
pub struct Starter {
    pub program: PathBuf,
    pub directory: PathBuf,
    /// The options of `start`.
    pub arguments: Vec<OsString>,
    started: usize,
}

/// What the next copy is to be.
pub struct Next {
    pub number: usize,
    /// Where it writes down what it does.
    pub book: PathBuf,
    pub command: Command,
}

impl Starter {
    pub fn new(directory: &Path, arguments: Vec<OsString>) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            directory: directory.to_path_buf(),
            arguments,
            started: 0,
        })
    }

    /// The next copy, which the caller spawns.
    pub fn next(&mut self) -> Next {
        let number = self.started;
        self.started += 1;
        let book = self.directory.join(format!("book-{number}"));
        let mut command = Command::new(&self.program);
        command
            .args(["start", "--log=json", "--quiet", "--until-stdin-closes", "--ledger"])
            .arg(&book)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Next { number, book, command }
    }
}

/// Tells copies to stop in good order; those that are frozen go on for that.
pub fn stop<'a>(copies: impl IntoIterator<Item = &'a Copy>) {
    for copy in copies {
        copy.signal(Signal::TERM);
        copy.signal(Signal::CONT);
    }
}

/// The process that generates.
pub fn generator_pid(status: &Status) -> Option<u32> {
    let generator = status.generator.as_ref()?;
    Some(status.nodes.iter().find(|node| node.node == *generator)?.pid)
}
