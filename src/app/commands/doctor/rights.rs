//! The user's rights: every command that queenright sends or its scripts call is tried on a key of the queue that nothing else
//! uses.

use super::Findings;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::rights::{FOR_EFFECTS, FOR_WATCHING, NEEDED, Right, words};
use crate::error::{Absence, Error, Refusal, Result};

/// The server refuses because of the user's rights.
pub(super) fn is_about_rights(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused {
            refusal: Refusal::Command | Refusal::Key,
            ..
        }
    )
}

/// Commands that a node works without: scripts are sent whole then, the server tells nothing of itself, and has database 0 only.
const ADVICE: [&str; 3] = ["evalsha", "info", "select"];

/// What a user lacks.
#[derive(Default)]
struct Lacks {
    /// As words of an `ACL SETUSER`: a right where the user may use none of its commands, else the commands.
    grants: Vec<String>,
    commands: Vec<String>,
    keys: bool,
    /// Whether any command reached its key: a user who may not use a command is not told about the key.
    reached: bool,
}

/// True: nothing is missing.
pub(super) async fn examine(engine: &RedisEngine, user: &str, findings: &mut Findings) -> bool {
    // What is needed comes last: it ends with removing what was written.
    let (for_effects, needed) = match (try_all(engine, FOR_EFFECTS).await, try_all(engine, NEEDED).await) {
        (Ok(for_effects), Ok(needed)) => (for_effects, needed),
        (Err(error), _) | (_, Err(error)) => {
            findings.error("rights", &error);
            return false;
        }
    };
    let prefix = &engine.keys().prefix;
    let watches = engine.try_watching().await;
    let keys = needed.keys || !needed.reached;
    let is_advice = |command: &String| ADVICE.contains(&command.as_str());
    if keys || !needed.commands.iter().all(is_advice) {
        let (mut grants, mut missing) = (needed.grants, Vec::new());
        if matches!(watches, Ok(Some(false))) {
            let anew = if needed.reached { "" } else { "resetchannels " };
            grants.insert(0, format!("{anew}&{prefix}*"));
            grants.push(words(FOR_WATCHING));
        }
        if keys {
            grants.insert(0, format!("~{prefix}*"));
            missing.push(format!("the keys {prefix}*"));
        }
        if !needed.commands.is_empty() {
            missing.push(needed.commands.join(", "));
        }
        findings.wrong(
            "rights",
            format!("user {user} may not use {}", missing.join("; ")),
            format!("ACL SETUSER {user} {}", grants.join(" ")),
        );
        return false;
    }
    watching(&watches, user, prefix, findings);
    let without = match needed.commands.as_slice() {
        [] => String::new(),
        lacking => format!(" (not {}, which it works without)", lacking.join(", ")),
    };
    let found = format!("user {user} may do all that a node needs{without}");
    if for_effects.commands.is_empty() {
        findings.ok(
            "rights",
            format!("{found}, and all that effects do, on keys of the queue"),
        );
    } else {
        let commands = for_effects.commands.join(", ");
        findings.ok(
            "rights",
            format!(
                "{found}, but not use {commands}: only for handlers with effects that add or set, {}",
                words(FOR_EFFECTS)
            ),
        );
    }
    true
}

/// Whether a node that dies is seen at once.
fn watching(works: &Result<Option<bool>>, user: &str, prefix: &str, findings: &mut Findings) {
    match works {
        Ok(Some(true)) => findings.ok("watching", "a copy that is killed is seen at once, by its connection"),
        Ok(Some(false)) => findings.warn(
            "watching",
            "a copy that is killed is noticed when its lease has run out: the server does not tell whose connections are open",
            format!("ACL SETUSER {user} &{prefix}* {}", words(FOR_WATCHING)),
        ),
        Ok(None) => findings.ok("watching", "off: a copy that is killed is noticed when its lease has run out"),
        // Other checks report a server that is no place for a queue.
        Err(_) => {}
    }
}

/// Fails only if the server is gone.
async fn try_all(engine: &RedisEngine, rights: &[Right]) -> Result<Lacks> {
    let mut lacks = Lacks::default();
    for (right, tried) in rights {
        let (tried, mut refused) = (tried.split(", "), Vec::new());
        for tried in tried.clone() {
            match try_one(engine, tried).await {
                Err(Error::Refused {
                    refusal: Refusal::Key, ..
                }) => lacks.keys = true,
                Err(Error::Refused {
                    refusal: Refusal::Command,
                    ..
                }) => refused.push(tried.split(' ').next().unwrap_or_default().to_lowercase()),
                Err(
                    error @ Error::Away {
                        absence: Absence::Silent,
                        ..
                    },
                ) => return Err(error),
                // Other checks report a full or read-only server.
                Err(Error::Away { .. }) => {}
                _ => lacks.reached |= tried.contains(" K"),
            }
        }
        if refused.len() == tried.count() {
            lacks.grants.push((*right).to_string());
        } else {
            lacks.grants.extend(refused.iter().map(|command| format!("+{command}")));
        }
        lacks.commands.extend(refused);
    }
    Ok(lacks)
}

async fn try_one(engine: &RedisEngine, tried: &str) -> Result<()> {
    let key = format!("{}doctor", engine.keys().prefix);
    let mut words = tried.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        cmd.arg(match word {
            "K" => key.clone(),
            other => other.replace('+', " "),
        });
    }
    engine.ask(&cmd).await.map(drop)
}
