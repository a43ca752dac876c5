//! Where values come from: flags, then the environment, then a file of variables, then a configuration file, then the
//! defaults. [`resolve`] merges them, and everything it hands out has been checked.
//!
//! | file | reads |
//! | --- | --- |
//! | `layer` | what one source gives, by the option's name |
//! | `dotenv` | files of variables |
//! | `file` | TOML, and the five-line form |
//! | `address` | URL or host and port, user, password, database |
//! | `value` | durations, numbers, choices |

mod address;
mod dotenv;
mod file;
mod layer;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::api::cron::{Cron, Missed};
use crate::app::args::program::Program;
use crate::app::args::token::Token;
use crate::app::args::{Invocation, Usage};
use crate::error::Error;
use crate::settings::Names;
use crate::settings::Settings;
pub use address::Store;
use layer::{Given, Layer, Stack};
pub use value::{Builtin, Generating, Handling, LogFormat, Work, duration};

/// Larger files than this are no configuration.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const UNASKED: &str = "read since no other source names a Redis";

/// Everything that a command needs to know.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub store: Store,
    /// The store for people: never with user or password.
    pub address: String,
    pub settings: Settings,
    pub work: Work,
    pub error_rate: f64,
    pub generate: Generating,
    /// What a command generates is JSON, with a cursor.
    pub generate_json: bool,
    /// Instead of an interval.
    pub cron: Option<(Cron, Missed)>,
    pub handle: Handling,
    pub log: LogFormat,
    pub verbose: u8,
    pub quiet: bool,
    pub no_wait: bool,
    /// Where to serve metrics.
    pub metrics: Option<String>,
    /// Where a copy serves the dashboard.
    pub dashboard: Option<SocketAddr>,
    /// What the dashboard asks for.
    pub token: Option<Token>,
    /// Warnings to print at the start.
    pub notes: Vec<String>,
}

/// What there is to merge. Nothing else is looked at, so that tests need no process of their own.
pub struct Inputs<'a> {
    pub asked: &'a Invocation,
    pub environment: &'a BTreeMap<String, String>,
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    /// `config.txt` beside the executable, whether or not it exists.
    pub beside: Option<&'a Path>,
}

/// [`resolve`] with the environment, the files and the executable of this process.
pub fn of_this_process(asked: &Invocation) -> Result<Resolved, Usage> {
    let environment = std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect();
    let beside = std::env::current_exe()
        .ok()
        .map(|path| path.with_file_name("config.txt"));
    resolve(&Inputs {
        asked,
        environment: &environment,
        read: &read,
        beside: beside.as_deref(),
    })
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 1 MB"));
    }
    Ok(text)
}

/// Merges all sources, the most specific first.
pub fn resolve(inputs: &Inputs<'_>) -> Result<Resolved, Usage> {
    let mut notes = Vec::new();
    let stack = stack(inputs, &mut notes)?;
    let address = address::choose(&stack, &mut notes)?;
    let mut settings = settings(&stack)?;
    let cron = cron(&stack)?;
    let generate = generating(&stack, cron.is_some())?;
    // Lines are published as they come, and a schedule keeps its own time.
    if cron.is_some() || (matches!(generate, Generating::Lines(_)) && stack.get("interval").is_none()) {
        settings.interval = Duration::ZERO;
    }
    settings.check().map_err(|error| unsettled(&stack, &error))?;
    Ok(Resolved {
        store: address.store,
        address: address.shown,
        settings,
        work: stack.parse("work", value::work)?.unwrap_or_default(),
        error_rate: stack.parse("error-rate", value::rate)?.unwrap_or(0.15),
        generate_json: generate_json(&stack, &generate)?,
        generate,
        cron,
        handle: handling(&stack)?,
        log: stack.parse("log", value::log)?.unwrap_or(LogFormat::Text),
        verbose: inputs.asked.shared.verbose,
        quiet: stack.parse("quiet", value::yes)?.unwrap_or(false),
        no_wait: stack.parse("no-wait", value::yes)?.unwrap_or(false),
        metrics: stack.parse("metrics", value::place)?,
        dashboard: stack.parse("dashboard", value::dashboard)?,
        token: stack.parse("token", Token::new)?,
        notes,
    })
}

