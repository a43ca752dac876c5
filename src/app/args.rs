//! The command line: what can be typed, and the help that explains it. `parse` turns it into an `Invocation`.
//!
//! Values stay text here. The same option can come from the environment or a file, and `crate::app::args::sources` reads all of
//! them with one set of rules, so that a mistake gets the same line wherever it was made.

// The comments on fields are the help that people read, where backticks would only disturb.
#![allow(clippy::doc_markdown)]

mod bench;
mod dashboard;
mod manage;
mod parse;
pub mod program;
pub mod sources;
pub mod token;
pub mod url;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};

pub use bench::{Bench, BenchHot, BenchNode};
pub use dashboard::{Dashboard, LISTEN, Serving, place};
pub use manage::{Change, Drain, Errors, Handover, Manage, Nodes, Part, Purge, Push, Select, Which};
pub use parse::{Command, Invocation, Stop, Usage, parse};

const AFTER: &str = "\
Where values come from, the first that has one:
  1. flags
  2. the environment
  3. a file of variables (--env)
  4. a configuration file (--config)
  5. the defaults
  An address wins as a whole: --host beats REDIS_URL, with the password in it.
  REDIS_USER, REDIS_PASS and REDIS_DB then still apply to --host.
  When nothing names a Redis, a config.txt beside the executable is read:
  five lines, which are host:port, queue, error store, notification channel and
  election channel.

Durations have a unit: 500ms, 2s, 1m. Only 0 needs none.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 69 no Redis.

Examples:
  queenright                           a copy on localhost:6379; start several
  queenright -h db1 -q jobs -c 100     100 messages at once, on another Redis
  REDIS_URL=rediss://:pw@db1 queenright
                                       TLS, and a password that `ps` cannot show
  queenright --interval 0 --messages 1000000 --work 0 --error-rate 0 --quiet
                                       a million messages, flat out
  queenright get-errors --limit 100    print and remove 100 failed messages
  queenright push hello                put a message into the queue
  queenright errors requeue --all      give all failed messages another life
  queenright status --watch
  queenright doctor                    is everything as it must be?
  queenright dashboard                 look at it in a browser
  queenright demo                      watch it work: needs no Redis
  queenright verify                    prove it: a million, each accounted for
  queenright bench                     measure it, beside plain Redis";

/// One elected generator, many competing handlers, exactly one outcome for every message, on one Redis.
///
/// Start any number of copies: one of them generates messages, the others handle them. Without a command word this is
/// `start`.
#[derive(Parser)]
#[command(
    name = "queenright",
    version,
    disable_help_flag = true,
    args_override_self = true,
    after_help = AFTER,
    subcommand_help_heading = "Commands",
    override_usage = "queenright [COMMAND] [OPTIONS]"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Word>,
    #[command(flatten)]
    shared: SharedFlags,
    #[command(flatten)]
    start: StartFlags,
    /// Print help (-h is the host, as in redis-cli)
    #[arg(long, global = true, action = ArgAction::HelpLong)]
    help: Option<bool>,
}

#[derive(Subcommand)]
enum Word {
    /// Run one copy until it is told to stop (the default)
    Start(Box<StartFlags>),
    /// Print the failed messages, oldest first, and remove them
    #[command(visible_aliases = ["getErrors", "getError"])]
    GetErrors(GetErrors),
    /// Look once: generator, epoch, nodes, queued, in hand, done, errors, rate
    Status(Status),
    /// Examine the Redis or the file: each thing that matters as ok, warning or wrong, and what to do about it
    #[command(after_help = DOCTOR)]
    Doctor(Doctor),
    /// Watch it: a fleet of real processes, its generator killed every 5 s, every message accounted for
    #[command(after_help = DEMO)]
    Demo(Box<Demo>),
    /// Check the promises: a million messages, with --chaos under every fault we know, every one accounted for
    #[command(after_help = VERIFY)]
    Verify(Box<Verify>),
    /// Measure it: each regime beside the plain Redis baseline in the same run
    #[command(after_help = bench::AFTER)]
    Bench(Box<Bench>),
    /// What `bench` starts: nodes whose generator and handler can be told more than those of `start`.
    #[command(hide = true)]
    BenchNode(Box<BenchNode>),
    /// Runs one path that every message takes, so often: for counting instructions.
    #[command(hide = true)]
    BenchHot(BenchHot),
    /// Serve a page to watch and rule the fleet in a browser
    #[command(after_help = dashboard::AFTER)]
    Dashboard(Box<Dashboard>),
    #[command(flatten)]
    Manage(Manage),
}

