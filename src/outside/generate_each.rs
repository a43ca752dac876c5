//! `--generate-each COMMAND`: a process for each beat, whose stdout is the message. No output is no message this time.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::group::{Group, ended};
use super::said::{self, Last};
use super::{Program, Tell, item, lines};
use crate::generate::{Draft, Generate, Made, Next};
use crate::message::PAYLOAD_BYTES_MAX;

/// JSON may need several bytes for one.
const OUTPUT_BYTES_MAX: u64 = 8 * PAYLOAD_BYTES_MAX as u64;

/// Runs a process for each message.
pub struct GenerateEach {
    pub program: Program,
    pub queue: String,
    pub json: bool,
    pub timeout: Option<Duration>,
    pub tell: Tell,
}

impl Generate for GenerateEach {
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        // What it takes may be long: the messages before this one are not kept waiting.
        if next.others_wait {
            return Made::Nothing;
        }
        let running = self.run(&next, &draft.cursor);
        let printed = match self.timeout {
            None => running.await,
            Some(time) => match tokio::time::timeout(time, running).await {
                Ok(printed) => printed,
                Err(_) => Err(format!("{} was killed after {time:?} (--timeout)", self.program)),
            },
        };
        let item = printed.and_then(|output| match output.as_slice() {
            [] => Ok(None),
            _ => item::read(output, self.json).map(Some),
        });
        match item {
            Ok(Some(item)) => {
                item.fill(draft);
                Made::Message
            }
            Ok(None) => Made::Nothing,
            Err(text) => {
                (self.tell)("child", &text);
                Made::Nothing
            }
        }
    }
}

impl GenerateEach {
    async fn run(&self, next: &Next, cursor: &[u8]) -> Result<Vec<u8>, String> {
        let mut command = self.program.command();
        lines::about(&mut command, &self.queue, next, cursor);
        let mut group = Group::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))
            .map_err(|error| format!("cannot start {}: {error}", self.program))?;
        let last = Last::default();
        let saying = said::listen(group.stderr(), last.clone(), self.tell.clone());
        let mut stdout = group.stdout().take(OUTPUT_BYTES_MAX + 1);
        let reading = async move {
            let mut output = Vec::new();
            // Whoever prints more than can be read finds the pipe closed.
            let read = stdout.read_to_end(&mut output).await;
            read.map(|_| output)
        };
        let waiting = async {
            let status = group.wait().await;
            // What it started would hold its output open.
            group.kill();
            status
        };
        let (status, output, ()) = tokio::join!(waiting, reading, saying);
        let output = output.map_err(|error| format!("cannot read from {}: {error}", self.program))?;
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(format!("{} printed more than {OUTPUT_BYTES_MAX} bytes", self.program));
        }
        if !status.as_ref().is_ok_and(ExitStatus::success) {
            let said = last.text();
            let more = if said.is_empty() { said } else { format!(": {said}") };
            return Err(format!("{} {}{more}", self.program, ended(&status)));
        }
        Ok(output)
    }
}
