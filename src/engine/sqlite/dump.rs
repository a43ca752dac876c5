//! The whole queue, read back as a [`State`]: the tests compare it with the oracle.

use rusqlite::params;

use super::tables::{Tables, rings, uint};
use crate::engine::Wake;
use crate::engine::history::Range;
use crate::engine::memory::{State, Taken};
use crate::engine::record;
use crate::engine::store::{
    Effects, Endings, Errors, Groups, Leases, Lessee, Line, Lines, Nodes, Pushes, Reports, Store,
};
use crate::error::Result;
use crate::message::{Effect, Pack};

impl Tables<'_> {
    /// Everything that is kept of the queue.
    pub(super) fn dump(&mut self) -> Result<State> {
        let mut state = State::new(self.queue, self.names);
        state.meta = self.meta()?;
        state.cursor = self.cursor()?;
        state.purged = self.purged()?;
        state.unheard = self.unheard()?;
        for line in [Line::Queue, Line::Again] {
            let packs = self.packs(
                "SELECT pack FROM lines WHERE queue = ? AND line = ? ORDER BY position",
                params![self.queue, line as i64],
            )?;
            for pack in packs {
                state.push_back(line, &pack)?;
            }
        }
        self.dump_later_and_once(&mut state)?;
        self.dump_groups(&mut state)?;
        for number in self.all("SELECT number FROM asked WHERE queue = ?", params![self.queue], |row| {
            uint(row, 0)
        })? {
            if let Some(asked) = self.asked(number)? {
                state.set_asked(number, &asked)?;
            }
        }
        state.reigns = self.reigns()?.into();
        for range in Range::ALL {
            for slot in 0..range.steps() {
                if let Some(bucket) = self.slot(range, slot)? {
                    state.history.insert((range.ring(), slot), bucket);
                }
            }
        }
        state.nodes = self.leases(Lessee::Node)?.into_iter().collect();
        state.readers = self.leases(Lessee::Reader)?.into_iter().collect();
        state.dead = self.dead()?.into();
        for node in self.names_of("SELECT node FROM nodes WHERE queue = ?")? {
            let lanes = self.all(
                "SELECT lane, record FROM lanes WHERE queue = ? AND node = ?",
                params![self.queue, node],
                |row| Ok((row.get::<_, u32>(0)?, row.get::<_, Vec<u8>>(1)?)),
            )?;
            let lanes = lanes
                .into_iter()
                .map(|(lane, bytes)| Ok((lane, record::decode(&bytes)?)));
            let pieces = self.pieces(&node, usize::MAX, usize::MAX)?.into_iter();
            let taken = Taken {
                about: self.about(&node)?.unwrap_or_default(),
                lanes: lanes.collect::<Result<_>>()?,
                pieces: pieces.map(|pack| (pack.first(), pack)).collect(),
                report: self.report(&node)?,
            };
            state.taken.insert(node, taken);
        }
        state.errors = self
            .failed_between(0, u64::MAX, usize::MAX, usize::MAX)?
            .into_iter()
            .map(|failed| (failed.number, failed))
            .collect();
        for reader in self.names_of("SELECT reader FROM readers WHERE queue = ?")? {
            if let Some(batch) = self.reading(&reader)? {
                state.reading.insert(reader, batch);
            }
        }
        let rings = |wake| rings(self.transaction, self.queue, wake).map_err(|error| self.error(&error));
        state.bell = rings(Wake::Bell)?;
        state.crown_bell = rings(Wake::Crown)?;
        let mut effects = self.all("SELECT key, value FROM effect_values", [], |row| {
            let (key, value) = (row.get(0)?, row.get(1)?);
            Ok(Effect::Set { key, value })
        })?;
        effects.extend(self.all("SELECT key, field, value FROM effect_fields", [], |row| {
            let (key, field, value) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Effect::SetField { key, field, value })
        })?);
        effects.extend(
            self.all("SELECT key, value FROM effect_items ORDER BY position", [], |row| {
                let (key, value) = (row.get(0)?, row.get(1)?);
                Ok(Effect::Push { key, value })
            })?,
        );
        for effect in &effects {
            state.apply(effect)?;
        }
        Ok(state)
    }

    fn dump_groups(&mut self, state: &mut State) -> Result<()> {
        state.group_rules = self.group_rules()?;
        for pack in self.packs("SELECT pack FROM grouped WHERE queue = ?", params![self.queue])? {
            let group = pack.group().unwrap_or_default().to_string();
            state.enter_line(&group, &pack)?;
        }
        state.ready = self
            .names_of("SELECT grp FROM ready WHERE queue = ? ORDER BY position")?
            .into();
        for group in self.names_of("SELECT grp FROM turns WHERE queue = ?")? {
            let turn = self.turn(&group)?;
            state.set_turn(&group, turn)?;
        }
        state.resting = self.rested(u64::MAX >> 1, usize::MAX >> 1)?.into_iter().collect();
        #[cfg(feature = "mutants")]
        if self.damaged_count()? == 0 {
            let counted = (self.grouped_count()?, self.longest_lines(usize::MAX)?);
            assert_eq!(counted, (state.grouped_count()?, state.longest_lines(usize::MAX)?));
        }
        Ok(())
    }

    /// What is put off, and what is remembered of pushes.
    fn dump_later_and_once(&mut self, state: &mut State) -> Result<()> {
        let later = self.all(
            "SELECT due, pack FROM later WHERE queue = ?",
            params![self.queue],
            |row| Ok((uint(row, 0)?, row.get::<_, Vec<u8>>(1)?)),
        )?;
        for (due_ms, bytes) in later {
            state.put_off(due_ms, &Pack::decode(bytes.into())?)?;
        }
        for name in self.names_of("SELECT name FROM once WHERE queue = ?")? {
            if let Some(kept) = self.once(&name)? {
                state.once.insert(name, kept);
            }
        }
        Ok(())
    }
}
