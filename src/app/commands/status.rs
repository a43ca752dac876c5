//! `status`: one look at everything.

mod watch;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::{FAILED, Failure};
use crate::app::args::Status as Flags;
use crate::app::args::sources::Resolved;
use crate::app::output::json;
use crate::engine::{Engine, NodeStatus, Paused, Status};
use crate::error::Error;
use crate::node::event::escape;

/// Between the two looks that a rate is told from.
const RATE_OVER: Duration = Duration::from_millis(250);
const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, flags: &Flags) -> Result<(), Failure> {
    engine.check().await?;
    let mut before = engine.status().await?;
    if flags.watch && !flags.json && io::stdin().is_terminal() && io::stdout().is_terminal() {
        return watch::run(engine, resolved, before).await;
    }
    let mut pause = RATE_OVER;
    loop {
        let text = if flags.json && !flags.watch {
            as_json(&before)
        } else {
            tokio::time::sleep(pause).await;
            let now = if flags.watch {
                patiently(&*engine).await?
            } else {
                engine.status().await?
            };
            let settled = now.settled().saturating_sub(before.settled());
            let rate = u128::from(settled) * 1000 / pause.as_millis().max(1);
            before = now;
            if flags.json {
                as_json(&before)
            } else {
                as_text(&before, &resolved.settings.queue, rate)
            }
        };
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        drop(out);
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                return Err(Failure {
                    line: format!("cannot write the output: {error}"),
                    code: FAILED,
                });
            }
            Ok(()) if !flags.watch => return Ok(()),
            Ok(()) => pause = WATCH_EVERY,
        }
    }
}

/// Whether whoever watches waits for this to pass: a store that is away, or a queue that was removed.
fn passes(error: &Error) -> bool {
    error.is_away() || matches!(error, Error::NoQueue { .. })
}

/// A look, as soon as there is one: says once why there is none.
async fn patiently<E: Engine>(engine: &E) -> Result<Status, Failure> {
    let mut said = false;
    loop {
        match engine.status().await {
            Err(error) if passes(&error) => {
                if !said {
                    said = true;
                    let _ = writeln!(
                        io::stderr(),
                        "queenright: {}; waiting for it",
                        escape(error.to_string().as_bytes())
                    );
                }
                tokio::time::sleep(WATCH_EVERY).await;
            }
            looked => return Ok(looked?),
        }
    }
}

impl Status {
    fn settled(&self) -> u64 {
        self.done + self.failed
    }

    fn role(&self, node: &NodeStatus) -> &'static str {
        if self.generator.as_ref() == Some(&node.node) {
            "generator"
        } else {
            "handler"
        }
    }
}

fn paused(paused: Paused) -> &'static str {
    match (paused.generator, paused.handlers) {
        (true, true) => "generator and handlers",
        (true, false) => "generator",
        (false, true) => "handlers",
        (false, false) => "",
    }
}

fn as_text(status: &Status, queue: &str, rate: u128) -> String {
    let mut out = String::new();
    let generator = escape(status.generator.as_deref().unwrap_or("none").as_bytes());
    // Writing to a String cannot fail.
    let _ = writeln!(out, "queue      {}", escape(queue.as_bytes()));
    let _ = writeln!(out, "generator  {generator}  epoch {}", status.epoch);
    let _ = writeln!(
        out,
        "published  {}  queued {}  in hand {}  later {}",
        status.published, status.queued, status.in_hand, status.later
    );
    let _ = writeln!(
        out,
        "done       {}  failed {}  errors waiting {}  rate {rate}/s",
        status.done, status.failed, status.errors
    );
    if status.requeued > 0 {
        let _ = writeln!(
            out,
            "requeued   {}  (errors that were given another life)",
            status.requeued
        );
    }
    if status.trimmed > 0 {
        let _ = writeln!(
            out,
            "trimmed    {}  (errors beyond --max-errors, removed)",
            status.trimmed
        );
    }
    if status.rewinds > 0 {
        let _ = writeln!(
            out,
            "rewinds    {}  (the store lost acknowledged writes)",
            status.rewinds
        );
    }
    let paused = paused(status.paused);
    if !paused.is_empty() {
        let _ = writeln!(out, "paused     {paused}  (queenright resume)");
    }
    out.push('\n');
    out + &status.nodes_as_text()
}

impl Status {
    pub(super) fn nodes_as_text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<12} {:<10} {:<20} {:>8} {:>9} {:>8} {:>12} {:>9}",
            "NODE", "ROLE", "HOST", "PID", "AGE", "IN HAND", "DONE", "FAILED"
        );
        for node in &self.nodes {
            let host: String = escape(node.host.as_bytes()).chars().take(20).collect();
            let _ = writeln!(
                out,
                "{:<12} {:<10} {host:<20} {:>8} {:>9} {:>8} {:>12} {:>9}",
                escape(node.node.as_bytes()),
                self.role(node),
                node.pid,
                age(node.age_ms),
                node.in_hand,
                node.done,
                node.failed
            );
        }
        out
    }

    pub(super) fn nodes_as_json(&self) -> String {
        let mut out = String::from("[");
        for (i, node) in self.nodes.iter().enumerate() {
            out.push_str(if i == 0 { "{" } else { ",{" });
            json::text(&mut out, "node", &node.node);
            json::text(&mut out, "role", self.role(node));
            json::text(&mut out, "host", &node.host);
            json::number(&mut out, "pid", node.pid.into());
            json::text(&mut out, "version", &node.version);
            json::number(&mut out, "concurrency", node.concurrency.into());
            json::number(&mut out, "age_ms", node.age_ms);
            json::number(&mut out, "in_hand", node.in_hand);
            json::number(&mut out, "done", node.done);
            json::number(&mut out, "failed", node.failed);
            out.push('}');
        }
        out.push(']');
        out
    }
}

fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{}.{}s", seconds, ms % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

fn as_json(status: &Status) -> String {
    let mut out = String::from("{");
    match &status.generator {
        Some(generator) => json::text(&mut out, "generator", generator),
        None => out.push_str("\"generator\":null"),
    }
    for (key, value) in [
        ("epoch", status.epoch),
        ("published", status.published),
        ("queued", status.queued),
        ("in_hand", status.in_hand),
        ("later", status.later),
        ("done", status.done),
        ("failed", status.failed),
        ("errors", status.errors),
        ("requeued", status.requeued),
        ("trimmed", status.trimmed),
        ("rewinds", status.rewinds),
    ] {
        json::number(&mut out, key, value);
    }
    let _ = write!(
        out,
        ",\"paused\":{{\"generator\":{},\"handlers\":{}}},\"nodes\":{}",
        status.paused.generator,
        status.paused.handlers,
        status.nodes_as_json()
    );
    out.push_str("}\n");
    out
}
