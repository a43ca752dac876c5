//! The demo on a terminal: what the copies have written, as a view.

use std::fmt::Write as _;
use std::io;

use super::fleet::{Copy, Fleet, State};
use super::scene::Scene;
use crate::app::lab::ledger::{Book, Ledger};
use crate::app::output::screen::{Node, Screen, Tone, View, grouped};

const KEYS: [(&str, &str); 6] = [
    ("k", "kill generator"),
    ("h", "kill handler"),
    ("s", "freeze"),
    ("+ -", "copies"),
    ("e", "drain errors"),
    ("q", "quit"),
];

pub(super) fn draw(screen: &mut Screen, scene: &Scene, fleet: &Fleet, ledger: &Ledger) -> io::Result<()> {
    let copies = fleet.copies().iter();
    screen.draw(&View {
        title: "queenright demo",
        place: format!("on {}", scene.address),
        age: format!("{} s", scene.age().as_secs()),
        nodes: copies.map(|copy| node(copy, scene, ledger)).collect(),
        rate: scene.rate(),
        throughput: &scene.throughput,
        queued: scene.queued(),
        queue: &scene.queue,
        events: scene.events().collect(),
        account: ("ledger", [numbers(scene), proof(scene)]),
        keys: &KEYS,
    })
}

fn node(copy: &Copy, scene: &Scene, ledger: &Ledger) -> Node {
    let book = ledger.book(copy.book);
    let (role, tone) = match (copy.state, copy.reign) {
        (State::Killed(_) | State::Left(_), _) => ("gone", Tone::Gone),
        (State::Frozen(_), _) => ("frozen", Tone::Frozen),
        (_, Some(_)) => ("generator", Tone::Good),
        (_, None) if copy.node.is_empty() => ("starting", Tone::Quiet),
        (_, None) => ("handler", Tone::Plain),
    };
    let age = scene.now().saturating_duration_since(copy.started).as_secs();
    Node {
        cells: [
            format!(" {}", copy.name()),
            copy.pid().to_string(),
            role.to_string(),
            copy.reign.map_or(String::new(), |epoch| epoch.to_string()),
            doing(copy, book, scene),
            format!("{:>7}", grouped(book.done())),
            format!("{:>6}", grouped(book.errors())),
            format!("{age:>4} s"),
        ],
        tone,
    }
}

/// What a copy is at.
fn doing(copy: &Copy, book: &Book, scene: &Scene) -> String {
    match copy.state {
        State::Killed(_) => return "kill -9".into(),
        State::Left(_) => return "left".into(),
        State::Leaving => return format!("leaving, {} in hand", book.in_hand()),
        State::Frozen(until) => {
            let left = until.saturating_duration_since(scene.now()).as_secs() + 1;
            return format!("SIGSTOP, {left} s more");
        }
        State::Running => {}
    }
    match (copy.reign, book.holds(), book.in_hand()) {
        (Some(_), _, _) => book
            .last_published()
            .map_or_else(|| "begins".into(), |last| format!("published {}", grouped(last))),
        (None, Some(number), 1) => format!("handles {}", grouped(number)),
        (None, Some(number), more) => format!("handles {} +{}", grouped(number), grouped(more - 1)),
        (None, None, _) if copy.node.is_empty() => String::new(),
        (None, None, _) => "waits".into(),
    }
}

fn numbers(scene: &Scene) -> Vec<(String, Tone)> {
    let totals = &scene.totals;
    let numbers = [
        ("generated", totals.generated),
        ("done", totals.done),
        ("errors", totals.errors),
        ("in hand", totals.in_hand),
        ("queued", scene.queued()),
    ];
    let spans = numbers.into_iter();
    let spans = spans.flat_map(|(name, number)| {
        [
            (format!(" {name} "), Tone::Quiet),
            (format!("{} ", grouped(number)), Tone::Plain),
        ]
    });
    spans.collect()
}

fn proof(scene: &Scene) -> Vec<(String, Tone)> {
    let mut spans = Vec::new();
    for (name, number) in [("lost", scene.lost), ("twice", Some(scene.twice))] {
        let tone = if number.unwrap_or(0) == 0 {
            Tone::Good
        } else {
            Tone::Bad
        };
        let shown = number.map_or("is told at the end".into(), grouped);
        spans.push((format!(" {name} {shown} "), tone));
    }
    let mut kills = format!("  generators killed {}", scene.kills);
    if !scene.kill_every.is_zero() {
        // Writing to a String cannot fail.
        let _ = write!(kills, ", one every {}", humantime::format_duration(scene.kill_every));
    }
    if let Some(gap) = scene.gaps_ms().last() {
        let _ = write!(kills, ", last gap {}", super::scene::seconds(*gap));
    }
    spans.push((kills, Tone::Quiet));
    spans
}
