//! The packs that wait: in the queue, to be taken again, or put off until a time.

use rusqlite::params;

use super::{Tables, int};
use crate::engine::store::{Line, Lines};
use crate::error::Result;
use crate::message::Pack;

impl Tables<'_> {
    /// The first (`min`) or the last (`max`) position of a line.
    fn edge(&self, line: Line, which: &str) -> Result<Option<i64>> {
        let sql = format!("SELECT {which}(position) FROM lines WHERE queue = ? AND line = ?");
        let edge = self.one(&sql, params![self.queue, line as i64], |row| {
            row.get::<_, Option<i64>>(0)
        })?;
        Ok(edge.flatten())
    }

    fn put(&self, line: Line, position: i64, pack: &Pack) -> Result<()> {
        self.write(
            "INSERT INTO lines (queue, line, position, pack) VALUES (?, ?, ?, ?)",
            params![self.queue, line as i64, position, &pack.bytes()[..]],
        )
    }
}

impl Lines for Tables<'_> {
    fn front(&mut self, line: Line) -> Result<Option<Pack>> {
        self.pack(
            "SELECT pack FROM lines WHERE queue = ? AND line = ? ORDER BY position LIMIT 1",
            params![self.queue, line as i64],
        )
    }

    fn pop(&mut self, line: Line) -> Result<Option<Pack>> {
        let found = self.one(
            "SELECT rowid, pack FROM lines WHERE queue = ? AND line = ? ORDER BY position LIMIT 1",
            params![self.queue, line as i64],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)),
        )?;
        let Some((row, bytes)) = found else { return Ok(None) };
        self.write("DELETE FROM lines WHERE rowid = ?", params![row])?;
        Pack::decode(bytes.into()).map(Some)
    }

    fn push_front(&mut self, line: Line, pack: &Pack) -> Result<()> {
        let position = self.edge(line, "min")?.unwrap_or(0) - 1;
        self.put(line, position, pack)
    }

    fn push_back(&mut self, line: Line, pack: &Pack) -> Result<()> {
        let position = self.edge(line, "max")?.unwrap_or(0) + 1;
        self.put(line, position, pack)
    }

    fn is_empty(&mut self, line: Line) -> Result<bool> {
        Ok(self.edge(line, "min")?.is_none())
    }

    fn put_off(&mut self, due_ms: u64, message: &Pack) -> Result<()> {
        self.write(
            "INSERT INTO later (queue, due, number, pack) VALUES (?, ?, ?, ?)",
            params![self.queue, int(due_ms), int(message.first()), &message.bytes()[..]],
        )
    }

    fn pop_due(&mut self, until_ms: u64) -> Result<Option<Pack>> {
        let found = self.one(
            "SELECT rowid, pack FROM later WHERE queue = ? AND due <= ? ORDER BY due, number LIMIT 1",
            params![self.queue, int(until_ms)],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)),
        )?;
        let Some((row, bytes)) = found else { return Ok(None) };
        self.write("DELETE FROM later WHERE rowid = ?", params![row])?;
        Pack::decode(bytes.into()).map(Some)
    }

    fn later_count(&mut self) -> Result<u64> {
        self.count("SELECT count(*) FROM later WHERE queue = ?", params![self.queue])
    }
}
