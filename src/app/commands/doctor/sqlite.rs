//! The checks of a queue in a file. A missing file is not created.

use std::path::Path;

use tokio::time::Instant;

use super::{Findings, ROUND_TRIPS};
use crate::app::args::sources::Resolved;
use crate::engine::Engine;
use crate::engine::sqlite::{Database, SqliteEngine};
use crate::error::Error;

pub(super) async fn examine(database: &Database, resolved: &Resolved, findings: &mut Findings) {
    let path = &database.path;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or_else(|| Path::new("."));
    if !path.exists() {
        return match std::fs::metadata(directory) {
            Ok(found) if found.is_dir() && !found.permissions().readonly() => {
                findings.ok(
                    "file",
                    format!("there is no {} yet: the first node creates it", path.display()),
                );
            }
            _ => findings.wrong(
                "file",
                format!("the directory {} is not there, or not writable", directory.display()),
                "create it, or choose another file with --url sqlite:PATH",
            ),
        };
    }
    let settings = &resolved.settings;
    let engine = match SqliteEngine::open(database.clone(), &settings.queue, &settings.names) {
        Ok(engine) => engine,
        Err(error) => return findings.error("file", &error),
    };
    findings.ok("file", format!("{} is ours, and opens", path.display()));
    let kept = if database.full {
        "waits for the disk at every commit: a power cut takes nothing back"
    } else {
        "a power cut can take back the last transactions, never tear one; ?synchronous=full takes nothing back"
    };
    findings.ok("persistence", kept);
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        let _ = engine.status().await;
        times.push(asked.elapsed());
    }
    findings.latency(times, settings.lease);
    match engine.status().await {
        Ok(status) => {
            findings.ok("layout", "as this program writes it");
            findings.nodes(&status.nodes, status.generator.is_some());
            findings.contents(&status, "the table `damaged`");
        }
        Err(Error::NoQueue { queue }) => {
            findings.ok(
                "layout",
                format!("there is no queue {queue} yet: the first node creates it"),
            );
        }
        Err(error) => findings.error("layout", &error),
    }
}
