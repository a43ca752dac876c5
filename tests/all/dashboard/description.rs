//! The API is as its description says: every path and method is served, every answer fits its schema.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::board::{Board, fail_all, new_queue};
use super::client::{Ask, Reply, get};
use super::schema::{misfit, resolve};
use crate::fleet::{Fleet, PATIENCE};
use crate::server::RedisServer;

fn document() -> Value {
    serde_json::from_str(include_str!("../../../src/app/dashboard/openapi.json")).expect("JSON")
}

/// What to send to an operation, and what to expect of it: several of some.
fn requests(operation: &str, node: &str) -> Vec<(&'static str, Option<Value>, u16)> {
    let post = |body: Value, status| ("", Some(body), status);
    match operation {
        "log_in" => vec![post(json!({"token": "x"}), 200), post(json!({"token": 7}), 400)],
        "history" => vec![
            ("?range=5m", None, 200),
            ("?range=24h", None, 200),
            ("?range=2h", None, 400),
        ],
        "scale" => vec![
            ("", None, 200),
            ("?wait=10s&min=1&max=5", None, 200),
            ("?backlog=0", None, 400),
            ("?backlog=1&wait=1s", None, 200),
            ("?wait=soon", None, 400),
            ("?wait=0", None, 400),
        ],
        "errors" => vec![
            ("?limit=2", None, 200),
            ("?order=oldest&text=no", None, 200),
            ("?limit=0", None, 400),
        ],
        "message" => vec![("0", None, 200), ("1", None, 200), ("999999", None, 404)],
        "error" => vec![("0", None, 200), ("999999", None, 404)],
        "requeue" | "delete" => vec![
            post(json!({"numbers": [1, 999_999]}), 200),
            post(json!({"select": {"text": "absent"}}), 200),
            post(json!({}), 400),
        ],
        "push" => vec![
            post(
                json!({"payload": "x", "key": "k", "ask": true, "delay_ms": 3_600_000}),
                201,
            ),
            post(json!({"payload_base64": "/w==", "delay_ms": 3_600_000}), 201),
            post(json!({"payload": {"any": ["JSON"]}, "delay": "1h"}), 201),
            post(
                json!([{"payload": 1, "delay": "1h"}, {"payload": 2, "delay": "1h"}]),
                201,
            ),
            post(json!([]), 201),
            post(json!({"payload": 7, "delay": "1h", "colour": "red"}), 400),
            post(json!([{"payload": 1}, {}]), 400),
        ],
        "limit" => vec![
            post(json!({"rate": "5/s", "burst": 7, "group": "1/m"}), 200),
            post(json!({"rate": "5 a second"}), 400),
            post(json!({"burst": 7}), 400),
            post(json!({}), 200),
        ],
        "cancel" => vec![
            post(json!({"numbers": [0, 900_000]}), 200),
            post(json!({"group": "g"}), 200),
            post(json!({"numbers": []}), 400),
            post(json!({"numbers": [0], "group": "g"}), 400),
            post(json!({"group": ""}), 400),
            post(json!({}), 400),
        ],
        "pause" => vec![
            post(json!({"generator": true}), 200),
            post(json!({"generator": false}), 200),
        ],
        "hand_over" => vec![
            post(json!({"node": node}), 200),
            post(json!({"node": "nobody"}), 404),
            post(json!({}), 202),
        ],
        _ => vec![("", None, 200)],
    }
}

fn check(document: &Value, operation: &Value, told: &Reply, what: &str) {
    let wanted = &operation["responses"][told.status.to_string()];
    assert!(
        wanted.is_object(),
        "{what}: {} is not described: {}",
        told.status,
        told.text()
    );
    let content = &resolve(document, wanted)["content"];
    let kind = told.header("content-type").unwrap_or_default();
    let schema = &content[kind]["schema"];
    assert!(schema.is_object(), "{what}: {kind:?} is not described");
    if kind == "application/json" {
        assert_eq!(misfit(document, schema, &told.json(), "answer"), None, "{what}");
    }
}

#[test]
fn every_path_and_method_of_the_description_is_served_as_it_says() {
    let document = document();
    let server = RedisServer::start();
    // Nobody is to lose its place, so that a handover to the generator is one.
    let fleet = Fleet::on(&server)
        .queue(&new_queue())
        .copies(2)
        .args("--interval 1h --lease 10m --error-rate 1 --work 0 -c 4")
        .start_led();
    let generator = fleet.node(0);
    fail_all(&server, fleet.queue(), &[b"{}".to_vec(), b"\xff".to_vec()], |_| {
        "no".into()
    });
    fleet.wait_status("some have failed", |status| status.errors >= 2);
    let board = Board::start(&server, fleet.queue(), &[]);
    assert_eq!(
        board.ask(&get("/api/v1/openapi.json")).is(200).json(),
        document,
        "the same that is in the repository"
    );
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(operations.insert(id.to_string()), "{id} twice");
            if id == "events" {
                events(&document, &board);
                continue;
            }
            for (query, body, status) in requests(id, &generator) {
                let path = match path.strip_suffix("{number}") {
                    Some(path) => format!("/api/v1{path}{query}"),
                    None => format!("/api/v1{path}{query}"),
                };
                let mut ask = Ask::new(&method.to_uppercase(), &path);
                if let Some(body) = &body {
                    ask = ask
                        .header("content-type", "application/json")
                        .body(body.to_string().as_bytes());
                }
                let what = format!("{method} {path} {body:?}");
                let told = board.ask(&ask);
                assert_eq!(told.status, status, "{what}: {}", told.text());
                check(&document, operation, &told, &what);
            }
        }
        let number = path.replace("{number}", "0");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            if methods.get(method.to_lowercase()).is_none() {
                board.ask(&Ask::new(method, &format!("/api/v1{number}"))).is(405);
            }
        }
    }
    assert!(operations.len() >= 18, "{operations:?}");
}

/// The first sample of the events.
fn events(document: &Value, board: &Board) {
    let mut stream = TcpStream::connect(&board.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let ask = format!("GET /api/v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", board.address);
    stream.write_all(ask.as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    assert!(lines.next().expect("an answer").contains(" 200 "));
    assert!(lines.any(|line| line == "content-type: text/event-stream"));
    let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_string));
    let sample: Value = serde_json::from_str(&data.expect("a sample")).expect("JSON");
    let schema =
        &document["paths"]["/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]["x-event-data"];
    assert_eq!(misfit(document, schema, &sample, "sample"), None);
    assert!(sample["status"].is_object() && sample["problem"].is_null(), "{sample}");
}