const DOCTOR: &str = "\
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

const DEMO: &str = "\
Nothing needs to be installed: the queue is a fresh SQLite file in a temporary
directory, gone when the demo ends. --url or --host runs the same on a Redis,
on a queue of its own unless --queue names one.

Each copy writes down what it is about to do and what the store confirmed. The
ledger at the bottom is made from these books alone, and compared with what is
in the store: nothing is lost, nothing settled twice, whoever is killed.

Keys: k kill -9 the generator, h kill -9 a handler, s freeze a copy (SIGSTOP)
and let it go on later, + and - add and remove one, e drain the errors, q quit.

Not on a terminal it prints a line per event and the account at the end. The
exit code is 1 if a message was lost or settled twice.

Examples:
  queenright demo                          the default: a message every 500 ms
  queenright demo --kill-every 0           kill by hand: k and h
  queenright demo --interval 0 --work 0 --error-rate 0
                                           flat out
  queenright demo --url redis://localhost  on a real Redis";

/// Starts copies of this program as real processes, kills their generator every few seconds with kill -9, and accounts
/// for every message. The options of `start` are passed on to the copies.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Demo {
    /// How many copies to start
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Demo")]
    pub nodes: u32,
    /// How often to kill -9 the generator and start another copy; 0 is never
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = crate::app::args::sources::duration, help_heading = "Demo")]
    pub kill_every: Duration,
    /// End after so many seconds [default: not on a terminal, 30 if it is none]
    #[arg(long, value_name = "N", help_heading = "Demo")]
    pub seconds: Option<u64>,
    #[command(flatten)]
    pub start: StartFlags,
}

const VERIFY: &str = "\
Where it runs: on the Redis that is named by flags or the environment, in a
fresh queue of its own, which is removed afterwards; if none is named, on a
redis-server of its own (redis-server or valkey-server must be on the PATH);
and if there is none, in an SQLite file.

--chaos kills -9 the generator and handlers, stops them with SIGSTOP, cuts,
delays, half-opens and black-holes their connections with a proxy in between,
kills readers of errors, and, on a server of its own only, kills Redis (AOF
always) and starts it again, flushes its scripts, kills its clients, lets it
sleep, and lets it run out of memory. The same seed gives the same plan.

The verdict comes from what each copy wrote down before and after it asked the
store, from what readers printed, and from what is left in the store.

Exit codes: 0 nothing was lost, settled twice or otherwise wrong; 1 something
was, and the last lines say what; 2 wrong usage; 69 no Redis.

Examples:
  queenright verify                         a million messages, flat out
  queenright verify --url redis://localhost on your own Redis
  queenright verify --chaos --seed 7 --duration 10m
  queenright verify --url sqlite:/tmp/q.db --chaos --duration 1m --json";

/// Starts copies of this program as real processes, lets them work, and checks that every message got exactly one
/// outcome. The options of `start` are passed on to the copies.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Verify {
    /// How many copies to start: one generates, the others handle
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100), help_heading = "Verify")]
    pub nodes: u32,
    /// Break things all the time, one every 1 to 2 s
    #[arg(long, help_heading = "Verify")]
    pub chaos: bool,
    /// The plan of faults [default: a random one, which is told]
    #[arg(long, value_name = "N", requires = "chaos", help_heading = "Verify")]
    pub seed: Option<u64>,
    /// How long to break things [default: 1m]
    #[arg(long, value_name = "DURATION", requires = "chaos", value_parser = crate::app::args::sources::duration, help_heading = "Verify")]
    pub duration: Option<Duration>,
    /// Keep the plan, the books, the logs and the verdict here [default: a directory in the temporary one, which is
    /// removed if nothing was wrong and --chaos is not given]
    #[arg(long, value_name = "DIR", help_heading = "Verify")]
    pub keep: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, help_heading = "Verify")]
    pub json: bool,
    #[command(flatten)]
    pub start: StartFlags,
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

