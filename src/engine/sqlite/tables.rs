//! The tables, and the queue in them.

use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, params};

use super::file::{Database, refuse};
use crate::engine::history::{Bucket, Crowned, LastReport, REIGNS_MAX, Range};
use crate::engine::rules::counter;
use crate::engine::store::{About, Kind, Lane, Lessee, Line, Meta, Store};
use crate::engine::{Failed, NodeId, Paused, Receipt, Wake, record};
use crate::error::{Error, Result};
use crate::message::{Effect, Pack};
use crate::settings::Names;

/// One file holds any number of queues. Packs have positions, not row ids: ids are used again after a delete.
pub(super) const SCHEMA: &str = "
CREATE TABLE meta (queue TEXT PRIMARY KEY, birth TEXT, layout INT, names TEXT, clock INT, wall INT, step INT,
  generator TEXT, epoch INT, crown INT, heirs TEXT, seq INT, made INT, due INT, grain INT, again INT, head INT,
  done INT, failed INT, requeued INT, rewinds INT, skipped INT) WITHOUT ROWID;
CREATE TABLE bells (queue TEXT, bell INT, rung INT, PRIMARY KEY (queue, bell)) WITHOUT ROWID;
CREATE TABLE leases (queue TEXT, lessee INT, name TEXT, until INT, PRIMARY KEY (queue, lessee, name)) WITHOUT ROWID;
CREATE TABLE dead (position INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, node TEXT);
CREATE TABLE nodes (queue TEXT, node TEXT, host TEXT, pid INT, version TEXT, concurrency INT, joined INT, redelivered INT,
  suspects INT, held INT, PRIMARY KEY (queue, node)) WITHOUT ROWID;
