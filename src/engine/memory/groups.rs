//! Groups, in memory.

use super::State;
use crate::engine::store::{GroupRules, Groups, Turn};
use crate::error::Result;
use crate::message::Pack;

impl State {
    fn line_of(&self, group: &str) -> impl Iterator<Item = &Pack> {
        let range = (group.to_string(), 0)..=(group.to_string(), u64::MAX);
        self.lines.range(range).map(|(_, pack)| pack)
    }
}

impl Groups for State {
    fn group_rules(&mut self) -> Result<GroupRules> {
        Ok(self.group_rules)
    }

    fn set_group_rules(&mut self, rules: GroupRules) -> Result<()> {
        self.group_rules = rules;
        Ok(())
    }

    fn turn(&mut self, group: &str) -> Result<Turn> {
        Ok(self.turns.get(group).copied().unwrap_or_default())
    }

    fn set_turn(&mut self, group: &str, turn: Turn) -> Result<()> {
        if turn == Turn::default() {
            self.turns.remove(group);
        } else {
            self.turns.insert(group.to_string(), turn);
        }
        Ok(())
    }

    fn paused_groups(&mut self) -> Result<Vec<String>> {
        let paused = self.turns.iter().filter(|(_, turn)| turn.paused);
        Ok(paused.map(|(group, _)| group.clone()).collect())
    }

    fn enter_line(&mut self, group: &str, message: &Pack) -> Result<()> {
        self.lines.insert((group.to_string(), message.first()), message.clone());
        Ok(())
    }

    fn first_in_line(&mut self, group: &str) -> Result<Option<Pack>> {
        Ok(self.line_of(group).next().cloned())
    }

    fn leave_line(&mut self, group: &str, number: u64) -> Result<()> {
        self.lines.remove(&(group.to_string(), number));
        Ok(())
    }

    fn line_length(&mut self, group: &str) -> Result<u64> {
        Ok(self.line_of(group).count() as u64)
    }

    fn grouped_count(&mut self) -> Result<u64> {
        Ok(self.lines.len() as u64)
    }

    fn longest_lines(&mut self, limit: usize) -> Result<(u64, Vec<(String, u64)>)> {
        let mut lengths: Vec<(u64, String)> = Vec::new();
        for (group, _) in self.lines.keys() {
            match lengths.last_mut() {
                Some((length, last)) if last == group => *length += 1,
                _ => lengths.push((1, group.clone())),
            }
        }
        let groups = lengths.len() as u64;
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let longest = lengths.into_iter().take(limit);
        Ok((groups, longest.map(|(length, group)| (group, length)).collect()))
    }

    fn pop_ready(&mut self) -> Result<Option<String>> {
        Ok(self.ready.pop_front())
    }

    fn push_ready(&mut self, group: &str) -> Result<()> {
        self.ready.push_back(group.to_string());
        Ok(())
    }

    fn unpop_ready(&mut self, group: &str) -> Result<()> {
        self.ready.push_front(group.to_string());
        Ok(())
    }

    fn ready_count(&mut self) -> Result<u64> {
        Ok(self.ready.len() as u64)
    }

    fn rest(&mut self, group: &str) -> Result<Option<u64>> {
        Ok(self.resting.get(group).copied())
    }

    fn set_rest(&mut self, group: &str, until_us: u64) -> Result<()> {
        self.resting.insert(group.to_string(), until_us);
        Ok(())
    }

    fn end_rest(&mut self, group: &str) -> Result<()> {
        self.resting.remove(group);
        Ok(())
    }

    fn rested(&mut self, until_us: u64, limit: usize) -> Result<Vec<(String, u64)>> {
        let rested = self.resting.iter().filter(|(_, until)| **until <= until_us);
        let mut rested: Vec<(String, u64)> = rested.map(|(group, until)| (group.clone(), *until)).collect();
        rested.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        rested.truncate(limit);
        Ok(rested)
    }

    fn first_rest(&mut self) -> Result<Option<u64>> {
        Ok(self.resting.values().min().copied())
    }
}
