//! `errors`: looking after the failed messages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::get_errors::{json_line, text_line, utc};
use super::{FAILED, Failure, WRONG_USAGE};
use crate::api::failed::{Filter, scan};
use crate::app::args::{Change, Errors, Select};
use crate::app::output::json;
use crate::engine::{ERRORS_PER_CALL_MAX, Engine, Failed};
use crate::error::Error;
use crate::node::event::escape;

pub(super) async fn run<E: Engine>(engine: Arc<E>, asked: &Errors) -> Result<(), Failure> {
    engine.check().await?;
    if let Errors::Requeue(change) | Errors::Delete(change) = asked
        && !change.dry_run
    {
        // A queue of a newer layout, or with other names, is refused before anything is changed.
        match engine.status().await {
            Err(Error::NoQueue { .. }) => {}
            status => _ = status?,
        }
    }
    match asked {
        Errors::List(list) => print_all(&*engine, &list.select, list.json).await,
        Errors::Export(select) => print_all(&*engine, select, true).await,
        Errors::Count(select) => {
            if *select == Select::default() {
                let count = match engine.status().await {
                    Err(Error::NoQueue { .. }) => 0,
                    status => status?.errors,
                };
                return print(&format!("{count}\n"));
            }
            let mut count = 0;
            scan(&*engine, &filter(select)?, select.limit, |failed| {
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
            let mut out = String::new();
            if show.json {
                json_line(&mut out, &failed);
            } else {
                describe(&mut out, &failed);
            }
            print(&out)
        }
        Errors::Requeue(change) => alter(&*engine, change, true).await,
        Errors::Delete(change) => alter(&*engine, change, false).await,
    }
}

fn filter(select: &Select) -> Result<Filter, Failure> {
    if let (Some(from), Some(to)) = (select.from, select.to)
        && from > to
    {
        return Err(Failure {
            line: format!("--from {from} is above --to {to}: nothing lies between"),
            code: WRONG_USAGE,
        });
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = |time: std::time::Duration| u64::try_from(now.saturating_sub(time).as_millis()).unwrap_or(u64::MAX);
    Ok(Filter {
        from: select.from.unwrap_or(0),
        to: select.to.unwrap_or(u64::MAX),
        text: select.text.clone(),
        before_ms: select.older.map(ago),
        since_ms: select.newer.map(ago),
    })
}

async fn print_all<E: Engine>(engine: &E, select: &Select, json: bool) -> Result<(), Failure> {
    let mut written = Ok(());
    scan(engine, &filter(select)?, select.limit, |batch| {
        let mut out = String::new();
        for failed in batch {
            if json {
                json_line(&mut out, failed);
            } else {
                text_line(&mut out, failed);
            }
        }
        if written.is_ok() {
            written = print(&out);
        }
    })
    .await?;
    written
}

async fn alter<E: Engine>(engine: &E, change: &Change, requeue: bool) -> Result<(), Failure> {
    let named = !change.numbers.is_empty();
    let chosen = change.all || change.select != Select::default();
    if named == chosen {
        let line = "name the numbers, or choose with --all, --from, --to, --text, --older, --newer or --limit";
        return Err(Failure {
            line: line.into(),
            code: WRONG_USAGE,
        });
    }
    let mut numbers = Vec::new();
    if named {
        numbers.clone_from(&change.numbers);
        numbers.sort_unstable();
        numbers.dedup();
    } else {
        // First all are chosen, then they are changed: what fails anew meanwhile is not.
        scan(engine, &filter(&change.select)?, change.select.limit, |batch| {
            numbers.extend(batch.iter().map(|failed| failed.number));
        })
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
    Failure {
        line: format!("not among the errors: {}", named.join(", ")),
        code: FAILED,
    }
}

fn describe(out: &mut String, failed: &Failed) {
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "number     {}\nerror      {}\nfailed     {}  on {}\npublished  {}  epoch {}\nattempt    {}  failures before {}\npayload    {}\n",
        failed.number,
        escape(&failed.error),
        utc(failed.time_ms),
        escape(failed.node.as_bytes()),
        utc(failed.published_ms),
        failed.epoch,
        failed.attempt,
        failed.failures,
        escape(&failed.payload),
    );
}

pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure {
            line: format!("cannot write the output: {error}"),
            code: FAILED,
        }),
        _ => Ok(()),
    }
}
