//! What a queue knows of itself, and its bells.

use rusqlite::{Connection, OptionalExtension, params};

use super::super::alive;
use super::schema::OF_QUEUES;
use super::{Columns, Tables, int, uint};
use crate::engine::store::{Gate, Meta, StepCounts, Store};
use crate::engine::{NodeId, Paused, Wake, record};
use crate::error::Result;
use crate::settings::Names;

/// The columns, in the order in which they are read and written here.
const COLUMNS: &str = "birth, layout, names, clock, wall, step, generator, epoch, crown, heirs, seq, made, due, grain, \
                       again, head, done, failed, requeued, rewinds, paused_generator, paused_handlers, ruled, chosen, \
                       rank, skipped, trimmed, clearing, steps, server, waited, waited_at, gate, \
                       cancels";

impl Store for Tables<'_> {
    fn queue_name(&self) -> &str {
        self.queue
    }

    fn names(&self) -> &Names {
        self.names
    }

    #[cfg(feature = "mutants")]
    fn guard(&self, name: &str) -> bool {
        self.without != Some(name)
    }

    /// The clock that leases run on counts from the start of the machine; people want the date.
    fn time_ms(&self, wall_ms: u64) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        match now {
            Ok(now) if self.tells_time => u64::try_from(now.as_millis()).unwrap_or(wall_ms),
            _ => wall_ms,
        }
    }

    /// The machine's clock only goes back when the machine is started anew: since then it has counted from zero.
    fn passed_ms(&self, before_ms: u64, wall_ms: u64) -> u64 {
        match wall_ms.checked_sub(before_ms) {
            Some(passed) => passed,
            None if self.tells_time => wall_ms,
            None => 0,
        }
    }

    fn meta(&mut self) -> Result<Option<Meta>> {
        let sql = format!("SELECT {COLUMNS} FROM meta WHERE queue = ?");
        self.one(&sql, params![self.queue], |row| {
            let mut row = Columns::of(row);
            Ok(Meta {
                birth: row.next()?,
                layout: row.uint()?,
                names: row.next()?,
                clock: row.uint()?,
                wall: row.uint()?,
                step: row.uint()?,
                generator: row.next()?,
                epoch: row.uint()?,
                crown: row.uint()?,
                heirs: row.next::<String>()?.split_whitespace().map(str::to_string).collect(),
                seq: row.uint()?,
                made: row.uint()?,
                due: row.uint()?,
                grain: row.uint()?,
                again: row.next()?,
                head: row.uint()?,
                done: row.uint()?,
                failed: row.uint()?,
                requeued: row.uint()?,
                rewinds: row.uint()?,
                paused: Paused {
                    generator: row.next()?,
                    handlers: row.next()?,
                },
                ruled: row.uint()?,
                chosen: row.next()?,
                rank: row.uint()?,
                skipped: row.uint()?,
                trimmed: row.uint()?,
                clearing: row.uint()?,
                steps: StepCounts::parse(&row.next::<String>()?),
                server: row.next()?,
                waited: row.uint()?,
                waited_at: row.uint()?,
                limit: Gate::parse(&row.next::<String>()?),
                // What cannot be read cancels nothing.
                cancels: record::decode(&row.next::<Vec<u8>>()?).unwrap_or_default(),
            })
        })
    }

    fn set_meta(&mut self, meta: &Meta) -> Result<()> {
        let places = ", ?".repeat(COLUMNS.split(',').count());
        let sql = format!("INSERT OR REPLACE INTO meta (queue, {COLUMNS}) VALUES (?{places})");
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
                meta.paused.generator,
                meta.paused.handlers,
                int(meta.ruled),
                meta.chosen,
                int(meta.rank),
                int(meta.skipped),
                int(meta.trimmed),
                int(meta.clearing),
                meta.steps.line(),
                meta.server,
                int(meta.waited),
                int(meta.waited_at),
                meta.limit.map_or_else(String::new, |gate| gate.line()),
                cancels_of(meta),
            ],
        )
    }

    fn is_connected(&mut self, node: &str) -> Result<bool> {
        Ok(alive::is_shown(&self.database.path, node))
    }

    fn damaged_count(&mut self) -> Result<u64> {
        self.count("SELECT count(*) FROM damaged WHERE queue = ?", params![self.queue])
    }

    fn cursor(&mut self) -> Result<Vec<u8>> {
        let sql = "SELECT cursor FROM cursors WHERE queue = ?";
        let cursor = self.one(sql, params![self.queue], |row| row.get(0))?;
        Ok(cursor.unwrap_or_default())
    }

    fn set_cursor(&mut self, cursor: &[u8]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO cursors (queue, cursor) VALUES (?, ?)";
        self.write(sql, params![self.queue, cursor])
    }

    fn ring(&mut self, wake: Wake) -> Result<()> {
        self.write(
            "INSERT INTO bells (queue, bell, rung) VALUES (?, ?, 1)
             ON CONFLICT (queue, bell) DO UPDATE SET rung = 1 WHERE rung = 0",
            params![self.queue, wake as i64],
        )
    }

    fn unsettled(&mut self) -> Result<Vec<(u64, u64)>> {
        Ok(self.dump()?.unsettled())
    }

    fn purge(&mut self) -> Result<()> {
        for node in self.names_of("SELECT node FROM nodes WHERE queue = ?")? {
            alive::forget(&self.database.path, &node);
        }
        for table in OF_QUEUES {
            self.write(&format!("DELETE FROM {table} WHERE queue = ?"), params![self.queue])?;
        }
        Ok(())
    }

    fn purged(&mut self) -> Result<(u64, Vec<String>)> {
        let sql = "SELECT until, births FROM purged WHERE queue = ?";
        let found = self.one(sql, params![self.queue], |row| {
            let births: String = row.get(1)?;
            Ok((uint(row, 0)?, births.split_whitespace().map(str::to_string).collect()))
        })?;
        Ok(found.unwrap_or_default())
    }

    fn set_purged(&mut self, until_ms: u64, births: &[String]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO purged (queue, until, births) VALUES (?, ?, ?)";
        self.write(sql, params![self.queue, int(until_ms), births.join(" ")])
    }

    fn unheard(&mut self) -> Result<Vec<NodeId>> {
        self.names_of("SELECT node FROM unheard WHERE queue = ? ORDER BY position")
    }

    fn set_unheard(&mut self, nodes: &[NodeId]) -> Result<()> {
        self.write("DELETE FROM unheard WHERE queue = ?", params![self.queue])?;
        for node in nodes {
            self.write(
                "INSERT INTO unheard (queue, node) VALUES (?, ?)",
                params![self.queue, node],
            )?;
        }
        Ok(())
    }
}

impl Tables<'_> {
    /// Stills a bell. True: it rang.
    pub(in crate::engine::sqlite) fn answer(&mut self, wake: Wake) -> Result<bool> {
        let changed = self.change(
            "UPDATE bells SET rung = 0 WHERE queue = ? AND bell = ? AND rung = 1",
            params![self.queue, wake as i64],
        )?;
        Ok(changed > 0)
    }
}

/// As it is stored: mostly nothing is cancelled.
fn cancels_of(meta: &Meta) -> Vec<u8> {
    if meta.cancels.is_empty() {
        Vec::new()
    } else {
        record::encode(&meta.cancels)
    }
}

/// Whether a bell rings, without a transaction.
pub(in crate::engine::sqlite) fn rings(connection: &Connection, queue: &str, wake: Wake) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT rung FROM bells WHERE queue = ? AND bell = ?")?;
    let rung = statement
        .query_row(params![queue, wake as i64], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(rung == Some(1))
}
