//! The same million in an SQLite file, from the first exec.

use std::path::Path;
use std::time::Instant;

use super::copies::spawn;
use super::measure::{GENERATOR, HANDLER, HANDLERS, LOOK, through};
use super::raw::float;
use super::row::Row;
use super::session::Session;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::copy::Capture;
use crate::engine::sqlite::{Database, SqliteEngine};

pub(super) fn file(session: &Session, load: Load) -> Rows {
    let messages = load.of(1_000_000, 20_000);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..load.rounds {
        let path = session.directory().join(format!("{round}.db"));
        ours.push(in_file(session, &path, messages)?);
        theirs.push(through(session, messages, GENERATOR, (HANDLERS, HANDLER))?.0);
    }
    let row = Row::new("file", "messages/s", ours).beside(theirs);
    Ok(vec![row.note("an SQLite file; baseline: Redis, flat out")])
}

fn in_file(session: &Session, path: &Path, messages: u64) -> Result<f64, Failure> {
    let database = Database {
        path: path.to_path_buf(),
        full: false,
    };
    let engine = SqliteEngine::open(database, "bench", &crate::settings::Names::default())?;
    let url = format!("sqlite:{}", path.display());
    let mut copies = Vec::new();
    for _ in 0..HANDLERS {
        copies.push(spawn(&url, "bench", HANDLER, Capture::Nothing)?);
    }
    let status = || session.status_of(&engine);
    session.until("all copies have joined", LOOK, || {
        Ok(status()?.filter(|status| status.nodes.len() >= HANDLERS).map(drop))
    })?;
    let generator = format!("{GENERATOR} --messages {messages}");
    let mut start = Instant::now();
    copies.push(spawn(&url, "bench", &generator, Capture::Nothing)?);
    session.until("a first message", LOOK, || {
        let published = status()?.map_or(0, |status| status.published);
        if published == 0 {
            start = Instant::now();
        }
        Ok((published > 0).then_some(()))
    })?;
    session.until("all is settled", LOOK, || {
        Ok(status()?.filter(|status| status.done >= messages).map(drop))
    })?;
    Ok(float(messages) / start.elapsed().as_secs_f64())
}
