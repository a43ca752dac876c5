//! The failed messages: pages of them, one in full, all of them as a file; requeue and delete.
//!
//! Every call looks at a bounded number of errors and says where to go on, so that a search through millions holds up
//! neither the store nor the page, can be watched and can be stopped. Where to go on is a number, never a count.

mod select;
mod walk;

use bytes::Bytes;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use serde::{Deserialize, Serialize};

use super::access::Person;
use super::reply::{Answer, Refusal, ok, stream};
use super::request::Query;
use crate::app::args::json::{Object, Whole, counted};
use crate::app::output::failed::{FailedInFull, FailedRow, lines};
use crate::engine::{ERRORS_PER_CALL_MAX, Engine};
use select::{PARAMETERS, Select};
use walk::Walk;

const LIMIT: u64 = 50;
const LIMIT_MAX: u64 = 200;
/// Errors per call to the store, where there is something to search for.
const STEP: u32 = 500;

#[derive(Serialize)]
struct Page {
    errors: Vec<FailedRow>,
    /// How many errors were looked at for it.
    looked: u64,
    /// Where to go on; none at the end.
    next: Option<u64>,
}

/// One page, from the newest number down or from the oldest up.
pub(super) async fn list<E: Engine>(engine: &E, query: Option<&str>) -> Answer {
    let known = [&PARAMETERS[..], &["order", "cursor", "limit"]].concat();
    let query = Query::of(query, &known)?;
    let filter = Select::of(&query)?.filter();
    let newest = match query.text("order") {
        None | Some("newest") => true,
        Some("oldest") => false,
        Some(_) => return Err(Refusal::bad("order must be newest or oldest")),
    };
    let limit = query.number("limit")?.unwrap_or(LIMIT);
    if limit == 0 || limit > LIMIT_MAX {
        return Err(Refusal::bad(format!("limit must be 1 to {LIMIT_MAX}")));
    }
    let limit = usize::try_from(limit).expect("at most 200");
    let mut walk = Walk::new(&filter, newest, query.number("cursor")?);
    let mut errors: Vec<FailedRow> = Vec::new();
    let searches = filter.text.is_some() || filter.before_ms.is_some() || filter.since_ms.is_some();
    while errors.len() < limit && walk.goes_on() {
        let left = u32::try_from(limit - errors.len()).expect("at most 200");
        let batch = walk.step(engine, if searches { STEP } else { left }).await?;
        for failed in &batch {
            if filter.admits(failed) {
                errors.push(FailedRow::from(failed));
                if errors.len() == limit {
                    walk.stop_at(failed.number);
                    break;
                }
            }
        }
    }
    Ok(ok(&Page {
        errors,
        looked: walk.looked,
        next: walk.next,
    }))
}

pub(super) async fn show<E: Engine>(engine: &E, number: u64) -> Answer {
    let found = engine.failed(number, 1).await?.pop();
    let Some(failed) = found.filter(|failed| failed.number == number) else {
        return Err(Refusal::missing(format!("{number} is not among the errors")));
    };
    Ok(ok(&FailedInFull::from(&failed)))
}

/// What is to be changed: some by their numbers, or a step through all that match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    numbers: Option<Vec<Whole>>,
    select: Option<Object<Select>>,
    #[serde(default, deserialize_with = "counted")]
    cursor: Option<u64>,
}

#[derive(Serialize)]
struct Changed<'a> {
    /// Those that were among the errors.
    numbers: &'a [u64],
    looked: u64,
    /// Send this as the cursor to go on; none at the end.
    next: Option<u64>,
}

/// What is changed so far, written down in the end, however that comes.
struct Changes<N: Fn(&str)> {
    requeue: bool,
    numbers: Vec<u64>,
    looked: u64,
    next: Option<u64>,
    /// The store was asked for more, and has not said that it was done.
    open: bool,
    whole: bool,
    note: N,
}

impl<N: Fn(&str)> Drop for Changes<N> {
    fn drop(&mut self) {
        let what = if self.requeue { "requeued" } else { "deleted" };
        let count = self.numbers.len();
        if self.open {
            (self.note)(&format!("errors {what}: {count}, and no answer says whether more"));
        } else if self.whole || count > 0 {
            (self.note)(&format!("errors {what}: {count}"));
        }
    }
}

