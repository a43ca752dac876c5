//! One queue over many stores: each shard is a queue of its own, and the first is the home shard.
//!
//! A node works on each shard by itself ([`Engine::shards`]): so that a shard that is away costs its own messages a wait and nothing else.
//! What looks at the queue as a whole, or works on it from outside, is answered here, from all shards.
//!
//! **Numbers.** Each shard has a range of [`SHARD_NUMBERS`] numbers: that of shard `s` begins at `s × SHARD_NUMBERS`. So no number comes
//! twice, a shard numbers without a gap and without asking another, and a number tells its shard.

mod whole;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, Held, History, Item, Join, Joined, Limits, NodeId, NodeStatus, Paused, PausedGroup, Publish, Published,
    Purged, Push, Pushed, Range, Reap, Reaped, Renewed, Report, Reported, Requeued, Status, StoreInfo, Wake,
};
use crate::error::{Error, Result};
use crate::settings::Names;

/// How many numbers a shard has: ten million a second for eleven days, or a thousand a second for three centuries.
pub const SHARD_NUMBERS: u64 = 10_000_000_000_000;
/// The most shards of a queue.
pub const SHARDS_MAX: usize = Names::SHARDS_MAX as usize;

/// The number of the first message of a shard.
#[must_use]
pub fn first_number(shard: usize) -> u64 {
    shard as u64 * SHARD_NUMBERS
}

/// The shard of a message.
#[must_use]
pub fn shard_of(number: u64) -> usize {
    usize::try_from(number / SHARD_NUMBERS).unwrap_or(usize::MAX)
}

/// The process of a node: its members in all shards are named after it.
#[must_use]
pub fn process_of(node: &str) -> &str {
    node.split(['-', '.']).next().unwrap_or(node)
}

/// The shard in which a node has this name.
#[must_use]
pub fn shard_of_node(node: &str) -> usize {
    let shard = node
        .split_once('-')
        .map(|(_, rest)| rest.split('.').next().unwrap_or(rest));
    shard.and_then(|shard| shard.parse().ok()).unwrap_or(0)
}

/// The shard of a group: all of its messages are there, so that their order is kept. The same in every process and version.
#[must_use]
pub fn shard_of_group(group: &str, shards: usize) -> usize {
    whole::spread(group, shards)
}

/// A queue made of shards.
pub struct Sharded<E> {
    shards: Vec<Arc<E>>,
    places: Vec<String>,
}

impl<E: Engine<Shard = E>> Sharded<E> {
    /// The home shard first. The numbers of each must begin at its [`first_number`].
    pub fn new(shards: Vec<Arc<E>>) -> Result<Self> {
        if shards.is_empty() || shards.len() > SHARDS_MAX {
            return Err(Error::Setting {
                setting: "shards",
                reason: format!("must be 1 to {SHARDS_MAX}"),
            });
        }
        let places = Vec::new();
        Ok(Self { shards, places })
    }

    /// Where each shard is, for people: without user or password.
    #[must_use]
    pub fn at(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    /// What a cluster or sentinels say comes before what a URL says.
    fn place_of(&self, shard: usize) -> Option<String> {
        let told = self.shards[shard].place();
        told.or_else(|| self.places.get(shard).cloned())
    }

    /// How many shards it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    fn home(&self) -> &E {
        &self.shards[0]
    }

    /// Asks all shards at once.
    async fn all<'a, T, F: Future<Output = Result<T>>>(&'a self, ask: impl Fn(&'a E) -> F) -> Vec<Result<T>> {
        join_all(self.shards.iter().map(|shard| ask(shard))).await
    }

    /// The same, of which none may fail. A shard that nobody has put anything into yet has nothing; if that is so of all, there is no queue.
    async fn every<'a, T: Default, F: Future<Output = Result<T>>>(
        &'a self,
        ask: impl Fn(&'a E) -> F,
    ) -> Result<Vec<T>> {
        let mut answers = self.all(ask).await;
        if answers
            .iter()
            .all(|answer| matches!(answer, Err(Error::NoQueue { .. })))
        {
            answers.truncate(1);
            return answers.into_iter().collect();
        }
        answers.into_iter().map(made).collect()
    }

    /// Asks one after the other, the home shard last: what it says is what all do.
    async fn in_turn<'a, T, F: Future<Output = Result<T>>>(&'a self, ask: impl Fn(&'a E) -> F) -> Result<T> {
        let (mut last, mut none) = (None, None);
        for shard in self.shards.iter().rev() {
            match ask(shard).await {
                Ok(answer) => last = Some(answer),
                Err(error @ Error::NoQueue { .. }) => none = Some(error),
                Err(error) => return Err(error),
            }
        }
        last.ok_or_else(|| none.unwrap_or_else(nothing))
    }

