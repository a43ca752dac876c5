//! What the server's errors mean: which pass, and which need someone to act.

use redis::RedisError;

use super::bounds::Beyond;
use super::rights;
use crate::error::{Absence, Error, Refusal};

/// A script that fails by itself would do so again. Redis 6.2 wraps passing errors in the same words.
fn is_script_error(reason: &str) -> bool {
    const PASSING: &str = "OOM READONLY MISCONF NOREPLICAS LOADING BUSY CLUSTERDOWN TRYAGAIN";
    let ours = reason.contains("queenright") || reason.contains("user_script") || reason.contains("running script");
    ours && !PASSING.split(' ').any(|passing| reason.contains(passing))
}

/// Bytes came that are not of this protocol.
fn is_no_redis(error: &RedisError, reason: &str) -> bool {
    error.kind() == redis::ErrorKind::Parse
        || Beyond::of(error) == Some(Beyond::Foreign)
        || ["corrupt message", "InvalidContentType"]
            .iter()
            .any(|tls| reason.contains(tls))
}

const PASSWORD: &str = "give a password in REDIS_PASS or REDIS_URL";
const CREDENTIALS: &str = "check the user and password (REDIS_USER, REDIS_PASS or REDIS_URL)";

/// Which errors pass and which need someone to act. Texts of the server never contain our password.
pub(super) fn classify(address: &str, error: &RedisError) -> Error {
    let reason = match error.detail() {
        Some(detail) if error.code().is_some() => format!("{} {detail}", error.code().unwrap_or_default()),
        _ => error.to_string(),
    };
    let store = format!("Redis at {address}");
    let no_right = if reason.contains("access") && reason.contains("key") {
        Refusal::Key
    } else {
        Refusal::Command
    };
    let (refusal, fix) = match error.code() {
        Some("NOAUTH") => (Refusal::Credentials, PASSWORD),
        // What the server says to a command of many arguments before one has given the password.
        Some("ERR") if reason.contains("unauthenticated") => (Refusal::Credentials, PASSWORD),
        Some("WRONGPASS") => (Refusal::Credentials, CREDENTIALS),
        Some("NOPERM") => (no_right, rights::HINT.as_str()),
        Some("EXECABORT") if reason.contains("permissions") || reason.contains("NOPERM") => {
            (no_right, rights::HINT.as_str())
        }
        Some("ERR") if reason.contains("user executing the script") => (Refusal::Command, rights::HINT.as_str()),
        Some("WRONGTYPE") => (
            Refusal::Other,
            "a key of the queue was overwritten by something else; choose another queue name",
        ),
        Some("ERR") if reason.contains("DB index") => (Refusal::Other, "choose another database number"),
        Some("ERR") if reason.contains("AUTH") => (
            Refusal::Credentials,
            "the server has no such password set; remove REDIS_PASS or fix it",
        ),
        Some("CROSSSLOT") => (
            Refusal::Slot,
            "use keys in effects whose names end in the hash tag of the queue: {qr:<queue>}",
        ),
        Some("ERR") if is_script_error(&reason) => return Error::Protocol { detail: reason },
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => (Refusal::Credentials, CREDENTIALS),
        _ if reason.contains("invalid peer certificate") => (
            Refusal::Other,
            "check the host name, and trust the authority that signed its certificate (SSL_CERT_FILE)",
        ),
        _ if error.kind() == redis::ErrorKind::InvalidClientConfig => (Refusal::Other, "check the address"),
        Some("MOVED") => {
            let reason =
                format!("another server of the cluster has this queue ({reason}); give the address of that one");
            return Error::Away {
                store,
                absence: Absence::Elsewhere,
                reason,
            };
        }
        Some("READONLY") => {
            let reason = format!("it is a replica, which takes no writes ({reason}); give the address of the primary");
            return Error::Away {
                store,
                absence: Absence::Unable,
                reason,
            };
        }
        None if is_no_redis(error, &reason) => {
            let reason = format!(
                "what answers is no Redis, or TLS is needed or not spoken there ({reason}); check host and port, and use \
                 redis:// without TLS, rediss:// with it"
            );
            return Error::Away {
                store,
                absence: Absence::Elsewhere,
                reason,
            };
        }
        None if Beyond::of(error).is_some() => {
            let reason = format!("{reason}, which no Redis does here; is that one? Check host and port");
            return Error::Away {
                store,
                absence: Absence::Elsewhere,
                reason,
            };
        }
        None if address.starts_with("rediss:") && error.is_timeout() => {
            let reason = format!("{reason}; if no TLS is spoken there, use redis://");
            return Error::Away {
                store,
                absence: Absence::Silent,
                reason,
            };
        }
        code => {
            let absence = code.map_or(Absence::Silent, |_| Absence::Unable);
            return Error::Away { store, absence, reason };
        }
    };
    Error::Refused {
        store,
        refusal,
        reason,
        fix,
    }
}
