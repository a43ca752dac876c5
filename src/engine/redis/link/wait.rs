//! Waiting at a list, on a connection of its own or on the one that calls use.
//!
//! A server answers in order: a call behind a wait would be answered when the wait is over. So a call ends it first: the wait is also for
//! a list that only this link knows, and another connection puts something there. Nothing is lost with what it puts there too
//! late: the next wait is over at once, and the one who waits looks and waits again.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, RedisError, RedisResult, Value};

use super::super::refusal::{self, classify};
use super::super::scripts::Script;
use super::super::stream::Connection;
use super::kept::{Behind, random};
use super::{Link, Open};
use crate::engine::requeue;
use crate::error::Result;

/// Redis 6.2 takes less than this for no limit at all.
const BLOCK_MIN: Duration = Duration::from_millis(2);
/// What ended no wait is gone after this time, whoever put it there: a call that is still not answered puts it there again.
const LEFT_MS: u64 = 5_000;

/// When a call that is not answered looks once more whether someone waits.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// For so long after a wait could not be ended, others wait elsewhere: memory may be full, or a right missing. Trying again costs a connection.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// How a wait on the connection of calls is ended.
pub(super) struct Waits {
    /// The list that ends it.
    key: String,
    /// The link that puts something there.
    ender: Arc<Link>,
    state: AtomicU8,
    /// When a wait could last not be ended so.
    refused: Mutex<Option<Instant>>,
}

/// Nobody waits.
const NONE: u8 = 0;
/// A wait is on the connection.
const WAITS: u8 = 1;
/// A call has seen to its end.
const ENDS: u8 = 2;

impl Link {
    /// The same, and its connection may be waited on: calls end that through the other link, under a name that begins so.
    pub(in super::super) fn that_waits(self, prefix: &str, ender: &Arc<Self>) -> Self {
        let waits = Waits {
            key: format!("{prefix}wake:{:x}", random()),
            ender: ender.clone(),
            state: AtomicU8::new(NONE),
            refused: Mutex::default(),
        };
        Self {
            waits: Some(Box::new(waits)),
            ..self
        }
    }

    /// Whether a wait can share its connection with calls now: one at a time can, if it can be ended.
    pub(in super::super) fn can_wait(&self) -> bool {
        let waits = self.waits.as_ref();
        waits.is_some_and(|waits| waits.state.load(Ordering::Acquire) == NONE && waits.can_be_ended())
    }

    /// Waits for an element of a list. If the caller gives up waiting, the connection is closed, and the server stops waiting, too.
    /// False: none came, or a call has ended the wait.
    pub(in super::super) async fn pop(&self, key: &str, at_most: Duration) -> Result<bool> {
        let answers = self.pop_then(key, at_most, None).await?;
        Ok(answers.first().is_some_and(|popped| is_of(popped, key)))
    }

    /// The same, and then a script, in one go. None: the server does not know the script.
    pub(in super::super) async fn pop_then_run(
        &self,
        key: &str,
        at_most: Duration,
        script: &Script,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Option<Value>> {
        let whole = self.sends_whole.load(Ordering::Relaxed);
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { &script.text } else { &script.sha });
        arguments(&mut cmd);
        match self
            .pop_then(key, at_most, Some(cmd))
            .await?
            .pop()
            .map(Value::extract_error)
        {
            // The caller makes the call once more, as any other.
            Some(Err(error)) if refusal::wants_the_text(&error) => Ok(None),
            Some(answer) => answer.map(Some).map_err(|error| classify(&self.address, &error)),
            None => Ok(None),
        }
    }

    async fn pop_then(&self, key: &str, at_most: Duration, then: Option<Cmd>) -> Result<Vec<Value>> {
        let mut open = match &self.waits {
            Some(_) => self.connection().await?,
            // Out of its place meanwhile.
            None => match self.slot.lock().await.take() {
                Some(open) if open.changes == self.locator.changes() => open,
                _ => self.connect().await?,
            },
        };
        let mut pipe = redis::pipe();
        let blpop = pipe.cmd("BLPOP").arg(key);
        if let Some(waits) = &self.waits {
            blpop.arg(&waits.key);
        }
        blpop.arg(at_most.max(BLOCK_MIN).as_secs_f64());
        if let Some(cmd) = then {
            pipe.add_command(cmd);
        }
        let waiting = match &self.waits {
            None => None,
            Some(waits) => match Waiting::begin(self, waits, &open) {
                None => return Ok(Vec::new()),
                waiting => waiting,
            },
        };
        let Connection { redis, flow, .. } = &mut open.connection;
        let answers = redis.send_packed_commands(&pipe, 0, pipe.len());
        let answers = self
            .wait_for((open.changes, flow), at_most + self.answer_timeout, answers)
            .await;
        if let Some(waiting) = waiting {
            waiting.ends();
        }
        let first = match &answers {
            Ok(answers) => answers.first().cloned().map_or(Ok(Value::Nil), Value::extract_error),
            Err(_) => Ok(Value::Nil),
        };
        match (first, answers) {
            (Err(error), _) | (_, Err(error)) => {
                self.heed_error(&open, &error).await;
                Err(classify(&self.address_of(&open.to), &error))
            }
            (Ok(_), Ok(answers)) => {
                if self.waits.is_none() {
                    *self.slot.lock().await = Some(open);
                }
                Ok(answers)
            }
        }
    }

