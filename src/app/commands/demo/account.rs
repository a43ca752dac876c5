//! The account at the end: the books against the store, when everyone has gone.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use super::summary::{each, seconds};
use super::{PLACES_MAX, Run, Sequence};
use crate::app::exit::Failure;
use crate::app::lab::fleet::{away, whole_status};
use crate::app::lab::ledger::sequence::wrong_so_far;
use crate::app::lab::ledger::{Account, Remains, given_by_shard};
use crate::engine::Engine;
use crate::engine::sharded::shard_of;
use crate::error::Error;

/// How long the store may take until all shards answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// A takeover that took no longer counts as quick.
const QUICK_MS: u64 = 1000;

pub(super) async fn tell<E: Engine>(engine: &E, mut run: Run<E>) -> Result<(), Failure> {
    // Nobody writes any more, so that this ends.
    let sequence = &mut run.sequence;
    let read = run.ledger.read_all(|_, record| sequence.note(record));
    read.map_err(|error| Failure::cannot("read the ledger", error))?;
    let given = match whole_status(engine, ANSWER_MAX).await {
        Err(Error::NoQueue { .. }) => vec![0; run.fleet.shards],
        answer => {
            let status = answer?;
            if let Some((shard, why)) = away(&status) {
                let line = format!("shard {shard} does not answer, so nobody can account for its messages: {why}");
                return Err(Failure::no_redis(line));
            }
            given_by_shard(&status)
        }
    };
    let remains = Remains::of(engine, given).await?;
    let mut account = run.ledger.account(&remains);
    let mut text = String::new();
    write_takeovers(&mut text, run.summary.kills, &run.summary.gaps_ms());
    write_account(&mut text, &account);
    if run.fleet.shards > 1 {
        let sequence = match &run.sequence {
            Sequence::None => String::new(),
            Sequence::TooMany => format!("  one sequence (not looked at: more than {PLACES_MAX} messages)"),
            Sequence::Seen(prints) => {
                let wrong = wrong_so_far(&run.ledger, &remains, prints);
                let is_whole = wrong.is_empty();
                account.findings.extend(wrong);
                let said = if is_whole { "without gap or repeat" } else { "WRONG" };
                format!("  one sequence, {said}")
            }
        };
        write_shards(&mut text, &run.before, &remains, &sequence);
    }
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

/// What each shard has given out, and what is left there.
fn write_shards(out: &mut String, before: &[u64], remains: &Remains, sequence: &str) {
    let before = |shard| before.get(shard).copied().unwrap_or(0);
    let given = remains.shards.iter().enumerate();
    let generated: Vec<u64> = given
        .map(|(shard, given)| given.saturating_sub(before(shard)))
        .collect();
    let mut left = vec![0; generated.len()];
    for number in remains.unsettled.iter() {
        if let Some(left) = left.get_mut(shard_of(number)) {
            *left += 1;
        }
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{} shards  generated {}  still in the queue {}{sequence}",
        generated.len(),
        each(&generated),
        each(&left)
    );
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
