//! The queue in tables: one file per group of things that are kept, as in [`store`](crate::engine::store).

mod effects;
mod errors;
mod leases;
mod lines;
mod meta;
mod nodes;
mod pushes;
mod reports;
mod schema;

use rusqlite::types::FromSql;
use rusqlite::{OptionalExtension, Params, Row, Transaction};

use super::file::{Database, refuse};
use crate::engine::record::{self, Record};
use crate::error::{Error, Result};
use crate::message::Pack;
use crate::settings::Names;

pub(super) use meta::rings;
pub(super) use schema::{SCHEMA, SINCE};

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

    /// The first pack of a query.
    fn pack(&self, sql: &str, params: impl Params) -> Result<Option<Pack>> {
        let bytes = self.one(sql, params, |row| row.get::<_, Vec<u8>>(0))?;
        bytes.map(|bytes| Pack::decode(bytes.into())).transpose()
    }

    /// The first record of a query.
    fn record<T: Record>(&self, sql: &str, params: impl Params) -> Result<Option<T>> {
        let bytes = self.one(sql, params, |row| row.get::<_, Vec<u8>>(0))?;
        bytes.map(|bytes| record::decode(&bytes)).transpose()
    }

    /// All records of a query.
    fn records<T: Record>(&self, sql: &str, params: impl Params) -> Result<Vec<T>> {
        let records = self.all(sql, params, |row| row.get::<_, Vec<u8>>(0))?;
        records.iter().map(|bytes| record::decode(bytes)).collect()
    }

    /// What a query finds in its first column, row by row: as much as has `bytes_max` together, one row at least.
    fn within(&self, sql: &str, params: impl Params, bytes_max: usize) -> Result<Vec<Vec<u8>>> {
        let run = || {
            let mut statement = self.transaction.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            let (mut kept, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let found: Vec<u8> = row.get(0)?;
                bytes += found.len();
                if !kept.is_empty() && bytes > bytes_max {
                    break;
                }
                kept.push(found);
            }
            Ok(kept)
        };
        run().map_err(|error| self.error(&error))
    }

    /// All names of a query that asks for those of this queue.
    pub(super) fn names_of(&self, sql: &str) -> Result<Vec<String>> {
        self.all(sql, [self.queue], |row| row.get(0))
    }

    /// All packs of a query.
    pub(super) fn packs(&self, sql: &str, params: impl Params) -> Result<Vec<Pack>> {
        let packs = self.all(sql, params, |row| row.get::<_, Vec<u8>>(0))?;
        packs.into_iter().map(|bytes| Pack::decode(bytes.into())).collect()
    }
}
