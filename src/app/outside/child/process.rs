//! One child: lines to its stdin, answers from its stdout.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::group::{Group, LAST_WORDS};
use super::super::stderr::{self, Last};
use super::super::{Secrets, Tell, answer};
use super::{Call, End, Keeper};
use crate::app::args::program::Program;
use crate::app::base64;
use crate::message::{CANCELLED, Message};
use crate::node::event::escape;

/// The longest answer: effects may be large.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// No more lines are made while so much waits to be written.
const OUT_BYTES_MAX: usize = 256 * 1024;
const LINES_PER_TURN: usize = 1024;
/// A child that has answered nothing for so long may not flush its output.
const QUIET: Duration = Duration::from_secs(10);

/// One child, from its start to its end.
pub(super) struct Process {
    pub(super) group: Group,
    /// None once it does not read any more.
    pub(super) stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    pub(super) last: Last,
    pub(super) saying: JoinHandle<()>,
    secrets: Secrets,
    /// The name of the queue as JSON.
    queue: String,
    /// Lines that are not written yet, from `out_at` on.
    out: Vec<u8>,
    out_at: usize,
    /// How many bytes of lines were made, and how many of them the child has.
    made: u64,
    pub(super) gone: u64,
    pub(super) in_hand: VecDeque<Sent>,
    /// Since when the oldest message in hand has been the oldest.
    since: Instant,
    inbox: Vec<u8>,
    pub(super) answered: u64,
}

pub(super) struct Sent {
    pub(super) call: Call,
    /// Where its line begins and ends, among all bytes.
    pub(super) start: u64,
    end: u64,
}

impl Process {
    pub(super) fn start(program: &Program, queue: &str, tell: &Tell) -> std::io::Result<Self> {
        let mut command = program.command();
        command.stdout(Stdio::piped()).env("QUEENRIGHT_QUEUE", queue);
        let mut group = Group::start(&mut command, &tell.secrets)?;
        let last = Last::default();
        let saying = tokio::spawn(stderr::listen(group.stderr(), last.clone(), tell.clone()));
        Ok(Self {
            stdin: Some(group.stdin()),
            stdout: group.stdout(),
            group,
            last,
            saying,
            secrets: tell.secrets.clone(),
            queue: serde_json::Value::from(queue).to_string(),
            out: Vec::new(),
            out_at: 0,
            made: 0,
            gone: 0,
            in_hand: VecDeque::new(),
            since: Instant::now(),
            inbox: Vec::new(),
            answered: 0,
        })
    }

    pub(super) async fn serve(&mut self, keeper: &mut Keeper) -> End {
        let mut calls = Vec::new();
        loop {
            while self.has_room()
                && let Some(call) = keeper.waiting.pop_front()
            {
                self.send(call);
            }
            if self.is_deaf(keeper) {
                return End::Gone;
            }
            let deadline = keeper.timeout.filter(|_| self.is_asked()).map(|time| self.since + time);
            let quiet = (self.answered == 0 && self.is_asked() && !keeper.wondered).then(|| self.since + QUIET);
            let (stdin, stdout) = (self.stdin.as_mut(), &mut self.stdout);
            let lines = &self.out[self.out_at..];
            let may_send = self.out.len() < OUT_BYTES_MAX && keeper.waiting.is_empty();
            tokio::select! {
                biased;
                read = stdout.read_buf(&mut self.inbox) => match read {
                    Ok(1..) => if let Err(why) = self.answers() { return End::Wrong(why) },
                    Ok(0) | Err(_) => return End::Gone,
                },
                written = write(stdin, lines), if !lines.is_empty() => self.written(written.ok()),
                count = keeper.calls.recv_many(&mut calls, LINES_PER_TURN), if may_send => {
                    if count == 0 {
                        return End::Unneeded;
                    }
                    keeper.waiting.extend(calls.drain(..));
                }
                Some(number) = keeper.cancelled.recv() => {
                    // The message may not be taken up yet: there is no room for its line.
                    keeper.take_up();
                    if self.is_with(number, keeper) {
                        return End::Cancelled(number);
                    }
                }
                () = sleep_until(quiet) => {
                    keeper.wondered = true;
                    let text = format!("{} has answered nothing for 10 s; does it flush its output?", keeper.program);
                    keeper.tell.say("child", &text);
                }
                () = sleep_until(deadline) => return End::TimedOut(keeper.timeout.unwrap_or_default()),
                _ = self.group.wait() => return self.last_answers().await,
            }
        }
    }

    fn has_room(&self) -> bool {
        self.out.len() < OUT_BYTES_MAX
    }

    /// Whether the child has a message that it is to answer.
    fn is_asked(&self) -> bool {
        self.in_hand.front().is_some_and(|sent| sent.start < self.gone)
    }

    /// It does not read any more, and cannot answer what comes next.
    fn is_deaf(&self, keeper: &Keeper) -> bool {
        let wanted = !self.in_hand.is_empty() || !keeper.waiting.is_empty();
        let has_none = self.in_hand.front().is_none_or(|first| first.end > self.gone);
        self.stdin.is_none() && wanted && has_none
    }

