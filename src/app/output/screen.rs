//! A fleet on a terminal: rows of nodes, graphs, the last events, and an account. Made for 80×24; on a smaller one down to 50×12,
//! what matters is still there whole. `demo` and `status --watch`
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
/// Rows for nodes that are always there, as far as the screen has any.
const NODES_MIN: u16 = 2;
/// On a screen with fewer rows than this, an account has no more lines than that.
const ROOMY: u16 = 16;
const ACCOUNT_MIN: usize = 2;
/// Columns for the name of a node, with the space before it, on the narrowest screens. Ids have ten letters.
const NAME_MIN: u16 = 9;
const NAME_MAX: u16 = 11;
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
    /// The name of the account, and its lines. Those after the second are left out where there is little room.
    pub account: (&'a str, Vec<Vec<(String, Tone)>>),
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
    let Rect { width, height, .. } = frame.area();
    let keys = wrapped(width, view.keys.iter().map(|key| key_spans(colours, *key)));
    let lines_max = if height < ROOMY { ACCOUNT_MIN } else { usize::MAX };
    let account = view.account.1.iter().take(lines_max).flat_map(|spans| {
        let pieces = pieces(spans).map(|piece| line(colours, piece).spans);
        wrapped(width, pieces)
    });
    let account: Vec<Line> = account.collect();
    let lines = |lines: &[Line]| u16::try_from(lines.len()).unwrap_or(u16::MAX);
    // What is always there whole: the title, the heading of the nodes, the account and the keys. What is left is for the graphs,
    // which become one line of numbers where there is little, for nodes, and for events.
    let whole = 1 + 1 + (1 + lines(&account)) + lines(&keys);
    let graphs = if height >= whole + 3 + NODES_MIN + 1 + 2 { 3 } else { 1 };
    let rest = height.saturating_sub(whole + graphs);
    let for_events = (1 + EVENTS_MIN).min(rest.saturating_sub(NODES_MIN));
    let wanted = u16::try_from(view.nodes.len()).unwrap_or(u16::MAX).max(5);
    let rows = wanted.min(rest - for_events);
    let [title, nodes, graphs, events, account_area, keys_area] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(rows + 1),
        Constraint::Length(graphs),
        Constraint::Fill(1),
        Constraint::Length(1 + lines(&account)),
        Constraint::Length(lines(&keys)),
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
    frame.render_widget(Paragraph::new(account).block(titled(view.account.0)), account_area);
    frame.render_widget(Paragraph::new(keys), keys_area);
}

/// Names stay with their numbers: what begins with a quiet word ends before the next one.
fn pieces(spans: &[(String, Tone)]) -> impl Iterator<Item = &[(String, Tone)]> {
    spans.chunk_by(|before, next| before.1 == Tone::Quiet && next.1 == Tone::Plain)
}