    /// The members of a process, by shard: of what a look shows, or of a member.
    async fn members(&self, node: &str) -> Result<Vec<(usize, NodeId)>> {
        let ids = async |shard: &E| shard.status().await.map(|status| status.nodes);
        let shards = self.every(ids).await?.into_iter().enumerate();
        let of = |(shard, nodes): (usize, Vec<NodeStatus>)| nodes.into_iter().map(move |found| (shard, found.node));
        let all = shards.flat_map(of);
        Ok(all.filter(|(_, found)| process_of(found) == process_of(node)).collect())
    }

    /// Numbers by the shard that they are of; what no shard has is left out.
    fn by_shard(&self, numbers: &[u64]) -> Vec<(usize, Vec<u64>)> {
        let mut parts: Vec<(usize, Vec<u64>)> = (0..self.shards.len()).map(|shard| (shard, Vec::new())).collect();
        for number in numbers {
            if let Some((_, part)) = parts.get_mut(shard_of(*number)) {
                part.push(*number);
            }
        }
        parts.retain(|(_, part)| !part.is_empty());
        parts
    }
}

/// The answer of a shard, which may not have been made yet: then there is nothing in it.
fn made<T: Default>(answer: Result<T>) -> Result<T> {
    match answer {
        Err(Error::NoQueue { .. }) => Ok(T::default()),
        answer => answer,
    }
}

fn nothing() -> Error {
    Error::Protocol {
        detail: "a queue without a shard".into(),
    }
}

/// What a node does, it does in each shard by itself.
fn in_each<T>() -> Result<T> {
    Err(Error::Protocol {
        detail: "this is asked of each shard of a queue by itself".into(),
    })
}

impl<E: Engine<Shard = E>> Engine for Sharded<E> {
    type Shard = E;

    fn shards(queue: &Arc<Self>) -> Vec<Arc<E>> {
        queue.shards.clone()
    }

    /// A shard that is away costs its own messages a wait: only the home shard must be there.
    async fn check(&self) -> Result<()> {
        let mut checked = self.all(Engine::check).await.into_iter();
        checked.next().unwrap_or(Ok(()))?;
        checked
            .filter(|checked| !checked.as_ref().is_err_and(Error::is_away))
            .collect()
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        self.home().store_info().await
    }

    async fn status(&self) -> Result<Status> {
        let looks = self.all(Engine::status).await;
        let places = (0..self.shards.len()).map(|shard| self.place_of(shard));
        whole::status(places.zip(looks).collect())
    }

    async fn published(&self) -> Result<u64> {
        let all = self.every(Engine::published).await?;
        Ok((0..)
            .zip(all)
            .map(|(shard, seq)| seq.saturating_sub(first_number(shard)))
            .sum())
    }

    fn shard_for(&self, item: &Item) -> Option<usize> {
        whole::shard_for(item, self.shards.len())
    }

    /// Where its messages are of several shards and one of these has no room, those of others may have been put in.
    async fn push(&self, push: &Push) -> Result<Pushed> {
        let mut receipts = vec![None; push.items.len()];
        for (shard, part, places) in whole::parts(push, self.shards.len()) {
            match self.shards[shard].push(&part).await? {
                Pushed::Ok(found) => {
                    for (place, receipt) in places.into_iter().zip(found) {
                        receipts[place] = Some(receipt);
                    }
                }
                other => return Ok(other),
            }
        }
        let receipts: Option<Vec<_>> = receipts.into_iter().collect();
        receipts.map(Pushed::Ok).ok_or_else(|| Error::Protocol {
            detail: "a push was answered in part".into(),
        })
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        let mut found: Vec<Failed> = Vec::new();
        for shard in self.shards.iter().skip(shard_of(from)) {
            let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            found.extend(made(shard.failed(from, left).await)?);
        }
        Ok(found)
    }

    async fn latest(&self, below: u64, limit: u32) -> Result<Vec<Failed>> {
        let mut found: Vec<Failed> = Vec::new();
        for shard in self.shards.iter().rev() {
            let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            found.extend(made(shard.latest(below, left).await)?);
        }
        Ok(found)
    }

    async fn requeue(&self, numbers: &[u64]) -> Result<Requeued> {
        whole::requeue_each(self, numbers).await
    }

    async fn discard(&self, numbers: &[u64]) -> Result<Vec<u64>> {
        let mut gone = Vec::new();
        for (shard, part) in self.by_shard(numbers) {
            gone.extend(made(self.shards[shard].discard(&part).await)?);
        }
        Ok(gone)
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        let keep = keep.div_ceil(self.shards.len() as u64);
        let gone = self.every(|shard| shard.trim(keep)).await?;
        Ok(gone.into_iter().flatten().collect())
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        self.in_turn(|shard| shard.pause(generator, handlers)).await
    }

    async fn pause_group(&self, group: &str, paused: bool) -> Result<PausedGroup> {
        self.shards[shard_of_group(group, self.shards.len())]
            .pause_group(group, paused)
            .await
    }

