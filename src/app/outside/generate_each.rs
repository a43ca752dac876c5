//! `--generate-each COMMAND`: a process for each beat, whose stdout is the message. No output is no message this time.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::Notify;

use super::group::{Group, ended};
use super::item::{self, Item};
use super::stderr::{self, Last};
use super::{Tell, lines};
use crate::app::args::program::Program;
use crate::message::PAYLOAD_BYTES_MAX;
use crate::node::generate::{Draft, Election, Generate, Made, Next, Unconfirmed};

/// JSON may need several bytes for one.
const OUTPUT_BYTES_MAX: u64 = 8 * PAYLOAD_BYTES_MAX as u64;

/// Runs a process for each message.
pub struct GenerateEach {
    program: Program,
    queue: String,
    json: bool,
    timeout: Option<Duration>,
    tell: Tell,
    kept: Unconfirmed<Item>,
}

impl Generate for GenerateEach {
    fn elected(&mut self, election: &Election) {
        self.kept.elected(election);
    }

    fn deposed(&mut self, _: u64) {
        self.kept.clear();
    }

    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        // Others pushed before it was published: it is not made twice for that.
        if let Some(item) = self.kept.again(&next) {
            item.fill(draft);
            return Made::Message;
        }
        // What it takes may be long: the messages before this one are not kept waiting.
        if next.others_wait {
            return Made::Nothing;
        }
        let printed = self.run(&next, &draft.cursor).await;
        let item = printed.and_then(|output| match output.as_slice() {
            [] => Ok(None),
            _ => item::read(output, self.json).map(Some),
        });
        match item {
            Ok(Some(item)) => {
                item.fill(draft);
                self.kept.push(item);
                Made::Message
            }
            Ok(None) => Made::Nothing,
            Err(text) => {
                self.tell.say("child", &text);
                Made::Nothing
            }
        }
    }
}

impl GenerateEach {
    #[must_use]
    pub fn new(program: Program, queue: &str, json: bool, timeout: Option<Duration>, tell: Tell) -> Self {
        Self {
            program,
            queue: queue.into(),
            json,
            timeout,
            tell,
            kept: Unconfirmed::default(),
        }
    }

    async fn run(&self, next: &Next, cursor: &[u8]) -> Result<Vec<u8>, String> {
        let mut command = self.program.command();
        lines::about(&mut command, &self.queue, next, cursor);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut group = Group::start(&mut command, &self.tell.secrets)
            .map_err(|error| format!("cannot start {}: {error}", self.program))?;
        let last = Last::default();
        let saying = stderr::listen(group.stderr(), last.clone(), self.tell.clone());
        let (stdout, mut output, too_much) = (group.stdout(), Vec::new(), Notify::new());
        let reading = async {
            // It is closed behind this: a generator that prints more would wait for a reader for ever.
            let _ = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output).await;
            if output.len() as u64 > OUTPUT_BYTES_MAX {
                too_much.notify_one();
            }
        };
        let talking = async {
            tokio::join!(reading, saying);
        };
        // Whoever does not mind that the pipe is closed is stopped.
        let status = group
            .talk(&self.program, self.timeout, talking, too_much.notified())
            .await?;
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(format!("{} printed more than {OUTPUT_BYTES_MAX} bytes", self.program));
        }
        if !status.as_ref().is_ok_and(ExitStatus::success) {
            return Err(last.after(format!("{} {}", self.program, ended(&status)), ": "));
        }
        Ok(output)
    }
}