/// The options that every command has, before or after the command word.
#[derive(Clone, Default, PartialEq, Eq, Args)]
pub struct SharedFlags {
    /// Redis as a URL: redis://, rediss:// (TLS) or unix:/path [env: REDIS_URL, REDISURL]
    #[arg(long, short, value_name = "URL", global = true, help_heading = "Connection")]
    pub url: Option<String>,
    /// Redis's host [env: REDIS_HOST] [default: localhost]
    #[arg(long, short = 'h', value_name = "HOST", global = true, help_heading = "Connection")]
    pub host: Option<String>,
    /// Redis's port [env: REDIS_PORT] [default: 6379]
    #[arg(long, short, value_name = "PORT", global = true, help_heading = "Connection")]
    pub port: Option<String>,
    /// The user, where Redis has several [env: REDIS_USER]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Connection")]
    pub user: Option<String>,
    /// The password; better in REDIS_PASS, since others can see command lines [env: REDIS_PASS]
    #[arg(
        long,
        value_name = "PASSWORD",
        global = true,
        allow_hyphen_values = true,
        help_heading = "Connection"
    )]
    pub pass: Option<String>,
    /// The number of the database [env: REDIS_DB] [default: 0]
    #[arg(long, value_name = "N", global = true, help_heading = "Connection")]
    pub db: Option<String>,
    /// The queue's name; queues share nothing [env: QUEENRIGHT_QUEUE] [default: queenright]
    #[arg(long, short, value_name = "NAME", global = true, help_heading = "Connection")]
    pub queue: Option<String>,

    /// Read environment variables from a file (.env if none is named); the real environment wins
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".env",
        help_heading = "Files"
    )]
    pub env: Option<PathBuf>,
    /// Read options from TOML with the names of these flags, or from the five-line form [env: QUEENRIGHT_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Files")]
    pub config: Option<PathBuf>,

    /// What log lines on stderr look like [env: QUEENRIGHT_LOG] [default: text]
    #[arg(long, value_name = "text|json", global = true, help_heading = "Log")]
    pub log: Option<String>,
    /// Say at the start which settings are in use, and tell also which messages are started
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Log")]
    pub verbose: u8,
    /// Hide the lines that there is one of per message [env: QUEENRIGHT_QUIET]
    #[arg(long, global = true, help_heading = "Log")]
    pub quiet: bool,
}

/// The options of `start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags that are given or not")]
pub struct StartFlags {
    /// How many messages to handle at once [env: QUEENRIGHT_CONCURRENCY] [default: 1]
    #[arg(long, short, value_name = "N", help_heading = "Handling")]
    pub concurrency: Option<String>,
    /// How long the built-in handler works on a message, uniformly random [env: QUEENRIGHT_WORK] [default: 0..1s]
    #[arg(long, value_name = "LOW..HIGH", help_heading = "Handling")]
    pub work: Option<String>,
    /// How often the built-in handler fails, from 0 to 1 [env: QUEENRIGHT_ERROR_RATE] [default: 0.15]
    #[arg(long, value_name = "RATE", help_heading = "Handling")]
    pub error_rate: Option<String>,
    /// Let a command or a service handle the messages. COMMAND lives on, gets a JSON line per message on stdin and answers
    /// each in order: {"ok":true}, {"error":"text"} or {"retry":"text","after":"5s"}; -c is how many are in flight. URL gets
    /// a POST per message: 2xx is done, 429 and 503 try later, all else an error
    /// [env: QUEENRIGHT_HANDLE] [default: pretend to work]
    #[arg(long, value_name = "COMMAND|URL", help_heading = "Handling")]
    pub handle: Option<String>,
    /// Run a command for each message: payload on stdin, QUEENRIGHT_NUMBER, _ATTEMPT, _FAILURES, _EPOCH and _QUEUE in the
    /// environment; exit code 0 is done, 75 try later, all else an error with the end of stderr
    /// [env: QUEENRIGHT_HANDLE_EACH]
    #[arg(long, value_name = "COMMAND", help_heading = "Handling")]
    pub handle_each: Option<String>,
    /// Give up on a message after this time: a failure; a command is killed [env: QUEENRIGHT_TIMEOUT] [default: none]
    #[arg(long, value_name = "DURATION", help_heading = "Handling")]
    pub timeout: Option<String>,
    /// Messages per call to Redis [env: QUEENRIGHT_BATCH] [default: follows the speed of the handler]
    #[arg(long, value_name = "N", help_heading = "Handling")]
    pub batch: Option<String>,
    /// A message delivered so often without an outcome is an error [env: QUEENRIGHT_MAX_DELIVERIES] [default: 5]
    #[arg(long, value_name = "N", help_heading = "Handling")]
    pub max_deliveries: Option<String>,
    /// Keep so many errors: the lowest numbers beyond that are removed, counted and told of [env: QUEENRIGHT_MAX_ERRORS]
    /// [default: keep all]
    #[arg(long, value_name = "N", help_heading = "Handling")]
    pub max_errors: Option<String>,
    /// Try a failed message again, so often, before it is an error [env: QUEENRIGHT_RETRIES] [default: 0]
    #[arg(long, value_name = "N", help_heading = "Handling")]
    pub retries: Option<String>,
    /// Wait before the first of these; each further wait doubles, up to 10m [env: QUEENRIGHT_BACKOFF] [default: 1s]
    #[arg(long, value_name = "DURATION", help_heading = "Handling")]
    pub backoff: Option<String>,
    /// Handle while generating too: for a fleet of one [env: QUEENRIGHT_ALSO_HANDLE]
    #[arg(long, help_heading = "Handling")]
    pub also_handle: bool,

