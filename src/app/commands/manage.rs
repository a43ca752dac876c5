//! `pause`, `resume`, `limit`, `handover`, `nodes`, `drain` and `purge`: looking after a fleet and its queue.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::check_queue;
use crate::app::args::sources::Resolved;
use crate::app::args::value::RateOrNone;
use crate::app::args::{Drain, Handover as HandoverFlags, Limit, Nodes, Part, Purge, Which};
use crate::app::exit::Failure;
use crate::app::output::json;
use crate::app::output::screen::counted;
use crate::app::output::status::{self, differing};
use crate::app::output::time::age;
use crate::app::output::view::{LimitView, PausedView, members};
use crate::app::run::print;
use crate::engine::{
    Engine, Handover, Limits, NodeStatus, PAUSED_GROUPS_MAX, PausedGroup, Purged, ShardStatus, Status,
};
use crate::message::wrong_group;
use crate::node::event::escape;
use crate::node::id::new_id;

/// Between two looks at the queue.
const LOOK: Duration = Duration::from_millis(50);
/// Whoever waits looks for at most this part of the time, however long a look takes.
const LOOK_SHARE: u32 = 20;

/// Waits between two looks, of which the last took so long.
pub(super) async fn rest(took: Duration) {
    tokio::time::sleep(LOOK.max(took * LOOK_SHARE)).await;
}

/// What keeps messages from being handled, each told once.
#[derive(Default)]
pub(super) struct Hindrances(BTreeSet<String>);

impl Hindrances {
    /// `nothing` is what does not happen because of them.
    pub(super) fn tell(&mut self, status: &Status, nothing: &str) {
        for line in hindrances(status, nothing) {
            if !self.0.contains(&line) {
                eprintln!("queenright: {line}");
                self.0.insert(line);
            }
        }
    }
}

fn hindrances(status: &Status, nothing: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if status.paused.handlers {
        lines.push(format!(
            "handlers are paused, so {nothing} before queenright resume handlers"
        ));
    }
    if !status.nodes.iter().any(NodeStatus::is_alive) {
        lines.push(format!(
            "no node is alive, so {nothing} before one starts: queenright start"
        ));
    }
    lines.extend(
        differing(status)
            .into_iter()
            .map(|(found, fix)| format!("{found}: {fix}")),
    );
    lines
}

/// Says which shards that only run empty were left out of what was done in all, since they do not answer.
async fn tell_left_out<E: Engine>(engine: &Arc<E>) {
    if E::shards(engine).len() < 2 {
        return;
    }
    let shards = engine.status().await.map(|status| status.shards).unwrap_or_default();
    let is_away = |shard: &ShardStatus| shard.retired && shard.away.is_some();
    for (number, _) in shards.iter().enumerate().filter(|(_, shard)| is_away(shard)) {
        eprintln!("queenright: shard {number} does not answer, and was left out: if it comes back, repeat the command");
    }
}

/// Pauses, or resumes.
pub(super) async fn pause<E: Engine>(engine: Arc<E>, which: &Which, pause: bool) -> Result<(), Failure> {
    check_queue(&engine).await?;
    if let Some(group) = &which.group {
        return pause_group(&*engine, group, pause, which.json).await;
    }
    let of = |part: Part| (which.part.is_none() || which.part == Some(part)).then_some(pause);
    let paused = engine.pause(of(Part::Generator), of(Part::Handlers)).await?;
    tell_left_out(&engine).await;
    if which.json {
        let paused = json::for_terminal(&PausedView::from(paused));
        return print(&format!("{{\"paused\":{paused}}}\n"));
    }
    print(match (paused.generator, paused.handlers) {
        (true, true) => "generator and handlers are paused\n",
        (true, false) => "the generator is paused, handlers work\n",
        (false, true) => "handlers are paused, the generator works\n",
        (false, false) => "nothing is paused\n",
    })
}

async fn pause_group<E: Engine>(engine: &E, group: &str, pause: bool, as_json: bool) -> Result<(), Failure> {
    if let Some(why) = wrong_group(group) {
        return Err(Failure::usage(format!("--group {why}")));
    }
    let PausedGroup::Ok { waiting } = engine.pause_group(group, pause).await? else {
        return Err(Failure::failed(format!(
            "{PAUSED_GROUPS_MAX} groups are paused, and no more can be: resume some, or pause the handlers"
        )));
    };
    if as_json {
        let shown = serde_json::json!({ "group": group, "paused": pause, "waiting": waiting });
        return print(&(json::for_terminal(&shown) + "\n"));
    }
    let how = if pause { "is paused" } else { "goes on" };
    let waiting = counted(waiting, "message");
    print(&format!(
        "group {} {how}, {waiting} in its line\n",
        escape(group.as_bytes())
    ))
}

/// Shows the limit, or sets another.
pub(super) async fn limit<E: Engine>(engine: Arc<E>, flags: &Limit) -> Result<(), Failure> {
    check_queue(&engine).await?;
    if let Some(RateOrNone(rate)) = flags.rate {
        let limits = Limits {
            rate,
            burst: flags.burst.unwrap_or(0),
            group: flags.group.and_then(|RateOrNone(group)| group),
        };
        limits.check().map_err(Failure::usage)?;
        engine.limit(&limits).await?;
        tell_left_out(&engine).await;
    }
    let limits = engine.status().await?.limits;
    if flags.json {
        return print(&(json::for_terminal(&LimitView::from(limits)) + "\n"));
    }
    print(&match limits {
        Limits::NONE => "nothing is limited\n".into(),
        limits => format!("limit {limits}\n"),
    })
}

