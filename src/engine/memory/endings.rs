//! What is kept of messages whose outcomes are asked for, in memory.

use super::State;
use crate::engine::store::{Asked, Endings};
use crate::error::Result;

impl Endings for State {
    fn asked(&mut self, number: u64) -> Result<Option<Asked>> {
        Ok(self.asked.get(&number).cloned())
    }

    fn set_asked(&mut self, number: u64, asked: &Asked) -> Result<()> {
        self.forget_asked(number)?;
        if let Asked::Ended(ending) = asked {
            self.endings.insert((ending.time_ms, number));
        }
        self.asked.insert(number, asked.clone());
        Ok(())
    }

    fn forget_asked(&mut self, number: u64) -> Result<()> {
        if let Some(Asked::Ended(ending)) = self.asked.remove(&number) {
            self.endings.remove(&(ending.time_ms, number));
        }
        Ok(())
    }

    fn first_endings(&mut self, limit: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.endings.iter().take(limit).copied().collect())
    }

    fn endings_count(&mut self) -> Result<u64> {
        Ok(self.endings.len() as u64)
    }
}