    /// Time between messages; 0 is flat out [env: QUEENRIGHT_INTERVAL] [default: 500ms; 0 for --generate COMMAND]
    #[arg(long, value_name = "DURATION", help_heading = "Generating")]
    pub interval: Option<String>,
    /// Generate numbers below this, fleet-wide; nobody exits [env: QUEENRIGHT_MESSAGES] [default: no end]
    #[arg(long, value_name = "N", help_heading = "Generating")]
    pub messages: Option<String>,
    /// `counter`: the number as text, from 0; `text`: random words with epoch and number; `tick`: the time of the tick. Or a
    /// command that lives on: each line that it prints is a message. It is started with each reign, told where to go on
    /// (QUEENRIGHT_NUMBER, _EPOCH, _CURSOR: the last message) and stopped with it. Or -: the lines of stdin
    /// [env: QUEENRIGHT_GENERATE] [default: counter]
    #[arg(
        long,
        value_name = "counter|text|tick|COMMAND|-",
        allow_hyphen_values = true,
        help_heading = "Generating"
    )]
    pub generate: Option<String>,
    /// Run a command at each tick; what it prints is the message, nothing is none this time
    /// [env: QUEENRIGHT_GENERATE_EACH]
    #[arg(long, value_name = "COMMAND", help_heading = "Generating")]
    pub generate_each: Option<String>,
    /// The command prints {"payload":…,"cursor":…}; the cursor is stored with the message, and the next command is told it
    /// as QUEENRIGHT_CURSOR [env: QUEENRIGHT_GENERATE_JSON]
    #[arg(long, help_heading = "Generating")]
    pub generate_json: bool,
    /// Generate at these times instead of an interval: minute hour day month weekday, or with seconds in front
    /// [env: QUEENRIGHT_CRON]
    #[arg(long, value_name = "'*/5 * * * *'", help_heading = "Generating")]
    pub cron: Option<String>,
    /// The time zone of --cron [env: QUEENRIGHT_TZ] [default: UTC]
    #[arg(long, value_name = "Europe/Berlin", help_heading = "Generating")]
    pub tz: Option<String>,
    /// Times of --cron that passed while nothing ran: `once` makes up for the latest, `skip` for none
    /// [env: QUEENRIGHT_MISSED] [default: once]
    #[arg(long, value_name = "once|skip", help_heading = "Generating")]
    pub missed: Option<String>,
    /// The generator waits while so many messages are queued [env: QUEENRIGHT_MAX_BACKLOG] [default: 1000000]
    #[arg(long, value_name = "N", help_heading = "Generating")]
    pub max_backlog: Option<String>,

    /// Be the generator rather than others, only if there is no other, or never [env: QUEENRIGHT_PREFER] [default: either]
    #[arg(long, value_name = "generator|either|handler|never", help_heading = "Running")]
    pub prefer: Option<String>,
    /// Handle what is there now, and exit; never generates [env: QUEENRIGHT_BURST]
    #[arg(long, help_heading = "Running")]
    pub burst: bool,
    /// How long a copy may be silent before it is given up [env: QUEENRIGHT_LEASE] [default: 2s]
    #[arg(long, value_name = "DURATION", help_heading = "Running")]
    pub lease: Option<String>,
    /// After a signal, how long to finish what is in hand [env: QUEENRIGHT_GRACE] [default: 8s]
    #[arg(long, value_name = "DURATION", help_heading = "Running")]
    pub grace: Option<String>,
    /// Serve /metrics for Prometheus, and /healthz and /readyz, at HOST:PORT (127.0.0.1:9464, 0.0.0.0:9464); figures only,
    /// no payloads [env: QUEENRIGHT_METRICS] [default: nowhere]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Running")]
    pub metrics: Option<String>,
    /// Exit with 69 if there is no Redis at the start, instead of waiting for it [env: QUEENRIGHT_NO_WAIT]
    #[arg(long, help_heading = "Running")]
    pub no_wait: bool,

    /// Serve the dashboard as well [env: QUEENRIGHT_DASHBOARD] [default where: 127.0.0.1:8077]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = LISTEN,
        help_heading = "Dashboard"
    )]
    pub dashboard: Option<String>,
    #[command(flatten)]
    pub serving: Serving,

    /// Where this copy keeps its book: for `demo`, and whoever wants to check the queue from outside.
    #[arg(long, value_name = "FILE", hide = true)]
    pub ledger: Option<PathBuf>,
    /// Every message that is done adds a number of its own to a counter with this prefix: for `verify`.
    #[arg(long, value_name = "PREFIX", hide = true)]
    pub effects: Option<String>,
    /// Stop when stdin ends: a parent that holds the other end takes its copies with it, however it dies.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

