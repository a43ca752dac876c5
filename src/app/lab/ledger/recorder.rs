//! A node's own book: every intent before its call, every confirmation after it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Record;
use crate::engine::private;
use crate::node::event::{Entry, Event, Observer};

pub struct Recorder {
    /// And what is to be written next, kept so that a batch allocates nothing.
    file: Mutex<(File, String)>,
}

impl Recorder {
    pub fn to(path: &Path) -> io::Result<Self> {
        let file = private::append(path)?;
        Ok(Self {
            file: Mutex::new((file, String::new())),
        })
    }

    /// One write for the whole batch: once it returns, a kill -9 cannot take it back.
    fn write(&self, records: impl Iterator<Item = Record>, synced: bool) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, buffer) = &mut *file;
        buffer.clear();
        for record in records {
            record.write(buffer);
        }
        if buffer.is_empty() {
            return;
        }
        let written = file.write_all(buffer.as_bytes());
        if let Err(error) = written.and_then(|()| if synced { file.sync_data() } else { Ok(()) }) {
            // To go on without would make the ledger accuse the queue of what is the ledger's fault.
            let _ = writeln!(io::stderr(), "queenright: cannot write the ledger: {error}");
            std::process::exit(1);
        }
    }
}

impl Observer for Recorder {
    fn wants_messages(&self) -> bool {
        false
    }

    fn wants_starts(&self) -> bool {
        true
    }

    fn observe(&self, node: &str, events: &[Event]) {
        self.write(events.iter().filter_map(|event| Record::of(node, event)), false);
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn intends(&self, _: &str, entries: &[Entry]) {
        // On the disk before the store hears of it: a power cut must not make an outcome without a trace.
        self.write(merged(entries).map(Record::Intends), true);
    }

    fn refuses(&self, _: &str) {
        self.write(std::iter::once(Record::Refused), false);
    }

    fn confirms(&self, _: &str, entries: &[Entry]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.write(merged(entries).map(|entry| Record::Confirmed(entry, ms)), false);
    }
}

/// Neighbours of one kind as one entry.
fn merged(entries: &[Entry]) -> impl Iterator<Item = Entry> + '_ {
    let mut rest = entries.iter().peekable();
    std::iter::from_fn(move || {
        let mut entry = *rest.next()?;
        while let Some(next) = rest.next_if(|next| next.what == entry.what && next.first == entry.first + entry.count) {
            entry.count += next.count;
        }
        Some(entry)
    })
}
