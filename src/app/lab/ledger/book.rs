//! One node's book, read while it is written.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Numbers, Record};
use crate::node::event::{Entry, What};

/// At most so much at a time.
const READ_BYTES_MAX: u64 = 256 * 1024;

pub struct Book {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end is not written yet. Of a killed node it may never be: then the call that it
    /// speaks of was not sent, or its intent stands before it.
    torn: Vec<u8>,
    /// What the node holds.
    hand: Numbers,
    pub done: u64,
    pub errors: u64,
    pub published: u64,
    /// When the node published last, in milliseconds since 1970, and the number of that message.
    pub last_published: Option<(u64, u64)>,
}

impl Book {
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            file: None,
            torn: Vec::new(),
            hand: Numbers::default(),
            done: 0,
            errors: 0,
            published: 0,
            last_published: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The next records, and whether there may be more of them.
    pub(super) fn read(&mut self) -> io::Result<(Vec<Record>, bool)> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut records = Vec::new();
        let Some(file) = &mut self.file else {
            return Ok((records, false));
        };
        let read = file.take(READ_BYTES_MAX).read_to_end(&mut self.torn)?;
        let whole = self
            .torn
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        for line in String::from_utf8_lossy(&self.torn[..whole]).lines() {
            let record = Record::read(line)
                .ok_or_else(|| io::Error::other(format!("{}: no record: {line}", self.path.display())))?;
            records.push(record);
        }
        self.torn.drain(..whole);
        for record in &records {
            self.enter(record);
        }
        Ok((records, read as u64 == READ_BYTES_MAX))
    }

    fn enter(&mut self, record: &Record) {
        match record {
            Record::Confirmed(Entry { first, count, what }, ms) => match what {
                What::Chain { .. } => {}
                What::Publish { .. } => {
                    self.published += count;
                    self.last_published = Some((*ms, first + count - 1));
                }
                What::Take { .. } => self.hand.insert(*first, *count),
                What::Done | What::Error | What::Return => {
                    self.hand.remove(*first, *count);
                    self.done += if *what == What::Done { *count } else { 0 };
                    self.errors += if *what == What::Error { *count } else { 0 };
                }
            },
            // A new member begins with empty hands.
            Record::Joined { .. } | Record::Left | Record::Deposed { epoch: None } => self.close(),
            _ => {}
        }
    }

    pub(super) fn close(&mut self) {
        self.hand = Numbers::default();
    }

    pub fn in_hand(&self) -> u64 {
        self.hand.len()
    }

    /// The first of what it holds.
    pub fn holds(&self) -> Option<u64> {
        self.hand.iter().next()
    }
}
