//! `doctor`: checks the store's configuration. One line per check, with the fix where something is wrong.

mod kept;
mod redis;
mod rights;
mod sqlite;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::{FAILED, Failure, LOOK_MAX, NO_REDIS};
use crate::app::args::Doctor;
use crate::app::args::sources::{Resolved, Store};
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::app::output::json;
use crate::app::output::screen::counted;
use crate::app::output::status::differing;
use crate::app::output::time::age;
use crate::app::run::{print, runtime};
use crate::engine::{Engine, LAYOUT, NodeStatus, Status};
use crate::error::{Absence, Error};
use crate::node::event::escape;
use crate::settings::Names;

/// How often the round trip is measured.
const ROUND_TRIPS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Ok,
    /// It works now, but may fail later.
    Warning,
    Wrong,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// One line.
struct Finding {
    /// Of which shard, if the queue has several.
    shard: Option<usize>,
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do.
    fix: String,
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
    /// The shard that is looked at.
    shard: Option<usize>,
    /// The store did not answer.
    away: bool,
}

impl Findings {
    fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Verdict::Ok, found, "");
    }

    fn warn(&mut self, check: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.add(check, Verdict::Warning, found, fix);
    }

    fn wrong(&mut self, check: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.add(check, Verdict::Wrong, found, fix);
    }

    fn add(&mut self, check: &'static str, verdict: Verdict, found: impl Into<String>, fix: impl Into<String>) {
        self.all.push(Finding {
            shard: self.shard,
            check,
            verdict,
            found: found.into(),
            fix: fix.into(),
        });
    }

    /// An error of the store, with its own fix.
    fn error(&mut self, check: &'static str, error: &Error) {
        match error {
            Error::Away { store, absence, reason } => {
                self.away |= *absence != Absence::Elsewhere;
                // A server that answers has said what to do.
                let fix = match absence {
                    Absence::Silent => "start it there, or give another address with --url or --host",
                    _ => "",
                };
                self.wrong(check, format!("{store}: {reason}"), fix);
            }
            Error::Refused { reason, fix, .. } => self.wrong(check, reason, *fix),
            other => self.wrong(check, other.to_string(), ""),
        }
    }

    /// The round trip, from many calls.
    fn latency(&mut self, mut times: Vec<Duration>, lease: Duration) {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        let found = format!("p50 {}, p99 {} over {} calls", ms(at(50)), ms(at(99)), times.len());
        if at(99) > lease / 8 {
            let fix = format!("give nodes a longer --lease (now {lease:?}), or come nearer");
            self.warn("latency", found, fix);
        } else {
            self.ok("latency", found);
        }
    }

    /// True: this program can use a queue with this layout and these key names.
    fn layout(&mut self, layout: u64, names: &str, own: &str) -> bool {
        if layout > LAYOUT {
            self.wrong(
                "layout",
                format!("written by a newer queenright: layout {layout}, this one knows {LAYOUT}"),
                "upgrade this program",
            );
        } else if names != own {
            self.wrong(
                "layout",
                format!("the queue has other key names: {names}, here {own}"),
                "give the same [keys], or another --queue",
            );
        } else {
            self.ok("layout", format!("layout {layout}, as this program writes it"));
            return true;
        }
        false
    }

    /// The live nodes: their versions, and whether one generates. And those that were not heard of for longer than their leases.
    fn nodes(&mut self, nodes: &[NodeStatus], has_generator: bool) {
        let (nodes, silent): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| node.is_alive());
        let mut versions: Vec<&str> = nodes.iter().map(|node| node.version.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        if nodes.is_empty() && !silent.is_empty() {
            let since = silent.iter().map(|node| node.silent_ms).min().unwrap_or(0);
            let found = format!("none alive, {} silent for {} or longer", silent.len(), age(since));
            self.warn("nodes", found, "start one: it hands on what they held");
        } else if versions.len() > 1 {
            let found = format!(
                "{} of versions {}",
                counted(nodes.len() as u64, "node"),
                versions.join(", ")
            );
            self.warn("nodes", found, "finish the upgrade");
        } else if !nodes.is_empty() && !has_generator {
            let found = format!("{}, and nobody generates", counted(nodes.len() as u64, "node"));
            self.warn(
                "nodes",
                found,
                "fine if all are workers or have --prefer never; otherwise look at their logs",
            );
        } else {
            self.ok("nodes", format!("{} alive", counted(nodes.len() as u64, "node")));
        }
    }

    /// What someone else has written into the queue, and what is counted but not there.
    fn contents(&mut self, status: &Status, place: &str) {
        if status.damaged > 0 {
            self.warn(
                "damaged",
                format!(
                    "{} pieces could not be read and were set aside in {place}",
                    status.damaged
                ),
                "find out who else writes there, and give every program a user of its own",
            );
        }
        if status.missing > 0 {
            self.warn(
                "missing",
                format!("{} messages are counted and are nowhere any more", status.missing),
                "they were in what could not be read, or someone removed them; push them again",
            );
        }
        if status.damaged == 0 && status.missing == 0 {
            self.ok("contents", "everything can be read");
        }
    }

    fn as_text(&self) -> String {
        let mut out = String::new();
        let mut shards: Vec<usize> = self.all.iter().filter_map(|finding| finding.shard).collect();
        shards.dedup();
        for shard in shards {
            let of_shard = || self.all.iter().filter(|finding| finding.shard == Some(shard));
            let is_fine = |finding: &&Finding| finding.verdict == Verdict::Ok;
            let first = of_shard()
                .find(is_fine)
                .map_or("what is wrong is below", |finding| &finding.found);
            let (fine, all) = (of_shard().filter(is_fine).count(), of_shard().count());
            let verdict = of_shard().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "{:<8} {:<12} {fine} of {all} checks are fine; {}",
                verdict.word(),
                format!("shard {shard}"),
                escape(first.as_bytes())
            );
        }
        // Of several shards, only what is not as it should be.
        for finding in self
            .all
            .iter()
            .filter(|it| it.shard.is_none() || it.verdict != Verdict::Ok)
        {
            let of = finding.shard.map_or(String::new(), |shard| format!("shard {shard}: "));
            let _ = write!(
                out,
                "{:<8} {:<12} {of}{}",
                finding.verdict.word(),
                finding.check,
                escape(finding.found.as_bytes())
            );
            if finding.fix.is_empty() {
                out.push('\n');
            } else {
                let _ = writeln!(out, "\n{:22}→ {}", "", escape(finding.fix.as_bytes()));
            }
        }
        out
    }

    fn verdict(&self) -> Verdict {
        let verdicts = self.all.iter().map(|finding| finding.verdict);
        verdicts.max().unwrap_or(Verdict::Ok)
    }

    fn as_json(&self) -> String {
        let mut out = String::from("{");
        json::text(&mut out, "verdict", self.verdict().word());
        out.push_str(",\"checks\":[");
        for (i, finding) in self.all.iter().enumerate() {
            out.push_str(if i == 0 { "{" } else { ",{" });
            json::text(&mut out, "check", finding.check);
            if let Some(shard) = finding.shard {
                json::number(&mut out, "shard", shard as u64);
            }
            json::text(&mut out, "verdict", finding.verdict.word());
            json::text(&mut out, "found", &finding.found);
            if !finding.fix.is_empty() {
                json::text(&mut out, "fix", &finding.fix);
            }
            out.push('}');
        }
        out.push_str("]}\n");
        out
    }
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// How many shards the queue has, as far as it can be asked; and what is not in each of them as in the home shard.
struct NamesNow;

