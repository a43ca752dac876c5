//! A look at the queue, as JSON tells it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::reply::Refusal;
use crate::engine::{NodeStatus, Status, StoreInfo};

/// Rates are told over so long.
const RATE_OVER: Duration = Duration::from_secs(3);

/// What those who look are told, again and again.
#[derive(Serialize)]
pub(super) struct Sample {
    /// The store's time of day, or that of this process if there is none.
    pub now_ms: u64,
    /// Until the next sample.
    pub every_ms: u64,
    pub status: Option<Look>,
    /// Why there is no status.
    pub problem: Option<Problem>,
    /// As they were a few seconds ago.
    pub facts: Option<StoreFacts>,
}

/// What the queue is kept in.
#[derive(Clone, Serialize)]
pub(super) struct StoreFacts {
    kind: String,
    version: String,
    memory_bytes: Option<u64>,
    memory_max_bytes: Option<u64>,
    policy: Option<String>,
    persistence: String,
    replicas: Option<u64>,
    uptime_ms: Option<u64>,
    round_trip_us: Option<u64>,
}

impl From<StoreInfo> for StoreFacts {
    fn from(facts: StoreInfo) -> Self {
        Self {
            kind: facts.kind,
            version: facts.version,
            memory_bytes: facts.memory_bytes,
            memory_max_bytes: facts.memory_max_bytes,
            policy: facts.policy,
            persistence: facts.persistence,
            replicas: facts.replicas,
            uptime_ms: facts.uptime_ms,
            round_trip_us: facts.round_trip_us,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Problem {
    pub code: &'static str,
    pub error: String,
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self {
            code: refusal.code,
            error: refusal.line,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Look {
    pub queue: String,
    /// Where it is, without user or password.
    pub store: String,
    pub generator: Option<String>,
    pub epoch: u64,
    pub published: u64,
    pub queued: u64,
    pub in_hand: u64,
    pub later: u64,
    pub done: u64,
    pub failed: u64,
    pub errors: u64,
    pub requeued: u64,
    pub trimmed: u64,
    pub rewinds: u64,
    pub paused: Paused,
    /// Messages a second, over the last seconds; none at the first look.
    pub rates: Option<Rates>,
    pub nodes: Vec<Member>,
}

#[derive(Serialize)]
pub(super) struct Paused {
    pub generator: bool,
    pub handlers: bool,
}

#[derive(Serialize)]
pub(super) struct Rates {
    pub published: f64,
    pub done: f64,
    pub failed: f64,
}

#[derive(Serialize)]
pub(super) struct Member {
    pub node: String,
    pub generates: bool,
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub concurrency: u32,
    pub age_ms: u64,
    pub in_hand: u64,
    pub done: u64,
    pub failed: u64,
    /// Messages settled a second.
    pub rate: Option<f64>,
    /// How long ago it last beat, as its lease tells.
    pub beat_ms: Option<u64>,
}

impl Look {
    pub fn new(queue: &str, store: &str, status: Status, pace: Option<&Rater>) -> Self {
        let rates = pace.and_then(|pace| pace.rates(&status));
        let member = |node: NodeStatus| Member {
            generates: status.generator.as_ref() == Some(&node.node),
            rate: pace.and_then(|pace| pace.rate(&node)),
            beat_ms: pace.map(|pace| pace.lease_ms.saturating_sub(node.lease_in_ms)),
            node: node.node,
            host: node.host,
            pid: node.pid,
            version: node.version,
            concurrency: node.concurrency,
            age_ms: node.age_ms,
            in_hand: node.in_hand,
            done: node.done,
            failed: node.failed,
        };
        Self {
            queue: queue.to_string(),
            store: store.to_string(),
            nodes: status.nodes.into_iter().map(member).collect(),
            generator: status.generator,
            epoch: status.epoch,
            published: status.published,
            queued: status.queued,
            in_hand: status.in_hand,
            later: status.later,
            done: status.done,
            failed: status.failed,
            errors: status.errors,
            requeued: status.requeued,
            trimmed: status.trimmed,
            rewinds: status.rewinds,
            paused: Paused {
                generator: status.paused.generator,
                handlers: status.paused.handlers,
            },
            rates,
        }
    }
}

/// The counts of the last seconds, to tell rates from.
#[derive(Default)]
pub(super) struct Rater {
    looks: VecDeque<Counts>,
    /// The longest that was left of any lease: as long as one is right after a beat, or nearly.
    lease_ms: u64,
}

struct Counts {
    at: Instant,
    birth: String,
    published: u64,
    done: u64,
    failed: u64,
    settled: BTreeMap<String, u64>,
}

impl Rater {
    /// Remembers a look, once it has been told.
    pub fn note(&mut self, status: &Status) {
        let at = Instant::now();
        let leases = status.nodes.iter().map(|node| node.lease_in_ms);
        self.lease_ms = leases.max().unwrap_or(0).max(self.lease_ms);
        // The first that is older stays: rates are told over at least the whole time.
        while self.looks.get(1).is_some_and(|second| at - second.at > RATE_OVER) {
            self.looks.pop_front();
        }
        // After a pause a rate over it would tell nothing; a purged queue begins anew.
        if self
            .looks
            .back()
            .is_some_and(|last| at - last.at > 2 * RATE_OVER || last.birth != status.birth)
        {
            self.looks.clear();
        }
        let settled = |node: &NodeStatus| (node.node.clone(), node.done + node.failed);
        self.looks.push_back(Counts {
            at,
            birth: status.birth.clone(),
            published: status.published,
            done: status.done,
            failed: status.failed,
            settled: status.nodes.iter().map(settled).collect(),
        });
    }

    fn rates(&self, now: &Status) -> Option<Rates> {
        let then = self.looks.front()?;
        let rate = |now: u64, before: u64| per_second(now.saturating_sub(before), then.at);
        Some(Rates {
            published: rate(now.published, then.published)?,
            done: rate(now.done, then.done)?,
            failed: rate(now.failed, then.failed)?,
        })
    }

    fn rate(&self, node: &NodeStatus) -> Option<f64> {
        let (then, before) = self
            .looks
            .iter()
            .find_map(|then| Some((then, then.settled.get(&node.node)?)))?;
        per_second((node.done + node.failed).saturating_sub(*before), then.at)
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn per_second(count: u64, since: Instant) -> Option<f64> {
    let seconds = since.elapsed().as_secs_f64();
    (seconds > 0.05).then(|| (count as f64 / seconds * 1000.0).round() / 1000.0)
}
