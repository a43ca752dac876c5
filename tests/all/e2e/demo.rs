//! `demo`: without a terminal, in one, and when it dies.

use std::io::{Read, Write};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::fleet::{PATIENCE, PROGRAM, program, said, signal, within};
use crate::server::RedisServer;

/// How long a copy may outlive the demo: 3 s on a machine that has nothing else to do. One that does not notice stays
/// for ever.
const GONE_MAX: Duration = Duration::from_secs(20);

/// The program in a terminal of its own.
pub struct Terminal {
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    parser: Arc<Mutex<vt100::Parser>>,
    /// Every byte that the program has written.
    raw: Arc<Mutex<Vec<u8>>>,
    temporary: tempfile::TempDir,
}

impl Terminal {
    fn demo(args: &str, no_color: bool) -> Self {
        Self::run(&format!("demo {args}"), no_color)
    }

    pub fn run(args: &str, no_color: bool) -> Self {
        Self::of(PROGRAM, args, no_color)
    }

    /// Any program, such as one that runs ours elsewhere.
    pub fn of(program: &str, args: &str, no_color: bool) -> Self {
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let temporary = tempfile::tempdir().expect("a directory");
        let mut command = CommandBuilder::new(program);
        command.args(args.split_whitespace());
        command.env("TMPDIR", temporary.path());
        command.env("TERM", "xterm-256color");
        if no_color {
            command.env("NO_COLOR", "1");
        } else {
            command.env_remove("NO_COLOR");
        }
        let child = pair.slave.spawn_command(command).expect("the demo starts");
        let mut reader = pair.master.try_clone_reader().expect("readable");
        let writer = pair.master.take_writer().expect("writable");
        let parser = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (feed, keep) = (parser.clone(), raw.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut parser = feed.lock().unwrap_or_else(PoisonError::into_inner);
                parser.process(&buffer[..count]);
                keep.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&buffer[..count]);
            }
        });
        Self {
            child,
            master: pair.master,
            writer,
            parser,
            raw,
            temporary,
        }
    }

    pub fn raw(&self) -> Vec<u8> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn text(&self) -> String {
        let parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        parser.screen().contents()
    }

    pub fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).expect("the demo reads keys");
        self.writer.flush().expect("the demo reads keys");
    }

    fn resize(&self, rows: u16, cols: u16) {
        let mut parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        parser.screen_mut().set_size(rows, cols);
        drop(parser);
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        self.master.resize(size).expect("a new size");
    }

    /// Waits until the screen is as described.
    pub fn wait(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let found = within(PATIENCE, || Some(self.text()).filter(|text| holds(text)));
        found.unwrap_or_else(|| panic!("waited in vain until {what}; the screen shows\n{}", self.text()))
    }

    pub fn wait_for(&self, text: &str) -> String {
        self.wait(&format!("there is {text:?}"), |screen| screen.contains(text))
    }

    /// How many cells have a colour.
    fn coloured(&self) -> usize {
        let parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        let screen = parser.screen();
        let cells = (0..24).flat_map(|row| (0..80).filter_map(move |column| screen.cell(row, column)));
        let plain =
            |cell: &vt100::Cell| (cell.fgcolor(), cell.bgcolor()) == (vt100::Color::Default, vt100::Color::Default);
        cells.filter(|cell| !plain(cell)).count()
    }

    /// Quits, and returns the exit code.
    pub fn quit(mut self) -> u32 {
        self.press("q");
        let status = within(PATIENCE, || self.child.try_wait().expect("a child of ours")).expect("it ends");
        self.wait_for("lost 0  twice 0");
        let left: Vec<_> = std::fs::read_dir(self.temporary.path()).expect("there").collect();
        assert!(left.is_empty(), "{left:?}");
        status.exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// How many nodes have this role: their rows begin with name, pid and role.
pub fn rows(screen: &str, role: &str) -> usize {
    let rows = screen.lines().filter(|line| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        words.len() == 3 && words[1].parse::<u32>().is_ok() && words[2] == role
    });
    rows.count()
}

/// Processes whose parent this is.
fn children(pid: u32) -> Vec<u32> {
    let output = Command::new("ps")
        .args(["-A", "-o", "pid=,ppid="])
        .output()
        .expect("ps is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().filter_map(|word| word.parse().ok());
        Some((words.next()?, words.next()?))
    });
    pairs
        .filter(|(_, parent)| *parent == pid)
        .map(|(child, _): (u32, u32)| child)
        .collect()
}

fn is_running(pid: u32) -> bool {
    let output = Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output()
        .expect("ps is there");
    let stat = String::from_utf8_lossy(&output.stdout);
    !stat.trim().is_empty() && !stat.trim().starts_with('Z')
}

