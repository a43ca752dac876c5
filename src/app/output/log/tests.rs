//! What is written, with a clock and a terminal of the tests' own.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::{LineFormat, Log};
use crate::app::output::quote::hostile;
use crate::app::output::quote::read::parts;
use crate::node::event::{Event, Observer};

const START_MS: u64 = 1_794_734_048_123;

/// Keeps every write apart.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<String>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Desk {
    log: Log,
    paper: Paper,
    now: Arc<AtomicU64>,
}

const PLAIN: LineFormat = LineFormat::Text { colour: false };

fn desk(format: LineFormat, quiet: bool, watched: bool) -> Desk {
    let (paper, now) = (Paper::default(), Arc::new(AtomicU64::new(START_MS)));
    let clock = Arc::clone(&now);
    let log = Log::new(
        Box::new(paper.clone()),
        format,
        quiet,
        watched,
        Box::new(move || clock.load(Ordering::Relaxed)),
    );
    Desk { log, paper, now }
}

impl Desk {
    fn later(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::Relaxed);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.paper.0.lock().unwrap())
    }

    fn lines(&self) -> Vec<String> {
        self.take().concat().lines().map(String::from).collect()
    }
}

fn done(number: u64) -> Event {
    Event::Done {
        epoch: 4,
        number,
        deliveries: 1,
        payload: Bytes::from(number.to_string()),
    }
}

fn error(payload: &'static [u8], error: &str) -> Event {
    Event::Error {
        epoch: 4,
        number: 17,
        deliveries: 2,
        payload: Bytes::from_static(payload),
        error: error.into(),
    }
}

fn every_event() -> Vec<Event> {
    vec![
        Event::Joined,
        Event::Elected {
            epoch: 4,
            next_number: 17,
        },
        Event::Deposed { epoch: None },
        Event::Deposed { epoch: Some(4) },
        Event::Published {
            epoch: 4,
            number: 17,
            payload: Bytes::from_static(b"17"),
            cause: None,
        },
        done(17),
        error(b"17", "no luck"),
        Event::Redelivered {
            epoch: 4,
            number: 17,
            deliveries: 2,
            payload: Bytes::new(),
        },
        Event::Reaped {
            victim: "x9".into(),
            redelivered: 3,
            failed: 1,
        },
        Event::Rewound {
            next_number: 5,
            lacked: 12,
        },
        Event::Replayed {
            messages: 8000,
            unknown: 12,
        },
        Event::Untold { messages: 3 },
        Event::Purged,
        Event::Blocked { why: "groups".into() },
        Event::Away {
            reason: "connection refused".into(),
        },
        Event::Reconnected,
        Event::Relocated {
            server: "10.0.0.2:6379".into(),
        },
        Event::Left,
    ]
}

#[test]
fn text_lines_are_time_name_and_pairs() {
    let desk = desk(PLAIN, false, false);
    desk.log.observe("k3f9", &every_event());
    let wanted = "\
joined node=k3f9
elected node=k3f9 epoch=4 next_number=17
deposed node=k3f9
deposed node=k3f9 epoch=4
published node=k3f9 epoch=4 number=17 payload=17
done node=k3f9 epoch=4 number=17 deliveries=1 payload=17
error node=k3f9 epoch=4 number=17 deliveries=2 payload=17 error=\"no luck\"
redelivered node=k3f9 epoch=4 number=17 deliveries=2 payload=\"\"
reaped node=k3f9 victim=x9 redelivered=3 failed=1
rewound node=k3f9 next_number=5 lacked=12
replayed node=k3f9 messages=8000 unknown=12
untold node=k3f9 messages=3
purged node=k3f9
blocked node=k3f9 why=groups
away node=k3f9 reason=\"connection refused\"
reconnected node=k3f9
relocated node=k3f9 server=10.0.0.2:6379
left node=k3f9";
    let wanted: Vec<_> = wanted
        .lines()
        .map(|line| format!("2026-11-15T09:14:08.123Z {line}"))
        .collect();
    assert_eq!(desk.lines(), wanted);
}

