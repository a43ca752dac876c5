//! The queue as text: what `status` and `nodes` print.

use std::fmt::Write as _;
use std::time::Duration;

use super::time::age;
use crate::engine::{GroupFigures, Limits, NodeStatus, Paused, ShardStatus, Status};
use crate::node::event::escape;

/// How many shards are named where there is one line.
const AWAY_NAMED: usize = 4;
/// How many of the longest groups are named.
const LONGEST_SHOWN: usize = 3;

/// Messages that have their outcome.
pub(in crate::app) fn settled(status: &Status) -> u64 {
    status.done + status.failed
}

pub(in crate::app) fn role(status: &Status, node: &NodeStatus) -> &'static str {
    if !node.is_alive() {
        "silent"
    } else if status.generator.as_ref() == Some(&node.node) {
        "generator"
    } else {
        "handler"
    }
}

/// Which parts are paused; empty if none is.
pub(in crate::app) fn paused(paused: Paused) -> &'static str {
    match (paused.generator, paused.handlers) {
        (true, true) => "generator and handlers",
        (true, false) => "generator",
        (false, true) => "handlers",
        (false, false) => "",
    }
}

/// Why messages wait although nothing is paused, and what to do; none if somebody handles.
pub(in crate::app) fn unhandled(status: &Status) -> Option<&'static str> {
    let generates = status.nodes.iter().any(NodeStatus::is_alive);
    status.nobody_handles().then_some(if generates {
        "messages wait, and the only copy generates: start another, or give it --also-handle"
    } else {
        "messages wait, and no copy is alive to handle them: start one, with --handle or --handle-each"
    })
}

/// Messages that got their outcome since an earlier look, in each shard; none for a shard that did not answer both times.
fn settled_in_shards(now: &Status, before: &Status) -> Vec<Option<u64>> {
    let settled = |shard: &ShardStatus| shard.away.is_none().then_some(shard.done + shard.failed);
    let both = now.shards.iter().zip(&before.shards);
    both.map(|(now, before)| Some(settled(now)?.saturating_sub(settled(before)?)))
        .collect()
}

/// The same of the whole queue: what a shard has that was away is not new.
pub(in crate::app) fn settled_since(now: &Status, before: &Status) -> u64 {
    if now.shards.is_empty() {
        return settled(now).saturating_sub(settled(before));
    }
    settled_in_shards(now, before).into_iter().flatten().sum()
}

/// The shards that do not answer.
pub(in crate::app) fn shards_away(status: &Status) -> Vec<usize> {
    let shards = status.shards.iter().enumerate();
    shards
        .filter(|(_, shard)| shard.away.is_some())
        .map(|(number, _)| number)
        .collect()
}

