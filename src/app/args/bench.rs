//! The benchmark.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::duration;

pub(super) const AFTER: &str = "\
Regimes: flat-out, payloads, one-by-one, async-work, latency, backlog, fleet,
persistence, replicas, shards, far, failover, handover, redelivery, start-up,
ticks, mixed, adapt, memory, idle, task, groups, limits, file.

Every regime takes turns with its baseline in the same run: a machine is noisy,
and only what was measured side by side can be compared. Real processes do the
work, with every guarantee on. Shown are the median, the least and the most of
the rounds.

Where it runs: on the Redis that is named by flags or the environment, in fresh
queues, which are removed afterwards; if none is named, on a redis-server of
its own (redis-server or valkey-server must be on the PATH). Persistence,
replicas, shards and far always run on servers of their own. The whole takes
about 30 minutes.

Exit codes: 0 all was measured, whether or not a target was reached; 1 a regime
failed; 2 wrong usage; 69 no Redis.

Examples:
  queenright bench
  queenright bench --regime flat-out latency --rounds 9
  queenright bench --json > figures.json
  queenright bench --growth --docs docs/benchmarks.md";

/// Measures each regime beside its baseline: plain Redis without any guarantee, or what physics allows.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Bench {
    /// Only these regimes [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub regime: Vec<String>,
    /// How often each regime and its baseline take turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Small loads and one round: to see that it works, not how fast
    #[arg(long)]
    pub quick: bool,
    /// Measure how cost grows with backlog, payload, nodes and concurrency, too
    #[arg(long)]
    pub growth: bool,
    /// Write the tables into this file, between the marks that are there, and plots beside it
    #[arg(long, value_name = "FILE")]
    pub docs: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct BenchNode {
    /// So many nodes in this process, each with connections of its own.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Messages have so many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub payload: usize,
    /// Messages belong to so many groups, in turn; 0: to none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub groups: u64,
    /// Messages carry the time at which they were made, and the handler prints how long ago that was.
    #[arg(long)]
    pub stamp: bool,
    /// Every so many-th message takes `--slow`.
    #[arg(long, value_name = "N")]
    pub slow_every: Option<u64>,
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub slow: Duration,
    /// Messages take `--slow` in every other window of this length, by the time of day.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub window: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct BenchHot {
    pub path: String,
    pub times: u32,
}
