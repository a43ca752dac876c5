//! Errors over HTTP: pages, searches and changes in bounded steps.

use queenright::app::lab::proxy::{Direction, Proxy};
use serde_json::{Value, json};

use super::board::{Board, fail_all, new_queue, numbered};
use super::client::{get, post};
use crate::fleet::{Fleet, json_lines};
use crate::server::RedisServer;

fn numbers(rows: &Value) -> Vec<u64> {
    let rows = rows.as_array().expect("an array");
    rows.iter()
        .map(|row| row["number"].as_u64().expect("a number"))
        .collect()
}

/// Every page of a query, followed to its end.
fn walk(board: &Board, query: &str) -> Vec<u64> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = board
            .ask(&get(&format!("/api/v1/errors?{query}{cursor}")))
            .is(200)
            .json();
        all.extend(numbers(&page["errors"]));
        match page["next"].as_u64() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[test]
fn pages_cover_all_errors_once_in_either_order() {
    let server = RedisServer::start();
    let queue = new_queue();
    fail_all(&server, &queue, &numbered(130), |message| {
        format!(
            "{} is {}",
            message.number,
            if message.number % 10 == 7 {
                "odd indeed"
            } else {
                "wrong"
            }
        )
    });
    let board = Board::start(&server, &queue, &[]);
    let upwards: Vec<u64> = (0..130).collect();
    let downwards: Vec<u64> = (0..130).rev().collect();
    for limit in [1, 7, 50, 130, 200] {
        assert_eq!(walk(&board, &format!("order=oldest&limit={limit}")), upwards);
        assert_eq!(walk(&board, &format!("limit={limit}")), downwards);
    }
    let sevens: Vec<u64> = (0..130).filter(|number| number % 10 == 7).collect();
    assert_eq!(walk(&board, "order=oldest&limit=5&text=odd+indeed"), sevens);
    assert_eq!(
        walk(&board, "order=oldest&text=odd%20indeed&from=20&to=47"),
        [27, 37, 47]
    );
    assert_eq!(walk(&board, "from=20&to=22"), [22, 21, 20]);
    assert!(walk(&board, "from=30&to=20").is_empty());
    assert!(walk(&board, "since_ms=9007199254740992").is_empty());
    assert_eq!(walk(&board, "order=oldest&before_ms=9007199254740992"), upwards);
    for wrong in [
        "limit=0",
        "limit=201",
        "order=up",
        "form=1",
        "from=-1",
        "from=1&from=2",
        "text=%ff",
    ] {
        board.ask(&get(&format!("/api/v1/errors?{wrong}"))).is(400);
    }
}

#[test]
fn a_page_asks_the_store_for_no_more_than_it_shows() {
    let server = RedisServer::start();
    let queue = new_queue();
    fail_all(&server, &queue, &numbered(3000), |_| "it failed".into());
    let board = Board::start(&server, &queue, &[]);
    let page = board.ask(&get("/api/v1/errors?limit=50&cursor=2000")).json();
    assert_eq!(page["looked"], 50);
    assert_eq!(numbers(&page["errors"]), (1950..2000).rev().collect::<Vec<_>>());
    // A search without a hit looks at a bounded number, and says where to go on.
    let page = board.ask(&get("/api/v1/errors?text=absent")).json();
    assert!(page["looked"].as_u64().expect("a number") <= 10_500, "{page}");
    assert_eq!(page["errors"], json!([]));
}

