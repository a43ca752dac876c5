//! What the demo shows: the last events, the totals, and how they moved.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::fleet::Fleet;
use super::member::short;
use crate::app::args::Demo;
use crate::app::lab::ledger::times::failover_gaps_ms;
use crate::app::lab::ledger::{Ledger, Record, Totals};
use crate::app::output::screen::{EVENTS_MAX, Event as Line, grouped, push};
use crate::node::event::{Entry, What};

/// More events of one kind than this in a tick are summed up in one line.
const SINGLE_MAX: usize = 3;
/// So many shards are told one by one.
const LISTED_MAX: usize = 4;
/// Between two points of a graph.
pub(super) const SAMPLE: Duration = Duration::from_millis(500);
/// How many samples the rate is averaged over: a message every half second is otherwise too uneven to read.
pub(super) const RATE_SAMPLES: usize = 6;

pub(super) struct Summary {
    /// The store, for people.
    pub(super) place: String,
    pub(super) started: Instant,
    pub(super) now: Instant,
    pub(super) events: VecDeque<Line>,
    /// Of `events`, those that were not printed yet.
    unprinted: usize,
    /// Since the last turn.
    errors: Singles,
    redelivered: Singles,
    /// When each epoch published first and last, in milliseconds since 1970.
    reigns: BTreeMap<u64, (u64, u64)>,
    /// Epochs that published for the first time since the last turn, and who did.
    begun: Vec<(u64, String)>,
    pub(super) kills: u64,
    pub(super) kill_every: Duration,
    pub(super) totals: Totals,
    /// Of a queue with shards, the same of each of them, and which of them some copy cannot reach.
    pub(super) shards: Vec<Totals>,
    pub(super) away: Vec<usize>,
    /// None while there is too much to look at: the end tells.
    pub(super) lost: Option<u64>,
    pub(super) twice: u64,
    /// Settled in each sample, and queued at its end.
    pub(super) throughput: VecDeque<u64>,
    pub(super) queue: VecDeque<u64>,
    sampled: (Instant, u64),
}

/// What happened to single messages: how many there were, and the first few in words.
#[derive(Default)]
struct Singles {
    count: u64,
    texts: Vec<String>,
}

impl Singles {
    fn add(&mut self, entry: &Entry, text: impl Fn(u64) -> String) {
        self.count += entry.count;
        let numbers = entry.first..entry.first + entry.count;
        let room = SINGLE_MAX.saturating_sub(self.texts.len());
        self.texts.extend(numbers.take(room).map(text));
    }
}

impl Summary {
    pub(super) fn new(place: String, flags: &Demo) -> Self {
        let now = Instant::now();
        Self {
            place,
            started: now,
            now,
            events: VecDeque::new(),
            unprinted: 0,
            errors: Singles::default(),
            redelivered: Singles::default(),
            reigns: BTreeMap::new(),
            begun: Vec::new(),
            kills: 0,
            kill_every: flags.kill_every,
            totals: Totals::default(),
            shards: Vec::new(),
            away: Vec::new(),
            lost: Some(0),
            twice: 0,
            throughput: VecDeque::new(),
            queue: VecDeque::new(),
            sampled: (now, 0),
        }
    }

    pub(super) fn say(&mut self, word: &'static str, text: &str) {
        if self.events.len() >= EVENTS_MAX.max(self.unprinted) {
            self.events.pop_front();
        }
        self.events.push_back(Line {
            at: self.started.elapsed(),
            word,
            text: text.to_string(),
        });
        self.unprinted = (self.unprinted + 1).min(self.events.len());
    }

    /// Those that were not given out before.
    pub(super) fn news(&mut self) -> Vec<Line> {
        let from = self.events.len() - self.unprinted;
        self.unprinted = 0;
        self.events.iter().skip(from).cloned().collect()
    }

    /// Tells what a copy wrote, of a queue with shards in one of them, as far as it is worth a line.
    pub(super) fn note(&mut self, name: impl Fn() -> String, record: &Record, shard: usize) {
        let of_shard = || {
            if shard > 0 {
                format!("shard {shard}: ")
            } else {
                String::new()
            }
        };
        match record {
            Record::Confirmed(entry, ms) => self.confirmed(&name, entry, *ms),
            // Crown and membership are told of the home shard.
            Record::Elected { .. } | Record::Deposed { epoch: Some(_) } if shard > 0 => {}
            Record::Elected { epoch } => self.say("elected", &format!("{}, epoch {epoch}", name())),
            Record::Deposed { epoch: Some(epoch) } => {
                self.say("deposed", &format!("{} generates no more (epoch {epoch})", name()));
            }
            Record::Deposed { epoch: None } => {
                self.say(
                    "deposed",
                    &format!(
                        "{}{}: its lease ran out, and it joins again under a new id",
                        of_shard(),
                        name()
                    ),
                );
            }
            Record::Reaped {
                victim,
                redelivered,
                failed,
            } => {
                if redelivered + failed > 0 {
                    let text = format!("{redelivered} messages that {} held, by {}", short(victim), name());
                    self.say("handed on", &text);
                }
            }
            Record::Away { reason } => self.say("away", &format!("{}{reason}", of_shard())),
            Record::Reconnected => self.say("reconnected", &format!("{}{}", of_shard(), name())),
            Record::Rewound { next_number } => {
                self.say(
                    "rewound",
                    &format!(
                        "{}the store went back in time; the next number is {next_number}",
                        of_shard()
                    ),
                );
            }
            Record::Intends(_) | Record::Refused | Record::Started { .. } | Record::Joined { .. } | Record::Left => {}
        }
    }

