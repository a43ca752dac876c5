//! The paths that every message takes do not grow: their instructions are counted, since times say little on a machine that
//! others use too.
//!
//! The counts hold for one compiler and for the profile `gate` of Cargo.toml; elsewhere this says that it did not compare. To renew
//! them, after a change that is worth it: `QUEENRIGHT_COUNTS=renew cargo test --profile gate --all-features instructions`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use queenright::app::commands::bench::hot::PATHS;

use crate::fleet::{left_out, program};

const WHAT: &str = "counts of instructions";
/// How much of what it was a path may become, in percent.
const PERCENT_MAX: u64 = 110;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt")
}

/// The compiler and its target, on one line.
fn compiler() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some(format!("rustc {} {}", field("release:")?, field("host:")?))
}

/// Why the counts cannot be compared here.
fn reason() -> Option<String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Some("there is no valgrind; scripts/test installs it".into());
    }
    let built = std::path::Path::new(program().get_program())
        .parent()
        .map(std::path::Path::to_path_buf);
    if !built.is_some_and(|built| built.ends_with("gate")) {
        return Some("the program was built in another profile than `gate`".into());
    }
    let shapes = |name: &str| name.starts_with("CARGO_PROFILE_") || name == "RUSTFLAGS";
    let changed = std::env::vars().find(|(name, _)| shapes(name));
    changed.map(|(name, value)| format!("the program was built with {name}={value}, not as Cargo.toml says"))
}

/// The instructions of one run.
fn count(path: &str, times: u32) -> u64 {
    // Only where the program is, and what it is given, are the same for all.
    let bare = program();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(bare.get_program())
        .args(["bench-hot", path, &times.to_string()])
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{path}: {said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.unwrap_or_else(|| panic!("{path}: no count in {said}"));
    collected.1.trim().parse().expect("a number")
}

/// What twenty more times cost: starting the program is in neither.
fn cost(path: &str) -> u64 {
    count(path, 25).saturating_sub(count(path, 5)) / 20
}

#[test]
fn the_paths_that_every_message_takes_need_no_more_instructions_than_before() {
    if let Some(reason) = reason() {
        left_out(WHAT, &reason);
        return;
    }
    let Some(compiler) = compiler() else {
        left_out(WHAT, "rustc does not tell its version");
        return;
    };
    if std::env::var("QUEENRIGHT_COUNTS").is_ok_and(|value| value == "renew") {
        let lines: Vec<String> = PATHS.iter().map(|path| format!("{path} {}", cost(path))).collect();
        std::fs::write(file(), format!("{compiler}\n{}\n", lines.join("\n"))).expect("the file can be written");
        return;
    }
    let text = std::fs::read_to_string(file()).expect("the counts are there");
    let (counted_with, lines) = text.split_once('\n').expect("lines");
    if counted_with != compiler {
        left_out(
            WHAT,
            &format!("they were counted with {counted_with}, and this is {compiler}"),
        );
        return;
    }
    let before: BTreeMap<&str, u64> = lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(path, count)| (path, count.parse().expect("a number")))
        .collect();
    let grown: Vec<String> = PATHS
        .iter()
        .filter_map(|path| {
            let (before, now) = (before[path], cost(path));
            println!("{path}: {now} instructions, {before} before");
            (now * 100 > before * PERCENT_MAX).then(|| format!("{path}: {now} instructions, {before} before"))
        })
        .collect();
    assert!(
        grown.is_empty(),
        "more than a tenth above benches/instructions.txt: {grown:?}; if that is worth it, renew them with \
         QUEENRIGHT_COUNTS=renew cargo test --profile gate --all-features instructions"
    );
}