#[test]
fn errors_are_requeued_and_deleted_by_number_or_by_what_matches() {
    let server = RedisServer::start();
    let queue = new_queue();
    fail_all(&server, &queue, &numbered(1200), |message| {
        if message.number < 1000 {
            "timeout".into()
        } else {
            "refused".into()
        }
    });
    let board = Board::start(&server, &queue, &[]);
    let change = |verb: &str, body: &Value| board.ask(&post(&format!("/api/v1/errors/{verb}"), body)).is(200).json();
    let told = change("delete", &json!({"numbers": [3, 5, 9999]}));
    assert_eq!((&told["numbers"], &told["next"]), (&json!([3, 5]), &Value::Null));
    assert_eq!(
        change("requeue", &json!({"numbers": [4.0]}))["numbers"],
        json!([4]),
        "as whole as 4"
    );

    let (mut changed, mut cursor) = (0, Value::Null);
    loop {
        let told = change("requeue", &json!({"select": {"text": "timeout"}, "cursor": cursor}));
        changed += told["numbers"].as_array().expect("an array").len();
        cursor = told["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(changed, 997);
    let status = board.ask(&get("/api/v1/status")).json();
    assert_eq!(
        (&status["errors"], &status["requeued"], &status["queued"]),
        (&json!(200), &json!(998), &json!(998))
    );
    for wrong in [
        json!({}),
        json!({"numbers": []}),
        json!({"numbers": [1], "select": {}}),
        json!({"numbers": [1], "cursor": 1}),
        json!({"numbers": [-1]}),
        json!({"numbers": [1.5]}),
        json!({"numbers": (0..501).collect::<Vec<_>>()}),
        json!({"select": {"txt": "timeout"}}),
        json!({"select": null}),
        json!({"select": [0, 1, null, null, null]}),
        json!({"select": {}, "cursor": (1u64 << 53) + 1}),
        json!([]),
    ] {
        board.ask(&post("/api/v1/errors/delete", &wrong)).is(400);
    }
    assert_eq!(board.ask(&get("/api/v1/status")).json()["errors"], 200);
}

#[test]
fn a_message_is_shown_as_it_is_and_exported_as_the_program_reads_it() {
    let server = RedisServer::start();
    let queue = new_queue();
    let payloads = [&b"<script>alert(1)</script>\x1b[2J"[..], b"\xff\xfe", b"{\"a\":1}"].map(<[u8]>::to_vec);
    fail_all(&server, &queue, &payloads, |_| "bad \u{1b}]0;x\u{7} thing".into());
    let board = Board::start(&server, &queue, &[]);
    let one = board.ask(&get("/api/v1/errors/0")).is(200).json();
    assert_eq!(one["payload"], "<script>alert(1)</script>\u{1b}[2J");
    assert_eq!(one["error"], "bad \u{1b}]0;x\u{7} thing");
    let two = board.ask(&get("/api/v1/errors/1")).json();
    assert_eq!((two.get("payload"), &two["payload_base64"]), (None, &json!("//4=")));
    for missing in [
        "/api/v1/errors/3",
        "/api/v1/errors/x",
        "/api/v1/errors/-1",
        "/api/v1/errors/99999999999999999999",
    ] {
        board.ask(&get(missing)).is(404);
    }
    let export = board.ask(&get("/api/v1/errors/export?from=1")).is(200);
    assert_eq!(export.header("content-type"), Some("application/x-ndjson"));
    assert!(!export.body.contains(&0x1b), "safe to look at on a terminal");
    let lines = json_lines(&export.body);
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["payload_base64"], &lines[1]["payload"]),
        (&json!("//4="), &json!("{\"a\":1}"))
    );
}

#[test]
fn of_a_change_that_the_store_ends_in_the_midst_the_answer_and_the_log_say_what_was_done() {
    // So many errors are one step.
    const STEP: u64 = 500;
    const TRIES: u64 = 5;
    let server = RedisServer::start();
    let queue = new_queue();
    let all = 2 * STEP * (1 + TRIES);
    fail_all(&server, &queue, &numbered(all), |_| "it failed".into());
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
    let board = Board::at(&format!("redis://{}", proxy.address()), &queue, &[]);
    let delete = |from: u64, count: u64| {
        let select = json!({"select": {"from": from, "to": from + count - 1}});
        board.ask(&post("/api/v1/errors/delete", &select))
    };
    // Redis knows the scripts from then on, and a step needs as many bytes as the second.
    delete(0, STEP).is(200);
    let before = proxy.passed(Direction::Requests);
    delete(STEP, STEP).is(200);
    let bytes = proxy.passed(Direction::Requests) - before;
    let mut changed = 2 * STEP;
    for _ in 0..2 {
        board.said("dashboard_change");
    }
    // A request looks for a third of a second: on a slow machine it may end behind its first step.
    let refused = (1..=TRIES).find_map(|place| {
        proxy.black_hole_after(Direction::Requests, bytes + bytes / 2);
        let reply = delete(2 * STEP * place, 2 * STEP);
        let told = reply.json();
        let count = told["numbers"].as_array().map_or(0, Vec::len) as u64;
        let noted = board.said("dashboard_change")["change"].to_string();
        changed += count;
        (reply.status != 200).then_some((reply.status, count, noted))
    });
    proxy.black_hole(false);
    let (status, count, noted) = refused.expect("one that ends in the midst");
    assert_eq!((status, count), (503, STEP), "{noted}");
    assert!(noted.contains("errors deleted: 500"), "{noted}");
    let fleet = Fleet::on(&server).queue(&queue).copies(0).start();
    assert_eq!(fleet.status().errors, all - changed);
}
