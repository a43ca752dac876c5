//! What Redis Sentinel says: which server is the primary, and that another one is now.

use std::time::Duration;

use redis::{ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::link::silent;
use super::place::{HostPort, Place, Sentinels, Tls, addressed, is_tls, shown};
use super::refusal::{classify, lacks_hello};
use super::stream::{self, Connection};
use crate::error::{Absence, Error, Refusal, Result};

/// After the first answer, how long the others are waited for: one that is cut off may be the fastest, and knows an old primary.
const OTHERS: Duration = Duration::from_millis(200);
/// How long a sentinel may take, at least. Calls of a node are waited for less long, by its lease; but a sentinel may be far away from
/// it while the primary is near, and holds nobody up while another one answers.
pub(super) const ANSWER_MIN: Duration = Duration::from_secs(5);
/// A sentinel that listens to us is asked for a sign of life so often.
const SIGN: Duration = Duration::from_secs(2);
/// How long a sentinel that is gone is left alone.
const AGAIN: Duration = Duration::from_millis(500);
/// So many signs of a new primary wait at most: one is enough.
const PUSHES_MAX: usize = 16;
const SWITCHED: &str = "+switch-master";

/// What one of them answers: the primary, and how new that is.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) primary: HostPort,
    /// Higher after each failover; zero, if it is not told.
    pub(super) epoch: u64,
}

/// How each of them is reached.
fn reached(place: &Place, sentinels: &Sentinels) -> Vec<(String, ConnectionInfo)> {
    let mut redis = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    if let Some(user) = &sentinels.user {
        redis = redis.set_username(user);
    }
    if let Some(pass) = &sentinels.pass {
        redis = redis.set_password(pass);
    }
    let tls = sentinels.tls.unwrap_or_else(|| is_tls(place.info.addr()));
    let info = |seed: &HostPort| {
        let info = place.info.clone().set_addr(addressed(&seed.0, seed.1, tls));
        (shown(seed), info.set_redis_settings(redis.clone()))
    };
    place.seeds().iter().map(info).collect()
}

/// The primary, as the sentinel that knows the newest one has it.
pub(super) async fn primary(place: &Place, sentinels: &Sentinels, at_most: Duration) -> Result<Answer> {
    let mut asked = JoinSet::new();
    for (address, info) in reached(place, sentinels) {
        let (tls, name) = (place.tls.clone(), sentinels.name.clone());
        asked.spawn(async move {
            let answer = timeout(at_most, ask(&address, &info, &tls, &name)).await;
            answer.unwrap_or_else(|_| Err(refused(&address, &silent())))
        });
    }
    let (mut newest, mut until, mut worst): (Option<Answer>, Option<Instant>, Option<Error>) = (None, None, None);
    loop {
        let next = match until {
            Some(until) => timeout_at(until, asked.join_next()).await.ok().flatten(),
            None => asked.join_next().await,
        };
        match next {
            Some(Ok(Ok(answer))) => {
                until.get_or_insert_with(|| Instant::now() + OTHERS);
                if newest.as_ref().is_none_or(|newest| newest.epoch < answer.epoch) {
                    newest = Some(answer);
                }
            }
            // One that answers, and refuses, tells more than one that is not there.
            Some(Ok(Err(error))) => {
                if worst.as_ref().is_none_or(Error::may_pass) {
                    worst = Some(error);
                }
            }
            Some(Err(_)) => {}
            None => break,
        }
    }
    match (newest, worst) {
        (Some(newest), _) => Ok(newest),
        (None, Some(error)) => Err(error),
        (None, None) => Err(away(&shown(&place.seeds()[0]), "no sentinel answers".into())),
    }
}

async fn ask(address: &str, info: &ConnectionInfo, tls: &Tls, name: &str) -> Result<Answer> {
    let failed = |error| refused(address, &error);
    let mut connected = stream::connect(info, tls, None).await;
    // It cannot tell us of a new primary, but can be asked.
    if connected.as_ref().is_err_and(lacks_hello) {
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        connected = stream::connect(&info.clone().set_redis_settings(settings), tls, None).await;
    }
    let mut connection = connected.map_err(failed)?;
    let mut pipe = redis::pipe();
    // The first knows of a failover that is under way, the second how new that is.
    pipe.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    pipe.cmd("SENTINEL").arg("MASTER").arg(name);
    let told = connection.redis.send_packed_commands(&pipe, 0, pipe.len()).await;
    let mut told = told.map_err(failed)?.into_iter().map(Value::extract_error);
    let (at, about) = (told.next().unwrap_or(Ok(Value::Nil)), told.next());
    match at {
        Ok(Value::Nil) => {
            let known = send(&mut connection, redis::cmd("SENTINEL").arg("MASTERS")).await;
            Err(Error::Away {
                store: format!("the sentinel at {address}"),
                absence: Absence::Elsewhere,
                reason: format!("it watches no primary called {name:?}{}", names(known.ok())),
            })
        }
        Ok(at) => answer(&at, about.and_then(Result::ok).as_ref())
            .ok_or_else(|| away(address, format!("it does not know where {name:?} is"))),
        Err(error) if error.to_string().contains("unknown command") => Err(Error::Away {
            store: format!("Redis at {address}"),
            absence: Absence::Elsewhere,
            reason: "it is no sentinel: give the sentinels' port (mostly 26379), or write redis:// for a plain Redis"
                .into(),
        }),
        Err(error) => Err(failed(error)),
    }
}

