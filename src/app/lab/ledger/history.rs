//! All that is known of a run: what its nodes wrote down, and what was done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Ledger, Numbers, Prints, Record};
use crate::engine::sharded::{process_of, shard_of};
use crate::node::event::{Entry, What};

#[derive(Default)]
pub struct History {
    pub ledger: Ledger,
    pub recorded: Recorded,
}

/// What the books tell beyond the outcomes.
#[derive(Default)]
pub struct Recorded {
    pub members: Vec<Member>,
    pub takes: Vec<Take>,
    /// When something was told to be published.
    pub told_ms: Vec<u64>,
    pub reigns: BTreeMap<u64, Reign>,
    /// By shard and epoch: the lowest and the highest number.
    pub(super) ranges: BTreeMap<(usize, u64), (u64, u64)>,
    /// Members that a generator gave up.
    pub reaped: BTreeSet<String>,
    pub rewinds: u64,
    /// How often the store surely forgot something.
    pub forgot_surely: u64,
    /// Messages whose first delivery was started.
    pub started: Numbers,
    /// Started in one and the same delivery more than once.
    pub started_twice: Numbers,
    /// Started, and then given back: there was no room for what their effects publish.
    pub crowded: Numbers,
    /// Starts in a later delivery: number and deliveries.
    pub started_again: Vec<(u64, u16)>,
    pub prints: Prints,
    /// By book and epoch: who was elected.
    elected: BTreeMap<(usize, u64), usize>,
    /// By book: what happened to its process, and who it is now.
    pub(super) fates: Vec<Fate>,
    now: Vec<Option<usize>>,
}

/// What happened to a process, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct Fate {
    pub killed_ms: Option<u64>,
    pub stopped_ms: Vec<u64>,
}

/// One membership.
#[derive(Debug, Clone)]
pub struct Member {
    pub node: String,
    pub book: usize,
    /// It wrote itself that it left or was given up.
    pub ended: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Take {
    pub first: u64,
    pub count: u64,
    pub deliveries: u16,
    pub member: usize,
    pub ms: u64,
}

/// One epoch, as far as it was seen.
#[derive(Debug, Clone)]
pub struct Reign {
    /// The processes that published in it: in a queue without shards each membership counts as one.
    pub processes: BTreeSet<String>,
    /// When it published first and last.
    pub published_ms: Option<(u64, u64)>,
}

impl History {
    /// Adds the book of one more process. Returns its index.
    pub fn add(&mut self, path: &Path) -> usize {
        self.recorded.fates.push(Fate::default());
        self.recorded.now.push(None);
        self.ledger.add(path)
    }

    /// The store forgot what it did between these times, or all but what was told. To be told before the books are read.
    pub fn forget(&mut self, times: &[(u64, u64)], keeps_told: bool) {
        self.ledger.forgot = times.to_vec();
        self.ledger.keeps_told = keeps_told;
    }

    /// So often it surely forgot something.
    pub fn forgot_surely(&mut self, times: u64) {
        self.recorded.forgot_surely = times;
    }

    /// What happened to the process with this book.
    pub fn fate(&mut self, book: usize) -> &mut Fate {
        &mut self.recorded.fates[book]
    }

    /// Reads everything that has been written and was not read yet.
    pub fn read(&mut self) -> std::io::Result<()> {
        let Self { ledger, recorded } = self;
        ledger.read_all(|book, record| recorded.note(book, record))
    }

    #[cfg(test)]
    pub(super) fn enter(&mut self, book: usize, record: &Record) {
        self.ledger.enter(book, record);
        self.recorded.note(book, record);
    }
}

impl Recorded {
    /// Whether a membership is over, or may be: then what it held is rightly handed on.
    pub fn is_over(&self, member: usize) -> bool {
        let Member { node, book, ended } = &self.members[member];
        *ended || self.fates[*book].killed_ms.is_some() || self.reaped.contains(node)
    }

