//! The counters that the copies' handlers add to, with `--effects`: read in the end, and removed from a store that
//! others use.

use std::collections::BTreeMap;

use super::PATIENCE;
use crate::app::args::sources::Store;
use crate::app::exit::Failure;
use crate::app::lab::ledger::effects;
use crate::app::lab::test_bed::TestBed;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::{Place, RedisEngine, Server};
use crate::engine::sharded::first_number;
use crate::settings::{Names, Settings};

/// How many counters one command reads, or how many keys it removes.
const KEYS_PER_CALL: usize = 500;

/// What the names of the counters begin with: not under the queue's own prefix, where effects are refused, but in its
/// slot.
pub(super) fn prefix(queue: &str) -> String {
    format!("{{qr:{queue}}}-effects:")
}

/// The counters of a shard that has given out so many numbers, by block of messages.
fn counters(queue: &str, names: &Names, published: u64) -> (Vec<u64>, Vec<String>) {
    let prefix = format!("{}-effects:", Keys::new(queue, names).tag());
    let first = first_number(names.shard as usize) / effects::BLOCK;
    let blocks: Vec<u64> = (first..=first + published / effects::BLOCK).collect();
    let keys = blocks.iter().map(|block| effects::key(&prefix, *block)).collect();
    (blocks, keys)
}

/// Each shard with its store, its names, and how many numbers it has given out.
fn shards<'a>(bed: &'a TestBed, published: &'a [u64]) -> impl Iterator<Item = (&'a Store, Names, u64)> {
    let of = |(shard, count): (usize, &u64)| {
        (
            bed.store_of(shard),
            Names::default().of_shard(shard, published.len()),
            *count,
        )
    };
    published.iter().enumerate().map(of)
}

/// The sums, by block of messages. Each shard has given out so many numbers.
pub(super) async fn read(bed: &TestBed, queue: &str, published: &[u64]) -> Result<BTreeMap<u64, i64>, Failure> {
    let mut sums = BTreeMap::new();
    for (store, names, published) in shards(bed, published) {
        let (blocks, keys) = counters(queue, &names, published);
        let values = values(store, queue, &names, &keys).await?;
        let found = blocks.into_iter().zip(values);
        sums.extend(found.filter_map(|(block, sum)| Some((block, sum?))));
    }
    Ok(sums)
}

async fn values(store: &Store, queue: &str, names: &Names, keys: &[String]) -> Result<Vec<Option<i64>>, Failure> {
    Ok(match store {
        Store::Redis(place) => {
            let engine = engine(place, queue, names)?;
            let mut values = Vec::new();
            for keys in keys.chunks(KEYS_PER_CALL) {
                let read = engine.ask(redis::cmd("MGET").arg(keys)).await?;
                let read: Vec<Option<i64>> = redis::from_redis_value(read).map_err(|error| unknown(&error))?;
                values.extend(read);
            }
            values
        }
        Store::Sqlite(database) => {
            let connection = rusqlite::Connection::open(&database.path).map_err(unreadable)?;
            let read = |key: &String| {
                let sql = "SELECT CAST(value AS INTEGER) FROM effect_values WHERE key = ?";
                match connection.query_row(sql, [key], |row| row.get(0)) {
                    Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
                    found => found.map(Some),
                }
            };
            keys.iter().map(read).collect::<Result<_, _>>().map_err(unreadable)?
        }
    })
}

/// And, in Redis, what the purge of the queue has left behind for members that come back: here none do.
pub(super) async fn remove(bed: &TestBed, queue: &str, published: &[u64]) -> Result<(), Failure> {
    for (store, names, published) in shards(bed, published) {
        let (_, mut keys) = counters(queue, &names, published);
        match store {
            Store::Redis(place) => {
                keys.push(Keys::new(queue, &names).purged);
                let engine = engine(place, queue, &names)?;
                for keys in keys.chunks(KEYS_PER_CALL) {
                    engine.ask(redis::cmd("UNLINK").arg(keys)).await?;
                }
            }
            Store::Sqlite(database) => {
                let mut connection = rusqlite::Connection::open(&database.path).map_err(unreadable)?;
                let transaction = connection.transaction().map_err(unreadable)?;
                for key in keys {
                    let sql = "DELETE FROM effect_values WHERE key = ?";
                    transaction.execute(sql, [key]).map_err(unreadable)?;
                }
                transaction.commit().map_err(unreadable)?;
            }
        }
    }
    Ok(())
}

fn engine(place: &Place, queue: &str, names: &Names) -> Result<RedisEngine, Failure> {
    let mut server = Server::new(place.clone(), "the store".into(), &Settings::default());
    server.answer_timeout = PATIENCE;
    Ok(RedisEngine::new(&server, Keys::new(queue, names))?)
}

fn unknown(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot read the effects in the store: {error}"))
}

fn unreadable(error: rusqlite::Error) -> Failure {
    Failure::cannot("read the effects in the file", error)
}
