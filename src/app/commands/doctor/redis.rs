//! The checks of a Redis server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::{Findings, ROUND_TRIPS, ms, rights};
use crate::app::args::sources::Resolved;
use crate::engine::Engine;
use crate::engine::redis::{Info, RedisEngine};

/// A larger difference between the clocks of server and machine is a warning.
const SKEW_MAX: Duration = Duration::from_secs(1);

pub(super) async fn examine(engine: &RedisEngine, resolved: &Resolved, user: &str, findings: &mut Findings) {
    match engine.ask(&redis::cmd("TIME")).await {
        // A user who may not even do this is connected all the same.
        Err(error) if !rights::is_about_rights(&error) => return findings.error("connection", &error),
        _ => findings.ok("connection", format!("{} answers, as user {user}", resolved.address)),
    }
    match engine.info().await {
        Ok(info) => {
            server(&info, findings);
            eviction(&info, findings);
            persistence(engine, &info, findings).await;
            replication(&info, findings);
        }
        Err(error) if rights::is_about_rights(&error) => {
            findings.warn("server", "this user may not ask (INFO)", "the line below grants it");
        }
        Err(error) => return findings.error("server", &error),
    }
    clock(engine, findings).await;
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        if let Err(error) = engine.ask(&redis::cmd("TIME")).await
            && !rights::is_about_rights(&error)
        {
            return findings.error("latency", &error);
        }
        times.push(asked.elapsed());
    }
    findings.latency(times, resolved.settings.lease);
    if !rights::examine(engine, user, findings).await {
        return;
    }
    queue(engine, findings).await;
}

fn server(info: &Info, findings: &mut Findings) {
    let (redis, valkey) = (info.get("redis_version"), info.get("valkey_version"));
    let shown = if valkey.is_empty() {
        format!("Redis {redis}")
    } else {
        format!("Valkey {valkey}")
    };
    if info.is_too_old() {
        findings.wrong("server", shown, "queenright needs Redis 6.2 or newer, or Valkey");
    } else if info.get("cluster_enabled") == "1" {
        findings.warn(
            "server",
            format!("{shown}, part of a cluster"),
            "give nodes the address of the one that holds the queue's slot: queenright does not follow redirections",
        );
    } else {
        findings.ok("server", shown);
    }
}

fn eviction(info: &Info, findings: &mut Findings) {
    let (policy, most, used) = (
        info.get("maxmemory_policy"),
        info.number("maxmemory"),
        info.number("used_memory"),
    );
    let mb = |bytes: u64| format!("{} MB", bytes.div_ceil(1024 * 1024));
    let fix = "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf";
    if info.evicts() {
        let found = format!("{policy} with maxmemory {}: the server may delete messages", mb(most));
        findings.wrong("eviction", found, fix);
    } else if info.may_evict() {
        let found = format!("{policy}, harmless for as long as maxmemory is not set");
        findings.warn("eviction", found, fix);
    } else if most > 0 && used > most / 10 * 8 {
        let found = format!("{} of {} are used", mb(used), mb(most));
        findings.warn(
            "eviction",
            found,
            "raise maxmemory: when it is full nothing is published, though nothing is lost",
        );
    } else if most > 0 {
        findings.ok("eviction", format!("{policy}, {} of {} are used", mb(used), mb(most)));
    } else {
        findings.ok("eviction", format!("{policy}, {} are used, without a limit", mb(used)));
    }
}

