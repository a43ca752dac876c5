//! How messages ended whose outcomes were asked for, and where a message is.

use std::time::{Duration, Instant};

use super::link::Keyed;
use super::reply::{Decode, Reply};
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::store::Asked;
use crate::engine::{Ending, Failed, Found, check_layout, record};
use crate::error::Result;

/// A channel may lose what is said there: so often whoever waits looks all the same.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The same where nothing can be heard.
const LOOK_DEAF: Duration = Duration::from_millis(250);

pub(super) async fn endings(engine: &RedisEngine, numbers: &[u64]) -> Result<Vec<Option<Ending>>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let keys = &engine.keys;
    let script = &engine.scripts.endings;
    let arguments = |cmd: &mut redis::Cmd| {
        cmd.keys([&keys.asked]).arg(numbers);
    };
    // What is told must not be taken back by a failover. Behind the look a write is waited for, so replicas that have it have what was seen.
    let found = if engine.aside.waits_for_replicas() {
        engine.aside.run_kept(script, &keys.replicated, arguments).await?
    } else {
        engine.aside.look(script, arguments).await?
    };
    let records: Vec<Option<Vec<u8>>> = Vec::decode(found)?;
    Ok(records.into_iter().map(|record| ending(&record?)).collect())
}

/// What cannot be read is none.
fn ending(bytes: &[u8]) -> Option<Ending> {
    match record::decode(bytes) {
        Ok(Asked::Ended(ending)) => Some(ending),
        _ => None,
    }
}

/// Whoever ends a message says so on a channel that only those listen to who wait for it. What was said before the channel was there, the look finds that comes
/// after.
pub(super) async fn await_ending(engine: &RedisEngine, number: u64, at_most: Duration) -> Result<bool> {
    let (channel, until) = (format!("{}:{number}", engine.keys.endings), Instant::now() + at_most);
    let signs = engine.ears.signs().expect("it has ears");
    let heard = signs.listen_at(&channel);
    let mut rung = std::pin::pin!(heard.rung());
    loop {
        rung.as_mut().enable();
        engine.ears.keep_signs().await?;
        if endings(engine, &[number]).await?.first().is_some_and(Option::is_some) {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let pause = if signs.hears(&channel) { LOOK_AGAIN } else { LOOK_DEAF };
        tokio::select! {
            () = rung.as_mut() => rung.set(heard.rung()),
            () = signs.lost() => tokio::time::sleep(LOOK_DEAF.min(left)).await,
            () = tokio::time::sleep(pause.min(left)) => {}
        }
    }
}

pub(super) async fn find(engine: &RedisEngine, number: u64) -> Result<Found> {
    for _ in 0..LOOKS_MAX {
        if let Some(found) = try_find(engine, number).await? {
            return Ok(found);
        }
    }
    Err(engine.restless())
}

/// None: a node came or went meanwhile, or the message was moved.
async fn try_find(engine: &RedisEngine, number: u64) -> Result<Option<Found>> {
    let keys = &engine.keys;
    let members: Vec<String> = engine.all_of("ZRANGE", &keys.nodes).await?;
    let dead: Vec<String> = engine.all_of("LRANGE", &keys.dead).await?;
    let taken: Vec<String> = members.iter().chain(&dead).map(|node| keys.taken(node)).collect();
    let run = engine.aside.look(&engine.scripts.find, |cmd| {
        let fixed = [
            &keys.meta,
            &keys.asked,
            &keys.errors,
            &keys.queue,
            &keys.again,
            &keys.later,
            &keys.lines,
            &keys.nodes,
            &keys.dead,
        ];
        cmd.arg(fixed.len() + taken.len()).arg(&fixed).arg(&taken);
        cmd.arg(number)
            .arg(members.len())
            .arg(dead.len())
            .arg(&members)
            .arg(&dead);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => {}
        "moved" => return Ok(None),
        _ => return Err(engine.no_queue()),
    }
    check_layout(&keys.queue_name, &keys.names, reply.next()?, &reply.next::<String>()?)?;
    Ok(Some(match reply.next::<String>()?.as_str() {
        "unpublished" => Found::Unpublished,
        "ended" => ending(&reply.next::<Vec<u8>>()?).map_or(Found::Unknown, Found::Ended),
        "failed" => {
            // By a plain command: Lua would read every byte of it.
            let mut cmd = redis::cmd("HGET");
            cmd.arg(&keys.records).arg(number);
            let record: Option<Vec<u8>> = Option::decode(engine.aside.query(&cmd).await?)?;
            let Some(record) = record else { return Ok(None) };
            let failed: Result<Failed> = record::decode(&record);
            failed.map_or(Found::Unknown, |failed| Found::Failed(Box::new(failed)))
        }
        "held" => Found::Held { node: reply.next()? },
        "later" => Found::Later {
            until_ms: reply.next()?,
        },
        "queued" => Found::Queued,
        "settled" => Found::Settled,
        "unknown" => Found::Unknown,
        other => return Err(super::unknown(other)),
    }))
}
