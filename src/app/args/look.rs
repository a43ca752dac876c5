//! The commands that look at a queue and its store, and take errors out.

use clap::Args;

pub(super) const DOCTOR: &str = "\
Looks at the connection, the version, eviction, persistence, replication, the
clocks, the round trip, the rights of the user, the layout of the queue and its
nodes. Rights are tried on a key of the queue that nobody else uses; if some are
missing, the exact ACL line that grants them is printed.

Exit codes: 0 fine (also with warnings), 1 something is wrong, 69 no Redis.

Examples:
  queenright doctor -h db1 -q jobs
  queenright doctor --json | jq -r '.checks[] | select(.verdict != \"ok\")'";

/// Examines what a queue lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GetErrors {
    /// Print at most this many [default: all that are there now]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Print without removing
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Status {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Look again every second, until interrupted
    #[arg(long)]
    pub watch: bool,
}
