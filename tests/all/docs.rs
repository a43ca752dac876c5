//! The README and the book are true: every block of code is run or says that it is not, every link leads somewhere.
//!
//! CONTRIBUTING.md has the marks. `run` runs the command lines page by page; what the programs on the pages do is looked at
//! more closely in `e2e/outside/printed.rs`; Rust is compiled as doctests (the end of `src/lib.rs`).

pub mod page;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use queenright::Settings;

use page::{ROOT, Use, blocks, pages, read};

#[test]
fn every_block_is_run_or_marked_as_not_run() {
    for block in blocks() {
        assert!(
            !matches!(block.usage(), Use::Unknown),
            "{}: a block marked {:?} is neither run nor marked: see \"Documentation\" in CONTRIBUTING.md",
            block.place(),
            block.info
        );
    }
}

#[test]
fn every_page_with_command_lines_is_run() {
    let with_lines: BTreeSet<String> = blocks()
        .into_iter()
        .filter(|block| matches!(block.usage(), Use::Lines))
        .map(|block| block.page)
        .collect();
    let run: BTreeSet<String> = run::PAGES.iter().map(ToString::to_string).collect();
    assert_eq!(with_lines, run, "the list in tests/all/docs/run.rs is another one");
}

#[test]
fn a_file_has_the_same_text_on_every_page_and_some_line_uses_it() {
    let mut files: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut lines = String::new();
    for block in blocks() {
        match block.usage() {
            Use::File(name) => {
                let (text, place) = files
                    .entry(name.into())
                    .or_insert_with(|| (block.text.clone(), block.place()));
                assert_eq!(*text, block.text, "{name} differs: {place}, {}", block.place());
            }
            Use::Lines => lines.push_str(&block.text),
            _ => {}
        }
    }
    for (name, (_, place)) in &files {
        assert!(lines.contains(name), "{place}: no command line uses {name}");
    }
}

#[test]
fn rust_is_that_of_an_example_and_compiled_as_a_doctest() {
    let examples = std::fs::read_dir(Path::new(ROOT).join("examples")).expect("examples");
    // A page may leave out what a file says of itself.
    let examples: Vec<String> = examples
        .map(|entry| std::fs::read_to_string(entry.expect("a file").path()).expect("text"))
        .flat_map(|text| [without_heading(&text), text])
        .collect();
    let library = read("src/lib.rs");
    for block in blocks().iter().filter(|block| matches!(block.usage(), Use::Rust)) {
        let place = block.place();
        assert!(examples.contains(&block.text), "{place}: this is no file of examples/");
        let include = format!("include_str!(\"../{}\")", block.page);
        assert!(library.contains(&include), "{place}: src/lib.rs has no {include}");
    }
}

#[test]
fn every_link_leads_somewhere_and_those_of_the_book_stay_in_it() {
    for (page, text) in pages() {
        let folder = Path::new(ROOT).join(&page);
        let folder = folder.parent().expect("a page is in a folder");
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                Path::new(ROOT).join(&page)
            } else {
                folder.join(path)
            };
            let found = target
                .canonicalize()
                .unwrap_or_else(|_| panic!("{page}: {link} leads nowhere"));
            if page.starts_with("docs/") {
                let book = Path::new(ROOT).join("docs").canonicalize().expect("docs");
                assert!(found.starts_with(book), "{page}: {link} leads out of the book");
            }
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&found).expect("text");
                let mut headings = text.lines().filter(|line| line.starts_with('#')).map(slug);
                assert!(headings.any(|slug| slug == anchor), "{page}: no heading for {link}");
            }
        }
    }
}

#[test]
fn every_path_that_contributors_read_of_is_there() {
    let mut there = Vec::new();
    for folder in [
        "src",
        "tests",
        "docs",
        "architecture",
        "scripts",
        "benches",
        "bench",
        "contrib",
    ] {
        walk(&Path::new(ROOT).join(folder), &mut there);
    }
    let mut looked = 0;
    for (page, text) in pages() {
        if !(page == "CONTRIBUTING.md" || page.to_lowercase().starts_with("architecture")) {
            continue;
        }
        for path in text.split('`').skip(1).step_by(2).filter(|quoted| is_path(quoted)) {
            let end = format!("/{path}");
            assert!(
                there.iter().any(|known| known.ends_with(&end)),
                "{page}: there is no {path}"
            );
            looked += 1;
        }
    }
    assert!(looked > 100, "{looked} paths: they are not recognized any more");
}

