//! Items that a generator has made into messages and that the store has not confirmed: they may be asked for again.

use std::collections::VecDeque;

use super::{Election, Next};

/// Keeps items that were made into messages, until these are known to be published.
#[derive(Debug)]
pub(crate) struct Unconfirmed<T> {
    items: VecDeque<T>,
    /// The first item is the `from`th message made.
    from: u64,
}

impl<T> Default for Unconfirmed<T> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            from: 0,
        }
    }
}

impl<T> Unconfirmed<T> {
    /// A reign begins. Items that were on their way when the last one ended may have arrived: what the store had counted then
    /// tells. Where it is not known any more, they come again.
    pub(crate) fn elected(&mut self, election: &Election) {
        if let Some(made) = election.made_before {
            self.confirm(made);
        }
        self.from = election.made;
    }

    /// `made` messages are published now.
    pub(crate) fn confirm(&mut self, made: u64) {
        while self.from < made && self.items.pop_front().is_some() {
            self.from += 1;
        }
    }

    /// The item that was made for this message before.
    pub(crate) fn again(&mut self, next: &Next) -> Option<&T> {
        self.confirm(next.confirmed);
        if self.items.is_empty() {
            self.from = next.made;
        }
        let place = usize::try_from(next.made.checked_sub(self.from)?).ok()?;
        self.items.get(place)
    }

    pub(crate) fn push(&mut self, item: T) {
        self.items.push_back(item);
    }

    #[cfg(feature = "cli")]
    pub(crate) fn clear(&mut self) {
        self.items.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(made: u64, confirmed: u64) -> Next {
        Next {
            number: 100 + made,
            epoch: 1,
            made,
            confirmed,
            others_wait: false,
            due_ms: 0,
        }
    }

    fn elected(kept: &mut Unconfirmed<char>, made_before: Option<u64>, made: u64) {
        kept.elected(&Election {
            number: 0,
            epoch: 1,
            made,
            made_before,
            cursor: bytes::Bytes::new(),
            shards: 1,
        });
    }

    fn made(kept: &mut Unconfirmed<char>, from: u64, items: &str) {
        for (at, item) in (from..).zip(items.chars()) {
            assert_eq!(kept.again(&next(at, from)), None);
            kept.push(item);
        }
    }

    #[test]
    fn what_is_confirmed_when_a_reign_ends_does_not_come_again_in_the_next() {
        let mut kept = Unconfirmed::default();
        elected(&mut kept, None, 7);
        made(&mut kept, 7, "abc");
        kept.confirm(10);
        elected(&mut kept, None, 25);
        assert_eq!(kept.again(&next(25, 25)), None);
    }

    #[test]
    fn what_was_on_its_way_comes_again_unless_the_store_is_known_to_have_it() {
        // How many were made when the last reign had ended, and now; others may have reigned and generated in between.
        let cases = [
            (Some(9), 9, Some('c')),
            (Some(10), 10, None),
            (Some(9), 25, Some('c')),
            (Some(10), 25, None),
            (None, 25, Some('b')),
        ];
        for (before, store, again) in cases {
            let mut kept = Unconfirmed::default();
            elected(&mut kept, None, 7);
            made(&mut kept, 7, "abc");
            kept.confirm(8);
            elected(&mut kept, before, store);
            assert_eq!(kept.again(&next(store, store)).copied(), again, "{before:?} {store}");
        }
    }
}