impl SharedFlags {
    /// The values that were given, by the option's name.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![
            ("url", self.url.as_deref()),
            ("host", self.host.as_deref()),
            ("port", self.port.as_deref()),
            ("user", self.user.as_deref()),
            ("pass", self.pass.as_deref()),
            ("db", self.db.as_deref()),
            ("queue", self.queue.as_deref()),
            ("log", self.log.as_deref()),
            ("quiet", self.quiet.then_some("true")),
        ]
    }
}

impl StartFlags {
    /// The values that were given, by the option's name.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![
            ("concurrency", self.concurrency.as_deref()),
            ("work", self.work.as_deref()),
            ("error-rate", self.error_rate.as_deref()),
            ("handle", self.handle.as_deref()),
            ("handle-each", self.handle_each.as_deref()),
            ("timeout", self.timeout.as_deref()),
            ("batch", self.batch.as_deref()),
            ("max-deliveries", self.max_deliveries.as_deref()),
            ("max-errors", self.max_errors.as_deref()),
            ("retries", self.retries.as_deref()),
            ("backoff", self.backoff.as_deref()),
            ("also-handle", self.also_handle.then_some("true")),
            ("prefer", self.prefer.as_deref()),
            ("burst", self.burst.then_some("true")),
            ("interval", self.interval.as_deref()),
            ("messages", self.messages.as_deref()),
            ("generate", self.generate.as_deref()),
            ("generate-each", self.generate_each.as_deref()),
            ("generate-json", self.generate_json.then_some("true")),
            ("cron", self.cron.as_deref()),
            ("tz", self.tz.as_deref()),
            ("missed", self.missed.as_deref()),
            ("max-backlog", self.max_backlog.as_deref()),
            ("lease", self.lease.as_deref()),
            ("grace", self.grace.as_deref()),
            ("metrics", self.metrics.as_deref()),
            ("no-wait", self.no_wait.then_some("true")),
            ("dashboard", self.dashboard.as_deref()),
        ]
    }

    /// These, and what only `before` (the part in front of the command word) has.
    fn over(self, before: Self) -> Self {
        Self {
            concurrency: self.concurrency.or(before.concurrency),
            work: self.work.or(before.work),
            error_rate: self.error_rate.or(before.error_rate),
            handle: self.handle.or(before.handle),
            handle_each: self.handle_each.or(before.handle_each),
            timeout: self.timeout.or(before.timeout),
            batch: self.batch.or(before.batch),
            max_deliveries: self.max_deliveries.or(before.max_deliveries),
            max_errors: self.max_errors.or(before.max_errors),
            retries: self.retries.or(before.retries),
            backoff: self.backoff.or(before.backoff),
            also_handle: self.also_handle || before.also_handle,
            prefer: self.prefer.or(before.prefer),
            burst: self.burst || before.burst,
            interval: self.interval.or(before.interval),
            messages: self.messages.or(before.messages),
            generate: self.generate.or(before.generate),
            generate_each: self.generate_each.or(before.generate_each),
            generate_json: self.generate_json || before.generate_json,
            cron: self.cron.or(before.cron),
            tz: self.tz.or(before.tz),
            missed: self.missed.or(before.missed),
            max_backlog: self.max_backlog.or(before.max_backlog),
            lease: self.lease.or(before.lease),
            grace: self.grace.or(before.grace),
            metrics: self.metrics.or(before.metrics),
            no_wait: self.no_wait || before.no_wait,
            dashboard: self.dashboard.or(before.dashboard),
            serving: self.serving.over(before.serving),
            ledger: self.ledger.or(before.ledger),
            effects: self.effects.or(before.effects),
            until_stdin_closes: self.until_stdin_closes || before.until_stdin_closes,
        }
    }
}

/// Shows nothing, since a password may be inside.
impl fmt::Debug for SharedFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFlags").finish_non_exhaustive()
    }
}
