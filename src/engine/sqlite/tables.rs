//! The queue in tables: one file per group of things that are kept, as in [`store`](crate::engine::store).

mod effects;
mod endings;
mod errors;
mod groups;
mod leases;
mod lines;
mod meta;
mod nodes;
mod pushes;
mod reports;
mod schema;

use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{OptionalExtension, Params, Row, Transaction, params};

use super::file::{Database, refuse};
use bytes::Bytes;

use crate::engine::record::{self, Record};
use crate::error::{Error, Result};
use crate::message::Pack;
use crate::settings::Names;

pub(super) use endings::has_ended;
pub(super) use meta::rings;
pub(super) use schema::{DAMAGED, SCHEMA, SINCE};

/// A queue inside one transaction.
pub struct Tables<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) database: &'a Database,
    pub(super) queue: &'a str,
    pub(super) names: &'a Names,
    /// Whether times for people are those of the machine; false: they are those of the test's clock.
    pub(super) tells_time: bool,
    #[cfg(feature = "mutants")]
    pub(super) without: Option<&'a str>,
}

/// SQLite's integers have a sign; ours stay far below where that matters.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn uint(row: &Row, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| u64::try_from(value).unwrap_or(0))
}

/// A column of bytes. What someone else put there may have any type.
fn bytes(row: &Row, column: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    })
}

/// The columns of a row, one after the other.
struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    fn of(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    fn uint(&mut self) -> rusqlite::Result<u64> {
        self.next += 1;
        uint(self.row, self.next - 1)
    }
}

impl Tables<'_> {
    pub(super) fn error(&self, error: &rusqlite::Error) -> Error {
        refuse(self.database, error)
    }

    /// How many rows were changed.
    fn change(&self, sql: &str, params: impl Params) -> Result<usize> {
        let run = || self.transaction.prepare_cached(sql)?.execute(params);
        run().map_err(|error| self.error(&error))
    }

    fn write(&self, sql: &str, params: impl Params) -> Result<()> {
        self.change(sql, params).map(drop)
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let run = || self.transaction.prepare_cached(sql)?.query_row(params, read).optional();
        run().map_err(|error| self.error(&error))
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let run =
            || -> rusqlite::Result<Vec<T>> { self.transaction.prepare_cached(sql)?.query_map(params, read)?.collect() };
        run().map_err(|error| self.error(&error))
    }

    /// The answer to a `SELECT count(*)`.
    fn count(&self, sql: &str, params: impl Params) -> Result<u64> {
        Ok(self.one(sql, params, |row| uint(row, 0))?.unwrap_or(0))
    }

    /// What `SELECT rowid, bytes … LIMIT ?` finds in a table, each with its row. What cannot be read is set aside, and what comes behind it
    /// is found instead. Who only looks leaves it where it is, and finds what comes behind it if there is nothing else.
    fn sound<T>(
        &self,
        table: &str,
        sql: &str,
        params: impl Params + Copy,
        bytes_max: usize,
        decode: impl Fn(Bytes) -> Result<T>,
    ) -> Result<Vec<(i64, T)>> {
        let mut passed = 0;
        loop {
            let rows = if passed == 0 {
                self.within(sql, params, bytes_max)?
            } else {
                self.within(&format!("{sql} OFFSET {passed}"), params, bytes_max)?
            };
            let (mut found, mut spoilt, all) = (Vec::with_capacity(rows.len()), Vec::new(), rows.len());
            for (row, bytes) in rows {
                match decode(bytes.clone()) {
                    Ok(one) => found.push((row, one)),
                    Err(_) => spoilt.push((row, bytes)),
                }
            }
            if spoilt.is_empty() {
                return Ok(found);
            }
            if self.only_looks()? {
                if !found.is_empty() {
                    return Ok(found);
                }
                passed += all;
                continue;
            }
            for (row, bytes) in spoilt {
                self.set_aside(table, row, &bytes)?;
            }
        }
    }

    /// Whether the file was opened for reading only.
    fn only_looks(&self) -> Result<bool> {
        let told = self.transaction.is_readonly(rusqlite::MAIN_DB);
        told.map_err(|error| self.error(&error))
    }

    /// The same for packs.
    fn sound_packs(
        &self,
        table: &str,
        sql: &str,
        params: impl Params + Copy,
        bytes_max: usize,
    ) -> Result<Vec<(i64, Pack)>> {
        self.sound(table, sql, params, bytes_max, Pack::decode)
    }

    /// Rows of `SELECT rowid, bytes` until they have so many bytes, and one at least.
    fn within(&self, sql: &str, params: impl Params, bytes_max: usize) -> Result<Vec<(i64, Bytes)>> {
        let run = || {
            let mut statement = self.transaction.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            let (mut kept, mut length) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let found = bytes(row, 1)?;
                length += found.len();
                if !kept.is_empty() && length > bytes_max {
                    break;
                }
                kept.push((row.get(0)?, Bytes::from(found)));
            }
            Ok(kept)
        };
        run().map_err(|error| self.error(&error))
    }

    /// Moves a row that cannot be read to where it can be looked at.
    fn set_aside(&self, table: &str, row: i64, bytes: &[u8]) -> Result<()> {
        self.write(&format!("DELETE FROM {table} WHERE rowid = ?"), [row])?;
        self.write(
            "INSERT INTO damaged (queue, place, bytes) VALUES (?, ?, ?)",
            params![self.queue, table, bytes],
        )
    }

    /// The first record of a query; what cannot be read is none.
    fn record<T: Record>(&self, sql: &str, params: impl Params) -> Result<Option<T>> {
        let bytes = self.one(sql, params, |row| bytes(row, 0))?;
        Ok(bytes.and_then(|bytes| record::decode(&bytes).ok()))
    }

    /// All records of a query that can be read.
    fn records<T: Record>(&self, sql: &str, params: impl Params) -> Result<Vec<T>> {
        let records = self.all(sql, params, |row| bytes(row, 0))?;
        Ok(records.iter().filter_map(|bytes| record::decode(bytes).ok()).collect())
    }

    /// All names of a query that asks for those of this queue.
    pub(super) fn names_of(&self, sql: &str) -> Result<Vec<String>> {
        self.all(sql, [self.queue], |row| row.get(0))
    }

    /// All packs of a query that can be read.
    pub(super) fn packs(&self, sql: &str, params: impl Params) -> Result<Vec<Pack>> {
        let packs = self.all(sql, params, |row| bytes(row, 0))?;
        Ok(packs
            .into_iter()
            .filter_map(|bytes| Pack::decode(bytes.into()).ok())
            .collect())
    }
}
