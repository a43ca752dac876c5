//! One side: a queue as those see it who look at it and work on it from outside. Numbers are told as the payloads of their messages: each payload comes once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use queenright::engine::sharded::{first_number, process_of};
use queenright::engine::{
    Cancelled, CancelledGroup, Ending, Engine, Failed, Found, Handover, Limits, Paused, PausedGroup, Purged, Push,
    Pushed, Resharded, ShardStatus, Status,
};
use queenright::error::Error;

use super::work::Process;

/// An answer, or what is wrong in a few words.
pub type Told<T> = Result<T, &'static str>;

pub fn told<T>(answer: queenright::Result<T>) -> Told<T> {
    answer.map_err(|error| match error {
        Error::NoQueue { .. } => "there is no queue",
        Error::Setting { .. } => "it cannot be so",
        Error::Away { .. } => "it is away",
        other => panic!("{other}"),
    })
}

/// The message that is meant.
#[derive(Debug, Clone)]
pub enum Target {
    Of(String),
    /// A number of nobody, one of many.
    Nobody(u64),
}

/// A number that no history comes to.
const FAR: u64 = 1 << 40;
/// More than anybody ever has in hand.
const HELD_MAX: u32 = 100_000;
/// Numbers of nobody are of so many shards: of more than there ever are.
const NOBODIES_SHARDS: u64 = 8;

pub struct Side<E: Engine> {
    /// Each has opened the queue by itself, and hears of a reshard when it is told.
    pub handles: Vec<Arc<E>>,
    /// Handlers, and those who would generate.
    pub processes: Vec<Process<E::Shard>>,
    numbers: BTreeMap<String, u64>,
    payloads: BTreeMap<u64, String>,
    /// How often each message was handled.
    pub times: BTreeMap<String, usize>,
    /// How many shards get new messages, and how many there are; one, if the queue is not made of shards.
    pub shards: (usize, usize),
}

impl<E: Engine> Side<E> {
    pub fn new(handles: Vec<Arc<E>>, processes: &[&str], shards: usize) -> Self {
        Self {
            handles,
            processes: processes.iter().map(|name| Process::new(name)).collect(),
            numbers: BTreeMap::new(),
            payloads: BTreeMap::new(),
            times: BTreeMap::new(),
            shards: (shards, shards),
        }
    }

    /// A number belongs to one message, and a message has one number.
    pub fn note(&mut self, number: u64, payload: &str) {
        let known = self.payloads.insert(number, payload.to_string());
        assert!(
            known.as_deref().is_none_or(|known| known == payload),
            "{number} is of {payload} and of {known:?}"
        );
        let known = self.numbers.insert(payload.to_string(), number);
        assert!(
            known.is_none_or(|known| known == number),
            "{payload} has the numbers {number} and {known:?}"
        );
    }

    pub fn payload(&self, number: u64) -> String {
        let payload = self.payloads.get(&number);
        payload.unwrap_or_else(|| panic!("nobody has {number}")).clone()
    }

    fn number(&self, target: &Target) -> u64 {
        match target {
            Target::Of(payload) => self.numbers[payload],
            Target::Nobody(one) if self.shards.1 > 1 => {
                let shard = usize::try_from(one % NOBODIES_SHARDS).expect("few");
                first_number(shard) + FAR + one
            }
            Target::Nobody(one) => FAR + one,
        }
    }

    fn numbers(&self, targets: &[Target]) -> Vec<u64> {
        targets.iter().map(|target| self.number(target)).collect()
    }

    fn payloads(&self, numbers: &[u64]) -> BTreeSet<String> {
        let payloads: BTreeSet<String> = numbers.iter().map(|number| self.payload(*number)).collect();
        assert_eq!(payloads.len(), numbers.len(), "each is told once");
        payloads
    }

    /// Of each message the one that is there under its key, itself in most cases; and whether it was there before.
    pub async fn push(&mut self, via: usize, push: &Push) -> Told<Vec<(String, bool)>> {
        let receipts = match told(self.handles[via].push(push).await)? {
            Pushed::Ok(receipts) => receipts,
            Pushed::Full => return Err("it is full"),
            Pushed::Part(_) => panic!("there is room for all, or for none"),
            Pushed::Unheard => panic!("all have spoken"),
        };
        assert_eq!(receipts.len(), push.items.len(), "a receipt for each");
        for (item, receipt) in push.items.iter().zip(&receipts) {
            if !receipt.repeated {
                self.note(receipt.number, &text(&item.payload));
            }
        }
        let told = receipts
            .iter()
            .map(|receipt| (self.payload(receipt.number), receipt.repeated));
        Ok(told.collect())
    }

