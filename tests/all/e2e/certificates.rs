//! A Redis that speaks TLS and asks for certificates.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::checks::is_in_the_docs;
use crate::fleet::{Ends, Fleet, program, said};
use crate::server::{RedisServer, certificate, free_port, redis_server};

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
fn sentinels_that_ask_for_certificates_and_have_a_user_of_their_own_lead_to_the_server() {
    let bed = bed();
    let (cert, key, port) = (bed.file("cert.pem"), bed.file("key.pem"), free_port());
    let settings = format!(
        "port 0\ntls-port {port}\nbind 127.0.0.1\ntls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {cert}\n\
         tls-replication yes\nuser default off\nuser watch on >honey ~* &* +@all\nsentinel monitor queen 127.0.0.1 {} 1\n",
        bed.port
    );
    let file = bed.file("sentinel.conf");
    std::fs::write(&file, settings).expect("written");
    let sentinel = Command::new(redis_server())
        .args([&file, "--sentinel"])
        .stdout(Stdio::null())
        .spawn();
    let _sentinel = Ends(sentinel.expect("a sentinel"));
    let url = format!("rediss+sentinel://127.0.0.1:{port}/queen?ca={cert}&cert={cert}&key={key}&sni=bees");
    let mut fleet = Fleet::at(format!("{url}&sentinel_user=watch&sentinel_pass=honey"))
        .copies(2)
        .args("--interval 10ms --work 0")
        .start_led();
    fleet.wait_for_more("done", 5);
    fleet.nobody_exited_but(&[]);
    let output = program().args(["--no-wait", "--url", &url]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("REDIS_SENTINEL_PASS"), "{}", said(&output));
}

/// A certificate of the first version names no host; to show it to a server, that is not needed.
#[test]
fn a_certificate_of_the_first_version_can_be_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (cert, key, own, trusted) = (file("cert.pem"), file("key.pem"), file("own.pem"), file("trusted.pem"));
    certificate("IP:127.0.0.1", cert.as_ref(), key.as_ref());
    let openssl = |arguments: &str| {
        let made = Command::new("openssl").args(arguments.split(' ')).output();
        assert!(made.is_ok_and(|made| made.status.success()), "{arguments}");
    };
    openssl(&format!("req -new -key {key} -subj /CN=client -out {own}.csr"));
    openssl(&format!("x509 -req -in {own}.csr -signkey {key} -days 2 -out {own}"));
    let both = [&cert, &own].map(|path| std::fs::read_to_string(path).expect("read"));
    std::fs::write(&trusted, both.concat()).expect("written");
    let port = free_port().to_string();
    let files = [
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &trusted,
    ];
    let _server = RedisServer::with_args(&[&["--tls-port", &port], &files[..]].concat());
    let url = format!("rediss://127.0.0.1:{port}?ca={cert}&cert={own}&key={key}");
    let output = program()
        .args(["push", "--url", &url, "hello"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
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
        if words == "it asks for a certificate" {
            is_in_the_docs(lines[0]);
        }
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
    is_in_the_docs(said.lines().last().unwrap_or_default());
    drop(held);
}
