//! Packages, as other installers get them: what is in them, and that they can be installed, run and removed.
//!
//! The wheel is built and tried by `scripts/package wheel`, which scripts/prove runs: maturin compiles half of the crates anew, since
//! the tests have theirs with features of their own, and that takes minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::fleet::{PROGRAM, left_out, said};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// What scripts/base-images makes where there is no registry.
const DEBIAN: &str = "debian:bookworm-slim";

/// The package of the program under test, made once. None: this is no Debian.
static DEB: LazyLock<Option<(TempDir, PathBuf)>> = LazyLock::new(|| {
    for tool in ["dpkg-deb", "dpkg-shlibdeps"] {
        if !succeeds(Command::new(tool).arg("--version")) {
            left_out("the Debian package", &format!("there is no {tool}"));
            return None;
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let made = Command::new(Path::new(ROOT).join("scripts/package"))
        .arg("deb")
        .args([directory.path(), Path::new(PROGRAM)])
        .output()
        .expect("bash runs");
    assert!(made.status.success(), "{}", said(&made));
    let path = String::from_utf8(made.stdout).expect("text").trim().into();
    Some((directory, path))
});

fn succeeds(command: &mut Command) -> bool {
    let run = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn of_deb(what: &[&str]) -> Option<String> {
    let (_, path) = DEB.as_ref()?;
    let output = Command::new("dpkg-deb")
        .arg(what[0])
        .arg(path)
        .args(&what[1..])
        .output();
    Some(text(&output.expect("dpkg-deb runs")))
}

#[test]
fn the_debian_package_brings_all_that_belongs_to_a_program_and_a_service() {
    let Some(list) = of_deb(&["--contents"]) else { return };
    let files: Vec<(&str, &str)> = list
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.nth(4)?.trim_start_matches('.')))
        })
        .collect();
    for (mode, path) in [
        ("-rwxr-xr-x", "/usr/bin/queenright"),
        ("-rw-r--r--", "/usr/share/man/man1/queenright.1.gz"),
        ("-rw-r--r--", "/usr/share/man/man1/queenright-errors-requeue.1.gz"),
        ("-rw-r--r--", "/usr/share/bash-completion/completions/queenright"),
        ("-rw-r--r--", "/usr/share/zsh/vendor-completions/_queenright"),
        ("-rw-r--r--", "/usr/share/fish/vendor_completions.d/queenright.fish"),
        ("-rw-r--r--", "/usr/lib/systemd/system/queenright@.service"),
        ("-rw-r--r--", "/usr/lib/sysusers.d/queenright.conf"),
        // They may get passwords.
        ("drwxr-x---", "/etc/queenright/"),
        ("-rw-------", "/etc/queenright/queenright.env"),
        ("-rw-r--r--", "/usr/share/doc/queenright/copyright"),
        ("-rw-r--r--", "/usr/share/doc/queenright/changelog.gz"),
    ] {
        assert!(files.contains(&(mode, path)), "{mode} {path}: {list}");
    }
    assert!(list.lines().all(|line| line.contains(" root/root ")), "{list}");
    let field = |name: &str| of_deb(&["--field", name]).expect("a package");
    let version = env!("CARGO_PKG_VERSION").replace('-', "~");
    assert_eq!(field("Version"), format!("{version}-1"));
    assert!(field("Depends").contains("libc6 (>= "), "{}", field("Depends"));
    // The unit that is shipped runs what is shipped.
    let unit = std::fs::read_to_string(Path::new(ROOT).join("contrib/systemd/queenright@.service")).expect("the unit");
    assert!(unit.contains("\nExecStart=/usr/bin/queenright start ") && unit.contains("\nUser=queenright\n"));
}

/// A container in which there is nothing but a small Debian. Removed when dropped.
struct Container(String);

impl Container {
    /// None: there is no Docker, or no such image. Says so.
    fn start() -> Option<Self> {
        if !succeeds(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"])) {
            left_out("installing the Debian package", "no Docker daemon answers");
            return None;
        }
        let is_there = || succeeds(Command::new("docker").args(["image", "inspect", DEBIAN]));
        let make = || succeeds(&mut Command::new(Path::new(ROOT).join("scripts/base-images")));
        let is_had = is_there() || (make() && is_there());
        if !is_had {
            let why = format!("there is no {DEBIAN}, and scripts/base-images cannot make it");
            left_out("installing the Debian package", &why);
            return None;
        }
        let args = [
            "run",
            "--detach",
            "--network=none",
            "--label=queenright.test",
            DEBIAN,
            "sleep",
            "600",
        ];
        let started = Command::new("docker").args(args).output().expect("docker runs");
        Some(Self(text(&started)))
    }

