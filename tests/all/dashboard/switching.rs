//! One dashboard for all queues of a store.

use serde_json::{Value, json};

use super::board::{Board, new_queue};
use super::browser::Browser;
use super::client::{self, Reply, post};
use super::page::keep;
use crate::e2e::push::{feed, good};
use crate::fleet::{Fleet, PATIENCE, json_lines, program, said, within};
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

/// So many messages, each with a key, in a queue with so many shards on these servers.
fn spread(servers: &[&RedisServer], queue: &str, shards: usize, messages: usize) {
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    let fleet = Fleet::at(urls.join(" ")).queue(queue).copies(0);
    let fleet = fleet.env("QUEENRIGHT_SHARDS", &shards.to_string()).start();
    let item = |number| format!("{{\"payload\":\"p{number}\",\"key\":\"k{number}\"}}\n");
    let items: String = (0..messages).map(item).collect();
    good(&feed(&fleet, &["push", "--json"], &items));
}

fn queued_in_shards(status: &Value) -> Vec<u64> {
    let shards = status["shards"].as_array().expect("shards").iter();
    shards.map(|shard| shard["queued"].as_u64().expect("a count")).collect()
}

/// Two servers with a queue in two shards, one in four and one without, and a dashboard of the last.
fn under_one_roof() -> (Vec<RedisServer>, [String; 3], Board) {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let both = [&servers[0], &servers[1]];
    let mut queues = [new_queue(), new_queue(), new_queue()];
    queues.sort_unstable();
    spread(&both, &queues[0], 2, 40);
    spread(&both, &queues[1], 4, 60);
    push(&servers[0], &queues[2], &["one", "two", "three"]);
    let board = Board::start(
        &servers[0],
        &queues[2],
        &["--all-queues", "--shards", "1", "--url", &servers[1].url()],
    );
    (servers, queues, board)
}

#[test]
fn queues_on_several_servers_are_listed_once_and_opened_with_as_many_shards_as_each_has() {
    let (servers, [two, four, alone], board) = under_one_roof();
    // Its home shard is on the other server, so it is none of these; of another one all shards are on the first server.
    spread(&[&servers[1], &servers[0]], &new_queue(), 2, 40);
    let listed = get(&board, "/api/v1/queues").json();
    assert_eq!(listed, json!({"queues": [two, four, alone], "more": false}));
    let apart = new_queue();
    spread(&[&servers[0]], &apart, 3, 40);

    let status = |queue: &str| get(&board, &format!("/q/{queue}/api/v1/status")).is(200).json();
    for (queue, shards, all) in [(&two, 2, 40), (&four, 4, 60)] {
        let status = status(queue);
        assert_eq!(status["queued"], all, "{status}");
        let parts = queued_in_shards(&status);
        assert!(
            parts.len() == shards && !parts.contains(&0) && parts.iter().sum::<u64>() == all,
            "{status}"
        );
    }
    assert_eq!(
        (&status(&alone)["queued"], &status(&alone)["shards"]),
        (&json!(3), &json!([]))
    );
    // What is done there is done in the whole queue.
    let at = |path: &str| format!("/q/{four}/api/v1/{path}");
    let pushed = board
        .ask(&post(&at("messages"), &json!({"payload": "again", "key": "k17"})))
        .json();
    assert_eq!(pushed["repeated"], true, "{pushed}");
    let listed = program()
        .args([
            "queues",
            "--json",
            "--shards",
            "1",
            "--url",
            &servers[0].url(),
            "--url",
            &servers[1].url(),
        ])
        .output()
        .expect("it starts");
    let lines = json_lines(good(&listed).as_bytes());
    let queued = |queue: &str| {
        lines
            .iter()
            .find(|line| line["queue"] == queue)
            .map(|line| line["queued"].clone())
    };
    assert_eq!(
        [&two, &four, &alone].map(|queue| queued(queue)),
        [40, 60, 3].map(|count| Some(json!(count)))
    );

    let says = "give the URLs in the order in which the queue was made";
    let refused = || {
        let reply = get(&board, &format!("/q/{apart}/api/v1/status"));
        (reply.status == 502).then(|| reply.text())
    };
    // The list is a few seconds old.
    let text = within(PATIENCE, refused).expect("it is known, and refused");
    assert!(text.contains(says), "{text}");
    let fewer = program()
        .args(["queues", "--json", "--url", &servers[0].url()])
        .output();
    let lines = json_lines(good(&fewer.expect("it starts")).as_bytes());
    let line = lines.iter().find(|line| line["queue"] == two).expect("it is listed");
    let problem = line["problem"].as_str().expect("a problem");
    assert!(
        problem.contains("has 2 shards: give --shards 2, and the same URLs"),
        "{problem}"
    );
}

#[test]
fn the_page_switches_to_a_queue_with_shards_and_shows_each_of_them() {
    let (servers, [_, four, alone], board) = under_one_roof();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let fleet = Fleet::at(urls.join(" ")).queue(&four).env("QUEENRIGHT_SHARDS", "4");
    let fleet = fleet
        .args("--interval 5ms --work 0 --error-rate 0.05")
        .copies(2)
        .start_joined();
    let browser = Browser::start();
    browser.look(1280, 1500, false);
    browser.open(&board.url);
    browser.wait_for(
        "three queues",
        "return document.querySelectorAll('#queues option[value]:not([value=\"\"])').length === 3",
    );
    browser.wait_for(
        "the one without shards",
        &format!("return document.body.innerText.includes('{alone}') && !document.querySelector('#shards tbody tr')"),
    );
    browser.run(&format!(
        "const all = document.getElementById('queues'); all.value = '{four}'; all.onchange();"
    ));
    browser.wait_for("its page", &format!("return location.pathname === '/q/{four}/'"));
    let rows = "const rows = [...document.querySelectorAll('#shards tbody tr')].map((row) => row.innerText);";
    browser.wait_for(
        "four shards at work",
        &format!("{rows} return rows.length === 4 && rows.every((row) => row.includes('answers') && /[1-9][0-9.]*\\/s/.test(row))"),
    );
    keep(&browser, "switched");
    drop(fleet);
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
