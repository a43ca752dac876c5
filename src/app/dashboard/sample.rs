//! The queue as the page and the API show it: `output::view`, with rates.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::reply::Refusal;
use crate::app::output::view::{NodeView, QueueView, ShardView, StoreView};
use crate::engine::{NodeStatus, ShardStatus, Status};

/// The time that rates are averaged over.
const RATE_OVER: Duration = Duration::from_secs(3);

/// The state of the queue at one moment, as it is sent to every open page.
#[derive(Serialize)]
pub(super) struct Sample {
    /// The store's time of day, or that of this process if there is none.
    pub now_ms: u64,
    /// Until the next sample.
    pub every_ms: u64,
    pub status: Option<StatusView>,
    /// Why there is no status.
    pub problem: Option<Refusal>,
    /// As they were a few seconds ago.
    pub facts: Option<StoreView>,
}

/// The queue, as `GET /api/v1/status` and the page's events tell it.
#[derive(Serialize)]
pub(super) struct StatusView {
    #[serde(rename = "queue")]
    name: String,
    /// Where it is, without user or password.
    store: String,
    #[serde(flatten)]
    queue: QueueView,
    nobody_handles: bool,
    /// Messages per second, over the last seconds; none in the first sample.
    rates: Option<Rates>,
    nodes: Vec<Member>,
    /// The home shard first; none if the queue is not spread over several.
    shards: Vec<Shard>,
}

#[derive(Serialize)]
struct Shard {
    #[serde(flatten)]
    about: ShardView,
    /// Messages settled per second.
    rate: Option<f64>,
}

#[derive(Serialize)]
struct Rates {
    published: f64,
    done: f64,
    failed: f64,
}

#[derive(Serialize)]
struct Member {
    node: String,
    generates: bool,
    #[serde(flatten)]
    about: NodeView,
    /// Messages settled per second.
    rate: Option<f64>,
    /// How long ago it last beat, as its lease tells.
    beat_ms: Option<u64>,
}

impl StatusView {
    pub fn new(queue: &str, store: &str, status: &Status, rater: Option<&Rater>) -> Self {
        let member = |node: &NodeStatus| Member {
            node: node.node.clone(),
            generates: status.generator.as_ref() == Some(&node.node),
            about: node.into(),
            rate: rater.and_then(|rater| rater.rate(node, status)),
            beat_ms: rater.map(|rater| (rater.lease_ms + node.silent_ms).saturating_sub(node.lease_in_ms)),
        };
        let shard = |(number, shard): (usize, &ShardStatus)| Shard {
            about: shard.into(),
            rate: rater.and_then(|rater| rater.rate_of_shard(number, shard)),
        };
        Self {
            name: queue.to_string(),
            store: store.to_string(),
            queue: status.into(),
            nobody_handles: status.nobody_handles(),
            rates: rater.and_then(|rater| rater.rates(status)),
            nodes: status.nodes.iter().map(member).collect(),
            shards: status.shards.iter().enumerate().map(shard).collect(),
        }
    }
}

/// The counts of the last seconds, to tell rates from.
#[derive(Default)]
pub(super) struct Rater {
    looks: VecDeque<(Instant, Status)>,
    /// The longest that was left of any lease: as long as one is right after a beat, or nearly.
    lease_ms: u64,
}

impl Rater {
    /// Remembers the counts of a sample, once it has been sent.
    pub fn note(&mut self, status: &Status) {
        let at = Instant::now();
        let leases = status.nodes.iter().map(|node| node.lease_in_ms);
        self.lease_ms = leases.max().unwrap_or(0).max(self.lease_ms);
        // One that is older stays, so that rates are averaged over at least the whole time.
        while self.looks.get(1).is_some_and(|(second, _)| at - *second > RATE_OVER) {
            self.looks.pop_front();
        }
        // After a pause a rate over it would tell nothing; a purged queue begins anew; and what a shard has that was away is not news.
        let is_new = |(last, before): &(Instant, Status)| {
            at - *last > 2 * RATE_OVER || before.birth != status.birth || !have_same_shards(before, status)
        };
        if self.looks.back().is_some_and(is_new) {
            self.looks.clear();
        }
        let mut kept = status.clone();
        // In order, so that a node is found without going through all of them.
        kept.nodes.sort_by(|one, other| one.node.cmp(&other.node));
        self.looks.push_back((at, kept));
    }

    fn rates(&self, now: &Status) -> Option<Rates> {
        let (at, then) = self.looks.front().filter(|(_, then)| have_same_shards(then, now))?;
        let rate = |now: u64, before: u64| per_second(now.saturating_sub(before), *at);
        Some(Rates {
            published: rate(now.published, then.published)?,
            done: rate(now.done, then.done)?,
            failed: rate(now.failed, then.failed)?,
        })
    }

    fn rate_of_shard(&self, number: usize, now: &ShardStatus) -> Option<f64> {
        let (at, then) = self.looks.front()?;
        let then = then.shards.get(number).filter(|then| then.away.is_none())?;
        let settled = |shard: &ShardStatus| shard.done + shard.failed;
        let count = settled(now).saturating_sub(settled(then));
        now.away.is_none().then(|| per_second(count, *at)).flatten()
    }

    fn rate(&self, node: &NodeStatus, now: &Status) -> Option<f64> {
        let mut looks = self.looks.iter().filter(|(_, then)| have_same_shards(then, now));
        let (at, before) = looks.find_map(|(at, then)| {
            let index = then.nodes.binary_search_by(|before| before.node.cmp(&node.node)).ok()?;
            let before = &then.nodes[index];
            Some((*at, before.done + before.failed))
        })?;
        per_second((node.done + node.failed).saturating_sub(before), at)
    }
}

/// Whether the same shards answer: otherwise sums cannot be compared.
fn have_same_shards(one: &Status, other: &Status) -> bool {
    let away = |status: &Status| {
        status
            .shards
            .iter()
            .map(|shard| shard.away.is_some())
            .collect::<Vec<_>>()
    };
    away(one) == away(other)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn per_second(count: u64, since: Instant) -> Option<f64> {
    let seconds = since.elapsed().as_secs_f64();
    (seconds > 0.05).then(|| (count as f64 / seconds * 1000.0).round() / 1000.0)
}
