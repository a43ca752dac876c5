//! What was answered to pushes.

use rusqlite::params;

use super::{Tables, int, uint};
use crate::engine::store::Pushes;
use crate::engine::{Receipt, record};
use crate::error::Result;

impl Pushes for Tables<'_> {
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
        )
    }

    fn forget_once(&mut self, now_ms: u64, limit: usize) -> Result<()> {
        self.write(
            "DELETE FROM once WHERE queue = ?1 AND name IN
             (SELECT name FROM once WHERE queue = ?1 AND until <= ?2 ORDER BY until, name LIMIT ?3)",
            params![self.queue, int(now_ms), int(limit as u64)],
        )
    }
}
