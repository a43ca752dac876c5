//! What machines read: /metrics, /healthz and /readyz of a node, and the files in contrib/ that build on them.

mod exposition;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::fleet::{Fleet, PATIENCE, program, said, within};
use crate::server::RedisServer;
use exposition::{Kind, Scrape};

/// One request; the status code and the body. None: nobody answers.
fn ask(address: &str, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_string()))
}

fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    ask(address, &request)
}

/// Where a copy serves its metrics.
fn address(fleet: &Fleet, copy: usize) -> String {
    fleet.wait_for("it says where", |lines| {
        lines.iter().any(|line| line.copy == copy && line.is("metrics"))
    });
    let lines = fleet.lines();
    let line = lines.iter().find(|line| line.copy == copy && line.is("metrics"));
    let at = line.expect("just seen").fields["at"]
        .as_str()
        .expect("an address")
        .to_string();
    let at = at.strip_prefix("http://").and_then(|at| at.strip_suffix("/metrics"));
    at.expect("a URL").to_string()
}

/// Scrapes until it is as described.
fn scrape(address: &str, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
    let mut last = String::new();
    let found = within(PATIENCE, || {
        let (status, body) = get(address, "/metrics")?;
        assert_eq!(status, 200, "{body}");
        let scrape = Scrape::parse(&body).unwrap_or_else(|wrong| panic!("{wrong}\n{body}"));
        last = body;
        holds(&scrape).then_some(scrape)
    });
    found.unwrap_or_else(|| panic!("waited in vain until {what}: {last}"))
}

#[test]
fn a_node_tells_its_figures_and_the_generator_those_of_the_queue() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .copies(2)
        .queue("with \"quotes\"")
        .args("--interval 0 --messages 200 --work 0 --error-rate 0.3 --lease 20s --metrics 127.0.0.1:0")
        .start_led();
    fleet.wait_through(200);
    let (generator, handler) = (address(&fleet, 0), address(&fleet, 1));
    let told = scrape(&generator, "all are published", |scrape| {
        scrape.value("queenright_messages_published_total") == Some(200.0)
            && scrape.state("done").is_none()
            && scrape
                .value("queenright_queue_done_total")
                .zip(scrape.value("queenright_queue_failed_total"))
                .is_some_and(|(done, failed)| (done + failed - 200.0).abs() < 0.5)
    });
    assert_eq!(told.value("queenright_node_generates"), Some(1.0));
    assert_eq!(told.value("queenright_queue_nodes"), Some(2.0));
    assert_eq!(told.state("queued"), Some(0.0));
    assert_eq!(told.state("errors"), told.value("queenright_queue_failed_total"));
    assert_eq!(told.value("queenright_store_up"), Some(1.0));
    let queue = told.samples.iter().find_map(|sample| sample.label("queue"));
    assert_eq!(queue, Some("with \"quotes\""));

    let settled = |scrape: &Scrape| {
        let done = scrape.value("queenright_messages_done_total").unwrap_or(0.0);
        done + scrape.value("queenright_messages_failed_total").unwrap_or(0.0)
    };
    let told = scrape(&handler, "it has settled all", |scrape| {
        (settled(scrape) - 200.0).abs() < 0.5
    });
    assert_eq!(told.value("queenright_handle_seconds_count"), Some(200.0));
    assert_eq!(told.value("queenright_wait_seconds_count"), Some(200.0));
    assert_eq!(told.value("queenright_node_messages_in_hand"), Some(0.0));
    assert_eq!(
        told.value("queenright_queue_nodes"),
        None,
        "that is the generator's to tell"
    );
}