#[test]
fn without_a_terminal_it_prints_events_and_accounts_for_every_message() {
    let line = "demo --seconds 300 --messages 120 --kill-every 2s --interval 50ms --work 0..50ms";
    let output = program()
        .args(line.split_whitespace())
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("generated 120  ") && text.contains("lost 0  twice 0\n"),
        "{text}"
    );
    let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    assert!(
        count("kill -9") >= 1 && count("elected") >= 2 && count("error") >= 1,
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn it_runs_on_a_redis_too_on_a_queue_of_its_own() {
    let server = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let line = "demo --kill-every 0 --interval 0 --work 0 --messages 2000 --error-rate 0.1 --url";
    let output = program()
        .args(line.split_whitespace())
        .arg(&url)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("generated 2000  ") && text.contains("lost 0  twice 0\n"),
        "{text}"
    );
}

/// Runs it on this store, and returns what it printed.
fn ran(args: &str, servers: &[RedisServer]) -> Output {
    let mut demo = program();
    demo.args(args.split_whitespace());
    for server in servers {
        demo.args(["--url", &server.url()]);
    }
    demo.output().expect("the program starts")
}

/// Of the account the line about the shards, and how many messages each has generated.
fn shards(text: &str) -> (&str, Vec<u64>) {
    let line = text.lines().find(|line| line.contains(" shards  generated "));
    let line = line.unwrap_or_else(|| panic!("no line about the shards:\n{text}"));
    let generated = line.split("  ").nth(1).and_then(|part| part.strip_prefix("generated "));
    let numbers = generated.expect("a part").split(" / ");
    (line, numbers.map(|number| number.parse().expect("a number")).collect())
}

#[test]
fn on_shards_it_accounts_for_every_message_in_files_of_its_own() {
    let temporary = tempfile::tempdir().expect("a directory");
    let args = "demo --shards 3 --seconds 300 --messages 150 --kill-every 2s --interval 30ms --work 0..20ms";
    let mut demo = program();
    demo.args(args.split_whitespace()).env("TMPDIR", temporary.path());
    let output = demo.output().expect("the program starts");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("generated 150  ") && text.contains("lost 0  twice 0\n"),
        "{text}"
    );
    let (line, generated) = shards(&text);
    assert!(line.contains("  one sequence, without gap or repeat"), "{text}");
    assert!(
        generated.len() == 3 && generated.iter().all(|count| *count > 30),
        "{text}"
    );
    // Each election is told once, whatever the number of shards.
    let epochs = (1..20).map(|epoch| text.matches(&format!(", epoch {epoch}\n")).count());
    let elected = epochs
        .filter(|count| *count > 0)
        .inspect(|count| assert_eq!(*count, 1, "{text}"));
    let kills = text.lines().filter(|line| line.contains("kill -9")).count();
    assert!(kills >= 1 && elected.count() >= 2, "{text}");
    let left: Vec<_> = std::fs::read_dir(temporary.path()).expect("there").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn on_shards_a_message_that_one_server_loses_is_found_and_one_that_was_there_before_is_not_its_affair() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let args = "--shards 3 --queue kept --error-rate 0 --interval 0 --work 0";
    let first = ran(&format!("demo {args} --messages 300"), &servers);
    let text = String::from_utf8_lossy(&first.stdout);
    assert!(
        first.status.success() && text.contains("generated 300  "),
        "{}",
        said(&first)
    );
    // The sequence goes on from 300.
    let second = ran(&format!("demo {args} --messages 600 --seconds 5"), &servers);
    let text = String::from_utf8_lossy(&second.stdout);
    assert!(
        second.status.success() && text.contains("generated 300  "),
        "{}",
        said(&second)
    );
    assert!(shards(&text).0.contains("without gap or repeat"), "{text}");

    let queue = || {
        let keys = servers[1]
            .command(&["KEYS", "{qs:kept/1.*}:queue"])
            .expect("it answers");
        let keys: Vec<String> = redis::from_redis_value(keys).expect("keys");
        keys.into_iter().next()
    };
    let thief = std::thread::scope(|scope| {
        let taken = scope.spawn(|| {
            within(PATIENCE, || {
                let taken = servers[1].command(&["LPOP", &queue()?]).ok()?;
                (taken != redis::Value::Nil).then_some(())
            })
        });
        let args = "demo --shards 3 --queue kept --interval 5ms --work 100ms --concurrency 1 --batch 1 --seconds 3";
        let robbed = ran(&format!("{args} --kill-every 0 --nodes 3"), &servers);
        taken.join().expect("it ends").expect("something waits there");
        robbed
    });
    assert_eq!(thief.status.code(), Some(1), "{}", said(&thief));
    let line = String::from_utf8_lossy(&thief.stderr);
    assert!(
        line.contains("lost, published and without an outcome: 1000000000"),
        "{line}"
    );
}

