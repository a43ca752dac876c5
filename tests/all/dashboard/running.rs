//! Starting, stopping, and what goes away meanwhile.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::board::{Board, new_queue, push_all};
use super::client::get;
use crate::fleet::{PATIENCE, program, said, signal, wait_exit, within};
use crate::server::{RedisServer, certificate};

#[test]
fn a_place_that_is_taken_is_told_in_one_line() {
    let server = RedisServer::start();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = taken.local_addr().expect("bound").to_string();
    for args in [
        vec!["dashboard".into(), "--listen".into(), place.clone()],
        vec![format!("--dashboard={place}")],
    ] {
        let output = program().args(["--url", &server.url()]).args(&args).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(line.contains(&place) && line.contains("choose another port"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn mistakes_are_wrong_usage() {
    for args in [
        &["dashboard", "--listen", "8077"][..],
        &["dashboard", "--tls-cert", "cert.pem"],
        &["dashboard", "--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"],
        &["dashboard", "--interval", "1s"],
        &["status", "--read-only"],
        &["start", "--dashboard=nonsense"],
    ] {
        let output = program().args(args).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    }
}

#[test]
fn without_a_redis_it_ends_with_69() {
    let output = program()
        .args(["dashboard", "--listen", "127.0.0.1:0", "--url", "redis://127.0.0.1:1"])
        .output();
    let output = output.expect("the program starts");
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
}

#[test]
fn a_redis_that_goes_away_is_told_and_does_not_end_it() {
    let mut server = RedisServer::durable();
    let queue = new_queue();
    push_all(&server, &queue, &[b"x".to_vec()]);
    let mut board = Board::start(&server, &queue, &[]);
    board.ask(&get("/api/v1/status")).is(200);
    let mut samples = samples(&board);
    let mut until = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        let found = samples.find(|sample| holds(sample));
        assert!(found.is_some(), "{what}");
    };
    until("there is a status", &|sample| sample["status"]["published"] == 1);
    server.kill();
    until("it is away", &|sample| sample["problem"]["code"] == "away");
    let told = board.ask(&get("/api/v1/status")).is(503);
    assert_eq!(told.code(), "away");
    board.ask(&get("/")).is(200);
    server.restart();
    until("it is back", &|sample| {
        sample["status"]["published"] == 1 && sample["problem"].is_null()
    });
    assert_eq!(board.child.try_wait().expect("a child of ours"), None);
    signal(board.child.id(), "TERM");
    assert_eq!(wait_exit(&mut board.child).code(), Some(0), "also while somebody looks");
}

/// What those who look are told, until it ends.
fn samples(board: &Board) -> impl Iterator<Item = Value> + use<> {
    let mut stream = TcpStream::connect(&board.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let ask = format!("GET /api/v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", board.address);
    stream.write_all(ask.as_bytes()).expect("sent");
    let mut number = 0;
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(move |line| {
        if let Some(id) = line.strip_prefix("id: ") {
            number = id.parse().unwrap_or(0);
        }
        let mut sample: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        sample["number"] = json!(number);
        Some(sample)
    })
}

#[test]
fn one_sampler_serves_all_who_look_and_rests_when_nobody_does() {
    let server = RedisServer::start();
    let queue = new_queue();
    push_all(&server, &queue, &[b"x".to_vec()]);
    let board = Board::start(&server, &queue, &[]);
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]).expect("INFO");
        let text = match stats {
            redis::Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
            other => format!("{other:?}"),
        };
        let line = text
            .lines()
            .find(|line| line.starts_with("cmdstat_zrange:"))
            .map(str::to_string);
        let count = line.and_then(|line| line.split(['=', ',']).nth(1).map(str::to_string));
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    let mut viewers: Vec<_> = (0..8).map(|_| samples(&board)).collect();
    for viewer in &mut viewers {
        assert!(viewer.nth(3).is_some());
    }
    let asked = calls();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_millis();
    // How many looks there can have been by then: samples are numbered, and this one is later.
    let later = viewers[0].find(|sample| u128::from(sample["now_ms"].as_u64().unwrap_or(0)) > now);
    let looks = later.expect("samples go on")["number"].as_u64().expect("a number");
    // A look asks for the members, the readers and the paused groups: three times, however many look.
    assert!(
        asked <= 3 * looks,
        "{asked} calls, and only {looks} looks for eight viewers"
    );
    drop(viewers);
    // It rests: at some time two looks at the count, seconds apart, find the same.
    let rests = within(PATIENCE, || {
        let before = calls();
        std::thread::sleep(Duration::from_secs(2));
        (calls() == before).then_some(())
    });
    assert!(rests.is_some(), "nobody looks, and still it asks");
}

#[test]
fn a_copy_serves_it_beside_its_work() {
    let server = RedisServer::start();
    let queue = new_queue();
    let mut command = program();
    command.args(["start", "--log", "json", "--url", &server.url(), "--queue", &queue]);
    command.args([
        "--dashboard=127.0.0.1:0",
        "--also-handle",
        "--interval",
        "10ms",
        "--work",
        "0",
        "--lease",
        "1m",
    ]);
    let mut board = Board::of(command.stderr(Stdio::piped()).spawn().expect("the program starts"));
    let status = within(PATIENCE, || {
        let told = board.ask(&get("/api/v1/status"));
        (told.status == 200)
            .then(|| told.json())
            .filter(|status| status["done"].as_u64() > Some(0))
    });
    let status = status.expect("it works, and tells");
    assert_eq!(
        (&status["nodes"][0]["generates"], &status["queue"]),
        (&json!(true), &json!(queue))
    );
    signal(board.child.id(), "TERM");
    assert_eq!(wait_exit(&mut board.child).code(), Some(0));
}

#[test]
fn with_a_certificate_it_speaks_tls_and_its_cookie_travels_nowhere_else() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    certificate("IP:127.0.0.1", &cert, &key);
    let token = "correct-horse-battery";
    let mut command = program();
    command.args([
        "dashboard",
        "--log",
        "json",
        "--listen",
        "127.0.0.1:0",
        "--url",
        &server.url(),
    ]);
    command
        .arg("--tls-cert")
        .arg(&cert)
        .arg("--tls-key")
        .arg(&key)
        .env("QUEENRIGHT_TOKEN", token);
    let board = Board::of(command.stderr(Stdio::piped()).spawn().expect("the program starts"));
    assert!(board.url.starts_with("https://"), "{}", board.url);

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&cert).expect("a certificate"))
        .expect("a root");
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().expect("a name");
    let connection = rustls::ClientConnection::new(config.into(), name).expect("a connection");
    let stream = TcpStream::connect(&board.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut tls = rustls::StreamOwned::new(connection, stream);
    let body = json!({"token": token}).to_string();
    let ask = format!(
        "POST /api/v1/session HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        board.address,
        body.len()
    );
    tls.write_all(ask.as_bytes()).expect("sent");
    let mut told = String::new();
    // Who hangs up without a farewell has said all the same what it said.
    let _ = tls.read_to_string(&mut told);
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("; Secure"), "{told}");
}

#[test]
fn machines_are_told_how_the_queue_is() {
    let mut server = RedisServer::start();
    let queue = new_queue();
    push_all(&server, &queue, &[b"x".to_vec()]);
    let board = Board::start(&server, &queue, &[]);
    board.ask(&get("/healthz")).is(200);
    board.ask(&get("/readyz")).is(200);
    let figures = board.ask(&get("/metrics")).is(200).text();
    let line = format!("queenright_queue_messages{{queue=\"{queue}\",state=\"queued\"}} 1");
    assert!(figures.contains(&line), "{figures}");
    server.kill();
    board.ask(&get("/healthz")).is(200);
    board.ask(&get("/readyz")).is(503);
    board.ask(&get("/metrics")).is(200);
}
