//! `--handle COMMAND`: a child that lives on, gets a JSON line for each message, and answers each with a line, in order.
//!
//! Many messages are on their way at once, as many as the node handles at once; many lines are one write. When a child
//! ends, hangs, or breaks the rules, the message that it was to answer next is the one that failed. The others that it
//! had are tried again, since nobody knows how far it had come with them. Then another child is started.

use std::collections::VecDeque;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::group::{Group, LAST_WORDS, ended};
use super::said::{self, Last};
use super::{Tell, answer};
use crate::app::args::program::Program;
use crate::app::base64;
use crate::message::Message;
use crate::node::backoff::Backoff;
use crate::node::event::escape;
use crate::node::handle::{Failure, Handle, Handled};

/// The longest answer: effects may be large.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// No more lines are made while so much waits to be written.
const OUT_BYTES_MAX: usize = 256 * 1024;
const LINES_PER_TURN: usize = 1024;
/// The longest wait before another child is started.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// When the node stops, its child sees the end of stdin, and after this time a SIGTERM, and then a SIGKILL.
const GOODBYE: Duration = Duration::from_secs(1);

/// Hands messages to a child that lives on.
pub struct Child {
    calls: mpsc::UnboundedSender<Call>,
}

struct Call {
    message: Message,
    reply: oneshot::Sender<Handled>,
}

impl Child {
    /// The child is started with the first message, and ends when the handler is dropped.
    #[must_use]
    pub fn new(program: Program, queue: &str, timeout: Option<Duration>, tell: Tell) -> Self {
        // As many calls as the node has slots: a slot waits for its answer.
        let (sender, calls) = mpsc::unbounded_channel();
        let keeper = Keeper {
            program,
            queue: queue.into(),
            timeout,
            tell,
            calls,
            waiting: VecDeque::new(),
            backoff: Backoff::up_to(BACKOFF_MAX),
        };
        tokio::spawn(keeper.run());
        Self { calls: sender }
    }
}

