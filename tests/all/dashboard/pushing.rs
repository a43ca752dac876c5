//! Producers that speak HTTP: one message or many, tokens that may only push, and what autoscalers ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use super::access::{TOKEN, token_file};
use super::board::{Board, new_queue, numbered, push_all};
use super::client::{Ask, Reply, get, post};
use crate::fleet::{Fleet, PATIENCE, json_lines, peak_memory, program, said, signal, within};
use crate::server::RedisServer;

const MESSAGES: &str = "/api/v1/messages";

fn lines(text: &str) -> Ask {
    Ask::new("POST", MESSAGES)
        .header("content-type", "application/x-ndjson")
        .body(text.as_bytes())
}

fn numbers(reply: &Reply) -> Vec<(u64, bool)> {
    let all = reply.json()["messages"].as_array().cloned().unwrap_or_default();
    let one = |told: &Value| (told["number"].as_u64().expect("a number"), told["repeated"] == true);
    all.iter().map(one).collect()
}

/// What the queue holds, in its order.
fn payloads(server: &RedisServer, queue: &str) -> Vec<String> {
    let text = |failed: &Value| failed["payload"].as_str().expect("a text").to_string();
    messages(server, queue).iter().map(text).collect()
}

/// The same, as the errors that they become.
fn messages(server: &RedisServer, queue: &str) -> Vec<Value> {
    let mut command = program();
    command.args([
        "start",
        "--burst",
        "--error-rate=1",
        "--work=0",
        "--prefer=never",
        "--quiet",
    ]);
    command.args(["--url", &server.url(), "--queue", queue]);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", said(&output));
    let mut command = program();
    command.args(["get-errors", "--json", "--url", &server.url(), "--queue", queue]);
    let mut failed = json_lines(&command.output().expect("the program starts").stdout);
    failed.sort_by_key(|failed| failed["number"].as_u64());
    failed
}

#[test]
fn the_trace_of_a_request_goes_with_its_messages_unless_they_name_another() {
    let server = RedisServer::start();
    let queue = new_queue();
    let board = Board::start(&server, &queue, &[]);
    let list = json!([{"payload": "a"}, {"payload": "b", "headers": {"traceparent": "00-own-01"}}]);
    let ask = post(MESSAGES, &list)
        .header("traceparent", "00-caller-01")
        .header("tracestate", "x=1");
    board.ask(&ask).is(201);
    board
        .ask(&post(MESSAGES, &json!({"payload": "c", "ask": true})))
        .is(201);
    let state = |number: u64| board.ask(&get(&format!("{MESSAGES}/{number}"))).is(200).json()["state"].clone();
    assert_eq!((state(2), state(0)), ("queued".into(), "queued".into()));
    let headers: Vec<Value> = messages(&server, &queue)
        .iter()
        .map(|failed| failed["headers"].clone())
        .collect();
    let inherited = json!({"traceparent": "00-caller-01", "tracestate": "x=1"});
    assert_eq!(headers, [inherited, json!({"traceparent": "00-own-01"}), Value::Null]);
    assert_eq!(state(2), "failed");
    board.ask(&get(&format!("{MESSAGES}/3"))).is(404);
}

