//! What the user may do: every command that queenright sends or its scripts call, tried on a key of the queue that nobody
//! else uses.

use crate::engine::redis::RedisEngine;
use crate::error::Error;

use super::Findings;

/// Each command with arguments that do no harm. `K` stands for the key. What is written is removed by DEL, and a transaction has
/// nothing in it.
pub(super) const TRIED: &[&str] = &[
    "PING",
    "INFO",
    "TIME",
    "EVAL return+1 0",
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "HSET K a 1",
    "HSETNX K a 1",
    "HDEL K a",
    "HEXISTS K a",
    "HGET K a",
    "HGETALL K",
    "HINCRBY K a 1",
    "HKEYS K",
    "HMGET K a",
    "GET K",
    "INCRBY K 1",
    "BLPOP K 0.001",
    "LINDEX K 0",
    "LLEN K",
    "LPOP K",
    "LPOS K a",
    "LPUSH K a",
    "LRANGE K 0 0",
    "LREM K 0 a",
    "LTRIM K 0 0",
    "RPUSH K a",
    "SET K a",
    "TYPE K",
    "ZADD K 1 a",
    "ZCARD K",
    "ZCOUNT K 0 1",
    "ZPOPMIN K 1",
    "ZRANGE K 0 0",
    "ZRANGEBYSCORE K 0 1",
    "ZREM K a",
    "ZREVRANGEBYSCORE K 1 0",
    "ZSCORE K a",
    "DEL K",
    "UNLINK K",
    "MULTI",
    "EXEC",
];

/// The server refuses because of the user's rights.
pub(super) fn is_about_rights(error: &Error) -> bool {
    matches!(error, Error::Refused { reason, .. } if reason.contains("NOPERM") || reason.contains("no permissions"))
}

/// True: nothing is missing.
pub(super) async fn examine(engine: &RedisEngine, user: &str, findings: &mut Findings) -> bool {
    let key = format!("{}doctor", engine.keys().prefix);
    // Who may not use a command is not told about its key.
    let (mut commands, mut keys, mut reached) = (Vec::new(), false, false);
    for tried in TRIED {
        let mut words = tried.split(' ');
        let name = words.next().unwrap_or_default();
        let mut cmd = redis::cmd(name);
        for word in words {
            cmd.arg(match word {
                "K" => key.clone(),
                other => other.replace('+', " "),
            });
        }
        match engine.ask(&cmd).await {
            Err(error) if is_about_rights(&error) => {
                let text = error.to_string();
                if text.contains("access") && text.contains("key") {
                    keys = true;
                } else {
                    commands.push(format!("+{}", name.to_lowercase()));
                }
            }
            Err(error @ Error::Away { .. }) => {
                // A full or read-only server is told of elsewhere; one that is gone ends this.
                if is_gone(&error) {
                    findings.error("rights", &error);
                    return false;
                }
            }
            _ => reached |= tried.contains(" K"),
        }
    }
    keys |= !reached;
    if commands.is_empty() && !keys {
        findings.ok(
            "rights",
            format!("user {user} may do all {} things that are needed", TRIED.len()),
        );
        return true;
    }
    let mut grants = Vec::new();
    let mut missing = Vec::new();
    if keys {
        let pattern = format!("~{}*", engine.keys().prefix);
        missing.push(format!("the keys {}*", engine.keys().prefix));
        grants.push(pattern);
    }
    if !commands.is_empty() {
        let names: Vec<&str> = commands.iter().map(|name| &name[1..]).collect();
        missing.push(names.join(", "));
    }
    grants.extend(commands);
    findings.wrong(
        "rights",
        format!("user {user} may not use {}", missing.join("; ")),
        format!("ACL SETUSER {user} {}", grants.join(" ")),
    );
    false
}

/// Away for another reason than what the server says of itself.
fn is_gone(error: &Error) -> bool {
    let text = error.to_string();
    ![
        "OOM",
        "READONLY",
        "MISCONF",
        "NOREPLICAS",
        "LOADING",
        "BUSY",
        "NOSCRIPT",
        "WRONGTYPE",
        "ERR",
    ]
    .iter()
    .any(|passing| text.contains(passing))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::TRIED;
    use crate::engine::redis::Scripts;

    #[test]
    fn every_command_that_a_script_calls_is_tried() {
        let tried: BTreeSet<&str> = TRIED.iter().filter_map(|tried| tried.split(' ').next()).collect();
        let scripts = Scripts::new();
        let texts = scripts.texts();
        let called: BTreeSet<&str> = texts
            .iter()
            .flat_map(|text| text.split("call('").skip(1))
            .filter_map(|rest| rest.split('\'').next())
            .collect();
        assert!(called.len() > 20, "{called:?}");
        let missing: Vec<_> = called.difference(&tried).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
