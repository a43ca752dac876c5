//! The account at the end: the books against the store, when everyone has gone.

use std::fmt::Write as _;
use std::io::Write as _;

use super::Run;
use super::summary::seconds;
use crate::app::exit::Failure;
use crate::app::lab::ledger::{Account, Remains};
use crate::engine::Engine;
use crate::error::Error;

/// A takeover that took no longer counts as quick.
const QUICK_MS: u64 = 1000;

pub(super) async fn tell<E: Engine>(engine: &E, mut run: Run<E>) -> Result<(), Failure> {
    // Nobody writes any more, so that this ends.
    while run
        .ledger
        .read(|_, _| {})
        .map_err(|error| Failure::cannot("read the ledger", error))?
    {}
    let account = run
        .ledger
        .account(&Remains::of(engine, published(engine).await?).await?);
    let mut text = String::new();
    write_takeovers(&mut text, run.summary.kills, &run.summary.gaps_ms());
    write_account(&mut text, &account);
    // Nobody may be listening; the exit code says the same.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if account.findings.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(account.findings.join("; ")))
}

/// How many numbers the queue has given out; none, if it is not there yet.
pub(super) async fn published<E: Engine>(engine: &E) -> Result<u64, Error> {
    match engine.status().await {
        Ok(status) => Ok(status.published),
        Err(Error::NoQueue { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

// Writing to a String cannot fail.
fn write_takeovers(out: &mut String, kills: u64, gaps: &[u64]) {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    let _ = write!(out, "generators killed {kills}");
    if let (Some(median), Some(longest)) = (sorted.get(sorted.len() / 2), sorted.last()) {
        let quick = sorted.iter().filter(|gap| **gap <= QUICK_MS).count();
        let _ = write!(
            out,
            ", the next one's first message {} after the last (median; longest {}; within 1 s: {quick} of {})",
            seconds(*median),
            seconds(*longest),
            sorted.len()
        );
    }
    out.push('\n');
}

fn write_account(out: &mut String, account: &Account) {
    let Account {
        generated,
        done,
        errors,
        in_doubt,
        unsettled,
        lost,
        twice,
        ..
    } = account;
    let _ = write!(out, "generated {generated}  done {}  errors {errors}", done + in_doubt);
    let _ = writeln!(out, "  still in the queue {unsettled}  lost {lost}  twice {twice}");
    if *in_doubt > 0 {
        let were = if *in_doubt == 1 { "one was" } else { "were" };
        let count = if *in_doubt == 1 {
            String::new()
        } else {
            format!("{in_doubt} ")
        };
        let _ = writeln!(
            out,
            "(of the done, {count}{were} settled by a copy that was killed before it could write so)"
        );
    }
}
