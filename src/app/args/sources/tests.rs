//! How sources are merged, and every mistake in them.

mod address;
mod files;
mod precedence;
mod values;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use redis::ConnectionAddr;

use super::{Builtin, Generating, Handling, Inputs, LogFormat, Resolved, Store, resolve};
use crate::api::cron::{Cron, Missed};
use crate::app::args::parse;
use crate::app::args::program::Program;

const FIVE: &str = "db5:7005\nfivequeue\nbad\nding\nthrone\n";

/// A command line, an environment and files, none of them real.
#[derive(Default)]
struct Case {
    line: Vec<&'static str>,
    environment: BTreeMap<String, String>,
    files: BTreeMap<&'static str, String>,
}

fn case(line: &'static str) -> Case {
    Case {
        line: line.split_whitespace().collect(),
        ..Case::default()
    }
}

impl Case {
    fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    fn file(mut self, path: &'static str, text: &str) -> Self {
        self.files.insert(path, text.into());
        self
    }

    fn run(&self) -> Result<Resolved, String> {
        let asked = parse(std::iter::once("queenright").chain(self.line.iter().copied())).expect("parses");
        let read = |path: &Path| match self.files.get(path.to_str().unwrap_or_default()) {
            Some(text) => Ok(text.clone()),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let inputs = Inputs {
            asked: &asked,
            environment: &self.environment,
            read: &read,
            beside: Some(Path::new("/bin/config.txt")),
        };
        resolve(&inputs).map_err(|usage| usage.to_string())
    }

    fn good(&self) -> Resolved {
        self.run().expect("resolves")
    }

    fn line(&self) -> String {
        let line = self.run().map(|resolved| resolved.address).expect_err("is refused");
        assert!(!line.contains('\n') && !line.contains("secret"), "{line}");
        line
    }
}

fn server(resolved: &Resolved) -> &redis::ConnectionInfo {
    match &resolved.store {
        Store::Redis(place) => &place.info,
        Store::Sqlite(_) => panic!("a file"),
    }
}

fn password(resolved: &Resolved) -> Option<&str> {
    server(resolved).redis_settings().password()
}

fn user(resolved: &Resolved) -> Option<&str> {
    server(resolved).redis_settings().username()
}
