//! The commands that look after a queue: each works at once, on a queue that others work on.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::value::{RateOrNone, duration, header};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Manage {
    /// Put messages into the queue, and print their numbers
    #[command(after_help = PUSH)]
    Push(Push),
    /// List, requeue or delete failed messages (dead letters)
    #[command(subcommand, after_help = ERRORS)]
    Errors(Errors),
    /// Pause the generator, the handlers or both; messages in hand are finished
    #[command(after_help = PAUSE)]
    Pause(Which),
    /// Let what was paused go on
    #[command(after_help = RESUME)]
    Resume(Which),
    /// Show, set or remove the limit: how fast the whole fleet may take messages
    #[command(after_help = LIMIT)]
    Limit(Limit),
    /// Cancel messages: they end as errors, and handlers at work are told
    #[command(after_help = CANCEL)]
    Cancel(Cancel),
    /// Make another node the generator, without missing a message
    #[command(after_help = HANDOVER)]
    Handover(Handover),
    /// List the nodes
    #[command(after_help = NODES)]
    Nodes(Nodes),
    /// Wait until the queue is empty: nothing queued, delayed or in hand
    #[command(after_help = DRAIN)]
    Drain(Drain),
    /// Change the number of shards while the queue is in use
    #[command(after_help = RESHARD)]
    Reshard(Reshard),
    /// Delete the queue, with all its messages and errors
    #[command(after_help = PURGE)]
    Purge(Purge),
}

const PUSH: &str = "\
Pushed messages are numbered together with the generated ones, and handled like
them. The queue need not exist yet, and no copy has to run.

