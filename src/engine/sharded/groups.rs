//! What is asked of a group. After a reshard it has several places: the shard that gets its messages by now, and those that got them before. They are asked in this
//! order: if the first one refuses, nothing is changed.

use std::collections::BTreeSet;

use super::{List, Sharded, nothing, whole};
use crate::engine::{CancelledGroup, Engine, PAUSED_GROUPS_MAX, PausedGroup, Status};
use crate::error::{Error, Result};

/// How often it is looked whether a group was paused or resumed meanwhile.
const LOOKS_MAX: usize = 5;

pub(super) async fn pause<E: Engine<Shard = E>>(
    queue: &Sharded<E>,
    list: &List<E>,
    group: &str,
    paused: bool,
) -> Result<PausedGroup> {
    let mut all = None;
    for shard in whole::places_of(group, &list.names) {
        let told = match list.shards[shard].pause_group(group, paused).await {
            // Nobody has put anything there yet.
            Err(Error::NoQueue { .. }) => {
                queue.make(list, shard).await?;
                list.shards[shard].pause_group(group, paused).await?
            }
            told => told?,
        };
        match told {
            PausedGroup::Ok { waiting } => *all.get_or_insert(0) += waiting,
            PausedGroup::TooMany => return Ok(told),
        }
    }
    all.map(|waiting| PausedGroup::Ok { waiting }).ok_or_else(nothing)
}

pub(super) async fn cancel<E: Engine<Shard = E>>(list: &List<E>, group: &str) -> Result<CancelledGroup> {
    let mut all = None;
    for shard in whole::places_of(group, &list.names) {
        let told = match list.shards[shard].cancel_group(group).await {
            // Nobody has put anything there yet.
            Err(Error::NoQueue { .. }) => continue,
            told => told?,
        };
        match told {
            CancelledGroup::Asked { waiting } => *all.get_or_insert(0) += waiting,
            CancelledGroup::TooMany => return Ok(told),
        }
    }
    if all.is_none() {
        Sharded::is_there(list).await?;
    }
    let waiting = all.unwrap_or(0);
    Ok(CancelledGroup::Asked { waiting })
}

/// Before a reshard: pauses the groups that are paused also where their messages go after it.
pub(super) async fn pause_ahead<E: Engine<Shard = E>>(list: &List<E>, next: &List<E>, seen: &Status) -> Result<()> {
    for group in &seen.groups.paused {
        if let Some(shard) = new_place(list, next, group) {
            pause_in(next, shard, group, true).await?;
        }
    }
    Ok(())
}

/// After a reshard: who has paused or resumed a group since the look did not know where its messages go now.
pub(super) async fn catch_up<E: Engine<Shard = E>>(list: &List<E>, next: &List<E>, seen: &Status) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        let looks = Sharded::all(next, async |shard| shard.status().await).await;
        let paused = |look: Result<Status>| look.map(|status| status.groups.paused).unwrap_or_default();
        let paused: Vec<BTreeSet<String>> = looks
            .into_iter()
            .map(|look| paused(look).into_iter().collect())
            .collect();
        let groups: BTreeSet<&String> = paused.iter().flatten().chain(&seen.groups.paused).collect();
        let mut is_settled = true;
        for group in groups {
            let Some(place) = new_place(list, next, group) else {
                continue;
            };
            let mut before = whole::places_of(group, &list.names).into_iter();
            let is_paused = before.any(|shard| paused[shard].contains(group));
            if paused[place].contains(group) != is_paused {
                is_settled = false;
                pause_in(next, place, group, is_paused).await?;
            }
        }
        if is_settled {
            break;
        }
    }
    Ok(())
}

/// The shard that gets the messages of a group after a reshard, if it never got them before: nobody pauses it there.
fn new_place<E>(list: &List<E>, next: &List<E>, group: &str) -> Option<usize> {
    let place = whole::spread(group, next.now());
    (!whole::places_of(group, &list.names).contains(&place)).then_some(place)
}

async fn pause_in<E: Engine>(list: &List<E>, shard: usize, group: &str, paused: bool) -> Result<()> {
    match list.shards[shard].pause_group(group, paused).await? {
        PausedGroup::Ok { .. } => Ok(()),
        PausedGroup::TooMany => Err(Error::Setting {
            setting: "shards",
            reason: format!(
                "shard {shard} would have more than {PAUSED_GROUPS_MAX} groups that are paused: resume some (queenright resume --group), and try again"
            ),
        }),
    }
}
