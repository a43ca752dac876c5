//! The terminal: rows of nodes, graphs, the last events, and the ledger. Fits 80×24.

use std::fmt::Write as _;
use std::io;

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table};

use super::fleet::{Copy, Fleet, State};
use super::scene::Scene;
use crate::ledger::{Book, Ledger};

/// Rows for events that are always there, whatever the number of nodes.
const EVENTS_MIN: u16 = 5;

pub(super) struct Screen {
    terminal: DefaultTerminal,
    colours: Colours,
}

/// Styles by meaning. Without colours, what matters is bold.
#[derive(Clone, Copy)]
struct Colours {
    on: bool,
}

impl Colours {
    fn of(self, colour: Color) -> Style {
        if self.on { Style::new().fg(colour) } else { Style::new() }
    }

    fn strong(self, colour: Color) -> Style {
        self.of(colour).add_modifier(Modifier::BOLD)
    }

    fn event(self, word: &str) -> Style {
        match word {
            "elected" | "generates" => self.of(Color::Green),
            "kill -9" | "drain failed" => self.strong(Color::Red),
            "error" => self.of(Color::Red),
            "redelivered" | "handed on" | "deposed" | "SIGSTOP" | "away" => self.of(Color::Yellow),
            _ => self.of(Color::Cyan),
        }
    }
}

fn quiet() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

impl Screen {
    /// Takes the terminal over; it is given back by `ratatui::restore`, by a panic too.
    pub(super) fn open() -> io::Result<Self> {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Ok(Self {
            terminal: ratatui::try_init()?,
            colours: Colours { on: !no_color },
        })
    }

    pub(super) fn draw(&mut self, scene: &mut Scene, fleet: &Fleet, ledger: &Ledger) -> io::Result<()> {
        let colours = self.colours;
        self.terminal
            .draw(|frame| draw(frame, colours, scene, fleet, ledger))
            .map(drop)
    }
}

fn draw(frame: &mut Frame, colours: Colours, scene: &Scene, fleet: &Fleet, ledger: &Ledger) {
    let height = frame.area().height;
    // All but the nodes: title, two titled graphs, the events' title and rows, the ledger and the keys.
    let others = 1 + 1 + 3 + 1 + EVENTS_MIN + 1 + 2 + 1;
    let wanted = u16::try_from(fleet.copies().len()).unwrap_or(u16::MAX).max(5);
    let rows = wanted.min(height.saturating_sub(others));
    let [title, nodes, graphs, events, account, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(rows + 1),
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Length(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_title(frame, title, colours, scene);
    draw_nodes(frame, nodes, colours, scene, fleet, ledger);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)])
        .spacing(1)
        .areas(graphs);
    let rate = format!("throughput {}/s", rate(scene.rate()));
    draw_graph(frame, left, colours.of(Color::Green), &rate, &scene.throughput);
    let queue = format!("queue {}", grouped(scene.queued()));
    draw_graph(frame, right, colours.of(Color::Yellow), &queue, &scene.queue);
    draw_events(frame, events, colours, scene);
    draw_account(frame, account, colours, scene);
    draw_keys(frame, keys, colours);
}

fn draw_title(frame: &mut Frame, area: Rect, colours: Colours, scene: &Scene) {
    let age = format!(" {} s ", scene.age().as_secs());
    let [left, right] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(u16::try_from(age.len()).unwrap_or(8)),
    ])
    .areas(area);
    let line = Line::from(vec![
        Span::styled(" queenright demo", colours.strong(Color::Yellow)),
        Span::styled(format!("  on {}", scene.address), quiet()),
    ]);
    frame.render_widget(Paragraph::new(line), left);
    frame.render_widget(Paragraph::new(age), right);
}