--key (or \"key\" in JSON) is an idempotency key: within --keep, another push
with the same key adds no message and prints the number of the first. Keys and
delays run on the store's time of day.

Messages of one --group are handled one at a time, in the order of their
numbers, by whichever copies; groups take turns.

A message with --expires that no handler has begun with by then, after its
publication and on the store's time of day, is an error that says so.

With --wait it prints how each message ended, in the order in which they were
pushed, with the result that its handler gave (up to 4 KB) or its error; up to
a thousand at a time are waited for. Tries that fail and are tried again are
waited through. Exit code 1: one was not done, or was not known within
--timeout; it stays in the queue. Ask again with `where NUMBER --wait`, or push
again with the same --key. --ask (or \"ask\": true in JSON) keeps the outcome
without waiting for it. Outcomes are kept for an hour, the last 10,000.

Each line of stdin is a message. Empty lines are skipped, and of lines that end
as on Windows the carriage return is taken off; both are said on stderr.

With --json each line of stdin is an object: {\"payload\": \"text\"}, or any other
JSON value as payload, or \"payload_base64\"; and, if you like, \"key\",
\"group\", \"headers\", \"ask\", \"expires\" (\"10m\") or \"expires_ms\" and \"delay\"
(\"5s\") or \"delay_ms\". Other fields are refused, but what `errors export`
writes can be read.

Output is {\"number\":7,\"repeated\":false}, one a line.

When --max-backlog messages wait, a push fails with exit code 1; the messages
whose numbers were printed before are in the queue.

Examples:
  queenright push hello                      one message: prints its number
  queenright push --key order-17 --delay 5m 'charge 17'
  queenright push --group tenant-7 'sync 17'
  queenright push --wait --timeout 5m 'resize 17.png'
  queenright push --expires 10m --header user=17 'remind 17'
  queenright push < lines.txt                each line is a message
  echo '{\"payload\":{\"id\":17},\"key\":\"17\"}' | queenright push --json";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Push {
    /// The messages; none, or -, reads lines from stdin
    #[arg(value_name = "PAYLOAD")]
    pub payloads: Vec<String>,
    /// Idempotency key: pushing the same key again adds no message; for one message
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The group of the messages: those of one group are handled one at a time and in order
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Expiry: a message that no handler has begun with after this time is an error [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub expires: Option<Duration>,
    /// A header, which handlers are told: NAME=VALUE; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// Wait until the messages have ended, and print how
    #[arg(long)]
    pub wait: bool,
    /// Wait for at most this time, from the moment in which a message is in
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, requires = "wait")]
    pub timeout: Duration,
    /// Keep the outcomes, so that they can be asked for later; --wait does, too
    #[arg(long)]
    pub ask: bool,
    /// How long keys are remembered
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub keep: Duration,
    /// Delay: handle the messages only after this time
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration)]
    pub delay: Duration,
    /// Read lines of stdin as JSON objects, and print JSON; arguments are payloads as they stand
    #[arg(long)]
    pub json: bool,
}

const ERRORS: &str = "\
A requeued message keeps its number and is handled as if it were new: deliveries
and failures are counted from the start. `status` counts it as `requeued`.
Failed messages that a `get-errors` is printing at the moment are left alone.

Examples:
  queenright errors list --text timeout --newer 1h
  queenright errors show 17
  queenright errors requeue 17 18
  queenright errors requeue --all
  queenright errors delete --older 30d --dry-run
  queenright errors export > errors.jsonl";

const LIST: &str = "\
Examples:
  queenright errors list --limit 20
  queenright errors list --text timeout --newer 1h --json";
const SHOW: &str = "\
Example:
  queenright errors show 17";
const REQUEUE: &str = "\
Examples:
  queenright errors requeue 17 18
  queenright errors requeue --text timeout --dry-run";
const DELETE: &str = "\
Examples:
  queenright errors delete 17
  queenright errors delete --older 30d --dry-run";
const EXPORT: &str = "\
Example, which pushes them into another queue:
  queenright errors export -q jobs | queenright push -q jobs2 --json";
const COUNT: &str = "\
Example:
  queenright errors count --newer 1h";

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Errors {
    /// Print failed messages, lowest number first; removes nothing
    #[command(after_help = LIST)]
    List(List),
    /// Print all that is known of one failed message
    #[command(after_help = SHOW)]
    Show(Show),
    /// Put failed messages into the queue again, as if they were new
    #[command(after_help = REQUEUE)]
    Requeue(Change),
    /// Delete failed messages for good
    #[command(after_help = DELETE)]
    Delete(Change),
    /// Print failed messages as JSON, one object per line; removes nothing
    #[command(after_help = EXPORT)]
    Export(Select),
    /// Print how many failed messages there are
    #[command(after_help = COUNT)]
    Count(Select),
}

/// Which errors. What is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Select {
    /// Only message numbers from this one on
    #[arg(long, value_name = "NUMBER")]
    pub from: Option<u64>,
    /// Only message numbers up to this one
    #[arg(long, value_name = "NUMBER")]
    pub to: Option<u64>,
    /// Only messages whose error contains this text
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Only messages that failed longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older: Option<Duration>,
    /// Only messages that failed within this time
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
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Show {
    /// The number of the message
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
    /// All failed messages
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

const RESHARD: &str = "\
Copies that run follow by themselves: each finishes what it has in hand, as when
it is stopped (--grace), and goes on with the new shards. New messages go to
them at once. Shards beyond --to get no new messages, and run empty.

It is one step in the home shard: killed at any point, it is done or not, and
the same command again goes on. It waits until all copies have followed, and
until shards that get no new messages are empty; --timeout ends the wait, not
the change.

On a cluster that is all. On servers of their own, start all copies with the
URLs of all servers first (--shards stays as it is), then reshard with the same
URLs: URLs beyond the shards are not used before. Restart copies with the new
--shards or the old one, as you like.

A shard is not removed: keep its server. Groups stay where they are until
nothing of them is left there. Where there are several, no generator can put
messages into groups: it waits, and says so (blocked); and what a handler
publishes into a group of another shard is an error. reshard --to 1 is the way
back.

Examples:
  queenright reshard --to 6 --url redis+cluster://10.0.0.1
  queenright reshard --to 2 --shards 1 --url redis://one --url redis://two
  queenright status                          what each shard has";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Reshard {
    /// So many shards get new messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub to: u32,
    /// Wait for at most this time [default: as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Print the number of shards as one JSON object
    #[arg(long)]
    pub json: bool,
}

const PAUSE: &str = "\
Once this has returned, no copy generates or takes any message until `resume`;
pushed messages still come in. The queue remembers it, so that copies which
start meanwhile are paused too.

--group pauses one group: no copy takes more of its messages, new ones wait in
its line. What was begun goes on, retries too.

Examples:
  queenright pause                 both
  queenright pause generator && queenright drain && deploy
  queenright pause --group tenant-7
  queenright resume";

const RESUME: &str = "\
Examples:
  queenright resume                both
  queenright resume handlers
  queenright resume --group tenant-7";

/// What to pause or to resume.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Which {
    /// Only the generator, or only the handlers
    #[arg(value_name = "generator|handlers", value_enum, hide_possible_values = true)]
    pub part: Option<Part>,
    /// Only this group of messages
    #[arg(long, value_name = "GROUP", conflicts_with = "part")]
    pub group: Option<String>,
    /// Print what is paused now as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Generator,
    Handlers,
}

