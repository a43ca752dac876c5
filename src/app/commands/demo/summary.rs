//! What the demo shows: the last events, the totals, and how they moved.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::member::short;
use crate::app::args::Demo;
use crate::app::args::sources::Resolved;
use crate::app::lab::ledger::times::failover_gaps_ms;
use crate::app::lab::ledger::{Ledger, Record, Totals};
use crate::app::output::screen::{EVENTS_MAX, Event as Line, push};
use crate::node::event::{Entry, What};

/// More events of one kind than this in a tick are summed up in one line.
const SINGLE_MAX: usize = 3;
/// Between two points of a graph.
pub(super) const SAMPLE: Duration = Duration::from_millis(500);
/// How many samples the rate is averaged over: a message every half second is otherwise too uneven to read.
pub(super) const RATE_SAMPLES: usize = 6;

pub(super) struct Summary {
    pub(super) address: String,
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
    pub(super) kills: u64,
    pub(super) kill_every: Duration,
    pub(super) totals: Totals,
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
    pub(super) fn new(resolved: &Resolved, flags: &Demo) -> Self {
        let now = Instant::now();
        Self {
            address: resolved.address.clone(),
            started: now,
            now,
            events: VecDeque::new(),
            unprinted: 0,
            errors: Singles::default(),
            redelivered: Singles::default(),
            reigns: BTreeMap::new(),
            kills: 0,
            kill_every: flags.kill_every,
            totals: Totals::default(),
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

    /// Tells what a copy wrote, as far as it is worth a line.
    pub(super) fn note(&mut self, name: impl Fn() -> String, record: &Record) {
        match record {
            Record::Confirmed(entry, ms) => self.confirmed(&name, entry, *ms),
            Record::Elected { epoch } => self.say("elected", &format!("{}, epoch {epoch}", name())),
            Record::Deposed { epoch: Some(epoch) } => {
                self.say("deposed", &format!("{} generates no more (epoch {epoch})", name()));
            }
            Record::Deposed { epoch: None } => {
                self.say(
                    "deposed",
                    &format!("{}: its lease ran out, and it joins again under a new id", name()),
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
            Record::Away { reason } => self.say("away", reason),
            Record::Reconnected => self.say("reconnected", &name()),
            Record::Rewound { next_number } => {
                self.say(
                    "rewound",
                    &format!("the store went back in time; the next number is {next_number}"),
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
        if let Some((_, last)) = self.reigns.get_mut(&epoch) {
            *last = ms;
            return;
        }
        self.reigns.insert(epoch, (ms, ms));
        if let Some((before, (_, last))) = self.reigns.range(..epoch).next_back() {
            let gap = seconds(ms.saturating_sub(*last));
            let text = format!("{} goes on {gap} after the last message of epoch {before}", name());
            self.say("generates", &text);
        }
    }

    /// From the last message of an epoch to the first of the next, in milliseconds.
    pub(super) fn gaps_ms(&self) -> Vec<u64> {
        failover_gaps_ms(self.reigns.values().copied())
    }

    /// Once a tick, after the books were read.
    pub(super) fn turn(&mut self, now: Instant, ledger: &Ledger, lost: Option<u64>) {
        self.now = now;
        self.totals = ledger.totals();
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
        let totals = &self.totals;
        let known = totals.done + totals.errors + totals.in_hand;
        totals.generated.saturating_sub(known)
    }
}

/// Milliseconds as people read them.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}
