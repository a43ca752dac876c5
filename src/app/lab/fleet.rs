//! How the copies of a fleet are started, each with a book and a log of its own, and stopped.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::copy::Copy;
use super::ledger::book_of_shard;
use crate::engine::{Engine, Status};
use crate::error::Result;

/// Starts copies, one like the other.
pub struct Starter {
    pub program: PathBuf,
    pub directory: PathBuf,
    /// The options of `start`.
    pub arguments: Vec<OsString>,
    /// Of the queue.
    shards: usize,
    started: usize,
}

/// What the next copy is to be.
pub struct Next {
    pub number: usize,
    /// Where it writes down what it does, in each shard.
    pub books: Vec<PathBuf>,
    pub command: Command,
}

impl Starter {
    pub fn new(directory: &Path, arguments: Vec<OsString>, shards: usize) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            directory: directory.to_path_buf(),
            arguments,
            shards,
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
        let books = (0..self.shards.max(1)).map(|shard| book_of_shard(&book, shard));
        Next {
            number,
            books: books.collect(),
            command,
        }
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

/// Between two looks at a queue of which some shards do not answer.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Whether some shards do not answer.
pub fn is_in_part(status: &Status) -> bool {
    away(status).is_some()
}

/// The first shard that does not answer, and why.
pub fn away(status: &Status) -> Option<(usize, &str)> {
    let mut shards = status.shards.iter().enumerate();
    shards.find_map(|(number, shard)| Some((number, shard.away.as_deref()?)))
}

/// The status as all shards tell it. A store that was just started again may need a moment: after so long it is what there is.
pub async fn whole_status<E: Engine>(engine: &E, patience: Duration) -> Result<Status> {
    let deadline = Instant::now() + patience;
    loop {
        match engine.status().await {
            Err(error) if error.is_away() && Instant::now() < deadline => {}
            Ok(status) if is_in_part(&status) && Instant::now() < deadline => {}
            answer => return answer,
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