#[test]
fn json_has_the_same_names_as_text() {
    let (text, json) = (desk(PLAIN, false, false), desk(LineFormat::Json, false, false));
    text.log.observe("k3f9", &every_event());
    json.log.observe("k3f9", &every_event());
    for (text, json) in text.lines().iter().zip(json.lines()) {
        let json: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).unwrap();
        let words: Vec<_> = text.split(' ').collect();
        assert_eq!(json["ts"], words[0]);
        assert_eq!(json["event"], words[1]);
        assert!(json["level"].is_string());
        let mut names: Vec<_> = words[2..]
            .iter()
            .filter_map(|word| Some(word.split_once('=')?.0))
            .collect();
        names.extend(["ts", "level", "event"]);
        names.sort_unstable();
        let mut keys: Vec<_> = json.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, names);
    }
}

#[test]
fn payloads_that_are_no_text_are_base64_in_json_and_escaped_in_text() {
    let json = desk(LineFormat::Json, false, false);
    json.log.observe("n", &[error(b"\xff\x00", "\x1b[2Jboom\n")]);
    let line = json.lines().remove(0);
    assert!(!line.chars().any(char::is_control), "{line}");
    let read: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(read["payload_base64"], "/wA=");
    assert_eq!(read["error"], "\x1b[2Jboom\n");
    assert_eq!(read["level"], "error");
    assert!(read.get("payload").is_none());

    let text = desk(PLAIN, false, false);
    text.log.observe("n", &[error(b"\xff\x00", "a \"b\"\n\x1b[2J")]);
    let line = text.lines().remove(0);
    assert!(
        line.ends_with(r#"payload="\xff\u{0}" error="a \"b\"\n\u{1b}[2J""#),
        "{line}"
    );
}

#[test]
fn no_payload_and_no_error_forges_a_field_of_a_text_line() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..2000 {
        let payload = hostile::bytes(&mut random);
        let said = String::from_utf8_lossy(&hostile::bytes(&mut random)).into_owned();
        let desk = desk(PLAIN, false, false);
        let mut event = error(b"", &said);
        if let Event::Error { payload: of, .. } = &mut event {
            *of = Bytes::from(payload.clone());
        }
        desk.log.observe("n", &[event]);
        let lines = desk.lines();
        assert_eq!(lines.len(), 1, "seed {seed}");
        let parts = parts(&lines[0]);
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["", "", "node", "epoch", "number", "deliveries", "payload", "error"],
            "seed {seed}: {lines:?}"
        );
        assert_eq!(
            (&parts[6].1, parts[7].1.as_slice()),
            (&payload, said.as_bytes()),
            "seed {seed}: {lines:?}"
        );
    }
}

#[test]
fn a_batch_is_one_write() {
    let desk = desk(PLAIN, false, false);
    desk.log.observe("n", &(0..1000).map(done).collect::<Vec<_>>());
    let writes = desk.take();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].lines().count(), 1000);
    desk.log.observe("n", &[]);
    assert!(desk.take().is_empty());
}

#[test]
fn quiet_hides_messages_and_nothing_else() {
    let desk = desk(PLAIN, true, false);
    assert!(!desk.log.wants_messages());
    desk.log.observe("n", &every_event());
    assert_eq!(
        desk.lines().len(),
        every_event().iter().filter(|event| !event.is_per_message()).count()
    );
}

#[test]
fn a_flood_on_a_terminal_becomes_a_rate_and_calms_down_again() {
    let desk = desk(PLAIN, false, true);
    desk.log.observe("n", &(0..1000).map(done).collect::<Vec<_>>());
    assert_eq!(desk.lines().len(), 200);
    desk.later(500);
    desk.log.observe("n", &[error(b"x", "e"), Event::Left]);
    assert_eq!(desk.lines(), ["2026-11-15T09:14:08.623Z left node=n"]);
    desk.later(500);
    desk.log.tick();
    assert_eq!(
        desk.lines(),
        ["2026-11-15T09:14:09.123Z rate node=n published=0 done=1000 errors=1"]
    );
    // Still flooded: not one line until a calm second has passed.
    desk.log.observe("n", &(0..100).map(done).collect::<Vec<_>>());
    assert!(desk.lines().is_empty());
    desk.later(1000);
    desk.log.observe("n", &[done(1)]);
    let lines = desk.lines();
    assert!(
        lines[0].contains(" rate node=n published=0 done=100 errors=0"),
        "{lines:?}"
    );
    assert!(lines[1].contains(" done node=n "), "{lines:?}");
    desk.later(1000);
    desk.log.tick();
    assert!(desk.lines().is_empty());
}

