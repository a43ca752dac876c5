use std::io::Write;
use std::process::ExitCode;

use queenright::app::args::sources;
use queenright::app::args::{self, Stop};
use queenright::app::commands;
use queenright::event::escape;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err((line, code)) => {
            // Nobody may be listening; the exit code says the same.
            let _ = writeln!(std::io::stderr(), "queenright: {}", escape(line.as_bytes()));
            ExitCode::from(code)
        }
    }
}

fn run() -> Result<ExitCode, (String, u8)> {
    let usage = |usage: args::Usage| (usage.to_string(), 2);
    let asked = match args::parse(std::env::args_os()) {
        Ok(asked) => asked,
        Err(Stop::Show(text)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
        Err(Stop::Usage(wrong)) => return Err(usage(wrong)),
    };
    let resolved = sources::of_this_process(&asked).map_err(usage)?;
    commands::run(&asked, resolved).map_err(|failure| (failure.line, failure.code))
}
