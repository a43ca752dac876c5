//! Other users of the machine: what they can read, and what they may have laid out beforehand.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::fleet::{PROGRAM, bare, left_out, program, said, within};
use crate::server::certificate;

const PATIENCE: Duration = Duration::from_mins(1);
/// Some other user.
const STRANGER: u32 = 54321;

/// The program under a umask that leaves everything open to all.
fn carelessly(arguments: &[&str]) -> Command {
    let mut command = bare(Command::new("sh"));
    command
        .args(["-c", "umask 0; exec \"$@\"", "sh", PROGRAM])
        .args(arguments);
    command
}

struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().expect("it is there").mode() & 0o777
}

fn refused(output: &Output, code: i32, words: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in words {
        assert!(line.contains(word), "{word}: {line}");
    }
}

#[test]
fn a_database_and_a_ledger_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let url = format!("sqlite:{}", at("queue.db").display());
    let ledger = at("book").display().to_string();
    let _node = Running::start(carelessly(&[
        "start",
        "--url",
        &url,
        "--ledger",
        &ledger,
        "--interval=1ms",
    ]));
    for name in ["queue.db", "queue.db-wal", "queue.db-shm", "book"] {
        within(PATIENCE, || at(name).exists().then_some(())).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(mode(&at(name)), 0o600, "{name}");
    }
}

#[test]
fn a_link_that_somebody_else_made_is_not_written_through() {
    let directory = tempfile::tempdir().expect("a directory");
    let (link, target) = (directory.path().join("link"), directory.path().join("target"));
    let arguments = |name: &Path| {
        let name = name.display();
        let store = format!("sqlite:{}/own.db", directory.path().display());
        [
            vec!["push".to_string(), "--url".into(), format!("sqlite:{name}"), "x".into()],
            vec!["start".into(), "--url".into(), store, format!("--ledger={name}")],
        ]
    };
    symlink(&target, &link).expect("a link");
    if lchown(&link, Some(STRANGER), Some(STRANGER)).is_err() {
        left_out("links of others", "only root can make one");
        return;
    }
    for arguments in arguments(&link) {
        let output = program().args(&arguments).output().expect("the program starts");
        refused(&output, 1, &["symbolic link", "54321"]);
        assert!(!target.exists(), "{arguments:?} wrote through the link");
    }
    // One's own is followed.
    lchown(&link, Some(our_id()), None).expect("ours again");
    let [push, _] = arguments(&link);
    let output = program().args(&push).output().expect("the program starts");
    assert!(output.status.success() && target.exists(), "{}", said(&output));
}

/// Who runs the tests.
fn our_id() -> u32 {
    let own = tempfile::NamedTempFile::new().expect("a file");
    own.path().metadata().expect("it is there").uid()
}

#[test]
fn a_secret_that_all_can_read_is_refused_and_says_chmod() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("secret");
    std::fs::write(&path, "correct-horse-battery\n").expect("written");
    let shown = path.to_str().expect("a path");
    let ask = |arguments: &[&str], mode| {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        let mut command = program();
        command.args(["dashboard", "--url=redis://127.0.0.1:1", "--listen=127.0.0.1:0"]);
        command.args(arguments).output().expect("the program starts")
    };
    let chmod = format!("chmod 600 {shown}");
    for open in [0o644, 0o604, 0o602, 0o606] {
        refused(&ask(&["--token-file", shown], open), 2, &["--token-file", &chmod]);
    }
    // A service's group may have it; then only Redis is missing.
    for closed in [0o600, 0o400, 0o640, 0o440] {
        let output = ask(&["--token-file", shown], closed);
        assert_eq!(output.status.code(), Some(69), "{closed:o}: {}", said(&output));
    }
    let cert = directory.path().join("cert.pem");
    certificate("DNS:q", &cert, &path);
    let tls = ["--tls-cert", cert.to_str().expect("a path"), "--tls-key", shown];
    refused(&ask(&tls, 0o644), 2, &["--tls-key", &chmod]);
    assert_eq!(ask(&tls, 0o600).status.code(), Some(69));
}

#[test]
fn a_file_of_settings_with_a_password_that_all_can_read_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("settings");
    let shown = path.to_str().expect("a path");
    let says_chmod = |text: &str, mode| {
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        let mut command = program();
        command.args(["start", "--no-wait", &format!("--env={shown}")]);
        let output = command.output().expect("the program starts");
        assert_eq!(output.status.code(), Some(69), "{}", said(&output));
        assert!(!said(&output).contains("hunter2"), "{}", said(&output));
        said(&output).contains(&format!("chmod 600 {shown}"))
    };
    let with_password = "REDIS_HOST=127.0.0.1\nREDIS_PORT=1\nREDIS_PASS=hunter2-hunter2\n";
    assert!(says_chmod(with_password, 0o644));
    assert!(says_chmod("REDIS_URL=redis://me:hunter2@127.0.0.1:1\n", 0o644));
    assert!(!says_chmod(with_password, 0o600));
    assert!(
        !says_chmod("REDIS_URL=redis://127.0.0.1:1\n", 0o644),
        "there is no secret in it"
    );
}

#[test]
fn the_server_that_verify_starts_is_for_verify_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let keep = directory.path().join("kept");
    let shown = keep.to_str().expect("a path");
    let _verifying = Running::start(carelessly(&["verify", "--messages=100000000", "--keep", shown]));
    let settings = within(PATIENCE, || {
        let text = std::fs::read_to_string(keep.join("redis.conf")).ok()?;
        text.contains("user lab").then_some(text)
    });
    let settings = settings.expect("a server of its own");
    assert_eq!(mode(&keep), 0o700);
    let value = |name: &str| {
        let found = settings.lines().find_map(|line| line.strip_prefix(name));
        found.expect("a setting").trim().to_string()
    };
    let (port, password) = (value("port"), value("masterauth"));
    let ask = || {
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).ok()?;
        stream.write_all(b"PING\r\n").ok()?;
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut answer).ok()?;
        Some(answer)
    };
    let answer = within(PATIENCE, ask).expect("it listens");
    assert!(answer.starts_with("-NOAUTH"), "{answer}");
    // Arguments of processes are for everybody to see.
    let arguments = Command::new("ps")
        .args(["-eww", "-o", "args"])
        .output()
        .expect("ps is there");
    let arguments = String::from_utf8_lossy(&arguments.stdout).into_owned();
    assert!(
        arguments.contains("redis-server") || arguments.contains("valkey-server"),
        "{arguments}"
    );
    assert!(
        !arguments.contains(&password),
        "the password is in the list of processes"
    );
}
