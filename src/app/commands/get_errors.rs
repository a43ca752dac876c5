//! `get-errors`: prints the failed messages and removes them.

use std::io::{self, Write as _};
use std::sync::Arc;

use super::check_queue;
use crate::api::failed::{Show, collect, peek};
use crate::app::args::GetErrors;
use crate::app::exit::Failure;
use crate::app::output::failed::lines;
use crate::engine::{Engine, Failed};

pub(super) async fn run<E: Engine>(engine: Arc<E>, flags: &GetErrors) -> Result<(), Failure> {
    check_queue(&engine).await?;
    let show = Stdout { json: flags.json };
    if flags.keep {
        peek(engine, flags.limit, show).await?;
    } else {
        collect(engine, flags.limit, show).await?;
    }
    Ok(())
}

struct Stdout {
    json: bool,
}

impl Show for Stdout {
    fn show(&mut self, failed: &[Failed]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(lines(failed, self.json).as_bytes())?;
        out.flush()
    }

    fn waits(&mut self, others: u64) {
        let line = match others {
            0 => "the other reader still holds failed messages; they stay among the errors until it has printed them"
                .into(),
            1 => "waiting for another get-errors, which is printing failed messages at the moment".into(),
            _ => format!("waiting for {others} other get-errors, which are printing failed messages at the moment"),
        };
        // Nobody may be listening.
        let _ = writeln!(io::stderr(), "queenright: {line}");
    }
}