/// Of a file with one of the endings that there are here, or of a folder; names in capitals stand for others.
fn is_path(quoted: &str) -> bool {
    let is_file = [".rs", ".lua", ".json", ".txt"].iter().any(|end| quoted.ends_with(end));
    let is_named = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-./".contains(letter);
    (is_file || quoted.ends_with('/')) && !quoted.starts_with('.') && quoted.chars().all(is_named)
}

/// All files and folders below, from the root of the repository; a folder ends with a slash.
fn walk(folder: &Path, found: &mut Vec<String>) {
    let name = folder.strip_prefix(ROOT).expect("below the root").to_string_lossy();
    found.push(format!("/{name}/"));
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            let name = path.strip_prefix(ROOT).expect("below the root").to_string_lossy();
            found.push(format!("/{name}"));
        }
    }
}

#[test]
fn the_book_lists_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let mut listed: Vec<String> = links(&summary).map(|link| format!("docs/{link}")).collect();
    listed.sort();
    let mut there: Vec<String> = pages().into_iter().map(|(page, _)| page).collect();
    there.retain(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md");
    there.sort();
    assert_eq!(listed, there);
}

#[test]
fn the_limits_on_the_page_are_those_of_the_program() {
    use queenright::engine::{COUNTER_MAX, CURSOR_BYTES_MAX, DELAY_MS_MAX, KEY_BYTES_MAX};
    use queenright::message::{ERROR_TEXT_BYTES_MAX, PAYLOAD_BYTES_MAX};
    let text = read("docs/limits.md").replace(',', "");
    let settings = Settings::default();
    for limit in [
        format!("| a payload | {PAYLOAD_BYTES_MAX} bytes"),
        format!("| the text of an error | {ERROR_TEXT_BYTES_MAX} bytes"),
        format!("| an idempotency key | {KEY_BYTES_MAX} bytes"),
        format!("| a delay | {} days", DELAY_MS_MAX / 24 / 3600 / 1000),
        format!("| a generator's cursor | {CURSOR_BYTES_MAX} bytes"),
        format!("| messages at once in one node | {} ", Settings::CONCURRENCY_MAX),
        format!("| retries | {} ", Settings::RETRIES_MAX),
        format!("after at most {}m", Settings::BACKOFF_MAX.as_secs() / 60),
        format!(
            "| a lease | {}ms to {}h",
            Settings::LEASE_MIN.as_millis(),
            Settings::LEASE_MAX.as_secs() / 3600
        ),
    ] {
        assert!(text.contains(&limit), "docs/limits.md has no {limit:?}");
    }
    assert_eq!(COUNTER_MAX, (1 << 53) - 1);
    assert_eq!(settings.backlog_max, 1_000_000);
}

#[test]
fn every_event_of_a_node_is_on_the_page_of_logs() {
    let source = read("src/node/event.rs");
    let names = source.split_once("pub fn name(").expect("the names").1;
    let names = names.split_once("\n    }\n").expect("its end").0;
    let page = read("docs/commands.md");
    let mut looked = 0;
    for name in names.split('"').skip(1).step_by(2) {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/commands.md does not say what {name} is"
        );
        looked += 1;
    }
    assert!(looked > 25, "{looked} names");
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "{lines} lines: what is more belongs into docs/");
}

fn without_heading(text: &str) -> String {
    let code = text
        .lines()
        .skip_while(|line| line.starts_with("//!") || line.is_empty());
    code.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_example_is_linked_and_says_what_it_shows_and_how_it_is_run() {
    let listed = read("docs/examples.md");
    let manifest = read("Cargo.toml");
    for entry in std::fs::read_dir(Path::new(ROOT).join("examples")).expect("examples") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("text");
        let heading: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(heading.len() > 60, "examples/{name}.rs does not say what it shows");
        if name == "picture" {
            continue;
        }
        let needs = manifest.contains(&format!("[[example]]\nname = \"{name}\""));
        let run = format!("cargo run --example {name}{}", if needs { " --features" } else { "" });
        assert!(
            heading.contains(&run),
            "examples/{name}.rs does not say how it is run: {run}"
        );
        assert!(
            listed.contains(&format!("examples/{name}.rs")),
            "docs/examples.md does not list {name}"
        );
    }
}

/// The targets of links and pictures that are no addresses of the web.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// A heading as forges and mdBook name it in links.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
