//! The failed messages, and what their readers are printing.

use rusqlite::{Params, params};

use super::{Tables, int, uint};
use crate::engine::store::Errors;
use crate::engine::{Failed, record};
use crate::error::Result;

impl Tables<'_> {
    fn sound_errors(&self, sql: &str, params: impl Params + Copy, bytes_max: usize) -> Result<Vec<Failed>> {
        let found = self.sound("errors", sql, params, bytes_max, |bytes| record::decode(&bytes))?;
        Ok(found.into_iter().map(|(_, failed)| failed).collect())
    }
}

impl Errors for Tables<'_> {
    fn add_failed(&mut self, failed: &Failed) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO errors (queue, number, record) VALUES (?, ?, ?)",
            params![self.queue, int(failed.number), record::encode(failed)],
        )
    }

    fn remove_failed(&mut self, number: u64) -> Result<()> {
        self.write(
            "DELETE FROM errors WHERE queue = ? AND number = ?",
            params![self.queue, int(number)],
        )
    }

    fn failed_numbers(&mut self, from: u64, below: u64, limit: usize) -> Result<Vec<u64>> {
        self.all(
            "SELECT number FROM errors WHERE queue = ? AND number >= ? AND number < ? ORDER BY number LIMIT ?",
            params![self.queue, int(from), int(below), int(limit as u64)],
            |row| uint(row, 0),
        )
    }

    fn failed_between(&mut self, from: u64, below: u64, limit: usize, bytes_max: usize) -> Result<Vec<Failed>> {
        self.sound_errors(
            "SELECT rowid, record FROM errors WHERE queue = ? AND number >= ? AND number < ? ORDER BY number LIMIT ?",
            (self.queue, int(from), int(below), int(limit as u64)),
            bytes_max,
        )
    }

    fn failed_below(&mut self, below: u64, limit: usize, bytes_max: usize) -> Result<Vec<Failed>> {
        self.sound_errors(
            "SELECT rowid, record FROM errors WHERE queue = ? AND number < ? ORDER BY number DESC LIMIT ?",
            (self.queue, int(below), int(limit as u64)),
            bytes_max,
        )
    }

    fn failed_count(&mut self) -> Result<u64> {
        self.count("SELECT count(*) FROM errors WHERE queue = ?", params![self.queue])
    }

    fn reading(&mut self, reader: &str) -> Result<Option<(u64, Vec<Failed>)>> {
        let call = self.one(
            "SELECT call FROM readers WHERE queue = ? AND reader = ?",
            params![self.queue, reader],
            |row| uint(row, 0),
        )?;
        let Some(call) = call else { return Ok(None) };
        let batch = self.records(
            "SELECT record FROM reading WHERE queue = ? AND reader = ? ORDER BY number",
            params![self.queue, reader],
        )?;
        Ok(Some((call, batch)))
    }

    fn set_reading(&mut self, reader: &str, call: u64, batch: &[Failed]) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO readers (queue, reader, call) VALUES (?, ?, ?)",
            params![self.queue, reader, int(call)],
        )?;
        for failed in batch {
            self.write(
                "INSERT INTO reading (queue, reader, number, record) VALUES (?, ?, ?, ?)",
                params![self.queue, reader, int(failed.number), record::encode(failed)],
            )?;
        }
        Ok(())
    }

    fn remove_reading(&mut self, reader: &str) -> Result<()> {
        self.write(
            "DELETE FROM readers WHERE queue = ? AND reader = ?",
            params![self.queue, reader],
        )?;
        self.write(
            "DELETE FROM reading WHERE queue = ? AND reader = ?",
            params![self.queue, reader],
        )
    }

    fn reading_count(&mut self) -> Result<u64> {
        self.count("SELECT count(*) FROM reading WHERE queue = ?", params![self.queue])
    }
}