/// What an error of a sentinel means.
fn refused(address: &str, error: &RedisError) -> Error {
    match classify(address, error) {
        Error::Refused {
            refusal, reason, fix, ..
        } => Error::Refused {
            store: format!("the sentinel at {address}"),
            fix: match refusal {
                Refusal::Credentials => {
                    "give the sentinels' own password in REDIS_SENTINEL_PASS, and their user with --sentinel-user"
                }
                _ => fix,
            },
            refusal,
            reason,
        },
        Error::Away { absence, reason, .. } => Error::Away {
            store: format!("the sentinel at {address}"),
            absence,
            reason,
        },
        other => other,
    }
}

fn away(address: &str, reason: String) -> Error {
    Error::Away {
        store: format!("the sentinel at {address}"),
        absence: Absence::Unable,
        reason,
    }
}

async fn send(connection: &mut Connection, cmd: &redis::Cmd) -> redis::RedisResult<Value> {
    connection.redis.send_packed_command(cmd).await?.extract_error()
}

/// The fields of one primary, a map or a flat list.
fn field(told: &Value, name: &str) -> Option<String> {
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).ok();
    match told {
        Value::Map(pairs) => pairs
            .iter()
            .find(|(key, _)| text(key).as_deref() == Some(name))
            .and_then(|(_, value)| text(value)),
        Value::Array(values) => values
            .chunks_exact(2)
            .find(|pair| text(&pair[0]).as_deref() == Some(name))
            .and_then(|pair| text(&pair[1])),
        _ => None,
    }
}

/// Where the primary is, and, as far as it is told, how new that is.
fn answer(at: &Value, about: Option<&Value>) -> Option<Answer> {
    let (host, port): (String, u16) = redis::from_redis_value_ref(at).ok()?;
    let epoch = about.and_then(|about| field(about, "config-epoch"));
    Some(Answer {
        primary: (Some(host).filter(|host| !host.is_empty())?, port),
        epoch: epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
    })
}

/// What people may have meant.
fn names(known: Option<Value>) -> String {
    let Some(Value::Array(known)) = known else {
        return String::new();
    };
    let mut names: Vec<String> = known.iter().filter_map(|told| field(told, "name")).take(10).collect();
    names.sort();
    format!("; it watches: {}", names.join(", "))
}

/// Asks anew whenever one of them says that there is another primary. Ends when nobody wants to know any more.
pub(super) async fn listen(
    place: Place,
    sentinels: Sentinels,
    at_most: Duration,
    found: impl Fn(Answer) -> Option<()>,
) {
    let (switched, mut news) = mpsc::channel(1);
    let mut all = JoinSet::new();
    for (_, info) in reached(&place, &sentinels) {
        let (tls, name, switched) = (place.tls.clone(), sentinels.name.clone(), switched.clone());
        all.spawn(async move {
            while !switched.is_closed() {
                let _ = subscribe(&info, &tls, &name, at_most, &switched).await;
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
    while news.recv().await.is_some() {
        if let Ok(primary) = primary(&place, &sentinels, at_most).await
            && found(primary).is_none()
        {
            return;
        }
    }
}

/// Listens to one of them for as long as it is there.
async fn subscribe(
    info: &ConnectionInfo,
    tls: &Tls,
    name: &str,
    at_most: Duration,
    switched: &mpsc::Sender<()>,
) -> Option<()> {
    let (sender, mut pushes) = mpsc::channel(PUSHES_MAX);
    let connecting = stream::connect(info, tls, Some(sender));
    let mut connection = timeout(at_most, connecting).await.ok()?.ok()?;
    let subscribe = redis::cmd("SUBSCRIBE").arg(SWITCHED).to_owned();
    timeout(at_most, send(&mut connection, &subscribe)).await.ok()?.ok()?;
    // It may have been said just before.
    let _ = switched.try_send(());
    loop {
        if let Ok(push) = timeout(SIGN, pushes.recv()).await {
            if is_about(&push?, name) {
                let _ = switched.try_send(());
            }
            continue;
        }
        let sign = timeout(at_most, send(&mut connection, &redis::cmd("PING"))).await;
        sign.ok()?.ok()?;
        if switched.is_closed() {
            return None;
        }
    }
}

/// The message is: name, old host, old port, new host, new port.
fn is_about(push: &PushInfo, name: &str) -> bool {
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
    push.kind == PushKind::Message
        && push
            .data
            .last()
            .is_some_and(|message| text(message).split(' ').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_either_form_and_nothing_else_is() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = [("name", "m"), ("config-epoch", "7")];
        let map = Value::Map(fields.map(|(name, value)| (text(name), text(value))).to_vec());
        let list = Value::Array(
            fields
                .iter()
                .flat_map(|(name, value)| [text(name), text(value)])
                .collect(),
        );
        let at = Value::Array(vec![text("10.0.0.1"), text("6380")]);
        for (about, epoch) in [(Some(map), 7), (Some(list), 7), (Some(Value::Nil), 0), (None, 0)] {
            let read = answer(&at, about.as_ref()).expect("an address");
            assert_eq!((read.primary, read.epoch), (("10.0.0.1".into(), 6380), epoch));
        }
        for wrong in [
            Value::Nil,
            Value::Array(vec![text("h")]),
            Value::Array(vec![text("h"), text("p")]),
            Value::Array(vec![text(""), text("1")]),
        ] {
            assert!(answer(&wrong, None).is_none(), "{wrong:?}");
        }
    }
}