#[test]
fn on_shards_a_server_that_is_away_is_named_at_the_beginning_and_in_the_end() {
    let mut servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let mut demo = program();
    let args = "demo --shards 2 --seconds 4 --kill-every 0 --interval 10ms --work 0";
    demo.args(args.split_whitespace());
    demo.args(["--url", &servers[0].url(), "--url", &servers[1].url()]);
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(|| demo.output().expect("the program starts"));
        let work = || {
            servers[1]
                .command(&["DBSIZE"])
                .is_ok_and(|size| size != redis::Value::Int(0))
        };
        within(PATIENCE, || work().then_some(())).expect("it is under way");
        servers[1].kill();
        run.join().expect("it ends")
    });
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    let (text, line) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(text.contains("away        shard 1: "), "{text}");
    let says = "shard 1 does not answer, so nobody can account for its messages";
    assert!(line.contains(says), "{line}");
    let late = demo.output().expect("the program starts");
    assert_eq!(late.status.code(), Some(69), "{}", said(&late));
    let port = format!(":{}", servers[1].port());
    assert!(late.stdout.is_empty() && said(&late).contains(&port), "{}", said(&late));
}

#[test]
fn when_it_is_killed_no_copy_stays_behind_not_even_a_frozen_one() {
    let temporary = tempfile::tempdir().expect("a directory");
    let mut demo = program();
    demo.args(["demo", "--kill-every", "0", "--nodes", "3", "--work", "1m"]);
    demo.env("TMPDIR", temporary.path()).stdout(std::process::Stdio::null());
    let mut demo = demo.spawn().expect("the program starts");
    let copies = within(PATIENCE, || {
        Some(children(demo.id())).filter(|copies| copies.len() == 3)
    });
    let copies = copies.expect("three copies");
    let book = temporary.path();
    let written = |number: usize| {
        let directory = std::fs::read_dir(book).ok()?.next()?.ok()?.path();
        std::fs::read_to_string(directory.join(format!("book-{number}")))
            .ok()
            .filter(|text| text.contains("joined"))
    };
    within(PATIENCE, || {
        (0..3).all(|number| written(number).is_some()).then_some(())
    })
    .expect("all have joined");
    signal(copies[1], "STOP");
    demo.kill().expect("a child of ours");
    demo.wait().expect("a child of ours");
    let gone = within(GONE_MAX, || (!copies.iter().any(|pid| is_running(*pid))).then_some(()));
    let left: Vec<_> = copies.iter().filter(|pid| is_running(**pid)).collect();
    assert!(gone.is_some(), "still there: {left:?}");
}

#[test]
fn the_screen_shows_the_fleet_and_the_keys_do_what_they_say() {
    let args = "--kill-every 0 --interval 100ms --work 0..200ms --error-rate 0.05 --lease 1s";
    let mut terminal = Terminal::demo(args, false);
    let all = |screen: &str| rows(screen, "generator") == 1 && rows(screen, "handler") == 4;
    let screen = terminal.wait("one generates and four handle", all);
    for text in [
        "lost 0  twice 0",
        "generated ",
        "throughput ",
        "queue ",
        "q quit",
        "published ",
    ] {
        assert!(screen.contains(text), "{text:?} is missing\n{screen}");
    }
    assert!(terminal.coloured() > 0);

    terminal.press("k");
    terminal.wait_for("the generator, ");
    terminal.wait_for("generators killed 1");
    terminal.wait("another one is elected", |screen| {
        all(screen) && screen.contains("last gap ")
    });

    terminal.press("h");
    terminal.wait_for("a handler, ");
    terminal.wait("the fleet is complete again", all);

    terminal.press("s");
    terminal.wait("one is frozen", |screen| rows(screen, "frozen") == 1);
    terminal.wait_for("transaction");
    terminal.wait_for("(SIGCONT)");
    terminal.wait("it is back", all);

    terminal.press("+");
    terminal.wait("there are five handlers", |screen| rows(screen, "handler") == 5);
    terminal.press("-");
    terminal.wait_for("(SIGTERM)");
    terminal.wait("there are four handlers", all);

    terminal.press("e");
    terminal.wait_for("(get-errors --json)");

    terminal.resize(40, 120);
    terminal.wait("it fills the larger screen", |screen| {
        screen.lines().count() == 40 && screen.lines().last().is_some_and(|line| line.contains("q quit"))
    });
    terminal.resize(24, 80);
    terminal.wait("it fits again", |screen| {
        screen.lines().last().is_some_and(|line| line.contains("q quit")) && screen.contains("lost 0  twice 0")
    });
    assert_eq!(terminal.quit(), 0);
}

#[test]
fn no_color_has_no_colours() {
    let terminal = Terminal::demo("--kill-every 1s --interval 50ms --work 0..50ms", true);
    terminal.wait("there is much to be coloured", |screen| {
        screen.contains("kill -9") && screen.contains("error") && rows(screen, "generator") == 1
    });
    assert_eq!(terminal.coloured(), 0);
    assert_eq!(terminal.quit(), 0);
}
