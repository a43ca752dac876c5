//! Which queues there are at a store.

use std::time::{Duration, Instant};

use redis::Value;

use crate::app::args::sources::{Resolved, Store};
use crate::app::exit::Failure;
use crate::app::on_engine::QueueAt;
use crate::app::run::runtime;
use crate::engine::redis::RedisEngine;
use crate::error::{Error, Refusal};
use crate::node::event::escape;

/// More than these are not looked for.
const QUEUES_MAX: usize = 1000;
/// How many keys Redis looks at in one step.
const STEP: usize = 1000;
/// How many names a line has.
const NAMED_MAX: usize = 10;
/// How long to look for names that nobody has asked for.
const HINT_TIME: Duration = Duration::from_secs(1);

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// In their order.
    pub(in crate::app) names: Vec<String>,
    /// There may be more: there was no time to look for them, or there are too many.
    pub(in crate::app) may_be_more: bool,
}

/// The names of the queues, as many as are found in this time.
///
/// In Redis they are found by `SCAN`, a step at a time, each of which looks at a thousand keys: a key that lists all queues
/// would be outside the hash tag of each of them, could not be written in the same step as the queue, and would need a right that
/// the users of single queues do not have. A user without `SCAN` is told so.
pub(in crate::app) fn find(resolved: &Resolved, time: Duration) -> Result<Found, Failure> {
    match &resolved.store {
        Store::Redis(place) => {
            let at = QueueAt::of(resolved, time);
            let engine = at.redis(place)?;
            let runtime = runtime()?;
            let found = runtime.block_on(search(&at, &engine, Instant::now() + time));
            runtime.shutdown_timeout(Duration::ZERO);
            found
        }
        Store::Sqlite(database) => {
            let mut names = database.queues(u32::try_from(QUEUES_MAX + 1).expect("a constant"))?;
            let may_be_more = names.len() > QUEUES_MAX;
            names.truncate(QUEUES_MAX);
            Ok(Found { names, may_be_more })
        }
    }
}

/// Of a cluster, each server tells what it has itself.
async fn search(at: &QueueAt<'_>, engine: &RedisEngine, until: Instant) -> Result<Found, Failure> {
    let mut found = Found::default();
    let servers = engine.primaries().await;
    if servers.is_empty() {
        scan(engine, until, &mut found).await?;
        found.may_be_more |= engine.info().await.is_ok_and(|info| info.get("cluster_enabled") == "1");
    }
    let (mut told, mut failed) = (servers.is_empty(), None);
    for server in &servers {
        match scan(&at.redis(server)?, until, &mut found).await {
            Ok(()) => told = true,
            Err(failure) => failed = Some(failure),
        }
    }
    found.may_be_more |= failed.is_some();
    if let (false, Some(failure)) = (told, failed) {
        return Err(failure);
    }
    found.names.sort_unstable();
    found.names.dedup();
    found.may_be_more |= found.names.len() > QUEUES_MAX;
    found.names.truncate(QUEUES_MAX);
    Ok(found)
}

/// Adds what one server has. A key may be told twice while it makes room.
async fn scan(engine: &RedisEngine, until: Instant, found: &mut Found) -> Result<(), Failure> {
    let mut cursor = "0".to_string();
    loop {
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(&cursor).arg("MATCH").arg("{qr:*}:meta").arg("COUNT").arg(STEP);
        let Some((next, keys)) = page(engine.ask(&cmd).await.map_err(refused)?) else {
            found.may_be_more = true;
            return Ok(());
        };
        found.names.extend(keys.iter().filter_map(|key| name(key)));
        cursor = next;
        if cursor == "0" {
            return Ok(());
        }
        if found.names.len() > QUEUES_MAX || Instant::now() > until {
            found.may_be_more = true;
            return Ok(());
        }
    }
}

/// The rights of a node are not the ones that are missing here.
fn refused(error: Error) -> Failure {
    match error {
        Error::Refused {
            store,
            refusal: Refusal::Command,
            reason,
            ..
        } => Failure::failed(format!(
            "{store} refuses: {reason}; to list queues, grant the user +scan"
        )),
        error => error.into(),
    }
}

/// The next cursor, and keys; nothing, if the answer cannot be read.
fn page(value: Value) -> Option<(String, Vec<Vec<u8>>)> {
    redis::from_redis_value(value).ok()
}

/// The queue that has this key. A key that is no text is someone else's.
fn name(key: &[u8]) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    key.strip_prefix("{qr:")?.strip_suffix("}:meta").map(String::from)
}

/// Adds to a line about a queue that is not there which ones are; and whether it is certain that there are none.
pub(in crate::app) fn which(line: &str, resolved: &Resolved) -> (String, bool) {
    // Who may not look for others is told what there is to say without them.
    let Ok(found) = find(resolved, HINT_TIME) else {
        return (line.into(), false);
    };
    let address = escape(resolved.address.as_bytes()).into_owned();
    let mut named: Vec<_> = found
        .names
        .iter()
        .take(NAMED_MAX)
        .map(|name| format!("{name:?}"))
        .collect();
    if found.names.len() > NAMED_MAX || found.may_be_more {
        named.push("…".into());
    }
    let rest = if found.names.is_empty() {
        format!("; {address} has no queue at all")
    } else {
        format!("; {address} has {} (queenright queues lists them)", named.join(", "))
    };
    (format!("{line}{rest}"), found.names.is_empty() && !found.may_be_more)
}
