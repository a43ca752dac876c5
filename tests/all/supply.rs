//! What comes from others: actions, compilers, crates; and what the scripts around them say and do.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn workflows() -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(root().join(".github/workflows")).expect("there are workflows");
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).expect("a text"));
    files.map(|file| read(file.expect("an entry").path())).collect()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn every_action_is_pinned_by_its_commit() {
    let mut actions = 0;
    for (path, text) in workflows() {
        for line in text.lines().map(str::trim) {
            let Some(named) = line.trim_start_matches("- ").strip_prefix("uses:") else {
                continue;
            };
            actions += 1;
            let at = format!("{}: {line}", path.display());
            let (action, version) = named
                .split_once(" # v")
                .unwrap_or_else(|| panic!("no version in words: {at}"));
            let (_, commit) = action.split_once('@').unwrap_or_else(|| panic!("no commit: {at}"));
            let is_hash = commit.len() == 40 && commit.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            assert!(is_hash, "not pinned by a commit: {at}");
            assert_eq!(version.split('.').count(), 3, "not a whole version: {at}");
        }
    }
    assert!(actions >= 6, "only {actions} actions were found");
}

#[test]
fn workflows_pin_the_compiler_and_ask_for_few_rights() {
    let mut pinned = BTreeMap::new();
    for (path, text) in workflows() {
        let at = path.display();
        assert!(
            text.contains("\npermissions:\n  contents: read\n"),
            "{at}: rights of the token"
        );
        assert!(
            !text.contains("install stable") && !text.contains("install nightly"),
            "{at}"
        );
        let checkouts = text.matches("actions/checkout@").count();
        assert_eq!(text.matches("persist-credentials: false").count(), checkouts, "{at}");
        let version = text.lines().find_map(|line| line.trim().strip_prefix("RUST: "));
        pinned.insert(version.unwrap_or_else(|| panic!("{at} pins no Rust")).to_string(), path);
    }
    assert_eq!(pinned.len(), 1, "one compiler for all workflows: {pinned:?}");
    let minimum = env!("CARGO_PKG_RUST_VERSION");
    let (_, ci) = workflows()
        .into_iter()
        .find(|(path, _)| path.ends_with("ci.yml"))
        .expect("ci.yml");
    assert!(
        ci.contains(&format!("cargo +{minimum}.0 check --locked")),
        "rust-version"
    );
}

/// An index with one crate that is well and one that was withdrawn; a database with a hole in a third, and an unkept fourth.
fn registry() -> SocketAddr {
    let answers = [
        ("/fi/ne/fine", r#"{"vers":"1.0.0","cksum":"aa","yanked":false}"#),
        ("/go/ne/gone", r#"{"vers":"1.0.0","cksum":"aa","yanked":true}"#),
        ("/ho/ly/holy", r#"{"vers":"1.0.0","cksum":"aa","yanked":false}"#),
        ("/1/o", r#"{"vers":"1.0.0","cksum":"aa","yanked":false}"#),
        ("/fo/rg/forged", r#"{"vers":"1.0.0","cksum":"bb","yanked":false}"#),
        (
            "/v1/vulns/RUSTSEC-1",
            r#"{"id":"RUSTSEC-1","summary":"reads too far","affected":[{"database_specific":{"informational":null}}]}"#,
        ),
        (
            "/v1/vulns/RUSTSEC-2",
            r#"{"id":"RUSTSEC-2","affected":[{"database_specific":{"informational":"unmaintained"}}]}"#,
        ),
    ];
    let answers = Arc::new(BTreeMap::from(answers));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = answers.clone();
            std::thread::spawn(move || serve(&stream, &answers));
        }
    });
    address
}

fn serve(stream: &TcpStream, answers: &BTreeMap<&str, &str>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok()?;
        let path = first.split(' ').nth(1)?.to_string();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = if path == "/v1/querybatch" {
            let asked: serde_json::Value = serde_json::from_slice(&body).ok()?;
            let found = asked["queries"]
                .as_array()?
                .iter()
                .map(|query| match query["package"]["name"].as_str() {
                    Some("holy") => r#"{"vulns":[{"id":"RUSTSEC-1"}]}"#,
                    Some("o") => r#"{"vulns":[{"id":"RUSTSEC-2"}]}"#,
                    _ => "{}",
                });
            format!(r#"{{"results":[{}]}}"#, found.collect::<Vec<_>>().join(","))
        } else {
            answers.get(path.as_str())?.to_string()
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
        { stream }.write_all((head + &answer).as_bytes()).ok()?;
    }
}

fn advisories(names: &[&str], at: SocketAddr) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let lock = directory.path().join("Cargo.lock");
    let crates = names.iter().map(|name| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\nchecksum = \"aa\"\n")
    });
    fs::write(&lock, crates.collect::<Vec<_>>().join("\n")).expect("written");
    let mut command = Command::new(root().join("scripts/advisories"));
    command.env("ADVISORIES_LOCK", &lock);
    command.env("ADVISORIES_INDEX", format!("http://{at}"));
    command.env("ADVISORIES_OSV", format!("http://{at}"));
    command.output().expect("python3 runs")
}

