//! Docker, as a user types it. What a test starts carries the label of its yard, and is removed when the yard closes, also by
//! a panic; what others started is not touched.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::fleet::{PATIENCE, left_out, said, within};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Whoever looks for what the tests left: `docker ps -a --filter label=queenright.test`.
const LABEL: &str = "queenright.test";
/// Names an image that is there.
const NAMED: &str = "QUEENRIGHT_TEST_IMAGE";
/// As little as the image is said to need.
pub const HARDENED: &str = "--read-only --cap-drop ALL --security-opt no-new-privileges";

/// The commit that the image under test is told to be built from.
const COMMIT: &str = "0123456789ab";

/// How long Docker may take to remove what a test started.
const REMOVED_MAX: Duration = Duration::from_secs(10);

static YARDS: AtomicU32 = AtomicU32::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Why there is nothing to build the image on; scripts/test has tried, and says so in `QUEENRIGHT_NO_CONTAINERS`.
static NO_BASE: LazyLock<Option<String>> = LazyLock::new(|| {
    if let Ok(why) = std::env::var("QUEENRIGHT_NO_CONTAINERS") {
        return Some(why);
    }
    if std::env::var_os(NAMED).is_some() {
        return None;
    }
    let base = Command::new(Path::new(ROOT).join("scripts/base-images")).output();
    let base = base.expect("bash is there");
    (!base.status.success()).then(|| format!("scripts/base-images failed: {}", said(&base)))
});

/// The image under test, built once, or the one that `QUEENRIGHT_TEST_IMAGE` names.
static IMAGE: LazyLock<String> = LazyLock::new(|| {
    if let Ok(named) = std::env::var(NAMED) {
        return named;
    }
    let tag = format!("queenright-test:{}", place());
    // The same as in scripts/test, which builds it before the clocks of other tests run.
    done(&format!(
        "build --quiet --build-arg PROFILE=quick --build-arg QUEENRIGHT_COMMIT={COMMIT} --label {LABEL}=image --tag {tag} {ROOT}"
    ));
    tag
});

/// Clones of this repository on one machine do not share an image.
fn place() -> String {
    let sum = Command::new("sh")
        .args(["-c", "printf %s \"$1\" | cksum", "sh", ROOT])
        .output();
    let sum = sum.expect("cksum is there").stdout;
    String::from_utf8_lossy(&sum)
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_string()
}

/// Runs a line of `docker`.
pub fn docker(line: &str) -> Output {
    let words = shell_words::split(line).expect("words");
    Command::new("docker").args(words).output().expect("docker starts")
}

/// The same, and it succeeds; what it printed.
pub fn done(line: &str) -> String {
    let output = docker(line);
    assert!(output.status.success(), "docker {line}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// The place of one test: a network, and whatever it starts there.
pub struct Yard {
    pub name: String,
    pub image: String,
    _alone: MutexGuard<'static, ()>,
}

impl Yard {
    /// None: there is no Docker here, or nothing to build the image on, which stderr is told.
    pub fn open() -> Option<Self> {
        let answers = Command::new("docker")
            .args(["version", "--format", "{{.Server.Os}}"])
            .output();
        if !answers.is_ok_and(|output| output.status.success() && output.stdout.starts_with(b"linux")) {
            left_out("containers", "no Docker daemon for Linux answers");
            return None;
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = NO_BASE.as_deref() {
            left_out("containers", why);
            return None;
        }
        let image = IMAGE.clone();
        let number = YARDS.fetch_add(1, Ordering::Relaxed);
        let name = format!("qr-test-{}-{number}", std::process::id());
        done(&format!("network create --label {LABEL}={name} {name}"));
        Some(Self {
            name,
            image,
            _alone: alone,
        })
    }

    /// Starts a container in the background; its id.
    pub fn start(&self, options: &str, image: &str, command: &str) -> String {
        let Self { name, .. } = self;
        done(&format!(
            "run --detach --label {LABEL}={name} --network {name} {options} {image} {command}"
        ))
    }

    /// A Redis that keeps what it acknowledged, under the name `redis`.
    pub fn redis(&self) -> String {
        self.start(
            "--network-alias redis",
            "redis:7-bookworm",
            "redis-server --appendonly yes --save ''",
        )
    }

    /// Our image with a shell and all that Debian has around it: what users do who bring their own handlers.
    pub fn with_shell(&self) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "FROM debian:bookworm-slim\nCOPY --from={} /queenright /usr/local/bin/queenright\nUSER 65532:65532\n\
             ENTRYPOINT [\"queenright\"]\nHEALTHCHECK CMD [\"queenright\", \"healthcheck\"]\n",
            self.image
        );
        std::fs::write(folder.path().join("Dockerfile"), text).expect("written");
        let tag = format!("queenright-test-shell:{}", self.name);
        let (label, name, at) = (LABEL, &self.name, folder.path().display());
        done(&format!("build --quiet --label {label}={name} --tag {tag} {at}"));
        tag
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let filter = format!("--filter label={LABEL}={}", self.name);
        let ours = |list: &str| String::from_utf8_lossy(&docker(list).stdout).replace('\n', " ");
        let project = format!("--filter label=com.docker.compose.project={}", self.name);
        for (list, remove) in [
            (format!("ps --all --quiet {filter}"), "rm --force --volumes"),
            (format!("ps --all --quiet {project}"), "rm --force --volumes"),
            (format!("network ls --quiet {filter}"), "network rm"),
            (format!("network ls --quiet {project}"), "network rm"),
            (format!("volume ls --quiet {project}"), "volume rm"),
            (format!("image ls --quiet {filter}"), "image rm --force"),
        ] {
            // A network is in use for a moment after the last of many containers has gone.
            let gone = within(REMOVED_MAX, || {
                let found = ours(&list);
                let nothing = found.trim().is_empty();
                if !nothing {
                    docker(&format!("{remove} {found}"));
                }
                nothing.then_some(())
            });
            if gone.is_none() {
                let _ = writeln!(std::io::stderr(), "containers: left behind: docker {list}");
            }
        }
    }
}

/// What Docker knows of a container or an image.
pub fn inspect(id: &str) -> Value {
    let text = done(&format!("inspect {id}"));
    let mut all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    all.remove(0)
}

/// `healthy`, `unhealthy` or `starting`, and what the last check printed.
pub fn wait_health(id: &str, wanted: &str) -> String {
    let mut last = Value::Null;
    let found = within(PATIENCE, || {
        last = inspect(id)["State"]["Health"].take();
        let log = last["Log"].as_array()?.last()?["Output"].as_str()?.trim().to_string();
        (last["Status"] == wanted).then_some(log)
    });
    found.unwrap_or_else(|| panic!("{id} is not {wanted}: {last}; {}", said(&docker(&format!("logs {id}")))))
}

/// Waits until it has ended; its exit code.
pub fn wait_exit(id: &str) -> i64 {
    let ended = within(PATIENCE, || {
        let state = inspect(id)["State"].take();
        (state["Running"] == false).then(|| state["ExitCode"].as_i64().expect("a code"))
    });
    ended.unwrap_or_else(|| panic!("{id} does not end: {}", logs(id)))
}

/// What it said, on both streams.
pub fn logs(id: &str) -> String {
    let output = docker(&format!("logs {id}"));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
