//! The account at the end: the books against the store, when everyone has gone.

use std::fmt::Write as _;
use std::io::Write as _;

use super::Run;
use super::summary::seconds;
use crate::app::commands::status_if_any;
use crate::app::exit::Failure;
use crate::app::lab::ledger::{Account, Remains};
use crate::engine::Engine;

/// A takeover that took no longer counts as quick.
const QUICK_MS: u64 = 1000;

pub(super) async fn tell<E: Engine>(engine: &E, mut run: Run<E>) -> Result<(), Failure> {
    // Nobody writes any more, so that this ends.
    let read = run.ledger.read_all(|_, _| {});
    read.map_err(|error| Failure::cannot("read the ledger", error))?;
    let published = status_if_any(engine).await?.map_or(0, |status| status.published);
    let account = run.ledger.account(&Remains::of(engine, published).await?);
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
    let (done, in_doubt) = (account.done + account.in_doubt, account.in_doubt);
    let _ = write!(out, "generated {}  done {done}", account.generated);
    let _ = write!(
        out,
        "  errors {}  still in the queue {}",
        account.errors, account.unsettled
    );
    let _ = writeln!(out, "  lost {}  twice {}", account.lost, account.twice);
    if in_doubt > 0 {
        let were = match in_doubt {
            1 => "one was".into(),
            many => format!("{many} were"),
        };
        let _ = writeln!(
            out,
            "(of the done, {were} settled by a copy that was killed before it could write so)"
        );
    }
}
