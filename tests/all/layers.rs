//! The rooms of `src/`, and which of them may use which: read from the `crate::` paths of the sources.

use std::path::{Path, PathBuf};

/// From the lowest to the highest. A file may use its own room and those before it.
const ROOMS: [(&str, &str); 8] = [
    ("error", "what can go wrong is said in the same words everywhere"),
    ("mutants", "guards are taken out the same way everywhere"),
    ("settings", "how a node behaves is known to all, and knows nobody"),
    ("message", "a message does not know where it is stored"),
    (
        "engine",
        "a store serves any caller: the node, the library and the command line",
    ),
    (
        "node",
        "one process works the same under the library and under the command line",
    ),
    ("api", "the library is built without the command line"),
    ("app", "nothing depends on the program: it is behind the feature `cli`"),
];

/// The same within the program.
const APP: [(&str, &str); 19] = [
    (
        "base64",
        "bytes as text are the same in JSON, answers of children and cursors",
    ),
    (
        "ahead",
        "lines are read ahead in the same way by a command and by a generator",
    ),
    ("args", "what was asked for is known before anything is done"),
    ("exit", "how a command ends is the same for all"),
    ("run", "a runtime, stdout and signals are the same for all"),
    ("health", "whether a process is well is asked without a store"),
    ("init", "the first process does not know what its child does"),
    (
        "systemd",
        "a service is told of by what the node tells all, and knows no command",
    ),
    (
        "password",
        "it is asked for in the same way for every engine and every lab",
    ),
    ("on_engine", "work on a queue is the same on every engine"),
    ("queues", "which queues there are is known to the store alone"),
    ("output", "what is shown does not depend on who shows it"),
    ("otel", "spans know messages, and no command"),
    ("http", "serving knows nothing of what is served"),
    ("metrics", "figures are served with and without a dashboard"),
    ("outside", "other programs at work know nothing of commands"),
    ("lab", "demo, verify and bench share it"),
    ("dashboard", "a page is served by a command, and knows none"),
    ("commands", "a command uses all of it"),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Names that follow `prefix` in the code of a file, and those in `prefix{…}` lists.
fn names_after<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let word = |text: &'a str| {
        let end = text.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        &text[..end.unwrap_or(text.len())]
    };
    let mut names = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{').and_then(|list| list.split_once('}')) {
            Some((list, _)) => names.extend(list.split(',').map(|name| word(name.trim()))),
            None => names.push(word(rest)),
        }
    }
    names
}

/// Every use of a room from one that stands before it.
fn upward(files: &[(String, String)], root: &str, prefix: &str, rooms: &[(&str, &str)]) -> Vec<String> {
    let rank = |name: &str| rooms.iter().position(|(room, _)| *room == name);
    let mut wrong = Vec::new();
    for (path, text) in files {
        let Some(inside) = path.strip_prefix(root) else {
            continue;
        };
        let home = inside.split(['/', '.']).next().unwrap_or_default();
        let Some(own) = rank(home) else { continue };
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .flat_map(|line| [line, "\n"])
            .collect();
        for name in names_after(&code, prefix) {
            if let Some(used) = rank(name).filter(|used| *used > own) {
                let (_, why) = rooms[own];
                wrong.push(format!(
                    "{path} uses {prefix}{name}, but `{home}` comes before `{}`: {why}",
                    rooms[used].0
                ));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

fn all_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    sources(&root.join("src"), &mut found);
    let read = |path: &PathBuf| {
        let name = path
            .strip_prefix(root)
            .expect("inside")
            .to_string_lossy()
            .replace('\\', "/");
        (name, std::fs::read_to_string(path).expect("text"))
    };
    found.iter().map(read).collect()
}

#[test]
fn each_room_uses_only_those_before_it() {
    let files = all_files();
    let wrong = upward(&files, "src/", "crate::", &ROOMS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let wrong = upward(&files, "src/app/", "crate::app::", &APP);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_at_the_root_is_a_room() {
    let known = |room: &str| ["lib", "main"].contains(&room) || ROOMS.iter().any(|(name, _)| *name == room);
    let app = |room: &str| APP.iter().any(|(name, _)| *name == room);
    for (path, _) in all_files() {
        let first = |inside: &str| inside.split(['/', '.']).next().unwrap_or_default().to_string();
        let room = first(path.strip_prefix("src/").expect("in src"));
        assert!(
            known(&room),
            "{path}: `{room}` is no room; see the list in tests/all/layers.rs"
        );
        if let Some(inside) = path.strip_prefix("src/app/") {
            let room = first(inside);
            assert!(
                app(&room),
                "{path}: `{room}` is no room of the program; see tests/all/layers.rs"
            );
        }
    }
}

#[test]
fn no_file_has_more_than_500_lines() {
    for (path, text) in all_files() {
        let lines = text.lines().count();
        assert!(
            lines <= 500,
            "{path} has {lines} lines: nobody holds that in their head; split it by role"
        );
    }
}

#[test]
fn a_use_of_a_later_room_is_noticed() {
    let file = |path: &str, text: &str| [(path.to_string(), text.to_string())];
    let found = |path, text| !upward(&file(path, text), "src/", "crate::", &ROOMS).is_empty();
    assert!(found("src/engine/redis.rs", "use crate::node::Node;"));
    assert!(found("src/node.rs", "fn f() { crate::app::run() }"));
    assert!(found("src/message.rs", "use crate::{error::Result, engine::Engine};"));
    assert!(!found("src/node.rs", "use crate::engine::Engine; // crate::message"));
    assert!(!found("src/engine.rs", "//! as [`crate::node`] says"));
}
