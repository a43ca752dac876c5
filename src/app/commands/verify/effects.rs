//! The counters that the copies' handlers add to, with `--effects`: read in the end, and removed from a store that
//! others use.

use std::collections::BTreeMap;

use super::PATIENCE;
use crate::app::args::sources::Store;
use crate::app::exit::Failure;
use crate::app::lab::ledger::effects;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::{Place, RedisEngine, Server};
use crate::settings::{Names, Settings};

/// How many counters one command reads, or how many keys it removes.
const KEYS_PER_CALL: usize = 500;

/// What the names of the counters begin with: not under the queue's own prefix, where effects are refused, but in its
/// slot.
pub(super) fn prefix(queue: &str) -> String {
    format!("{{qr:{queue}}}-effects:")
}

fn counters(queue: &str, published: u64) -> Vec<String> {
    let prefix = prefix(queue);
    let blocks = 0..=published / effects::BLOCK;
    blocks.map(|block| effects::key(&prefix, block)).collect()
}

/// The sums, by block of messages.
pub(super) async fn read(store: &Store, queue: &str, published: u64) -> Result<BTreeMap<u64, i64>, Failure> {
    let names = counters(queue, published);
    let values: Vec<Option<i64>> = match store {
        Store::Redis(place) => {
            let engine = engine(place, queue)?;
            let mut values = Vec::new();
            for names in names.chunks(KEYS_PER_CALL) {
                let read = engine.ask(redis::cmd("MGET").arg(names)).await?;
                let read: Vec<Option<i64>> = redis::from_redis_value(read).map_err(|error| unknown(&error))?;
                values.extend(read);
            }
            values
        }
        Store::Sqlite(database) => {
            let connection = rusqlite::Connection::open(&database.path).map_err(unreadable)?;
            let read = |name: &String| {
                let sql = "SELECT CAST(value AS INTEGER) FROM effect_values WHERE key = ?";
                match connection.query_row(sql, [name], |row| row.get(0)) {
                    Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
                    found => found.map(Some),
                }
            };
            names.iter().map(read).collect::<Result<_, _>>().map_err(unreadable)?
        }
    };
    let sums = (0u64..).zip(values);
    Ok(sums.filter_map(|(block, sum)| Some((block, sum?))).collect())
}

/// And, in Redis, what the purge of the queue has left behind for members that come back: here none do.
pub(super) async fn remove(store: &Store, queue: &str, published: u64) -> Result<(), Failure> {
    let mut names = counters(queue, published);
    match store {
        Store::Redis(place) => {
            names.push(Keys::new(queue, &Names::default()).purged);
            let engine = engine(place, queue)?;
            for names in names.chunks(KEYS_PER_CALL) {
                engine.ask(redis::cmd("UNLINK").arg(names)).await?;
            }
        }
        Store::Sqlite(database) => {
            let mut connection = rusqlite::Connection::open(&database.path).map_err(unreadable)?;
            let transaction = connection.transaction().map_err(unreadable)?;
            for name in names {
                let sql = "DELETE FROM effect_values WHERE key = ?";
                transaction.execute(sql, [name]).map_err(unreadable)?;
            }
            transaction.commit().map_err(unreadable)?;
        }
    }
    Ok(())
}

fn engine(place: &Place, queue: &str) -> Result<RedisEngine, Failure> {
    let settings = Settings::default();
    let mut server = Server::new(place.clone(), "the store".into(), &settings);
    server.answer_timeout = PATIENCE;
    Ok(RedisEngine::new(&server, Keys::new(queue, &settings.names))?)
}

fn unknown(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot read the effects in the store: {error}"))
}

fn unreadable(error: rusqlite::Error) -> Failure {
    Failure::cannot("read the effects in the file", error)
}
