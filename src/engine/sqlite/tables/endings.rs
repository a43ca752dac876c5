//! What is kept of messages whose outcomes are asked for.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Tables, int, uint};
use crate::engine::limits::FOUND_MAX;
use crate::engine::record;
use crate::engine::store::{Asked, Endings, Line, Waits};
use crate::error::Result;

/// Whether a message has ended whose outcome is asked for, without a transaction.
pub(in crate::engine::sqlite) fn has_ended(
    connection: &Connection,
    queue: &str,
    number: u64,
) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM asked WHERE queue = ? AND number = ? AND ended IS NOT NULL")?;
    let found = statement
        .query_row(params![queue, int(number)], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

impl Endings for Tables<'_> {
    fn asked(&mut self, number: u64) -> Result<Option<Asked>> {
        self.record(
            "SELECT record FROM asked WHERE queue = ? AND number = ?",
            params![self.queue, int(number)],
        )
    }

    fn set_asked(&mut self, number: u64, asked: &Asked) -> Result<()> {
        let ended = match asked {
            Asked::Waits { .. } => None,
            Asked::Ended(ending) => Some(int(ending.time_ms)),
        };
        self.write(
            "INSERT OR REPLACE INTO asked (queue, number, ended, record) VALUES (?, ?, ?, ?)",
            params![self.queue, int(number), ended, record::encode(asked)],
        )
    }

    fn forget_asked(&mut self, number: u64) -> Result<()> {
        self.write(
            "DELETE FROM asked WHERE queue = ? AND number = ?",
            params![self.queue, int(number)],
        )
    }

    fn first_endings(&mut self, limit: usize) -> Result<Vec<(u64, u64)>> {
        self.all(
            "SELECT ended, number FROM asked WHERE queue = ? AND ended IS NOT NULL ORDER BY ended, number LIMIT ?",
            params![self.queue, int(limit as u64)],
            |row| Ok((uint(row, 0)?, uint(row, 1)?)),
        )
    }

    fn endings_count(&mut self) -> Result<u64> {
        self.count(
            "SELECT count(*) FROM asked WHERE queue = ? AND ended IS NOT NULL",
            params![self.queue],
        )
    }

    fn waits(&mut self, number: u64) -> Result<Waits> {
        let most = int(FOUND_MAX as u64);
        let later = self.all(
            "SELECT due, number FROM later WHERE queue = ? ORDER BY due, number LIMIT ?",
            params![self.queue, most + 1],
            |row| Ok((uint(row, 0)?, uint(row, 1)?)),
        )?;
        if let Some((due_ms, _)) = later.iter().take(FOUND_MAX).find(|(_, put_off)| *put_off == number) {
            return Ok(Waits::Until(*due_ms));
        }
        let grouped = self.all(
            "SELECT number FROM grouped WHERE queue = ? LIMIT ?",
            params![self.queue, most + 1],
            |row| uint(row, 0),
        )?;
        let mut waits = grouped.iter().take(FOUND_MAX).any(|grouped| *grouped == number);
        let mut seen = later.len().max(grouped.len()) <= FOUND_MAX;
        for line in [Line::Queue, Line::Again] {
            let (found, length) = self.line_has(line, number)?;
            waits |= found;
            seen &= length <= FOUND_MAX;
        }
        Ok(match (waits, seen) {
            (true, _) => Waits::Now,
            (false, true) => Waits::Nowhere,
            (false, false) => Waits::Unseen,
        })
    }
}
