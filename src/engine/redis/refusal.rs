//! What the server's errors mean: which pass, and which need someone to act.

use redis::RedisError;

use super::bounds::Beyond;
use super::place::HostPort;
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

/// A server that says one of these is left, and asked anew where the queue is.
const LEAVE: [&str; 5] = ["READONLY", "MOVED", "UNBLOCKED", "CLUSTERDOWN", "MASTERDOWN"];

/// Whether the connection that brought this is of no more use. Other errors are answers, and the connection that brought them is sound.
pub(super) fn ends_the_connection(error: &RedisError) -> bool {
    let is_to_be_left = |code: &str| LEAVE.contains(&code) || (code == "ERR" && is_for_subscribers(error));
    error.is_io_error() || error.code().is_none_or(is_to_be_left)
}

/// Something has subscribed on a connection without RESP3: the server takes no other command there until that ends.
fn is_for_subscribers(error: &RedisError) -> bool {
    let said = |detail: &str| detail.contains("SUBSCRIBE") && detail.contains("allowed in this context");
    error.detail().is_some_and(said)
}

pub(super) const REPLICA: &str = "it is a replica, which takes no writes; give the address of the primary";

/// Where a server of a cluster says that the queue is. An empty host is the one that was asked.
pub(super) fn moved_to(error: &RedisError) -> Option<HostPort> {
    if error.code() != Some("MOVED") {
        return None;
    }
    let (host, port) = error.detail()?.split(' ').nth(1)?.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_string(), port.parse().ok()?))
}

/// The slot is on its way to another server. Scripts touch many keys at once, of which some are here and some are there: to
/// follow ASK would help as little as to stay, and it lasts for moments.
pub(super) fn is_undecided(error: &RedisError) -> bool {
    matches!(error.code(), Some("ASK" | "TRYAGAIN"))
}

/// Whether a script must be sent whole: the server does not know it, or has no `EVALSHA`, or this user has none.
pub(super) fn wants_the_text(error: &RedisError) -> bool {
    let about = |detail: &str| detail.to_ascii_lowercase().contains("evalsha");
    error.code() == Some("NOSCRIPT") || is_missing(error) && error.detail().is_some_and(about)
}

/// A command that this server does not have, or this user may not use.
fn is_missing(error: &RedisError) -> bool {
    let unknown = |detail: &str| detail.to_ascii_lowercase().contains("unknown command");
    error.code() == Some("NOPERM") || error.code() == Some("ERR") && error.detail().is_some_and(unknown)
}

/// Whether it speaks RESP2 alone.
pub(super) fn lacks_hello(error: &RedisError) -> bool {
    let is_about = |detail: &str| detail.contains("HELLO");
    error.kind() == redis::ErrorKind::RESP3NotSupported || is_missing(error) && error.detail().is_some_and(is_about)
}

/// Behind this, an error repeats what an unknown command was given: HELLO and AUTH are given the password.
const GIVEN: &str = ", with args beginning with";

/// What the server says, without what we said to it.
fn reason_of(error: &RedisError) -> String {
    let mut reason = match error.detail() {
        Some(detail) if error.code().is_some() => format!("{} {detail}", error.code().unwrap_or_default()),
        _ => error.to_string(),
    };
    if let Some(at) = reason.find(GIVEN) {
        reason.truncate(at);
    }
    reason
}

/// How an error about a right begins that a command of a script needs.
const IN_SCRIPT: [&str; 2] = ["user executing the script", "ACL failure in script"];
const LACKS: &str = "this server does not have that command: docs/operations.md says on which servers queenright runs";
/// How an error about a file of TLS begins.
pub(super) const UNUSABLE: &str = "cannot use ";
/// What is said of a certificate of the first version of X.509.
pub(super) const FIRST_VERSION: &str = "UnsupportedCertVersion";
const PASSWORD: &str = "give a password in REDIS_PASS or REDIS_URL";
const CREDENTIALS: &str = "check the user and password (REDIS_USER, REDIS_PASS or REDIS_URL)";

/// The server takes no more connections. It answers so whatever is asked first, a password for one.
pub(super) fn is_crowded(reason: &str) -> bool {
    reason.contains("max number of clients")
}

/// Which errors pass and which need someone to act. No text has our password in it.
pub(super) fn classify(address: &str, error: &RedisError) -> Error {
    let reason = reason_of(error);
    let store = format!("Redis at {address}");
    if let Some((refusal, fix)) = refusal(error, &reason) {
        return Error::Refused {
            store,
            refusal,
            reason,
            fix,
        };
    }
    if error.code() == Some("ERR") && is_script_error(&reason) {
        return Error::Protocol { detail: reason };
    }
    let (absence, reason) = absence(address, error, reason);
    Error::Away { store, absence, reason }
}

