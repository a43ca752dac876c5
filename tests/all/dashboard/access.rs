//! Who may ask, and for what.

use serde_json::json;

use super::board::{Board, fail_all, new_queue, numbered, push_all};
use super::client::{Ask, get, post};
use crate::fleet::{program, said};
use crate::server::RedisServer;

pub const TOKEN: &str = "correct-horse-battery";

/// A file with the token that only its owner can read.
pub fn token_file(directory: &std::path::Path) -> String {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let path = directory.join("token");
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    writeln!(opened.expect("a file"), "{TOKEN}").expect("written");
    path.to_str().expect("a path").into()
}

fn failed(server: &RedisServer, count: u64) -> String {
    let queue = new_queue();
    fail_all(server, &queue, &numbered(count), |_| "it failed".into());
    queue
}

#[test]
fn a_foreign_host_or_origin_is_refused_and_changes_nothing() {
    let server = RedisServer::start();
    let queue = failed(&server, 3);
    let directory = tempfile::tempdir().expect("a directory");
    let file = token_file(directory.path());
    let board = Board::start(
        &server,
        &queue,
        &["--allow-host", "dash.example.org", "--token-file", &file],
    );
    let admitted = |ask: Ask| ask.header("authorization", &format!("Bearer {TOKEN}"));
    let get = |path: &str| admitted(get(path));
    let post = |path: &str, body: &serde_json::Value| admitted(post(path, body));
    let foreign = board.ask(&get("/api/v1/status").header("host", "evil.example")).is(403);
    assert_eq!(foreign.code(), "host");
    assert_eq!(
        board.ask(&get("/").header("host", "evil.example")).status,
        403,
        "not even the page"
    );
    board
        .ask(&get("/api/v1/status").header("host", "dash.example.org"))
        .is(200);
    let delete = post("/api/v1/errors/delete", &json!({"select": {}}));
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"] {
        let delete = post("/api/v1/errors/delete", &json!({"select": {}})).header("origin", origin);
        assert_eq!(board.ask(&delete).is(403).code(), "origin", "{origin}");
    }
    assert_eq!(board.ask(&get("/api/v1/status")).json()["errors"], 3);
    let own = format!("http://{}", board.address);
    let changed = board.ask(&delete.header("origin", &own)).is(200).json();
    assert_eq!(changed["numbers"], json!([0, 1, 2]));
}

