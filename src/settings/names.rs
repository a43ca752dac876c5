//! What `meta` records of a queue besides its messages: the names of keys that can be chosen, and how many shards there are.

use std::fmt;

use crate::error::{Error, Result};

/// Names that can be chosen; `meta` records them, and a node with other names refuses to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub errors: String,
    pub bell: String,
    pub crown: String,
    /// How many shards the queue had when this one was made. They are recorded with the names: a node that knows of fewer or more would number
    /// and publish as if it were alone.
    pub shards: u32,
    /// Which of them this is; 0 is the home shard.
    pub shard: u32,
    /// Where it is on the ring of a cluster's slots, seen from the home shard, of [`RING`](Self::RING) places. It follows from the reshards.
    pub at: u32,
    /// What each `reshard` since then has made of it; the last one counts.
    pub then: Vec<Reshard>,
}

/// A change of the number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reshard {
    /// So many get new messages.
    pub shards: u32,
    /// Over so many URLs, each shard at the next of them in turn: whoever has fewer would look for shards where they are not.
    pub urls: u32,
}

impl fmt::Display for Reshard {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.urls {
            1 => write!(to, "{}", self.shards),
            urls => write!(to, "{}/{urls}", self.shards),
        }
    }
}

impl Reshard {
    fn parse(text: &str) -> Option<Self> {
        let (shards, urls) = text.split_once('/').unwrap_or((text, "1"));
        Some(Self {
            shards: shards.parse().ok()?,
            urls: urls.parse().ok()?,
        })
    }
}

impl Default for Names {
    fn default() -> Self {
        Self {
            errors: "errors".into(),
            bell: "bell".into(),
            crown: "crown".into(),
            shards: 1,
            shard: 0,
            at: 0,
            then: Vec::new(),
        }
    }
}

impl Names {
    /// The most shards of a queue: their numbers stay below 2^53, where every program counts exactly.
    pub const SHARDS_MAX: u32 = 256;
    /// How many places the ring has on which the shards of a queue lie: as many as a cluster has slots.
    pub const RING: u32 = 16384;
    /// How often the number of shards can be changed.
    pub const RESHARDS_MAX: usize = 64;

    /// As recorded in `meta`, and shown to people.
    #[must_use]
    pub fn line(&self) -> String {
        let shards = match self.shards {
            0 | 1 => String::new(),
            shards => format!(" shards={shards} shard={}", self.shard),
        };
        let then: Vec<String> = self.then.iter().map(Reshard::to_string).collect();
        let then = if then.is_empty() {
            String::new()
        } else {
            format!(" then={}", then.join(","))
        };
        format!(
            "errors={} bell={} crown={}{shards}{then}",
            self.errors, self.bell, self.crown
        )
    }

    /// How many shards get new messages.
    #[must_use]
    pub fn shards_now(&self) -> usize {
        self.then.last().map_or(self.shards, |last| last.shards) as usize
    }

    /// How often the number of shards was changed since this one was made.
    pub(crate) fn reshards(&self) -> u32 {
        u32::try_from(self.then.len()).unwrap_or(u32::MAX)
    }

    /// How many shards there are, with those that only run empty.
    #[must_use]
    pub fn shards_in_all(&self) -> usize {
        self.shard_counts().max().unwrap_or(1)
    }

    /// How many shards got new messages at each time; the last are those of now.
    pub(crate) fn shard_counts(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let then = self.then.iter().map(|then| then.shards);
        std::iter::once(self.shards).chain(then).map(|count| count as usize)
    }

    /// The same after one more `reshard`.
    #[must_use]
    pub fn resharded(&self, shards: u32, urls: u32) -> Self {
        let mut names = self.clone();
        names.then.push(Reshard { shards, urls });
        names
    }

    /// What a line says of the same queue whose number of shards was changed since: it goes on from this one, or speaks of the number that this one has. None:
    /// it is this one, or another.
    #[must_use]
    pub fn continued(&self, line: &str) -> Option<Self> {
        let (before, then) = line.split_once(" then=")?;
        let shards = before.split_once(" shards=").map_or("1", |(_, shards)| shards);
        let shards = shards.split(' ').next()?.parse().ok()?;
        let then: Option<Vec<Reshard>> = then.split(',').map(Reshard::parse).collect();
        let now = Self {
            shards,
            then: then?,
            ..self.clone()
        };
        let goes_on = now.shards == self.shards && now.then.starts_with(&self.then) && now.then.len() > self.then.len();
        let speaks_of = self.then.is_empty() && now.shard_counts().any(|count| count == self.shards as usize);
        let is_right = now.line() == line && now.check().is_ok() && (goes_on || speaks_of);
        is_right.then_some(now)
    }

