//! The verbs, as the whole queue answers them.

use std::sync::Arc;
use std::time::Duration;

use super::{List, Sharded, first_number, groups, made, process_of, reshard, shard_of, whole};
use crate::engine::{
    Beat, Cancelled, CancelledGroup, Collect, Collected, Ending, Engine, Exchange, Exchanged, Failed, Found, Gone,
    Handover, Held, History, Item, Join, Joined, Limits, MadeOf, NodeId, NodeStatus, Paused, PausedGroup, Publish,
    Published, Purged, Push, Pushed, Range, Reap, Reaped, Renewed, Report, Reported, Requeued, Resharded, Status,
    StoreInfo, Wake,
};
use crate::error::{Error, Result};

/// What a node does, it does in each shard by itself.
fn in_each<T>() -> Result<T> {
    Err(Error::Protocol {
        detail: "this is asked of each shard of a queue by itself".into(),
    })
}

impl<E: Engine<Shard = E>> Engine for Sharded<E> {
    type Shard = E;

    fn shards(queue: &Arc<Self>) -> Vec<Arc<E>> {
        queue.list().shards.clone()
    }

    fn made_of(queue: &Arc<Self>) -> MadeOf<E> {
        let list = queue.list();
        (Some(list.names.clone()), list.shards.clone())
    }

    /// A shard that is away costs its own messages a wait: only the home shard must be there.
    async fn check(&self) -> Result<()> {
        let check = async |list: Arc<List<E>>| {
            let mut checked = Self::all(&list, async |shard| shard.check().await).await.into_iter();
            checked.next().unwrap_or(Ok(()))?;
            checked
                .filter(|checked| !checked.as_ref().is_err_and(Error::is_away))
                .collect()
        };
        self.following(check).await
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        self.list().home().store_info().await
    }

    async fn status(&self) -> Result<Status> {
        let look = async |list: Arc<List<E>>| {
            let looks = Self::all(&list, async |shard| shard.status().await).await;
            let places = (0..list.shards.len()).map(|shard| self.place_of(&list, shard));
            whole::status(places.zip(looks).collect(), list.now())
        };
        self.following(look).await
    }

    async fn published(&self) -> Result<u64> {
        let look = async |list: Arc<List<E>>| Self::every(&list, async |shard| shard.published().await).await;
        let all = self.following(look).await?;
        Ok((0..)
            .zip(all)
            .map(|(shard, seq)| seq.saturating_sub(first_number(shard)))
            .sum())
    }

    fn shard_for(&self, item: &Item) -> Option<usize> {
        whole::shard_for(item, self.list().now())
    }

    /// Where its messages are of several shards and one of these has no room, those of others may have been put in: [`Pushed::Part`].
    async fn push(&self, push: &Push) -> Result<Pushed> {
        let push_all = async |list: Arc<List<E>>| self.push_into(&list, push).await;
        self.following(push_all).await
    }

