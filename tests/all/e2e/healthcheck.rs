//! `healthcheck`: what a container runtime asks. Other tests run beside this one, so each asks about its own process only.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, PATIENCE, left_out, program, said, signal, within};
use crate::server::RedisServer;

fn ask(pid: u32) -> Output {
    let mut command = program();
    // A store that is no store: it is not asked.
    command.env("REDIS_URL", "redis://nowhere.invalid");
    command
        .args(["healthcheck", "--pid", &pid.to_string()])
        .output()
        .expect("it starts")
}

/// The same, of one that may hang.
fn ask_patiently(pid: u32) -> Output {
    let mut command = program();
    command.args(["healthcheck", "--pid", &pid.to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let ended = within(Duration::from_secs(15), || child.try_wait().expect("a child"));
    let _ = child.kill();
    assert!(ended.is_some(), "it hangs");
    child.wait_with_output().expect("it ended")
}

/// The name at which a process is asked, without the zero before it.
fn name(pid: u32) -> String {
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
    format!("queenright/{}/{pid}", namespace.display())
}

/// Connects until there is no more room.
async fn fill(pid: u32) -> Vec<tokio::net::UnixStream> {
    let mut all = Vec::new();
    while let Ok(stream) = tokio::net::UnixStream::connect(format!("\0{}", name(pid))).await {
        all.push(stream);
    }
    assert!(!all.is_empty());
    all
}

/// A process that is none of ours, and whose name somebody else takes.
struct Other(Child);

impl Other {
    fn start() -> (Self, UnixListener) {
        let child = Command::new("sleep").arg("1000").spawn().expect("sleep");
        let address = SocketAddr::from_abstract_name(name(child.id())).expect("a name");
        (Self(child), UnixListener::bind_addr(&address).expect("a socket"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_nobody(output: &Output) -> bool {
    let line = String::from_utf8_lossy(&output.stdout);
    output.status.code() == Some(1) && line.starts_with("unhealthy: no queenright start or dashboard runs here")
}

#[tokio::test]
async fn a_stranger_who_accepts_nobody_is_not_waited_for() {
    let (other, _listener) = Other::start();
    let _all = fill(other.0.id()).await;
    let output = ask_patiently(other.0.id());
    assert!(is_nobody(&output), "{}", said(&output));
}

#[test]
fn a_stranger_who_answers_in_the_name_of_another_is_not_believed() {
    let (other, listener) = Other::start();
    std::thread::spawn(move || {
        while let Ok((mut asking, _)) = listener.accept() {
            let _ = asking.write_all(b"generates\n");
        }
    });
    let output = ask_patiently(other.0.id());
    assert!(is_nobody(&output), "{}", said(&output));
}

/// Listens at the name of its own process, which it is given without the number, and answers.
const STRANGER: &str = "
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind('\\0' + sys.argv[1] + str(os.getpid()))
listener.listen()
print('listens', flush=True)
while True:
    asking = listener.accept()[0]
    asking.sendall(b'generates')
    asking.close()
";

#[test]
fn root_believes_no_stranger_who_runs_another_program() {
    let is_root = std::fs::metadata("/proc/self").expect("this process").uid() == 0;
    if !is_root || Command::new("python3").arg("--version").output().is_err() {
        left_out("a stranger beside root", "this is not root, or there is no python3");
        return;
    }
    let prefix = name(0);
    let mut command = Command::new("python3");
    command.args(["-c", STRANGER, prefix.trim_end_matches('0')]);
    command.current_dir("/").uid(65534).stdout(Stdio::piped());
    let mut other = Other(command.spawn().expect("python3"));
    let mut line = String::new();
    let mut told = BufReader::new(other.0.stdout.take().expect("piped"));
    told.read_line(&mut line).expect("a line");
    assert_eq!(line, "listens\n");
    let output = ask_patiently(other.0.id());
    assert!(is_nobody(&output), "{}", said(&output));
}

#[test]
fn a_socket_of_somebody_whose_name_is_no_text_disturbs_nobody() {
    let address = SocketAddr::from_abstract_name(b"\xff\xfe queenright").expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a socket");
    let output = ask(std::process::id());
    assert!(is_nobody(&output), "{}", said(&output));
}

#[tokio::test]
async fn a_frozen_copy_that_has_no_room_for_one_more_who_asks_is_unhealthy() {
    let directory = tempfile::tempdir().expect("a directory");
    let fleet = Fleet::in_file(&directory.path().join("queue.db"))
        .args("--interval 20ms --work 0 --quiet")
        .start_joined();
    let pid = fleet.pid(0);
    signal(pid, "STOP");
    let all = fill(pid).await;
    let output = ask_patiently(pid);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("unhealthy: process {pid} does not answer\n")
    );
    drop(all);
    signal(pid, "CONT");
    assert!(within(PATIENCE, || is_well(&ask(pid)).then_some(())).is_some());
}

fn is_well(output: &Output) -> bool {
    output.status.code() == Some(0) && output.stdout.starts_with(b"healthy: ")
}

/// Until one of them answers that it generates and the other that it handles, in one line each. Which one has the crown
/// is not for a test to say: on a busy machine it may have moved since the start.
fn wait_for_both_roles(pids: [u32; 2]) {
    let mut last = Vec::new();
    let answered = within(PATIENCE, || {
        last = pids.map(ask).to_vec();
        let mut roles = last.iter().map(|output| {
            let line = String::from_utf8_lossy(&output.stdout);
            let is_one_line = line.lines().count() == 1 && output.stderr.is_empty();
            ["generates", "handles"].map(|role| is_one_line && line.contains(role))
        });
        let both = [roles.next()?, roles.next()?];
        (both == [[true, false], [false, true]] || both == [[false, true], [true, false]]).then_some(())
    });
    let told: Vec<_> = last.iter().map(said).collect();
    assert!(answered.is_some(), "{told:?}");
}

#[test]
fn a_copy_is_healthy_while_it_works_and_while_its_store_is_away_and_unhealthy_when_frozen() {
    let mut server = RedisServer::durable();
    let mut fleet = Fleet::on(&server)
        .args("--interval 10ms --messages 50 --work 0")
        .start_led();
    fleet.add("");
    let pids = [fleet.pid(0), fleet.pid(1)];
    wait_for_both_roles(pids);
    server.kill();
    for pid in &pids {
        let output = ask(*pid);
        assert!(is_well(&output), "the store is away: {}", said(&output));
    }
    signal(pids[1], "STOP");
    let output = ask(pids[1]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("unhealthy: process {} does not answer\n", pids[1])
    );
    signal(pids[1], "CONT");
    server.restart();
    assert!(within(PATIENCE, || is_well(&ask(pids[1])).then_some(())).is_some());
    // The replies that were on their way when the server was killed are lost, and the lines of their messages with them.
    checks::everything(&fleet, 50, Lines::SomeLost);
}

#[test]
fn where_nobody_runs_nobody_is_healthy() {
    let output = ask(std::process::id());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(
        line.starts_with("unhealthy: no queenright start or dashboard runs here"),
        "{line}"
    );
}