pub(super) async fn handover<E: Engine>(engine: Arc<E>, flags: &HandoverFlags) -> Result<(), Failure> {
    if flags.node.as_deref() == Some("") {
        return Err(Failure::usage(
            "name a node, as queenright nodes does; or none, for any other",
        ));
    }
    engine.check().await?;
    let before = engine.status().await?;
    let asked = engine.handover(flags.node.as_deref()).await?;
    let node = flags.node.as_deref().unwrap_or_default();
    match asked {
        Handover::Unknown => {
            return Err(Failure::failed(format!(
                "there is no node {node:?}; see queenright nodes"
            )));
        }
        Handover::Reigns => return print(&format!("{node} generates already\n")),
        Handover::Asked => {}
    }
    let give_up = Instant::now() + flags.timeout;
    loop {
        let looks = Instant::now();
        let status = engine.status().await?;
        let took = looks.elapsed();
        if status.epoch > before.epoch
            && let Some(generator) = &status.generator
            && (node.is_empty() || generator == node)
        {
            return print(&format!(
                "{} generates now, epoch {}\n",
                escape(generator.as_bytes()),
                status.epoch
            ));
        }
        if Instant::now() >= give_up {
            engine.handover(Some("")).await?;
            let (who, it) = match node {
                "" => ("no other node".to_string(), "is there one"),
                node => (node.to_string(), "is it one"),
            };
            return Err(Failure::failed(format!(
                "{who} did not become the generator within {:?}: {it} that may generate (--prefer), and alive?",
                flags.timeout
            )));
        }
        rest(took).await;
    }
}

pub(super) async fn nodes<E: Engine>(engine: Arc<E>, flags: &Nodes) -> Result<(), Failure> {
    engine.check().await?;
    let status = engine.status().await?;
    print(&if flags.json {
        json::for_terminal(&members(&status)) + "\n"
    } else {
        status::nodes(&status)
    })
}

/// Waits until nothing is left to be done.
pub(super) async fn drain<E: Engine>(engine: Arc<E>, flags: &Drain) -> Result<(), Failure> {
    engine.check().await?;
    let give_up = flags.timeout.map(|timeout| Instant::now() + timeout);
    let (mut hindrances, mut told_away) = (Hindrances::default(), false);
    loop {
        let looks = Instant::now();
        let status = engine.status().await?;
        let took = looks.elapsed();
        // What is in a shard that does not answer nobody can tell.
        let away = status.shards.iter().position(|shard| shard.away.is_some());
        if left(&status) == 0 && away.is_none() {
            return Ok(());
        }
        if let Some(shard) = away.filter(|_| !told_away) {
            eprintln!(
                "queenright: shard {shard} does not answer, so the queue is not known to be drained before it does"
            );
            told_away = true;
        }
        hindrances.tell(&status, "nothing is drained");
        if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            let mut line = String::from("the queue is not empty yet:");
            if let Some(shard) = away {
                let _ = write!(line, " shard {shard} does not answer;");
            }
            for (count, what) in [
                (status.queued, "queued"),
                (status.in_hand, "in hand"),
                (status.later, "put off"),
            ] {
                if count > 0 {
                    // Writing to a String cannot fail.
                    let _ = write!(line, " {count} {what}");
                }
            }
            return Err(Failure::failed(line));
        }
        rest(took).await;
    }
}

fn left(status: &Status) -> u64 {
    status.queued + status.in_hand + status.later
}

pub(super) async fn purge<E: Engine>(engine: Arc<E>, resolved: &Resolved, flags: &Purge) -> Result<(), Failure> {
    engine.check().await?;
    let queue = &resolved.settings.queue;
    let status = engine.status().await?;
    if !flags.yes {
        if !io::stdin().is_terminal() {
            return Err(Failure::usage("this removes a queue for good: confirm with --yes"));
        }
        let mut ask = io::stderr().lock();
        let _ = write!(
            ask,
            "Remove the queue {:?} with {} and {}, for good? Type its name: ",
            queue,
            counted(left(&status), "message"),
            counted(status.errors, "error")
        );
        let _ = ask.flush();
        let mut answer = String::new();
        let _ = io::stdin().lock().read_line(&mut answer);
        if answer.trim() != queue {
            return Err(Failure::failed(
                "nothing was removed: that is not the name of the queue",
            ));
        }
    }
    match purge_dead(&*engine, flags.force).await? {
        Purged::Gone => print(&format!("removed {}\n", escape(queue.as_bytes()))),
        Purged::Alive(1) => Err(Failure::failed(
            "a node works on this queue: stop it first, or use --force",
        )),
        Purged::Alive(count) => Err(Failure::failed(format!(
            "{count} nodes work on this queue: stop them first, or use --force"
        ))),
    }
}

/// Removes a queue, also one whose nodes have all died: their leases run on the hive clock, which stands still while nobody
/// beats. So this moves it as readers of errors do, a step a call and never faster than time passes: whoever lives beats in
/// between and is found alive, whatever a clock was set to.
async fn purge_dead<E: Engine>(engine: &E, force: bool) -> Result<Purged, Failure> {
    let left = |status: &Status| status.nodes.iter().map(|node| node.lease_in_ms).max().unwrap_or(0);
    let mut before = None;
    let nobody = new_id();
    loop {
        let status = engine.status().await?;
        let silent = before.is_some() || !status.nodes.iter().any(NodeStatus::is_alive);
        // One that beats has more of its lease left than before.
        let beats = before.is_some_and(|before| left(&status) > before);
        match engine.purge(force).await? {
            Purged::Alive(_) if silent && !beats => {
                engine.hold(&nobody, 0).await?;
                let left = left(&engine.status().await?);
                if before.is_none() {
                    eprintln!(
                        "queenright: all nodes are silent; their leases have run out in {}, or use --force",
                        age(left)
                    );
                }
                before = Some(left);
                tokio::time::sleep(LOOK).await;
            }
            purged => return Ok(purged),
        }
    }
}
