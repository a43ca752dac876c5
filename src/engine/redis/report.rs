//! What nodes tell of themselves, and what was.

use redis::Cmd;

use super::RedisEngine;
use super::link::Keyed;
use super::reply::{Decode, Readable, Reply, named};
use crate::engine::history::{Bucket, Crowned, History, Range, Report, Reported};
use crate::engine::record;
use crate::error::Result;

pub(super) async fn report(engine: &RedisEngine, report: &Report) -> Result<Reported> {
    let keys = &engine.keys;
    let taken = keys.taken(&report.node);
    let (live, figures) = (record::encode(&report.live), record::encode(&report.figures));
    let gauges = report.gauges.as_ref().map(record::encode).unwrap_or_default();
    let arguments = |cmd: &mut Cmd| {
        cmd.keys([&keys.nodes, &taken, &keys.history])
            .arg(&report.node)
            .arg(report.number)
            .arg(&live)
            .arg(&figures)
            .arg(&gauges);
        for range in Range::ALL {
            cmd.arg(range.step_ms()).arg(range.steps());
        }
    };
    let script = &engine.scripts.report;
    // Beside the beats, which have opened it: a connection more for each copy would be one too many.
    let answer = match engine.control.run_if_open(script, arguments).await {
        Some(answer) => answer,
        None => engine.aside.run(script, arguments).await?,
    };
    let answer = String::decode(answer)?;
    if report.gauges.is_some() {
        // The look that they come from is over, and the next one may be made by another node.
        engine.aside.close().await;
    }
    match answer.as_str() {
        "stored" => Ok(Reported::Stored { look: false }),
        "look" => Ok(Reported::Stored { look: true }),
        "stranger" => Ok(Reported::Stranger),
        other => Err(super::unknown(other)),
    }
}

/// What the script says of the past.
struct Past {
    now_ms: u64,
    /// When a generator last beat.
    ruled_ms: u64,
    reigns: Readable<Crowned>,
    slots: Readable<Bucket>,
}

pub(super) async fn history(engine: &RedisEngine, range: Range) -> Result<History> {
    let keys = &engine.keys;
    let run = engine.aside.look(&engine.scripts.history, |cmd| {
        cmd.keys([&keys.meta, &keys.history, &keys.reigns])
            .arg(range.ring())
            .arg(range.steps());
    });
    let mut reply = Reply::decode(run.await?)?;
    if reply.next::<String>()? != "ok" {
        return Err(engine.no_queue());
    }
    let past = named!(reply => Past { now_ms, ruled_ms, reigns, slots });
    Ok(History::of(
        past.now_ms,
        range,
        past.slots.0,
        &past.reigns.0,
        past.ruled_ms,
    ))
}
