//! What a command is told: the store, the settings of the library, and what the program itself needs to know.

use std::net::SocketAddr;
use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::program::Program;
use super::token::{Right, Tokens};
use super::value::{Builtin, Generating, Handling, LogFormat, Work};
use crate::api::cron::{Cron, Missed};
use crate::engine::redis::Place;
use crate::engine::sqlite::Database;
use crate::settings::Settings;

/// The host and the port of a Redis that nobody names.
pub const HOST: &str = "localhost";
pub const PORT: u16 = 6379;

/// Everything that a command needs to know, from all sources, checked. [`Resolved::default`] holds the default of every
/// option; an option's entry in the table says what its text changes here.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "options that are given or not")]
pub struct Resolved {
    pub store: Store,
    /// The store for people: never with user or password.
    pub address: String,
    /// Further stores of a queue with shards, each with its address.
    pub others: Vec<(Store, String)>,
    pub settings: Settings,
    pub shards: Shards,
    pub work: Work,
    pub error_rate: f64,
    pub generate: Generating,
    /// What a command generates is JSON, with a cursor.
    pub generate_json: bool,
    /// Instead of an interval.
    pub cron: Option<(Cron, Missed)>,
    pub handle: Handling,
    /// How many processes of `handle` there are, if it is a command that lives on.
    pub workers: Option<u32>,
    /// It never generates, although nobody has said so: it has a handler, and nothing to generate.
    pub only_handles: bool,
    /// Variables that commands get although they may hold a secret.
    pub pass_env: Vec<String>,
    pub log: LogFormat,
    /// More bytes of a payload than these are not logged.
    pub log_payload: u32,
    pub verbose: bool,
    pub quiet: bool,
    pub no_wait: bool,
    /// Where to serve metrics.
    pub metrics: Option<String>,
    /// Where a copy serves the dashboard.
    pub dashboard: Option<SocketAddr>,
    pub serving: Serving,
    /// What the dashboard asks for.
    pub tokens: Tokens,
    /// In the place of the one that `store` has.
    pub password: Option<PasswordFrom>,
    /// Where this copy writes down what it does, for whoever checks the queue from outside.
    pub ledger: Option<PathBuf>,
    /// Every message that is done adds its number to a counter with this prefix.
    pub effects: Option<String>,
    /// Stop when stdin ends.
    pub until_stdin_closes: bool,
    /// Warnings to print at the start.
    pub notes: Vec<String>,
}

/// Where the queue is.
#[derive(Debug, Clone)]
pub enum Store {
    Redis(Box<Place>),
    Sqlite(Database),
}

/// Where the password of each new connection comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    File(PathBuf),
    /// What it prints.
    Command(Program),
}

/// How a dashboard is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Serving {
    pub token_files: Vec<(Right, PathBuf)>,
    pub read_only: bool,
    pub allow_host: Vec<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub behind_tls: bool,
}

/// What was said of the number of shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shards {
    /// Nothing: a new queue has one, and of a queue that is there the recorded number is taken, but by a node.
    #[default]
    Unsaid,
    /// As many as the queue has.
    Recorded,
    /// The number in the settings.
    Given,
}

impl Default for Resolved {
    fn default() -> Self {
        let server = ConnectionAddr::Tcp(HOST.into(), PORT).into_connection_info();
        Self {
            store: Store::Redis(Box::new(Place::at(server.expect("an address")))),
            address: format!("{HOST}:{PORT}"),
            others: Vec::new(),
            settings: Settings::default(),
            shards: Shards::default(),
            work: Work::default(),
            error_rate: 0.15,
            generate: Generating::Builtin(Builtin::Counter),
            generate_json: false,
            cron: None,
            handle: Handling::Builtin,
            workers: None,
            only_handles: false,
            pass_env: Vec::new(),
            log: LogFormat::Text,
            log_payload: 200,
            verbose: false,
            quiet: false,
            no_wait: false,
            metrics: None,
            dashboard: None,
            serving: Serving::default(),
            tokens: Tokens::default(),
            password: None,
            ledger: None,
            effects: None,
            until_stdin_closes: false,
            notes: Vec::new(),
        }
    }
}