    /// Puts a message into its line, unless nobody waits for it any more.
    fn send(&mut self, call: Call) {
        if call.reply.is_closed() {
            return;
        }
        let before = self.out.len();
        line(&mut self.out, &call.message, &self.queue);
        let start = self.made;
        self.made += (self.out.len() - before) as u64;
        let end = self.made;
        self.in_hand.push_back(Sent { call, start, end });
    }

    fn written(&mut self, bytes: Option<usize>) {
        let Some(bytes) = bytes else {
            // It does not read any more, but may still answer what it has; its end tells the rest.
            self.stdin = None;
            return;
        };
        if !self.is_asked() {
            self.since = Instant::now();
        }
        self.gone += bytes as u64;
        self.out_at += bytes;
        if self.out_at == self.out.len() {
            self.out.clear();
            self.out_at = 0;
        }
    }

    /// Hands out the answers that have arrived as whole lines.
    fn answers(&mut self) -> Result<(), String> {
        let mut at = 0;
        while let Some(end) = self.inbox[at..].iter().position(|byte| *byte == b'\n') {
            let line = &self.inbox[at..at + end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            at += end + 1;
            if !self.is_asked() {
                return Err(format!(
                    "it answered {} although it was asked nothing",
                    self.shown(line)
                ));
            }
            let oldest = self.in_hand[0].call.message.number;
            let (number, handled) = answer::read(line)
                .map_err(|why| format!("it answered {} to message {oldest}: {why}", self.shown(line)))?;
            // Children answer more or less in order: what is looked for is near the front.
            let is_meant = |sent: &Sent| number.is_none_or(|number| sent.call.message.number == number);
            let asked = self.in_hand.iter().take_while(|sent| sent.start < self.gone);
            let Some(place) = asked.into_iter().position(is_meant) else {
                return Err(format!("it answered {}: it has no such message", self.shown(line)));
            };
            if let Some(sent) = self.in_hand.remove(place) {
                let _ = sent.call.reply.send(handled);
            }
            self.answered += 1;
            if place == 0 {
                self.since = Instant::now();
            }
        }
        self.inbox.drain(..at);
        if self.inbox.len() > ANSWER_BYTES_MAX {
            return Err(format!("its answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// The start of an answer that is none, for people.
    fn shown(&self, line: &[u8]) -> String {
        let line = self.secrets.hide(line);
        let cut = line.len() > 100;
        format!("{}{}", escape(&line[..line.len().min(100)]), if cut { "…" } else { "" })
    }

    /// Whether the child has this message, or is about to get it. One that waits gets no child.
    fn is_with(&mut self, number: u64, keeper: &mut Keeper) -> bool {
        let is_meant = |call: &Call| call.message.number == number;
        if let Some(place) = keeper.waiting.iter().position(is_meant) {
            if let Some(call) = keeper.waiting.remove(place) {
                let _ = call.reply.send(Err(CANCELLED.into()));
            }
            return false;
        }
        self.in_hand.iter().any(|sent| is_meant(&sent.call))
    }

    /// Asks it to end, and after a while makes it. What it answers until then counts.
    pub(super) async fn stop_at(&mut self, patience: Duration) {
        self.group.ask_to_end();
        let until = Instant::now() + patience;
        loop {
            tokio::select! {
                biased;
                read = self.stdout.read_buf(&mut self.inbox) => match read {
                    Ok(1..) if self.answers().is_ok() => {}
                    _ => break,
                },
                () = tokio::time::sleep_until(until) => break,
            }
        }
        let _ = tokio::time::timeout_at(until, self.group.wait()).await;
        self.group.kill();
    }

    /// The child has ended: what it wrote before still counts.
    async fn last_answers(&mut self) -> End {
        // Whatever it started would hold its output open.
        self.group.kill();
        loop {
            match tokio::time::timeout(LAST_WORDS, self.stdout.read_buf(&mut self.inbox)).await {
                Ok(Ok(1..)) => {
                    if let Err(why) = self.answers() {
                        return End::Wrong(why);
                    }
                }
                _ => return End::Gone,
            }
        }
    }
}

async fn write(stdin: Option<&mut ChildStdin>, lines: &[u8]) -> std::io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(lines).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// `{"number":…,"deliveries":…,"failures":…,"epoch":…,"queue":…,"payload":…}`, with a `group` where there is one, and `payload_base64` for what is no text.
fn line(out: &mut Vec<u8>, message: &Message, queue: &str) {
    let Message {
        number,
        deliveries,
        failures,
        epoch,
        ..
    } = message;
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        r#"{{"number":{number},"deliveries":{deliveries},"failures":{failures},"epoch":{epoch},"queue":{queue},"#
    );
    if let Some(group) = message.group() {
        out.extend_from_slice(br#""group":"#);
        let _ = serde_json::to_writer(&mut *out, group);
        out.push(b',');
    }
    if !message.headers().is_empty() {
        let headers: BTreeMap<&str, &str> = message.headers().iter().collect();
        out.extend_from_slice(br#""headers":"#);
        let _ = serde_json::to_writer(&mut *out, &headers);
        out.push(b',');
    }
    if let Ok(text) = std::str::from_utf8(&message.payload) {
        out.extend_from_slice(br#""payload":"#);
        let _ = serde_json::to_writer(&mut *out, text);
    } else {
        let _ = write!(out, r#""payload_base64":"{}""#, base64::encode(&message.payload));
    }
    out.extend_from_slice(b"}\n");
}
