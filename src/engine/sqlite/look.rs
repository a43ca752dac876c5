//! Looking at a queue in a file: it is opened for reading only, anew for each look, and nothing is created.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::file::refuse;
use super::tables::Tables;
use super::{Database, Queue, blocking, store_info};
use crate::engine::rules::{Link, Steps};
use crate::engine::{StoreInfo, Wake};
use crate::error::{Error, Result};
use crate::settings::Names;

/// A queue in a file, for those who only look. Whatever would write is refused.
pub struct SqliteLook {
    queue: Arc<Queue>,
}

impl SqliteLook {
    /// Nothing is opened yet.
    #[must_use]
    pub fn new(database: Database, queue: &str, names: &Names) -> Self {
        let queue = Arc::new(Queue::new(database, queue, names, None));
        Self { queue }
    }
}

impl Database {
    /// The names of the queues in the file, so many at most. Creates nothing.
    pub fn queues(&self, limit: u32) -> Result<Vec<String>> {
        let Some(connection) = self.open_to_look()? else {
            return Ok(Vec::new());
        };
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut names = connection.prepare("SELECT queue FROM meta ORDER BY queue LIMIT ?")?;
            names.query_map([limit], |row| row.get(0))?.collect()
        };
        read().map_err(|error| refuse(self, &error))
    }
}

impl Queue {
    fn look<T>(&self, verb: impl FnOnce(&mut Tables, u64) -> Result<T>) -> Result<T> {
        let opened = self.database.open_to_look()?;
        let mut connection: Connection = opened.ok_or_else(|| Error::NoQueue {
            queue: self.name.clone(),
        })?;
        self.within(&mut connection, TransactionBehavior::Deferred, verb)
    }
}

impl Steps for SqliteLook {
    type Store<'a> = Tables<'a>;

    async fn step<A, T, F>(&self, _: Link, args: &A, verb: F) -> Result<T>
    where
        A: ToOwned<Owned: Send> + Sync + ?Sized + 'static,
        T: Send + 'static,
        F: FnOnce(&mut Tables<'_>, u64, &A) -> Result<T> + Send + 'static,
    {
        let (queue, args) = (self.queue.clone(), args.to_owned());
        blocking(move || queue.look(|tables, now| verb(tables, now, args.borrow()))).await
    }

    /// Bells wake those who work.
    async fn listen(&self, _: Wake, at_most: Duration) -> Result<bool> {
        tokio::time::sleep(at_most).await;
        Ok(false)
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(store_info())
    }
}
