//! Configuration files: TOML with the names of the flags, and the five lines of the original task.

use std::path::Path;

use super::address;
use super::layer::Layer;
use crate::app::args::options;
use crate::app::args::options::connection::{KEYS_BELL, KEYS_CROWN, KEYS_ERRORS, QUEUE, URL};
use crate::app::args::resolved::PORT;
use crate::app::args::{Usage, value};

const FIVE: &str = "the five lines are host:port, queue, error store, notification channel, election channel";

/// Either form: a first line that is a bare `host` or `host:port` cannot be TOML.
pub fn parse(path: &Path, text: &str) -> Result<Layer, Usage> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    if first.is_some_and(|line| address::host_and_port(line).is_some()) {
        five_lines(path, text)
    } else {
        toml(path, text)
    }
}

/// The form of the original task. Its address is a whole, as a URL is.
pub fn five_lines(path: &Path, text: &str) -> Result<Layer, Usage> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim).collect();
    let wrong = |reason: String| Usage::new(format!("{}: {reason}; {FIVE}", path.display()));
    if let Some(blank) = lines.iter().position(|line| line.is_empty()) {
        return Err(wrong(format!("line {} is empty", blank + 1)));
    }
    let &[server, queue, errors, bell, crown] = lines.as_slice() else {
        let count = lines.len();
        return Err(wrong(format!("has {count} line{}", if count == 1 { "" } else { "s" })));
    };
    let Some((host, port)) = address::host_and_port(server) else {
        return Err(wrong("line 1 is no host:port".into()));
    };
    let port = port.map_or(Ok(PORT), value::port);
    let port = port.map_err(|reason| wrong(format!("line 1: {reason}")))?;
    let mut layer = Layer::default();
    let mut set = |option, line, text: String| layer.set(option, text, format!("{}:{line}", path.display()));
    set(&URL, 1, address::url(host, port));
    set(&QUEUE, 2, queue.into());
    set(&KEYS_ERRORS, 3, errors.into());
    set(&KEYS_BELL, 4, bell.into());
    set(&KEYS_CROWN, 5, crown.into());
    Ok(layer)
}

fn toml(path: &Path, text: &str) -> Result<Layer, Usage> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        Usage::new(format!(
            "{}:{line}: this is no TOML: {}",
            path.display(),
            error.message().lines().next().unwrap_or_default()
        ))
    })?;
    let mut layer = Layer::default();
    for (key, value) in &table {
        // The only table in the table.
        if let ("keys", toml::Value::Table(keys)) = (key.as_str(), value) {
            for (key, value) in keys {
                set(&mut layer, path, &format!("keys.{key}"), value)?;
            }
        } else {
            set(&mut layer, path, key, value)?;
        }
    }
    Ok(layer)
}

fn set(layer: &mut Layer, path: &Path, key: &str, value: &toml::Value) -> Result<(), Usage> {
    let origin = format!("{}: {key}", path.display());
    let Some(option) = options::all().find(|option| option.is_in_file && option.name == key) else {
        let known = "the names are those of the flags, and keys.errors, keys.bell, keys.crown";
        return Err(Usage::new(format!("{origin} is not known: {known}")));
    };
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(yes) => yes.to_string(),
        _ => {
            return Err(Usage::new(format!("{origin} must be text, a number, true or false")));
        }
    };
    layer.set(option, text, origin);
    Ok(())
}
