//! Groups: the line of each, whose turn it is, and how many of each are in flight.

use rusqlite::params;

use super::{Tables, int, uint};
use crate::engine::store::{GroupRules, Groups, Store, Turn};
use crate::error::Result;
use crate::message::Pack;

impl Tables<'_> {
    /// Counts what enters or leaves a line.
    fn count_line(&self, group: &str, by: i64) -> Result<()> {
        self.write(
            "INSERT INTO turns (queue, grp, turn, waiting) VALUES (?1, ?2, 0, max(?3, 0))
             ON CONFLICT (queue, grp) DO UPDATE SET waiting = max(waiting + ?3, 0)",
            params![self.queue, group, by],
        )?;
        self.write(
            "INSERT INTO group_rules (queue, rules, waiting) VALUES (?1, ?3, max(?2, 0))
             ON CONFLICT (queue) DO UPDATE SET waiting = max(waiting + ?2, 0)",
            params![self.queue, by, int(GroupRules::default().number())],
        )?;
        self.forget_idle(group)
    }

    /// A group of which there is nothing to be remembered.
    fn forget_idle(&self, group: &str) -> Result<()> {
        self.write(
            "DELETE FROM turns WHERE queue = ? AND grp = ? AND turn = 0 AND waiting = 0",
            params![self.queue, group],
        )
    }

    fn ready_edge(&self, which: &str) -> Result<i64> {
        let sql = format!("SELECT {which}(position) FROM ready WHERE queue = ?");
        let edge = self.one(&sql, params![self.queue], |row| row.get::<_, Option<i64>>(0))?;
        Ok(edge.flatten().unwrap_or(0))
    }

    fn put_ready(&self, position: i64, group: &str) -> Result<()> {
        let sql = "INSERT INTO ready (queue, position, grp) VALUES (?, ?, ?)";
        self.write(sql, params![self.queue, position, group])
    }
}

