//! A node's own book: every intent before its call, every confirmation after it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Record;
use crate::engine::private;
use crate::engine::sharded::shard_of_node;
use crate::node::event::{Entry, Event, Observer};

pub struct Recorder {
    path: PathBuf,
    /// One for each shard: what a node does in one is a matter of that one alone.
    books: RwLock<Vec<Arc<Mutex<Book>>>>,
}

/// The file, and what is to be written next, kept so that a batch allocates nothing.
type Book = (File, String);

/// The book of a shard, beside that of the home shard.
pub fn book_of_shard(path: &Path, shard: usize) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    if shard > 0 {
        name.push(format!("-shard-{shard}"));
    }
    name.into()
}

impl Recorder {
    pub fn to(path: &Path) -> io::Result<Self> {
        Self::of_shards(path, 1)
    }

    pub fn of_shards(path: &Path, shards: usize) -> io::Result<Self> {
        let books = (0..shards.max(1)).map(|shard| book(path, shard));
        Ok(Self {
            path: path.into(),
            books: RwLock::new(books.collect::<io::Result<_>>()?),
        })
    }

    /// That of a shard; a reshard may have added it.
    fn book(&self, shard: usize) -> io::Result<Arc<Mutex<Book>>> {
        if let Some(book) = self.books.read().unwrap_or_else(PoisonError::into_inner).get(shard) {
            return Ok(book.clone());
        }
        let mut books = self.books.write().unwrap_or_else(PoisonError::into_inner);
        while books.len() <= shard {
            let next = book(&self.path, books.len())?;
            books.push(next);
        }
        Ok(books[shard].clone())
    }

    /// One write for the whole batch: once it returns, a kill -9 cannot take it back.
    fn write(&self, node: &str, records: impl Iterator<Item = Record>, synced: bool) {
        let book = match self.book(shard_of_node(node)) {
            Ok(book) => book,
            Err(error) => cannot_write(&error),
        };
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, buffer) = &mut *book;
        buffer.clear();
        for record in records {
            record.write(buffer);
        }
        if buffer.is_empty() {
            return;
        }
        let written = file.write_all(buffer.as_bytes());
        if let Err(error) = written.and_then(|()| if synced { file.sync_data() } else { Ok(()) }) {
            cannot_write(&error);
        }
    }
}

fn book(path: &Path, shard: usize) -> io::Result<Arc<Mutex<Book>>> {
    let file = private::append(&book_of_shard(path, shard))?;
    Ok(Arc::new(Mutex::new((file, String::new()))))
}

/// To go on without would make the ledger accuse the queue of what is the ledger's fault.
fn cannot_write(error: &io::Error) -> ! {
    let _ = writeln!(io::stderr(), "queenright: cannot write the ledger: {error}");
    std::process::exit(1)
}

impl Observer for Recorder {
    fn wants_messages(&self) -> bool {
        false
    }

    fn wants_starts(&self) -> bool {
        true
    }

    fn observe(&self, node: &str, events: &[Event]) {
        // All of the other shards is told by itself.
        if shard_of_node(node) == 0 {
            self.observe_shard(node, events);
        }
    }

    fn observe_shard(&self, node: &str, events: &[Event]) {
        self.write(node, events.iter().filter_map(|event| Record::of(node, event)), false);
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn intends(&self, node: &str, entries: &[Entry]) {
        // On the disk before the store hears of it: a power cut must not make an outcome without a trace.
        self.write(node, merged(entries).map(Record::Intends), true);
    }

    fn refuses(&self, node: &str) {
        self.write(node, std::iter::once(Record::Refused), false);
    }

    fn confirms(&self, node: &str, entries: &[Entry]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.write(node, merged(entries).map(|entry| Record::Confirmed(entry, ms)), false);
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
