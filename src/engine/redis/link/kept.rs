//! What replicas have of what was written: `WAIT`, and marks by which another connection can ask for it.
//!
//! `WAIT` speaks of what its own connection wrote, and lets nothing pass on it meanwhile. So whoever has one call to make waits on
//! the connection of the call. Nodes, which go on meanwhile, leave a mark behind each call instead: how many there were, under a name that only
//! this connection has. Whoever finds the mark on a server knows that the call is there, too, whichever server that is: the same one, or
//! a replica that has become the primary.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Pipeline, RedisResult, Value};

use super::super::scripts::Script;
use super::super::stream::Connection;
use super::{Before, Link, Open};
use crate::engine::Ticket;
use crate::engine::redis::greeting;
use crate::engine::redis::reply::{Decode, unexpected};
use crate::error::{Absence, Error, Result};

/// How long what is only written for `WAIT` stays.
pub(in super::super) const WRITTEN_MS: u64 = 600_000;
/// Every so many calls say so.
const EXPIRES_EVERY: u64 = 1000;
/// The field of a mark.
const NUMBER: &str = "n";
/// What the first call under a mark adds. A number below it says that the mark was gone meanwhile: evicted, expired by a clock that was set, or
/// removed by someone. What was known of the mark says nothing of such a number.
const COUNTED_FROM: u64 = 1 << 40;
/// Of a mark that is gone, and of which replicas have everything: nobody gets another number of it.
const ALL: u64 = u64::MAX;

/// The same as `HINCRBY`, which full memory refuses: a script may write what it likes once it has begun with a write that is not refused.
const MARK_THOUGH_FULL: &str =
    "redis.call('HDEL', KEYS[1], '') return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])";

fn mark_though_full(key: &str, field: &str, by: u64) -> Cmd {
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(MARK_THOUGH_FULL).arg(1).arg(key).arg(field).arg(by);
    cmd
}

/// What is sent behind a call, in one go with it.
#[derive(Clone, Copy)]
pub(super) enum Behind<'a> {
    Nothing,
    /// Nothing either: the call only looks, so that a replica may answer it.
    Look,
    /// A write to this key, and a wait for the replicas. A call that is repeated may write nothing, and then servers would tell of
    /// something else.
    Wait(&'a str),
    /// The same for a key that is there.
    Touch(&'a str),
    Mark,
}

/// What came back.
pub(super) struct Sent {
    pub(super) answer: Value,
    /// The answer to what was behind it.
    pub(super) last: Value,
    pub(super) ticket: Option<Ticket>,
}

impl Sent {
    pub(super) fn plain(answer: Value) -> Self {
        Self {
            answer,
            last: Value::Nil,
            ticket: None,
        }
    }
}

/// Where the calls of one connection are counted.
pub(super) struct Mark {
    prefix: String,
    /// That of the server when the connection was made.
    history: Arc<str>,
    now: Mutex<Counted>,
}

/// The key of a mark, and how many calls were sent with it.
struct Counted {
    key: Arc<str>,
    sent: u64,
}

impl Mark {
    pub(super) fn under(prefix: &str, history: &str) -> Arc<Self> {
        let key = another(prefix);
        Arc::new(Self {
            prefix: prefix.into(),
            history: history.into(),
            now: Mutex::new(Counted { key, sent: 0 }),
        })
    }

    /// For one more call: the key, and how many were sent before.
    fn next(&self) -> (Arc<str>, u64) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.sent += 1;
        (now.key.clone(), now.sent - 1)
    }

    /// Other calls may have found as well that it was gone: one of them is followed.
    fn follow(&self, lost: &str, key: &Arc<str>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if *now.key == *lost {
            *now = Counted {
                key: key.clone(),
                sent: 1,
            };
        }
    }
}

/// A key that no other mark has.
fn another(prefix: &str) -> Arc<str> {
    format!("{prefix}:{:x}", random()).into()
}

fn is_counted_anew(number: u64) -> bool {
    number < COUNTED_FROM
}