    /// What differs by its nature is left out: the birth and the grain of each shard, how long its members are there, by which connection they are
    /// seen, and the burst of a limit, of which each shard has a part that is rounded up. That comes apart.
    pub async fn status(&self, via: usize) -> Told<(Status, u32)> {
        let mut status = told(self.handles[via].status().await)?;
        let shards = std::mem::take(&mut status.shards);
        if !shards.is_empty() {
            self.shards_add_up(&status, &shards);
        }
        status.birth.clear();
        status.grain = 0;
        status.generator = status.generator.map(|node| process_of(&node).to_string());
        for node in &mut status.nodes {
            node.node = process_of(&node.node).to_string();
            (node.age_ms, node.watched) = (0, false);
            node.lease_in_ms = node.lease_in_ms.min(1);
        }
        status.nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let burst = std::mem::take(&mut status.limits.burst);
        Ok((status, burst))
    }

    fn shards_add_up(&self, whole: &Status, shards: &[ShardStatus]) {
        let sum = |of: fn(&ShardStatus) -> u64| shards.iter().map(of).sum::<u64>();
        let sums = [
            sum(|shard| shard.published),
            sum(|shard| shard.queued),
            sum(|shard| shard.in_hand),
            sum(|shard| shard.later),
            sum(|shard| shard.done),
            sum(|shard| shard.failed),
            sum(|shard| shard.errors),
        ];
        let all = [
            whole.published,
            whole.queued,
            whole.in_hand,
            whole.later,
            whole.done,
            whole.failed,
            whole.errors,
        ];
        assert_eq!(sums, all, "the whole is the sum of its shards");
        let (now, in_all) = self.shards;
        let retired: Vec<bool> = shards.iter().map(|shard| shard.retired).collect();
        let expected: Vec<bool> = (0..in_all).map(|shard| shard >= now).collect();
        assert_eq!(retired, expected, "which shards run empty");
        assert!(shards.iter().all(|shard| shard.away.is_none()), "all answer");
    }

    pub async fn published(&self, via: usize) -> Told<u64> {
        told(self.handles[via].published().await)
    }

    /// A failed message, without what differs by its nature: the epoch is that in which its shard was claimed last.
    fn failed_as_told(&self, failed: Failed) -> (String, Failed) {
        let payload = text(&failed.payload);
        assert_eq!(self.numbers.get(&payload), Some(&failed.number), "its own number");
        let failed = Failed {
            number: 0,
            epoch: 0,
            node: process_of(&failed.node).to_string(),
            ..failed
        };
        (payload, failed)
    }

