//! Messages from outside.

use super::membership::end_members;
use super::reply::{Decode, Reply};
use super::{LOOKS_MAX, RedisEngine};
use crate::engine::sharded::first_number;
use crate::engine::{Item, Push, Pushed, Receipt};
use crate::error::Result;

pub(super) async fn push(engine: &RedisEngine, push: &Push) -> Result<Pushed> {
    for _ in 0..LOOKS_MAX {
        if let Some(pushed) = try_push(engine, push).await? {
            return Ok(pushed);
        }
        end_members(engine).await?;
    }
    Err(engine.restless())
}

/// None: a shard that was left over from a reshard has members.
async fn try_push(engine: &RedisEngine, push: &Push) -> Result<Option<Pushed>> {
    let keys = &engine.keys;
    let has_envelopes = push.items.iter().any(Item::is_enveloped);
    let run = engine.aside.run_kept(&engine.scripts.push, &keys.replicated, |cmd| {
        let own = [
            &keys.meta,
            &keys.queue,
            &keys.bell,
            &keys.later,
            &keys.once,
            &keys.once_values,
            &keys.nodes,
            &keys.unheard,
        ];
        let of_groups = keys.of_groups();
        let of_groups = if has_envelopes { &of_groups[..] } else { &[] };
        let asked = push.items.iter().any(|item| item.asked).then_some(&keys.asked);
        cmd.arg(own.len() + of_groups.len() + asked.iter().len())
            .arg(&own)
            .arg(of_groups)
            .arg(asked)
            .arg(&push.call)
            .arg(push.keep_ms)
            .arg(push.backlog_max)
            .arg(keys.names.line())
            .arg(&push.birth)
            .arg(push.step_ms)
            .arg(engine.aside.server_or(&push.server))
            .arg(first_number(keys.names.shard as usize))
            .arg(u8::from(push.only_known));
        for item in &push.items {
            cmd.arg(item.key.as_deref().unwrap_or_default()).arg(item.delay_ms);
            if has_envelopes {
                cmd.arg(item.envelope().encode());
            }
            cmd.arg(&item.payload[..]);
        }
    });
    let mut reply = Reply::decode(run.await?)?;
    match reply.next::<String>()?.as_str() {
        "ok" => {
            let receipts = reply.next::<Reply>()?.pairs()?.into_iter();
            let receipts = receipts.map(|(number, repeated)| Receipt { number, repeated });
            Ok(Some(Pushed::Ok(receipts.collect())))
        }
        "full" => Ok(Some(Pushed::Full)),
        "unheard" => Ok(Some(Pushed::Unheard)),
        "members" => Ok(None),
        "none" => Err(engine.no_queue()),
        other => Err(engine.not_ours(other, reply)),
    }
}