    fn confirmed(&mut self, name: &impl Fn() -> String, entry: &Entry, ms: u64) {
        match entry.what {
            What::Publish { epoch } => self.published(name, epoch, ms),
            What::Error => {
                self.errors.add(entry, |number| format!("in message {number}"));
            }
            What::Take { deliveries, .. } if deliveries > 1 => {
                let text = |number| format!("message {number}, deliveries {deliveries}");
                self.redelivered.add(entry, text);
            }
            What::Chain { .. } | What::Take { .. } | What::Done | What::Return => {}
        }
    }

    fn published(&mut self, name: &impl Fn() -> String, epoch: u64, ms: u64) {
        // The books of several shards are read one after the other.
        if let Some((first, last)) = self.reigns.get_mut(&epoch) {
            (*first, *last) = (ms.min(*first), ms.max(*last));
            return;
        }
        self.reigns.insert(epoch, (ms, ms));
        self.begun.push((epoch, name()));
    }

    fn tell_begun(&mut self) {
        for (epoch, name) in std::mem::take(&mut self.begun) {
            let first = self.reigns.get(&epoch).map_or(0, |(first, _)| *first);
            if let Some((before, (_, last))) = self.reigns.range(..epoch).next_back() {
                let gap = seconds(first.saturating_sub(*last));
                let text = format!("{name} goes on {gap} after the last message of epoch {before}");
                self.say("generates", &text);
            }
        }
    }

    /// From the last message of an epoch to the first of the next, in milliseconds.
    pub(super) fn gaps_ms(&self) -> Vec<u64> {
        failover_gaps_ms(self.reigns.values().copied())
    }

    /// Once a tick, after the books were read.
    pub(super) fn turn(&mut self, now: Instant, ledger: &Ledger, fleet: &Fleet, lost: Option<u64>) {
        self.tell_begun();
        self.now = now;
        self.totals = ledger.totals();
        if fleet.shards > 1 {
            self.shards = ledger.totals_by_shard(fleet.shards);
            self.away = fleet.away().into_iter().collect();
        }
        self.twice = ledger.twice();
        self.lost = lost;
        let (errors, redelivered) = (std::mem::take(&mut self.errors), std::mem::take(&mut self.redelivered));
        self.tell("error", &errors, &format!("in {} messages", errors.count));
        self.tell("redelivered", &redelivered, &format!("{} messages", redelivered.count));
        let settled = self.totals.done + self.totals.errors;
        if now >= self.sampled.0 + SAMPLE {
            let queued = self.queued();
            push(&mut self.throughput, settled - self.sampled.1);
            push(&mut self.queue, queued);
            self.sampled = (now, settled);
        }
    }

    fn tell(&mut self, word: &'static str, singles: &Singles, sum: &str) {
        if singles.count > SINGLE_MAX as u64 {
            return self.say(word, sum);
        }
        for text in &singles.texts {
            self.say(word, text);
        }
    }

    /// Published, without an outcome, and held by no copy, as far as the books tell.
    pub(super) fn queued(&self) -> u64 {
        self.totals.queued()
    }
}

/// A number of each shard: all of them, or, of many, the lowest and the highest.
pub(super) fn each(numbers: &[u64]) -> String {
    if numbers.len() <= LISTED_MAX {
        let all: Vec<String> = numbers.iter().map(|number| grouped(*number)).collect();
        return all.join(" / ");
    }
    let lowest = numbers.iter().min().copied().unwrap_or(0);
    let highest = numbers.iter().max().copied().unwrap_or(0);
    if lowest == highest {
        return format!("{} each", grouped(lowest));
    }
    format!("{} to {} each", grouped(lowest), grouped(highest))
}

/// Milliseconds as people read them.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn a_few_shards_are_told_one_by_one_and_many_by_the_lowest_and_the_highest() {
        assert_eq!(each(&[1234, 0, 7]), "1,234 / 0 / 7");
        assert_eq!(each(&[5, 4, 1234, 7, 4]), "4 to 1,234 each");
        assert_eq!(each(&[1234; 5]), "1,234 each");
    }
}
