//! What is kept of each node: who it is, its lanes, and the packs in its hand.

use rusqlite::params;

use super::super::alive;
use super::{Columns, Tables, int};
use crate::engine::store::{About, Lane, Nodes};
use crate::engine::{NodeId, record};
use crate::error::Result;
use crate::message::Pack;

impl Nodes for Tables<'_> {
    fn dead(&mut self) -> Result<Vec<NodeId>> {
        self.names_of("SELECT node FROM dead WHERE queue = ? ORDER BY position")
    }

    fn add_dead(&mut self, node: &str) -> Result<()> {
        self.write(
            "INSERT INTO dead (queue, node) VALUES (?, ?)",
            params![self.queue, node],
        )
    }

    fn remove_dead(&mut self, node: &str) -> Result<()> {
        self.write(
            "DELETE FROM dead WHERE queue = ? AND node = ?",
            params![self.queue, node],
        )
    }

    fn about(&mut self, node: &str) -> Result<Option<About>> {
        self.one(
            "SELECT host, pid, version, concurrency, deliveries_max, joined, suspects, alone, held, token, step, reshards FROM nodes WHERE queue = ? AND node = ?",
            params![self.queue, node],
            |row| {
                let mut row = Columns::of(row);
                Ok(About {
                    host: row.next()?,
                    pid: row.next()?,
                    version: row.next()?,
                    concurrency: row.next()?,
                    deliveries_max: row.next()?,
                    joined: row.uint()?,
                    suspects: row.uint()?,
                    alone: row.uint()?,
                    held: row.next::<Option<i64>>()?.map(i64::unsigned_abs),
                    token: row.next()?,
                    step: row.uint()?,
                    reshards: row.next()?,
                })
            },
        )
    }

    fn set_about(&mut self, node: &str, about: &About) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO nodes (queue, node, host, pid, version, concurrency, deliveries_max, joined, suspects, alone,
             held, token, step, reshards) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                self.queue,
                node,
                about.host,
                about.pid,
                about.version,
                about.concurrency,
                about.deliveries_max,
                int(about.joined),
                int(about.suspects),
                int(about.alone),
                about.held.map(int),
                about.token,
                int(about.step),
                about.reshards,
            ],
        )
    }

    fn forget(&mut self, node: &str) -> Result<()> {
        for table in ["nodes", "lanes", "pieces"] {
            let sql = format!("DELETE FROM {table} WHERE queue = ? AND node = ?");
            self.write(&sql, params![self.queue, node])?;
        }
        alive::forget(&self.database.path, node);
        Ok(())
    }

    fn lane(&mut self, node: &str, lane: u32) -> Result<Option<Lane>> {
        self.record(
            "SELECT record FROM lanes WHERE queue = ? AND node = ? AND lane = ?",
            params![self.queue, node, lane],
        )
    }

    fn set_lane(&mut self, node: &str, lane: u32, lane_record: &Lane) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO lanes (queue, node, lane, record) VALUES (?, ?, ?, ?)",
            params![self.queue, node, lane, record::encode(lane_record)],
        )
    }

    fn lanes(&mut self, node: &str) -> Result<Vec<Lane>> {
        self.records(
            "SELECT record FROM lanes WHERE queue = ? AND node = ? ORDER BY lane",
            params![self.queue, node],
        )
    }

    fn close_lanes(&mut self, node: &str) -> Result<()> {
        self.write(
            "DELETE FROM lanes WHERE queue = ? AND node = ?",
            params![self.queue, node],
        )
    }

    fn piece(&mut self, node: &str, first: u64) -> Result<Option<Pack>> {
        let piece = self.sound_packs(
            "pieces",
            "SELECT rowid, pack FROM pieces WHERE queue = ? AND node = ? AND first = ?",
            (self.queue, node, int(first)),
            usize::MAX,
        )?;
        Ok(piece.into_iter().next().map(|(_, pack)| pack))
    }

    fn piece_from(&mut self, node: &str, number: u64) -> Result<Option<Pack>> {
        let piece = self.sound_packs(
            "pieces",
            "SELECT rowid, pack FROM pieces WHERE queue = ? AND node = ? AND first <= ? ORDER BY first DESC LIMIT 1",
            (self.queue, node, int(number)),
            usize::MAX,
        )?;
        Ok(piece.into_iter().next().map(|(_, pack)| pack))
    }

    fn put_piece(&mut self, node: &str, pack: &Pack) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO pieces (queue, node, first, pack) VALUES (?, ?, ?, ?)",
            params![self.queue, node, int(pack.first()), &pack.bytes()[..]],
        )
    }

    fn remove_piece(&mut self, node: &str, first: u64) -> Result<()> {
        self.write(
            "DELETE FROM pieces WHERE queue = ? AND node = ? AND first = ?",
            params![self.queue, node, int(first)],
        )
    }

    fn pieces(&mut self, node: &str, limit: usize, bytes_max: usize) -> Result<Vec<Pack>> {
        let pieces = self.sound_packs(
            "pieces",
            "SELECT rowid, pack FROM pieces WHERE queue = ? AND node = ? ORDER BY first LIMIT ?",
            (self.queue, node, int(limit as u64)),
            bytes_max,
        )?;
        Ok(pieces.into_iter().map(|(_, pack)| pack).collect())
    }
}