    /// Those of a shard of the queue that has these in its home shard. It was made when there first were more shards than its number.
    #[must_use]
    pub fn in_shard(&self, shard: usize) -> Self {
        let (mut shards, mut then) = (self.shards, &self.then[..]);
        while let Some((next, rest)) = then.split_first().filter(|_| shards as usize <= shard) {
            (shards, then) = (next.shards, rest);
        }
        Self {
            shards,
            shard: u32::try_from(shard).unwrap_or(u32::MAX),
            at: self.places().get(shard).copied().unwrap_or_default(),
            then: then.to_vec(),
            ..self.clone()
        }
    }

    /// Where each shard is on the ring: as far apart as they can be, so that each server of a cluster has as many as any other. What a reshard adds comes
    /// between those that are there, evenly if that is possible, otherwise into the widest gap, the last of several.
    fn places(&self) -> Vec<u32> {
        let (ring, mut is_even) = (Self::RING, true);
        let mut places: Vec<u32> = (0..self.shards.min(Self::SHARDS_MAX))
            .map(|shard| ring * shard / self.shards)
            .collect();
        for count in self.then.iter().map(|then| then.shards) {
            let there = u32::try_from(places.len()).unwrap_or(u32::MAX);
            if count <= there {
                continue;
            }
            is_even &= count % there == 0;
            if is_even {
                let between = (0..count).filter(|place| place % (count / there) != 0);
                places.extend(between.map(|place| ring * place / count));
            }
            while places.len() < count as usize {
                places.push(middle_of_widest_gap(&places));
            }
        }
        places
    }

    /// The same in a shard of a queue that has so many; 0 is the home shard.
    #[must_use]
    pub fn of_shard(&self, shard: usize, shards: usize) -> Self {
        let shards = u32::try_from(shards).unwrap_or(u32::MAX);
        Self { shards, ..self.clone() }.in_shard(shard)
    }

    /// No two keys of a queue may be one.
    pub fn check(&self) -> Result<()> {
        const TAKEN: [&str; 13] = [
            "meta", "queue", "bodies", "again", "later", "nodes", "dead", "readers", "once", "history", "reigns",
            "unheard", "purged",
        ];
        let is_count = |count: &u32| (1..=Self::SHARDS_MAX).contains(count);
        let is_one = |then: &Reshard| is_count(&then.shards) && then.urls > 0;
        if !is_count(&self.shards) || !self.then.iter().all(is_one) || self.shard >= self.shards {
            return Err(Error::Setting {
                setting: "shards",
                reason: format!("must be 1 to {}", Self::SHARDS_MAX),
            });
        }
        if self.then.len() > Self::RESHARDS_MAX {
            return Err(Error::Setting {
                setting: "shards",
                reason: format!("can be changed {} times at most", Self::RESHARDS_MAX),
            });
        }
        let all = [&self.errors, &self.bell, &self.crown];
        for (i, name) in all.iter().enumerate() {
            let reason = if name.is_empty() {
                "a key name must not be empty".to_string()
            } else if name.contains([':', '{', '}']) || name.chars().any(char::is_control) {
                format!("the key name {name:?} must not contain ':', braces or control characters")
            } else if TAKEN.contains(&name.as_str()) || name.as_str() == "taken" {
                format!("the key name {name:?} is one of the queue's own; choose another")
            } else if all[..i].contains(name) {
                format!("the key name {name:?} is given twice; errors, bell and crown must differ")
            } else {
                continue;
            };
            return Err(Error::Setting {
                setting: "names",
                reason,
            });
        }
        Ok(())
    }
}

fn middle_of_widest_gap(places: &[u32]) -> u32 {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    let ends = sorted.iter().skip(1).copied().chain([Names::RING]);
    let gaps = sorted.iter().zip(ends).map(|(begin, end)| (end - begin, *begin));
    let (width, begin) = gaps.max().unwrap_or_default();
    begin + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reshard_adds_comes_between_the_shards_that_are_there() {
        let percent = |first: usize, then: &[u32]| -> Vec<u32> {
            let names = then
                .iter()
                .fold(Names::default().of_shard(0, first), |names, to| names.resharded(*to, 1));
            let at = |shard| names.in_shard(shard).at;
            (0..names.shards_in_all())
                .map(|shard| at(shard) * 100 / Names::RING)
                .collect()
        };
        assert_eq!(percent(4, &[]), [0, 25, 50, 75]);
        assert_eq!(percent(1, &[3]), [0, 33, 66]);
        assert_eq!(percent(3, &[6]), [0, 33, 66, 16, 50, 83]);
        assert_eq!(percent(2, &[3]), [0, 50, 75]);
        assert_eq!(percent(2, &[3, 1, 5]), [0, 50, 75, 25, 87]);
        // Where a shard is does not change with what comes later.
        assert_eq!(percent(3, &[6, 2, 12])[..6], percent(3, &[6]));
    }
}
