//! The demo on a terminal: what the copies have written, as a view.

use std::io;
use std::time::Duration;

use super::fleet::Fleet;
use super::member::{Member, State};
use super::summary::{RATE_SAMPLES, SAMPLE, Summary, each};
use crate::app::commands::rate;
use crate::app::lab::ledger::{Book, Ledger, Totals};
use crate::app::output::screen::{Node, Screen, Tone, View, grouped, numbered};
use crate::app::output::status::away;
use crate::engine::sharded::{first_number, shard_of};

const KEYS: [(&str, &str); 6] = [
    ("k", "kill generator"),
    ("h", "kill handler"),
    ("s", "freeze"),
    ("+ -", "copies"),
    ("e", "read errors"),
    ("q", "quit"),
];

pub(super) fn draw(screen: &mut Screen, summary: &Summary, fleet: &Fleet, ledger: &Ledger) -> io::Result<()> {
    let members = fleet.members.iter();
    screen.draw(&View {
        title: "queenright demo",
        place: format!("on {}", summary.place),
        age: format!("{} s", (summary.now - summary.started).as_secs()),
        nodes: members.map(|member| node(member, summary, ledger)).collect(),
        rate: rate(&summary.throughput, RATE_SAMPLES, SAMPLE),
        throughput: &summary.throughput,
        queued: summary.queued(),
        queue: &summary.queue,
        events: summary.events.iter().collect(),
        account: ("ledger", account(summary)),
        keys: &KEYS,
    })
}

fn node(member: &Member, summary: &Summary, ledger: &Ledger) -> Node {
    let (role, tone) = match (member.state, member.reign) {
        (State::Killed(_) | State::Left(_), _) => ("gone", Tone::Gone),
        (State::Frozen(_), _) => ("frozen", Tone::Frozen),
        (_, Some(_)) => ("generator", Tone::Good),
        (_, None) if member.node.is_empty() => ("starting", Tone::Quiet),
        (_, None) => ("handler", Tone::Plain),
    };
    let sum = |count: &dyn Fn(&Book) -> u64| member.books(ledger).map(count).sum();
    let age = summary.now.saturating_duration_since(member.started).as_secs();
    Node {
        cells: [
            format!(" {}", member.name()),
            member.pid().to_string(),
            role.to_string(),
            member.reign.map_or(String::new(), |epoch| epoch.to_string()),
            doing(member, summary, ledger),
            format!("{:>7}", grouped(sum(&|book| book.done))),
            format!("{:>6}", grouped(sum(&|book| book.errors))),
            format!("{age:>4} s"),
        ],
        tone,
    }
}

/// What a copy is at.
fn doing(member: &Member, summary: &Summary, ledger: &Ledger) -> String {
    let in_hand = member.in_hand(ledger);
    match member.state {
        State::Killed(_) => return "kill -9".into(),
        State::Left(_) => return "left".into(),
        State::Leaving => return format!("leaving, {in_hand} in hand"),
        State::Frozen(until) => {
            let left = until.saturating_duration_since(summary.now).as_secs() + 1;
            return format!("SIGSTOP, {left} s more");
        }
        State::Running => {}
    }
    let last_published = member.books(ledger).filter_map(|book| book.last_published).max();
    match (member.reign, member.books(ledger).find_map(Book::holds), in_hand) {
        (Some(_), _, _) => {
            last_published.map_or_else(|| "begins".into(), |(_, last)| format!("published {}", short(last)))
        }
        (None, Some(number), 1) => format!("handles {}", short(number)),
        (None, Some(number), more) => format!("handles {} +{}", short(number), grouped(more - 1)),
        (None, None, _) if member.node.is_empty() => String::new(),
        (None, None, _) => "waits".into(),
    }
}

/// The number of a message: in another shard than the home shard, that one's, and how many it has given out before.
fn short(number: u64) -> String {
    match shard_of(number) {
        0 => grouped(number),
        shard => format!("{shard}:{}", grouped(number - first_number(shard))),
    }
}

fn account(summary: &Summary) -> Vec<Vec<(String, Tone)>> {
    let mut lines = vec![numbers(summary), proof(summary)];
    if !summary.shards.is_empty() {
        lines.push(shards(&summary.shards));
    }
    lines
}

/// How the shards stand.
fn shards(all: &[Totals]) -> Vec<(String, Tone)> {
    let of = |count: fn(&Totals) -> u64| each(&all.iter().map(count).collect::<Vec<_>>());
    vec![
        (format!(" {} shards, generated ", all.len()), Tone::Quiet),
        (of(|totals| totals.generated), Tone::Plain),
        ("  queued ".into(), Tone::Quiet),
        (of(Totals::queued), Tone::Plain),
    ]
}

fn numbers(summary: &Summary) -> Vec<(String, Tone)> {
    let totals = &summary.totals;
    numbered(&[
        ("generated", totals.generated),
        ("done", totals.done),
        ("errors", totals.errors),
        ("in hand", totals.in_hand),
        ("queued", summary.queued()),
    ])
}

fn proof(summary: &Summary) -> Vec<(String, Tone)> {
    let mut spans = Vec::new();
    for (name, number) in [("lost", summary.lost), ("twice", Some(summary.twice))] {
        let tone = if number.unwrap_or(0) == 0 {
            Tone::Good
        } else {
            Tone::Bad
        };
        let shown = number.map_or("is told at the end".into(), grouped);
        spans.push((format!(" {name} {shown} "), tone));
    }
    spans.extend(away(&summary.away).map(|text| (format!(" {text} "), Tone::Bad)));
    spans.extend(kills(
        summary.kills,
        summary.kill_every,
        summary.gaps_ms().last().copied(),
    ));
    spans
}

/// In pieces, each of which stays whole where the line does not.
fn kills(count: u64, every: Duration, last_gap_ms: Option<u64>) -> Vec<(String, Tone)> {
    let mut texts = vec![format!("  generators killed {count}")];
    if !every.is_zero() {
        texts.push(format!(" one every {}", humantime::format_duration(every)));
    }
    if let Some(gap_ms) = last_gap_ms {
        texts.push(format!(" last gap {}", super::summary::seconds(gap_ms)));
    }
    let last = texts.len() - 1;
    for text in &mut texts[..last] {
        text.push(',');
    }
    texts.into_iter().map(|text| (text, Tone::Quiet)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::app::output::screen::text_of;

    #[test]
    fn the_account_is_whole_on_every_screen_down_to_50_by_12() {
        let samples = VecDeque::new();
        let minute = Duration::from_secs(65);
        for (width, height) in [(80, 24), (60, 16), (50, 12)] {
            let screen = text_of(
                &View {
                    title: "queenright demo",
                    place: String::new(),
                    age: "17 s".into(),
                    nodes: Vec::new(),
                    rate: 12.0,
                    throughput: &samples,
                    queued: 67,
                    queue: &samples,
                    events: Vec::new(),
                    account: ("ledger", vec![Vec::new(), kills(1234, minute, Some(123_456))]),
                    keys: &KEYS,
                },
                width,
                height,
            );
            let last_gap = format!("last gap {}", super::super::summary::seconds(123_456));
            for wanted in ["generators killed 1234,", "one every 1m 5s,", &last_gap] {
                assert!(screen.contains(wanted), "{width}x{height}: no {wanted}:\n{screen}");
            }
        }
    }
}
