//! Fleets on an SQLite file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::fleet::{Fleet, Line, program, said, within};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// No number has two outcomes that a store confirmed.
fn settled_once(lines: &[Line]) {
    let mut outcomes: BTreeMap<u64, u32> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.is("done") || line.is("error")) {
        *outcomes.entry(line.number.expect("a number")).or_default() += 1;
    }
    let twice: Vec<_> = outcomes.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "settled twice: {twice:?}");
}

fn is_sound(path: &Path) {
    let connection = Connection::open(path).expect("the file opens");
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checked");
    assert_eq!(sound, "ok");
}

#[test]
fn a_fleet_on_a_file_loses_nothing_to_kills_of_any_process() {
    let directory = directory();
    let path = directory.path().join("queue.db");
    // `scripts/prove` asks for more.
    let kills = std::env::var("QUEENRIGHT_KILLS").map_or(30, |text| text.parse().expect("a number"));
    let mut fleet = Fleet::in_file(&path)
        .copies(4)
        .args("--interval 1ms --work 0..5ms --error-rate 0.1 --lease 400ms --concurrency 4")
        .start();
    let mut running: Vec<usize> = (0..4).collect();
    for _ in 0..kills {
        fleet.wait_for_more("done", 5);
        let victim = running.swap_remove(fastrand::usize(..running.len()));
        fleet.kill9(victim);
        running.push(fleet.add(""));
    }
    // No more messages than there are; whoever generates stops, and the others go on.
    let limit = fleet.status().published + 200;
    for copy in running.drain(..) {
        fleet.kill9(copy);
    }
    for _ in 0..3 {
        fleet.add(&format!("--messages {limit}"));
    }
    let status = fleet.wait_through(limit.max(fleet.status().published));
    settled_once(&fleet.lines());
    assert_eq!(fleet.errors().len() as u64, status.failed, "every error is printed");
    drop(fleet);
    is_sound(&path);
}

#[test]
fn a_stopped_generator_on_a_file_is_replaced_and_comes_back_deposed() {
    let directory = directory();
    let fleet = Fleet::in_file(&directory.path().join("queue.db"))
        .copies(3)
        .args("--interval 20ms --work 0 --error-rate 0 --lease 400ms")
        .start_led();
    fleet.wait_for_more("done", 5);
    // A process that is frozen inside its transaction holds up the rest, as is documented: then once more.
    let replaced = || {
        let lines = fleet.lines();
        lines
            .iter()
            .any(|line| line.is("elected") && line.copy != 0)
            .then_some(())
    };
    let frozen = (0..10).any(|_| {
        fleet.stop(0);
        let replaced = within(Duration::from_secs(6), replaced).is_some();
        fleet.cont(0);
        replaced
    });
    assert!(frozen, "nobody took over");
    fleet.wait_for("it comes back deposed", |lines| {
        lines.iter().any(|line| line.is("deposed") && line.copy == 0)
    });
    settled_once(&fleet.lines());
}

#[test]
fn whoever_waits_for_the_lock_says_who_holds_it_and_goes_on_after() {
    let directory = directory();
    let path = directory.path().join("queue.db");
    let mut fleet = Fleet::in_file(&path)
        .copies(2)
        .args("--interval 20ms --work 0 --error-rate 0")
        .start();
    fleet.wait_for_more("done", 3);
    let holder = Connection::open(&path).expect("the file opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let pid = format!("by process {}", std::process::id());
    fleet.wait_for("the holder is named", |lines| {
        let away = lines.iter().filter(|line| line.is("away"));
        away.into_iter().any(|line| {
            cfg!(not(target_os = "linux")) || line.fields["reason"].as_str().is_some_and(|why| why.contains(&pid))
        })
    });
    holder.execute_batch("COMMIT").expect("released");
    fleet.wait_for_more("done", 5);
    fleet.nobody_exited_but(&[]);
}

#[test]
fn files_that_are_not_ours_get_one_line_and_stay_as_they_are() {
    let directory = directory();
    let place = |name: &str| directory.path().join(name);
    let foreign = Connection::open(place("foreign.db")).expect("created");
    foreign.execute_batch("CREATE TABLE theirs (x)").expect("created");
    drop(foreign);
    std::fs::write(
        place("text.db"),
        "This is no database at all, but long enough to be read as one.\n".repeat(40),
    )
    .expect("written");
    let newer = Fleet::in_file(&place("newer.db")).args("--interval 20ms").start();
    newer.wait_for_more("published", 1);
    drop(newer);
    let newer = Connection::open(place("newer.db")).expect("opened");
    newer.execute_batch("PRAGMA user_version = 99").expect("written");
    drop(newer);
    for (file, word) in [
        ("foreign.db", "another program's database"),
        ("text.db", "no SQLite database"),
        ("newer.db", "newer queenright"),
        ("missing/queue.db", "directory exists"),
    ] {
        let before = std::fs::read(place(file)).ok();
        for command in ["start", "get-errors", "status"] {
            let started = Instant::now();
            let url = format!("sqlite:{}", place(file).display());
            let output = program()
                .args([command, "--url", &url])
                .output()
                .expect("the program starts");
            let line = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{file}: {}", said(&output));
            // Only a copy would make the file.
            let is_missing = word == "directory exists" && command != "start";
            let word = if is_missing { "no such file" } else { word };
            assert!(line.contains(word) && line.lines().count() == 1, "{file}: {line}");
            assert!(started.elapsed() < Duration::from_secs(20), "{file}: it does not wait");
        }
        assert_eq!(std::fs::read(place(file)).ok(), before, "{file} is untouched");
    }
}