#[test]
fn rates_are_per_second_however_long_the_window_was() {
    let desk = desk(PLAIN, false, true);
    desk.log.observe("n", &(0..1000).map(done).collect::<Vec<_>>());
    desk.lines();
    desk.later(2000);
    desk.log.tick();
    assert!(desk.lines()[0].contains("done=500"));
}

#[test]
fn a_clock_that_is_set_back_does_not_silence_the_log() {
    let desk = desk(PLAIN, false, true);
    desk.log.observe("n", &(0..1000).map(done).collect::<Vec<_>>());
    desk.now.store(0, Ordering::Relaxed);
    desk.log.tick();
    desk.later(1000);
    desk.log.tick();
    desk.lines();
    desk.log.observe("n", &[done(1)]);
    assert_eq!(desk.lines().len(), 1);
}

#[test]
fn without_a_terminal_every_message_has_its_line() {
    let desk = desk(PLAIN, false, false);
    for _ in 0..10 {
        desk.log.observe("n", &(0..1000).map(done).collect::<Vec<_>>());
    }
    assert_eq!(desk.lines().len(), 10_000);
}

#[test]
fn notes_are_warnings() {
    let text = desk(PLAIN, true, false);
    text.log.note("mind the gap");
    assert_eq!(text.lines(), ["2026-11-15T09:14:08.123Z note message=\"mind the gap\""]);
    let json = desk(LineFormat::Json, true, false);
    json.log.note("mind the gap");
    let read: serde_json::Value = serde_json::from_str(&json.lines()[0]).unwrap();
    assert_eq!((&read["level"], &read["event"]), (&"warn".into(), &"note".into()));
}

#[test]
fn colour_is_only_around_the_name() {
    let desk = desk(LineFormat::Text { colour: true }, false, false);
    desk.log.observe("n", &[error(b"x", "e"), done(1)]);
    let lines = desk.lines();
    assert!(lines[0].contains(" \x1b[31merror\x1b[0m node=n"), "{lines:?}");
    assert!(!lines[1].contains('\x1b'), "{lines:?}");
}

#[test]
fn a_closed_log_does_not_stop_the_work() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let log = Log::new(Box::new(Broken), PLAIN, false, false, Box::new(|| 0));
    log.observe("n", &every_event());
    log.note("still here");
}

#[test]
fn payloads_are_cut_to_what_was_asked_for_and_never_within_a_character() {
    let payload = Bytes::from("é".repeat(150));
    let event = |payload| Event::Published {
        epoch: 1,
        number: 2,
        payload,
        cause: None,
    };
    let line = |bytes, payload: &Bytes| {
        let mut desk = desk(PLAIN, false, false);
        desk.log = desk.log.with_payloads_to(bytes);
        desk.log.observe("n", &[event(payload.clone())]);
        let text = desk.take().concat();
        text.trim_end()
            .split_once(' ')
            .expect("a time, and the rest")
            .1
            .to_string()
    };
    assert_eq!(
        line(300, &payload),
        format!("published node=n epoch=1 number=2 payload={}", "é".repeat(150))
    );
    let cut = |characters| {
        format!(
            "published node=n epoch=1 number=2 payload={} payload_bytes=300",
            "é".repeat(characters)
        )
    };
    assert_eq!(line(200, &payload), cut(100));
    assert_eq!(line(201, &payload), cut(100));
    assert_eq!(line(0, &payload), "published node=n epoch=1 number=2");
    let no_text = Bytes::from(vec![0x80; 9]);
    assert!(line(4, &no_text).ends_with("payload_bytes=9"), "{}", line(4, &no_text));
}
