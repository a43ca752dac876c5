//! The pages, and the blocks of code on them.

use std::path::Path;

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A block of code.
pub struct Block {
    /// The page, from the root of the repository.
    pub page: String,
    /// Where it begins.
    pub line: usize,
    /// What stands behind the fence: a language, and marks.
    pub info: String,
    pub text: String,
}

/// What the tests do with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use<'a> {
    /// Its lines are run.
    Lines,
    /// It is written to this file, which the lines use.
    File(&'a str),
    /// It is compiled.
    Rust,
    /// It is marked as not run, or is output.
    Shown,
    /// Nobody knows.
    Unknown,
}

impl Block {
    /// For a failing test.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// The name in the first line.
    fn file(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
        (name.contains('.') && !name.contains([' ', '/'])).then_some(name)
    }

    pub fn usage(&self) -> Use<'_> {
        let (language, mark) = self.info.split_once(',').unwrap_or((&self.info, ""));
        match (language, mark, self.file()) {
            ("rust", "" | "no_run", _) => Use::Rust,
            (_, "no_run", _) if !language.is_empty() => Use::Shown,
            ("sh" | "python" | "toml" | "js", "", Some(name)) => Use::File(name),
            ("sh", "", None) => Use::Lines,
            ("text" | "json", "", _) => Use::Shown,
            _ => Use::Unknown,
        }
    }
}

/// A file of the repository.
pub fn read(path: &str) -> String {
    let path = Path::new(ROOT).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages beside the folders of pages.
const AT_THE_ROOT: [&str; 5] = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "SECURITY.md",
];

/// All pages for users and contributors, with their text.
pub fn pages() -> Vec<(String, String)> {
    let mut found: Vec<String> = AT_THE_ROOT.map(String::from).into();
    let mut folders = vec!["docs".to_string(), "architecture".to_string()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(Path::new(ROOT).join(&folder)).expect("a folder of pages") {
            let entry = entry.expect("a file");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(path);
            } else if entry.path().extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found
        .into_iter()
        .map(|page| {
            let text = read(&page);
            (page, text)
        })
        .collect()
}

/// All blocks of all pages.
pub fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for (page, text) in pages() {
        let mut open: Option<Block> = None;
        for (at, line) in text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), open.as_mut()) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(info), None) => {
                    open = Some(Block {
                        page: page.clone(),
                        line: at + 1,
                        info: info.trim().into(),
                        text: String::new(),
                    });
                }
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{page}: a block has no end");
    }
    assert!(blocks.len() > 40, "the pages are cut short: {} blocks", blocks.len());
    blocks
}

/// Writes all files of all pages into a directory.
pub fn write_files(directory: &Path) {
    for block in blocks() {
        if let Use::File(name) = block.usage() {
            std::fs::write(directory.join(name), &block.text).expect("written");
        }
    }
}

/// The command line that begins so, on whichever page, in words.
pub fn command_line(start: &str) -> Vec<String> {
    let blocks = blocks();
    let lines = blocks.iter().filter(|block| block.usage() == Use::Lines);
    let mut lines = lines.flat_map(|block| block.text.lines());
    let line = lines.find(|line| line.starts_with(start));
    words(line.unwrap_or_else(|| panic!("no page has a line {start}")))
}

/// Without the comment behind it.
pub fn words(line: &str) -> Vec<String> {
    shell_words::split(line.split(" #").next().unwrap_or(line)).expect("words")
}
