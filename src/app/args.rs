//! The command line: what can be typed, the help that explains it, and where else values come from.
//!
//! | file | role |
//! | --- | --- |
//! | `value`, `json`, `item`, `program`, `url`, `token` | how values are written: durations, numbers, messages, commands, URLs, secrets |
//! | `resolved` | what a command is told in the end |
//! | `options` | the table of options, one entry each |
//! | `flags` | the table as clap's arguments, and what was given of it |
//! | `look`, `manage`, `dashboard`, `demo`, `verify`, `bench` | the flags that only one command has |
//! | `completions`, `offer`, `man`, `version` | what packages carry beside the program, made from the same tables |
//! | `parse` | from arguments to an [`Invocation`], or to one line that says what is wrong |
//! | `sources` | from an [`Invocation`], the environment and files to `Resolved` |
//!
//! Values of options stay text until `sources` reads them: the same option can come from the environment or a file, and a
//! mistake gets the same line wherever it was made.

// The comments on fields are the help that people read, where backticks would only disturb.
#![allow(clippy::doc_markdown)]

mod bench;
mod completions;
mod dashboard;
mod demo;
mod flags;
pub mod item;
pub mod json;
mod look;
pub mod man;
mod manage;
mod offer;
pub mod options;
mod parse;
pub mod program;
mod resolved;
pub mod sources;
pub mod token;
pub mod url;
pub mod value;
mod verify;
mod version;

use clap::{ArgAction, Parser, Subcommand};

pub use bench::{Bench, BenchHot, BenchNode};
pub use completions::Completions;
pub use dashboard::Dashboard;
pub use demo::Demo;
pub use flags::Flags;
pub use look::{Doctor, GetErrors, Healthcheck, Queues, Status, Where};
pub use man::Man;
pub use manage::{
    Cancel, Change, Drain, Errors, Handover, Limit, Manage, Nodes, Part, Purge, Push, Reshard, Select, Which,
};
pub use offer::{Name, Offer};
pub use options::explain;
pub use parse::{Invocation, Stop, Usage, parse};
pub use resolved::Serving;
pub use verify::{Several, Verify};

const AFTER: &str = "\
Where values come from, the first that has one:
  1. flags
  2. environment variables
  3. a file of variables (--env)
  4. a configuration file (--config)
  5. the defaults
  The address wins as a whole: --host beats REDIS_URL, with the password in it.
  REDIS_USER, REDIS_PASS and REDIS_DB then still apply to --host.
  When nothing names a Redis, a config.txt beside the executable is read:
  five lines, which are host:port, queue, error store, notification channel and
  election channel.

Durations have a unit: 500ms, 2s, 1m. Only 0 needs none.

Exit codes: 0 success, 1 failure, 2 wrong usage, 69 the store is away.

Examples:
  queenright                           a copy on localhost:6379; start several
  queenright -h db1 -q jobs -c 100     100 messages at once, on another Redis
  queenright --url sqlite:queue.db     a queue in a file, for one machine
  REDIS_URL=rediss://:pw@db1 queenright
                                       TLS, and a password that `ps` cannot show
  queenright --interval 0 --messages 1000000 --work 0 --error-rate 0 --quiet
                                       a million messages, as fast as possible
  queenright push hello                put a message into the queue
  queenright push --wait hello         the same, and wait for its outcome
  queenright get-errors --limit 100    print and remove 100 failed messages
  queenright errors requeue --all      try all failed messages again
  queenright status --watch            watch the queue
  queenright doctor                    check the store's configuration
  queenright dashboard                 watch and control it in a browser
  queenright demo                      see it work: needs no Redis";

const START: &str = "\
One copy is elected to generate messages, all others handle them. When the
generator dies, another copy takes over. A copy with a handler (--handle,
--handle-each) that is told nothing of generating is a worker: it only handles.
SIGTERM or SIGINT stops a copy after it has finished its messages (graceful
shutdown); a second signal stops it at once.

Examples:
  queenright start -q jobs -c 10 --handle 'python3 worker.py'
  queenright start -q jobs --cron '0 3 * * *' --tz Europe/Berlin
  queenright start -q jobs --handle-each ./resize
                                           a worker: handles what others push";

/// One elected generator, many competing handlers, exactly one outcome for every message, on one Redis.
///
/// Start any number of copies: one of them generates messages, the others handle them. Without a command word this is
/// `start`.
#[derive(Parser)]
#[command(
    name = "queenright",
    version,
    long_version = version::LONG.as_str(),
    disable_help_flag = true,
    args_override_self = true,
    after_help = AFTER,
    subcommand_help_heading = "Commands",
    override_usage = "queenright [COMMAND] [OPTIONS]"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print help (-h is the host, as in redis-cli)
    #[arg(long, global = true, action = ArgAction::HelpLong)]
    help: Option<bool>,
}

/// What was asked for, with the flags that only this command has.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run one copy until it is told to stop (the default)
    #[command(after_help = START)]
    Start,
    /// Print the failed messages (dead letters), oldest first, and remove them
    #[command(visible_aliases = ["getErrors", "getError"], after_help = look::GET_ERRORS)]
    GetErrors(GetErrors),
    /// Show the generator, the nodes, and how much is queued, in hand, done and failed
    #[command(after_help = look::STATUS)]
    Status(Status),
    /// Say where messages are, and wait for their outcomes
    #[command(after_help = look::WHERE)]
    Where(Where),
    /// List the queues that there are, and what waits in them
    #[command(after_help = look::QUEUES)]
    Queues(Queues),
    /// Check the store's configuration, and say how to mend what is wrong
    #[command(after_help = look::DOCTOR)]
    Doctor(Doctor),
    /// Ask the copy or dashboard that runs in this container whether it is well
    #[command(after_help = look::HEALTHCHECK)]
    Healthcheck(Healthcheck),
    /// See it work: real processes, killed again and again, and no message lost
    #[command(after_help = demo::AFTER)]
    Demo(Demo),
    /// Test the guarantees: a million messages, with --chaos under faults
    #[command(after_help = verify::AFTER)]
    Verify(Verify),
    /// Measure throughput and latency, beside plain Redis in the same run
    #[command(after_help = bench::AFTER)]
    Bench(Bench),
    /// What `bench` starts: nodes whose generator and handler can be told more than those of `start`.
    #[command(hide = true)]
    BenchNode(BenchNode),
    /// Runs one path that every message takes, so often: for counting instructions.
    #[command(hide = true)]
    BenchHot(BenchHot),
    /// What `start` sets to watch over the commands that it starts: ends them when it is gone.
    #[command(hide = true)]
    WatchChildren,
    /// What the scripts of `completions` ask at each Tab: prints the names that fit, one per line. Exit code 1: no name belongs here.
    #[command(hide = true)]
    Offer(Offer),
    /// Serve a web page to watch and control the fleet
    #[command(after_help = dashboard::AFTER)]
    Dashboard(Dashboard),
    #[command(flatten)]
    Manage(Manage),
    /// Print what a shell needs to complete commands, flags, choices, queues and nodes
    #[command(after_help = completions::AFTER)]
    Completions(Completions),
    /// Print a man page, or write all of them
    #[command(after_help = man::AFTER)]
    Man(Man),
}
