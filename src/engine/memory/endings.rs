//! What is kept of messages whose outcomes are asked for, in memory.

use super::State;
use crate::engine::limits::FOUND_MAX;
use crate::engine::store::{Asked, Endings, Waits};
use crate::error::Result;
use crate::message::Pack;

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

    fn waits(&mut self, number: u64) -> Result<Waits> {
        let has = |pack: &Pack| pack.has(number);
        let mut later = self.later.iter().take(FOUND_MAX);
        if let Some(((due_ms, _), _)) = later.find(|(_, pack)| has(pack)) {
            return Ok(Waits::Until(*due_ms));
        }
        let again = self.again.iter().take(FOUND_MAX);
        if self.queue.iter().any(has) || again.chain(self.lines.values().take(FOUND_MAX)).any(has) {
            return Ok(Waits::Now);
        }
        let lengths = [self.queue.len(), self.again.len(), self.later.len(), self.lines.len()];
        let seen = lengths.into_iter().all(|length| length <= FOUND_MAX);
        Ok(if seen { Waits::Nowhere } else { Waits::Unseen })
    }
}
