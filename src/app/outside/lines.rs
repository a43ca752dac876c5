//! `--generate COMMAND` and `--generate -`: lines become messages.
//!
//! A command is started with the first message of a reign, told where the last reign ended, and stopped with the reign.
//! A line is kept until the store has confirmed its message, since a message may be asked for again.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::group::{Group, LAST_WORDS, ended};
use super::item::CURSOR_BYTES;
use super::said::{self, Last};
use super::{Tell, item};
use crate::app::args::program::{Program, Source};
use crate::app::output::time::utc_short;
use crate::message::PAYLOAD_BYTES_MAX;
use crate::node::backoff::Backoff;
use crate::node::generate::{Draft, Election, Generate, Made, Next, Unconfirmed};

/// So many lines are read ahead.
const AHEAD: usize = 1024;
/// JSON may need several bytes for one.
const LINE_BYTES_MAX: usize = 8 * PAYLOAD_BYTES_MAX;
/// The longest wait before another child is started.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A child whose reign is over sees a SIGTERM, and after this time a SIGKILL.
const GOODBYE: Duration = Duration::from_secs(1);

/// A line as a message, and the cursor behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub payload: Vec<u8>,
    pub cursor: Option<Vec<u8>>,
}

impl Item {
    /// A line as it is. The next generator is told the last message that fits into a variable.
    pub(super) fn plain(payload: Vec<u8>) -> Self {
        let fits = payload.len() <= CURSOR_BYTES && !payload.contains(&0);
        let cursor = fits.then(|| payload.clone());
        Self { payload, cursor }
    }

    pub(super) fn fill(&self, draft: &mut Draft) {
        draft.payload.extend_from_slice(&self.payload);
        if let Some(cursor) = &self.cursor {
            draft.cursor.clone_from(cursor);
        }
    }
}

/// What a reader has to say.
enum Read {
    Item(Item),
    /// There will be no more lines: all is said, or something went wrong.
    End {
        failed: bool,
    },
}

/// Makes messages of lines.
pub struct Lines {
    source: Source,
    queue: String,
    json: bool,
    tell: Tell,
    reading: Option<mpsc::Receiver<Read>>,
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

    fn start(&self, next: &Next, cursor: &[u8]) -> io::Result<mpsc::Receiver<Read>> {
        let (sender, receiver) = mpsc::channel(AHEAD);
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
                let group = Group::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
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
            // The child is stopped by whoever reads from it.
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
                        (self.tell)("child", &format!("cannot start the generator: {error}"));
                        self.failed = true;
                        continue;
                    }
                }
            }
            let Some(reading) = &mut self.reading else { continue };
            let read = if next.others_wait {
                match reading.try_recv() {
                    Ok(read) => Some(read),
                    Err(mpsc::error::TryRecvError::Empty) => return Made::Nothing,
                    Err(mpsc::error::TryRecvError::Disconnected) => None,
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

/// Reads a child's lines until it ends, or nobody wants them any more.
async fn follow(mut group: Group, sender: mpsc::Sender<Read>, json: bool, program: Program, tell: Tell) {
    let last = Last::default();
    let saying = tokio::spawn(said::listen(group.stderr(), last.clone(), tell.clone()));
    let mut stdout = BufReader::with_capacity(64 * 1024, group.stdout());
    let mut rest = Vec::new();
    let wrong = tokio::select! {
        biased;
        () = sender.closed() => return group.stop(Duration::ZERO, GOODBYE).await,
        read = read_lines(&mut stdout, &sender, json, &mut rest) => match read {
            Ok(false) => return group.stop(Duration::ZERO, GOODBYE).await,
            Ok(true) => None,
            Err(wrong) => Some(wrong),
        },
    };
    let mut text = if let Some(wrong) = wrong {
        group.kill();
        Some(format!("{program} was killed: {wrong}"))
    } else {
        // Whoever closes its output has said all, and ends.
        let status = tokio::time::timeout(GOODBYE, group.wait()).await.unwrap_or_else(|_| {
            group.kill();
            Err(io::Error::other("it closed its output and ran on"))
        });
        let failed = !status.as_ref().is_ok_and(std::process::ExitStatus::success);
        failed.then(|| format!("{program} {}", ended(&status)))
    };
    drop(group);
    // A last line without an end is one if its command ended well; otherwise it may be half of one.
    if text.is_none() && !rest.is_empty() {
        match item::read(rest, json) {
            Ok(item) => _ = sender.send(Read::Item(item)).await,
            Err(wrong) => text = Some(format!("the last line of {program} is dropped: {wrong}")),
        }
    }
    let _ = tokio::time::timeout(LAST_WORDS, saying).await;
    if let Some(text) = &text {
        let said = last.text();
        let more = if said.is_empty() {
            String::new()
        } else {
            format!("; it said: {said}")
        };
        tell("child", &format!("{text}{more}"));
    }
    let _ = sender.send(Read::End { failed: text.is_some() }).await;
}

/// True: that was all but for `line`, which has no end. False: nobody wants more.
async fn read_lines(
    from: &mut (impl AsyncBufReadExt + AsyncRead + Unpin),
    sender: &mpsc::Sender<Read>,
    json: bool,
    line: &mut Vec<u8>,
) -> Result<bool, String> {
    loop {
        let chunk = from.fill_buf().await.map_err(|error| error.to_string())?;
        let (found, used) = match chunk.iter().position(|byte| *byte == b'\n') {
            Some(end) => (true, end + 1),
            None => (false, chunk.len()),
        };
        let is_end = chunk.is_empty();
        line.extend_from_slice(&chunk[..used]);
        from.consume(used);
        if line.len() > LINE_BYTES_MAX {
            return Err(too_long());
        }
        if found {
            let item = item::read(std::mem::take(line), json)?;
            if sender.send(Read::Item(item)).await.is_err() {
                return Ok(false);
            }
        } else if is_end {
            return Ok(true);
        }
    }
}

fn read_stdin(sender: &mpsc::Sender<Read>, json: bool, tell: &Tell) {
    use io::{BufRead, Read as _};
    let mut stdin = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        let read = (&mut stdin)
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut line);
        let item = match read {
            Ok(0) => break,
            Ok(_) if line.len() > LINE_BYTES_MAX => Err(too_long()),
            Ok(_) => item::read(std::mem::take(&mut line), json),
            Err(error) => Err(error.to_string()),
        };
        match item {
            Ok(item) => {
                if sender.blocking_send(Read::Item(item)).is_err() {
                    return;
                }
            }
            Err(wrong) => {
                tell("child", &format!("stdin is read no further: {wrong}"));
                break;
            }
        }
    }
    let _ = sender.blocking_send(Read::End { failed: false });
}

fn too_long() -> String {
    format!("a line has more than {LINE_BYTES_MAX} bytes")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_line_that_is_not_confirmed_comes_again_and_none_comes_twice_after() {
        let program = Program::parse(r"printf 'a\nb\nc\n'").unwrap();
        let mut lines = Lines::new(Source::Program(program), "q", false, Arc::new(|_, _| {}));
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
            cursor: bytes::Bytes::new(),
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