#[test]
fn many_messages_are_put_in_at_once_in_their_order_or_none_of_them() {
    let server = RedisServer::start();
    let queue = new_queue();
    let board = Board::start(&server, &queue, &[]);
    let list = json!([{"payload": "a"}, {"payload": {"b": 1}}, {"payload": [1, 2]}]);
    let told = numbers(&board.ask(&post(MESSAGES, &list)).is(201));
    assert_eq!(told, [(0, false), (1, false), (2, false)]);
    let told = numbers(&board.ask(&lines("{\"payload\":\"c\"}\r\n\n{\"payload\":4}")).is(201));
    assert_eq!(told, [(3, false), (4, false)]);
    for (wrong, words) in [
        (
            post(MESSAGES, &json!([{"payload": "x"}, {"payload": "y", "colour": "red"}])),
            "colour",
        ),
        (post(MESSAGES, &json!([{"payload": "x"}, 7])), "an object"),
        (
            lines("{\"payload\":\"x\"}\n{\"payload\":\"y\",\"key\":\"\"}\n"),
            "message 2",
        ),
        (lines("{\"payload\":\"x\"}\n{\"payload\""), "message 2"),
        (lines(&"{\"payload\":0}\n".repeat(10_001)), "10000"),
    ] {
        let refused = board.ask(&wrong).is(400);
        assert!(refused.text().contains(words), "{words}: {}", refused.text());
    }
    let form = Ask::new("POST", MESSAGES).header("content-type", "text/plain");
    board.ask(&form.body(b"{}")).is(415);
    assert_eq!(payloads(&server, &queue), ["a", r#"{"b":1}"#, "[1,2]", "c", "4"]);
}

#[test]
fn a_request_that_is_sent_again_under_its_key_puts_nothing_in() {
    let server = RedisServer::start();
    let queue = new_queue();
    let board = Board::start(&server, &queue, &[]);
    let ask = || lines("{\"payload\":1}\n{\"payload\":2}\n").header("idempotency-key", "\"import-7\"");
    let first = numbers(&board.ask(&ask()).is(201));
    assert_eq!(first, [(0, false), (1, false)]);
    assert_eq!(numbers(&board.ask(&ask()).is(201)), [(0, true), (1, true)]);
    // One that got less far the first time goes on where it was.
    let longer = lines("{\"payload\":1}\n{\"payload\":2}\n{\"payload\":3}\n").header("idempotency-key", "import-7");
    assert_eq!(numbers(&board.ask(&longer).is(201)), [(0, true), (1, true), (2, false)]);
    board.ask(&ask().header("idempotency-key", "another")).is(400);
    // Another message under a key that was used is no repeat: nothing is dropped.
    let other = lines("{\"payload\":9}\n").header("idempotency-key", "import-7");
    assert_eq!(numbers(&board.ask(&other).is(201)), [(3, false)]);
    assert_eq!(payloads(&server, &queue), ["1", "2", "3", "9"]);
}

#[test]
fn when_the_queue_is_full_the_answer_says_what_is_in() {
    let server = RedisServer::start();
    let queue = new_queue();
    let mut command = program();
    command.args(["dashboard", "--log", "json", "--url", &server.url(), "--queue", &queue]);
    command
        .args(["--listen", "127.0.0.1:0"])
        .env("QUEENRIGHT_MAX_BACKLOG", "1500");
    let board = Board::of(command.stderr(std::process::Stdio::piped()).spawn().expect("it starts"));
    let ask = lines(&"{\"payload\":0}\n".repeat(2000)).header("idempotency-key", "k");
    let refused = board.ask(&ask).is(409);
    assert_eq!(refused.code(), "full");
    let told = numbers(&refused);
    let wanted: Vec<(u64, bool)> = (0..told.len() as u64).map(|number| (number, false)).collect();
    assert!((1000..=1500).contains(&told.len()), "{}", told.len());
    assert_eq!(told, wanted);
    let noted = board.said("dashboard_change")["change"].to_string();
    assert!(noted.contains(&format!("pushed: {} messages", told.len())), "{noted}");
    assert_eq!(payloads(&server, &queue).len(), told.len());
}

#[test]
fn many_who_push_while_the_store_stands_still_do_not_fill_the_memory() {
    const PUSHERS: usize = 60;
    let server = RedisServer::start();
    let queue = new_queue();
    let board = Board::start(&server, &queue, &[]);
    board.ask(&post(MESSAGES, &json!({"payload": "x"}))).is(201);
    let before = peak_memory(board.child.id()).expect("it runs");
    // Two megabytes each, of payloads that are kept until the store answers.
    let line = format!("{{\"payload\":\"{}\"}}\n", "x".repeat(500));
    let body = line.repeat(1_900_000 / line.len());
    signal(server.pid(), "STOP");
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..PUSHERS).map(|_| lines(&body).open(&board.address)).collect();
        // Who logs in does not wait behind them.
        scope
            .spawn(|| board.ask(&get("/api/v1/session")).is(200))
            .join()
            .expect("answered");
        std::thread::sleep(std::time::Duration::from_secs(4));
        drop(asking);
    });
    signal(server.pid(), "CONT");
    let grown = peak_memory(board.child.id()).expect("it runs") - before;
    // Of 114 MB of bodies it holds 16 at once, each twice at most.
    assert!(grown < 60_000, "{grown} KB more");
    // It goes on, and what it held was on its way.
    board.ask(&post(MESSAGES, &json!({"payload": "y"}))).is(201);
    let waiting = payloads(&server, &queue).len();
    assert!(waiting > 2, "{waiting} messages");
}