    async fn cancel(&self, numbers: &[u64]) -> Result<Vec<Cancelled>> {
        let mut answers = vec![Cancelled::Unpublished; numbers.len()];
        for (shard, part) in self.by_shard(numbers) {
            let places = (0..numbers.len()).filter(|place| shard_of(numbers[*place]) == shard);
            let told = match self.shards[shard].cancel(&part).await {
                Err(Error::NoQueue { .. }) => continue,
                told => told?,
            };
            for (place, answer) in places.zip(told) {
                answers[place] = answer;
            }
        }
        Ok(answers)
    }

    async fn cancel_group(&self, group: &str) -> Result<CancelledGroup> {
        self.shards[shard_of_group(group, self.shards.len())]
            .cancel_group(group)
            .await
    }

    async fn limit(&self, limits: &Limits) -> Result<()> {
        let part = limits.shared_by(self.shards.len()).map_err(|reason| Error::Setting {
            setting: "limits",
            reason,
        })?;
        let part = &part;
        self.in_turn(|shard| shard.limit(part)).await
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let Some(to) = to.filter(|to| !to.is_empty()) else {
            return self.home().handover(to).await;
        };
        let home = self.home().status().await?;
        let member = home
            .nodes
            .iter()
            .find(|found| process_of(&found.node) == process_of(to));
        self.home()
            .handover(Some(member.map_or(to, |member| &member.node)))
            .await
    }

    async fn purge(&self, force: bool) -> Result<Purged> {
        if !force {
            let status = self.status().await?;
            let alive = status.nodes.iter().filter(|node| node.is_alive()).count() as u64;
            if alive > 0 {
                return Ok(Purged::Alive(alive));
            }
        }
        // The home shard last: as long as it is there, the rest can be removed again.
        let mut is_gone = false;
        for shard in self.shards.iter().skip(1).rev() {
            match shard.purge(force).await {
                Ok(Purged::Gone) => is_gone = true,
                Err(Error::NoQueue { .. }) => {}
                other => return other,
            }
        }
        match self.home().purge(force).await {
            Err(Error::NoQueue { .. }) if is_gone => Ok(Purged::Gone),
            purged => purged,
        }
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        let mut held: Vec<Held> = Vec::new();
        for (shard, member) in self.members(node).await? {
            let left = limit.saturating_sub(u32::try_from(held.len()).unwrap_or(u32::MAX));
            held.extend(self.shards[shard].held(&member, left).await?);
        }
        Ok(held)
    }

    async fn endings(&self, numbers: &[u64]) -> Result<Vec<Option<Ending>>> {
        let mut endings = vec![None; numbers.len()];
        for (shard, part) in self.by_shard(numbers) {
            let places = (0..numbers.len()).filter(|place| shard_of(numbers[*place]) == shard);
            let told = made(self.shards[shard].endings(&part).await)?;
            for (place, ending) in places.zip(told) {
                endings[place] = ending;
            }
        }
        Ok(endings)
    }

    async fn await_ending(&self, number: u64, at_most: Duration) -> Result<bool> {
        match self.shards.get(shard_of(number)) {
            Some(shard) => shard.await_ending(number, at_most).await,
            None => Ok(false),
        }
    }

    async fn find(&self, number: u64) -> Result<Found> {
        let Some(shard) = self.shards.get(shard_of(number)) else {
            return Ok(Found::Unpublished);
        };
        match shard.find(number).await {
            Err(Error::NoQueue { .. }) => Ok(Found::Unpublished),
            found => found,
        }
    }

    async fn report(&self, report: &Report) -> Result<Reported> {
        self.home().report(report).await
    }

    async fn history(&self, range: Range) -> Result<History> {
        self.home().history(range).await
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        let all = self.every(Engine::unsettled).await?;
        Ok(all.into_iter().flatten().collect())
    }

    fn place(&self) -> Option<String> {
        self.home().place()
    }

    async fn join(&self, _: &Join) -> Result<Joined> {
        in_each()
    }

    async fn beat(&self, _: &Beat) -> Result<Renewed> {
        in_each()
    }

    async fn publish(&self, _: &Publish) -> Result<Published> {
        in_each()
    }

    async fn exchange(&self, _: &Exchange) -> Result<Exchanged> {
        in_each()
    }

    async fn reap(&self, _: &Reap) -> Result<Reaped> {
        in_each()
    }

    async fn leave(&self, _: &NodeId) -> Result<()> {
        in_each()
    }

    async fn listen(&self, _: Wake, _: Duration) -> Result<bool> {
        in_each()
    }

    async fn gone(&self, _: Option<&NodeId>) -> Result<Option<Gone>> {
        in_each()
    }

    async fn collect(&self, _: &Collect) -> Result<Collected> {
        in_each()
    }

    /// Readers work on each shard by itself, so this renews no lease: it lets the hive clock of each shard go on.
    async fn hold(&self, reader: &str, lease_ms: u64) -> Result<bool> {
        self.in_turn(|shard| shard.hold(reader, lease_ms)).await
    }

    async fn release(&self, _: &str, _: bool) -> Result<()> {
        in_each()
    }
}
