//! The counters that the copies' handlers add to, with `--effects`: read in the end, and removed from a store that
//! others use.

use std::collections::BTreeMap;

use redis::ConnectionInfo;

use super::PATIENCE;
use crate::app::args::sources::Store;
use crate::app::exit::Failure;
use crate::app::lab::ledger::effects;
use crate::engine::redis::keys::Keys;
use crate::settings::Names;

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
        Store::Redis(info) => {
            let mut connection = connect(info).await?;
            let mut values = Vec::new();
            for names in names.chunks(KEYS_PER_CALL) {
                let read = redis::cmd("MGET").arg(names).query_async(&mut connection).await;
                let read: Vec<Option<i64>> = read.map_err(away)?;
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
        Store::Redis(info) => {
            names.push(Keys::new(queue, &Names::default()).purged);
            let mut connection = connect(info).await?;
            for names in names.chunks(KEYS_PER_CALL) {
                let removed: Result<u64, _> = redis::cmd("UNLINK").arg(names).query_async(&mut connection).await;
                removed.map_err(away)?;
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

async fn connect(info: &ConnectionInfo) -> Result<redis::aio::MultiplexedConnection, Failure> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let client = redis::Client::open(info.clone()).map_err(away)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.map_err(away)
}

#[allow(clippy::needless_pass_by_value)] // It is what map_err hands over.
fn away(error: redis::RedisError) -> Failure {
    Failure::no_redis(format!("cannot read the effects in the store: {error}"))
}

fn unreadable(error: rusqlite::Error) -> Failure {
    Failure::cannot("read the effects in the file", error)
}
