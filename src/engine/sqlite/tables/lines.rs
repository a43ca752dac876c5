//! The packs that wait: in the queue, to be taken again, or put off until a time.

use rusqlite::params;

use super::{Tables, int, uint};
use crate::engine::limits::{FOUND_BYTES_MAX, FOUND_MAX};
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

    /// The first pack of a line, and its row.
    fn first(&self, line: Line) -> Result<Option<(i64, Pack)>> {
        let first = self.sound_packs(
            "lines",
            "SELECT rowid, pack FROM lines WHERE queue = ? AND line = ? ORDER BY position LIMIT 1",
            (self.queue, line as i64),
            usize::MAX,
        )?;
        Ok(first.into_iter().next())
    }

    /// Whether a message is among the first packs of a line or, in the queue, where its number belongs behind these; and how many packs the
    /// line has at most.
    pub(super) fn line_has(&self, line: Line, number: u64) -> Result<(bool, usize)> {
        let (Some(from), Some(to)) = (self.edge(line, "min")?, self.edge(line, "max")?) else {
            return Ok((false, 0));
        };
        let length = usize::try_from(to - from + 1).unwrap_or(usize::MAX);
        let sql = "SELECT rowid, pack FROM lines WHERE queue = ? AND line = ? ORDER BY position LIMIT ?";
        let of_first = (self.queue, line as i64, int(FOUND_MAX as u64));
        let first = self.sound_packs("lines", sql, of_first, FOUND_BYTES_MAX)?;
        if first.iter().any(|(_, pack)| pack.has(number)) {
            return Ok((true, length));
        }
        if first.len() == length {
            return Ok((false, length));
        }
        let (mut low, mut high) = (from, to + 1);
        while line == Line::Queue && low < high {
            let middle = low + (high - low) / 2;
            let sql = "SELECT rowid, pack FROM lines WHERE queue = ? AND line = 0 AND position >= ? ORDER BY position LIMIT 1";
            let found = self.sound_packs("lines", sql, (self.queue, middle), usize::MAX)?;
            match found.first() {
                Some((_, pack)) if pack.has(number) => return Ok((true, length)),
                Some((_, pack)) if pack.first() < number => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok((false, usize::MAX))
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
        Ok(self.first(line)?.map(|(_, pack)| pack))
    }

    fn pop(&mut self, line: Line) -> Result<Option<Pack>> {
        let Some((row, pack)) = self.first(line)? else {
            return Ok(None);
        };
        self.write("DELETE FROM lines WHERE rowid = ?", params![row])?;
        Ok(Some(pack))
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
        let due = self.sound_packs(
            "later",
            "SELECT rowid, pack FROM later WHERE queue = ? AND due <= ? ORDER BY due, number LIMIT 1",
            (self.queue, int(until_ms)),
            usize::MAX,
        )?;
        let Some((row, pack)) = due.into_iter().next() else {
            return Ok(None);
        };
        self.write("DELETE FROM later WHERE rowid = ?", params![row])?;
        Ok(Some(pack))
    }

    fn last_due(&mut self) -> Result<Option<u64>> {
        let sql = "SELECT due FROM later WHERE queue = ? ORDER BY due DESC LIMIT 1";
        self.one(sql, params![self.queue], |row| uint(row, 0))
    }

    fn later_count(&mut self) -> Result<u64> {
        self.count("SELECT count(*) FROM later WHERE queue = ?", params![self.queue])
    }
}
