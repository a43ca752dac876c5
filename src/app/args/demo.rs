//! `demo`.

use std::time::Duration;

use clap::Args;

use super::value::duration;

pub(super) const AFTER: &str = "\
Nothing needs to be installed: the queue is a fresh SQLite file in a temporary
directory, which is deleted when the demo ends. --url or --host runs the same
on a Redis, in a queue of its own unless --queue names one. --shards 3 runs it
on three files, or spread over the servers of several --url; the screen then
says 1:44 for message 44 of shard 1.

Each copy writes down what it is about to do and what the store confirmed. The
ledger at the bottom is made from these records alone, and compared with what
is in the store: no message is lost or settled twice, whichever copy is killed.

Keys: k kill -9 the generator, h kill -9 a handler, s freeze a copy (SIGSTOP)
and let it go on later, + and - add and remove one, e read the errors, q quit.

Without a terminal it prints a line per event and the account at the end. The
exit code is 1 if a message was lost or settled twice.

Examples:
  queenright demo                          the default: a message every 500 ms
  queenright demo --kill-every 0           kill by hand: k and h
  queenright demo --interval 0 --work 0 --error-rate 0
                                           as fast as possible
  queenright demo --url redis://localhost  on a real Redis
  queenright demo --shards 3               one queue in three files";

/// Starts copies of this program as real processes, kills their generator every few seconds with kill -9, and accounts
/// for every message. The options of `start` are passed on to the copies.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Demo {
    /// How many copies to start
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Demo")]
    pub nodes: u32,
    /// How often to kill -9 the generator and start another copy; 0 means never
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration, help_heading = "Demo")]
    pub kill_every: Duration,
    /// End after this many seconds [default: never on a terminal, 30 without one]
    #[arg(long, value_name = "N", help_heading = "Demo")]
    pub seconds: Option<u64>,
}
