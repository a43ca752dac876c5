//! The image alone: what is in it, who it runs as, how it starts and stops.

use std::process::Command;
use std::time::Instant;

use super::docker::{HARDENED, Yard, docker, done, inspect, logs, wait_exit, wait_health};
use crate::e2e::demo::{Terminal, rows};
use crate::fleet::{PATIENCE, said, within};

/// Of the profile `quick`, whose size docs/containers.md states; others are smaller.
const SIZE_MAX: u64 = 48_000_000;

#[test]
fn the_image_is_small_and_has_one_program_with_its_certificates() {
    let Some(yard) = Yard::open() else { return };
    let image = inspect(&yard.image);
    let bytes = image["Size"].as_u64().expect("a size");
    println!("the image has {bytes} bytes");
    assert!(bytes < SIZE_MAX, "{bytes} bytes");
    let config = &image["Config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["StopSignal"], "SIGTERM");
    assert_eq!(config["Entrypoint"][0], "/queenright", "no shell in between");
    assert_eq!(
        config["Healthcheck"]["Test"],
        serde_json::json!(["CMD", "/queenright", "healthcheck"])
    );
    let labels = &config["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(labels["org.opencontainers.image.licenses"], env!("CARGO_PKG_LICENSE"));
    // The commit that the build was told.
    let commit = labels["org.opencontainers.image.revision"].as_str().unwrap_or_default();
    let version = done(&format!(
        "run --rm --label queenright.test={} {} --version",
        yard.name, yard.image
    ));
    assert!(
        !commit.is_empty() && version.contains(&format!(" (commit {commit})\n")),
        "{commit:?}, {version}"
    );
    let created = done(&format!("create --label queenright.test={} {}", yard.name, yard.image));
    let list = format!("docker export {created} | tar --list");
    let files = Command::new("sh").args(["-c", &list]).output().expect("tar is there");
    let files = String::from_utf8_lossy(&files.stdout).into_owned();
    let files: Vec<&str> = files.lines().filter(|name| !name.ends_with('/')).collect();
    let ours = [
        "queenright",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "etc/passwd",
        "etc/group",
        "etc/ssl/certs/ca-certificates.crt",
    ];
    for name in ours {
        assert!(files.contains(&name), "{name} is missing: {files:?}");
    }
    // Docker adds what it mounts.
    let docker_adds = |name: &str| {
        name.starts_with("dev/")
            || ["hosts", "hostname", "resolv.conf", "mtab", ".dockerenv"]
                .iter()
                .any(|end| name.ends_with(end))
    };
    let more: Vec<_> = files
        .iter()
        .filter(|name| !ours.contains(*name) && !docker_adds(name))
        .collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn a_copy_runs_without_root_without_rights_on_a_read_only_disk_and_stops_in_good_order() {
    let Some(yard) = Yard::open() else { return };
    let begun = Instant::now();
    // The published variant: the store comes later, and is waited for. Nobody is unhealthy for that.
    let options = format!("{HARDENED} --health-interval 1s");
    let copy = yard.start(
        &options,
        &yard.image,
        "start -h redis --interval 10ms --messages 20 --also-handle --work 0",
    );
    assert_eq!(wait_health(&copy, "healthy"), "healthy: waits for the store");
    yard.redis();
    let ready = within(PATIENCE, || {
        let status = docker(&format!("exec {copy} /queenright status -h redis --json"));
        String::from_utf8_lossy(&status.stdout)
            .contains("\"published\":20,")
            .then_some(())
    });
    assert!(ready.is_some(), "{}", logs(&copy));
    println!("twenty messages were out after {:?}", begun.elapsed());
    let processes = done(&format!("top {copy} -o uid,pid,args"));
    assert!(
        processes
            .lines()
            .skip(1)
            .all(|line| line.trim_start().starts_with("65532")),
        "{processes}"
    );
    done(&format!("stop {copy}"));
    assert_eq!(wait_exit(&copy), 0, "{}", logs(&copy));
    assert!(logs(&copy).contains(" left "), "{}", logs(&copy));
}

#[test]
fn every_signal_reaches_the_program_although_process_1_would_not_hear_it() {
    let Some(yard) = Yard::open() else { return };
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        // Waits for lines on stdin, and listens to no signal itself.
        let id = yard.start("--interactive", &yard.image, "push --url sqlite:/tmp/q.db");
        let up = within(PATIENCE, || done(&format!("top {id}")).lines().nth(2).map(drop));
        assert!(up.is_some(), "two processes: {}", done(&format!("top {id}")));
        done(&format!("kill --signal {signal} {id}"));
        assert_eq!(wait_exit(&id), code, "{signal}: {}", logs(&id));
    }
}

#[test]
fn demo_runs_inside_one_container_also_on_a_read_only_disk() {
    let Some(yard) = Yard::open() else { return };
    for options in ["", HARDENED] {
        let line = format!(
            "run --rm --label queenright.test={} {options} {} demo --seconds 3 --kill-every 1s",
            yard.name, yard.image
        );
        let output = docker(&line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        let told = said(&output);
        assert!(told.contains("lost 0  twice 0"), "{told}");
    }
}

#[test]
fn demo_in_a_terminal_shows_its_screen_and_obeys_its_keys() {
    let Some(yard) = Yard::open() else { return };
    let line = format!(
        "run --rm -it --label queenright.test={} {HARDENED} {} demo --kill-every 0 --interval 100ms",
        yard.name, yard.image
    );
    let mut terminal = Terminal::of("docker", &line, false);
    terminal.wait("one generates and four handle", |screen| {
        rows(screen, "generator") == 1 && rows(screen, "handler") == 4
    });
    terminal.press("k");
    terminal.wait_for("generators killed 1");
    assert_eq!(terminal.quit(), 0);
}

#[test]
fn time_zones_are_inside() {
    let Some(yard) = Yard::open() else { return };
    let command = "start --url sqlite:/tmp/q.db --cron '0 3 * * *' --tz Asia/Kolkata";
    let copy = yard.start("--health-interval 1s", &yard.image, command);
    wait_health(&copy, "healthy");
}
