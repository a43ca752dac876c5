//! One dashboard for all queues of a store.

use serde_json::json;

use super::board::{Board, new_queue};
use super::client::{self, Reply, post};
use crate::fleet::{Fleet, said};
use crate::server::RedisServer;

fn get(board: &Board, path: &str) -> Reply {
    board.ask(&client::get(path))
}

fn push(server: &RedisServer, queue: &str, payloads: &[&str]) {
    let fleet = Fleet::on(server).queue(queue).copies(0).start();
    let output = fleet
        .command(&[&["push"], payloads].concat())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn every_queue_of_the_store_has_its_page_and_its_api() {
    let server = RedisServer::start();
    let (first, second) = (new_queue(), "a b/c%".to_string());
    push(&server, &first, &["one"]);
    push(&server, &second, &["one", "two", "three"]);
    let board = Board::start(&server, &first, &["--all-queues"]);
    let listed = get(&board, "/api/v1/queues").json();
    let mut names = vec![json!(first), json!(second)];
    names.sort_by_key(ToString::to_string);
    assert_eq!(listed, json!({"queues": names, "more": false}));
    assert_eq!(get(&board, "/api/v1/status").json()["queued"], 1);
    let at = |path: &str| format!("/q/a%20b%2Fc%25/{path}");
    let status = get(&board, &at("api/v1/status")).json();
    assert_eq!((&status["queue"], &status["queued"]), (&json!(second), &json!(3)));
    let page = get(&board, &at(""));
    assert!(
        page.status == 200 && page.text().contains("<!doctype html>"),
        "{}",
        page.text()
    );
    let pushed = board.ask(&post(&at("api/v1/messages"), &json!({"payload": "four"})));
    assert_eq!(pushed.status, 201, "{}", pushed.text());
    assert_eq!(get(&board, &at("api/v1/status")).json()["queued"], 4);
    assert_eq!(get(&board, "/api/v1/status").json()["queued"], 1);
    for absent in [
        "/q/nobody/api/v1/status",
        "/q//api/v1/status",
        "/q/%ff/api/v1/status",
        "/q/x",
    ] {
        let status = get(&board, absent).status;
        assert!(status == 404 || status == 400, "{absent}: {status}");
    }
}

#[test]
fn without_the_flag_there_is_one_queue_and_without_a_token_nobody_opens_another() {
    let server = RedisServer::start();
    let (first, second) = (new_queue(), new_queue());
    for queue in [&first, &second] {
        push(&server, queue, &["one"]);
    }
    let board = Board::start(&server, &first, &[]);
    assert_eq!(
        get(&board, "/api/v1/queues").json(),
        json!({"queues": [first], "more": false})
    );
    assert_eq!(get(&board, &format!("/q/{second}/api/v1/status")).status, 404);
    assert_eq!(get(&board, &format!("/q/{first}/api/v1/status")).status, 200);
    drop(board);

    let directory = tempfile::tempdir().expect("a directory");
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, mode).expect("private");
    let token = token.display().to_string();
    let board = Board::start(&server, &first, &["--all-queues", "--token-file", &token]);
    for path in ["/api/v1/queues".to_string(), format!("/q/{second}/api/v1/status")] {
        assert_eq!(get(&board, &path).status, 401, "{path}");
        let admitted = board.ask(&client::get(&path).header("authorization", "Bearer 0123456789abcdef0123"));
        assert_eq!(admitted.status, 200, "{path}: {}", admitted.text());
    }
}
