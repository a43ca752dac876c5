//! The checks of a Redis server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::kept::{Log, Seen};
use super::{Findings, ROUND_TRIPS, ms, rights};
use crate::app::args::sources::Resolved;
use crate::engine::Engine;
use crate::engine::redis::{Info, RedisEngine};

/// A larger difference between the clocks of server and machine is a warning.
const SKEW_MAX: Duration = Duration::from_secs(1);

pub(super) async fn examine(
    engine: &RedisEngine,
    resolved: &Resolved,
    (address, user): (&str, &str),
    findings: &mut Findings,
) {
    // A question about a key of the queue: sentinels and clusters lead to the server that has it.
    match engine.primary().await {
        // A user who may not even do this is connected all the same.
        Err(error) if !rights::is_about_rights(&error) => return findings.error("connection", &error),
        _ => {
            let at = engine
                .place()
                .map_or(String::new(), |at| format!(", the queue is at {at}"));
            findings.ok("connection", format!("{address} answers, as user {user}{at}"));
        }
    }
    match engine.info().await {
        Ok(info) => {
            server(&info, findings);
            eviction(&info, resolved.settings.replicas, findings);
            persistence(engine, &info, findings).await;
            replication(engine, &info, resolved.settings.replicas, findings).await;
            kept(engine, &info, (resolved, address), findings).await;
        }
        Err(error) if rights::is_about_rights(&error) => {
            findings.warn("server", "this user may not ask (INFO)", "the line below grants it");
            kept(engine, &Info::default(), (resolved, address), findings).await;
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
        findings.ok("server", format!("{shown}, part of a cluster"));
    } else {
        findings.ok("server", shown);
    }
}

fn eviction(info: &Info, replicas: u32, findings: &mut Findings) {
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
    } else if replicas > 0 && policy.starts_with("volatile-") {
        let found =
            format!("{policy}: with full memory, the server deletes by what it is found out what replicas have");
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
    if info.get("aof_enabled").is_empty() {
        return findings.ok("persistence", "the server does not tell what it keeps");
    }
    if info.get("aof_enabled") != "1" {
        let found = match setting(engine, "save").await.as_deref() {
            None => "no append-only file; this user may not ask for snapshots",
            Some("") => "nothing is kept on disk: a restart loses the queue",
            Some(_) => "snapshots only: a restart takes back what came after the last one",
        };
        return findings.warn(
            "persistence",
            found,
            "redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
        );
    }
    if loads_less(engine).await {
        return findings.warn(
            "persistence",
            "append-only file, but the user default may not write here, and the server may load the file as that user: then a restart \
             skips every script and transaction in it, and the queue is lost",
            "ACL SETUSER default on resetpass >PASSWORD ~* +@all, and the same where the server reads its users from",
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

/// Whether the user `default` lacks a right that the log takes: Redis 7.0 and newer read it as that user, and go on after an EXEC that
/// is refused (redis/redis#14541, valkey-io/valkey#3983). Older ones do not know the question. False, if this user may not ask.
async fn loads_less(engine: &RedisEngine) -> bool {
    let key = format!("{}doctor", engine.keys().prefix);
    for tried in ["HSET K a 1", "RPUSH K a", "ZADD K 1 a", "DEL K"] {
        let mut cmd = redis::cmd("ACL");
        cmd.arg("DRYRUN").arg("default");
        for word in tried.split(' ') {
            cmd.arg(if word == "K" { &key } else { word });
        }
        // What is granted is answered by a status, what is refused by a text.
        if matches!(engine.ask(&cmd).await, Ok(redis::Value::BulkString(_))) {
            return true;
        }
    }
    false
}

/// A setting of the server; none if this user may not ask.
async fn setting(engine: &RedisEngine, name: &str) -> Option<String> {
    let mut cmd = redis::cmd("CONFIG");
    cmd.arg("GET").arg(name);
    let pair: Vec<String> = redis::from_redis_value(engine.ask(&cmd).await.ok()?).ok()?;
    pair.into_iter().nth(1)
}

/// What a failover can take back.
async fn replication(engine: &RedisEngine, info: &Info, wanted: u32, findings: &mut Findings) {
    let replicas = info.number("connected_slaves");
    let wanted = u64::from(wanted);
    if wanted > 0
        && let Err(error) = engine.ask(redis::cmd("WAIT").arg(0).arg(1)).await
    {
        return findings.error("replication", &error);
    }
    if info.get("role") == "slave" {
        let primary = format!("{}:{}", info.get("master_host"), info.get("master_port"));
        findings.wrong(
            "replication",
            format!("this is a replica of {primary}: it takes no writes"),
            format!("give nodes the primary: --url redis://{primary}"),
        );
    } else if wanted > replicas {
        findings.wrong(
            "replication",
            format!("primary of {replicas}, and --replicas is {wanted}: nothing is published or settled until there are more"),
            "start the replicas that are missing, or lower --replicas",
        );
    } else if replicas > 0 {
        let keeps = match wanted {
            0 => {
                "a failover can take back what they did not have yet, which is noticed; --replicas 1 tells only what one of them has"
            }
            _ if wanted == replicas => {
                "all of them have what is told as published or done: a failover takes nothing of it back"
            }
            _ => {
                "some of them have what is told as published or done: a failover to one of these takes nothing of it back"
            }
        };
        let found = format!("primary of {replicas}; {keeps}");
        match setting(engine, "min-replicas-to-write").await.as_deref() {
            Some("0") => findings.warn(
                "replication",
                format!("{found}. One that is cut off from them would go on taking writes"),
                "redis-cli CONFIG SET min-replicas-to-write 1, and the same in redis.conf, on all servers",
            ),
            _ => findings.ok("replication", found),
        }
    } else if info.get("role").is_empty() {
        findings.ok("replication", "the server does not tell whether it has replicas");
    } else {
        findings.ok("replication", "primary, without replicas");
    }
}

async fn kept(engine: &RedisEngine, info: &Info, (resolved, address): (&Resolved, &str), findings: &mut Findings) {
    let log = match info.get("aof_enabled") {
        "" => None,
        "1" => Some(match setting(engine, "appendfsync").await.as_deref() {
            Some("always") => Log::Always,
            Some("everysec") => Log::EverySecond,
            Some(_) => Log::Seldom,
            None => Log::Unknown,
        }),
        _ => Some(Log::None),
    };
    let min_replicas = setting(engine, "min-replicas-to-write").await;
    let seen = Seen {
        address,
        log,
        replicas: info.get("connected_slaves").parse().ok(),
        wanted: resolved.settings.replicas.into(),
        min_replicas: min_replicas.and_then(|min| min.parse().ok()).unwrap_or(0),
    };
    // Of a replica nothing is asked: it takes no writes.
    if info.get("role") != "slave" {
        seen.report(findings);
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
        // The generator is elected in the home shard.
        let is_home = keys.names.shard == 0;
        findings.nodes(
            &status.nodes,
            !is_home || status.generator.is_some() || status.epoch == 0,
        );
        findings.contents(&status, &keys.damaged);
    }
}
