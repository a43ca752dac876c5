//! `--handle COMMAND`: children that live on, get a JSON line for each message, and answer each with a line: in order, or
//! with the message's number.
//!
//! Many messages are on their way at once, as many as the node handles at once; many lines are one write. Each goes to the
//! worker that has the fewest, the first of them if several have: a child is started when its first message comes. When a child
//! ends, hangs, or breaks the rules, the oldest message that it has is the one that failed. The others are tried again, since
//! nobody knows how far it had come with them. Then another child is started in its place.

mod process;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::group::{LAST_WORDS, ended};
use super::{BACKOFF_MAX, GOODBYE, Tell};
use crate::app::args::program::Program;
use crate::message::Message;
use crate::node::backoff::Backoff;
use crate::node::handle::{Failure, Handle, Handled};
use process::Process;

/// Hands messages to children that live on.
pub struct Child {
    workers: Vec<Worker>,
}

/// Where one child is, or will be.
struct Worker {
    calls: mpsc::UnboundedSender<Call>,
    /// Messages of these that are cancelled.
    cancels: mpsc::UnboundedSender<u64>,
    /// How many messages it has.
    in_hand: AtomicUsize,
}

struct Call {
    message: Message,
    /// The node's slot, which waits for the outcome.
    reply: oneshot::Sender<Handled>,
}

impl Child {
    /// So many workers at most. They end when the handler is dropped.
    #[must_use]
    pub fn new(program: &Program, workers: usize, queue: &str, timeout: Option<Duration>, tell: &Tell) -> Self {
        let start = |_| {
            // As many calls as the node has slots: a slot waits for its answer.
            let ((sender, calls), (cancels, cancelled)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
            let keeper = Keeper {
                program: program.clone(),
                queue: queue.into(),
                timeout,
                tell: tell.clone(),
                calls,
                cancelled,
                waiting: VecDeque::new(),
                backoff: Backoff::up_to(BACKOFF_MAX),
                wondered: false,
            };
            tokio::spawn(keeper.run());
            Worker {
                calls: sender,
                cancels,
                in_hand: AtomicUsize::new(0),
            }
        };
        Self {
            workers: (0..workers.max(1)).map(start).collect(),
        }
    }
}

/// A message that a worker has, until its outcome is there or nobody waits for it any more.
struct InHand<'a>(&'a Worker);

impl<'a> InHand<'a> {
    fn of(worker: &'a Worker) -> Self {
        worker.in_hand.fetch_add(1, Ordering::Relaxed);
        Self(worker)
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.in_hand.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handle for Child {
    async fn handle(&self, message: Message) -> Handled {
        let (reply, answer) = oneshot::channel();
        let gone = || Failure::retry("the child of --handle has been stopped");
        let fewest = |worker: &&Worker| worker.in_hand.load(Ordering::Relaxed);
        let worker = self.workers.iter().min_by_key(fewest).ok_or_else(gone)?;
        let _in_hand = InHand::of(worker);
        let (number, cancellation) = (message.number, message.cancellation());
        worker.calls.send(Call { message, reply }).map_err(|_| gone())?;
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            biased;
            answered = &mut answer => return answered.map_err(|_| gone())?,
            () = cancellation.cancelled() => {}
        }
        // Its child is stopped. What it answers before it ends still counts.
        worker.cancels.send(number).map_err(|_| gone())?;
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
    cancelled: mpsc::UnboundedReceiver<u64>,
    /// Not handed to any child yet.
    waiting: VecDeque<Call>,
    backoff: Backoff,
    /// Whether it was asked if the child flushes its output.
    wondered: bool,
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
    /// It works on a message that was cancelled.
    Cancelled(u64),
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
            match Process::start(&self.program, &self.queue, &self.tell) {
                Ok(process) => {
                    if !self.live(process).await {
                        return;
                    }
                }
                Err(error) => {
                    let text = format!("cannot start {}: {error}", self.program);
                    self.tell.say("child", &text);
                    self.take_up();
                    for call in self.waiting.drain(..) {
                        let _ = call.reply.send(Err(Failure::retry(&text)));
                    }
                }
            }
            self.backoff.wait().await;
        }
    }

    /// Takes up all that has come.
    fn take_up(&mut self) {
        while let Ok(call) = self.calls.try_recv() {
            self.waiting.push_back(call);
        }
    }

    /// False: no other child is needed.
    async fn live(&mut self, mut process: Process) -> bool {
        let end = process.serve(self).await;
        if process.answered > 0 {
            self.backoff.reset();
        }
        let stopped_for = match end {
            End::Cancelled(number) => Some(number),
            _ => None,
        };
        let why = match end {
            End::Unneeded => {
                // It sees the end of stdin, after a while a SIGTERM, and then a SIGKILL.
                drop(process.stdin);
                process.group.stop(GOODBYE, GOODBYE).await;
                return false;
            }
            End::Gone => {
                // What it wrote before it ended still counts.
                let status = tokio::time::timeout(LAST_WORDS, process.group.wait()).await;
                process.group.kill();
                let _ = tokio::time::timeout(LAST_WORDS, &mut process.saying).await;
                status.map_or_else(|_| "closed its input or output".into(), |status| ended(&status))
            }
            End::TimedOut(after) => format!("did not answer within {after:?} (--timeout) and was killed"),
            End::Wrong(why) => format!("was killed: {why}"),
            End::Cancelled(number) => {
                process.stop_at(GOODBYE).await;
                format!("was stopped: message {number} was cancelled")
            }
        };
        let text = process.last.after(format!("{} {why}", self.program), "; it said: ");
        self.tell.say("child", &text);
        let Process { in_hand, gone, .. } = process;
        let mut unsent = VecDeque::new();
        for (place, sent) in in_hand.into_iter().enumerate() {
            if sent.start >= gone {
                unsent.push_back(sent.call);
            } else if place == 0 && stopped_for.is_none() || stopped_for == Some(sent.call.message.number) {
                let _ = sent.call.reply.send(Err(Failure::Error(text.clone())));
            } else {
                let behind = format!("the child failed at an earlier message: {text}");
                let _ = sent.call.reply.send(Err(Failure::retry(behind)));
            }
        }
        unsent.append(&mut self.waiting);
        self.waiting = unsent;
        true
    }
}