impl OnEngine for NamesNow {
    type Output = (Option<Names>, Vec<(String, &'static str)>);

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Self::Output, Failure> {
        // Whatever else it is, what is examined tells.
        if let Err(error @ Error::Setting { .. }) = engine.published().await {
            return Err(error.into());
        }
        let has_shards = E::shards(&engine).len() > 1;
        let status = if has_shards { engine.status().await.ok() } else { None };
        let differing = status.as_ref().map(differing).unwrap_or_default();
        Ok((E::names(&engine), differing))
    }
}

pub(super) fn run(resolved: &Resolved, flags: Doctor) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let mut findings = Findings::default();
    let queue = QueueAt::of(resolved, LOOK_MAX).looking(true);
    let (names, differing) = queue.run(NamesNow)?;
    let whole = names.unwrap_or_else(|| resolved.settings.names.clone());
    let shards = whole.shards_in_all();
    for shard in 0..shards {
        findings.shard = (shards > 1).then_some(shard);
        let (store, address) = queue.at(shard);
        let names = whole.in_shard(shard);
        match store {
            Store::Redis(place) => {
                let engine = queue.redis_at(place, address, &names)?;
                let user = place.info.redis_settings().username().unwrap_or("default");
                let examined = redis::examine(&engine, resolved, (address, user), &mut findings);
                runtime.block_on(examined);
            }
            Store::Sqlite(database) => {
                runtime.block_on(sqlite::examine(database, (resolved, &names), &mut findings));
            }
        }
    }
    findings.shard = None;
    for (found, fix) in differing {
        findings.warn("differs", found, fix);
    }
    print(&if flags.json {
        findings.as_json()
    } else {
        findings.as_text()
    })?;
    Ok(match findings.verdict() {
        Verdict::Wrong if findings.away => ExitCode::from(NO_REDIS),
        Verdict::Wrong => ExitCode::from(FAILED),
        Verdict::Ok | Verdict::Warning => ExitCode::SUCCESS,
    })
}
