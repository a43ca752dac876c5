//! The program: the command line and all that is behind it. No part of the library's API.
//!
//! Each of these uses only those above it:
//!
//! | module | |
//! | --- | --- |
//! | [`base64`] | bytes as text |
//! | [`args`] | flags, variables and files, read into one set of values |
//! | `exit`, `run` | how a command ends, and what every command needs around it |
//! | `on_engine` | opens the engine of a store for a command |
//! | [`output`] | what people and programs read: log, JSON, tables, the terminal's screen |
//! | `http`, `metrics` | a small server, and the figures for Prometheus |
//! | [`outside`] | other programs as handlers and generators |
//! | [`lab`] | what `demo`, `verify` and `bench` share |
//! | [`dashboard`] | the page and its API |
//! | [`commands`] | one file per command |

pub mod base64;

pub mod args;

mod exit;
mod run;

mod on_engine;

pub mod output;

mod http;
mod metrics;

pub mod outside;

pub mod lab;

pub mod dashboard;

pub mod commands;

use std::io::Write;
use std::process::ExitCode;

use crate::node::event::escape;
use args::{Stop, sources};
use exit::Failure;

/// Reads the command line, adds what the environment and files say, and runs the command. What goes wrong is one line on
/// stderr, and the exit code that belongs to it.
#[must_use]
pub fn run() -> ExitCode {
    let asked = match args::parse(std::env::args_os()) {
        Ok(asked) => asked,
        Err(Stop::Show(text)) => return show(&text),
        Err(Stop::Usage(wrong)) => return fail(&Failure::usage(wrong.to_string())),
    };
    let resolved = match sources::of_this_process(&asked) {
        Ok(resolved) => resolved,
        Err(wrong) => return fail(&Failure::usage(wrong.to_string())),
    };
    match commands::run(&asked, resolved) {
        Ok(code) => code,
        Err(failure) => fail(&failure),
    }
}

/// Help, or the version.
fn show(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(failure: &Failure) -> ExitCode {
    // Nobody may be listening; the exit code says the same.
    let _ = writeln!(std::io::stderr(), "queenright: {}", escape(failure.line.as_bytes()));
    ExitCode::from(failure.code)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn each_module_uses_only_those_that_are_declared_above_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/app");
        let text = fs::read_to_string(root.with_extension("rs")).expect("this file");
        let declared = text.lines().filter_map(|line| {
            let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
            name.strip_suffix(';')
        });
        let order: Vec<&str> = declared.collect();
        let place = |name: &str| order.iter().position(|module| *module == name);
        let mut files = Vec::new();
        sources(&root, &mut files);
        assert!(files.len() > 100, "{} files are not all", files.len());
        for file in files {
            let inside = file.strip_prefix(&root).expect("below it").with_extension("");
            let own = inside.iter().next().and_then(|name| name.to_str()).expect("a name");
            let own_place = place(own).unwrap_or_else(|| panic!("{own} is not declared"));
            let text = fs::read_to_string(&file).expect("readable");
            for used in text.split("crate::app::").skip(1) {
                let name = used.split(|c: char| c != '_' && !c.is_alphanumeric()).next();
                // `pub(in crate::app)` and doc links to this module have no name behind it.
                let Some(used_place) = name.and_then(place) else {
                    continue;
                };
                assert!(
                    used_place <= own_place,
                    "{} uses {}, which is declared below {own}: what both need belongs into a module above both, so that one \
                     can read from the top down",
                    file.display(),
                    order[used_place]
                );
            }
        }
    }
}
