//! `reshard`: another number of shards, while the queue is in use.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::manage::rest;
use crate::app::args::Reshard;
use crate::app::exit::Failure;
use crate::app::output::json;
use crate::app::output::screen::counted;
use crate::app::run::print;
use crate::engine::{Engine, NodeStatus, Resharded, ShardStatus, Status};

/// How often it is said what is waited for.
const SAY: Duration = Duration::from_secs(10);

pub(super) async fn run<E: Engine>(engine: Arc<E>, flags: &Reshard) -> Result<(), Failure> {
    engine.check().await?;
    // A queue of a newer layout is refused, and one that is not there.
    engine.published().await?;
    let told = engine.reshard_to(flags.to).await?;
    wait(&*engine, flags).await?;
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

/// Until all copies work on the new shards, and those that get no new messages are empty.
async fn wait<E: Engine>(engine: &E, flags: &Reshard) -> Result<(), Failure> {
    let give_up = flags.timeout.map(|timeout| Instant::now() + timeout);
    let mut say = Instant::now() + SAY;
    loop {
        let looks = Instant::now();
        let Some(why) = left(&engine.status().await?) else {
            return Ok(());
        };
        if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            return Err(Failure::failed(format!(
                "{why}: the number of shards is changed all the same; the same command again waits on"
            )));
        }
        if Instant::now() >= say {
            say = Instant::now() + SAY;
            eprintln!("queenright: {why}");
        }
        rest(looks.elapsed()).await;
    }
}

/// What is not as it is to be yet.
fn left(status: &Status) -> Option<String> {
    if let Some((shard, _)) = status.shards.iter().enumerate().find(|(_, shard)| shard.away.is_some()) {
        return Some(format!("shard {shard} does not answer"));
    }
    let alive = status.nodes.iter().filter(|node| NodeStatus::is_alive(node)).count() as u64;
    let least = status.shards.iter().map(|shard| shard.nodes).min().unwrap_or(alive);
    if least < alive {
        return Some(format!("{least} of {alive} copies work on all shards"));
    }
    let waits = |shard: &ShardStatus| shard.queued + shard.in_hand + shard.later;
    let retired = status.shards.iter().enumerate().filter(|(_, shard)| shard.retired);
    let (shard, waiting) = retired
        .map(|(number, shard)| (number, waits(shard)))
        .find(|(_, waiting)| *waiting > 0)?;
    Some(format!(
        "{} left in shard {shard}, which gets no new ones",
        counted(waiting, "message")
    ))
}