CREATE TABLE lanes (queue TEXT, node TEXT, lane INT, record BLOB, PRIMARY KEY (queue, node, lane)) WITHOUT ROWID;
CREATE TABLE pieces (queue TEXT, node TEXT, first INT, pack BLOB);
CREATE UNIQUE INDEX pieces_by_node ON pieces (queue, node, first);
CREATE TABLE lines (queue TEXT, line INT, position INT, pack BLOB);
CREATE UNIQUE INDEX lines_by_position ON lines (queue, line, position);
CREATE TABLE errors (queue TEXT, number INT, record BLOB);
CREATE UNIQUE INDEX errors_by_number ON errors (queue, number);
CREATE TABLE readers (queue TEXT, reader TEXT, call INT, PRIMARY KEY (queue, reader)) WITHOUT ROWID;
CREATE TABLE reading (queue TEXT, reader TEXT, number INT, record BLOB);
CREATE UNIQUE INDEX reading_by_number ON reading (queue, reader, number);
CREATE TABLE effect_values (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE effect_fields (key TEXT, field TEXT, value BLOB, PRIMARY KEY (key, field)) WITHOUT ROWID;
CREATE TABLE effect_items (position INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value BLOB);
CREATE INDEX effect_items_by_key ON effect_items (key, position);
";

/// What the second layout added.
pub(super) const SCHEMA_2: &str = "
CREATE TABLE later (queue TEXT, due INT, number INT, pack BLOB);
CREATE UNIQUE INDEX later_by_due ON later (queue, due, number);
CREATE TABLE once (queue TEXT, name TEXT, until INT, receipts BLOB, PRIMARY KEY (queue, name)) WITHOUT ROWID;
ALTER TABLE meta ADD COLUMN paused INT DEFAULT 0;
ALTER TABLE meta ADD COLUMN chosen TEXT DEFAULT '';
ALTER TABLE meta ADD COLUMN rank INT DEFAULT 0;
ALTER TABLE meta ADD COLUMN trimmed INT DEFAULT 0;
CREATE TABLE cursors (queue TEXT PRIMARY KEY, cursor BLOB) WITHOUT ROWID;
CREATE INDEX once_by_end ON once (queue, until, name);
";

/// What nodes tell of themselves. Programs that do not know of it do no harm to it, nor it to them: the layout is the same.
pub(super) const SCHEMA_ASIDE: &str = "
CREATE TABLE IF NOT EXISTS reports (queue TEXT, node TEXT, number INT, time INT, live BLOB,
  PRIMARY KEY (queue, node)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (queue TEXT, ring INT, slot INT, bucket BLOB,
  PRIMARY KEY (queue, ring, slot)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reigns (queue TEXT, position INT, epoch INT, node TEXT, time INT, before INT,
  PRIMARY KEY (queue, position)) WITHOUT ROWID;
";
/// The column of `meta` that came with it.
pub(super) const RULED: &str = "ALTER TABLE meta ADD COLUMN ruled INT DEFAULT 0;";

const META: &str = "birth, layout, names, clock, wall, step, generator, epoch, crown, heirs, seq, made, due, grain, \
                    again, head, done, failed, requeued, rewinds, skipped, paused, chosen, rank, \
                    trimmed, ruled";

/// A queue inside one transaction.
pub(super) struct Tables<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    database: &'a Database,
    pub(super) queue: &'a str,
    pub(super) names: &'a Names,
    /// Times for people are those of the machine; without that, of the test.
    pub tells_time: bool,
    #[cfg(feature = "mutants")]
    pub without: Option<String>,
}

/// SQLite's integers have a sign; ours stay far below where that matters.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn uint(row: &Row, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| u64::try_from(value).unwrap_or(0))
}

pub(super) fn small(row: &Row, column: usize) -> rusqlite::Result<u32> {
    row.get(column)
}

fn bell(wake: Wake) -> i64 {
    match wake {
        Wake::Bell => 0,
        Wake::Crown => 1,
    }
}

fn lessee_number(lessee: Lessee) -> i64 {
    match lessee {
        Lessee::Node => 0,
        Lessee::Reader => 1,
    }
}

pub(super) fn line_number(line: Line) -> i64 {
    match line {
        Line::Queue => 0,
        Line::Again => 1,
    }
}

/// Whether a bell rings, without a transaction.
pub(super) fn rings(connection: &Connection, queue: &str, wake: Wake) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT rung FROM bells WHERE queue = ? AND bell = ?")?;
    let rung = statement
        .query_row(params![queue, bell(wake)], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(rung == Some(1))
}

impl<'a> Tables<'a> {
    pub(super) fn new(
        transaction: &'a Transaction<'a>,
        database: &'a Database,
        queue: &'a str,
        names: &'a Names,
    ) -> Self {
        Self {
            transaction,
            database,
            queue,
            names,
            tells_time: true,
            #[cfg(feature = "mutants")]
            without: None,
        }
    }

    /// Stills a bell. True: it rang.
    pub(super) fn answer(&mut self, wake: Wake) -> Result<bool> {
        let changed = self.write(
            "UPDATE bells SET rung = 0 WHERE queue = ? AND bell = ? AND rung = 1",
            params![self.queue, bell(wake)],
        )?;
        Ok(changed > 0)
    }

    pub(super) fn error(&self, error: &rusqlite::Error) -> Error {
        refuse(self.database, error)
    }

    fn write(&self, sql: &str, params: impl Params) -> Result<usize> {
        let run = || self.transaction.prepare_cached(sql)?.execute(params);
        run().map_err(|error| self.error(&error))
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

    fn pack(bytes: Option<Vec<u8>>) -> Result<Option<Pack>> {
        bytes.map(|bytes| Pack::decode(bytes.into())).transpose()
    }

    fn edge(&self, line: Line, which: &str) -> Result<Option<i64>> {
        let sql = format!("SELECT {which}(position) FROM lines WHERE queue = ? AND line = ?");
        let edge = self.one(&sql, params![self.queue, line_number(line)], |row| {
            row.get::<_, Option<i64>>(0)
        })?;
        Ok(edge.flatten())
    }

    fn put(&self, line: Line, position: i64, pack: &Pack) -> Result<()> {
        self.write(
            "INSERT INTO lines (queue, line, position, pack) VALUES (?, ?, ?, ?)",
            params![self.queue, line_number(line), position, &pack.bytes()[..]],
        )?;
        Ok(())
    }
}

impl Store for Tables<'_> {
    fn queue_name(&self) -> &str {
        self.queue
    }

    fn names(&self) -> &Names {
        self.names
    }

    #[cfg(feature = "mutants")]
    fn guard(&self, name: &str) -> bool {
        self.without.as_deref() != Some(name)
    }

    /// The clock that leases run on counts from the start of the machine; people want the date.
    fn time_ms(&self, wall_ms: u64) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        match now {
            Ok(now) if self.tells_time => u64::try_from(now.as_millis()).unwrap_or(wall_ms),
            _ => wall_ms,
        }
    }

    fn meta(&mut self) -> Result<Option<Meta>> {
        let sql = format!("SELECT {META} FROM meta WHERE queue = ?");
        self.one(&sql, params![self.queue], |row| {
            let heirs: String = row.get(9)?;
            Ok(Meta {
                birth: row.get(0)?,
                layout: uint(row, 1)?,
                names: row.get(2)?,
                clock: uint(row, 3)?,
                wall: uint(row, 4)?,
                step: uint(row, 5)?,
                generator: row.get(6)?,
                epoch: uint(row, 7)?,
                crown: uint(row, 8)?,
                heirs: heirs.split_whitespace().map(str::to_string).collect(),
                seq: uint(row, 10)?,
                made: uint(row, 11)?,
                due: uint(row, 12)?,
                grain: uint(row, 13)?,
                again: row.get(14)?,
                head: uint(row, 15)?,
                done: uint(row, 16)?,
                failed: uint(row, 17)?,
                requeued: uint(row, 18)?,
                rewinds: uint(row, 19)?,
                skipped: uint(row, 20)?,
                paused: Paused::of_bits(uint(row, 21)?),
                chosen: row.get(22)?,
                rank: uint(row, 23)?,
                trimmed: uint(row, 24)?,
                ruled: uint(row, 25)?,
            })
        })
    }

    fn set_meta(&mut self, meta: &Meta) -> Result<()> {
        let sql = format!(
            "INSERT OR REPLACE INTO meta (queue, {META}) VALUES (?{})",
            ", ?".repeat(26)
        );
        self.write(
            &sql,
            params![
                self.queue,
                meta.birth,
                int(meta.layout),
                meta.names,
                int(meta.clock),
                int(meta.wall),
                int(meta.step),
                meta.generator,
                int(meta.epoch),
                int(meta.crown),
                meta.heirs.join(" "),
                int(meta.seq),
                int(meta.made),
                int(meta.due),
                int(meta.grain),
                meta.again,
                int(meta.head),
                int(meta.done),
                int(meta.failed),
                int(meta.requeued),
                int(meta.rewinds),
                int(meta.skipped),
                int(meta.paused.bits()),
                meta.chosen,
                int(meta.rank),
                int(meta.trimmed),
                int(meta.ruled),
            ],
        )?;
        Ok(())
    }

    fn cursor(&mut self) -> Result<Vec<u8>> {
        let sql = "SELECT cursor FROM cursors WHERE queue = ?";
        Ok(self
            .one(sql, params![self.queue], |row| row.get(0))?
            .unwrap_or_default())
    }

    fn set_cursor(&mut self, cursor: &[u8]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO cursors (queue, cursor) VALUES (?, ?)";
        self.write(sql, params![self.queue, cursor])?;
        Ok(())
    }

    fn lease(&mut self, lessee: Lessee, name: &str) -> Result<Option<u64>> {
        self.one(
            "SELECT until FROM leases WHERE queue = ? AND lessee = ? AND name = ?",
            params![self.queue, lessee_number(lessee), name],
            |row| uint(row, 0),
        )
    }

    fn set_lease(&mut self, lessee: Lessee, name: &str, until: u64) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO leases (queue, lessee, name, until) VALUES (?, ?, ?, ?)",
            params![self.queue, lessee_number(lessee), name, int(until)],
        )?;
        Ok(())
    }

    fn end_lease(&mut self, lessee: Lessee, name: &str) -> Result<()> {
        self.write(
            "DELETE FROM leases WHERE queue = ? AND lessee = ? AND name = ?",
            params![self.queue, lessee_number(lessee), name],
        )?;
        Ok(())
    }

    fn leases(&mut self, lessee: Lessee) -> Result<Vec<(String, u64)>> {
        self.all(
            "SELECT name, until FROM leases WHERE queue = ? AND lessee = ? ORDER BY until, name",
            params![self.queue, lessee_number(lessee)],
            |row| Ok((row.get(0)?, uint(row, 1)?)),
        )
    }

    fn first_lease(&mut self, lessee: Lessee) -> Result<Option<(String, u64)>> {
        self.one(
            "SELECT name, until FROM leases WHERE queue = ? AND lessee = ? ORDER BY until, name LIMIT 1",
            params![self.queue, lessee_number(lessee)],
            |row| Ok((row.get(0)?, uint(row, 1)?)),
        )
    }

    fn dead(&mut self) -> Result<Vec<NodeId>> {
        let sql = "SELECT node FROM dead WHERE queue = ? ORDER BY position";
        self.all(sql, params![self.queue], |row| row.get(0))
    }

    fn add_dead(&mut self, node: &str) -> Result<()> {
        self.write(
            "INSERT INTO dead (queue, node) VALUES (?, ?)",
            params![self.queue, node],
        )?;
        Ok(())
    }

    fn remove_dead(&mut self, node: &str) -> Result<()> {
        self.write(
            "DELETE FROM dead WHERE queue = ? AND node = ?",
            params![self.queue, node],
        )?;
        Ok(())
    }

    fn about(&mut self, node: &str) -> Result<Option<About>> {
        self.one(
            "SELECT host, pid, version, concurrency, joined, redelivered, suspects, held FROM nodes WHERE queue = ? AND node = ?",
            params![self.queue, node],
            |row| {
                Ok(About {
                    host: row.get(0)?,
                    pid: small(row, 1)?,
                    version: row.get(2)?,
                    concurrency: small(row, 3)?,
                    joined: uint(row, 4)?,
                    redelivered: uint(row, 5)?,
                    suspects: uint(row, 6)?,
                    held: row.get::<_, Option<i64>>(7)?.map(|held| u64::try_from(held).unwrap_or(0)),
                })
            },
        )
    }

    fn set_about(&mut self, node: &str, about: &About) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO nodes (queue, node, host, pid, version, concurrency, joined, redelivered, suspects, held)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                self.queue,
                node,
                about.host,
                about.pid,
                about.version,
                about.concurrency,
                int(about.joined),
                int(about.redelivered),
                int(about.suspects),
                about.held.map(int),
            ],
        )?;
        Ok(())
    }

    fn forget(&mut self, node: &str) -> Result<()> {
        for table in ["nodes", "lanes", "pieces"] {
            let sql = format!("DELETE FROM {table} WHERE queue = ? AND node = ?");
            self.write(&sql, params![self.queue, node])?;
        }
        Ok(())
    }

    fn lane(&mut self, node: &str, lane: u32) -> Result<Option<Lane>> {
        let bytes = self.one(
            "SELECT record FROM lanes WHERE queue = ? AND node = ? AND lane = ?",
            params![self.queue, node, lane],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        bytes.map(|bytes| record::decode(&bytes)).transpose()
    }

    fn set_lane(&mut self, node: &str, lane: u32, lane_record: &Lane) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO lanes (queue, node, lane, record) VALUES (?, ?, ?, ?)",
            params![self.queue, node, lane, record::encode(lane_record)],
        )?;
        Ok(())
    }

    fn lanes(&mut self, node: &str) -> Result<Vec<Lane>> {
        let records = self.all(
            "SELECT record FROM lanes WHERE queue = ? AND node = ? ORDER BY lane",
            params![self.queue, node],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        records.iter().map(|bytes| record::decode(bytes)).collect()
    }

    fn close_lanes(&mut self, node: &str) -> Result<()> {
        self.write(
            "DELETE FROM lanes WHERE queue = ? AND node = ?",
            params![self.queue, node],
        )?;
        Ok(())
    }

    fn piece(&mut self, node: &str, first: u64) -> Result<Option<Pack>> {
        Self::pack(self.one(
            "SELECT pack FROM pieces WHERE queue = ? AND node = ? AND first = ?",
            params![self.queue, node, int(first)],
            |row| row.get(0),
        )?)
    }

    fn put_piece(&mut self, node: &str, pack: &Pack) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO pieces (queue, node, first, pack) VALUES (?, ?, ?, ?)",
            params![self.queue, node, int(pack.first()), &pack.bytes()[..]],
        )?;
        Ok(())
    }

    fn remove_piece(&mut self, node: &str, first: u64) -> Result<()> {
        self.write(
            "DELETE FROM pieces WHERE queue = ? AND node = ? AND first = ?",
            params![self.queue, node, int(first)],
        )?;
        Ok(())
    }

    fn first_piece(&mut self, node: &str) -> Result<Option<Pack>> {
        Self::pack(self.one(
            "SELECT pack FROM pieces WHERE queue = ? AND node = ? ORDER BY first LIMIT 1",
            params![self.queue, node],
            |row| row.get(0),
        )?)
    }

    fn pieces(&mut self, node: &str, limit: usize) -> Result<Vec<Pack>> {
        let packs = self.all(
            "SELECT pack FROM pieces WHERE queue = ? AND node = ? ORDER BY first LIMIT ?",
            params![self.queue, node, i64::try_from(limit).unwrap_or(i64::MAX)],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        packs.into_iter().map(|bytes| Pack::decode(bytes.into())).collect()
    }

    fn front(&mut self, line: Line) -> Result<Option<Pack>> {
        Self::pack(self.one(
            "SELECT pack FROM lines WHERE queue = ? AND line = ? ORDER BY position LIMIT 1",
            params![self.queue, line_number(line)],
            |row| row.get(0),
        )?)
    }

    fn pop(&mut self, line: Line) -> Result<Option<Pack>> {
        let found = self.one(
            "SELECT rowid, pack FROM lines WHERE queue = ? AND line = ? ORDER BY position LIMIT 1",
            params![self.queue, line_number(line)],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)),
        )?;
        let Some((row, bytes)) = found else { return Ok(None) };
        self.write("DELETE FROM lines WHERE rowid = ?", params![row])?;
        Self::pack(Some(bytes))
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
        )?;
        Ok(())
    }

    fn pop_due(&mut self, until_ms: u64, limit: usize) -> Result<Vec<Pack>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.all(
            "SELECT rowid, pack FROM later WHERE queue = ? AND due <= ? ORDER BY due, number LIMIT ?",
            params![self.queue, int(until_ms), limit],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)),
        )?;
        let mut due = Vec::with_capacity(rows.len());
        for (row, bytes) in rows {
            self.write("DELETE FROM later WHERE rowid = ?", params![row])?;
            due.push(Pack::decode(bytes.into())?);
        }
        Ok(due)
    }

    fn later_count(&mut self) -> Result<u64> {
        let sql = "SELECT count(*) FROM later WHERE queue = ?";
        Ok(self.one(sql, params![self.queue], |row| uint(row, 0))?.unwrap_or(0))
    }

    fn once(&mut self, name: &str) -> Result<Option<(u64, Vec<Receipt>)>> {
        let found = self.one(
            "SELECT until, receipts FROM once WHERE queue = ? AND name = ?",
            params![self.queue, name],
            |row| Ok((uint(row, 0)?, row.get::<_, Vec<u8>>(1)?)),
        )?;
        let decode = |(until_ms, bytes): (u64, Vec<u8>)| Ok((until_ms, record::decode(&bytes)?));
        found.map(decode).transpose()
    }

    fn set_once(&mut self, name: &str, until_ms: u64, receipts: &[Receipt]) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO once (queue, name, until, receipts) VALUES (?, ?, ?, ?)",
            params![self.queue, name, int(until_ms), record::encode(&receipts.to_vec())],
        )?;
        Ok(())
    }

    fn forget_once(&mut self, now_ms: u64, limit: usize) -> Result<()> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.write(
            "DELETE FROM once WHERE queue = ?1 AND name IN
             (SELECT name FROM once WHERE queue = ?1 AND until <= ?2 ORDER BY until, name LIMIT ?3)",
            params![self.queue, int(now_ms), limit],
        )?;
        Ok(())
    }

    fn add_failed(&mut self, failed: &Failed) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO errors (queue, number, record) VALUES (?, ?, ?)",
            params![self.queue, int(failed.number), record::encode(failed)],
        )?;
        Ok(())
    }

    fn remove_failed(&mut self, number: u64) -> Result<()> {
        self.write(
            "DELETE FROM errors WHERE queue = ? AND number = ?",
            params![self.queue, int(number)],
        )?;
        Ok(())
    }

    fn failed_between(&mut self, from: u64, below: u64, limit: usize) -> Result<Vec<Failed>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let records = self.all(
            "SELECT record FROM errors WHERE queue = ? AND number >= ? AND number < ? ORDER BY number LIMIT ?",
            params![self.queue, int(from), int(below), limit],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        records.iter().map(|bytes| record::decode(bytes)).collect()
    }

    fn failed_below(&mut self, below: u64, limit: usize) -> Result<Vec<Failed>> {
        let records = self.all(
            "SELECT record FROM errors WHERE queue = ? AND number < ? ORDER BY number DESC LIMIT ?",
            params![self.queue, int(below), i64::try_from(limit).unwrap_or(i64::MAX)],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        records.iter().map(|bytes| record::decode(bytes)).collect()
    }

    fn failed_count(&mut self) -> Result<u64> {
        let sql = "SELECT count(*) FROM errors WHERE queue = ?";
        Ok(self.one(sql, params![self.queue], |row| uint(row, 0))?.unwrap_or(0))
    }

    fn reading(&mut self, reader: &str) -> Result<Option<(u64, Vec<Failed>)>> {
        let call = self.one(
            "SELECT call FROM readers WHERE queue = ? AND reader = ?",
            params![self.queue, reader],
            |row| uint(row, 0),
        )?;
        let Some(call) = call else { return Ok(None) };
        let records = self.all(
            "SELECT record FROM reading WHERE queue = ? AND reader = ? ORDER BY number",
            params![self.queue, reader],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        let batch = records
            .iter()
            .map(|bytes| record::decode(bytes))
            .collect::<Result<_>>()?;
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
        )?;
        Ok(())
    }

    fn reading_count(&mut self) -> Result<u64> {
        let sql = "SELECT count(*) FROM reading WHERE queue = ?";
        Ok(self.one(sql, params![self.queue], |row| uint(row, 0))?.unwrap_or(0))
    }

    fn purge(&mut self) -> Result<()> {
        for table in [
            "meta", "bells", "leases", "dead", "nodes", "lanes", "pieces", "lines", "later", "once", "cursors",
            "errors", "readers", "reading", "reports", "history", "reigns",
        ] {
            self.write(&format!("DELETE FROM {table} WHERE queue = ?"), params![self.queue])?;
        }
        Ok(())
    }

    fn report(&mut self, node: &str) -> Result<Option<LastReport>> {
        let found = self.one(
            "SELECT number, time, live FROM reports WHERE queue = ? AND node = ?",
            params![self.queue, node],
            |row| Ok((uint(row, 0)?, uint(row, 1)?, row.get::<_, Vec<u8>>(2)?)),
        )?;
        let kept = |(number, time_ms, live): (u64, u64, Vec<u8>)| {
            let live = record::decode(&live)?;
            Ok(LastReport { number, time_ms, live })
        };
        found.map(kept).transpose()
    }

    fn set_report(&mut self, node: &str, report: &LastReport) -> Result<()> {
        let live = record::encode(&report.live);
        self.write(
            "INSERT OR REPLACE INTO reports (queue, node, number, time, live) VALUES (?, ?, ?, ?, ?)",
            params![self.queue, node, int(report.number), int(report.time_ms), live],
        )?;
        Ok(())
    }

    fn drop_report(&mut self, node: &str) -> Result<()> {
        let sql = "DELETE FROM reports WHERE queue = ? AND node = ?";
        self.write(sql, params![self.queue, node])?;
        Ok(())
    }

    fn slot(&mut self, range: Range, slot: u64) -> Result<Option<Bucket>> {
        let found = self.one(
            "SELECT bucket FROM history WHERE queue = ? AND ring = ? AND slot = ?",
            params![self.queue, int(range.ring()), int(slot)],
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        found.map(|bytes| record::decode(&bytes)).transpose()
    }

    fn set_slot(&mut self, range: Range, slot: u64, bucket: &Bucket) -> Result<()> {
        let bytes = record::encode(bucket);
        self.write(
            "INSERT OR REPLACE INTO history (queue, ring, slot, bucket) VALUES (?, ?, ?, ?)",
            params![self.queue, int(range.ring()), int(slot), bytes],
        )?;
        Ok(())
    }

    fn reigns(&mut self) -> Result<Vec<Crowned>> {
        self.all(
            "SELECT epoch, node, time, before FROM reigns WHERE queue = ? ORDER BY position DESC",
            params![self.queue],
            |row| {
                Ok(Crowned {
                    epoch: uint(row, 0)?,
                    node: row.get(1)?,
                    time_ms: uint(row, 2)?,
                    before_ms: uint(row, 3)?,
                })
            },
        )
    }

    fn add_reign(&mut self, reign: &Crowned) -> Result<()> {
        self.write(
            "INSERT INTO reigns (queue, position, epoch, node, time, before)
             SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3, ?4, ?5 FROM reigns WHERE queue = ?1",
            params![
                self.queue,
                int(reign.epoch),
                reign.node,
                int(reign.time_ms),
                int(reign.before_ms)
            ],
        )?;
        self.write(
            "DELETE FROM reigns WHERE queue = ?1 AND position <=
             (SELECT max(position) FROM reigns WHERE queue = ?1) - ?2",
            params![self.queue, int(REIGNS_MAX as u64)],
        )?;
        Ok(())
    }

    fn ring(&mut self, wake: Wake) -> Result<()> {
        self.write(
            "INSERT INTO bells (queue, bell, rung) VALUES (?, ?, 1)
             ON CONFLICT (queue, bell) DO UPDATE SET rung = 1 WHERE rung = 0",
            params![self.queue, bell(wake)],
        )?;
        Ok(())
    }

    fn stored(&mut self, key: &str) -> Result<Option<(Kind, Option<Vec<u8>>)>> {
        let value = self.one("SELECT value FROM effect_values WHERE key = ?", [key], |row| {
            row.get::<_, Vec<u8>>(0)
        })?;
        if value.is_some() {
            return Ok(Some((Kind::Value, value)));
        }
        for (kind, table) in [(Kind::Hash, "effect_fields"), (Kind::List, "effect_items")] {
            let sql = format!("SELECT 1 FROM {table} WHERE key = ? LIMIT 1");
            if self.one(&sql, [key], |_| Ok(()))?.is_some() {
                return Ok(Some((kind, None)));
            }
        }
        Ok(None)
    }

    fn apply(&mut self, effect: &Effect) -> Result<()> {
        match effect {
            Effect::Add { key, by } => {
                let held = self.stored(key)?.and_then(|(_, value)| value);
                let new = held.and_then(|text| counter(&text)).unwrap_or(0) + by;
                let sql = "INSERT OR REPLACE INTO effect_values (key, value) VALUES (?, ?)";
                self.write(sql, params![key, new.to_string().as_bytes()])
            }
            Effect::Set { key, value } => {
                let sql = "INSERT OR REPLACE INTO effect_values (key, value) VALUES (?, ?)";
                self.write(sql, params![key, value])
            }
            Effect::SetField { key, field, value } => {
                let sql = "INSERT OR REPLACE INTO effect_fields (key, field, value) VALUES (?, ?, ?)";
                self.write(sql, params![key, field, value])
            }
            Effect::Push { key, value } => self.write(
                "INSERT INTO effect_items (key, value) VALUES (?, ?)",
                params![key, value],
            ),
        }?;
        Ok(())
    }
}
