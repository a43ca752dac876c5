//! The guards that are marked in the sources. The files are found, not listed: what is added is not forgotten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The names in `guard("NAME")` of all files under a directory of `src/`, or in all of it.
pub fn guards(under: &str) -> Vec<&'static str> {
    let mut files = Vec::new();
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(under),
        &mut files,
    );
    let mut guards = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let marks = text.split("guard(\"").skip(1);
        guards.extend(marks.filter_map(|rest| rest.split('"').next().map(str::to_string)));
    }
    assert!(guards.len() > 25, "the marks are found: {guards:?}");
    // Whoever takes a guard out wants its name for ever.
    guards.into_iter().map(|guard| &*guard.leak()).collect()
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
