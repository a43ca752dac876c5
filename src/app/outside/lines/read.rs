//! Reads lines, of a child or of stdin, until they end or nobody wants them any more.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::super::group::{Group, LAST_WORDS, ended};
use super::super::item::{self, Item};
use super::super::stderr::{self, Last};
use super::super::{GOODBYE, Tell};
use crate::app::ahead::Sender;
use crate::app::args::program::Program;
use crate::message::PAYLOAD_BYTES_MAX;

/// JSON may need several bytes for one.
const LINE_BYTES_MAX: usize = 8 * PAYLOAD_BYTES_MAX;

/// What a reader has to say.
pub(super) enum Read {
    Item(Item),
    /// There will be no more lines: all is said, or something went wrong.
    End {
        failed: bool,
    },
}

/// Reads a child's lines until it ends, or nobody wants them any more.
pub(super) async fn follow(mut group: Group, sender: Sender<Read>, json: bool, program: Program, tell: Tell) {
    let last = Last::default();
    let saying = tokio::spawn(stderr::listen(group.stderr(), last.clone(), tell.clone()));
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
        // A generator that closes its output has printed all, and should end.
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
        let bytes = rest.len();
        match item::read(rest, json) {
            Ok(item) => _ = sender.send(Read::Item(item), bytes).await,
            Err(wrong) => text = Some(format!("the last line of {program} is dropped: {wrong}")),
        }
    }
    let _ = tokio::time::timeout(LAST_WORDS, saying).await;
    let failed = text.is_some();
    if let Some(text) = text {
        tell.say("child", &last.after(text, "; it said: "));
    }
    let _ = sender.send(Read::End { failed }, 0).await;
}

/// True: that was all but for `line`, which has no end. False: nobody wants more.
async fn read_lines(
    from: &mut (impl AsyncBufReadExt + AsyncRead + Unpin),
    sender: &Sender<Read>,
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
            let bytes = line.len();
            let item = item::read(std::mem::take(line), json)?;
            if sender.send(Read::Item(item), bytes).await.is_err() {
                return Ok(false);
            }
        } else if is_end {
            return Ok(true);
        }
    }
}

pub(super) fn read_stdin(sender: &Sender<Read>, json: bool, tell: &Tell) {
    use io::{BufRead, Read as _};
    let mut stdin = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        let read = (&mut stdin)
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut line);
        let bytes = line.len();
        let item = match read {
            Ok(0) => break,
            Ok(_) if line.len() > LINE_BYTES_MAX => Err(too_long()),
            Ok(_) => item::read(std::mem::take(&mut line), json),
            Err(error) => Err(error.to_string()),
        };
        match item {
            Ok(item) => {
                if sender.blocking_send(Read::Item(item), bytes).is_err() {
                    return;
                }
            }
            Err(wrong) => {
                tell.say("child", &format!("stdin is read no further: {wrong}"));
                break;
            }
        }
    }
    let _ = sender.blocking_send(Read::End { failed: false }, 0);
}

fn too_long() -> String {
    format!("a line has more than {LINE_BYTES_MAX} bytes")
}
