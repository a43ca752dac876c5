//! What the server's errors mean: which pass, and which need someone to act.

use redis::RedisError;

use super::rights;
use crate::error::Error;

/// A script that fails by itself would do so again. Redis 6.2 wraps passing errors in the same words.
fn is_script_error(reason: &str) -> bool {
    const PASSING: &str = "OOM READONLY MISCONF NOREPLICAS LOADING BUSY CLUSTERDOWN TRYAGAIN";
    let ours = reason.contains("queenright") || reason.contains("user_script") || reason.contains("running script");
    ours && !PASSING.split(' ').any(|passing| reason.contains(passing))
}

/// Which errors pass and which need someone to act. Texts of the server never contain our password.
pub(super) fn classify(address: &str, error: &RedisError) -> Error {
    let reason = match error.detail() {
        Some(detail) if error.code().is_some() => format!("{} {detail}", error.code().unwrap_or_default()),
        _ => error.to_string(),
    };
    let store = format!("Redis at {address}");
    let fix = match error.code() {
        Some("NOAUTH") => "give a password in REDIS_PASS or REDIS_URL",
        // What the server says to a command of many arguments before one has given the password.
        Some("ERR") if reason.contains("unauthenticated") => "give a password in REDIS_PASS or REDIS_URL",
        Some("WRONGPASS") => "check the user and password (REDIS_USER, REDIS_PASS or REDIS_URL)",
        Some("NOPERM") => rights::HINT.as_str(),
        Some("EXECABORT") if reason.contains("permissions") || reason.contains("NOPERM") => rights::HINT.as_str(),
        Some("ERR") if reason.contains("user executing the script") => rights::HINT.as_str(),
        Some("WRONGTYPE") => "a key of the queue was overwritten by something else; choose another queue name",
        Some("ERR") if reason.contains("DB index") => "choose another database number",
        Some("ERR") if reason.contains("AUTH") => "the server has no such password set; remove REDIS_PASS or fix it",
        Some("CROSSSLOT") => "use keys in effects whose names end in the hash tag of the queue: {qr:<queue>}",
        Some("ERR") if is_script_error(&reason) => return Error::Protocol { detail: reason },
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            "check the user and password (REDIS_USER, REDIS_PASS or REDIS_URL)"
        }
        _ if reason.contains("invalid peer certificate") => {
            "check the host name, and trust the authority that signed its certificate (SSL_CERT_FILE)"
        }
        _ if error.kind() == redis::ErrorKind::InvalidClientConfig => "check the address",
        _ => {
            return Error::Away { store, reason };
        }
    };
    Error::Refused { store, reason, fix }
}
