//! The last report of each node, the sums over time, and the last reigns.

use rusqlite::params;

use super::{Tables, int, uint};
use crate::engine::history::{Bucket, Crowned, LastReport, REIGNS_MAX, Range};
use crate::engine::record;
use crate::engine::store::Reports;
use crate::error::Result;

impl Reports for Tables<'_> {
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
        )
    }

    fn drop_report(&mut self, node: &str) -> Result<()> {
        let sql = "DELETE FROM reports WHERE queue = ? AND node = ?";
        self.write(sql, params![self.queue, node])
    }

    fn slot(&mut self, range: Range, slot: u64) -> Result<Option<Bucket>> {
        self.record(
            "SELECT bucket FROM history WHERE queue = ? AND ring = ? AND slot = ?",
            params![self.queue, int(range.ring()), int(slot)],
        )
    }

    fn set_slot(&mut self, range: Range, slot: u64, bucket: &Bucket) -> Result<()> {
        let bytes = record::encode(bucket);
        self.write(
            "INSERT OR REPLACE INTO history (queue, ring, slot, bucket) VALUES (?, ?, ?, ?)",
            params![self.queue, int(range.ring()), int(slot), bytes],
        )
    }

    fn reigns(&mut self) -> Result<Vec<Crowned>> {
        self.all(
            "SELECT epoch, node, time, before, made FROM reigns WHERE queue = ? ORDER BY position DESC",
            params![self.queue],
            |row| {
                Ok(Crowned {
                    epoch: uint(row, 0)?,
                    node: row.get(1)?,
                    time_ms: uint(row, 2)?,
                    before_ms: uint(row, 3)?,
                    made: uint(row, 4)?,
                })
            },
        )
    }

    fn add_reign(&mut self, reign: &Crowned) -> Result<()> {
        self.write(
            "INSERT INTO reigns (queue, position, epoch, node, time, before, made)
             SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3, ?4, ?5, ?6 FROM reigns WHERE queue = ?1",
            params![
                self.queue,
                int(reign.epoch),
                reign.node,
                int(reign.time_ms),
                int(reign.before_ms),
                int(reign.made)
            ],
        )?;
        self.write(
            "DELETE FROM reigns WHERE queue = ?1 AND position <=
             (SELECT max(position) FROM reigns WHERE queue = ?1) - ?2",
            params![self.queue, int(REIGNS_MAX as u64)],
        )
    }
}
