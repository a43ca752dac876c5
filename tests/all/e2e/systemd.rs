//! The service of systemd: what a node tells it, on a real socket, and what systemd's own tools say of the unit.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::fleet::{Fleet, PATIENCE, PROGRAM, left_out, said};
use crate::server::RedisServer;

/// A socket that plays systemd.
struct Systemd {
    /// Read at once, as systemd does: a socket has room for ten words only.
    heard: mpsc::Receiver<String>,
    words: Vec<String>,
}

impl Systemd {
    fn at(path: &Path) -> Self {
        Self::of(UnixDatagram::bind(path).expect("a socket"))
    }

    fn of(socket: UnixDatagram) -> Self {
        let (sender, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok(bytes) = socket.recv(&mut buffer) {
                let words = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
                if sender.send(words).is_err() {
                    return;
                }
            }
        });
        Self {
            heard,
            words: Vec::new(),
        }
    }

    fn listen(&mut self) {
        self.words.extend(self.heard.recv_timeout(Duration::from_millis(50)));
    }

    fn count(&self, begin: &str) -> usize {
        self.words.iter().filter(|words| words.starts_with(begin)).count()
    }

    /// Waits for one more word of this kind than there was.
    fn hears(&mut self, begin: &str) -> &str {
        let before = self.words.len();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.words[before..].iter().position(|words| words.starts_with(begin)) {
                return &self.words[before + at];
            }
            assert!(Instant::now() < deadline, "no {begin:?}: {:?}", self.words);
            self.listen();
        }
    }

    fn listens_for(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.listen();
        }
    }
}

const ARGS: &str = "--interval 20ms --work 0 --error-rate 0 --lease 1s --quiet";

#[test]
fn a_node_is_ready_once_it_has_joined_then_alive_and_says_when_it_stops() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let mut systemd = Systemd::at(&path);
    let mut fleet = Fleet::in_file(&directory.path().join("queue.db"))
        .env("NOTIFY_SOCKET", path.to_str().expect("text"))
        .env("WATCHDOG_USEC", "400000")
        .args(ARGS)
        .start_joined();
    systemd.hears("READY=1\n");
    systemd.hears("STATUS=generating, epoch ");
    for _ in 0..3 {
        systemd.hears("WATCHDOG=1");
    }
    assert_eq!(systemd.count("STOPPING=1"), 0);
    fleet.term(0);
    systemd.hears("STOPPING=1\n");
    assert!(fleet.wait_exit(0).success());
    assert_eq!(systemd.count("READY=1"), 1, "{:?}", systemd.words);
}

#[test]
fn systemd_is_told_through_an_abstract_socket_as_well() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = format!("queenright-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let mut systemd = Systemd::of(UnixDatagram::bind_addr(&address).expect("a socket"));
    let _fleet = Fleet::in_file(&directory.path().join("queue.db"))
        .env("NOTIFY_SOCKET", &format!("@{name}"))
        .args(ARGS)
        .start_joined();
    systemd.hears("READY=1\n");
    assert_eq!(systemd.count("WATCHDOG=1"), 0, "nobody asked for it");
}

#[test]
fn a_redis_that_is_away_delays_the_start_and_is_no_reason_for_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let mut systemd = Systemd::at(&path);
    let mut server = RedisServer::durable();
    server.kill();
    let fleet = Fleet::on(&server)
        .env("NOTIFY_SOCKET", path.to_str().expect("text"))
        .env("WATCHDOG_USEC", "400000")
        .args(ARGS)
        .start();
    for _ in 0..3 {
        systemd.hears("EXTEND_TIMEOUT_USEC=");
    }
    assert_eq!(systemd.count("READY=1"), 0);
    server.restart();
    systemd.hears("READY=1\n");
    server.kill();
    systemd.hears("STATUS=waiting for the store: ");
    // Longer than the beat of a process that hangs is believed in, which is two leases and five seconds.
    let before = systemd.count("WATCHDOG=1");
    systemd.listens_for(Duration::from_secs(9));
    systemd.hears("WATCHDOG=1");
    let alive = systemd.count("WATCHDOG=1") - before;
    // 400 ms is the bound; told every 100 ms.
    assert!(alive >= 9 * 1000 / 400, "{alive} in 9 s");
    server.restart();
    fleet.wait_for("Redis is back", |lines| lines.iter().any(|line| line.is("reconnected")));
    assert_eq!(systemd.count("READY=1"), 1);
}

#[test]
fn commands_do_not_inherit_what_only_the_node_may_tell_systemd() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, out) = (directory.path().join("notify"), directory.path().join("environment"));
    let mut systemd = Systemd::at(&path);
    let _fleet = Fleet::in_file(&directory.path().join("queue.db"))
        .env("NOTIFY_SOCKET", path.to_str().expect("text"))
        .env("WATCHDOG_USEC", "400000")
        .env("WATCHDOG_PID", "1")
        .env("ANOTHER", "one")
        .args("--interval 20ms --also-handle --handle-each")
        .arg(&format!("sh -c 'env > {0}.new; mv {0}.new {0}'", out.display()))
        .start_joined();
    systemd.hears("READY=1\n");
    let deadline = Instant::now() + PATIENCE;
    while !out.exists() {
        assert!(Instant::now() < deadline, "no message was handled");
        systemd.listen();
    }
    let environment = std::fs::read_to_string(&out).expect("an environment");
    assert!(environment.contains("ANOTHER=one"), "{environment}");
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        assert!(!environment.contains(name), "{environment}");
    }
}

const UNIT: &str = "contrib/systemd/queenright@.service";

/// The exposure that `systemd-analyze security` may find, of 100.
const EXPOSURE_MAX: &str = "12";

#[test]
fn systemd_itself_has_nothing_to_say_against_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        left_out("the check of the unit", "there is no systemd-analyze");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let unit = std::fs::read_to_string(root.join(UNIT)).expect("the unit");
    let unit = unit.replace("/usr/bin/queenright", PROGRAM);
    let path = directory.path().join("queenright@jobs.service");
    std::fs::write(&path, unit).expect("written");
    let analyze = |args: &[&str]| {
        let output = Command::new("systemd-analyze").args(args).arg(&path).output();
        output.expect("systemd-analyze runs")
    };
    let verified = analyze(&["verify", "--man=no", "--recursive-errors=no"]);
    assert!(
        verified.status.success() && verified.stderr.is_empty(),
        "{}",
        said(&verified)
    );
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let secure = analyze(&["security", "--offline=true", "--no-pager", &threshold]);
    assert!(secure.status.success(), "{}", said(&secure));
    // With the drop-in for credentials beside it.
    let beside = directory.path().join("queenright@jobs.service.d");
    std::fs::create_dir(&beside).expect("a directory");
    let dropped = std::fs::read_to_string(root.join("contrib/systemd/credentials.conf")).expect("the drop-in");
    std::fs::write(
        beside.join("credentials.conf"),
        dropped.replace("/usr/bin/queenright", PROGRAM),
    )
    .expect("written");
    let verified = analyze(&["verify", "--man=no", "--recursive-errors=no"]);
    assert!(
        verified.status.success() && verified.stderr.is_empty(),
        "{}",
        said(&verified)
    );
}