/// As many lines as it takes: a piece that does not fit begins the next one.
fn wrapped(width: u16, pieces: impl Iterator<Item = Vec<Span<'static>>>) -> Vec<Line<'static>> {
    let mut lines: Vec<Line> = vec![Line::default()];
    for piece in pieces {
        let wide: usize = piece.iter().map(Span::width).sum();
        // A space at the end may be cut off.
        let spaces = piece
            .last()
            .map_or(0, |span| span.content.len() - span.content.trim_end().len());
        let line = lines.last_mut().expect("there is one");
        if line.width() > 0 && line.width() + wide > usize::from(width) + spaces {
            lines.push(Line::from(piece));
        } else {
            line.spans.extend(piece);
        }
    }
    lines
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
    const HEADER: [&str; 8] = [" node", "pid", "role", "epoch", "doing", "   done", "errors", "   age"];
    // Who generates and who is in trouble comes first where there is no room for all.
    let mut order: Vec<&Node> = nodes.iter().collect();
    let room = usize::from(area.height.saturating_sub(1));
    let hidden = if order.len() > room {
        order.len() + 1 - room.max(1)
    } else {
        0
    };
    if hidden > 0 {
        order.sort_by_key(|node| !matches!(node.tone, Tone::Good | Tone::Bad | Tone::Warning | Tone::Frozen));
        order.truncate(order.len() - hidden);
    }
    // What a node is doing gets all the room that is left.
    let (shown, widths): (&[usize], &[u16]) = match area.width {
        80.. => (&[0, 1, 2, 3, 4, 5, 6, 7], &[12, 7, 9, 5, 0, 9, 8, 7]),
        56.. => (&[0, 2, 4, 5, 6], &[12, 9, 0, 9, 8]),
        _ => (&[0, 2, 4, 5, 6], &[1, 9, 0, 7, 6]),
    };
    // Where there is little room, names have what they need: whoever hands over must be able to type one.
    let longest = nodes
        .iter()
        .map(|node| node.cells[0].chars().count())
        .max()
        .unwrap_or(0);
    let longest = u16::try_from(longest).unwrap_or(NAME_MAX).clamp(NAME_MIN, NAME_MAX);
    let widths = widths.iter().map(|width| match width {
        0 => Constraint::Fill(1),
        1 => Constraint::Length(longest),
        width => Constraint::Length(*width),
    });
    let header = Row::new(shown.iter().map(|at| HEADER[*at]));
    let row = |node: &Node| Row::new(shown.iter().map(|at| node.cells[*at].clone())).style(colours.tone(node.tone));
    let mut rows: Vec<Row> = order.into_iter().map(row).collect();
    if hidden > 0 {
        let mut cells = vec![String::new(); shown.len()];
        cells[0] = format!(" +{hidden} more");
        rows.push(Row::new(cells).style(quiet()));
    }
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

fn key_spans(colours: Colours, (key, text): (&str, &str)) -> Vec<Span<'static>> {
    vec![
        Span::styled(format!(" {key}"), colours.strong(Color::Cyan)),
        Span::styled(format!(" {text} "), quiet()),
    ]
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

/// So many of them.
pub(in crate::app) fn counted(number: u64, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", grouped(number))
}

/// What a terminal of this size shows.
#[cfg(test)]
pub(in crate::app) fn text_of(view: &View, width: u16, height: u16) -> String {
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell;
    let mut terminal = ratatui::Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| draw(frame, Colours { on: false }, view))
        .expect("drawn");
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content.chunks(width.into());
    rows.map(|row| row.iter().map(Cell::symbol).collect::<String>() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [(&str, &str); 6] = [
        ("k", "kill generator"),
        ("h", "kill handler"),
        ("s", "freeze"),
        ("+ -", "copies"),
        ("e", "read errors"),
        ("q", "quit"),
    ];

    /// The screen as text: six nodes, the last of which generates.
    fn shown(width: u16, height: u16) -> String {
        let node = |number: usize| Node {
            cells: [
                format!(" node-{number}id12"),
                "12345".into(),
                if number == 5 { "generator" } else { "handler" }.into(),
                "7".into(),
                format!("handles {number}"),
                format!("{:>7}", grouped(1234)),
                format!("{:>6}", 12),
                "  17 s".into(),
            ],
            tone: if number == 5 { Tone::Good } else { Tone::Plain },
        };
        let events: Vec<Event> = (0..20)
            .map(|number| Event {
                at: Duration::from_secs(number),
                word: "elected",
                text: format!("event {number}"),
            })
            .collect();
        let numbers = [
            ("generated", 123_456),
            ("done", 12_345),
            ("errors", 1234),
            ("in hand", 5),
            ("queued", 67),
        ];
        let proof = vec![
            (" lost 0 ".to_string(), Tone::Good),
            (" twice 0 ".to_string(), Tone::Good),
            ("  generators killed 12, last gap 0.5 s".to_string(), Tone::Quiet),
        ];
        let shards = vec![
            (" 3 shards ".to_string(), Tone::Quiet),
            ("1, 2, 3 ".into(), Tone::Plain),
        ];
        let samples = VecDeque::from([1, 2, 3]);
        let view = View {
            title: "queenright demo",
            place: "on a file with a name that is long enough for any screen, and longer".into(),
            age: "17 s".into(),
            nodes: (0..6).map(node).collect(),
            rate: 12.0,
            throughput: &samples,
            queued: 67,
            queue: &samples,
            events: events.iter().collect(),
            account: ("ledger", vec![numbered(&numbers), proof, shards]),
            keys: &KEYS,
        };
        text_of(&view, width, height)
    }

    #[test]
    fn what_matters_is_whole_on_every_screen_down_to_50_by_12() {
        for (width, height) in [(120, 40), (80, 24), (60, 16), (50, 12)] {
            let screen = shown(width, height);
            let numbers = [
                "generated 123,456",
                "done 12,345",
                "errors 1,234",
                "in hand 5",
                "queued 67",
            ];
            let proof = ["lost 0", "twice 0", "generators killed 12, last gap 0.5 s"];
            let keys = [
                "k kill generator",
                "h kill handler",
                "s freeze",
                "e read errors",
                "q quit",
            ];
            let others = [
                "queenright demo",
                "17 s",
                "generator ",
                " node-5id12 ",
                "throughput 12.0/s",
                "queue 67",
            ];
            assert_eq!(
                screen.contains("3 shards 1, 2, 3"),
                height >= ROOMY,
                "{width}x{height}:\n{screen}"
            );
            for wanted in numbers.iter().chain(&proof).chain(&keys).chain(&others) {
                assert!(screen.contains(wanted), "{width}x{height}: no {wanted}:\n{screen}");
            }
        }
        assert_eq!(
            [0, 1, 2, 1000].map(|number| counted(number, "node")),
            ["0 nodes", "1 node", "2 nodes", "1,000 nodes"]
        );
        let small = shown(50, 12);
        assert!(small.contains("more"), "{small}");
        assert!(shown(80, 24).contains("event 19") && shown(60, 16).contains("event 19"));
    }
}