#[test]
fn a_crate_with_a_hole_or_withdrawn_or_forged_fails_the_gate() {
    let at = registry();
    let output = advisories(&["fine", "o"], at);
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("to be known: o 1.0.0: RUSTSEC-2"), "{text}");
    let output = advisories(&["fine", "gone", "holy", "forged"], at);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for line in [
        "gone 1.0.0 was withdrawn (yanked)",
        "holy 1.0.0: RUSTSEC-1 reads too far",
        "forged 1.0.0 has another checksum in the registry than in Cargo.lock",
    ] {
        assert!(text.contains(line), "{line:?} is missing: {text}");
    }
}

#[test]
fn advisories_that_cannot_be_asked_for_are_said_to_be_unchecked() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let output = advisories(&["fine"], nobody);
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("NOT checked").count(), 2, "{text}");
}

#[test]
fn the_list_of_parts_names_what_is_built_in_with_its_checksum() {
    let output = Command::new(root().join("scripts/sbom"))
        .output()
        .expect("python3 runs");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&list["bomFormat"], &list["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    let parts = list["components"].as_array().expect("parts");
    let named = |name: &str| parts.iter().find(|part| part["name"] == name);
    let redis = named("redis").expect("redis is a part");
    assert_eq!(
        redis["hashes"][0]["content"].as_str().map(str::len),
        Some(64),
        "{redis}"
    );
    assert!(named("divan").is_none(), "what only tests need is no part");
}

/// A place in which nothing is installed but what the script itself needs.
#[test]
fn the_gate_says_before_it_uses_sudo() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let path = std::env::var_os("PATH").expect("a PATH");
    for name in ["bash", "env", "dirname", "cat"] {
        let found = std::env::split_paths(&path)
            .map(|place| place.join(name))
            .find(|program| program.exists());
        symlink(found.unwrap_or_else(|| panic!("no {name}")), at(name)).expect("linked");
    }
    let stub = |name: &str, text: &str| {
        fs::write(at(name), format!("#!/usr/bin/env bash\n{text}\n")).expect("written");
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).expect("allowed");
    };
    stub("id", "echo 1000");
    stub("cargo", "exit 0");
    stub("apt-get", "exit 0");
    stub("sudo", "[ \"$1\" = tee ] && cat; echo \"SUDO RUNS $*\" >&2");
    let output = Command::new(root().join("scripts/test"))
        .env("PATH", directory.path())
        .env_remove("CI")
        .output()
        .expect("bash runs");
    let text = told(&output);
    assert!(!output.status.success(), "nothing was installed: {text}");
    let runs: Vec<&str> = text.lines().filter(|line| line.contains("SUDO RUNS apt-get")).collect();
    assert!(!runs.is_empty(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(command) = line.strip_prefix("SUDO RUNS ") {
            let before = at.checked_sub(1).map(|at| lines[at]);
            assert_eq!(
                before,
                Some(format!("scripts/test: uses sudo for: {command}").as_str()),
                "{text}"
            );
        }
    }
}
