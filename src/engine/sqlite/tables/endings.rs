//! What is kept of messages whose outcomes are asked for.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Tables, int, uint};
use crate::engine::record;
use crate::engine::store::{Asked, Endings};
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
}
