//! What hostile clients do to a dashboard, and what it does not do to others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use queenright::app::lab::proxy::{Direction, Proxy};
use serde_json::{Value, json};

use super::access::{TOKEN, token_file};
use super::board::{Board, fail_all, new_queue, numbered, push_all};
use super::client::{Ask, get, post};
use crate::fleet::{Fleet, PATIENCE, peak_memory, program, within};
use crate::server::RedisServer;

/// Long enough for a busy machine, and shorter than what makes a connection that does nothing go away by itself.
const HEALTH_TIME: Duration = Duration::from_secs(5);

/// Whether a change shows in the status.
type Done = fn(&Value) -> bool;

/// With a token, on a queue that is there.
fn guarded(server: &RedisServer, directory: &tempfile::TempDir) -> Board {
    let queue = new_queue();
    push_all(server, &queue, &[b"x".to_vec()]);
    Board::start(server, &queue, &["--token-file", &token_file(directory.path())])
}

fn admitted(ask: Ask) -> Ask {
    ask.header("authorization", &format!("Bearer {TOKEN}"))
}

/// A connection that has sent this.
fn hold(board: &Board, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&board.address).expect("it listens");
    let _ = stream.write_all(bytes.as_bytes());
    stream
}

/// Whether a health check is answered.
fn is_healthy(board: &Board) -> bool {
    let mut stream = hold(
        board,
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    );
    stream.set_read_timeout(Some(HEALTH_TIME)).expect("a time-out");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer.starts_with("HTTP/1.1 200")
}

#[test]
fn connections_that_do_nothing_or_send_slowly_or_never_read_lock_nobody_out() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let board = guarded(&server, &directory);
    let viewer = admitted(get("/api/v1/events"));
    let mut viewer = viewer.open(&board.address);
    viewer.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut seen = [0; 1];
    viewer.read_exact(&mut seen).expect("a stream of events");
    // Asks for far more than the buffers between two sockets hold.
    let greedy = "GET /app.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2000);
    let mut held = Vec::new();
    for bytes in ["", "GET / HTTP/1.1\r\nhost: local", &greedy] {
        for _ in 0..150 {
            held.push(hold(&board, bytes));
        }
        assert!(is_healthy(&board), "after {} connections", held.len());
        board.ask(&admitted(get("/api/v1/status"))).is(200);
    }
    // Whoever was admitted before has kept its place.
    let mut read = 0;
    while read < 20_000 {
        let mut piece = [0; 4096];
        let got = viewer.read(&mut piece).expect("events go on");
        assert!(got > 0, "the stream was cut after {read} bytes");
        read += got;
    }
}

#[test]
fn what_is_sent_before_a_login_is_not_read_beyond_a_token() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let board = guarded(&server, &directory);
    board.ask(&get("/")).is(200);
    let before = peak_memory(board.child.id()).expect("Linux");
    // Below what a body may have after a login.
    let numbers = "1,".repeat(1_000_000);
    let body = format!("{{\"token\":[{numbers}1]}}");
    let large = Ask::new("POST", "/api/v1/session")
        .header("content-type", "application/json")
        .body(body.as_bytes());
    let told = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(|| {
                // Some are hung up on while they still talk.
                if let Some(reply) = large.try_send(&board.address) {
                    assert_eq!(reply.is(413).code(), "too_large");
                    told.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(told.into_inner() > 0, "nobody was told why");
    // Without a stated length, too.
    let chunked = "POST /api/v1/session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                   transfer-encoding: chunked\r\n\r\n";
    let mut stream = hold(&board, chunked);
    let piece = format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16));
    while stream.write_all(piece.as_bytes()).is_ok() {}
    let grown = peak_memory(board.child.id()).expect("Linux") - before;
    assert!(grown < 20_000, "{grown} KB more");
    assert!(is_healthy(&board));
}

#[test]
fn wrong_tokens_are_answered_one_after_the_other_and_logged() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let board = guarded(&server, &directory);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for guess in 0..6 {
            let board = &board;
            scope.spawn(move || {
                let token = format!("guess-number-{guess:08}");
                let bearer = get("/api/v1/status").header("authorization", &format!("Bearer {token}"));
                let login = post("/api/v1/session", &json!({ "token": token }));
                board.ask(if guess % 2 == 0 { &bearer } else { &login }).is(401);
            });
        }
    });
    assert!(
        began.elapsed() >= Duration::from_millis(5 * 500),
        "two guesses a second"
    );
    for _ in 0..6 {
        assert_eq!(board.said("wrong_token")["from"], "127.0.0.1");
    }
    board.ask(&admitted(get("/api/v1/status"))).is(200);
}

#[test]
fn a_change_is_logged_with_who_made_it_and_from_where() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let board = guarded(&server, &directory);
    board
        .ask(&admitted(post("/api/v1/pause", &json!({"generator": true}))))
        .is(200);
    let line = board.said("dashboard_change");
    assert_eq!((&line["by"], &line["from"]), (&json!("token"), &json!("127.0.0.1")));
    assert_eq!(line["change"], "paused: generator true, handlers false");
    board
        .ask(&admitted(post("/api/v1/messages", &json!({"payload": "y"}))))
        .is(201);
    assert_eq!(board.said("dashboard_change")["change"], "pushed: message 1");
}

