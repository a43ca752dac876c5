//! Readers of errors.

use super::{State, expired};
use crate::engine::{DRAIN_BYTES_MAX, Drain, Drained, Failed};

impl State {
    pub fn drain(&mut self, wall_ms: u64, drain: &Drain) -> Drained {
        let Some(meta) = &self.meta else {
            return Drained::Batch {
                failed: Vec::new(),
                others: 0,
                victim: None,
            };
        };
        let clock = self.hive(meta, wall_ms, meta.step);
        let filled_by = self.reading.get(&drain.reader).map(|(call, _)| *call);
        let failed = if filled_by == Some(drain.call) {
            self.reading[&drain.reader].1.clone()
        } else {
            if self.guard("drain-call") && filled_by.unwrap_or(0) + 1 != drain.call {
                return Drained::Deposed;
            }
            self.reading.remove(&drain.reader);
            if drain.want == 0 {
                self.readers.remove(&drain.reader);
                Vec::new()
            } else {
                let numbers = bounded(
                    self.errors.range(..drain.below).map(|(_, failed)| failed),
                    drain.want as usize,
                );
                let batch: Vec<Failed> = numbers.iter().filter_map(|number| self.errors.remove(number)).collect();
                self.reading.insert(drain.reader.clone(), (drain.call, batch.clone()));
                batch
            }
        };
        let meta = self.meta.as_mut().expect("seen above");
        meta.clock = clock;
        meta.wall = wall_ms;
        let reads = drain.want > 0;
        if reads {
            self.readers.insert(drain.reader.clone(), clock + drain.lease_ms);
        }
        Drained::Batch {
            failed,
            others: self.readers.len() as u64 - u64::from(reads),
            victim: expired(&self.readers, clock)
                .filter(|victim| **victim != drain.reader)
                .cloned(),
        }
    }

    pub fn hold(&mut self, wall_ms: u64, reader: &str, lease_ms: u64) -> bool {
        let Some(meta) = &self.meta else { return false };
        let clock = self.hive(meta, wall_ms, meta.step);
        let meta = self.meta.as_mut().expect("seen above");
        meta.clock = clock;
        meta.wall = wall_ms;
        if self.guard("hold-member") && !self.readers.contains_key(reader) {
            return false;
        }
        self.readers.insert(reader.to_string(), clock + lease_ms);
        true
    }

    pub fn release(&mut self, wall_ms: u64, reader: &str, only_expired: bool) {
        let Some(meta) = &self.meta else { return };
        let clock = self.hive(meta, wall_ms, meta.step);
        let runs = self.readers.get(reader).is_none_or(|deadline| *deadline > clock);
        if only_expired && runs && self.guard("reader-lease") {
            return;
        }
        if let Some((_, batch)) = self.reading.remove(reader) {
            self.errors
                .extend(batch.into_iter().map(|failed| (failed.number, failed)));
        }
        self.readers.remove(reader);
    }

    #[must_use]
    pub fn failed(&self, from: u64, limit: u32) -> Vec<Failed> {
        let numbers = bounded(self.errors.range(from..).map(|(_, failed)| failed), limit as usize);
        numbers.iter().map(|number| self.errors[number].clone()).collect()
    }
}

/// The numbers of a batch: chunks that double, until there are enough messages or bytes.
fn bounded<'a>(failed: impl Iterator<Item = &'a Failed>, want: usize) -> Vec<u64> {
    let (mut numbers, mut bytes, mut chunk) = (Vec::new(), 0, 1);
    let mut failed = failed.peekable();
    while numbers.len() < want && bytes < DRAIN_BYTES_MAX && failed.peek().is_some() {
        for failed in failed.by_ref().take(chunk.min(want - numbers.len())) {
            numbers.push(failed.number);
            bytes += crate::engine::record::encode(failed).len();
        }
        chunk = (chunk * 2).min(500);
    }
    numbers
}
