//! The commands that look after a queue: each works at once, on a queue that others work on.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::value::duration;

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Manage {
    /// Put messages into the queue, and print their numbers
    #[command(after_help = PUSH)]
    Push(Push),
    /// Look at the failed messages, put them in again, or remove them
    #[command(subcommand, after_help = ERRORS)]
    Errors(Errors),
    /// Let the generator, the handlers or both stand still; what is in hand is finished
    #[command(after_help = PAUSE)]
    Pause(Which),
    /// Let them go on
    Resume(Which),
    /// Move the crown to another node, in good order
    #[command(after_help = HANDOVER)]
    Handover(Handover),
    /// List the nodes
    Nodes(Nodes),
    /// Wait until nothing is queued, in hand or put off
    #[command(after_help = DRAIN)]
    Drain(Drain),
    /// Remove the queue, with all messages and errors in it
    #[command(after_help = PURGE)]
    Purge(Purge),
}

const PUSH: &str = "\
Pushed messages are numbered with the generated ones, and handled like them. The
queue need not exist yet, and no copy has to run.

With --key (or \"key\" in JSON) a repeat is no new message: within --keep it gets
the number that the first one has. Keys and delays run on the store's time of
day.

With --json each line of stdin is an object: {\"payload\": \"text\"}, or any other
JSON value as payload, or \"payload_base64\"; and, if you like, \"key\" and
\"delay\" (\"5s\"). What `errors export` writes can be read. Output is one
{\"number\":7,\"repeated\":false} a line.

When --max-backlog messages wait, a push fails with exit code 1; the numbers that
were printed before are in the queue.

Examples:
  queenright push hello                      one message: prints its number
  queenright push --key order-17 --delay 5m 'charge 17'
  queenright push < lines.txt                each line is a message
  echo '{\"payload\":{\"id\":17},\"key\":\"17\"}' | queenright push --json";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Push {
    /// The messages; none, or -, reads lines from stdin
    #[arg(value_name = "PAYLOAD")]
    pub payloads: Vec<String>,
    /// A repeat with this key is no new message; for one message
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How long keys are remembered
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub keep: Duration,
    /// Handle the messages only after this time
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration)]
    pub delay: Duration,
    /// Lines of stdin and of output are JSON objects; arguments are payloads as they stand
    #[arg(long)]
    pub json: bool,
}

const ERRORS: &str = "\
A requeued message leaves the errors and begins a new life, under its number:
attempts and failures are counted from the start. `status` counts these lives as
`requeued`. Errors that a `get-errors` has in hand at the moment are left alone.

Examples:
  queenright errors list --text timeout --newer 1h
  queenright errors show 17
  queenright errors requeue 17 18
  queenright errors requeue --all
  queenright errors delete --older 30d --dry-run
  queenright errors export > errors.jsonl";

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Errors {
    /// Print failed messages, oldest number first; removes nothing
    List(List),
    /// Print all that is known of one
    Show(Show),
    /// Put messages in again, as if they had never been tried
    Requeue(Change),
    /// Remove errors for good
    Delete(Change),
    /// Print failed messages as JSON, one object a line; removes nothing
    Export(Select),
    /// Print how many there are
    Count(Select),
}

/// Which errors. What is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Select {
    /// Only numbers from this one on
    #[arg(long, value_name = "NUMBER")]
    pub from: Option<u64>,
    /// Only numbers up to this one
    #[arg(long, value_name = "NUMBER")]
    pub to: Option<u64>,
    /// Only those whose error contains this text
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Only those that failed longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older: Option<Duration>,
    /// Only those that failed within this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub newer: Option<Duration>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct List {
    #[command(flatten)]
    pub select: Select,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Show {
    #[arg(value_name = "NUMBER")]
    pub number: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Change {
    /// The numbers of the messages
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<u64>,
    /// All of them
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub select: Select,
    /// Only print what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const PAUSE: &str = "\
Once this has returned, nothing more is published (but what is pushed) or taken,
by whichever copy, until `resume`. Copies that start meanwhile are paused too;
the queue remembers it.

Examples:
  queenright pause                 both
  queenright pause generator && queenright drain && deploy
  queenright resume";

/// What to pause or to resume.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Which {
    /// Only the generator, or only the handlers
    #[arg(value_name = "generator|handlers", value_enum, hide_possible_values = true)]
    pub part: Option<Part>,
    /// Print what is paused now as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Generator,
    Handlers,
}

const HANDOVER: &str = "\
The crown changes hands in one step, with the next beat of the node that takes
it: until then the old generator publishes, from then on the new one, and no tick
is missed. Prints who generates now.

Exit code 1 if nobody takes it within --timeout; then all stays as it was.";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Handover {
    /// To this node, as `nodes` names it [default: any other]
    #[arg(value_name = "NODE")]
    pub node: Option<String>,
    /// How long to wait for it
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Nodes {
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

const DRAIN: &str = "\
While a generator publishes, a queue is seldom empty: pause it first. Nothing is
printed; exit code 0 means empty, 1 that the time is over, with what is left.

Example:
  queenright pause generator && queenright drain --timeout 5m";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Drain {
    /// Give up after this time [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

const PURGE: &str = "\
Requests on a terminal; elsewhere it needs --yes. Refuses while nodes are alive, with
exit code 1: stop them, or use --force. Nodes that are forced out join again,
on a new queue that goes on above the last number they have seen.

What effects wrote under keys of their own stays.";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Purge {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Also while nodes are alive
    #[arg(long)]
    pub force: bool,
}