/// Which shards are away, in a few words; none if none is.
pub(in crate::app) fn away(shards: &[usize]) -> Option<String> {
    let named: Vec<String> = shards.iter().take(AWAY_NAMED).map(ToString::to_string).collect();
    let more = match shards.len().saturating_sub(AWAY_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match shards {
        [] => None,
        [only] => Some(format!("shard {only} is away")),
        _ => Some(format!("shards {}{more} are away", named.join(", "))),
    }
}

/// What is not in each shard as in the home shard, and the command that mends it. It was stopped half-way, or the shard was away.
pub(in crate::app) fn differing(status: &Status) -> Vec<(String, &'static str)> {
    let Some(home) = status.shards.first() else {
        return Vec::new();
    };
    let named = |of: Paused| Some(paused(of)).filter(|text| !text.is_empty()).unwrap_or("nothing");
    let mut found = Vec::new();
    for (number, shard) in status.shards.iter().enumerate().filter(|(_, shard)| shard.differs) {
        if shard.paused != home.paused {
            let (here, there) = (named(shard.paused), named(home.paused));
            let text = format!("shard {number} has {here} paused, and the home shard {there}");
            found.push((text, "repeat queenright pause or resume"));
        }
        if shard.limits != home.limits {
            let (here, there) = (shard.limits, home.limits);
            let text = format!("shard {number} has the limit {here}, and the home shard {there}");
            found.push((text, "repeat queenright limit"));
        }
    }
    found
}

/// All that `status` prints, with rates since an earlier look, so long ago.
pub(in crate::app) fn text(status: &Status, queue: &str, before: &Status, over: Duration) -> String {
    let per_second = |count: u64| u128::from(count) * 1000 / over.as_millis().max(1);
    let rate = per_second(settled_since(status, before));
    let rates = settled_in_shards(status, before);
    let rates: Vec<Option<u128>> = rates.into_iter().map(|count| count.map(per_second)).collect();
    let mut out = String::new();
    let generator = match (&status.generator, status.generator_heard_ago_ms) {
        (Some(generator), _) => escape(generator.as_bytes()).into_owned(),
        (None, Some(ago)) => format!("none (last heard of {} ago)", age(ago)),
        (None, None) => "none".into(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "queue      {}", escape(queue.as_bytes()));
    let _ = writeln!(out, "generator  {generator}  epoch {}", status.epoch);
    let _ = writeln!(
        out,
        "published  {}  queued {}  in hand {}  later {}",
        status.published, status.queued, status.in_hand, status.later
    );
    let _ = writeln!(
        out,
        "done       {}  failed {}  errors waiting {}  rate {rate}/s",
        status.done, status.failed, status.errors
    );
    for (name, count, meaning) in [
        (
            "requeued",
            status.requeued,
            "failed messages that were put back into the queue",
        ),
        (
            "trimmed",
            status.trimmed,
            "failed messages beyond --max-errors, removed",
        ),
        ("rewinds", status.rewinds, "the store lost acknowledged writes"),
        (
            "damaged",
            status.damaged,
            "pieces that could not be read, set aside: someone else wrote into the queue",
        ),
        (
            "missing",
            status.missing,
            "messages that are counted and are nowhere any more",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(out, "{name:<10} {count}  ({meaning})");
        }
    }
    out.push_str(&groups(&status.groups));
    if status.limits != Limits::NONE {
        let _ = writeln!(out, "limit      {}", status.limits);
    }
    if status.cancels > 0 {
        let _ = writeln!(
            out,
            "cancels    {}  (pending: until their messages have ended)",
            status.cancels
        );
    }
    let paused = paused(status.paused);
    if !paused.is_empty() {
        let _ = writeln!(out, "paused     {paused}  (queenright resume)");
    }
    if let Some(text) = unhandled(status) {
        let _ = writeln!(out, "unhandled  {text}");
    }
    let unwatched = status
        .nodes
        .iter()
        .filter(|node| node.is_alive() && !node.watched)
        .count();
    if unwatched > 0 {
        let meaning = "copies whose death shows only when their lease has run out: queenright doctor";
        let _ = writeln!(out, "unwatched  {unwatched}  ({meaning})");
    }
    out.push_str(&shards(&status.shards, &rates));
    for (found, fix) in differing(status) {
        let _ = writeln!(out, "differs    {found}  ({fix})");
    }
    out.push('\n');
    out + &nodes(status)
}

/// What each shard has; empty if there are none.
fn shards(all: &[ShardStatus], rates: &[Option<u128>]) -> String {
    let mut out = String::new();
    for (number, shard) in all.iter().enumerate() {
        if let Some(why) = &shard.away {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "shard {number:<4} away: {}", escape(why.as_bytes()));
            continue;
        }
        let _ = write!(
            out,
            "shard {number:<4} published {}  queued {}  in hand {}  later {}  done {}  failed {}  errors waiting {}",
            shard.published, shard.queued, shard.in_hand, shard.later, shard.done, shard.failed, shard.errors
        );
        if let Some(rate) = rates.get(number).copied().flatten() {
            let _ = write!(out, "  rate {rate}/s");
        }
        if let Some(place) = &shard.place {
            let _ = write!(out, "  at {}", escape(place.as_bytes()));
        }
        if shard.retired {
            out.push_str("  (no new messages since a reshard)");
        }
        out.push('\n');
    }
    for (number, _) in all.iter().enumerate().filter(|(_, shard)| shard.hot) {
        let meaning =
            "more messages wait there than in the others: most are pushed there by key or group, or its server is slow";
        let _ = writeln!(out, "hot        shard {number}  ({meaning})");
    }
    if all.iter().any(|shard| shard.away.is_some()) {
        out.push_str("away       messages of a shard that does not answer are not in the sums above\n");
    }
    out
}

/// How many messages wait in groups, which groups are the longest, and which are paused; empty if there is none.
fn groups(figures: &GroupFigures) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    if figures.groups > 0 {
        let longest = figures.longest.iter().take(LONGEST_SHOWN);
        let longest: Vec<String> = longest
            .map(|(group, length)| format!("{} {length}", escape(group.as_bytes())))
            .collect();
        let _ = writeln!(
            out,
            "groups     {}  with {} messages in line  longest: {}",
            figures.groups,
            figures.messages,
            longest.join(", ")
        );
    }
    if let Some(first) = figures.paused.first() {
        let others = match figures.paused.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let _ = writeln!(
            out,
            "paused     group {}{others}  (queenright resume --group)",
            escape(first.as_bytes())
        );
    }
    out
}

/// The table of nodes.
pub(in crate::app) fn nodes(status: &Status) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{:<12} {:<14} {:<20} {:>8} {:>9} {:>8} {:>12} {:>9}",
        "NODE", "ROLE", "HOST", "PID", "AGE", "IN HAND", "DONE", "FAILED"
    );
    for node in &status.nodes {
        let host: String = escape(node.host.as_bytes()).chars().take(20).collect();
        let role = match role(status, node) {
            "silent" => format!("silent {}", age(node.silent_ms)),
            role => role.into(),
        };
        let _ = writeln!(
            out,
            "{:<12} {role:<14} {host:<20} {:>8} {:>9} {:>8} {:>12} {:>9}",
            escape(node.node.as_bytes()),
            node.pid,
            age(node.age_ms),
            node.in_hand,
            node.done,
            node.failed
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::away;

    #[test]
    fn a_few_shards_that_are_away_are_named_and_of_many_it_is_said_how_many_there_are() {
        assert_eq!(away(&[]), None);
        assert_eq!(away(&[3]).as_deref(), Some("shard 3 is away"));
        assert_eq!(away(&[0, 5]).as_deref(), Some("shards 0, 5 are away"));
        let many = away(&[0, 3, 4, 5, 6, 9]);
        assert_eq!(many.as_deref(), Some("shards 0, 3, 4, 5 and 2 more are away"));
    }
}
