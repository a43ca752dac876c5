//! `--generate COMMAND` and `--generate -`: lines become messages.
//!
//! A command is started with the first message of a reign, told where the last reign ended, and stopped with the reign.
//! A line is kept until the store has confirmed its message, since a message may be asked for again.

mod read;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use tokio::process::Command;
use tokio::sync::mpsc::error::TryRecvError;

use super::group::Group;
use super::item::Item;
use super::{BACKOFF_MAX, Tell};
use crate::app::ahead::{self, Receiver};
use crate::app::args::program::Source;
use crate::app::output::time::utc_short;
use crate::node::backoff::Backoff;
use crate::node::generate::{Draft, Election, Generate, Made, Next, Unconfirmed};
use read::{Read, follow, read_stdin};

/// Makes messages of lines.
pub struct Lines {
    source: Source,
    queue: String,
    json: bool,
    tell: Tell,
    reading: Option<Receiver<Read>>,
    /// No more lines will come: in this reign, or ever.
    over: bool,
    kept: Unconfirmed<Item>,
    /// The last child failed: the next one is not started at once.
    failed: bool,
    backoff: Backoff,
}

impl Lines {
    #[must_use]
    pub fn new(source: Source, queue: &str, json: bool, tell: Tell) -> Self {
        Self {
            source,
            queue: queue.into(),
            json,
            tell,
            reading: None,
            over: false,
            kept: Unconfirmed::default(),
            failed: false,
            backoff: Backoff::up_to(BACKOFF_MAX),
        }
    }

    fn start(&self, next: &Next, cursor: &[u8]) -> io::Result<Receiver<Read>> {
        let (sender, receiver) = ahead::channel();
        match &self.source {
            Source::Stdin => {
                // Reading stdin blocks, and cannot be given up: it has a thread of its own.
                let json = self.json;
                let tell = self.tell.clone();
                let read = move || read_stdin(&sender, json, &tell);
                std::thread::Builder::new().name("stdin".into()).spawn(read)?;
            }
            Source::Program(program) => {
                let mut command = program.command();
                about(&mut command, &self.queue, next, cursor);
                command.stdin(Stdio::null()).stdout(Stdio::piped());
                let group = Group::start(&mut command, &self.tell.secrets)?;
                tokio::spawn(follow(group, sender, self.json, program.clone(), self.tell.clone()));
            }
        }
        Ok(receiver)
    }
}

impl Generate for Lines {
    fn elected(&mut self, election: &Election) {
        // Lines of stdin that were not confirmed come again: nobody else has them. A child is started anew.
        self.kept.elected(election);
    }

    fn deposed(&mut self, confirmed: u64) {
        self.kept.confirm(confirmed);
        if matches!(self.source, Source::Program(_)) {
            self.kept.clear();
            self.over = false;
            // The reader of the child stops it.
            self.reading = None;
            self.failed = false;
            self.backoff.reset();
        }
    }

    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        if let Some(item) = self.kept.again(&next) {
            item.fill(draft);
            return Made::Message;
        }
        loop {
            if self.over {
                return Made::End;
            }
            if self.reading.is_none() {
                if self.failed {
                    if next.others_wait {
                        return Made::Nothing;
                    }
                    self.backoff.wait().await;
                    self.failed = false;
                }
                match self.start(&next, &draft.cursor) {
                    Ok(reading) => self.reading = Some(reading),
                    Err(error) => {
                        self.tell.say("child", &format!("cannot start the generator: {error}"));
                        self.failed = true;
                        continue;
                    }
                }
            }
            let Some(reading) = &mut self.reading else { continue };
            let read = if next.others_wait {
                match reading.try_recv() {
                    Ok(read) => Some(read),
                    Err(TryRecvError::Empty) => return Made::Nothing,
                    Err(TryRecvError::Disconnected) => None,
                }
            } else {
                reading.recv().await
            };
            match read {
                Some(Read::Item(item)) => {
                    self.backoff.reset();
                    item.fill(draft);
                    self.kept.push(item);
                    return Made::Message;
                }
                Some(Read::End { failed: false }) => self.over = true,
                Some(Read::End { failed: true }) | None => {
                    self.reading = None;
                    self.failed = true;
                }
            }
        }
    }
}

/// Tells a child where to go on.
pub(super) fn about(command: &mut Command, queue: &str, next: &Next, cursor: &[u8]) {
    command
        .env("QUEENRIGHT_QUEUE", queue)
        .env("QUEENRIGHT_NUMBER", next.number.to_string())
        .env("QUEENRIGHT_EPOCH", next.epoch.to_string())
        .env("QUEENRIGHT_DUE", utc_short(next.due_ms));
    // Nothing in the environment can hold a zero; a library's generator may have left one.
    let cursor = if cursor.contains(&0) { &[] } else { cursor };
    command.env("QUEENRIGHT_CURSOR", OsStr::from_bytes(cursor));
}

#[cfg(test)]
mod tests {
    use super::super::Secrets;
    use super::*;
    use crate::app::args::program::Program;

    #[tokio::test]
    async fn a_line_that_is_not_confirmed_comes_again_and_none_comes_twice_after() {
        let program = Program::parse(r"printf 'a\nb\nc\n'").unwrap();
        let tell = Tell::new(Secrets::default(), |_, _| {});
        let mut lines = Lines::new(Source::Program(program), "q", false, tell);
        let ask = |number, made, confirmed| Next {
            number,
            epoch: 1,
            made,
            confirmed,
            others_wait: false,
            due_ms: 0,
        };
        let election = Election {
            number: 10,
            epoch: 1,
            made: 7,
            made_before: None,
            cursor: bytes::Bytes::new(),
            shards: 1,
        };
        Generate::elected(&mut lines, &election);
        // Others pushed after `a` and `b` were made: they come again under other numbers, and then `c`.
        let asked = [(10, 7, 7), (11, 8, 7), (15, 7, 7), (16, 8, 7), (17, 9, 8)];
        let mut made = Vec::new();
        for (number, count, confirmed) in asked {
            let mut draft = Draft::default();
            assert_eq!(
                lines.generate(ask(number, count, confirmed), &mut draft).await,
                Made::Message
            );
            assert_eq!(draft.payload, draft.cursor);
            made.push(String::from_utf8(draft.payload).unwrap());
        }
        assert_eq!(made, ["a", "b", "a", "b", "c"]);
        assert_eq!(lines.kept.len(), 2, "what is confirmed is not kept");
        let mut draft = Draft::default();
        assert_eq!(lines.generate(ask(18, 10, 10), &mut draft).await, Made::End);
    }
}