    /// The answer to a call. If someone waits on the connection, the wait is ended first.
    pub(super) async fn past_the_wait<T>(
        &self,
        mut answer: Pin<&mut impl Future<Output = RedisResult<T>>>,
    ) -> RedisResult<T> {
        let Some(waits) = &self.waits else { return answer.await };
        if !waits.is_to_end() {
            // As in `wait_for`: what is to be sent goes before the timer.
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = requeue() => {}
            }
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            // One may have begun in the moment in which the call was sent.
            if !waits.is_to_end() {
                return answer.await;
            }
        }
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            ended = waits.end() => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(error),
            },
        }
    }

    /// Runs a script over the connection that is there, and makes none: whoever makes one drives it, and this caller may be
    /// blocked. None: it was not answered so.
    pub(in super::super) async fn run_if_open(&self, script: &Script, arguments: impl Fn(&mut Cmd)) -> Option<Value> {
        let mut open = self.if_open()?;
        let whole = self.sends_whole.load(Ordering::Relaxed);
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { &script.text } else { &script.sha });
        arguments(&mut cmd);
        let sent = self.send(&mut open, None, &cmd, Behind::Nothing).await;
        sent.ok().map(|sent| sent.answer)
    }

    /// What it has open, if nobody is about to connect.
    fn if_open(&self) -> Option<Open> {
        let slot = self.slot.try_lock().ok()?;
        slot.clone().filter(|open| open.changes == self.locator.changes())
    }
}

impl Waits {
    /// Whether there is a wait, and no other call ends it.
    fn is_to_end(&self) -> bool {
        let begun = self
            .state
            .compare_exchange(WAITS, ENDS, Ordering::AcqRel, Ordering::Relaxed);
        begun.is_ok()
    }

    /// Whether that has worked of late, as far as it was tried.
    fn can_be_ended(&self) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_none_or(|at| at.elapsed() >= ELSEWHERE)
    }

    /// An error also says that the connection on which someone waits is of no use.
    async fn end(&self) -> RedisResult<()> {
        let cannot = || RedisError::from(std::io::Error::other("the wait on this connection cannot be ended"));
        let mut open = self.ender.if_open().ok_or_else(cannot)?;
        let mut pipe = redis::pipe();
        pipe.cmd("RPUSH").arg(&self.key).arg(1);
        pipe.cmd("PEXPIRE").arg(&self.key).arg(LEFT_MS);
        let answers = open.connection.redis.send_packed_commands(&pipe, 0, pipe.len()).await?;
        if let Some(Value::Int(_)) = answers.first() {
            return Ok(());
        }
        // Memory may be full, or the user may have no such right.
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Err(cannot())
    }
}

/// A wait that is on a connection.
struct Waiting<'a> {
    link: &'a Link,
    waits: &'a Waits,
    open: Open,
    is_over: bool,
}

impl<'a> Waiting<'a> {
    /// None: another one is there.
    fn begin(link: &'a Link, waits: &'a Waits, open: &Open) -> Option<Self> {
        let begun = waits
            .state
            .compare_exchange(NONE, WAITS, Ordering::AcqRel, Ordering::Relaxed);
        begun.is_ok().then(|| Self {
            link,
            waits,
            open: open.clone(),
            is_over: false,
        })
    }

    fn ends(mut self) {
        self.is_over = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Whoever gave up waiting must not be given anything.
        if !self.is_over
            && let Ok(mut slot) = self.link.slot.try_lock()
            && slot.as_ref().is_some_and(|open| Arc::ptr_eq(&open.to, &self.open.to))
        {
            *slot = None;
        }
        self.waits.state.store(NONE, Ordering::Release);
    }
}

/// Whether an answer to `BLPOP` brings something of this list.
fn is_of(popped: &Value, key: &str) -> bool {
    let Value::Array(popped) = popped else { return false };
    matches!(popped.first(), Some(Value::BulkString(name)) if name == key.as_bytes())
}