    /// All errors, read from the first on or from the last on, in pages of so many. Each page but the last is full, and all are in the order of numbers.
    pub async fn errors(&self, via: usize, limit: u32, backwards: bool) -> Told<BTreeMap<String, Failed>> {
        let (mut from, mut all) = (if backwards { u64::MAX } else { 0 }, BTreeMap::new());
        loop {
            let page = if backwards {
                told(self.handles[via].latest(from, limit).await)?
            } else {
                told(self.handles[via].failed(from, limit).await)?
            };
            let is_last = page.len() < limit as usize;
            assert!(page.len() <= limit as usize, "no more than asked for");
            for failed in page {
                let number = failed.number;
                let is_next = if backwards { number < from } else { number >= from };
                assert!(is_next, "in the order of numbers: {number} after {from}");
                from = if backwards { number } else { number + 1 };
                let (payload, failed) = self.failed_as_told(failed);
                all.insert(payload, failed);
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    pub async fn requeue(&self, via: usize, targets: &[Target]) -> Told<BTreeSet<String>> {
        let requeued = told(self.handles[via].requeue(&self.numbers(targets)).await)?;
        assert_eq!(requeued.looked, targets.len(), "all were looked at");
        Ok(self.payloads(&requeued.numbers))
    }

    pub async fn discard(&self, via: usize, targets: &[Target]) -> Told<BTreeSet<String>> {
        let gone = told(self.handles[via].discard(&self.numbers(targets)).await)?;
        Ok(self.payloads(&gone))
    }

    pub async fn trim(&self, via: usize, keep: u64) -> Told<BTreeSet<String>> {
        let gone = told(self.handles[via].trim(keep).await)?;
        Ok(self.payloads(&gone))
    }

    pub async fn pause(&self, via: usize, generator: Option<bool>, handlers: Option<bool>) -> Told<Paused> {
        told(self.handles[via].pause(generator, handlers).await)
    }

    pub async fn pause_group(&self, via: usize, group: &str, paused: bool) -> Told<PausedGroup> {
        told(self.handles[via].pause_group(group, paused).await)
    }

    pub async fn limit(&self, via: usize, limits: &Limits) -> Told<()> {
        told(self.handles[via].limit(limits).await)
    }

    pub async fn cancel(&self, via: usize, targets: &[Target]) -> Told<Vec<Cancelled>> {
        told(self.handles[via].cancel(&self.numbers(targets)).await)
    }

    pub async fn cancel_group(&self, via: usize, group: &str) -> Told<CancelledGroup> {
        told(self.handles[via].cancel_group(group).await)
    }

    pub async fn handover(&self, via: usize, to: Option<&str>) -> Told<Handover> {
        // As a look shows it: of several shards by its process, of one as the member that it is.
        let member = |to: &str| {
            let of = self.processes.iter().find(|process| process.name == to);
            let seat = of.and_then(|process| process.seats.first());
            let seat = seat.filter(|_| self.shards.1 == 1);
            seat.map_or(to.to_string(), |seat| seat.node.clone())
        };
        told(self.handles[via].handover(to.map(member).as_deref()).await)
    }

    pub async fn endings(&self, via: usize, targets: &[Target]) -> Told<Vec<Option<Ending>>> {
        let mut endings = told(self.handles[via].endings(&self.numbers(targets)).await)?;
        for ending in endings.iter_mut().flatten() {
            ending.node = process_of(&ending.node).to_string();
        }
        Ok(endings)
    }

    pub async fn find(&self, via: usize, target: &Target) -> Told<Found> {
        let found = told(self.handles[via].find(self.number(target)).await)?;
        Ok(match found {
            Found::Held { node } => Found::Held {
                node: process_of(&node).to_string(),
            },
            Found::Ended(ending) => Found::Ended(Ending {
                node: process_of(&ending.node).to_string(),
                ..ending
            }),
            Found::Failed(failed) => Found::Failed(Box::new(self.failed_as_told(*failed).1)),
            found => found,
        })
    }

    /// What a process has in hand.
    pub async fn held(&self, via: usize, process: usize) -> Told<BTreeSet<String>> {
        let Some(seat) = self.processes[process].seats.first() else {
            return Ok(BTreeSet::new());
        };
        let held = told(self.handles[via].held(&seat.node, HELD_MAX).await)?;
        let numbers = held.iter().flat_map(|held| held.first..held.first + held.count);
        Ok(self.payloads(&numbers.collect::<Vec<_>>()))
    }

    /// What has no outcome yet.
    pub async fn unsettled(&self, via: usize) -> Told<BTreeSet<String>> {
        let runs = told(self.handles[via].unsettled().await)?;
        let numbers = runs.iter().flat_map(|(first, count)| *first..first + count);
        Ok(self.payloads(&numbers.collect::<Vec<_>>()))
    }

    pub async fn reshard_to(&mut self, via: usize, shards: u32) -> Told<Resharded> {
        let resharded = told(self.handles[via].reshard_to(shards).await)?;
        self.shards = (resharded.now, resharded.in_all);
        Ok(resharded)
    }

    pub async fn purge(&self, via: usize, force: bool) -> Told<Purged> {
        told(self.handles[via].purge(force).await)
    }

    /// Whether a reader has its lease.
    pub async fn hold(&self, via: usize, reader: &str, lease_ms: u64) -> Told<bool> {
        told(self.handles[via].hold(reader, lease_ms).await)
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