    async fn failed(&self, from: u64, limit: u32) -> Result<Vec<Failed>> {
        let mut found: Vec<Failed> = Vec::new();
        for shard in self.fresh().await?.shards.iter().skip(shard_of(from)) {
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
        for shard in self.fresh().await?.shards.iter().rev() {
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
        let (list, mut gone) = (self.fresh().await?, Vec::new());
        for (shard, part) in Self::by_shard(&list, numbers) {
            gone.extend(made(list.shards[shard].discard(&part).await)?);
        }
        Ok(gone)
    }

    async fn trim(&self, keep: u64) -> Result<Vec<u64>> {
        let list = self.fresh().await?;
        let keep = keep.div_ceil(list.shards.len() as u64);
        let gone = Self::every(&list, async |shard| shard.trim(keep).await).await?;
        Ok(gone.into_iter().flatten().collect())
    }

    async fn pause(&self, generator: Option<bool>, handlers: Option<bool>) -> Result<Paused> {
        self.in_turn(async |_, shard| shard.pause(generator, handlers).await)
            .await
    }

    async fn pause_group(&self, group: &str, paused: bool) -> Result<PausedGroup> {
        self.lasting(async |list: Arc<List<E>>| groups::pause(self, &list, group, paused).await)
            .await
    }

    async fn cancel(&self, numbers: &[u64]) -> Result<Vec<Cancelled>> {
        let (list, mut answers) = (self.fresh().await?, vec![Cancelled::Unpublished; numbers.len()]);
        let mut is_there = false;
        for (shard, part) in Self::by_shard(&list, numbers) {
            let places = (0..numbers.len()).filter(|place| shard_of(numbers[*place]) == shard);
            let told = match list.shards[shard].cancel(&part).await {
                Err(Error::NoQueue { .. }) => continue,
                told => told?,
            };
            is_there = true;
            for (place, answer) in places.zip(told) {
                answers[place] = answer;
            }
        }
        if !is_there {
            Self::is_there(&list).await?;
        }
        Ok(answers)
    }

    async fn cancel_group(&self, group: &str) -> Result<CancelledGroup> {
        self.lasting(async |list: Arc<List<E>>| groups::cancel(&list, group).await)
            .await
    }

    async fn limit(&self, limits: &Limits) -> Result<()> {
        let limit = async |list: Arc<List<E>>, shard: Arc<E>| {
            let part = limits.shared_by(list.now()).map_err(|reason| Error::Setting {
                setting: "limits",
                reason,
            })?;
            shard.limit(&part).await
        };
        self.in_turn(limit).await
    }

    async fn reshard(&self, _: &str) -> Result<bool> {
        in_each()
    }

    async fn reshard_to(&self, shards: u32) -> Result<Resharded> {
        reshard::reshard_to(self, shards).await
    }

    async fn handover(&self, to: Option<&str>) -> Result<Handover> {
        let list = self.fresh().await?;
        let members = match list.home().status().await {
            // Nobody has put anything there yet.
            Err(Error::NoQueue { .. }) => {
                self.make(&list, 0).await?;
                Vec::new()
            }
            home => home?.nodes,
        };
        let of = |to: &&str| {
            let is_named = |found: &&NodeStatus| process_of(&found.node) == process_of(to) && !to.is_empty();
            members.iter().find(is_named).map(|member| &*member.node)
        };
        let to = to.map(|to| of(&to).unwrap_or(to));
        list.home().handover(to).await
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
        let (list, mut is_gone) = (self.fresh().await?, false);
        Self::all_answer(&list.shards).await?;
        for shard in list.shards.iter().skip(1).rev() {
            match shard.purge(force).await {
                Ok(Purged::Gone) => is_gone = true,
                Err(Error::NoQueue { .. }) => {}
                other => return other,
            }
        }
        match list.home().purge(force).await {
            Err(Error::NoQueue { .. }) if is_gone => Ok(Purged::Gone),
            purged => purged,
        }
    }

    async fn held(&self, node: &str, limit: u32) -> Result<Vec<Held>> {
        let (list, mut held): (_, Vec<Held>) = (self.fresh().await?, Vec::new());
        for (shard, member) in Self::members(&list, node).await? {
            let left = limit.saturating_sub(u32::try_from(held.len()).unwrap_or(u32::MAX));
            held.extend(list.shards[shard].held(&member, left).await?);
        }
        Ok(held)
    }

    async fn endings(&self, numbers: &[u64]) -> Result<Vec<Option<Ending>>> {
        let (list, mut endings) = (self.fresh().await?, vec![None; numbers.len()]);
        for (shard, part) in Self::by_shard(&list, numbers) {
            let places = (0..numbers.len()).filter(|place| shard_of(numbers[*place]) == shard);
            let told = made(list.shards[shard].endings(&part).await)?;
            for (place, ending) in places.zip(told) {
                endings[place] = ending;
            }
        }
        Ok(endings)
    }

    async fn await_ending(&self, number: u64, at_most: Duration) -> Result<bool> {
        let mut list = self.checked().await?;
        if shard_of(number) >= list.shards.len() {
            list = self.fresh().await?;
        }
        match list.shards.get(shard_of(number)) {
            Some(shard) => shard.await_ending(number, at_most).await,
            None => Ok(false),
        }
    }

    async fn find(&self, number: u64) -> Result<Found> {
        let look = async |list: Arc<List<E>>| {
            if let Some(shard) = list.shards.get(shard_of(number)) {
                let found = shard.find(number).await;
                if !matches!(found, Err(Error::NoQueue { .. })) {
                    return found;
                }
            }
            Self::is_there(&list).await.map(|()| Found::Unpublished)
        };
        self.checked().await?;
        self.following(look).await
    }

    async fn report(&self, report: &Report) -> Result<Reported> {
        self.list().home().report(report).await
    }

    async fn history(&self, range: Range) -> Result<History> {
        self.list().home().history(range).await
    }

    async fn unsettled(&self) -> Result<Vec<(u64, u64)>> {
        let list = self.fresh().await?;
        let all = Self::every(&list, async |shard| shard.unsettled().await).await?;
        Ok(all.into_iter().flatten().collect())
    }

    fn place(&self) -> Option<String> {
        self.list().home().place()
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
        self.in_turn(async |_, shard| shard.hold(reader, lease_ms).await).await
    }

    async fn release(&self, _: &str, _: bool) -> Result<()> {
        in_each()
    }
}
