//! `man`: pages to read, and for packages.

use std::fmt::Write as _;

use crate::app::args::Man;
use crate::app::args::man::pages;
use crate::app::exit::Failure;
use crate::app::run::print;

pub(super) fn run(flags: &Man) -> Result<(), Failure> {
    let Some(directory) = &flags.out else {
        let page = flags.page().map_err(|wrong| Failure::usage(wrong.to_string()))?;
        return print(&page.text);
    };
    let failed = |what: &std::path::Path| {
        let what = format!("write {}", what.display());
        move |error| Failure::cannot(&what, error)
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut written = String::new();
    for page in pages() {
        let path = directory.join(&page.file);
        std::fs::write(&path, page.text).map_err(failed(&path))?;
        let _ = writeln!(written, "{}", path.display());
    }
    print(&written)
}