#[test]
fn a_change_is_logged_although_its_client_hangs_up_before_the_answer() {
    let server = RedisServer::start();
    let queue = new_queue();
    fail_all(&server, &queue, &numbered(4), |_| "it failed".into());
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
    let board = Board::at(&format!("redis://{}", proxy.address()), &queue, &[]);
    let fleet = Fleet::on(&server).queue(&queue).copies(0).start();
    let look = || -> Value {
        let told = fleet.command(&["status", "--json"]).output().expect("it starts");
        serde_json::from_slice(&told.stdout).unwrap_or_default()
    };
    let changes: [(&str, [Value; 3], Done, &str); 3] = [
        (
            "pause",
            [false, false, true].map(|paused| json!({ "generator": paused })),
            |status| status["paused"]["generator"] == true,
            "paused: generator true, handlers as it is: no answer",
        ),
        (
            "errors/delete",
            [0, 1, 2].map(|number| json!({ "numbers": [number] })),
            |status| status["errors"] == 1,
            "errors deleted: 0, and no answer",
        ),
        (
            "messages",
            ["x", "y", "z"].map(|payload| json!({ "payload": payload })),
            |status| status["published"] == 7,
            "pushed: none that is known, and no answer",
        ),
    ];
    for (path, [first, second, last], is_done, said) in changes {
        let path = format!("/api/v1/{path}");
        let mut bytes = 0;
        // Redis knows its script from the first on; the answers to the second have as many bytes as those to the last.
        for body in [first, second] {
            let before = proxy.passed(Direction::Replies);
            assert!(board.ask(&post(&path, &body)).status < 300, "{path}");
            board.said("dashboard_change");
            bytes = proxy.passed(Direction::Replies) - before;
        }
        proxy.black_hole_after(Direction::Replies, bytes - 1);
        let asking = post(&path, &last).open(&board.address);
        let done = within(PATIENCE, || is_done(&look()).then_some(()));
        assert!(done.is_some(), "{path}: {}", look());
        drop(asking);
        let noted = board.said("dashboard_change")["change"].to_string();
        assert!(noted.contains(said), "{path}: {noted}");
        proxy.black_hole(false);
    }
}

#[test]
fn a_limit_is_set_answered_and_logged_although_the_store_cannot_be_looked_at_then() {
    let server = RedisServer::start();
    let queue = new_queue();
    push_all(&server, &queue, &numbered(1));
    let user = ["ACL", "SETUSER", "board", "on", ">honey", "~*", "&*", "+@all", "-zcard"];
    server.command(&user).expect("set");
    let board = Board::at(&format!("redis://board:honey@127.0.0.1:{}", server.port()), &queue, &[]);
    board.ask(&get("/api/v1/status")).is(502);
    let told = board
        .ask(&post("/api/v1/limit", &json!({"rate": "70/s"})))
        .is(200)
        .json();
    assert_eq!(told, json!({"rate": "70/s", "burst": 7, "group": null}));
    assert_eq!(board.said("dashboard_change")["change"], "limit: 70/s, 7 at once");
}

#[test]
fn large_bodies_that_come_slowly_hold_up_nobody_who_rules() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let queue = new_queue();
    push_all(&server, &queue, &numbered(1));
    let mut command = program();
    command.args(["dashboard", "--log", "json", "--url", &server.url(), "--queue", &queue]);
    command.args(["--listen", "127.0.0.1:0", "--token-file", &token_file(directory.path())]);
    command.env("QUEENRIGHT_PUSH_TOKEN", "only-for-pushing");
    let board = Board::of(command.stderr(Stdio::piped()).spawn().expect("it starts"));
    let large = "POST /api/v1/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer only-for-pushing\r\n\
                 content-type: application/json\r\ncontent-length: 2097152\r\nexpect: 100-continue\r\n\r\n";
    let mut slow: Vec<TcpStream> = (0..8).map(|_| hold(&board, large)).collect();
    for stream in &mut slow {
        // From here on it is read, and has its room.
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).expect("it may go on");
        assert!(answer.starts_with(b"HTTP/1.1 100"), "{answer:?}");
        stream.write_all(b"{").expect("sent");
    }
    board
        .ask(&admitted(post("/api/v1/pause", &json!({"generator": true}))))
        .is(200);
    for stream in &mut slow {
        stream.set_nonblocking(true).expect("set");
        let read = stream.read(&mut [0; 1]).expect_err("it is still waited for");
        assert_eq!(read.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn a_logout_ends_the_streams_of_its_session() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let board = guarded(&server, &directory);
    let told = board.ask(&post("/api/v1/session", &json!({ "token": TOKEN }))).is(200);
    let cookie = told.header("set-cookie").expect("a cookie").to_string();
    let cookie = cookie.split(';').next().expect("a cookie").to_string();
    let mut stream = get("/api/v1/events").header("cookie", &cookie).open(&board.address);
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut seen = [0; 1];
    stream.read_exact(&mut seen).expect("a stream of events");
    board
        .ask(&Ask::new("DELETE", "/api/v1/session").header("cookie", &cookie))
        .is(200);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the stream ends");
}

#[test]
fn a_name_that_others_may_use_needs_a_token() {
    let server = RedisServer::start();
    let mut command = program();
    command
        .args(["dashboard", "--url", &server.url(), "--listen", "127.0.0.1:0"])
        .args(["--allow-host", "dash.example.org"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
    let status = within(PATIENCE, || child.try_wait().expect("a child"));
    let _ = child.kill();
    let mut line = String::new();
    let _ = child.stderr.take().expect("piped").read_to_string(&mut line);
    assert_eq!(status.and_then(|status| status.code()), Some(2), "{line}");
    assert!(line.contains("--token-file") && line.lines().count() == 1, "{line}");
}