/// Random bits of the system's: no other connection has them.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Link {
    /// The same, and calls may leave marks under this name.
    pub(in super::super) fn that_marks(self, prefix: &str) -> Self {
        let marks = (self.replicas > 0).then(|| prefix.to_string());
        Self { marks, ..self }
    }

    /// Adds it. The answer to the first of its commands is a ticket's number, if there is to be one.
    pub(super) fn behind(&self, behind: Behind<'_>, mark: Option<&Arc<Mark>>, pipe: &mut Pipeline) -> Option<Arc<str>> {
        match (behind, mark) {
            (Behind::Wait(written), _) => {
                pipe.cmd("HINCRBY").arg(written).arg("writes").arg(1);
                self.wait_behind(written, pipe);
            }
            (Behind::Touch(written), _) => self.wait_behind(written, pipe),
            (Behind::Mark, Some(mark)) => {
                let (key, before) = mark.next();
                let by = if before == 0 { COUNTED_FROM + 1 } else { 1 };
                // The server counts: two calls at once may reach it in either order.
                pipe.cmd("HINCRBY").arg(&*key).arg(NUMBER).arg(by);
                // Whoever asks renews this; but nobody may.
                if before % EXPIRES_EVERY == 0 {
                    pipe.cmd("PEXPIRE").arg(&*key).arg(WRITTEN_MS);
                }
                return Some(key);
            }
            _ => {}
        }
        None
    }

    /// Memory is full: it has refused the mark, and not the call before it.
    pub(super) async fn mark_though_full(&self, open: &mut Open, key: &str) -> RedisResult<Value> {
        let cmd = mark_though_full(key, NUMBER, 1);
        let Connection { redis, flow, .. } = &mut open.connection;
        let answer = redis.send_packed_command(&cmd);
        self.wait_for((open.changes, flow), self.answer_timeout, answer)
            .await?
            .extract_error()
    }

    /// What the call has left there.
    pub(super) async fn ticket(
        &self,
        open: &mut Open,
        mut key: Arc<str>,
        mut number: u64,
    ) -> RedisResult<Option<Ticket>> {
        let Some(mark) = open.mark.clone() else {
            return Ok(None);
        };
        if is_counted_anew(number) {
            (key, number) = self.mark_anew(open, &mark, &key).await?;
        }
        Ok(Some(Ticket {
            key,
            number,
            history: mark.history.clone(),
            at_leisure: false,
        }))
    }

    /// The mark was gone: the call leaves another one, on the same connection, and all that follow do.
    async fn mark_anew(&self, open: &mut Open, mark: &Mark, lost: &str) -> RedisResult<(Arc<str>, u64)> {
        let key = another(&mark.prefix);
        let mut pipe = redis::pipe();
        pipe.add_command(mark_though_full(&key, NUMBER, COUNTED_FROM + 1));
        // What calls have begun anew under the name of the lost one is to go as well.
        for mark in [&*key, lost] {
            pipe.cmd("PEXPIRE").arg(mark).arg(WRITTEN_MS);
        }
        let Connection { redis, flow, .. } = &mut open.connection;
        let answers = redis.send_packed_commands(&pipe, 0, pipe.len());
        let answers = self.wait_for((open.changes, flow), self.answer_timeout, answers);
        for answer in answers.await? {
            answer.extract_error()?;
        }
        mark.follow(lost, &key);
        Ok((key, COUNTED_FROM + 1))
    }

    /// Not in a transaction or a script, where it would not wait. `PEXPIRE` is a write, too.
    fn wait_behind(&self, written: &str, pipe: &mut Pipeline) {
        let at_most = u64::try_from(self.answer_timeout.as_millis() / 2).unwrap_or(u64::MAX);
        pipe.cmd("PEXPIRE").arg(written).arg(WRITTEN_MS);
        pipe.cmd("WAIT").arg(self.replicas).arg(at_most);
    }

    /// Runs a script, and returns when as many replicas have what it wrote as are wanted.
    pub(in super::super) async fn run_kept(
        &self,
        script: &Script,
        written: &str,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value> {
        self.run_until_kept(script, Behind::Wait(written), arguments).await
    }

    /// The same for a script that writes each time that it is run: nothing else has to be written, which full memory would refuse.
    pub(in super::super) async fn run_writing_kept(
        &self,
        script: &Script,
        written: &str,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value> {
        self.run_until_kept(script, Behind::Touch(written), arguments).await
    }

    async fn run_until_kept(&self, script: &Script, behind: Behind<'_>, arguments: impl Fn(&mut Cmd)) -> Result<Value> {
        if self.replicas == 0 {
            return self.run(script, arguments).await;
        }
        let sent = self.run_all(None, script, behind, arguments).await?;
        // If not, the caller makes the call again, as one that was not answered.
        self.enough(sent.last)?;
        Ok(sent.answer)
    }

    /// Runs a script. The ticket, if there is one, tells when replicas have what it wrote.
    pub(in super::super) async fn run_marked(
        &self,
        before: Option<Before<'_>>,
        script: &Script,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<(Value, Option<Ticket>)> {
        let behind = if self.marks.is_some() {
            Behind::Mark
        } else {
            Behind::Nothing
        };
        let sent = self.run_all(before, script, behind, arguments).await?;
        Ok((sent.answer, sent.ticket))
    }

    /// The highest number that this server has under the mark of a ticket, once enough replicas have it, too.
    pub(in super::super) async fn wait_at(&self, ticket: &Ticket) -> Result<u64> {
        let mut find = redis::cmd("HGET");
        find.arg(&*ticket.key).arg(NUMBER);
        // In this order: what is found was written before the write that `WAIT` speaks of.
        let sent = self.send_and_wait(&find, &ticket.key).await?;
        let number: Option<u64> = Option::decode(sent.answer)?;
        let Some(number) = number.filter(|number| !is_counted_anew(*number)) else {
            return self.wait_without_mark(ticket).await;
        };
        self.enough(sent.last)?;
        Ok(number)
    }

    /// The mark is gone. If this server has been the primary ever since the call was made, it has the call, and replicas that have a write of
    /// now have it, too.
    async fn wait_without_mark(&self, ticket: &Ticket) -> Result<u64> {
        if ticket.history.is_empty() {
            return Ok(0);
        }
        let sent = self
            .send_and_wait(&mark_though_full(&ticket.key, "writes", 1), &ticket.key)
            .await?;
        // Asked behind the write: what is the same before and after it was so in between.
        let told = self.query(redis::cmd("INFO").arg("replication")).await?;
        if greeting::history(Some(told)) != *ticket.history {
            return Ok(0);
        }
        self.enough(sent.last)?;
        Ok(ALL)
    }

    async fn send_and_wait(&self, cmd: &Cmd, written: &str) -> Result<Sent> {
        let mut tries = self.tries();
        loop {
            let mut open = self.connection().await?;
            let sent = self.send(&mut open, None, cmd, Behind::Touch(written)).await;
            if let Some(sent) = self.answer(&open, sent, &mut tries).await? {
                return Ok(sent);
            }
        }
    }

    /// Closes its connection; the next call makes another one.
    pub(in super::super) async fn close(&self) {
        *self.slot.lock().await = None;
    }

    /// Returns when the queue is elsewhere than where its connection leads.
    pub(in super::super) async fn left_behind(&self) {
        let changes = self.slot.lock().await.as_ref().map(|open| open.changes);
        match changes {
            Some(changes) => self.locator.changed_since(changes).await,
            None => std::future::pending().await,
        }
    }

    fn enough(&self, answer: Value) -> Result<()> {
        match answer {
            Value::Int(have) if have >= i64::from(self.replicas) => Ok(()),
            Value::Int(have) => Err(Error::Away {
                store: format!("Redis at {}", self.address),
                absence: Absence::Unable,
                reason: format!(
                    "{have} of {} replicas have what was written; it waits for the others",
                    self.replicas
                ),
            }),
            other => Err(unexpected(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_a_mark_that_was_gone_is_known_from_all_others() {
        let mark = Mark::under("m", "h");
        let ((key, first), (_, second)) = (mark.next(), mark.next());
        assert_eq!((first, second), (0, 1));
        // The server counts from 0 again.
        assert!((1..1_000_000).all(is_counted_anew) && !is_counted_anew(COUNTED_FROM + 1));
        let (one, other) = (another("m"), another("m"));
        mark.follow(&key, &one);
        mark.follow(&key, &other);
        assert_eq!(mark.next(), (one, 1), "it has been counted on, and all follow one");
    }
}
