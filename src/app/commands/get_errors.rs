//! `get-errors`: prints the failed messages and removes them.

use std::io::{self, Write as _};
use std::sync::Arc;

use crate::api::failed::{collect, peek};
use crate::app::args::GetErrors;
use crate::app::exit::Failure;
use crate::app::output::failed::lines;
use crate::engine::{Engine, Failed};

pub(super) async fn run<E: Engine>(engine: Arc<E>, flags: &GetErrors) -> Result<(), Failure> {
    engine.check().await?;
    let json = flags.json;
    let show = move |failed: &[Failed]| -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(lines(failed, json).as_bytes())?;
        out.flush()
    };
    if flags.keep {
        peek(engine, flags.limit, show).await?;
    } else {
        collect(engine, flags.limit, show).await?;
    }
    Ok(())
}