/// The most specific source that says something about it decides; in one source, both are a mistake.
fn handling(stack: &Stack) -> Result<Handling, Usage> {
    for layer in &stack.0 {
        match (layer.get("handle"), layer.get("handle-each")) {
            (Some(one), Some(other)) => return Err(either(one, other)),
            (Some(given), None) => return given.parse(value::handler),
            (None, Some(given)) => return given.parse(Program::parse).map(Handling::Each),
            (None, None) => {}
        }
    }
    Ok(Handling::Builtin)
}

fn generating(stack: &Stack, scheduled: bool) -> Result<Generating, Usage> {
    for layer in &stack.0 {
        match (layer.get("generate"), layer.get("generate-each")) {
            (Some(one), Some(other)) => return Err(either(one, other)),
            (Some(given), None) => return given.parse(value::generator),
            (None, Some(given)) => return given.parse(Program::parse).map(Generating::Each),
            (None, None) => {}
        }
    }
    let builtin = if scheduled { Builtin::Tick } else { Builtin::Counter };
    Ok(Generating::Builtin(builtin))
}

fn generate_json(stack: &Stack, generate: &Generating) -> Result<bool, Usage> {
    let json = stack.parse("generate-json", value::yes)?.unwrap_or(false);
    match (json, generate, stack.get("generate-json")) {
        (true, Generating::Builtin(_), Some(given)) => Err(Usage::new(format!(
            "{}: this is about what a command prints: give one with --generate or --generate-each",
            given.origin
        ))),
        _ => Ok(json),
    }
}

/// A schedule, unless a more specific source asks for an interval.
fn cron(stack: &Stack) -> Result<Option<(Cron, Missed)>, Usage> {
    let mut pattern = None;
    for layer in &stack.0 {
        match (layer.get("cron"), layer.get("interval")) {
            (Some(one), Some(other)) => return Err(either(one, other)),
            (Some(given), None) => pattern = Some(given),
            (None, Some(_)) => {}
            (None, None) => continue,
        }
        break;
    }
    let missed = stack.parse("missed", value::missed)?.unwrap_or_default();
    let zone = stack.parse("tz", |text| Cron::zone(text).map(|_| text.to_string()))?;
    let zone = zone.as_deref().unwrap_or("UTC");
    let cron = pattern
        .map(|given| given.parse(|text| Cron::new(text, zone)))
        .transpose()?;
    for name in ["tz", "missed"] {
        if let (None, Some(given)) = (&cron, stack.get(name)) {
            return Err(Usage::new(format!("{}: this needs --cron", given.origin)));
        }
    }
    Ok(cron.map(|cron| (cron, missed)))
}

fn either(one: &Given, other: &Given) -> Usage {
    Usage::new(format!(
        "{} and {} exclude each other: give one of them",
        one.origin, other.origin
    ))
}