#[test]
fn what_the_files_in_contrib_use_is_exported_and_of_the_right_kind() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server)
        .args("--also-handle --interval 10ms --work 0 --lease 20s --metrics 127.0.0.1:0")
        .start();
    let told = scrape(&address(&fleet, 0), "it generates", |scrape| {
        scrape.value("queenright_queue_nodes").is_some()
    });
    let dashboard = include_str!("../../../contrib/grafana.json");
    let parsed: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let mut expressions = Vec::new();
    expressions_of(&parsed, &mut expressions);
    assert!(expressions.len() > 15, "the panels are found");
    expressions.push(include_str!("../../../contrib/alerts.yml").to_string());
    let mut used = BTreeSet::new();
    for expression in &expressions {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        used.extend(words.filter(|word| word.starts_with("queenright_")));
        // What only grows is looked at by how fast, and nothing else is.
        for function in ["rate(", "increase("] {
            for rest in expression.split(function).skip(1) {
                let name: String = rest
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                let kind = told.kind(&name);
                assert!(
                    matches!(kind, Some(Kind::Counter | Kind::Histogram)),
                    "{function}{name}: {kind:?}"
                );
            }
        }
    }
    assert!(used.len() > 15, "{used:?}");
    for name in used {
        let kind = told.kind(name).unwrap_or_else(|| panic!("{name} is not exported"));
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name} is a {kind:?}");
        let part = ["_bucket", "_sum", "_count"].iter().any(|part| name.ends_with(part));
        assert_eq!(part, kind == Kind::Histogram, "{name} is a {kind:?}");
    }
}

fn expressions_of(value: &serde_json::Value, out: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" || name == "definition" => out.push(text.to_string()),
                    _ => expressions_of(value, out),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| expressions_of(value, out)),
        _ => {}
    }
}

#[test]
fn a_node_is_ready_while_the_store_answers_and_healthy_all_along() {
    let mut server = RedisServer::durable();
    let fleet = Fleet::on(&server)
        .args("--work 0 --lease 1s --metrics 127.0.0.1:0")
        .start();
    let address = address(&fleet, 0);
    let ready = |wanted: u16| {
        let last = within(PATIENCE, || {
            get(&address, "/readyz").filter(|(status, _)| *status == wanted)
        });
        assert!(last.is_some(), "never {wanted}");
        assert_eq!(get(&address, "/healthz"), Some((200, "ok\n".into())));
    };
    ready(200);
    server.kill();
    ready(503);
    let told = scrape(&address, "the store is gone", |scrape| {
        scrape.value("queenright_store_up") == Some(0.0)
    });
    assert!(
        told.value("queenright_messages_done_total").is_some(),
        "figures are told all the same"
    );
    server.restart();
    ready(200);
}

#[test]
fn a_node_that_waits_for_its_store_is_healthy_and_not_ready() {
    let mut server = RedisServer::start();
    server.kill();
    let fleet = Fleet::on(&server).args("--metrics 127.0.0.1:0").start();
    let address = address(&fleet, 0);
    let (healthy, ready) = (get(&address, "/healthz"), get(&address, "/readyz"));
    assert_eq!(healthy, Some((200, "ok\n".into())));
    assert_eq!(ready.expect("it answers").0, 503);
}

#[test]
fn an_address_that_cannot_be_listened_at_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = taken.local_addr().expect("bound").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("q.db").display());
    for (place, code, part) in [
        (place.as_str(), 1, "cannot listen at"),
        ("9464", 2, "127.0.0.1:9464"),
        ("x:99999", 2, "no place"),
    ] {
        let output = program()
            .args(["--url", &url, "--metrics", place])
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(
            last.starts_with("queenright: ") && last.contains("--metrics") && last.contains(part),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn what_a_stranger_sends_is_bounded() {
    let directory = tempfile::tempdir().expect("a directory");
    let fleet = Fleet::in_file(&directory.path().join("q.db"))
        .args("--work 0 --metrics 127.0.0.1:0")
        .start();
    let address = address(&fleet, 0);
    assert_eq!(get(&address, "/").expect("an answer").0, 404);
    assert_eq!(get(&address, "/metrics/../etc/passwd").expect("an answer").0, 404);
    let post = format!("POST /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(ask(&address, &post).expect("an answer").0, 405);
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(100_000));
    // Refused, or hung up on while it was still talking.
    assert!(ask(&address, &long).is_none_or(|(status, _)| status == 431));
    let many = "X: y\r\n".repeat(200);
    let many = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    assert_eq!(ask(&address, &many).expect("an answer").0, 431);
    assert_eq!(ask(&address, "\0\x01\x02 rubbish\r\n\r\n").expect("an answer").0, 400);
    assert_eq!(get(&address, "/healthz").expect("an answer").0, 200, "and it goes on");
}