const LIMIT: &str = "\
The limit holds for all copies together, and over a minute to within 1 %. It
counts a message when a copy takes it; one that is tried or delivered again
counts again, one that is given back unhandled does not count. Nobody asks
again and again: a copy is told when there is more. The queue remembers the
limit, for copies which start later too.

RATE is 500/s, 30/m (minute), 1000/h or 5/d. What is not named is not limited:
`limit 500/s` removes a limit of groups.

Examples:
  queenright limit                          what is set
  queenright limit 500/s --burst 100
  queenright limit 500/s --group 10/s       10/s of each group
  queenright limit none --group 10/s
  queenright limit none";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Limit {
    /// Messages per s, m, h or d: 500/s; or none
    #[arg(value_name = "RATE")]
    pub rate: Option<RateOrNone>,
    /// How many may go at once after a time in which fewer were wanted [default: a tenth of a second's worth]
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,
    /// How fast messages of one group may be taken
    #[arg(long, value_name = "RATE", requires = "rate")]
    pub group: Option<RateOrNone>,
    /// Print the limit as one JSON object
    #[arg(long)]
    pub json: bool,
}

const CANCEL: &str = "\
A message that waits, however it waits, ends as the error \"cancelled\" when it is
taken, and no handler sees it. If it is in work, its copy hears of it with its
next beat: a child of --handle or --handle-each gets SIGTERM, and after a second
SIGKILL; a request to a service is dropped; a handler in Rust is told. What is
done all the same is done; what fails then is not tried again.

--group cancels all messages of a group that were published before.

Prints the numbers that are cancelled. To cancel twice is as good as once. Exit
code 1: one has ended or was never published, or 1000 cancels are pending.

Examples:
  queenright cancel 17 18
  queenright cancel --group tenant-7
  queenright where 17                        says cancelled, once it is";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Cancel {
    /// The numbers of the messages
    #[arg(value_name = "NUMBER", required_unless_present = "group", conflicts_with = "group")]
    pub numbers: Vec<u64>,
    /// All messages of this group that were published so far
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

const HANDOVER: &str = "\
The crown, which makes a node the generator, changes hands in one step: until
then the old generator publishes, from then on the new one, and no message is
missed. Prints who generates now.

Exit code 1 if no node takes it within --timeout; then all stays as it was.

Examples:
  queenright handover                to any other node
  queenright handover k7m2xq9fta     as `queenright nodes` names it";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Handover {
    /// The node that takes it, as `nodes` names it [default: any other]
    #[arg(value_name = "NODE")]
    pub node: Option<String>,
    /// How long to wait until a node takes it
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Nodes {
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

const NODES: &str = "\
Examples:
  queenright nodes -q jobs
  queenright nodes --json | jq -r '.[].node'";

const DRAIN: &str = "\
While a generator publishes, a queue is seldom empty: pause it first. Nothing
is printed if the queue is empty (exit code 0); after --timeout, one line says
what is left (exit code 1).

Example:
  queenright pause generator && queenright drain --timeout 5m";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Drain {
    /// Give up after this time [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

const PURGE: &str = "\
Asks for confirmation on a terminal; elsewhere it needs --yes. Refuses while
nodes are alive, with exit code 1: stop them, or use --force. Nodes that are
forced out join again, on a new queue that goes on above the last number they
have seen.

What effects wrote under keys of their own stays.

Examples:
  queenright purge -q jobs
  queenright purge -q test --yes --force";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Purge {
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Delete the queue even while nodes are alive
    #[arg(long)]
    pub force: bool,
}
