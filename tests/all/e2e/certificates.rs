//! A Redis that speaks TLS and asks for certificates.

use std::os::unix::fs::PermissionsExt;

use crate::fleet::{Fleet, program, said};
use crate::server::{RedisServer, certificate, free_port};

struct Bed {
    _server: RedisServer,
    directory: tempfile::TempDir,
    port: u16,
}

impl Bed {
    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

fn bed() -> Bed {
    let directory = tempfile::tempdir().expect("a directory");
    let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    // One for all: the authority, the server called bees, and the client.
    certificate("DNS:bees", &cert, &key);
    let (port, cert, key) = (free_port(), cert.display().to_string(), key.display().to_string());
    let files = [
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &cert,
    ];
    let server = RedisServer::with_args(&[&["--tls-port", &port.to_string()], &files[..]].concat());
    Bed {
        _server: server,
        directory,
        port,
    }
}

#[test]
fn a_fleet_shows_its_certificate_and_trusts_the_authority_that_it_is_given() {
    let bed = bed();
    let (cert, key) = (bed.file("cert.pem"), bed.file("key.pem"));
    let url = format!("rediss://127.0.0.1:{}", bed.port);
    let flags = format!("--interval 10ms --work 0 --ca {cert} --cert {cert} --cert-key {key} --sni bees");
    let mut by_flags = Fleet::at(url.clone()).copies(2).args(&flags).start_led();
    by_flags.wait_for_more("done", 5);
    by_flags.nobody_exited_but(&[]);
    // The same in the URL.
    let url = format!("{url}?ca={cert}&cert={cert}&key={key}&sni=bees");
    let by_url = Fleet::at(url).queue(by_flags.queue()).copies(0).start();
    assert_eq!(by_url.status().nodes.len(), 2);
}

#[test]
fn what_is_wrong_with_a_certificate_is_one_line() {
    let bed = bed();
    let (cert, key) = (bed.file("cert.pem"), bed.file("key.pem"));
    let open = bed.file("open.pem");
    std::fs::copy(&key, &open).expect("copied");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).expect("set");
    for (flags, words) in [
        (format!("--ca {cert} --sni bees"), "it asks for a certificate"),
        (format!("--cert {cert} --cert-key {key} --sni bees"), "--ca FILE"),
        (format!("--ca {cert} --cert {cert} --cert-key {key}"), "--sni"),
        (format!("--ca {cert}.none"), "cannot use"),
        (format!("--ca {key} --sni bees"), "no certificate in it"),
        (
            format!("--ca {cert} --cert {cert} --cert-key {open} --sni bees"),
            "chmod 600",
        ),
        (
            format!("--ca {cert} --cert {cert} --cert-key {cert} --sni bees"),
            "cannot use",
        ),
    ] {
        let mut command = program();
        command.args(["--no-wait", "--url", &format!("rediss://127.0.0.1:{}", bed.port)]);
        let output = command.args(flags.split(' ')).output().expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{flags}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("queenright: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(words), "{flags}: {said}");
    }
    let mut command = program();
    command.args(["--cert-key", &key, "--url", &format!("rediss://127.0.0.1:{}", bed.port)]);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn a_server_that_takes_no_more_connections_is_called_that() {
    let server = RedisServer::with_args(&["--maxclients", "10"]);
    let connect = || std::net::TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let held: Vec<_> = (0..10).map(|_| connect()).collect();
    let output = program()
        .args(["--no-wait", "--url", &server.url()])
        .output()
        .expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("raise its maxclients"), "{said}");
    drop(held);
}