    fn runs(&self, line: &str) -> Output {
        let args = ["exec", &self.0, "sh", "-c", line];
        Command::new("docker").args(args).output().expect("docker runs")
    }

    /// The same, and it succeeds; what it printed.
    fn prints(&self, line: &str) -> String {
        text(&self.runs(line))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        succeeds(Command::new("docker").args(["rm", "--force", &self.0]));
    }
}

#[test]
fn it_is_installed_run_removed_and_purged_in_a_container() {
    let (Some((_, deb)), Some(container)) = (DEB.as_ref(), Container::start()) else {
        return;
    };
    let mut copy = Command::new("docker");
    copy.arg("cp").arg(deb).arg(format!("{}:/queenright.deb", container.0));
    assert!(succeeds(&mut copy), "docker cp");
    let depends = of_deb(&["--field", "Depends"]).expect("a package");
    let wanted = depends
        .split("libc6 (>= ")
        .nth(1)
        .and_then(|rest| rest.split(')').next())
        .unwrap_or_default();
    let is_new_enough =
        format!("dpkg --compare-versions \"$(dpkg-query --show --showformat='${{Version}}' libc6)\" ge '{wanted}'");
    if !container.runs(&is_new_enough).status.success() {
        let why = format!("{DEBIAN} is older than this system (libc6 {wanted})");
        left_out("installing the Debian package", &why);
        return;
    }
    container.prints("DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet /queenright.deb");
    let version = container.prints("queenright --version");
    assert!(
        version.starts_with(&format!("queenright {}", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    let demo = container.runs("queenright demo --seconds 3");
    assert!(demo.status.success(), "{}", said(&demo));
    container.prints("test -s /usr/lib/systemd/system/queenright@.service");

    container.prints("echo REDIS_PASS=changed >> /etc/queenright/queenright.env");
    container.prints("dpkg --remove queenright");
    assert!(
        !container.runs("queenright --version").status.success(),
        "it is removed"
    );
    container.prints("grep changed /etc/queenright/queenright.env");
    container.prints("dpkg --purge queenright");
    let left = container.prints("find / -xdev -name '*queenright*' -not -path '/proc/*' -not -name queenright.deb");
    assert_eq!(left, "", "a purge leaves nothing");
}

#[test]
fn the_crate_has_what_it_is_built_from_and_little_else() {
    let listed = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(ROOT)
        .output()
        .expect("cargo runs");
    let files = text(&listed);
    for part in [
        "src/main.rs",
        "src/app/dashboard/page/",
        "docs/start.md",
        "contrib/systemd/queenright@.service",
        "LICENSE-MIT",
    ] {
        assert!(files.lines().any(|file| file.starts_with(part)), "{part} is missing");
    }
    for part in [
        "tests/",
        "benches/",
        "bench/",
        "scripts/",
        ".github/",
        "docs/demo.svg",
        "docs/dashboard.png",
        "target/",
    ] {
        assert!(!files.lines().any(|file| file.starts_with(part)), "{part} is in it");
    }
}

#[test]
fn the_crate_is_packed_without_surprises_and_small() {
    let directory = tempfile::tempdir().expect("a directory");
    let packed = Command::new(env!("CARGO"))
        .args(["package", "--no-verify", "--allow-dirty", "--offline", "--target-dir"])
        .arg(directory.path())
        .current_dir(ROOT)
        .output()
        .expect("cargo runs");
    assert!(packed.status.success(), "{}", said(&packed));
    let told = String::from_utf8_lossy(&packed.stderr);
    // There is no public repository yet; tests and benches stay in it.
    let expected = [
        "manifest has no documentation, homepage or repository",
        "ignoring test",
        "ignoring benchmark",
    ];
    for warning in told.lines().filter_map(|line| line.strip_prefix("warning: ")) {
        assert!(expected.iter().any(|text| warning.starts_with(text)), "{told}");
    }
    let name = format!("package/queenright-{}.crate", env!("CARGO_PKG_VERSION"));
    let kilobytes = directory.path().join(name).metadata().expect("a crate").len() / 1024;
    println!("the crate has {kilobytes} KB");
    assert!(kilobytes < KILOBYTES_MAX, "{kilobytes} KB");
}

/// Of the compressed crate; crates.io takes 10 MB.
const KILOBYTES_MAX: u64 = 950;

/// Where cargo-binstall looks: a template of Cargo.toml, with its words filled in.
fn told_to_binstall(name: &str, target: &str) -> String {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).expect("TOML");
    let template = manifest["package"]["metadata"]["binstall"][name].as_str();
    let mut text = template.expect("a template").to_string();
    for (word, value) in [
        ("repo", "https://forge.invalid/owner/queenright"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("target", target),
        ("bin", "queenright"),
        ("binary-ext", ""),
    ] {
        text = text.replace(&format!("{{ {word} }}"), value);
    }
    assert!(!text.contains(['{', '}']), "{name}: a word is unknown: {text}");
    text
}

#[test]
fn a_release_has_what_its_installers_look_for_under_the_names_they_know() {
    let directory = tempfile::tempdir().expect("a directory");
    let target = "x86_64-unknown-linux-musl";
    let made = Command::new(Path::new(ROOT).join("scripts/release"))
        .args([directory.path(), Path::new(target), Path::new(PROGRAM)])
        .output()
        .expect("bash runs");
    assert!(made.status.success(), "{}", said(&made));

    let url = told_to_binstall("pkg-url", target);
    let (place, archive) = url.rsplit_once('/').expect("a URL");
    let tag = format!("/releases/download/v{}", env!("CARGO_PKG_VERSION"));
    assert!(place.ends_with(&tag), "{url}");
    assert_eq!(told_to_binstall("pkg-fmt", target), "tgz");
    let listed = run(directory.path(), "tar", &["--list", "--file", archive]);
    let binary = told_to_binstall("bin-dir", target);
    let folder = binary.rsplit_once('/').expect("a folder").0;
    for file in [
        "queenright",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "man/queenright.1",
        "completions/queenright.bash",
        "contrib/systemd/queenright@.service",
    ] {
        let path = format!("{folder}/{file}");
        assert!(listed.lines().any(|line| line == path), "{path}: {listed}");
    }
    assert!(listed.lines().any(|line| line == binary), "{binary}: {listed}");
    run(
        directory.path(),
        "sha256sum",
        &["--check", &format!("{archive}.sha256")],
    );
    let parts = std::fs::read(directory.path().join(format!("{folder}.cdx.json"))).expect("a list of parts");
    let parts: serde_json::Value = serde_json::from_slice(&parts).expect("JSON");
    assert_eq!(parts["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    // The workflow makes no other files, and uploads all of them.
    let workflow = read(".github/workflows/release.yml");
    for line in ["scripts/release target/dist \"$TARGET\"", "path: target/dist"] {
        assert!(workflow.contains(line), "{line}");
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).expect("text")
}

/// What a program printed; it succeeds.
fn run(directory: &Path, program: &str, args: &[&str]) -> String {
    text(
        &Command::new(program)
            .args(args)
            .current_dir(directory)
            .output()
            .expect("it runs"),
    )
}

#[test]
fn every_target_is_released_and_every_script_can_be_read() {
    let python = read("pyproject.toml");
    for line in [
        "bindings = \"bin\"",
        "dynamic = [\"version\"]",
        "license = \"MIT OR Apache-2.0\"",
    ] {
        assert!(python.contains(line), "{line}");
    }
    let workflow = read(".github/workflows/release.yml");
    for target in [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl",
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
    ] {
        assert!(workflow.contains(&format!("target: {target} ")), "{target}");
    }
    for entry in std::fs::read_dir(Path::new(ROOT).join("scripts")).expect("scripts") {
        let path = entry.expect("an entry").path();
        if std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with("#!/usr/bin/env bash")) {
            assert!(
                succeeds(Command::new("bash").arg("-n").arg(&path)),
                "{}",
                path.display()
            );
        }
    }
}