#[test]
fn nothing_is_changed_by_get_nor_by_a_form() {
    let server = RedisServer::start();
    let queue = failed(&server, 3);
    let board = Board::start(&server, &queue, &[]);
    for path in [
        "errors/requeue",
        "errors/delete",
        "messages",
        "pause",
        "limit",
        "cancel",
        "handover",
    ] {
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            let told = board.ask(&Ask::new(method, &format!("/api/v1/{path}"))).is(405);
            assert_eq!(told.header("allow"), Some("POST"), "{method} {path}");
        }
        for kind in [
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "text/plain",
            "",
        ] {
            let form = Ask::new("POST", &format!("/api/v1/{path}")).header("content-type", kind);
            board.ask(&form.body(br#"{"select":{}}"#)).is(415);
        }
    }
    board.ask(&Ask::new("POST", "/")).is(405);
    let status = board.ask(&get("/api/v1/status")).json();
    assert_eq!((&status["errors"], &status["published"]), (&json!(3), &json!(3)));
    assert_eq!(status["paused"], json!({"generator": false, "handlers": false}));
}

#[test]
fn without_the_token_there_is_only_the_page_that_asks_for_it() {
    let server = RedisServer::start();
    let queue = failed(&server, 1);
    let directory = tempfile::tempdir().expect("a directory");
    let file = token_file(directory.path());
    let board = Board::start(&server, &queue, &["--token-file", &file]);
    board.ask(&get("/")).is(200);
    let session = board.ask(&get("/api/v1/session")).is(200).json();
    assert_eq!((&session["token"], &session["admitted"]), (&json!(true), &json!(false)));
    let paths = [
        "status",
        "store",
        "held",
        "events",
        "errors",
        "errors/0",
        "errors/export",
        "nonsense",
    ];
    for path in paths {
        let path = format!("/api/v1/{path}");
        let none = board.ask(&get(&path)).is(401);
        assert_eq!(
            (none.code().as_str(), none.header("www-authenticate")),
            ("token", Some("Bearer"))
        );
        for wrong in ["Bearer wrong-horse-battery", "Bearer", "Basic Y29ycmVjdA=="] {
            board.ask(&get(&path).header("authorization", wrong)).is(401);
        }
        board
            .ask(&get(&path).header("cookie", "queenright_1=x; queenright="))
            .is(401);
    }
    board
        .ask(&post("/api/v1/errors/delete", &json!({"select": {}})))
        .is(401);
    board.ask(&get("/metrics")).is(401);
    board.ask(&get("/readyz")).is(401);
    board.ask(&get("/healthz")).is(200);
    board
        .ask(&get("/api/v1/status").header("authorization", &format!("Bearer {TOKEN}")))
        .is(200);

    let wrong = post("/api/v1/session", &json!({"token": "wrong-horse-battery"}));
    assert_eq!(board.ask(&wrong).is(401).header("set-cookie"), None);
    let told = board.ask(&post("/api/v1/session", &json!({"token": TOKEN}))).is(200);
    let cookie = told.header("set-cookie").expect("a cookie").to_string();
    assert!(
        cookie.contains("; HttpOnly; SameSite=Strict; Path=/; Max-Age=86400") && !cookie.contains(TOKEN),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().expect("a cookie").to_string();
    board.ask(&get("/api/v1/status").header("cookie", &cookie)).is(200);
    board
        .ask(&Ask::new("DELETE", "/api/v1/session").header("cookie", &cookie))
        .is(200);
    board.ask(&get("/api/v1/status").header("cookie", &cookie)).is(401);
}

#[test]
fn a_dashboard_that_only_looks_refuses_every_change() {
    let server = RedisServer::start();
    let queue = failed(&server, 2);
    let board = Board::start(&server, &queue, &["--read-only"]);
    assert_eq!(board.ask(&get("/api/v1/session")).json()["read_only"], true);
    for (path, body) in [
        ("errors/requeue", json!({"numbers": [0]})),
        ("errors/delete", json!({"select": {}})),
        ("messages", json!({"payload": "x"})),
        ("pause", json!({"generator": true})),
        ("limit", json!({"rate": "5/s"})),
        ("cancel", json!({"numbers": [0]})),
        ("handover", json!({})),
    ] {
        let told = board.ask(&post(&format!("/api/v1/{path}"), &body)).is(403);
        assert_eq!(told.code(), "read_only", "{path}");
    }
    let status = board.ask(&get("/api/v1/status")).json();
    assert_eq!((&status["errors"], &status["published"]), (&json!(2), &json!(2)));
    board.ask(&get("/api/v1/errors")).is(200);
}

#[test]
fn what_is_too_large_is_refused_and_the_next_one_is_served() {
    let server = RedisServer::start();
    let queue = new_queue();
    push_all(&server, &queue, &[b"x".to_vec()]);
    let board = Board::start(&server, &queue, &[]);
    // Whoever goes on sending may be hung up on before it reads the answer.
    let refused = |ask: &Ask, status: u16| {
        if let Some(told) = ask.try_send(&board.address) {
            told.is(status);
        }
    };
    let large = json!({"payload": "x".repeat(3 << 20)});
    refused(&post("/api/v1/messages", &large), 413);
    let claimed = Ask::new("POST", "/api/v1/messages")
        .header("content-type", "application/json")
        .header("content-length", "99999999999");
    assert_eq!(board.ask(&claimed).is(413).code(), "too_large");
    let long = get("/api/v1/status").header("x-long", &"x".repeat(64 << 10));
    refused(&long, 431);
    let many = (0..200).fold(get("/api/v1/status"), |ask, n| ask.header(&format!("x-{n}"), "x"));
    refused(&many, 431);
    // The largest payload that a queue takes is taken.
    let most = json!({"payload": "x".repeat(1 << 20)});
    board.ask(&post("/api/v1/messages", &most)).is(201);
    let more = json!({"payload": "x".repeat((1 << 20) + 1)});
    board.ask(&post("/api/v1/messages", &more)).is(400);
    assert_eq!(board.ask(&get("/api/v1/status")).is(200).json()["published"], 2);
}

#[test]
fn every_answer_tells_the_browser_to_run_nothing_else() {
    let server = RedisServer::start();
    let board = Board::start(&server, &new_queue(), &[]);
    for path in [
        "/",
        "/app.js",
        "/app.css",
        "/favicon.svg",
        "/api/v1/session",
        "/api/v1/nothing",
        "/nothing",
    ] {
        let told = board.ask(&get(path));
        let policy = told.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path}: {policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        assert_eq!(told.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(told.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(told.header("access-control-allow-origin"), None, "{path}");
    }
    let page = board.ask(&get("/")).text();
    for inline in [
        "<script>", "<style", "style=", "onclick=", "http://", "https://", "//cdn",
    ] {
        assert!(!page.contains(inline), "{inline}");
    }
}

#[test]
fn another_address_than_loopback_needs_a_token() {
    let server = RedisServer::start();
    let url = server.url();
    let run = |args: &[&str], token: Option<&str>| {
        let mut command = program();
        command.args(["--url", &url]).args(args);
        if let Some(token) = token {
            command.env("QUEENRIGHT_TOKEN", token);
        }
        command.output().expect("the program starts")
    };
    for args in [
        &["dashboard", "--listen", "0.0.0.0:0"][..],
        &["dashboard", "--listen", "[::]:0"],
        &["start", "--dashboard=0.0.0.0:0"],
    ] {
        let output = run(args, None);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            line.contains("needs a token") && line.contains("--token-file"),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    let short = run(&["dashboard", "--listen", "0.0.0.0:0"], Some("short"));
    assert_eq!(short.status.code(), Some(2), "{}", said(&short));
    assert!(
        !String::from_utf8_lossy(&short.stderr).contains("\"short\""),
        "{}",
        said(&short)
    );
    let missing = run(&["dashboard", "--token-file", "/nonexistent"], None);
    assert_eq!(missing.status.code(), Some(2), "{}", said(&missing));
}
