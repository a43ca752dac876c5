//! When the leases of nodes and of readers end.

use rusqlite::params;

use super::{Tables, int, uint};
use crate::engine::store::{Leases, Lessee};
use crate::error::Result;

impl Leases for Tables<'_> {
    fn lease(&mut self, lessee: Lessee, name: &str) -> Result<Option<u64>> {
        self.one(
            "SELECT until FROM leases WHERE queue = ? AND lessee = ? AND name = ?",
            params![self.queue, lessee as i64, name],
            |row| uint(row, 0),
        )
    }

    fn set_lease(&mut self, lessee: Lessee, name: &str, until: u64) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO leases (queue, lessee, name, until) VALUES (?, ?, ?, ?)",
            params![self.queue, lessee as i64, name, int(until)],
        )
    }

    fn end_lease(&mut self, lessee: Lessee, name: &str) -> Result<()> {
        self.write(
            "DELETE FROM leases WHERE queue = ? AND lessee = ? AND name = ?",
            params![self.queue, lessee as i64, name],
        )
    }

    fn leases(&mut self, lessee: Lessee) -> Result<Vec<(String, u64)>> {
        self.all(
            "SELECT name, until FROM leases WHERE queue = ? AND lessee = ? ORDER BY until, name",
            params![self.queue, lessee as i64],
            |row| Ok((row.get(0)?, uint(row, 1)?)),
        )
    }

    fn first_lease(&mut self, lessee: Lessee) -> Result<Option<(String, u64)>> {
        self.one(
            "SELECT name, until FROM leases WHERE queue = ? AND lessee = ? ORDER BY until, name LIMIT 1",
            params![self.queue, lessee as i64],
            |row| Ok((row.get(0)?, uint(row, 1)?)),
        )
    }
}
