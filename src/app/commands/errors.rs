//! `errors`: looking after the failed messages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::{check_queue, status_if_any};
use crate::api::failed::{Filter, scan};
use crate::app::args::{Change, Errors, Select};
use crate::app::exit::Failure;
use crate::app::output::failed::{describe, lines};
use crate::app::output::json;
use crate::app::output::status::{away, shards_away};
use crate::app::run::print;
use crate::engine::{ERRORS_PER_CALL_MAX, Engine};
use crate::error::Error;
use crate::settings::ms;

pub(super) async fn run<E: Engine>(engine: Arc<E>, asked: &Errors) -> Result<(), Failure> {
    check(asked)?;
    check_queue(&engine).await?;
    match asked {
        Errors::List(list) => print_all(&engine, &list.select, list.json).await,
        Errors::Export(select) => print_all(&engine, select, true).await,
        Errors::Count(select) => {
            if *select == Select::default() {
                let status = status_if_any(&*engine).await?;
                print(&format!("{}\n", status.as_ref().map_or(0, |status| status.errors)))?;
                let missing = away(&status.as_ref().map(shards_away).unwrap_or_default());
                return missing.map_or(Ok(()), |shards| {
                    Err(Failure::no_redis(format!("{shards}: what failed there is not counted")))
                });
            }
            let mut count = 0;
            scan(&*engine, &filter(&*engine, select).await?, select.limit, |failed| {
                count += failed.len() as u64;
            })
            .await?;
            print(&format!("{count}\n"))
        }
        Errors::Show(show) => {
            let found = engine.failed(show.number, 1).await?.pop();
            let Some(failed) = found.filter(|failed| failed.number == show.number) else {
                return Err(missing(&[show.number]));
            };
            print(&if show.json {
                lines([&failed], true)
            } else {
                describe(&failed)
            })
        }
        Errors::Requeue(change) => alter(&*engine, change, true).await,
        Errors::Delete(change) => alter(&*engine, change, false).await,
    }
}

/// What cannot be meant, whatever the store says.
fn check(asked: &Errors) -> Result<(), Failure> {
    let select = match asked {
        Errors::Requeue(change) | Errors::Delete(change) => {
            let chosen = change.all || change.select != Select::default();
            if change.numbers.is_empty() != chosen {
                let line = "name the numbers, or choose with --all, --from, --to, --text, --older, --newer or --limit";
                return Err(Failure::usage(line));
            }
            &change.select
        }
        Errors::List(list) => &list.select,
        Errors::Export(select) | Errors::Count(select) => select,
        Errors::Show(_) => return Ok(()),
    };
    match (select.from, select.to) {
        (Some(from), Some(to)) if from > to => Err(Failure::usage(format!(
            "--from {from} is above --to {to}: nothing lies between"
        ))),
        _ => Ok(()),
    }
}

/// Ages go by the time of the store, which wrote when a message failed: this machine's clock may be wrong.
async fn filter<E: Engine>(engine: &E, select: &Select) -> Result<Filter, Failure> {
    let now_ms = if select.older.is_some() || select.newer.is_some() {
        status_if_any(engine).await?.map_or(0, |status| status.time_ms)
    } else {
        0
    };
    let ago = |time: Duration| now_ms.saturating_sub(ms(time));
    Ok(Filter {
        from: select.from.unwrap_or(0),
        to: select.to.unwrap_or(u64::MAX),
        text: select.text.clone(),
        before_ms: select.older.map(ago),
        since_ms: select.newer.map(ago),
    })
}

/// A shard that is away does not keep those of the others from being printed.
async fn print_all<E: Engine>(engine: &Arc<E>, select: &Select, json: bool) -> Result<(), Failure> {
    let filter = filter(&**engine, select).await?;
    let (mut left, mut absent) = (select.limit.unwrap_or(u64::MAX), None);
    for shard in E::shards(engine) {
        let (mut printed, mut written) = (0, Ok(()));
        let scanned = scan(&*shard, &filter, Some(left), |batch| {
            printed += batch.len() as u64;
            if written.is_ok() {
                written = print(&lines(batch, json));
            }
        });
        match scanned.await {
            Err(error) if error.is_away() => absent = absent.or(Some(error)),
            // Nobody has put anything there yet.
            Err(Error::NoQueue { .. }) => {}
            scanned => scanned?,
        }
        written?;
        left -= printed;
    }
    absent.map_or(Ok(()), |error| Err(error.into()))
}