/// Requeues or deletes. Where the store fails in the midst of it, the answer says which were changed.
pub(super) async fn change<E: Engine>(engine: &E, change: Change, requeue: bool, note: impl Fn(&str)) -> Answer {
    let mut changes = Changes {
        requeue,
        numbers: Vec::new(),
        looked: 0,
        next: None,
        open: false,
        whole: false,
        note,
    };
    if let Err(refusal) = changes.make(engine, change).await {
        return Err(Refusal {
            numbers: changes.numbers.clone(),
            ..refusal
        });
    }
    changes.whole = true;
    Ok(ok(&Changed {
        numbers: &changes.numbers,
        looked: changes.looked,
        next: changes.next,
    }))
}

impl<N: Fn(&str)> Changes<N> {
    async fn make<E: Engine>(&mut self, engine: &E, change: Change) -> Result<(), Refusal> {
        match (change.numbers, change.select) {
            (Some(numbers), None) if change.cursor.is_none() => {
                if numbers.is_empty() || numbers.len() > ERRORS_PER_CALL_MAX {
                    return Err(Refusal::bad(format!("numbers must be 1 to {ERRORS_PER_CALL_MAX}")));
                }
                let numbers: Vec<u64> = numbers.into_iter().map(|Whole(number)| number).collect();
                self.looked = numbers.len() as u64;
                self.apply(engine, &numbers).await
            }
            (None, Some(Object(select))) => {
                let filter = select.filter();
                // Upwards: what is requeued and fails anew lies behind, and is not changed again.
                let mut walk = Walk::new(&filter, false, change.cursor);
                while walk.goes_on() {
                    let batch = walk.step(engine, STEP).await?;
                    let chosen = batch.iter().filter(|failed| filter.admits(failed));
                    let numbers: Vec<u64> = chosen.map(|failed| failed.number).collect();
                    self.apply(engine, &numbers).await?;
                }
                (self.looked, self.next) = (walk.looked, walk.next);
                Ok(())
            }
            _ => Err(Refusal::bad("give either numbers, or select with perhaps a cursor")),
        }
    }

    async fn apply<E: Engine>(&mut self, engine: &E, numbers: &[u64]) -> Result<(), Refusal> {
        let mut rest = numbers;
        while !rest.is_empty() {
            let step = &rest[..rest.len().min(ERRORS_PER_CALL_MAX)];
            self.open = true;
            let (changed, looked) = if self.requeue {
                let requeued = engine.requeue(step).await?;
                (requeued.numbers, requeued.looked)
            } else {
                (engine.discard(step).await?, step.len())
            };
            self.open = false;
            self.numbers.extend(changed);
            rest = &rest[looked.clamp(1, rest.len())..];
        }
        Ok(())
    }
}

/// All that match as one file of JSON lines, made while it is read.
pub(super) fn export<E: Engine>(engine: std::sync::Arc<E>, person: Person, query: Option<&str>) -> Answer {
    let filter = Select::of(&Query::of(query, &PARAMETERS)?)?.filter();
    let (pieces, mut reply) = stream("application/x-ndjson");
    let name = HeaderValue::from_static("attachment; filename=\"errors.jsonl\"");
    reply.headers_mut().insert(CONTENT_DISPOSITION, name);
    tokio::spawn(async move {
        let mut walk = Walk::new(&filter, false, None);
        while walk.next.is_some() && person.is_still_admitted() {
            let batch = match walk.step(&*engine, STEP).await {
                Ok(batch) => batch,
                Err(refusal) => {
                    let _ = pieces.send(Err(std::io::Error::other(refusal.line))).await;
                    return;
                }
            };
            let out = lines(batch.iter().filter(|failed| filter.admits(failed)), true);
            // An empty piece also tells whether anybody still reads.
            if pieces.send(Ok(Bytes::from(out))).await.is_err() {
                return;
            }
        }
    });
    Ok(reply)
}
