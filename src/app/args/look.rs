//! The commands that look at a queue and its store, and take errors out.

use std::time::Duration;

use clap::Args;

use super::value::duration;

pub(super) const GET_ERRORS: &str = "\
A failed message is removed once it has been printed. Several get-errors may
run at once: each message is printed by one of them. `errors` looks at failed
messages without removing them, and requeues them. A queue that is not there
is an error (exit code 1), unless the store has no queue at all.

Examples:
  queenright get-errors -q jobs
  queenright get-errors --limit 100 --json > failed.jsonl
  queenright get-errors --keep             only look";

pub(super) const STATUS: &str = "\
Examples:
  queenright status -q jobs
  queenright status --watch
  queenright status --json | jq .queued";

pub(super) const WHERE: &str = "\
One line for each message: its number, and one of
  done, failed, expired, cancelled   how it ended, with its result or error
  queued, later (until=), held (node=)   where it waits, or who has it in hand
  settled      it has ended, and how is not kept
  unknown      it waits behind many, or has ended: nobody asked for its outcome
  unpublished  no message has this number yet

How a message ended is told of what failed, and of those that were pushed with
--wait, --ask or \"ask\" in JSON: for an hour after they ended, of the last
10,000 that did. A message that nobody asked for is looked for among the first
thousand packs that wait, and by its number in a queue of up to 100,000.

With --wait it prints outcomes in the order of the numbers given. Exit code 1:
one was not done, or was not known in time.

Examples:
  queenright where 17
  queenright where 17 18 --wait --timeout 5m
  queenright where 17 --json | jq -r .state";

pub(super) const QUEUES: &str = "\
Creates nothing and changes nothing. In Redis the queues are found with SCAN, a
thousand keys at a time and for 10 s at most; the user needs the right +scan. Of
a cluster every primary is asked (right +cluster|slots).

Examples:
  queenright queues
  queenright queues --url sqlite:queue.db
  queenright queues --json | jq -r 'select(.errors > 0) | .queue'";

pub(super) const DOCTOR: &str = "\
Checks the connection, the version, eviction, persistence, replication, clocks,
round-trip time, the user's rights (ACL), the layout of the queue and its
nodes. Rights are tried on a key of the queue that nobody else uses; if some
are missing, the ACL line that grants them is printed.

Exit codes: 0 no errors (warnings are allowed), 1 something is wrong, 69 the
store is away.

Examples:
  queenright doctor -h db1 -q jobs
  queenright doctor --json | jq -r '.checks[] | select(.verdict != \"ok\")'";

pub(super) const HEALTHCHECK: &str = "\
For HEALTHCHECK of a container, and for probes that run a command: needs no
port and no file. It asks every `start` and `dashboard` of this container; on a
machine without containers, those of this user. Unhealthy is who does not
answer within 4 s. A store that is away makes nobody unhealthy, since a restart
would not help.

Exit codes: 0 all that run here are well, 1 one does not answer, or none runs.

Examples:
  docker exec CONTAINER /queenright healthcheck";

/// Asks without a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Healthcheck {
    /// Ask this process only
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
}

/// Examines what a queue lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GetErrors {
    /// Print at most this many messages [default: all that are there now]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Print without removing anything
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Where {
    /// The numbers of the messages
    #[arg(value_name = "NUMBER", required = true)]
    pub numbers: Vec<u64>,
    /// Wait until the messages have ended
    #[arg(long)]
    pub wait: bool,
    /// Wait for at most this time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, requires = "wait")]
    pub timeout: Duration,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Queues {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Status {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Refresh every second, until interrupted
    #[arg(long)]
    pub watch: bool,
}