/// What needs someone to act, and how.
fn refusal(error: &RedisError, reason: &str) -> Option<(Refusal, &'static str)> {
    if is_crowded(reason) {
        return None;
    }
    let no_right = if reason.contains("access") && reason.contains("key") {
        Refusal::Key
    } else {
        Refusal::Command
    };
    Some(match error.code() {
        Some("NOAUTH") => (Refusal::Credentials, PASSWORD),
        // What the server says to a command of many arguments before one has given the password.
        Some("ERR") if reason.contains("unauthenticated") => (Refusal::Credentials, PASSWORD),
        Some("WRONGPASS") => (Refusal::Credentials, CREDENTIALS),
        Some("NOPERM") if reason.contains("'wait'") => (Refusal::Command, "--replicas needs one more right: +wait"),
        Some("NOPERM") => (no_right, rights::HINT.as_str()),
        Some("EXECABORT") if reason.contains("permissions") || reason.contains("NOPERM") => {
            (no_right, rights::HINT.as_str())
        }
        // As Redis says it up to 7.0, and as newer ones and Valkey do.
        Some("ERR") if IN_SCRIPT.iter().any(|words| reason.contains(words)) => (no_right, rights::HINT.as_str()),
        Some("WRONGTYPE") => (
            Refusal::Other,
            "a key of the queue was overwritten by something else; choose another queue name",
        ),
        Some("ERR") if reason.contains("SELECT is not allowed") => (
            Refusal::Other,
            "a cluster has database 0 only: leave out the number of the database",
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
        _ if lacks_hello(error) => (Refusal::Command, "it speaks RESP2 only: leave out protocol=resp3"),
        _ if is_missing(error) => (Refusal::Command, LACKS),
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => (Refusal::Credentials, CREDENTIALS),
        _ if reason.contains(UNUSABLE) => (Refusal::Other, "check --ca, --cert and --cert-key"),
        _ if reason.contains(FIRST_VERSION) => (
            Refusal::Other,
            "its certificate is of the first version: make one that names the host (subjectAltName)",
        ),
        _ if reason.contains("invalid peer certificate") => (
            Refusal::Other,
            "check the host name (or --sni), and trust the authority that signed its certificate with --ca FILE",
        ),
        // Of the alerts of TLS: what a server says that wants to see a certificate, and sees none, or another one.
        _ if [
            "CertificateRequired",
            "BadCertificate",
            "UnknownCA",
            "CertificateUnknown",
            "AccessDenied",
        ]
        .iter()
        .any(|alert| reason.contains(alert)) =>
        {
            (
                Refusal::Other,
                "it asks for a certificate that it trusts: give one with --cert and --cert-key",
            )
        }
        _ if error.kind() == redis::ErrorKind::InvalidClientConfig => (Refusal::Other, "check the address"),
        _ => return None,
    })
}

/// How a server is away, and what is said of it.
fn absence(address: &str, error: &RedisError, reason: String) -> (Absence, String) {
    match error.code() {
        _ if is_crowded(&reason) => (
            Absence::Unable,
            format!("it has as many connections as it takes ({reason}): raise its maxclients, or run fewer copies"),
        ),
        Some("READONLY") => (Absence::Unable, REPLICA.into()),
        None if is_no_redis(error, &reason) => (
            Absence::Elsewhere,
            format!(
                "what answers is no Redis, or TLS is needed or not spoken there ({reason}); check host and port, and use \
                 redis:// without TLS, rediss:// with it"
            ),
        ),
        None if Beyond::of(error).is_some() => (
            Absence::Elsewhere,
            format!("{reason}, which no Redis does here; is that one? Check host and port"),
        ),
        None if address.contains("rediss") && error.is_timeout() => (
            Absence::Silent,
            format!("{reason}; if no TLS is spoken there, use redis://"),
        ),
        code => (code.map_or(Absence::Silent, |_| Absence::Unable), reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Error {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an answer");
        classify("here", &value.extract_error().expect_err("an error"))
    }

    #[test]
    fn what_a_server_repeats_of_an_unknown_command_is_not_told() {
        for line in [
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'hunter2' ",
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `hunter2`, ",
            "ERR unknown command 'AUTH', with args beginning with: 'hunter2' ",
        ] {
            let told = format!("{:?}", said(line));
            assert!(told.contains("unknown command") && !told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_connection_is_left_that_takes_only_subscriptions_or_leads_to_no_primary() {
        let ends = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an answer");
            ends_the_connection(&value.extract_error().expect_err("an error"))
        };
        let allowed = "(P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
        assert!(ends(&format!("ERR Can't execute 'evalsha': only {allowed}")));
        assert!(ends("READONLY You can't write against a read only replica."));
        assert!(!ends("ERR unknown command 'EVALSHA'"));
        assert!(!ends("NOPERM No permissions to access a channel"));
    }

    #[test]
    fn a_right_that_a_script_lacks_is_called_that_however_a_server_words_it() {
        let command = [
            "ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:1.",
            "ERR ACL failure in script: User bee has no permissions to run the 'hset' command",
            "ERR ACL failure in script: User bee has no permissions to run the 'hset' command script: 1, on @user_script:1.",
            "NOPERM User bee has no permissions to run the 'hset' command",
        ];
        for line in command {
            let is_refused = matches!(
                said(line),
                Error::Refused {
                    refusal: Refusal::Command,
                    ..
                }
            );
            assert!(is_refused, "{line}: {:?}", said(line));
        }
        let key = "ERR ACL failure in script: No permissions to access a key script: 1, on @user_script:1.";
        let is_refused = matches!(
            said(key),
            Error::Refused {
                refusal: Refusal::Key,
                ..
            }
        );
        assert!(is_refused, "{:?}", said(key));
    }
}
