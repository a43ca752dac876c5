//! `push`: messages from arguments or stdin into the queue.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write as _};
use std::sync::Arc;

use super::outcomes::Tally;
use crate::api::push::{check, push_with};
use crate::app::ahead::{self, AHEAD_BYTES, Receiver};
use crate::app::args::item::Written;
use crate::app::args::json::Object;
use crate::app::args::sources::Resolved;
use crate::app::args::{Push as Flags, explain};
use crate::app::exit::Failure;
use crate::app::otel::{Traces, inherited};
use crate::engine::{Engine, Item, PUSH_ITEMS_MAX, Receipt};
use crate::message::PAYLOAD_BYTES_MAX;

/// A line may be longer than a payload: JSON escapes, and base64.
const LINE_BYTES_MAX: usize = 8 * PAYLOAD_BYTES_MAX;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

type Line = Result<Vec<u8>, String>;

pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, flags: &Flags) -> Result<(), Failure> {
    engine.check().await?;
    let note = |line: &str| drop(writeln!(io::stderr(), "queenright: {line}"));
    let traces = Traces::of_environment(&resolved.settings.queue, note);
    let ended = push_all(engine, resolved, flags, traces.as_ref()).await;
    if let Some(traces) = traces {
        let _ = tokio::task::spawn_blocking(move || traces.end()).await;
    }
    ended
}

async fn push_all<E: Engine>(
    engine: Arc<E>,
    resolved: &Resolved,
    flags: &Flags,
    traces: Option<&Traces>,
) -> Result<(), Failure> {
    let stdin = matches!(&flags.payloads[..], [] | [_] if flags.payloads.iter().all(|payload| payload == "-"));
    if flags.key.is_some() && (stdin || flags.payloads.len() > 1) {
        return Err(Failure::usage(
            "--key is for one message; lines of --json may have a \"key\" each",
        ));
    }
    let mut lines = if stdin {
        Lines::Stdin(read_stdin()?)
    } else {
        Lines::Given(flags.payloads.clone().into_iter())
    };
    let (mut number, mut mended) = (0, Mended::default());
    let mut tally = Tally::new(flags.json, flags.timeout);
    let inherited = inherited();
    while let Some(batch) = lines.several().await {
        let (mut items, mut bad) = (Vec::with_capacity(batch.len()), None);
        for line in batch {
            number += 1;
            let line = match line {
                Ok(line) if stdin => match mended.line(line, number == 1) {
                    Some(line) => Ok(line),
                    None => continue,
                },
                line => line,
            };
            match line.and_then(|line| item(&line, stdin && flags.json, flags)) {
                Ok(mut item) => {
                    item.headers.follow(&inherited);
                    items.push(item);
                }
                Err(why) => {
                    let what = if stdin { "line" } else { "message" };
                    bad = Some(Failure::usage(format!("{what} {number}: {why}")));
                    break;
                }
            }
        }
        // What comes before a bad line is pushed, and said so.
        let (mut printed, mut waited_for) = (Ok(()), Vec::new());
        let mut spans = traces.map(|traces| traces.publish(&mut items));
        let pushed = push_with(&*engine, &resolved.settings, flags.keep, &items, |receipts| {
            if let Some(spans) = &mut spans {
                spans.told(receipts);
            }
            if flags.wait {
                waited_for.extend_from_slice(receipts);
            } else if printed.is_ok() {
                printed = print(receipts, flags.json);
            }
        });
        let pushed = pushed.await;
        printed?;
        tally.pushed(&*engine, resolved, &waited_for).await?;
        pushed?;
        if let Some(bad) = bad {
            return Err(bad);
        }
    }
    if let Some(said) = mended.said() {
        let _ = writeln!(io::stderr(), "queenright: {said}");
    }
    tally.end(&*engine).await
}

/// What was not taken as it stands in a file: marks that editors leave, ends of lines of Windows, empty lines.
#[derive(Default)]
struct Mended {
    has_mark: bool,
    returns: u64,
    empty: u64,
}