    /// When the process behind a membership was last killed or stopped before this moment.
    pub fn struck_ms(&self, member: usize, before: u64) -> Option<u64> {
        let fate = &self.fates[self.members[member].book];
        let times = fate.stopped_ms.iter().chain(&fate.killed_ms);
        times.copied().filter(|ms| *ms <= before).max()
    }

    /// Takes by the thousands of numbers that they touch, for the numbers in which someone is interested.
    pub(super) fn takes_of(&self, numbers: &BTreeSet<u64>) -> BTreeMap<u64, Vec<Take>> {
        const BLOCK: u64 = 1024;
        let blocks: BTreeSet<u64> = numbers.iter().map(|number| number / BLOCK).collect();
        let mut found: BTreeMap<u64, Vec<Take>> = BTreeMap::new();
        for take in &self.takes {
            let end = take.first + take.count;
            for block in blocks.range(take.first / BLOCK..=(end - 1) / BLOCK) {
                let (from, to) = ((block * BLOCK).max(take.first), ((block + 1) * BLOCK).min(end));
                for number in numbers.range(from..to) {
                    found.entry(*number).or_default().push(*take);
                }
            }
        }
        found
    }

    fn note(&mut self, book: usize, record: &Record) {
        let now = self.now[book];
        match record {
            Record::Joined { node } => {
                self.end(book);
                self.now[book] = Some(self.members.len());
                self.members.push(Member {
                    node: node.clone(),
                    book,
                    ended: false,
                });
            }
            Record::Deposed { epoch: None } | Record::Left => self.end(book),
            Record::Reaped { victim, .. } => _ = self.reaped.insert(victim.clone()),
            Record::Rewound { .. } => self.rewinds += 1,
            Record::Elected { epoch } => {
                if let Some(member) = now {
                    self.elected.insert((book, *epoch), member);
                }
            }
            Record::Started {
                number,
                deliveries: 1,
                payload,
            } => {
                self.prints.saw(*number, *payload);
                if self.started.contains(*number) {
                    self.started_twice.insert(*number, 1);
                }
                self.started.insert(*number, 1);
            }
            Record::Started {
                number,
                deliveries,
                payload,
            } => {
                self.prints.saw(*number, *payload);
                self.started_again.push((*number, *deliveries));
            }
            Record::Confirmed(Entry { first, count, what }, ms) => match (what, now) {
                (What::Publish { epoch }, Some(member)) => {
                    // With replicas it may be told when its process is another member already.
                    let member = self.elected.get(&(book, *epoch)).copied().unwrap_or(member);
                    self.published(*epoch, *first, *count, member, *ms);
                }
                (What::Take { deliveries, epoch }, Some(member)) => {
                    self.reign(*epoch, *first, *count);
                    self.takes.push(Take {
                        first: *first,
                        count: *count,
                        deliveries: *deliveries,
                        member,
                        ms: *ms,
                    });
                }
                (What::Return, _) => self.crowded.add(&self.started.among(*first, *count)),
                _ => {}
            },
            _ => {}
        }
    }

    fn end(&mut self, book: usize) {
        if let Some(member) = self.now[book] {
            self.members[member].ended = true;
        }
    }

    fn reign(&mut self, epoch: u64, first: u64, count: u64) -> &mut Reign {
        let last = first + count - 1;
        let range = self.ranges.entry((shard_of(first), epoch)).or_insert((first, last));
        *range = (range.0.min(first), range.1.max(last));
        self.reigns.entry(epoch).or_insert_with(|| Reign {
            processes: BTreeSet::new(),
            published_ms: None,
        })
    }

    fn published(&mut self, epoch: u64, first: u64, count: u64, member: usize, ms: u64) {
        self.told_ms.push(ms);
        let process = process_of(&self.members[member].node).to_string();
        let reign = self.reign(epoch, first, count);
        reign.processes.insert(process);
        let (earliest, latest) = reign.published_ms.unwrap_or((ms, ms));
        reign.published_ms = Some((earliest.min(ms), latest.max(ms)));
    }
}