async fn alter<E: Engine>(engine: &E, change: &Change, requeue: bool) -> Result<(), Failure> {
    let named = !change.numbers.is_empty();
    let mut numbers = change.numbers.clone();
    numbers.sort_unstable();
    numbers.dedup();
    if !named {
        // First all are chosen, then they are changed: what fails anew meanwhile is not.
        scan(
            engine,
            &filter(engine, &change.select).await?,
            change.select.limit,
            |batch| {
                numbers.extend(batch.iter().map(|failed| failed.number));
            },
        )
        .await?;
    }
    let mut changed = Vec::new();
    let ended = if change.dry_run && !named {
        changed.clone_from(&numbers);
        Ok(())
    } else {
        apply(engine, change, requeue, &numbers, &mut changed).await
    };
    // Also what was done before something went wrong.
    tell(change, requeue, &changed)?;
    ended?;
    let changed: BTreeSet<u64> = changed.into_iter().collect();
    numbers.retain(|number| !changed.contains(number));
    if named && !numbers.is_empty() {
        return Err(missing(&numbers));
    }
    Ok(())
}

async fn apply<E: Engine>(
    engine: &E,
    change: &Change,
    requeue: bool,
    mut rest: &[u64],
    changed: &mut Vec<u64>,
) -> Result<(), Error> {
    while !rest.is_empty() {
        let step = &rest[..rest.len().min(ERRORS_PER_CALL_MAX)];
        let mut looked = step.len();
        if change.dry_run {
            for number in step {
                let found = engine.failed(*number, 1).await?;
                changed.extend(found.iter().map(|failed| failed.number).filter(|found| found == number));
            }
        } else if requeue {
            let requeued = engine.requeue(step).await?;
            looked = requeued.looked;
            changed.extend(requeued.numbers);
        } else {
            changed.extend(engine.discard(step).await?);
        }
        rest = &rest[looked.max(1)..];
    }
    Ok(())
}

fn tell(change: &Change, requeue: bool, changed: &[u64]) -> Result<(), Failure> {
    let mut out = String::new();
    let done = if requeue { "requeued" } else { "deleted" };
    if change.json {
        out.push('{');
        json::number(&mut out, done, changed.len() as u64);
        let numbers: Vec<String> = changed.iter().map(u64::to_string).collect();
        let _ = write!(
            out,
            ",\"dry_run\":{},\"numbers\":[{}]}}",
            change.dry_run,
            numbers.join(",")
        );
    } else if change.dry_run {
        for number in changed {
            let _ = writeln!(out, "{number}");
        }
        let _ = write!(out, "would have {done} {}", changed.len());
    } else {
        let _ = write!(out, "{done} {}", changed.len());
    }
    out.push('\n');
    print(&out)
}

fn missing(numbers: &[u64]) -> Failure {
    const NAMED_MAX: usize = 10;
    let mut named: Vec<String> = numbers.iter().take(NAMED_MAX).map(u64::to_string).collect();
    if numbers.len() > NAMED_MAX {
        named.push(format!("… ({} in all)", numbers.len()));
    }
    Failure::failed(format!("not among the errors: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::push::push;
    use crate::engine::Item;
    use crate::engine::memory::Local;
    use crate::settings::Settings;

    #[tokio::test]
    async fn ages_go_by_the_time_of_the_store() {
        const HOUR: Duration = Duration::from_hours(1);
        // Decades behind this machine.
        let engine = Local::with_clock("jobs", || 3 * ms(HOUR));
        let settings = Settings::default();
        push(&engine, &settings, HOUR, &[Item::new("work")])
            .await
            .expect("a queue");
        let select = Select {
            older: Some(HOUR),
            newer: Some(2 * HOUR),
            ..Select::default()
        };
        let filter = filter(&engine, &select).await.expect("a filter");
        assert_eq!(
            (filter.before_ms, filter.since_ms),
            (Some(2 * ms(HOUR)), Some(ms(HOUR)))
        );
    }
}
