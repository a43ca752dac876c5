//! Changing the number of shards while the queue is in use. One step counts, in the home shard; all that comes before it changes nothing that anybody uses, and
//! what comes after it anyone does who comes to a shard next. So it can be killed at any point, and made again.

use std::sync::Arc;
use std::time::Duration;

use super::{List, Sharded, groups};
use crate::engine::{Engine, Limits, Paused, Push, Resharded, Status};
use crate::error::{Absence, Error, Result};

/// How far one look may move the hive clock of a shard in which nobody is yet: the first node that joins says it anew.
const STEP_MS: u64 = 200;
/// How often it is asked again while members have not spoken to a server that has changed: they do within a lease.
const HEARD_TRIES: usize = 200;
const HEARD_EVERY: Duration = Duration::from_millis(50);

/// How often it begins again because the number was changed by someone else meanwhile.
const ATTEMPTS_MAX: usize = 20;

pub(super) async fn reshard_to<E: Engine<Shard = E>>(queue: &Sharded<E>, shards: u32) -> Result<Resharded> {
    let mut stuck: Option<(String, Error)> = None;
    for _ in 0..ATTEMPTS_MAX {
        match attempt(queue, shards).await {
            // What was planned does not go on from what is recorded by now: the next attempt looks again.
            Err(Error::Resharded { line, .. }) => {
                stuck = None;
                queue.follow(&line)?;
            }
            // Or a shard that it was to make was made by someone else meanwhile, as one of another number.
            Err(error @ (Error::OtherNames { .. } | Error::OtherShards { .. })) => {
                let line = queue.list().names.line();
                // That nothing has changed counts from the first attempt that found it so.
                let is_as_before = stuck.as_ref().is_none_or(|(before, _)| *before == line);
                stuck = is_as_before.then_some((line, error));
            }
            done => return done,
        }
    }
    // Nobody has changed the number meanwhile: it is something else that is wrong, and that says what.
    if let Some((_, error)) = stuck {
        return Err(error);
    }
    Err(Error::Setting {
        setting: "shards",
        reason: "others change the number of shards at the same time: look what it is (status), and try again".into(),
    })
}

async fn attempt<E: Engine<Shard = E>>(queue: &Sharded<E>, shards: u32) -> Result<Resharded> {
    let list = queue.fresh().await?;
    let open = queue.open.as_ref().ok_or_else(super::nothing)?;
    let (before, status) = (list.now(), queue.status().await?);
    let resharded = |list: &List<E>| Resharded {
        before,
        now: list.now(),
        in_all: list.shards.len(),
    };
    if before == shards as usize {
        tell_others(&list).await?;
        return Ok(resharded(&list));
    }
    if status.limits != Limits::NONE {
        return Err(Error::Setting {
            setting: "shards",
            reason: "a limit is shared out among the shards: remove it first (queenright limit none), and set it again afterwards".into(),
        });
    }
    let names = list.names.resharded(shards, queue.urls);
    let next = queue.list_of(names.clone(), open)?;
    make_new(&list, &next, &status).await?;
    change(next.home()).await?;
    queue.follow(&names.line())?;
    tell_others(&next).await?;
    catch_up(queue, &list, &next, &status).await?;
    Ok(resharded(&next))
}

/// The one step that counts.
async fn change<E: Engine>(home: &E) -> Result<()> {
    for _ in 0..HEARD_TRIES {
        if home.reshard("").await? {
            return Ok(());
        }
        tokio::time::sleep(HEARD_EVERY).await;
    }
    Err(Error::Away {
        store: home.place().unwrap_or_else(|| "the home shard".into()),
        absence: Absence::Unable,
        reason: "nodes that may know of another reshard have not spoken to it yet".into(),
    })
}

/// Makes a shard of the queue of this birth, with nothing in it.
pub(super) async fn make(shard: &impl Engine, number: usize, birth: &str) -> Result<()> {
    let nothing = Push {
        call: format!("reshard-{birth}"),
        keep_ms: 0,
        backlog_max: u64::MAX >> 12,
        birth: format!("{birth}-{number}"),
        step_ms: STEP_MS,
        server: String::new(),
        only_known: false,
        items: Vec::new(),
    };
    shard.push(&nothing).await.map(drop)
}

/// Who has changed something between the look and the step did not know of the new shards, unless they have looked after it, too, and do it again. If nobody has, a
/// shard that is away by now is no reason to fail.
async fn catch_up<E: Engine<Shard = E>>(
    queue: &Sharded<E>,
    list: &List<E>,
    next: &List<E>,
    seen: &Status,
) -> Result<()> {
    let home = next.home().status().await?;
    if home.paused != seen.paused {
        let Paused { generator, handlers } = home.paused;
        queue.pause(Some(generator), Some(handlers)).await?;
    }
    groups::catch_up(list, next, seen).await?;
    if home.limits == Limits::NONE {
        return Ok(());
    }
    // Who looks after the step begins with the last shard: if that was made just now and has no limit, the one of the home shard is its part of before.
    let made = next.shards.get(list.shards.len()..).and_then(<[_]>::last);
    let Some(newest) = made else {
        return Err(Error::Setting {
            setting: "limits",
            reason: "the number of shards is changed, and a limit was set meanwhile: set it again (queenright limit)"
                .into(),
        });
    };
    if newest.status().await?.limits == Limits::NONE {
        queue.limit(&Limits::of_part(home.limits, list.now())).await?;
    }
    Ok(())
}

/// Makes the shards that are new, as the queue is: paused, with groups that are paused. Nobody uses them yet.
async fn make_new<E: Engine<Shard = E>>(list: &List<E>, next: &List<E>, status: &Status) -> Result<()> {
    for (number, shard) in next.shards.iter().enumerate() {
        // Nobody may have come yet to some that are there. Those are made as what they are: whoever comes there next would take the line of a later reshard
        // for one that is made.
        let shard = match list.shards.get(number) {
            Some(before) => match before.published().await {
                Err(Error::NoQueue { .. }) => before,
                Err(error) if error.is_away() => continue,
                _ if number < list.now() => continue,
                // It only ran empty. While it was away it may have missed what was said to all.
                _ => {
                    as_the_queue_is(&**before, status).await?;
                    continue;
                }
            },
            None => shard,
        };
        make(&**shard, number, &status.birth).await?;
        as_the_queue_is(&**shard, status).await?;
    }
    groups::pause_ahead(list, next, status).await
}

/// There is no limit during a reshard.
async fn as_the_queue_is(shard: &impl Engine, status: &Status) -> Result<()> {
    let Paused { generator, handlers } = status.paused;
    shard.pause(Some(generator), Some(handlers)).await?;
    shard.limit(&status.limits).await
}

/// Tells the other shards, which would hear of it from the next that comes there.
async fn tell_others<E: Engine<Shard = E>>(list: &List<E>) -> Result<()> {
    for shard in list.shards.iter().skip(1).map(Arc::as_ref) {
        match shard.reshard("").await {
            // Nobody has put anything there yet; or it is away.
            Err(error) if matches!(error, Error::NoQueue { .. }) || error.is_away() => {}
            told => drop(told?),
        }
    }
    Ok(())
}