impl Groups for Tables<'_> {
    fn group_rules(&mut self) -> Result<GroupRules> {
        let sql = "SELECT rules FROM group_rules WHERE queue = ?";
        let rules = self.one(sql, params![self.queue], |row| uint(row, 0))?;
        Ok(rules.map_or_else(GroupRules::default, GroupRules::of_number))
    }

    fn set_group_rules(&mut self, rules: GroupRules) -> Result<()> {
        self.write(
            "INSERT INTO group_rules (queue, rules, waiting) VALUES (?1, ?2, 0)
             ON CONFLICT (queue) DO UPDATE SET rules = ?2",
            params![self.queue, int(rules.number())],
        )
    }

    fn turn(&mut self, group: &str) -> Result<Turn> {
        let sql = "SELECT turn FROM turns WHERE queue = ? AND grp = ?";
        let turn = self.one(sql, params![self.queue, group], |row| uint(row, 0))?;
        Ok(turn.map_or_else(Turn::default, Turn::of_number))
    }

    fn set_turn(&mut self, group: &str, turn: Turn) -> Result<()> {
        self.write(
            "INSERT INTO turns (queue, grp, turn, waiting) VALUES (?1, ?2, ?3, 0)
             ON CONFLICT (queue, grp) DO UPDATE SET turn = ?3",
            params![self.queue, group, int(turn.number())],
        )?;
        self.forget_idle(group)
    }

    fn paused_groups(&mut self) -> Result<Vec<String>> {
        self.names_of("SELECT grp FROM turns WHERE queue = ? AND turn / 2 % 2 = 1 ORDER BY grp")
    }

    fn enter_line(&mut self, group: &str, message: &Pack) -> Result<()> {
        self.write(
            "INSERT INTO grouped (queue, grp, number, pack) VALUES (?, ?, ?, ?)",
            params![self.queue, group, int(message.first()), &message.bytes()[..]],
        )?;
        self.count_line(group, 1)
    }

    fn first_in_line(&mut self, group: &str) -> Result<Option<Pack>> {
        let sql = "SELECT rowid, pack FROM grouped WHERE queue = ? AND grp = ? ORDER BY number LIMIT 1";
        let before = self.damaged_count()?;
        let first = self.sound_packs("grouped", sql, (self.queue, group), usize::MAX)?;
        // What cannot be read was set aside, and stands in the line no more.
        let spoilt = self.damaged_count()? - before;
        if spoilt > 0 {
            self.count_line(group, -int(spoilt))?;
        }
        Ok(first.into_iter().next().map(|(_, pack)| pack))
    }

    fn leave_line(&mut self, group: &str, number: u64) -> Result<()> {
        self.write(
            "DELETE FROM grouped WHERE queue = ? AND grp = ? AND number = ?",
            params![self.queue, group, int(number)],
        )?;
        self.count_line(group, -1)
    }

    fn line_length(&mut self, group: &str) -> Result<u64> {
        self.count(
            "SELECT waiting FROM turns WHERE queue = ? AND grp = ?",
            params![self.queue, group],
        )
    }

    fn grouped_count(&mut self) -> Result<u64> {
        self.count("SELECT waiting FROM group_rules WHERE queue = ?", params![self.queue])
    }

    fn longest_lines(&mut self, limit: usize) -> Result<(u64, Vec<(String, u64)>)> {
        let groups = self.count(
            "SELECT count(*) FROM turns WHERE queue = ? AND waiting > 0",
            params![self.queue],
        )?;
        let longest = self.all(
            "SELECT grp, waiting FROM turns WHERE queue = ? AND waiting > 0 ORDER BY waiting DESC, grp DESC LIMIT ?",
            params![self.queue, int(limit as u64)],
            |row| Ok((row.get(0)?, uint(row, 1)?)),
        )?;
        Ok((groups, longest))
    }

    fn pop_ready(&mut self) -> Result<Option<String>> {
        let sql = "SELECT position, grp FROM ready WHERE queue = ? ORDER BY position LIMIT 1";
        let first = self.one(sql, params![self.queue], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        let Some((position, group)) = first else {
            return Ok(None);
        };
        self.write(
            "DELETE FROM ready WHERE queue = ? AND position = ?",
            params![self.queue, position],
        )?;
        Ok(Some(group))
    }

    fn push_ready(&mut self, group: &str) -> Result<()> {
        let position = self.ready_edge("max")? + 1;
        self.put_ready(position, group)
    }

    fn unpop_ready(&mut self, group: &str) -> Result<()> {
        let position = self.ready_edge("min")? - 1;
        self.put_ready(position, group)
    }

    fn ready_count(&mut self) -> Result<u64> {
        self.count("SELECT count(*) FROM ready WHERE queue = ?", params![self.queue])
    }

    fn rest(&mut self, group: &str) -> Result<Option<u64>> {
        let sql = "SELECT until FROM resting WHERE queue = ? AND grp = ?";
        self.one(sql, params![self.queue, group], |row| uint(row, 0))
    }

    fn set_rest(&mut self, group: &str, until_us: u64) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO resting (queue, grp, until) VALUES (?, ?, ?)",
            params![self.queue, group, int(until_us)],
        )
    }

    fn end_rest(&mut self, group: &str) -> Result<()> {
        self.write(
            "DELETE FROM resting WHERE queue = ? AND grp = ?",
            params![self.queue, group],
        )
    }

    fn rested(&mut self, until_us: u64, limit: usize) -> Result<Vec<(String, u64)>> {
        self.all(
            "SELECT grp, until FROM resting WHERE queue = ? AND until <= ? ORDER BY until, grp LIMIT ?",
            params![self.queue, int(until_us), int(limit as u64)],
            |row| Ok((row.get(0)?, uint(row, 1)?)),
        )
    }

    fn first_rest(&mut self) -> Result<Option<u64>> {
        let sql = "SELECT until FROM resting WHERE queue = ? ORDER BY until LIMIT 1";
        self.one(sql, params![self.queue], |row| uint(row, 0))
    }
}