impl Handle for Child {
    async fn handle(&self, message: Message) -> Handled {
        let (reply, answer) = oneshot::channel();
        let gone = || Failure::retry("nobody keeps the child of --handle any more");
        self.calls.send(Call { message, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// Starts one child after the other.
struct Keeper {
    program: Program,
    queue: String,
    timeout: Option<Duration>,
    tell: Tell,
    calls: mpsc::UnboundedReceiver<Call>,
    /// Not handed to any child yet.
    waiting: VecDeque<Call>,
    backoff: Backoff,
}

/// Why a child is given up.
enum End {
    /// Nobody needs it any more.
    Unneeded,
    /// It ended, or closed its input or output.
    Gone,
    TimedOut(Duration),
    /// It broke the rules.
    Wrong(String),
}

impl Keeper {
    async fn run(mut self) {
        loop {
            if self.waiting.is_empty() {
                match self.calls.recv().await {
                    Some(call) => self.waiting.push_back(call),
                    None => return,
                }
            }
            match Life::start(&self.program, &self.queue, &self.tell) {
                Ok(life) => {
                    if !self.live(life).await {
                        return;
                    }
                }
                Err(error) => {
                    let text = format!("cannot start {}: {error}", self.program);
                    (self.tell)("child", &text);
                    while let Ok(call) = self.calls.try_recv() {
                        self.waiting.push_back(call);
                    }
                    for call in self.waiting.drain(..) {
                        let _ = call.reply.send(Err(Failure::retry(&text)));
                    }
                }
            }
            self.backoff.wait().await;
        }
    }

    /// False: no other child is needed.
    async fn live(&mut self, mut life: Life) -> bool {
        let end = life.serve(self).await;
        if life.answered > 0 {
            self.backoff.reset();
        }
        let why = match end {
            End::Unneeded => {
                drop(life.stdin);
                life.group.stop(GOODBYE, GOODBYE).await;
                return false;
            }
            End::Gone => {
                // What it wrote before it ended still counts.
                let status = tokio::time::timeout(LAST_WORDS, life.group.wait()).await;
                life.group.kill();
                let _ = tokio::time::timeout(LAST_WORDS, &mut life.saying).await;
                status.map_or_else(|_| "closed its input or output".into(), |status| ended(&status))
            }
            End::TimedOut(after) => format!("did not answer within {after:?} (--timeout) and was killed"),
            End::Wrong(why) => format!("was killed: {why}"),
        };
        let mut text = format!("{} {why}", self.program);
        let last = life.last.text();
        if !last.is_empty() {
            text = format!("{text}; it said: {last}");
        }
        (self.tell)("child", &text);
        let Life { in_hand, gone, .. } = life;
        let mut unsent = VecDeque::new();
        for (place, sent) in in_hand.into_iter().enumerate() {
            if sent.start >= gone {
                unsent.push_back(sent.call);
            } else if place == 0 {
                let _ = sent.call.reply.send(Err(Failure::Error(text.clone())));
            } else {
                let behind = format!("was behind a message in hand of a child that failed: {text}");
                let _ = sent.call.reply.send(Err(Failure::retry(behind)));
            }
        }
        unsent.append(&mut self.waiting);
        self.waiting = unsent;
        true
    }
}

/// One child, from start to end.
struct Life {
    group: Group,
    /// None once it does not read any more.
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    last: Last,
    saying: JoinHandle<()>,
    /// The name of the queue as JSON.
    queue: String,
    /// Lines that are not written yet, from `out_at` on.
    out: Vec<u8>,
    out_at: usize,
    /// How many bytes of lines were made, and how many of them the child has.
    made: u64,
    gone: u64,
    in_hand: VecDeque<Sent>,
    /// Since when the oldest message in hand has been the next to be answered.
    since: Instant,
    inbox: Vec<u8>,
    answered: u64,
}

struct Sent {
    call: Call,
    /// Where its line begins, among all bytes.
    start: u64,
}

impl Life {
    fn start(program: &Program, queue: &str, tell: &Tell) -> std::io::Result<Self> {
        let mut command = program.command();
        command.stdout(Stdio::piped()).env("QUEENRIGHT_QUEUE", queue);
        let mut group = Group::start(&mut command)?;
        let last = Last::default();
        let saying = tokio::spawn(said::listen(group.stderr(), last.clone(), tell.clone()));
        Ok(Self {
            stdin: Some(group.stdin()),
            stdout: group.stdout(),
            group,
            last,
            saying,
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

    async fn serve(&mut self, keeper: &mut Keeper) -> End {
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
        let end_of_first = self.in_hand.get(1).map_or(self.made, |second| second.start);
        let wanted = !self.in_hand.is_empty() || !keeper.waiting.is_empty();
        self.stdin.is_none() && wanted && (self.in_hand.is_empty() || end_of_first > self.gone)
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
        self.in_hand.push_back(Sent { call, start });
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
                return Err(format!("it answered {} although it was asked nothing", shown(line)));
            }
            let number = self.in_hand[0].call.message.number;
            let handled = answer::read(line, number)
                .map_err(|why| format!("it answered {} to message {number}: {why}", shown(line)))?;
            if let Some(sent) = self.in_hand.pop_front() {
                let _ = sent.call.reply.send(handled);
            }
            self.answered += 1;
        }
        if at > 0 {
            self.inbox.drain(..at);
            self.since = Instant::now();
        }
        if self.inbox.len() > ANSWER_BYTES_MAX {
            return Err(format!("its answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        Ok(())
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

/// The start of an answer that is none, for people.
fn shown(line: &[u8]) -> String {
    let cut = line.len() > 100;
    format!("{}{}", escape(&line[..line.len().min(100)]), if cut { "…" } else { "" })
}

/// `{"number":…,"attempt":…,"failures":…,"epoch":…,"queue":…,"payload":…}`, and `payload_base64` for what is no text.
fn line(out: &mut Vec<u8>, message: &Message, queue: &str) {
    let Message {
        number,
        attempt,
        failures,
        epoch,
        ..
    } = message;
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        r#"{{"number":{number},"attempt":{attempt},"failures":{failures},"epoch":{epoch},"queue":{queue},"#
    );
    if let Ok(text) = std::str::from_utf8(&message.payload) {
        out.extend_from_slice(br#""payload":"#);
        let _ = serde_json::to_writer(&mut *out, text);
    } else {
        let _ = write!(out, r#""payload_base64":"{}""#, base64::encode(&message.payload));
    }
    out.extend_from_slice(b"}\n");
}
