//! Where values come from: flags, then the environment, then a file of variables, then a configuration file, then the
//! defaults. [`resolve`] merges them, and everything it hands out has been checked.
//!
//! | file | reads |
//! | --- | --- |
//! | `layer` | what one source gives, by the option's name |
//! | `dotenv` | files of variables |
//! | `file` | TOML, and the five-line form |
//! | `address` | URL or host and port, user, password, database |

mod address;
mod dotenv;
mod file;
mod layer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

pub use super::resolved::{PasswordFrom, Resolved, Shards, Store};
pub use super::value::{Builtin, Generating, Handling, LogFormat, Work, duration};

use super::options::connection::{SHARDS, URL};
use super::options::generating::{CRON, GENERATE, GENERATE_EACH, INTERVAL, MESSAGES};
use super::options::handling::CONCURRENCY;
use super::options::running::PREFER;
use super::options::sources::{CONFIG, ENV};
use super::options::{self, Effect, Opt};
use super::{Invocation, Usage};
use crate::engine::private;
use crate::error::Error;
use crate::settings::Prefer;
use layer::{Given, Layer, Stack};

/// Larger files than this are no configuration.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const UNASKED: &str = "read since no other source names a Redis";
/// What people set who know the variables of the other options. Whoever sets it would work on another store than they meant.
const NOT_READ: &str = "QUEENRIGHT_URL";

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
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let executable = std::env::current_exe().ok();
    resolve(&Inputs {
        asked,
        environment: &variables.collect(),
        read: &read,
        beside: executable.map(|path| path.with_file_name("config.txt")).as_deref(),
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

/// Merges all sources: each option takes its most specific value, or keeps its default.
pub fn resolve(inputs: &Inputs<'_>) -> Result<Resolved, Usage> {
    let mut notes = Vec::new();
    let stack = stack(inputs, &mut notes)?;
    let mut chosen = address::choose_all(&stack, &mut notes)?.into_iter();
    let first = chosen.next().ok_or_else(|| Usage::new("no store is named"))?;
    let mut resolved = Resolved {
        store: first.store,
        address: first.shown,
        password: first.password,
        others: chosen.map(|other| (other.store, other.shown)).collect(),
        notes,
        ..Resolved::default()
    };
    for option in options::all() {
        if let Some(given) = stack.deciding(option)? {
            apply(option, given, &mut resolved)?;
        }
    }
    together(&stack, &mut resolved);
    share_out(&resolved)?;
    if resolved.settings.burst && resolved.settings.prefer == Prefer::Generator {
        return Err(Usage::new(
            "--burst and --prefer generator exclude each other: a burst handles what is there and never generates; leave one out",
        ));
    }
    let checked = resolved.settings.check();
    checked.map_err(|error| unsettled(&stack, &error))?;
    Ok(resolved)
}

fn apply(option: &Opt, given: &Given, to: &mut Resolved) -> Result<(), Usage> {
    match option.effect {
        Effect::Text(read) => read(to, given.text().trim()).map_err(|reason| given.wrong(&reason))?,
        Effect::Verbatim(set) => given.values.iter().for_each(|value| set(to, &value.to_string_lossy())),
        Effect::Path(set) => given.values.iter().for_each(|value| set(to, value.into())),
        Effect::Address | Effect::Source => {}
    }
    Ok(())
}

/// What options mean for others that were not given.
fn together(stack: &Stack, to: &mut Resolved) {
    let given = |option| stack.get(option).is_some();
    // Lines are published as they come, and a schedule keeps its own time.
    if to.cron.is_some() || (matches!(to.generate, Generating::Lines(_)) && !given(&INTERVAL)) {
        to.settings.interval = Duration::ZERO;
    }
    if to.cron.is_some() && !given(&GENERATE) && !given(&GENERATE_EACH) {
        to.generate = Generating::Builtin(Builtin::Tick);
    }
    if let Some(workers) = to.workers.filter(|_| !given(&CONCURRENCY)) {
        to.settings.concurrency = workers;
    }
    // Whoever brings a handler and says nothing of generating has a queue that others fill: a counter is no job of theirs.
    let generates = [&GENERATE, &GENERATE_EACH, &CRON, &INTERVAL, &MESSAGES, &PREFER];
    if to.handle != Handling::Builtin && !generates.into_iter().any(given) {
        to.settings.prefer = Prefer::Never;
        to.only_handles = true;
    }
}

/// Whether so many shards can be on these stores. More stores than shards are for a reshard.
fn share_out(to: &Resolved) -> Result<(), Usage> {
    let urls = to.others.len() + 1;
    let shards = to.settings.names.shards;
    let is_file = |store: &Store| matches!(store, Store::Sqlite(_));
    let files = to.others.iter().filter(|(store, _)| is_file(store)).count() + usize::from(is_file(&to.store));
    if files > 0 && files < urls {
        return Err(Usage::new(format!(
            "{}: the shards of one queue are all on servers, or all in files",
            URL.flag()
        )));
    }
    if files > 0 && files < shards as usize {
        return Err(Usage::new(format!(
            "{}: each shard needs a file of its own: give {} {shards} times, with {shards} files",
            SHARDS.flag(),
            URL.flag()
        )));
    }
    Ok(())
}

/// The library names settings; people are told the place where they wrote the value.
fn unsettled(stack: &Stack, error: &Error) -> Usage {
    if let Error::Setting { setting, reason } = error
        && let Some(given) = options::of_setting(setting)
            .filter(|option| option.has_flag)
            .and_then(|option| stack.get(option))
    {
        return given.wrong(reason);
    }
    Usage::new(options::explain(error))
}

fn stack(inputs: &Inputs<'_>, notes: &mut Vec<String>) -> Result<Stack, Usage> {
    let flags = &inputs.asked.flags;
    let mut layers = vec![Layer::of_flags(flags), environment(inputs.environment, None)?];
    if let Some(path) = flags.path(&ENV) {
        let given = dotenv::parse(&open(inputs, &ENV.flag(), path)?)
            .map_err(|wrong| Usage::new(format!("{}:{}: {}", path.display(), wrong.line, wrong.reason)))?;
        let layer = environment(&given, Some(path))?;
        notes.extend(open_secret(&layer, path));
        layers.push(layer);
    }
    if let Some(given) = layers.iter().find_map(|layer| layer.get(&CONFIG)) {
        let path = given.path();
        let layer = file::parse(&path, &open(inputs, &given.origin, &path)?)?;
        notes.extend(open_secret(&layer, &path));
        layers.push(layer);
    } else if let Some(path) = inputs.beside
        && !layers.iter().any(Layer::is_about_the_connection)
        && let Some(text) = beside(inputs, path)?
    {
        let layer = file::five_lines(path, &text).map_err(|usage| Usage::new(format!("{usage} ({UNASKED})")))?;
        notes.extend(open_secret(&layer, path));
        layers.push(layer);
        notes.push(format!("using {}, {UNASKED}", path.display()));
    }
    Ok(Stack(layers))
}

fn environment(variables: &BTreeMap<String, String>, file: Option<&Path>) -> Result<Layer, Usage> {
    if variables.get(NOT_READ).is_some_and(|text| !text.is_empty()) {
        let place = file.map_or_else(String::new, |file| format!(" in {}", file.display()));
        let reason = "the address of the store is read from REDIS_URL: set that instead";
        return Err(Usage::new(format!("{NOT_READ}{place}: {reason}")));
    }
    Ok(Layer::of_environment(variables, file))
}

/// A note, no refusal: such a file is for settings first of all.
fn open_secret(layer: &Layer, path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    (layer.has_secret() && private::is_open_to_others(&file)).then(|| {
        let path = path.display();
        format!("{path} has a password or token in it that every user of this machine may read; run: chmod 600 {path}")
    })
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