#[test]
fn a_token_may_do_what_it_is_for_and_nothing_else() {
    let server = RedisServer::start();
    let queue = new_queue();
    push_all(&server, &queue, &numbered(1));
    let directory = tempfile::tempdir().expect("a directory");
    let file = token_file(directory.path());
    let mut command = program();
    command.args(["dashboard", "--log", "json", "--url", &server.url(), "--queue", &queue]);
    command.args(["--listen", "127.0.0.1:0", "--token-file", &file]);
    command
        .env("QUEENRIGHT_READ_TOKEN", "only-for-looking")
        .env("QUEENRIGHT_PUSH_TOKEN", "only-for-pushing");
    let board = Board::of(command.stderr(std::process::Stdio::piped()).spawn().expect("it starts"));
    let push = || post(MESSAGES, &json!({"payload": "x"}));
    let pause = || post("/api/v1/pause", &json!({"generator": false}));
    // What each may do: look, push, rule.
    for (token, statuses) in [
        ("only-for-looking", [200, 403, 403]),
        ("only-for-pushing", [403, 201, 403]),
        (TOKEN, [200, 201, 200]),
        ("another-one-altogether", [401, 401, 401]),
    ] {
        let bearer = format!("Bearer {token}");
        let got = [get("/api/v1/status"), push(), pause()].map(|ask| board.ask(&ask.header("authorization", &bearer)));
        assert_eq!(got.each_ref().map(|reply| reply.status), statuses, "{token}");
        for refused in got.iter().filter(|reply| reply.status == 403) {
            assert_eq!(refused.code(), "right", "{}", refused.text());
        }
        let metrics = board.ask(&get("/metrics").header("authorization", &bearer)).status;
        assert_eq!(metrics, statuses[0], "{token}");
    }
    assert_eq!(board.ask(&push()).status, 401);
    // A browser that logs in to look is told that it can change nothing; one that may only push is sent away.
    let log_in = |token: &str| board.ask(&post("/api/v1/session", &json!({"token": token})));
    let session = log_in("only-for-looking").is(200);
    assert_eq!(session.json()["read_only"], true);
    let cookie = session
        .header("set-cookie")
        .expect("a cookie")
        .split(';')
        .next()
        .expect("a pair")
        .to_string();
    board.ask(&get("/api/v1/status").header("cookie", &cookie)).is(200);
    assert_eq!(board.ask(&pause().header("cookie", &cookie)).is(403).code(), "right");
    assert_eq!(log_in("only-for-pushing").is(403).code(), "right");
    assert_eq!(log_in(TOKEN).is(200).json()["read_only"], false);
    let same = program()
        .args(["dashboard", "--url", &server.url(), "--token-file", &file])
        .env("QUEENRIGHT_PUSH_TOKEN", TOKEN)
        .output();
    let same = same.expect("the program starts");
    let line = String::from_utf8_lossy(&same.stderr);
    assert_eq!(same.status.code(), Some(2), "{}", said(&same));
    assert!(
        line.contains("are the same") && !line.contains(TOKEN) && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn an_autoscaler_is_told_what_is_needed_also_when_nobody_runs() {
    let server = RedisServer::start();
    let queue = new_queue();
    let board = Board::start(&server, &queue, &[]);
    let scale = |query: &str| board.ask(&get(&format!("/api/v1/scale{query}"))).is(200).json();
    let nothing = json!({"queued": 0, "in_hand": 0, "later": 0, "rate": 0.0, "handlers": 0, "desired": 0});
    assert_eq!(scale(""), nothing, "there is no queue yet");
    push_all(&server, &queue, &numbered(250));
    board
        .ask(&post(MESSAGES, &json!({"payload": "later", "delay": "1h"})))
        .is(201);
    let told = scale("");
    assert_eq!((told["queued"].as_u64(), told["later"].as_u64()), (Some(250), Some(1)));
    assert_eq!(
        (told["handlers"].as_u64(), told["desired"].as_u64()),
        (Some(0), Some(3))
    );
    assert_eq!(scale("?backlog=50&max=4")["desired"], 4);
    let fleet = Fleet::on(&server)
        .queue(&queue)
        .copies(1)
        .args("--prefer never --work 20ms --concurrency 1")
        .start();
    let busy = within(PATIENCE, || {
        let told = scale("?wait=1s");
        (told["rate"].as_f64()? > 5.0 && told["handlers"] == 1).then_some(told)
    });
    let told = busy.expect("a rate");
    // It does some 50 a second, and more wait than it gets done in one.
    assert!(told["desired"].as_u64() >= Some(2), "{told}");
    drop(fleet);
}

/// `cargo test --profile gate --all-features --test all -- --ignored --nocapture figures_of_bulk`.
#[test]
#[ignore = "figures, not a test: see docs/recipes/producers.md"]
fn figures_of_bulk_pushes_through_one_connection() {
    const REQUESTS: usize = 50;
    const EACH: usize = 10_000;
    let server = RedisServer::start();
    let board = Board::start(&server, &new_queue(), &[]);
    let lines = (0..EACH).map(|number| format!("{{\"payload\":{{\"order\":{number}}}}}\n"));
    let body = lines.collect::<Vec<_>>().concat();
    let mut stream = TcpStream::connect(&board.address).expect("it listens");
    let mut answers = BufReader::new(stream.try_clone().expect("the same"));
    let begun = Instant::now();
    for _ in 0..REQUESTS {
        let head = format!(
            "POST {MESSAGES} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
            board.address,
            body.len()
        );
        stream
            .write_all(&[head.as_bytes(), body.as_bytes()].concat())
            .expect("sent");
        let (mut line, mut length) = (String::new(), 0);
        answers.read_line(&mut line).expect("a status");
        assert!(line.contains("201"), "{line}");
        while line.trim() != "" {
            line.clear();
            answers.read_line(&mut line).expect("a header");
            let value = line.to_ascii_lowercase();
            if let Some(value) = value.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut answer = vec![0; length];
        answers.read_exact(&mut answer).expect("an answer");
    }
    let seconds = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = (REQUESTS * EACH) as f64 / seconds;
    println!(
        "{} messages through one connection, {EACH} a request: {rate:.0} a second",
        REQUESTS * EACH
    );
}
