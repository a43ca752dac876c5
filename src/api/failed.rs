//! Reading the failed messages (the dead letters): [`collect`] shows them and then removes them, [`peek`] only shows them,
//! [`scan`] shows those that a filter admits.

mod select;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Collect, Collected, Engine, Failed};
use crate::error::{Error, Result};
use crate::mutants::guard;
use crate::node::id::new_id;
use tokio::time::Instant;

pub use select::{Filter, scan};

/// How long a reader may be silent before the messages that it holds go to another.
const LEASE: Duration = Duration::from_secs(2);
/// Messages per batch.
const BATCH: u32 = 500;
/// How often to ask whether another reader is done.
const POLL: Duration = Duration::from_millis(50);
/// Whoever waits for less than this need not say so.
const SAID: Duration = Duration::from_secs(1);
/// How long a reader waits for others that show nothing: longer than their leases, so that what a dead one held is shown.
const OTHERS: Duration = Duration::from_secs(6);
/// How long a store may be away before a reader fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where failed messages are shown: a terminal, a file, another queue.
pub trait Show: Send + 'static {
    /// Shows a batch, and may block. `Ok` says that it was shown: it is then removed from the store.
    fn show(&mut self, failed: &[Failed]) -> std::io::Result<()>;

    /// So many other readers hold messages, and are waited for; called once, and once more with 0 if they were waited for in vain.
    fn waits(&mut self, _others: u64) {}
}

impl<F: FnMut(&[Failed]) -> std::io::Result<()> + Send + 'static> Show for F {
    fn show(&mut self, failed: &[Failed]) -> std::io::Result<()> {
        self(failed)
    }
}

/// An output that a batch is written to asynchronously: see [`collect_async`].
pub trait ShowAsync: Sized + Send {
    /// Shows a batch, and returns what shows the next one. A batch that it returns an error for goes back.
    fn show(self, failed: Vec<Failed>) -> impl Future<Output = std::io::Result<Self>> + Send;

    /// As [`Show::waits`].
    fn waits(&mut self, _others: u64) {}
}

/// Shows on a thread that may block.
struct Blocking<S>(S);

impl<S: Show> ShowAsync for Blocking<S> {
    async fn show(mut self, failed: Vec<Failed>) -> std::io::Result<Self> {
        let showing = tokio::task::spawn_blocking(move || self.0.show(&failed).map(|()| self));
        showing.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }

    fn waits(&mut self, others: u64) {
        self.0.waits(others);
    }
}

/// Why reading ended early. No failed message is lost in either case.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The output failed; what was not confirmed went back.
    #[error("{0}")]
    Output(std::io::Error),
}

/// Shows every failed message that was there at the beginning, and removes it; with a limit, at most so many.
///
/// Several readers share the work. Without a limit, a reader waits for the others, for a few seconds, and shows what readers that
/// died had taken and not shown. Returns how many were shown.
pub async fn collect<E: Engine>(engine: Arc<E>, limit: Option<u64>, show: impl Show) -> Result<u64, ReadError> {
    collect_async(engine, limit, Blocking(show)).await
}

/// [`collect`] for an output that is written asynchronously.
pub async fn collect_async<E: Engine>(
    engine: Arc<E>,
    limit: Option<u64>,
    show: impl ShowAsync,
) -> Result<u64, ReadError> {
    let (mut shown, mut show, mut failed) = (0, Some(show), None);
    for shard in E::shards(&engine) {
        match collect_in(shard, limit, &mut shown, &mut show).await {
            // What the other shards have is shown all the same.
            Err(ReadError::Store(error)) => failed = failed.or(Some(error)),
            ended => ended?,
        }
    }
    failed.map_or(Ok(shown), |error| Err(error.into()))
}

/// The same in one shard; `all` counts what was shown.
async fn collect_in<E: Engine>(
    engine: Arc<E>,
    limit: Option<u64>,
    all: &mut u64,
    show: &mut Option<impl ShowAsync>,
) -> Result<(), ReadError> {
    let Some(below) = published(&*engine).await? else {
        return Ok(());
    };
    let mut reader = Reader {
        engine,
        id: new_id(),
        call: 0,
        shown: Vec::new(),
        below,
    };
    let (mut waiting, before) = (None, *all);
    loop {
        let left = limit.map_or(u64::from(BATCH), |limit| limit - *all);
        let want = u32::try_from(left.min(u64::from(BATCH))).unwrap_or(BATCH);
        if want == 0 && *all == before {
            return Ok(());
        }
        let Some((failed, _, victim)) = reader.next(want).await? else {
            // The store gave this reader up: what it had not confirmed is shown once more, by the reader that takes it.
            reader.begin_anew();
            continue;
        };
        if want == 0 {
            return Ok(());
        }
        if let Some(victim) = victim.as_ref().filter(|_| guard("victim")) {
            patiently(|| reader.engine.release(victim, true)).await?;
        }
        let Some(output) = show else { return Ok(()) };
        if failed.is_empty() {
            let others = reader.leave().await?;
            // With a limit, one that has shown something need not wait for what others hold.
            let waits = others > 0 && (limit.is_none() || *all == 0);
            if victim.is_none() && !waits {
                return Ok(());
            }
            if waits {
                let (since, told) = waiting.get_or_insert((Instant::now(), false));
                if since.elapsed() > SAID && !*told {
                    *told = true;
                    output.waits(others);
                }
                // One that died was given up long before; this one lives, and its output may stand still for ever.
                if since.elapsed() > OTHERS {
                    output.waits(0);
                    return Ok(());
                }
            }
            tokio::time::sleep(POLL).await;
            continue;
        }
        waiting = None;
        *all += failed.len() as u64;
        let Some(output) = show.take() else { return Ok(()) };
        match reader.show(failed, output).await {
            Ok(output) => *show = Some(output),
            Err(error) => {
                reader.engine.release(&reader.id, false).await?;
                return Err(ReadError::Output(error));
            }
        }
    }
}

