//! `verify`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::duration;

pub(super) const AFTER: &str = "\
Where it runs: on the Redis that is named by flags or the environment, in a
fresh queue of its own, which is removed afterwards; if none is named, on a
redis-server of its own (redis-server or valkey-server must be on the PATH);
and if there is none, in an SQLite file.

--chaos kills the generator and handlers with kill -9, freezes them with
SIGSTOP, cuts, delays, half-opens and black-holes their connections with a
proxy in between, and kills readers of errors. On a server of its own it also
kills Redis (AOF always) and starts it again, flushes its scripts, kills its
clients, lets it sleep, and lets it run out of memory. With --on it fails over
in every way (asked for, forced, by kill -9), promotes a replica that lacks the
last writes, kills sentinels and moves the queue's slot. Give --replicas 1 to
see that nothing that was told is lost; without it, what a new primary lacks is
forgotten. The same seed gives the same plan.

The verdict comes from what each copy wrote down before and after it asked the
store, from what readers printed, and from what is left in the store.

Exit codes: 0 nothing was lost, settled twice or otherwise wrong; 1 something
was, and the last lines say what; 2 wrong usage; 69 the store is away.

Examples:
  queenright verify                         a million messages
  queenright verify --url redis://localhost on your own Redis
  queenright verify --chaos --seed 7 --duration 10m
  queenright verify --chaos --on sentinel --replicas 1 --duration 10m
  queenright verify --url sqlite:/tmp/q.db --chaos --duration 1m --json";

/// Several servers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Several {
    Sentinel,
    Cluster,
}

fn topology(text: &str) -> Result<Several, String> {
    match text {
        "sentinel" => Ok(Several::Sentinel),
        "cluster" => Ok(Several::Cluster),
        _ => Err("write sentinel or cluster".into()),
    }
}

/// Starts copies of this program as real processes, lets them work, and checks that every message got exactly one
/// outcome. The options of `start` are passed on to the copies.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Verify {
    /// How many copies to start: one generates, the others handle
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100), help_heading = "Verify")]
    pub nodes: u32,
    /// Inject faults: one every 1 to 2 s
    #[arg(long, help_heading = "Verify")]
    pub chaos: bool,
    /// Start several servers of its own: a primary with its replicas (--replicas, at least one) and three sentinels, or a
    /// cluster of three primaries with a replica each
    #[arg(long, value_name = "sentinel|cluster", value_parser = topology, help_heading = "Verify")]
    pub on: Option<Several>,
    /// Seed of the plan of faults [default: a random one, which is printed]
    #[arg(long, value_name = "N", requires = "chaos", help_heading = "Verify")]
    pub seed: Option<u64>,
    /// How long to inject faults [default: 1m]
    #[arg(long, value_name = "DURATION", requires = "chaos", value_parser = duration, help_heading = "Verify")]
    pub duration: Option<Duration>,
    /// Keep the plan, the records, the logs and the verdict in this new directory [default: a temporary one, which is removed
    /// if nothing was wrong and --chaos is not given]
    #[arg(long, value_name = "DIR", help_heading = "Verify")]
    pub keep: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, help_heading = "Verify")]
    pub json: bool,
}
