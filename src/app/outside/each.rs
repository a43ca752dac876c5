//! `--handle-each COMMAND`: a process for each message, with the payload on stdin.
//!
//! Exit code 0 is done, 75 (`EX_TEMPFAIL`) asks for another try later, everything else is a failure.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::Tell;
use super::group::{Group, ended};
use super::stderr::{self, Last};
use crate::app::args::program::Program;
use crate::message::{CANCELLED, Headers, Message};
use crate::node::handle::{Failure, Handle, Handled};

const RETRY_LATER: i32 = 75;

/// Starts a process for each message.
pub struct Each {
    pub program: Program,
    pub queue: String,
    pub timeout: Option<Duration>,
    pub tell: Tell,
}

/// Variables: all headers as one object of JSON, and a trace context under the names that other programs look for. What is none is
/// removed: one that this copy was started with is not the message's.
fn told(headers: &Headers) -> [(&'static str, Option<String>); 3] {
    let all: BTreeMap<&str, &str> = headers.iter().collect();
    let json = serde_json::to_string(&all).ok().filter(|_| !all.is_empty());
    let of = |name: &str| headers.get(name).map(str::to_string);
    [
        ("QUEENRIGHT_HEADERS", json),
        ("TRACEPARENT", of("traceparent")),
        ("TRACESTATE", of("tracestate")),
    ]
}

impl Handle for Each {
    async fn handle(&self, message: Message) -> Handled {
        let mut command = self.program.command();
        command
            .env("QUEENRIGHT_QUEUE", &self.queue)
            .env("QUEENRIGHT_NUMBER", message.number.to_string())
            .env("QUEENRIGHT_DELIVERIES", message.deliveries.to_string())
            .env("QUEENRIGHT_FAILURES", message.failures.to_string())
            .env("QUEENRIGHT_EPOCH", message.epoch.to_string());
        match message.group() {
            Some(group) => command.env("QUEENRIGHT_GROUP", group),
            // One that this copy was started with is not the message's.
            None => command.env_remove("QUEENRIGHT_GROUP"),
        };
        for (name, value) in told(message.headers()) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut group = Group::start(&mut command, &self.tell.secrets).map_err(|error| {
            let text = format!("cannot start {}: {error}", self.program);
            self.tell.say("child", &text);
            Failure::retry(text)
        })?;
        let last = Last::default();
        let (mut stdin, errors) = (group.stdin(), group.stderr());
        let talking = async {
            let feeding = async {
                // A handler need not read its payload.
                let _ = stdin.write_all(&message.payload).await;
                drop(stdin);
            };
            tokio::join!(feeding, stderr::listen(errors, last.clone(), self.tell.clone()));
        };
        let (cancellation, asked) = (message.cancellation(), AtomicBool::new(false));
        let cancelled = async {
            cancellation.cancelled().await;
            asked.store(true, Ordering::Relaxed);
        };
        let status = group.talk(&self.program, self.timeout, talking, cancelled).await?;
        // Many programs end with exit code 0 when they are asked to, whether their work is done or not.
        if asked.load(Ordering::Relaxed) {
            return Err(CANCELLED.into());
        }
        if status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return Ok(Vec::new());
        }
        let text = last.after(format!("{} {}", self.program, ended(&status)), ": ");
        match status.ok().and_then(|status| status.code()) {
            Some(RETRY_LATER) => Err(Failure::retry(text)),
            _ => Err(text.into()),
        }
    }
}