impl Mended {
    /// None: it is empty.
    fn line(&mut self, mut line: Vec<u8>, is_first: bool) -> Option<Vec<u8>> {
        if is_first && line.starts_with(BYTE_ORDER_MARK) {
            self.has_mark = true;
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if line.pop_if(|last| *last == b'\r').is_some() {
            self.returns += 1;
        }
        if line.is_empty() {
            self.empty += 1;
            return None;
        }
        Some(line)
    }

    fn said(&self) -> Option<String> {
        let lines = |count: u64| {
            if count == 1 {
                "1 line".to_string()
            } else {
                format!("{count} lines")
            }
        };
        let mut all = Vec::new();
        if self.has_mark {
            all.push("left out the byte order mark".to_string());
        }
        if self.returns > 0 {
            all.push(format!("took the carriage return off {}", lines(self.returns)));
        }
        if self.empty > 0 {
            all.push(format!(
                "skipped {} empty {}",
                self.empty,
                if self.empty == 1 { "line" } else { "lines" }
            ));
        }
        let all = all.join(", ");
        (!all.is_empty()).then(|| format!("{all}; --json takes any payload as it is"))
    }
}

/// Where the messages come from.
enum Lines {
    Given(std::vec::IntoIter<String>),
    Stdin(Receiver<Line>),
}

impl Lines {
    async fn next(&mut self) -> Option<Line> {
        match self {
            Self::Given(rest) => rest.next().map(|text| Ok(text.into_bytes())),
            Self::Stdin(read) => read.recv().await,
        }
    }

    /// One that is there already.
    fn next_now(&mut self) -> Option<Line> {
        match self {
            Self::Given(rest) => rest.next().map(|text| Ok(text.into_bytes())),
            Self::Stdin(read) => read.try_recv().ok(),
        }
    }

    /// What has come, one at least: as many as one call carries, and not many more bytes than are read ahead. None: that was all.
    async fn several(&mut self) -> Option<Vec<Line>> {
        let size = |line: &Line| line.as_ref().map_or(0, Vec::len);
        let mut batch = vec![self.next().await?];
        let mut bytes = size(&batch[0]);
        while batch.len() < PUSH_ITEMS_MAX
            && bytes < AHEAD_BYTES
            && let Some(line) = self.next_now()
        {
            bytes += size(&line);
            batch.push(line);
        }
        Some(batch)
    }
}

/// Reads on a thread of its own: what has come is pushed, also while the next line is waited for.
fn read_stdin() -> Result<Receiver<Line>, Failure> {
    let (sender, receiver) = ahead::channel();
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let most = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut input).take(most).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) if line.len() > LINE_BYTES_MAX => Err(format!("it has more than {LINE_BYTES_MAX} bytes")),
                Ok(_) => {
                    line.pop_if(|last| *last == b'\n');
                    Ok(line)
                }
                Err(error) => Err(format!("cannot read stdin: {error}")),
            };
            let last = line.is_err();
            let bytes = line.as_ref().map_or(0, Vec::len);
            if sender.blocking_send(line, bytes).is_err() || last {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("stdin".into()).spawn(read);
    thread.map_err(|error| Failure::cannot("read stdin", error))?;
    Ok(receiver)
}

fn item(line: &[u8], is_json: bool, flags: &Flags) -> Result<Item, String> {
    let mut item = if is_json {
        from_json(line)?
    } else {
        Item::new(line.to_vec())
    };
    if item.delay_ms == 0 {
        item = item.delay(flags.delay);
    }
    if let (Some(group), None) = (&flags.group, &item.group) {
        item = item.group(group);
    }
    if let (Some(expires), None) = (flags.expires, item.expires_ms) {
        item = item.expires(expires);
    }
    for (name, value) in &flags.headers {
        if item.headers.get(&name.to_ascii_lowercase()).is_none() {
            item = item.header(name, value);
        }
    }
    if flags.wait || flags.ask {
        item = item.ask();
    }
    if let Some(key) = &flags.key {
        item = item.key(key);
    }
    check(&item).map_err(|error| explain(&error))?;
    Ok(item)
}

fn from_json(line: &[u8]) -> Result<Item, String> {
    let read = serde_json::from_slice(line);
    let Object(written): Object<Written> = read.map_err(|error| format!("no such JSON: {error}"))?;
    written.item()
}

fn print(receipts: &[Receipt], json: bool) -> Result<(), Failure> {
    let mut out = String::new();
    for receipt in receipts {
        let Receipt { number, repeated } = receipt;
        // Writing to a String cannot fail.
        let _ = if json {
            writeln!(out, "{{\"number\":{number},\"repeated\":{repeated}}}")
        } else {
            writeln!(out, "{number}")
        };
    }
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| {
        Failure::failed(format!(
            "the messages are in the queue, but their numbers cannot be written: {error}"
        ))
    })
}
