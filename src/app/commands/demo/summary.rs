//! What the demo shows: the last events, the totals, and how they moved.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::member::short;
use crate::app::args::Demo;
use crate::app::args::sources::Resolved;
use crate::app::lab::ledger::{Ledger, Record, Totals};
use crate::app::output::screen::{EVENTS_MAX, Event as Line, push};
use crate::node::event::{Entry, What};

/// More events of one kind than this in a tick are summed up in one line.
const SINGLE_MAX: usize = 3;
/// Between two points of a graph.
const SAMPLE: Duration = Duration::from_millis(500);
/// How many samples the rate is averaged over: a message every half second is otherwise too uneven to read.
const RATE_SAMPLES: usize = 6;

pub(super) struct Summary {
    pub(super) address: String,
    started: Instant,
    now: Instant,
    events: VecDeque<Line>,
    /// Of `events`, those that were not printed yet.
    unprinted: usize,
    /// Errors and redelivered messages since the last turn.
    errors: Vec<u64>,
    redelivered: Vec<(u64, u16)>,
    /// How many of both there were, also beyond those that are named.
    many: (u64, u64),
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

impl Summary {
    pub(super) fn new(resolved: &Resolved, flags: &Demo) -> Self {
        let now = Instant::now();
        Self {
            address: resolved.address.clone(),
            started: now,
            now,
            events: VecDeque::new(),
            unprinted: 0,
            errors: Vec::new(),
            redelivered: Vec::new(),
            many: (0, 0),
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

    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = &Line> {
        self.events.iter()
    }

    /// Those that were not given out before.
    pub(super) fn news(&mut self) -> Vec<Line> {
        let from = self.events.len() - self.unprinted;
        self.unprinted = 0;
        self.events.iter().skip(from).cloned().collect()
    }

    pub(super) fn age(&self) -> Duration {
        self.now - self.started
    }

    pub(super) fn now(&self) -> Instant {
        self.now
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
                self.many.0 += entry.count;
                let room = (SINGLE_MAX + 1).saturating_sub(self.errors.len()) as u64;
                self.errors.extend(entry.first..entry.first + entry.count.min(room));
            }
            What::Take { attempt, .. } if attempt > 1 => {
                self.many.1 += entry.count;
                let room = (SINGLE_MAX + 1).saturating_sub(self.redelivered.len()) as u64;
                let numbers = entry.first..entry.first + entry.count.min(room);
                self.redelivered.extend(numbers.map(|number| (number, attempt)));
            }
            What::Take { .. } | What::Done | What::Return => {}
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
        let after = self.reigns.values().skip(1);
        let gaps = self.reigns.values().zip(after);
        gaps.map(|((_, last), (first, _))| first.saturating_sub(*last))
            .collect()
    }

    /// Once a tick, after the books were read.
    pub(super) fn turn(&mut self, now: Instant, ledger: &Ledger, lost: Option<u64>) {
        self.now = now;
        self.totals = ledger.totals();
        self.twice = ledger.twice();
        self.lost = lost;
        self.tell_singles();
        let settled = self.totals.done + self.totals.errors;
        if now >= self.sampled.0 + SAMPLE {
            let queued = self.queued();
            push(&mut self.throughput, settled - self.sampled.1);
            push(&mut self.queue, queued);
            self.sampled = (now, settled);
        }
    }

    fn tell_singles(&mut self) {
        let (errors, redelivered) = (std::mem::take(&mut self.errors), std::mem::take(&mut self.redelivered));
        let many = std::mem::take(&mut self.many);
        if errors.len() > SINGLE_MAX {
            self.say("error", &format!("in {} messages", many.0));
        } else {
            for number in errors {
                self.say("error", &format!("in message {number}"));
            }
        }
        if redelivered.len() > SINGLE_MAX {
            self.say("redelivered", &format!("{} messages", many.1));
        } else {
            for (number, attempt) in redelivered {
                self.say("redelivered", &format!("message {number}, attempt {attempt}"));
            }
        }
    }

    /// Published, without an outcome, and held by no copy, as far as the books tell.
    pub(super) fn queued(&self) -> u64 {
        let Totals {
            generated,
            done,
            errors,
            in_hand,
        } = self.totals;
        generated.saturating_sub(done + errors + in_hand)
    }

    /// Settled per second.
    pub(super) fn rate(&self) -> f64 {
        let samples = self.throughput.len().min(RATE_SAMPLES);
        if samples == 0 {
            return 0.0;
        }
        let settled: u64 = self.throughput.iter().rev().take(samples).sum();
        #[allow(clippy::cast_precision_loss)]
        let rate = settled as f64 / (SAMPLE.as_secs_f64() * samples as f64);
        rate
    }
}

/// Milliseconds as people read them.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}
