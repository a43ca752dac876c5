//! Where nobody watches: one line per event.

use std::io::{self, Write};

use super::scene::Scene;

pub(super) fn print(scene: &mut Scene) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in scene.news() {
        writeln!(out, "{:7.2}  {:<11} {}", line.at.as_secs_f32(), line.word, line.text)?;
    }
    out.flush()
}
