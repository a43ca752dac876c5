//! Under which number which payload was seen.

use std::collections::BTreeMap;

use super::Numbers;

/// Payloads as prints ([`super::print_of`]).
#[derive(Debug, Default)]
pub struct Prints {
    /// Of payloads that are not just the number.
    pub(super) by_number: BTreeMap<u64, u64>,
    /// Numbers that were seen as payloads.
    pub(super) plain: Numbers,
    /// Numbers that were seen with two payloads.
    pub ambiguous: Numbers,
}

impl Prints {
    /// Someone saw a payload with this print under this number.
    pub fn saw(&mut self, number: u64, print: u64) {
        let other = if print == 0 {
            self.plain.insert(number, 1);
            self.by_number.contains_key(&number)
        } else {
            let first = *self.by_number.entry(number).or_insert(print);
            first != print || self.plain.contains(number)
        };
        if other {
            self.ambiguous.insert(number, 1);
        }
    }

    /// How many messages were seen.
    pub fn count(&self) -> u64 {
        self.by_number.len() as u64 + self.plain.len()
    }

    /// Whether the payload of this message was seen.
    pub fn contains(&self, number: u64) -> bool {
        self.by_number.contains_key(&number) || self.plain.contains(number)
    }
}
