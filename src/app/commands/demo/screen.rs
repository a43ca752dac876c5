//! The demo on a terminal: what the copies have written, as a view.

use std::fmt::Write as _;
use std::io;

use super::fleet::Fleet;
use super::member::{Member, State};
use super::summary::{RATE_SAMPLES, SAMPLE, Summary};
use crate::app::commands::rate;
use crate::app::lab::ledger::{Book, Ledger};
use crate::app::output::screen::{Node, Screen, Tone, View, grouped, numbered};

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
        place: format!("on {}", summary.address),
        age: format!("{} s", (summary.now - summary.started).as_secs()),
        nodes: members.map(|member| node(member, summary, ledger)).collect(),
        rate: rate(&summary.throughput, RATE_SAMPLES, SAMPLE),
        throughput: &summary.throughput,
        queued: summary.queued(),
        queue: &summary.queue,
        events: summary.events.iter().collect(),
        account: ("ledger", [numbers(summary), proof(summary)]),
        keys: &KEYS,
    })
}

fn node(member: &Member, summary: &Summary, ledger: &Ledger) -> Node {
    let book = ledger.book(member.book);
    let (role, tone) = match (member.state, member.reign) {
        (State::Killed(_) | State::Left(_), _) => ("gone", Tone::Gone),
        (State::Frozen(_), _) => ("frozen", Tone::Frozen),
        (_, Some(_)) => ("generator", Tone::Good),
        (_, None) if member.node.is_empty() => ("starting", Tone::Quiet),
        (_, None) => ("handler", Tone::Plain),
    };
    let age = summary.now.saturating_duration_since(member.started).as_secs();
    Node {
        cells: [
            format!(" {}", member.name()),
            member.pid().to_string(),
            role.to_string(),
            member.reign.map_or(String::new(), |epoch| epoch.to_string()),
            doing(member, book, summary),
            format!("{:>7}", grouped(book.done)),
            format!("{:>6}", grouped(book.errors)),
            format!("{age:>4} s"),
        ],
        tone,
    }
}

/// What a copy is at.
fn doing(member: &Member, book: &Book, summary: &Summary) -> String {
    match member.state {
        State::Killed(_) => return "kill -9".into(),
        State::Left(_) => return "left".into(),
        State::Leaving => return format!("leaving, {} in hand", book.in_hand()),
        State::Frozen(until) => {
            let left = until.saturating_duration_since(summary.now).as_secs() + 1;
            return format!("SIGSTOP, {left} s more");
        }
        State::Running => {}
    }
    match (member.reign, book.holds(), book.in_hand()) {
        (Some(_), _, _) => book
            .last_published
            .map_or_else(|| "begins".into(), |last| format!("published {}", grouped(last))),
        (None, Some(number), 1) => format!("handles {}", grouped(number)),
        (None, Some(number), more) => format!("handles {} +{}", grouped(number), grouped(more - 1)),
        (None, None, _) if member.node.is_empty() => String::new(),
        (None, None, _) => "waits".into(),
    }
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
    let mut kills = format!("  generators killed {}", summary.kills);
    if !summary.kill_every.is_zero() {
        // Writing to a String cannot fail.
        let _ = write!(kills, ", one every {}", humantime::format_duration(summary.kill_every));
    }
    if let Some(gap) = summary.gaps_ms().last() {
        let _ = write!(kills, ", last gap {}", super::summary::seconds(*gap));
    }
    spans.push((kills, Tone::Quiet));
    spans
}
