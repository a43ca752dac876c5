//! Publishing: small packs go through the script, of large ones a stub does, and plain commands carry the bytes.

use std::sync::atomic::Ordering;

use redis::{Pipeline, Value};

use super::RedisEngine;
use super::bodies::{self, Stub};
use super::link::{Before, Keyed};
use super::reply::{Decode, Reply};
use crate::engine::{Publish, Published, Ticket};
use crate::error::Result;
use crate::message::Pack;

/// How often bodies are sent that a late copy of another call removes again.
const SENDS_MAX: u32 = 3;

pub(super) async fn publish(engine: &RedisEngine, publish: &Publish) -> Result<Published> {
    let (published, ticket) = publish_ahead(engine, publish).await?;
    engine.keep(ticket).await?;
    Ok(published)
}

/// The same, and replicas may not have it yet.
pub(super) async fn publish_ahead(engine: &RedisEngine, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
    let mut sends = 0;
    while sends < SENDS_MAX {
        match send(engine, publish).await? {
            Some((Published::Unheard, _)) if hears(engine, publish).await? => {}
            Some(published) => return Ok(published),
            // There is room again, and nothing was sent yet.
            None if engine.full.swap(false, Ordering::Relaxed) => continue,
            None => {}
        }
        sends += 1;
    }
    Err(engine.away("the bytes of large messages vanish before they are published".into()))
}

/// Whether all members that may have seen more than this server knows have spoken to it, or been silent for too long.
async fn hears(engine: &RedisEngine, publish: &Publish) -> Result<bool> {
    let keys = &engine.keys;
    let run = engine.exchange.run(&engine.scripts.hear, |cmd| {
        cmd.keys([&keys.meta, &keys.nodes, &keys.unheard])
            .arg(engine.exchange.server_or(&publish.server));
    });
    bool::decode(run.await?)
}

/// None: not all bodies were there.
async fn send(engine: &RedisEngine, publish: &Publish) -> Result<Option<(Published, Option<Ticket>)>> {
    let keys = &engine.keys;
    // What has an envelope travels whole: scripts read it.
    let is_large = |pack: &&Pack| pack.bytes().len() >= engine.body_bytes_min && !pack.is_enveloped();
    let has_groups = publish.packs.iter().any(Pack::is_enveloped);
    // What is published already stays as it is: a copy of a call that was changed on its way changes nothing.
    // What is written and then not published, since the server has forgotten the script or the connection breaks, is found by
    // the next publish through `sending`, if this node cannot repeat it.
    let bodies = |pipe: &mut Pipeline| {
        let fields = publish.packs.iter().filter(is_large);
        let fields: Vec<String> = fields.map(|pack| bodies::field(pack.epoch(), pack.first())).collect();
        pipe.cmd("RPUSH").arg(&keys.sending).arg(fields.join(" "));
        for pack in publish.packs.iter().filter(is_large) {
            let field = bodies::field(pack.epoch(), pack.first());
            pipe.cmd("HSETNX").arg(&keys.bodies).arg(field).arg(&pack.bytes()[..]);
        }
    };
    let has_bodies = publish.packs.iter().any(|pack| is_large(&pack));
    // Where the queue was full, bodies are brought when there is room: they would be removed again.
    let awaits_room = has_bodies && engine.full.load(Ordering::Relaxed);
    let before: Option<Before> = (has_bodies && !awaits_room).then_some(&bodies);
    let run = engine.exchange.run_marked(before, &engine.scripts.publish, |cmd| {
        let own = [&keys.meta, &keys.queue, &keys.bell, &keys.bodies, &keys.sending];
        // The last two are for large packs.
        let own = if has_bodies || has_groups { &own[..] } else { &own[..3] };
        let of_groups = keys.of_groups();
        let of_groups = if has_groups { &of_groups[..] } else { &[] };
        cmd.arg(own.len() + of_groups.len())
            .arg(own)
            .arg(of_groups)
            .arg(&publish.node)
            .arg(publish.epoch)
            .arg(publish.made)
            .arg(publish.first)
            .arg(publish.messages.map_or(-1, u64::cast_signed))
            .arg(publish.backlog_max)
            .arg(publish.interval_ms)
            .arg(publish.cursor.as_deref().unwrap_or_default())
            .arg(u8::from(publish.again) + 2 * u8::from(awaits_room))
            .arg(engine.exchange.server_or(&publish.server));
        for pack in &publish.packs {
            if is_large(&pack) {
                cmd.arg(Stub::of(pack).bytes());
            } else {
                cmd.arg(&pack.bytes()[..]);
            }
        }
    });
    let (answer, ticket) = run.await?;
    if let Value::BulkString(text) = answer {
        engine.full.store(false, Ordering::Relaxed);
        return Ok(Some((published(&text)?, ticket)));
    }
    let mut reply = Reply::decode(answer)?;
    let published = match reply.next::<String>()?.as_str() {
        "fenced" => Published::Fenced,
        "gap" => Published::Gap,
        "moved" => Published::Moved { seq: reply.next()? },
        "full" => {
            engine.full.store(true, Ordering::Relaxed);
            Published::Full
        }
        "paused" => Published::Paused,
        "finished" => Published::Finished,
        "unheard" => Published::Unheard,
        "bodies" => return Ok(None),
        other => return Err(super::unknown(other)),
    };
    Ok(Some((published, ticket)))
}

/// What a script says of what it has published.
fn published(text: &[u8]) -> Result<Published> {
    let mut numbers = text.split(|byte| *byte == b' ').map(super::number);
    let mut next = || numbers.next().unwrap_or_else(|| super::number(b""));
    Ok(Published::Ok {
        seq: next()?,
        made: next()?,
        grain: next()?,
        due_in_ms: next()?,
    })
}
