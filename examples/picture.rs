//! Draws `docs/demo.svg` from a real run of `queenright demo` in a pseudo-terminal: `scripts/picture`.
//!
//! Arguments: the program, the seconds to wait before the picture is taken, and the options of the demo.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;
/// A cell, in pixels.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 18.0;

fn main() {
    let mut args = std::env::args().skip(1);
    let program = args.next().expect("the program");
    let seconds: u64 = args.next().and_then(|text| text.parse().ok()).expect("seconds");
    let size = PtySize {
        rows: ROWS,
        cols: COLUMNS,
        ..PtySize::default()
    };
    let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new(program);
    command.arg("demo");
    command.args(args);
    command.env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR");
    let mut child = pair.slave.spawn_command(command).expect("the demo starts");
    let mut reader = pair.master.try_clone_reader().expect("readable");
    let mut writer = pair.master.take_writer().expect("writable");
    let parser = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
    let feed = parser.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            feed.lock().expect("no panic").process(&buffer[..count]);
        }
    });
    std::thread::sleep(Duration::from_secs(seconds));
    let picture = svg(parser.lock().expect("no panic").screen());
    writer.write_all(b"q").expect("the demo reads keys");
    child.wait().expect("it ends");
    std::io::stdout().write_all(picture.as_bytes()).expect("stdout");
}

fn svg(screen: &vt100::Screen) -> String {
    let (width, height) = (WIDTH * f32::from(COLUMNS) + 24.0, HEIGHT * f32::from(ROWS) + 24.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-size=\"14\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\">\n\
         <title>queenright demo</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1d23\"/>\n"
    );
    for row in 0..ROWS {
        let y = 12.0 + HEIGHT * (f32::from(row) + 0.75);
        let mut column = 0;
        while column < COLUMNS {
            let style = style(screen.cell(row, column).expect("on the screen"));
            let (from, mut text) = (column, String::new());
            while column < COLUMNS {
                let cell = screen.cell(row, column).expect("on the screen");
                if self::style(cell) != style {
                    break;
                }
                text.push_str(if cell.has_contents() { cell.contents() } else { " " });
                column += 1;
            }
            if text.trim().is_empty() {
                continue;
            }
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            let (x, length) = (12.0 + WIDTH * f32::from(from), WIDTH * f32::from(column - from));
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\" {style}>{text}</text>"
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

fn style(cell: &vt100::Cell) -> String {
    let colour = match cell.fgcolor() {
        vt100::Color::Idx(1 | 9) => "#ff6b6b",
        vt100::Color::Idx(2 | 10) => "#7bd88f",
        vt100::Color::Idx(3 | 11) => "#ffd166",
        vt100::Color::Idx(6 | 14) => "#6cc7e0",
        _ => "#d8dbe2",
    };
    let weight = if cell.bold() { " font-weight=\"bold\"" } else { "" };
    let opacity = if cell.dim() { " opacity=\"0.55\"" } else { "" };
    format!("fill=\"{colour}\"{weight}{opacity}")
}
