//! A program of one's own: the lines for Cargo.toml are those that it needs, and what the compiler says to the commonest mistakes is
//! what `docs/examples.md` says.
//!
//! `rustc` alone checks a small program against the library as it was built for this binary: a fraction of a second each. Cargo would
//! build all dependencies anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::docs::page::{ROOT, blocks, read};

const PAGE: &str = "docs/examples.md";

/// What a user would write.
const RIGHT: &str = r#"
use queenright::{Failure, Message, shutdown};

async fn handle(message: Message) -> Result<(), Failure> {
    drop(message);
    Ok(())
}

pub async fn start() -> queenright::Result<()> {
    queenright::on("redis://localhost")
        .handle(handle)
        .run_until(shutdown::signals())
        .await
}
"#;

/// What is replaced in it, by what, how the first error begins, and what it says besides.
const WRONG: [(&str, &str, &str, &[&str]); 7] = [
    (
        "Result<(), Failure> {\n    drop(message);\n    Ok(())",
        "u64 {\n    drop(message);\n    17",
        "a handler cannot return `u64`",
        &["the handler returns this", "`Vec<Effect>`", "`anyhow::Error`"],
    ),
    (
        "Result<(), Failure> {\n    drop(message);\n    Ok(())",
        "Result<u64, Failure> {\n    drop(message);\n    Ok(17)",
        "a handler cannot return `Ok` with `u64`",
        &["neither nothing nor an effect", "`Ok(())`, `Ok(effect)`"],
    ),
    (
        "async fn handle",
        "fn handle",
        "`std::result::Result<(), Failure>` is not a future",
        &["if an error above is about `.handle(…)`"],
    ),
    (
        "Result<(), Failure>",
        "Result<(), u32>",
        "the trait bound `u32: std::error::Error` is not satisfied",
        &[],
    ),
    (
        "drop(message);",
        "let shared = std::rc::Rc::new(message);\n    std::future::ready(()).await;\n    drop(shared);",
        "future cannot be sent between threads safely",
        &["Rc<"],
    ),
    (
        ".handle(handle)",
        "",
        "`()` does not handle messages",
        &["no handler", ".handle(f)", "async fn f(message: Message)"],
    ),
    (
        "\"redis://localhost\"",
        "6379",
        "`{integer}` names no queue",
        &["no address of a store", "redis://localhost"],
    ),
];

/// The library as it was built last, and what it was built from.
fn library() -> (PathBuf, PathBuf) {
    let program = std::env::current_exe().expect("a path");
    let folder = program.parent().expect("a folder").to_path_buf();
    let files = std::fs::read_dir(&folder).expect("what was built").flatten();
    let built = files.filter(|file| {
        let path = file.path();
        let is_ours = path
            .file_stem()
            .is_some_and(|name| name.to_string_lossy().starts_with("libqueenright-"));
        is_ours && path.extension().is_some_and(|ending| ending == "rlib")
    });
    let newest = built.max_by_key(|file| file.metadata().and_then(|data| data.modified()).expect("a time"));
    (newest.expect("the library is built before this").path(), folder)
}

/// What the compiler says to this program. None: nothing is wrong.
fn compile(text: &str) -> Option<String> {
    let (library, others) = library();
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("program.rs");
    std::fs::write(&source, text).expect("written");
    let output = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--out-dir",
        ])
        .arg(directory.path())
        .arg("--extern")
        .arg(format!("queenright={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", others.display()))
        .arg(&source)
        .output()
        .expect("the compiler is beside cargo");
    let said = String::from_utf8(output.stderr).expect("text");
    (!output.status.success()).then_some(said)
}

#[test]
fn the_commonest_mistakes_are_answered_as_the_book_says() {
    assert_eq!(compile(RIGHT), None, "the program is right");
    let page = read(PAGE);
    for (right, wrong, first, also) in WRONG {
        assert!(page.contains(&format!("| {first} |")), "{PAGE} does not have: {first}");
        let program = RIGHT.replacen(right, wrong, 1);
        assert_ne!(program, RIGHT, "{right:?} is replaced");
        let said = compile(&program).unwrap_or_else(|| panic!("{wrong:?} compiles"));
        let errors = said.lines().filter(|line| line.starts_with("error"));
        let found = errors
            .clone()
            .next()
            .and_then(|line| line.split_once(": "))
            .map(|line| line.1);
        assert_eq!(found, Some(first), "{wrong:?}: {said}");
        for words in also {
            assert!(said.contains(words), "{wrong:?} is not answered with {words:?}: {said}");
        }
    }
}

#[test]
fn the_lines_for_cargo_toml_are_what_a_program_needs() {
    let block = blocks()
        .into_iter()
        .find(|block| block.page == PAGE && block.info == "toml,no_run");
    let lines = block.expect("the lines for Cargo.toml").text;
    let directory = tempfile::tempdir().expect("a directory");
    let here = lines.replace("\"../queenright\"", &format!("{ROOT:?}"));
    assert_ne!(here, lines, "it is beside the clone");
    let manifest = format!("[package]\nname = \"invoicer\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{here}");
    std::fs::write(directory.path().join("Cargo.toml"), manifest).expect("written");
    std::fs::create_dir(directory.path().join("src")).expect("a folder");
    std::fs::write(directory.path().join("src/main.rs"), read("examples/typed.rs")).expect("written");
    std::fs::copy(Path::new(ROOT).join("Cargo.lock"), directory.path().join("Cargo.lock")).expect("copied");
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal,features", "--prefix", "none"])
        .current_dir(directory.path())
        .output()
        .expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let tree = String::from_utf8(output.stdout).expect("text");
    for needed in [
        "queenright feature \"serde\"",
        "serde feature \"derive\"",
        // `#[tokio::main]` and `#[tokio::test]`.
        "tokio feature \"macros\"",
        "tokio feature \"rt-multi-thread\"",
    ] {
        assert!(tree.lines().any(|line| line.starts_with(needed)), "{needed}: {tree}");
    }
    assert!(!tree.contains("clap"), "a library without the command line: {tree}");
    for page in ["README.md", "docs/start.md"] {
        assert!(
            read(page).contains("examples.md#a-program-of-your-own"),
            "{page} leads there"
        );
    }
}