async fn persistence(engine: &RedisEngine, info: &Info, findings: &mut Findings) {
    let bad = |name: &str| info.get(name) == "err";
    if info.get("loading") == "1" {
        return findings.warn("persistence", "the server loads its data", "wait");
    }
    if bad("aof_last_write_status") || bad("rdb_last_bgsave_status") {
        return findings.wrong(
            "persistence",
            "the last write to disk failed: the server refuses writes until one succeeds",
            "look at its log, and at the space on its disk",
        );
    }
    if info.get("aof_enabled") != "1" {
        let saves = setting(engine, "save").await.is_some_and(|save| !save.is_empty());
        let found = if saves {
            "snapshots only: a restart takes back what came after the last one"
        } else {
            "nothing is kept on disk: a restart loses the queue"
        };
        return findings.warn(
            "persistence",
            found,
            "redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
        );
    }
    match setting(engine, "appendfsync").await.as_deref() {
        Some("always") => findings.ok(
            "persistence",
            "append-only file, fsync always: nothing acknowledged is lost",
        ),
        Some("no") => findings.warn(
            "persistence",
            "append-only file, fsync left to the system: a power cut can take back half a minute",
            "redis-cli CONFIG SET appendfsync everysec, or always",
        ),
        Some(_) => findings.ok(
            "persistence",
            "append-only file, fsync every second: a power cut can take back that second, which is noticed",
        ),
        None => findings.ok(
            "persistence",
            "append-only file; this user may not ask how often it is synced",
        ),
    }
}

/// A setting of the server; none if this user may not ask.
async fn setting(engine: &RedisEngine, name: &str) -> Option<String> {
    let mut cmd = redis::cmd("CONFIG");
    cmd.arg("GET").arg(name);
    let pair: Vec<String> = redis::from_redis_value(engine.ask(&cmd).await.ok()?).ok()?;
    pair.into_iter().nth(1)
}

fn replication(info: &Info, findings: &mut Findings) {
    let replicas = info.number("connected_slaves");
    if info.get("role") == "slave" {
        let primary = format!("{}:{}", info.get("master_host"), info.get("master_port"));
        findings.wrong(
            "replication",
            format!("this is a replica of {primary}: it takes no writes"),
            format!("give nodes the primary: --url redis://{primary}"),
        );
    } else if replicas > 0 {
        findings.ok(
            "replication",
            format!("primary of {replicas}; a failover can take back what they did not have yet, which is noticed"),
        );
    } else {
        findings.ok("replication", "primary, without replicas");
    }
}

/// The server's clock against this machine's, at the middle of the round trip.
async fn clock(engine: &RedisEngine, findings: &mut Findings) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let before = now();
    let answer = engine.ask(&redis::cmd("TIME")).await;
    let here = (before + now()) / 2;
    let time: Option<(u64, u64)> = answer.ok().and_then(|value| redis::from_redis_value(value).ok());
    let Some((seconds, micros)) = time else { return };
    let there = Duration::from_secs(seconds) + Duration::from_micros(micros);
    let found = format!("{} apart from this machine's", ms(here.abs_diff(there)));
    if here.abs_diff(there) > SKEW_MAX {
        findings.warn(
            "clock",
            found,
            "set both by NTP; leases do not depend on it, but --cron, --delay and time stamps go by the server's",
        );
    } else {
        findings.ok("clock", found);
    }
}

async fn queue(engine: &RedisEngine, findings: &mut Findings) {
    let keys = engine.keys();
    let mut cmd = redis::cmd("HMGET");
    cmd.arg(&keys.meta).arg(&["birth", "layout", "names"]);
    let answer = match engine.ask(&cmd).await {
        Ok(answer) => answer,
        Err(error) => return findings.error("layout", &error),
    };
    let fields: [Option<String>; 3] = redis::from_redis_value(answer).unwrap_or_default();
    let [Some(_), layout, names] = fields else {
        return findings.ok(
            "layout",
            format!("there is no queue {} yet: the first node creates it", keys.queue_name),
        );
    };
    let layout = layout.and_then(|layout| layout.parse().ok()).unwrap_or(0);
    if findings.layout(layout, &names.unwrap_or_default(), &keys.names.line())
        && let Ok(status) = engine.status().await
    {
        findings.nodes(&status.nodes, status.generator.is_some());
        findings.contents(&status, &keys.damaged);
    }
}
