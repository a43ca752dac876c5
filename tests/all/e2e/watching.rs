//! `status --watch`: on a terminal and elsewhere, and while the store is away.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;

use super::demo::Terminal;
use crate::fleet::{Fleet, PATIENCE, program, within};
use crate::server::RedisServer;

#[test]
fn on_a_terminal_it_shows_the_fleet_and_outlives_an_outage() {
    let mut server = RedisServer::durable();
    let mut fleet = Fleet::on(&server)
        .queue("watched")
        .copies(2)
        .args("--interval 50ms --work 0 --error-rate 0.5 --lease 20s")
        .start_led();
    let args = format!("status --watch --url {} -q watched", server.url());
    let mut terminal = Terminal::run(&args, true);
    terminal.wait("the fleet is there", |screen| {
        screen.contains("generator") && screen.contains("handler") && screen.contains("watched on 127.0.0.1")
    });
    terminal.wait_for("throughput");
    terminal.wait_for("errors waiting");
    server.kill();
    terminal.wait_for("s old:");
    server.restart();
    terminal.wait("it is back", |screen| {
        !screen.contains("s old:") && screen.contains("reconnected")
    });
    let node = fleet.add("");
    fleet.wait_for("another has joined", |lines| {
        lines.iter().any(|line| line.copy == node && line.is("joined"))
    });
    terminal.wait_for("joined");
    terminal.press("q");
    let status = within(PATIENCE, || terminal.child.try_wait().expect("a child of ours")).expect("it ends");
    assert_eq!(status.exit_code(), 0);
}

#[test]
fn elsewhere_it_prints_on_after_an_outage() {
    let mut server = RedisServer::durable();
    let fleet = Fleet::on(&server).args("--work 0 --lease 20s").start_joined();
    let mut child = fleet
        .command(&["status", "--watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (sender, lines) = mpsc::channel();
    let stdout = child.stdout.take().expect("piped");
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines.recv_timeout(PATIENCE).expect("a first look");
    server.kill();
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    stderr.read_line(&mut said).expect("it says why");
    assert!(said.contains("waiting for it"), "{said}");
    server.restart();
    while lines.try_recv().is_ok() {}
    let line = lines.recv_timeout(PATIENCE).expect("it goes on");
    assert!(line.starts_with("{\"generator\":"), "{line}");
    child.kill().expect("killed");
    child.wait().expect("gone");
}

#[test]
fn without_a_store_it_does_not_begin() {
    let output = program()
        .args(["status", "--watch", "--url", "redis://127.0.0.1:1"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(69));
}
