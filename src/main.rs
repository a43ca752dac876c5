use std::process::ExitCode;

fn main() -> ExitCode {
    queenright::app::run()
}
