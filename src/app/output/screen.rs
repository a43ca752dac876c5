//! A fleet on a terminal: rows of nodes, graphs, the last events, and an account. Fits 80×24. `demo` and `status --watch`
//! fill it in, each from what it knows.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table};

/// Rows for events that are always there, whatever the number of nodes.
const EVENTS_MIN: u16 = 5;
/// As wide as the widest screen.
const SAMPLES_MAX: usize = 300;
/// Events that are kept.
pub(in crate::app) const EVENTS_MAX: usize = 100;

/// What there is to be seen.
pub(in crate::app) struct View<'a> {
    /// Of the title, the loud part and the rest.
    pub title: &'a str,
    pub place: String,
    /// At the right of the title.
    pub age: String,
    pub nodes: Vec<Node>,
    /// Settled per second, now and in the past.
    pub rate: f64,
    pub throughput: &'a VecDeque<u64>,
    pub queued: u64,
    pub queue: &'a VecDeque<u64>,
    pub events: Vec<&'a Event>,
    /// The name of the account, and its two lines.
    pub account: (&'a str, [Vec<(String, Tone)>; 2]),
    pub keys: &'a [(&'a str, &'a str)],
}

/// A row: node, pid, role, epoch, doing, done, errors, age.
pub(in crate::app) struct Node {
    pub cells: [String; 8],
    pub tone: Tone,
}

/// One event.
#[derive(Debug, Clone)]
pub(in crate::app) struct Event {
    pub at: Duration,
    pub word: &'static str,
    pub text: String,
}

/// What something means, which decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app) enum Tone {
    Plain,
    Quiet,
    Good,
    Bad,
    Gone,
    Frozen,
    Warning,
}

pub(in crate::app) struct Screen {
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

    fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Quiet => quiet(),
            Tone::Good => self.strong(Color::Green),
            Tone::Bad => self.strong(Color::Red),
            Tone::Gone => self.of(Color::Red).add_modifier(Modifier::DIM),
            Tone::Frozen => self.of(Color::Cyan),
            Tone::Warning => self.strong(Color::Yellow),
        }
    }

    fn event(self, word: &str) -> Style {
        match word {
            "elected" | "generates" => self.of(Color::Green),
            "kill -9" | "reading failed" => self.strong(Color::Red),
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
    pub(in crate::app) fn open() -> io::Result<Self> {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Ok(Self {
            terminal: ratatui::try_init()?,
            colours: Colours { on: !no_color },
        })
    }

    pub(in crate::app) fn draw(&mut self, view: &View) -> io::Result<()> {
        let colours = self.colours;
        self.terminal.draw(|frame| draw(frame, colours, view)).map(drop)
    }
}

fn draw(frame: &mut Frame, colours: Colours, view: &View) {
    let height = frame.area().height;
    // All but the nodes: title, two titled graphs, the events' title and rows, the account and the keys.
    let others = 1 + 1 + 3 + 1 + EVENTS_MIN + 1 + 2 + 1;
    let wanted = u16::try_from(view.nodes.len()).unwrap_or(u16::MAX).max(5);
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
    draw_title(frame, title, colours, view);
    draw_nodes(frame, nodes, colours, &view.nodes);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)])
        .spacing(1)
        .areas(graphs);
    let rate = format!("throughput {}/s", rate(view.rate));
    draw_graph(frame, left, colours.of(Color::Green), &rate, view.throughput);
    let queue = format!("queue {}", grouped(view.queued));
    draw_graph(frame, right, colours.of(Color::Yellow), &queue, view.queue);
    draw_events(frame, events, colours, &view.events);
    let lines: Vec<Line> = view.account.1.iter().map(|spans| line(colours, spans)).collect();
    frame.render_widget(Paragraph::new(lines).block(titled(view.account.0)), account);
    draw_keys(frame, keys, colours, view.keys);
}

fn line(colours: Colours, spans: &[(String, Tone)]) -> Line<'static> {
    let styled = |(text, tone): &(String, Tone)| Span::styled(text.clone(), colours.tone(*tone));
    spans.iter().map(styled).collect()
}

fn draw_title(frame: &mut Frame, area: Rect, colours: Colours, view: &View) {
    let age = format!(" {} ", view.age);
    let width = u16::try_from(age.chars().count()).unwrap_or(8);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    let line = Line::from(vec![
        Span::styled(format!(" {}", view.title), colours.strong(Color::Yellow)),
        Span::styled(format!("  {}", view.place), quiet()),
    ]);
    frame.render_widget(Paragraph::new(line), left);
    frame.render_widget(Paragraph::new(age), right);
}

fn draw_nodes(frame: &mut Frame, area: Rect, colours: Colours, nodes: &[Node]) {
    let header = Row::new([" node", "pid", "role", "epoch", "doing", "   done", "errors", "   age"]);
    let rows = nodes
        .iter()
        .map(|node| Row::new(node.cells.clone()).style(colours.tone(node.tone)));
    let mut widths = Constraint::from_lengths([12, 7, 9, 5, 0, 9, 8, 7]);
    // What a node is doing gets all the room that is left.
    widths[4] = Constraint::Fill(1);
    frame.render_widget(Table::new(rows, widths).header(header.style(quiet())), area);
}

fn draw_graph(frame: &mut Frame, area: Rect, style: Style, title: &str, samples: &VecDeque<u64>) {
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
    let title = Span::styled(format!(" {title} "), Style::new().remove_modifier(Modifier::DIM));
    Block::new().borders(Borders::TOP).border_style(quiet()).title(title)
}

fn draw_events(frame: &mut Frame, area: Rect, colours: Colours, events: &[&Event]) {
    let block = titled("events");
    let height = usize::from(block.inner(area).height);
    let lines: Vec<Line> = events[events.len().saturating_sub(height)..]
        .iter()
        .map(|event| {
            Line::from(vec![
                Span::styled(format!("{:7.1}  ", event.at.as_secs_f32()), quiet()),
                Span::styled(format!("{:<12}", event.word), colours.event(event.word)),
                Span::raw(event.text.clone()),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_keys(frame: &mut Frame, area: Rect, colours: Colours, keys: &[(&str, &str)]) {
    let mut spans = Vec::new();
    for (key, text) in keys {
        spans.push(Span::styled(format!(" {key}"), colours.strong(Color::Cyan)));
        spans.push(Span::styled(format!(" {text} "), quiet()));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// Names, quiet, each with its number.
pub(in crate::app) fn numbered(numbers: &[(&str, u64)]) -> Vec<(String, Tone)> {
    let spans = numbers.iter().flat_map(|(name, number)| {
        [
            (format!(" {name} "), Tone::Quiet),
            (format!("{} ", grouped(*number)), Tone::Plain),
        ]
    });
    spans.collect()
}

/// One more point of a graph.
pub(in crate::app) fn push(samples: &mut VecDeque<u64>, sample: u64) {
    if samples.len() >= SAMPLES_MAX {
        samples.pop_front();
    }
    samples.push_back(sample);
}

fn rate(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.1}");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    grouped(rate as u64)
}

/// With commas between thousands.
pub(in crate::app) fn grouped(number: u64) -> String {
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
