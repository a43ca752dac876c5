//! Behind a proxy that serves it under a path, and strips that path.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::access::token_file;
use super::board::{Board, new_queue, numbered, push_all};
use super::browser::Browser;
use crate::server::RedisServer;

const PATH: &str = "/hive";

/// What was asked for that is not under the path.
type Astray = Arc<Mutex<Vec<String>>>;

/// Serves what is at this address under [`PATH`]. One request for each connection.
fn proxy(board: &Board) -> (String, Astray) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}{PATH}/", listener.local_addr().expect("an address"));
    let (to, astray) = (board.address.clone(), Astray::default());
    let noted = astray.clone();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (to, noted) = (to.clone(), noted.clone());
            std::thread::spawn(move || forward(client, &to, &noted));
        }
    });
    (url, astray)
}

/// None: one of them has gone.
fn forward(mut client: TcpStream, to: &str, astray: &Astray) -> Option<()> {
    let mut from = BufReader::new(client.try_clone().ok()?);
    let mut first = String::new();
    from.read_line(&mut first).ok()?;
    let (method, target) = first.split_once(' ')?;
    let Some(rest) = target.strip_prefix(PATH).filter(|rest| rest.starts_with('/')) else {
        astray.lock().expect("no panic").push(first);
        let refusal = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return client.write_all(refusal.as_bytes()).ok();
    };
    let (mut head, mut length) = (format!("{method} {rest}connection: close\r\n"), 0);
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
        if !name.eq_ignore_ascii_case("connection") {
            head += &line;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let mut server = TcpStream::connect(to).ok()?;
    server.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    std::io::copy(&mut server, &mut client).ok().map(drop)
}

#[test]
fn under_a_path_of_a_proxy_everything_works_and_nothing_is_asked_for_elsewhere() {
    let server = RedisServer::start();
    let (first, second) = (new_queue(), new_queue());
    push_all(&server, &first, &numbered(1));
    push_all(&server, &second, &numbered(3));
    let directory = tempfile::tempdir().expect("a directory");
    let token = token_file(directory.path());
    let board = Board::start(&server, &first, &["--all-queues", "--token-file", &token]);
    let (url, astray) = proxy(&board);
    let browser = Browser::start();
    browser.look(1280, 900, false);
    browser.open(&url);
    browser.write("#token", "correct-horse-battery");
    browser.click("#login button");
    let shows = |count: u64| format!("return document.querySelector('.tile.queued b').textContent === '{count}'");
    browser.wait_for("the first queue", &shows(1));
    browser.click("#do-push");
    browser.write("#push-payload", "through the proxy");
    browser.click("dialog .primary");
    // The number comes with an event.
    browser.wait_for("two queued", &shows(2));
    browser.wait_for("the list", "return !document.getElementById('queues').hidden");
    browser.run(&format!(
        "const list = document.getElementById('queues'); list.value = {second:?}; list.dispatchEvent(new Event('change'));"
    ));
    browser.wait_for("the second queue", &shows(3));
    let path = browser.run("return location.pathname");
    assert_eq!(path, format!("{PATH}/q/{second}/"), "the session holds for all queues");
    browser.click("#do-logout");
    browser.wait_for("the question", "return !document.getElementById('view-login').hidden");
    assert_eq!(*astray.lock().expect("no panic"), [""; 0]);
}