/// Shows the failed messages and keeps them.
pub async fn peek<E: Engine>(engine: Arc<E>, limit: Option<u64>, mut show: impl Show) -> Result<u64, ReadError> {
    let (mut shown, mut absent) = (0, None);
    for shard in E::shards(&engine) {
        match peek_in(&*shard, limit, &mut shown, &mut show).await {
            // What the other shards have is shown all the same.
            Err(ReadError::Store(error)) => absent = absent.or(Some(error)),
            ended => ended?,
        }
    }
    absent.map_or(Ok(shown), |error| Err(error.into()))
}

/// The same in one shard; `all` counts what was shown.
async fn peek_in<E: Engine>(
    engine: &E,
    limit: Option<u64>,
    all: &mut u64,
    show: &mut impl Show,
) -> Result<(), ReadError> {
    let Some(below) = published(engine).await? else {
        return Ok(());
    };
    let mut from = 0;
    loop {
        let left = limit.map_or(u64::from(BATCH), |limit| (limit - *all).min(u64::from(BATCH)));
        let mut failed = engine.failed(from, u32::try_from(left).unwrap_or(BATCH)).await?;
        failed.retain(|failed| failed.number < below);
        let Some(last) = failed.last() else { return Ok(()) };
        from = last.number + 1;
        *all += failed.len() as u64;
        show.show(&failed).map_err(ReadError::Output)?;
    }
}

/// How many numbers were given out. `None`: there is no queue.
async fn published<E: Engine>(engine: &E) -> Result<Option<u64>> {
    match engine.published().await {
        Err(Error::NoQueue { .. }) => Ok(None),
        published => published.map(Some),
    }
}

/// Makes the same call until it is answered, or until the store has been away for long.
async fn patiently<T, Answer: Future<Output = Result<T>>>(call: impl Fn() -> Answer) -> Result<T> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Err(error) if error.is_away() && Instant::now() < give_up => tokio::time::sleep(POLL).await,
            answer => return answer,
        }
    }
}

struct Reader<E> {
    engine: Arc<E>,
    id: String,
    call: u64,
    /// The numbers of the batch in hand.
    shown: Vec<u64>,
    below: u64,
}

type Batch = (Vec<Failed>, u64, Option<String>);

impl<E: Engine> Reader<E> {
    /// Confirms what was shown and takes the next batch. None: the store gave this reader up.
    async fn next(&mut self, want: u32) -> Result<Option<Batch>> {
        self.call += 1;
        let collect = Collect {
            reader: self.id.clone(),
            call: self.call,
            shown: self.shown.clone(),
            below: self.below,
            want,
            lease_ms: u64::try_from(LEASE.as_millis()).expect("a constant"),
        };
        Ok(match patiently(|| self.engine.collect(&collect)).await? {
            Collected::Batch { failed, others, victim } => {
                self.shown = failed.iter().map(|failed| failed.number).collect();
                Some((failed, others, victim))
            }
            Collected::Deposed => None,
        })
    }

    fn begin_anew(&mut self) {
        (self.id, self.call, self.shown) = (new_id(), 0, Vec::new());
    }

    /// Leaves holding nothing, and returns how many other readers there are. A reader that holds nothing must not be waited
    /// for: two of them would wait for each other.
    async fn leave(&mut self) -> Result<u64> {
        let left = self.next(0).await?;
        self.begin_anew();
        Ok(left.map_or(1, |(_, others, _)| others))
    }

    /// Shows a batch, and holds the lease meanwhile.
    async fn show<S: ShowAsync>(&self, failed: Vec<Failed>, show: S) -> std::io::Result<S> {
        let mut showing = std::pin::pin!(show.show(failed));
        let lease_ms = u64::try_from(LEASE.as_millis()).expect("a constant");
        loop {
            tokio::select! {
                biased;
                shown = &mut showing => return shown,
                () = tokio::time::sleep(LEASE / 4), if guard("hold") => {
                    // If this fails, the next call tells.
                    let _ = self.engine.hold(&self.id, lease_ms).await;
                }
            }
        }
    }
}