fn stack(inputs: &Inputs<'_>, notes: &mut Vec<String>) -> Result<Stack, Usage> {
    let shared = &inputs.asked.shared;
    let flags = Layer::of_flags(shared.values().into_iter().chain(inputs.asked.start.values()));
    let mut layers = vec![flags, Layer::of_environment(inputs.environment, None)];
    let mut variables = inputs.environment.clone();
    if let Some(path) = &shared.env {
        let given = dotenv::parse(&open(inputs, "--env", path)?)
            .map_err(|wrong| Usage::new(format!("{}:{}: {}", path.display(), wrong.line, wrong.reason)))?;
        layers.push(Layer::of_environment(&given, Some(path)));
        for (name, value) in given {
            let real = variables.entry(name).or_default();
            if real.is_empty() {
                *real = value;
            }
        }
    }
    let named = variables.get("QUEENRIGHT_CONFIG").filter(|path| !path.is_empty());
    let config = match (&shared.config, named) {
        (Some(path), _) => Some(("--config", path.clone())),
        (None, Some(path)) => Some(("QUEENRIGHT_CONFIG", PathBuf::from(path))),
        (None, None) => None,
    };
    if let Some((origin, path)) = config {
        layers.push(file::parse(&path, &open(inputs, origin, &path)?)?);
    } else if let Some(path) = inputs.beside
        && !layers.iter().any(Layer::is_about_the_connection)
        && let Some(text) = beside(inputs, path)?
    {
        let layer = file::five_lines(path, &text).map_err(|usage| Usage::new(format!("{usage} ({UNASKED})")))?;
        layers.push(layer);
        notes.push(format!("using {}, {UNASKED}", path.display()));
    }
    Ok(Stack(layers))
}

/// The `config.txt` that nobody asked for may be absent, but not unreadable: that would mean another Redis.
fn beside(inputs: &Inputs<'_>, path: &Path) -> Result<Option<String>, Usage> {
    match (inputs.read)(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => reading(path, read)
            .map(Some)
            .map_err(|reason| Usage::new(format!("{reason} ({UNASKED})"))),
    }
}

fn open(inputs: &Inputs<'_>, origin: &str, path: &Path) -> Result<String, Usage> {
    reading(path, (inputs.read)(path)).map_err(|reason| Usage::new(format!("{origin}: {reason}")))
}

fn reading(path: &Path, read: io::Result<String>) -> Result<String, String> {
    read.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_string(),
            io::ErrorKind::InvalidData => "it is not UTF-8 text".to_string(),
            _ => error.to_string(),
        };
        format!("cannot read {}: {reason}", path.display())
    })
}

fn settings(stack: &Stack) -> Result<Settings, Usage> {
    let base = Settings::default();
    let text = |name: &str, default: String| stack.get(name).map_or(default, |given| given.text.clone());
    Ok(Settings {
        names: Names {
            errors: text("keys.errors", base.names.errors),
            bell: text("keys.bell", base.names.bell),
            crown: text("keys.crown", base.names.crown),
        },
        queue: text("queue", base.queue),
        concurrency: stack.parse("concurrency", value::whole)?.unwrap_or(base.concurrency),
        interval: stack.parse("interval", value::duration)?.unwrap_or(base.interval),
        messages: stack.parse("messages", value::whole)?.or(base.messages),
        lease: stack.parse("lease", value::duration)?.unwrap_or(base.lease),
        batch: stack.parse("batch", value::whole)?.or(base.batch),
        grace: stack.parse("grace", value::duration)?.unwrap_or(base.grace),
        backlog_max: stack.parse("max-backlog", value::whole)?.unwrap_or(base.backlog_max),
        deliveries_max: stack
            .parse("max-deliveries", value::whole)?
            .unwrap_or(base.deliveries_max),
        errors_max: stack.parse("max-errors", value::whole)?.or(base.errors_max),
        retries: stack.parse("retries", value::whole)?.unwrap_or(base.retries),
        backoff: stack.parse("backoff", value::duration)?.unwrap_or(base.backoff),
        timeout: stack.parse("timeout", value::duration)?.or(base.timeout),
        also_handle: stack.parse("also-handle", value::yes)?.unwrap_or(base.also_handle),
        prefer: stack.parse("prefer", value::prefer)?.unwrap_or(base.prefer),
        burst: stack.parse("burst", value::yes)?.unwrap_or(base.burst),
    })
}

/// The library names flags; people are told the place where they wrote the value.
fn unsettled(stack: &Stack, error: &Error) -> Usage {
    if let Error::Setting { setting, reason } = error
        && let Some(given) = setting.strip_prefix("--").and_then(|name| stack.get(name))
    {
        return Usage::new(format!("{}: {reason}", given.origin));
    }
    Usage::new(error.to_string())
}
