//! `reshard`: another number of shards, while the queue is in use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::check_queue;
use super::manage::{Hindrances, rest};
use crate::app::args::Reshard;
use crate::app::exit::Failure;
use crate::app::output::json;
use crate::app::output::screen::counted;
use crate::app::run::print;
use crate::engine::{Engine, NodeStatus, Resharded, ShardStatus, Status};

/// How often it is said what is waited for.
const SAY: Duration = Duration::from_secs(10);

/// A copy that is seen nowhere for so long does not come back: one that follows joins again at once.
const GONE: Duration = Duration::from_secs(5);

pub(super) async fn run<E: Engine>(engine: Arc<E>, flags: &Reshard) -> Result<(), Failure> {
    check_queue(&engine).await?;
    let mut copies = Copies::default();
    let before = engine.status().await?;
    let told = engine.reshard_to(flags.to).await?;
    if told.before != told.now {
        copies.are_behind(before.nodes.iter().filter(|node| node.is_alive()), Instant::now());
    }
    wait(&*engine, copies, flags).await?;
    if flags.json {
        let shown = serde_json::json!({ "shards": told.now, "before": told.before, "in_all": told.in_all });
        return print(&(json::for_terminal(&shown) + "\n"));
    }
    print(&in_words(told))
}

fn in_words(told: Resharded) -> String {
    let Resharded { before, now, in_all } = told;
    let shards = counted(now as u64, "shard");
    let changed = if before == now {
        format!("{shards} already")
    } else {
        format!("{shards}, {before} before")
    };
    let retired = match in_all - now {
        0 => String::new(),
        1 => format!("; shard {now} gets no new messages, and is empty"),
        _ => format!("; shards {now} to {} get no new messages, and are empty", in_all - 1),
    };
    format!("{changed}{retired}\n")
}

/// Copies that have been seen with the number of shards of before, and when. One that follows leaves, and joins again under another id: by its process it is known.
#[derive(Default)]
struct Copies(BTreeMap<(String, u32), Instant>);

impl Copies {
    fn are_behind<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeStatus>, now: Instant) {
        self.0.extend(nodes.map(|node| (process(node), now)));
    }

    /// How many have not followed yet. One that is not seen at all any more has ended.
    fn behind(&mut self, nodes: &[NodeStatus], now: Instant) -> usize {
        let alive = || nodes.iter().filter(|node| node.is_alive());
        for node in alive().filter(|node| !node.behind) {
            self.0.remove(&process(node));
        }
        // Afterwards: in containers that share the network of their host, copies may look like one process, and one of them has not followed.
        self.are_behind(alive().filter(|node| node.behind), now);
        self.0.retain(|_, seen| now < *seen + GONE);
        self.0.len()
    }
}

fn process(node: &NodeStatus) -> (String, u32) {
    (node.host.clone(), node.pid)
}

/// Until all copies work on the new shards, and those that get no new messages are empty.
async fn wait<E: Engine>(engine: &E, mut copies: Copies, flags: &Reshard) -> Result<(), Failure> {
    let give_up = flags.timeout.map(|timeout| Instant::now() + timeout);
    let (mut say, mut hindrances) = (Instant::now() + SAY, Hindrances::default());
    loop {
        let looks = Instant::now();
        let status = engine.status().await?;
        let Some(why) = left(&status, &mut copies) else {
            return Ok(());
        };
        let now = Instant::now();
        let is_over = give_up.is_some_and(|give_up| now >= give_up);
        // Not at once: copies that follow leave, and join again.
        if (is_over || now >= say) && waiting(&status).is_some() {
            hindrances.tell(&status, "no shard runs empty");
        }
        if is_over {
            return Err(Failure::failed(format!(
                "{why}: the number of shards is changed all the same; the same command again waits on"
            )));
        }
        if now >= say {
            say = now + SAY;
            eprintln!("queenright: {why}");
        }
        rest(looks.elapsed()).await;
    }
}

/// What is not as it is to be yet.
fn left(status: &Status, copies: &mut Copies) -> Option<String> {
    if let Some((shard, _)) = status.shards.iter().enumerate().find(|(_, shard)| shard.away.is_some()) {
        return Some(format!("shard {shard} does not answer"));
    }
    let alive = status.nodes.iter().filter(|node| NodeStatus::is_alive(node)).count() as u64;
    let least = status.shards.iter().map(|shard| shard.nodes).min().unwrap_or(alive);
    if least < alive {
        return Some(format!("{least} of {alive} copies work on all shards"));
    }
    let behind = copies.behind(&status.nodes, Instant::now());
    if behind > 0 {
        let works = if behind == 1 { "copy works" } else { "copies work" };
        return Some(format!("{behind} {works} with the number of shards of before"));
    }
    let (shard, waiting) = waiting(status)?;
    Some(format!(
        "{} left in shard {shard}, which gets no new ones",
        counted(waiting, "message")
    ))
}

/// The first shard that gets no new messages and has some, and how many.
fn waiting(status: &Status) -> Option<(usize, u64)> {
    let waits = |shard: &ShardStatus| shard.queued + shard.in_hand + shard.later;
    let retired = status.shards.iter().enumerate().filter(|(_, shard)| shard.retired);
    let mut counts = retired.map(|(number, shard)| (number, waits(shard)));
    counts.find(|(_, waiting)| *waiting > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(pid: u32, behind: bool, silent_ms: u64) -> NodeStatus {
        NodeStatus {
            node: "n".into(),
            host: "host".into(),
            pid,
            version: String::new(),
            concurrency: 1,
            age_ms: 0,
            in_hand: 0,
            done: 0,
            failed: 0,
            lease_in_ms: 0,
            silent_ms,
            watched: true,
            behind,
            report: None,
        }
    }

    #[test]
    fn a_copy_is_waited_for_until_it_has_followed_or_has_ended() {
        let (now, mut copies) = (Instant::now(), Copies::default());
        // One was there before the step, and has left already when it is looked first.
        copies.are_behind([node(1, false, 0)].iter(), now);
        let mut behind = |nodes: &[NodeStatus], ms| copies.behind(nodes, now + Duration::from_millis(ms));
        assert_eq!(behind(&[node(2, true, 0), node(3, true, 9)], 0), 2, "the third is dead");
        assert_eq!(behind(&[node(1, false, 0), node(2, true, 0)], 100), 1);
        assert_eq!(behind(&[node(1, false, 0)], 200), 1, "it is about to join again");
        assert_eq!(behind(&[node(1, false, 0), node(2, false, 0)], 300), 0);
        assert_eq!(behind(&[node(4, true, 0)], 400), 1);
        assert_eq!(behind(&[], 400 + 5000), 0, "it was stopped");
    }

    #[test]
    fn of_copies_that_share_host_and_pid_one_that_has_followed_hides_none_that_has_not() {
        let (now, mut copies) = (Instant::now(), Copies::default());
        assert_eq!(copies.behind(&[node(2, true, 0), node(2, false, 0)], now), 1);
        assert_eq!(copies.behind(&[node(2, false, 0), node(2, false, 0)], now), 0);
    }
}
