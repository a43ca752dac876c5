//! Publishing: small packs go through the script, of large ones a stub does, and plain commands carry the bytes.

use redis::Pipeline;

use super::RedisEngine;
use super::bodies::{self, Stub};
use super::link::{Before, Keyed};
use super::reply::{Decode, Reply};
use crate::engine::{Publish, Published};
use crate::error::Result;
use crate::message::Pack;

pub(super) async fn publish(engine: &RedisEngine, publish: &Publish) -> Result<Published> {
    let keys = &engine.keys;
    let is_large = |pack: &&Pack| pack.bytes().len() >= engine.body_bytes_min;
    // What is published already stays as it is: a copy of a call that was changed on its way changes nothing.
    // And what is written by a transaction whose script the server has forgotten is found by the next publish, if this node
    // cannot repeat it.
    let bodies = |pipe: &mut Pipeline| {
        let fields = publish.packs.iter().filter(is_large);
        let fields: Vec<String> = fields.map(|pack| bodies::field(pack.epoch(), pack.first())).collect();
        pipe.cmd("RPUSH").arg(&keys.sending).arg(fields.join(" "));
        for pack in publish.packs.iter().filter(is_large) {
            let field = bodies::field(pack.epoch(), pack.first());
            pipe.cmd("HSETNX").arg(&keys.bodies).arg(field).arg(&pack.bytes()[..]);
        }
    };
    let before: Option<Before> = publish.packs.iter().any(|pack| is_large(&pack)).then_some(&bodies);
    let run = engine
        .exchange
        .run_kept(before, &engine.scripts.publish, &keys.replicated, |cmd| {
            cmd.keys([&keys.meta, &keys.queue, &keys.bell, &keys.bodies, &keys.sending])
                .arg(&publish.node)
                .arg(publish.epoch)
                .arg(publish.made)
                .arg(publish.first)
                .arg(publish.messages.map_or(-1, u64::cast_signed))
                .arg(publish.backlog_max)
                .arg(publish.interval_ms)
                .arg(publish.cursor.as_deref().unwrap_or_default());
            for pack in &publish.packs {
                if is_large(&pack) {
                    cmd.arg(Stub::of(pack).bytes());
                } else {
                    cmd.arg(&pack.bytes()[..]);
                }
            }
        });
    let mut reply = Reply::decode(run.await?)?;
    Ok(match reply.next::<String>()?.as_str() {
        "ok" => Published::Ok {
            seq: reply.next()?,
            made: reply.next()?,
            grain: reply.next()?,
            due_in_ms: reply.next()?,
        },
        "fenced" => Published::Fenced,
        "gap" => Published::Gap,
        "moved" => Published::Moved { seq: reply.next()? },
        "full" => Published::Full,
        "paused" => Published::Paused,
        "finished" => Published::Finished,
        other => return Err(super::unknown(other)),
    })
}
