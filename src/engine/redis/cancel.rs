//! Cancelling messages, and groups.

use redis::Value;

use super::RedisEngine;
use super::link::Keyed;
use super::reply::{Decode, Reply};
use crate::engine::store::Kept;
use crate::engine::{Cancelled, CancelledGroup, record};
use crate::error::Result;
use crate::message::Cancels;

pub(super) async fn cancel(engine: &RedisEngine, numbers: &[u64]) -> Result<Vec<Cancelled>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.cancel, |cmd| {
        cmd.keys([&keys.meta, &keys.later, &keys.errors, &keys.asked])
            .arg(numbers);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => reply.next(),
        _ => Err(engine.no_queue()),
    }
}

pub(super) async fn cancel_group(engine: &RedisEngine, group: &str) -> Result<CancelledGroup> {
    let keys = &engine.keys;
    let run = engine.aside.run(&engine.scripts.cancel_group, |cmd| {
        cmd.keys([&keys.meta, &keys.later, &keys.groups]).arg(group);
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => Ok(CancelledGroup::Asked { waiting: reply.next()? }),
        "many" => Ok(CancelledGroup::TooMany),
        _ => Err(engine.no_queue()),
    }
}

impl Decode for Cancelled {
    fn decode(value: Value) -> Result<Self> {
        match String::decode(value)?.as_str() {
            "asked" => Ok(Self::Asked),
            "ended" => Ok(Self::Ended),
            "unpublished" => Ok(Self::Unpublished),
            "many" => Ok(Self::TooMany),
            other => Err(super::unknown(other)),
        }
    }
}

/// What cannot be read cancels nothing, and so does what is not there.
impl Decode for Kept {
    fn decode(value: Value) -> Result<Self> {
        Ok(record::decode(&Vec::<u8>::decode(value)?).unwrap_or_default())
    }

    fn absent(_: &str) -> Result<Self> {
        Ok(Self::default())
    }
}

impl Decode for Cancels {
    fn decode(value: Value) -> Result<Self> {
        Kept::decode(value).map(|kept| kept.told())
    }

    fn absent(_: &str) -> Result<Self> {
        Ok(Self::default())
    }
}
