//! The checks of a queue in a file. A missing file is not created.

use std::path::Path;

use tokio::time::Instant;

use super::{Findings, ROUND_TRIPS};
use crate::app::args::sources::Resolved;
use crate::engine::Engine;
use crate::engine::sqlite::{Database, SqliteLook};
use crate::error::Error;
use crate::settings::Names;

/// Less than this is soon used up: the log of a busy queue takes as much.
const ROOM_BYTES_MIN: u64 = 64 * 1024 * 1024;

fn room(free_bytes: u64, findings: &mut Findings) {
    let free = format!("{} MB are free on its disk", free_bytes / 1024 / 1024);
    if free_bytes < 1024 * 1024 {
        findings.wrong(
            "disk",
            "its disk is full",
            "make room; nothing is lost, and nodes wait for it",
        );
    } else if free_bytes < ROOM_BYTES_MIN {
        findings.warn("disk", free, "make room before it is full");
    } else {
        findings.ok("disk", free);
    }
}

pub(super) async fn examine(database: &Database, (resolved, names): (&Resolved, &Names), findings: &mut Findings) {
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
    let engine = SqliteLook::new(database.clone(), &settings.queue, names);
    match engine.status().await {
        Ok(_) | Err(Error::NoQueue { .. }) => {}
        Err(error) => return findings.error("file", &error),
    }
    findings.ok("file", format!("{} is ours, and opens", path.display()));
    if let Ok(disk) = rustix::fs::statvfs(path) {
        room(disk.f_bavail.saturating_mul(disk.f_frsize), findings);
    }
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
            let is_home = names.shard == 0;
            findings.nodes(
                &status.nodes,
                !is_home || status.generator.is_some() || status.epoch == 0,
            );
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

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_full_disk_is_wrong_and_one_that_soon_will_be_a_warning() {
        for (free, verdict) in [
            (0, Verdict::Wrong),
            (4096, Verdict::Wrong),
            (2 << 20, Verdict::Warning),
            (1 << 30, Verdict::Ok),
        ] {
            let mut findings = Findings::default();
            room(free, &mut findings);
            assert_eq!(findings.all[0].verdict, verdict, "{free}");
        }
    }
}