fn draw_nodes(frame: &mut Frame, area: Rect, colours: Colours, scene: &Scene, fleet: &Fleet, ledger: &Ledger) {
    let header = Row::new([" node", "pid", "role", "epoch", "doing", "   done", "errors", "   age"]);
    let rows = fleet.copies().iter().map(|copy| {
        let book = ledger.book(copy.book);
        let (role, style) = match (copy.state, copy.reign) {
            (State::Killed(_) | State::Left(_), _) => ("gone", colours.of(Color::Red).add_modifier(Modifier::DIM)),
            (State::Frozen(_), _) => ("frozen", colours.of(Color::Cyan)),
            (_, Some(_)) => ("generator", colours.strong(Color::Green)),
            (_, None) if copy.node.is_empty() => ("starting", quiet()),
            (_, None) => ("handler", Style::new()),
        };
        let age = scene.now().saturating_duration_since(copy.started).as_secs();
        Row::new([
            format!(" {}", copy.name()),
            copy.pid().to_string(),
            role.to_string(),
            copy.reign.map_or(String::new(), |epoch| epoch.to_string()),
            doing(copy, book, scene),
            format!("{:>7}", grouped(book.done())),
            format!("{:>6}", grouped(book.errors())),
            format!("{age:>4} s"),
        ])
        .style(style)
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(5),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(7),
    ];
    frame.render_widget(Table::new(rows, widths).header(header.style(quiet())), area);
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

fn draw_graph(frame: &mut Frame, area: Rect, style: Style, title: &str, samples: &std::collections::VecDeque<u64>) {
    let block = titled(title);
    let width = usize::from(block.inner(area).width);
    // The newest at the right edge, from the first on.
    let mut shown: Vec<u64> = samples.iter().rev().take(width).copied().collect();
    shown.resize(width, 0);
    shown.reverse();
    let most = shown.iter().copied().max().unwrap_or(0).max(2);
    let graph = Sparkline::default().data(&shown).max(most).style(style);
    frame.render_widget(graph.block(block), area);
}

fn titled(title: &str) -> Block<'_> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().add_modifier(Modifier::DIM))
        .title(Span::styled(
            format!(" {title} "),
            Style::new().remove_modifier(Modifier::DIM),
        ))
}

fn draw_events(frame: &mut Frame, area: Rect, colours: Colours, scene: &Scene) {
    let block = titled("events");
    let height = usize::from(block.inner(area).height);
    let skipped = scene.events().count().saturating_sub(height);
    let lines: Vec<Line> = scene
        .events()
        .skip(skipped)
        .map(|line| {
            Line::from(vec![
                Span::styled(format!("{:7.1}  ", line.at.as_secs_f32()), quiet()),
                Span::styled(format!("{:<12}", line.word), colours.event(line.word)),
                Span::raw(line.text.clone()),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_account(frame: &mut Frame, area: Rect, colours: Colours, scene: &Scene) {
    let totals = &scene.totals;
    let mut first = Vec::new();
    for (name, number) in [
        ("generated", totals.generated),
        ("done", totals.done),
        ("errors", totals.errors),
        ("in hand", totals.in_hand),
        ("queued", scene.queued()),
    ] {
        first.push(Span::styled(format!(" {name} "), quiet()));
        first.push(Span::raw(format!("{} ", grouped(number))));
    }
    let mut second = Vec::new();
    for (name, number) in [("lost", scene.lost), ("twice", Some(scene.twice))] {
        let colour = if number.unwrap_or(0) == 0 {
            Color::Green
        } else {
            Color::Red
        };
        let shown = number.map_or("is told at the end".into(), grouped);
        second.push(Span::styled(format!(" {name} {shown} "), colours.strong(colour)));
    }
    let mut kills = format!("  generators killed {}", scene.kills);
    if !scene.kill_every.is_zero() {
        // Writing to a String cannot fail.
        let _ = write!(kills, ", one every {}", humantime::format_duration(scene.kill_every));
    }
    if let Some(gap) = scene.gaps_ms().last() {
        let _ = write!(kills, ", last gap {}", super::scene::seconds(*gap));
    }
    second.push(Span::styled(kills, quiet()));
    let lines = vec![Line::from(first), Line::from(second)];
    frame.render_widget(Paragraph::new(lines).block(titled("ledger")), area);
}

fn draw_keys(frame: &mut Frame, area: Rect, colours: Colours) {
    let mut spans = Vec::new();
    for (key, text) in [
        ("k", "kill generator"),
        ("h", "kill handler"),
        ("s", "freeze"),
        ("+ -", "copies"),
        ("e", "drain errors"),
        ("q", "quit"),
    ] {
        spans.push(Span::styled(format!(" {key}"), colours.strong(Color::Cyan)));
        spans.push(Span::styled(format!(" {text} "), quiet()));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn rate(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.1}");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    grouped(rate as u64)
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
