//! Hostile data on its way to a person: payloads, errors, node ids, hosts and versions with control characters, right-to-left marks,
//! HTML, very long lines and bytes that are no text, through every command that shows them. (The page has its own: `dashboard`.)

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::dashboard::board::{fail_all, hostile_host};
use crate::e2e::demo::Terminal;
use crate::fleet::{program, said};
use crate::server::RedisServer;

/// What would be seen if a terminal obeyed.
const HURT: &str = "\u{1b}]0;HURT\u{7}\u{1b}[2J\u{9b}31m\r\nforged=line \u{202e}drawkcab\u{2066}\u{61c}\u{200f}\u{2028}<script>hurt()</script>";

fn payloads() -> Vec<Vec<u8>> {
    vec![
        HURT.into(),
        b"\xff\xfe\xc3\x28\x00\x1b[2J bytes".to_vec(),
        format!("{}{HURT}", "x".repeat(900_000)).into_bytes(),
        b"{\"a\":\"\x1b[2J\"}".to_vec(),
    ]
}

/// Whether a terminal would show this as it is, line by line.
fn is_harmless(c: char) -> bool {
    let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c == '\n' || !c.is_control() && !reorders
}

fn assert_harmless(what: &str, text: &str) {
    let bad = text.char_indices().find(|(_, c)| !is_harmless(*c));
    assert!(bad.is_none(), "{what}: {bad:?}");
}

/// A queue with a hostile member, and errors of hostile messages.
fn hostile_queue(server: &RedisServer) {
    fail_all(server, "shown", &payloads(), |_| {
        format!("failed {HURT} {}", "y".repeat(4000))
    });
    hostile_host(server, "shown", HURT);
}

#[test]
fn no_command_passes_on_what_a_terminal_would_obey() {
    let server = RedisServer::start();
    hostile_queue(&server);
    for (args, lines) in [
        ("status", None),
        ("status --json", Some(1)),
        ("nodes", None),
        ("nodes --json", None),
        ("doctor", None),
        ("errors list", Some(4)),
        ("errors list --json", Some(4)),
        ("errors show 0", None),
        ("errors show 1", None),
        ("errors show 2", None),
        ("errors export", Some(4)),
        ("errors count", Some(1)),
        ("get-errors --keep --json", Some(4)),
        ("get-errors --keep", Some(4)),
        ("get-errors", Some(4)),
    ] {
        let output = program()
            .args(args.split(' '))
            .args(["--url", &server.url(), "--queue", "shown"])
            .output()
            .expect("the program starts");
        let text = String::from_utf8(output.stdout.clone()).unwrap_or_else(|_| panic!("{args}: no text"));
        assert!(output.status.success() || args == "doctor", "{args}: {}", said(&output));
        assert_harmless(args, &text);
        assert_harmless(args, &String::from_utf8(output.stderr.clone()).expect("text"));
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{args}: {text}");
        if let Some(lines) = lines {
            assert_eq!(text.lines().count(), lines, "{args}");
        }
    }
}

#[test]
fn a_watched_fleet_with_hostile_names_is_shown_as_text() {
    let server = RedisServer::start();
    hostile_queue(&server);
    let terminal = Terminal::run(&format!("status --watch --url {} -q shown", server.url()), true);
    let screen = terminal.wait("the fleet is there", |screen| {
        screen.contains("errors waiting") && screen.contains("u{1b}")
    });
    assert_harmless("the screen", &screen);
    assert_obeyed_nothing(&terminal);
}

/// Nothing hostile went to the terminal, also where it was not seen.
fn assert_obeyed_nothing(terminal: &Terminal) {
    let raw = terminal.raw();
    let text = String::from_utf8_lossy(&raw);
    for hostile in [
        "\u{1b}]0;HURT",
        "\u{9b}",
        "\u{202e}",
        "\u{2066}",
        "\u{61c}",
        "\u{200f}",
        "\u{2028}",
    ] {
        assert!(!text.contains(hostile), "{}", hostile.escape_unicode());
    }
}

/// A program that prints this for ever, or for each line that it gets.
fn script(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/usr/bin/env python3\n{text}")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    path.display().to_string()
}

#[test]
fn a_demo_of_hostile_messages_stays_readable() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    // Python reads the escapes of JSON.
    let hurt = serde_json::to_string(HURT).expect("text");
    let hurt = hurt.trim_matches('"');
    let generate = format!(
        "import json, sys, time\nwhile True:\n    print(json.dumps({{'payload': '{hurt}' + 'x' * 100000}}), flush=True)\n    \
         print('{hurt}', file=sys.stderr, flush=True)\n    time.sleep(0.05)\n"
    );
    let handle = format!(
        "import json, sys\nfor line in sys.stdin:\n    print('{hurt}', file=sys.stderr, flush=True)\n    \
         print(json.dumps({{'error': '{hurt}'}}), flush=True)\n"
    );
    let (generate, handle) = (
        script(directory.path(), "generate", &generate),
        script(directory.path(), "handle", &handle),
    );
    let args = format!(
        "demo --nodes 3 --kill-every 0 --url {} --generate {generate} --handle {handle}",
        server.url()
    );
    let mut terminal = Terminal::run(&args, true);
    terminal.wait_for("in message");
    // Its queue is open to whoever can write into its Redis.
    let keys = server.command(&["KEYS", "*:meta"]).expect("KEYS");
    let keys: Vec<String> = redis::from_redis_value(keys).expect("names");
    let queue = keys[0].trim_start_matches("{qr:").trim_end_matches("}:meta");
    hostile_host(&server, queue, HURT);
    terminal.press("e");
    // Errors that come and are read, and a stranger among the nodes.
    for _ in 0..20 {
        assert_harmless("the screen", &terminal.wait_for("lost 0  twice 0"));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_obeyed_nothing(&terminal);
}
