//! What effects have written, of all queues in the file.

use rusqlite::params;

use super::Tables;
use crate::engine::rules::counter;
use crate::engine::store::{Effects, Kind};
use crate::error::Result;
use crate::message::Effect;

impl Effects for Tables<'_> {
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
        let set = "INSERT OR REPLACE INTO effect_values (key, value) VALUES (?, ?)";
        match effect {
            Effect::Add { key, by } => {
                let held = self.stored(key)?.and_then(|(_, value)| value);
                let new = held.and_then(|text| counter(&text)).unwrap_or(0) + by;
                self.write(set, params![key, new.to_string().as_bytes()])
            }
            Effect::Set { key, value } => self.write(set, params![key, value]),
            Effect::SetField { key, field, value } => {
                let sql = "INSERT OR REPLACE INTO effect_fields (key, field, value) VALUES (?, ?, ?)";
                self.write(sql, params![key, field, value])
            }
            Effect::Push { key, value } => self.write(
                "INSERT INTO effect_items (key, value) VALUES (?, ?)",
                params![key, value],
            ),
            // It goes into the queue, not under a key.
            Effect::Publish { .. } | Effect::Result { .. } => Ok(()),
        }
    }
}
