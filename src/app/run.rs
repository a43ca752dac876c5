//! The program from its start to its end.

use std::io::Write;
use std::process::ExitCode;

use crate::app::args::{self, Stop, sources};
use crate::app::commands::{self, WRONG_USAGE};
use crate::node::event::escape;

/// Reads the command line, adds what the environment and files say, and runs the command. What goes wrong is one line on
/// stderr, and the exit code that belongs to it.
#[must_use]
pub fn run() -> ExitCode {
    let asked = match args::parse(std::env::args_os()) {
        Ok(asked) => asked,
        Err(Stop::Show(text)) => return show(&text),
        Err(Stop::Usage(wrong)) => return fail(&wrong.to_string(), WRONG_USAGE),
    };
    let resolved = match sources::of_this_process(&asked) {
        Ok(resolved) => resolved,
        Err(wrong) => return fail(&wrong.to_string(), WRONG_USAGE),
    };
    match commands::run(&asked, resolved) {
        Ok(code) => code,
        Err(failure) => fail(&failure.line, failure.code),
    }
}

/// Help, or the version.
fn show(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(line: &str, code: u8) -> ExitCode {
    // Nobody may be listening; the exit code says the same.
    let _ = writeln!(std::io::stderr(), "queenright: {}", escape(line.as_bytes()));
    ExitCode::from(code)
}
