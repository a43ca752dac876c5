//! `--handle http://…`: a POST for each message.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::Workshop;
use crate::fleet::Ends;

/// A request as a service sees it.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What is sent back; nothing hangs up.
type Answer = fn(&Seen) -> Option<String>;

/// Serves until the process ends. Returns where, and what it has seen.
fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<Seen>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let place = listener.local_addr().expect("bound").to_string();
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let all = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            std::thread::spawn(move || while converse(&stream, answer, &seen).is_some() {});
        }
    });
    (place, all)
}

fn converse(mut stream: &TcpStream, answer: Answer, all: &Mutex<Vec<Seen>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut seen = Seen {
        line: line.trim().into(),
        headers: BTreeMap::new(),
        body: String::new(),
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        seen.headers.insert(name.to_lowercase(), value.into());
    }
    let mut body = vec![0; seen.header("content-length").parse().expect("a length")];
    reader.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8(body).expect("text");
    all.lock().expect("nobody panics").push(seen.clone());
    stream.write_all(answer(&seen)?.as_bytes()).ok()
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_service_publishes_the_next_message_and_what_it_says_otherwise_is_its_own_affair() {
    let (place, _) = serve(|seen| {
        let kind = "200 OK\r\nContent-Type: application/vnd.queenright+json; charset=utf-8";
        let number = seen.header("queenright-number").to_string();
        Some(match seen.body.as_str() {
            "0" => reply(kind, r#"{"ok":true,"effects":[{"publish":"next"},{"add":"seen"}]}"#),
            "1" => reply(
                "200 OK\r\nContent-Type: application/json",
                r#"{"ok":false,"effects":7}"#,
            ),
            "2" => reply(kind, r#"{"ok":true,"efects":[]}"#),
            "3" => reply(kind, r#"{"ok":true,"number":99}"#),
            "4" => reply(kind, r#"{"error":"no such page"}"#),
            "next" => reply(kind, &format!(r#"{{"number":{number},"ok":true}}"#)),
            _ => reply("200 OK", ""),
        })
    });
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 0 --messages 6 --handle")
        .arg(&format!("http://{place}/"))
        .start_joined();
    let status = fleet.wait_status("all are settled", |status| status.settled() == 7);
    assert_eq!((status.published, status.done, status.failed), (7, 4, 3), "{status:?}");
    let errors = fleet.errors();
    for (error, wanted) in errors
        .iter()
        .zip(["efects", "answered for another message", "no such page"])
    {
        let text = error["error"].as_str().expect("a text");
        assert!(text.contains(wanted), "{text} does not say {wanted}");
    }
    fleet.wait_for("what follows is told with its cause", |lines| {
        let caused = |line: &&crate::fleet::Line| line.is("published") && line.fields["cause"] == 0;
        lines.iter().filter(caused).count() == 1
    });
}

#[test]
fn statuses_are_outcomes_and_headers_tell_the_message() {
    let (place, seen) = serve(|seen| {
        let first = seen.header("queenright-failures") == "0";
        match seen.body.as_str() {
            "2" => Some(reply("404 Not Found", "no such \x1b bee")),
            "3" if first => Some(reply("429 Too Many Requests\r\nRetry-After: 0", "")),
            "4" if first => Some(reply(
                "503 Service Unavailable\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT",
                "tired",
            )),
            "5" if first => None,
            "6" => Some(reply("302 Found\r\nLocation: /elsewhere", "")),
            "7" => Some(reply("201 Created", &"x".repeat(1000))),
            "8" => Some(reply("500 Internal Server Error", &"y".repeat(100_000))),
            _ => Some(reply("200 OK", "fine")),
        }
    });
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .queue("béés")
        .args("--also-handle --interval 1ms --messages 10 --concurrency 3 --backoff 10m --handle")
        .arg(&format!("http://me:secret@{place}/work?now=1"))
        .start_joined();
    // What is put off without a word from the service waits for minutes: the one that was hung up on.
    let status = fleet.wait_status("all but one are settled", |status| {
        status.settled() == 9 && status.later == 1
    });
    assert_eq!(status.failed, 3, "{status:?}");
    let errors = fleet.errors();
    let text = |at: usize| errors[at]["error"].as_str().expect("a text");
    assert_eq!(text(0), "HTTP 404 Not Found: no such \\u{1b} bee");
    assert_eq!(text(1), "HTTP 302 Found");
    assert!(text(2).starts_with("HTTP 500"), "{}", text(2));
    assert!(text(2).len() < 1000, "{}", text(2).len());
    let seen = seen.lock().expect("nobody panics");
    for one in seen.iter() {
        assert_eq!(one.line, "POST /work?now=1 HTTP/1.1");
        assert_eq!(one.header("host"), place);
        assert_eq!(one.header("queenright-queue"), "béés");
        assert_eq!(one.header("queenright-number"), one.body);
        assert_eq!(one.header("queenright-deliveries"), "1");
        assert_eq!(one.header("queenright-epoch"), "1");
        assert_eq!(one.header("authorization"), "Basic bWU6c2VjcmV0");
    }
    for line in fleet.lines() {
        assert!(!line.fields.to_string().contains("secret"), "{line:?}");
    }
}

#[test]
fn a_service_that_is_not_there_puts_messages_off() {
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 1 --backoff 10ms --handle http://127.0.0.1:1/")
        .start_joined();
    fleet.wait_for("it is tried again", |lines| {
        let mut retried = lines.iter().filter(|line| line.is("retried"));
        retried.any(|line| line.error.contains("refused") && line.fields["failures"] == 2)
    });
}

#[test]
fn a_service_that_does_not_answer_in_time_is_an_error() {
    let (place, _) = serve(|_| {
        std::thread::sleep(std::time::Duration::from_secs(1000));
        None
    });
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 2 --timeout 100ms --handle")
        .arg(&format!("http://{place}/"))
        .start_joined();
    assert_eq!(fleet.wait_through(2).failed, 2);
    for error in fleet.errors() {
        assert!(
            error["error"].as_str().expect("a text").contains("--timeout"),
            "{error}"
        );
    }
}

#[test]
fn a_service_that_asks_for_years_is_asked_again_within_the_hour() {
    let (place, _) = serve(|_| Some(reply("503 Service Unavailable\r\nRetry-After: 99999999", "")));
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 1 --handle")
        .arg(&format!("http://{place}/"))
        .start_joined();
    fleet.wait_for("it is put off", |lines| lines.iter().any(|line| line.is("retried")));
    let lines = fleet.lines();
    let retried = lines.iter().find(|line| line.is("retried")).expect("there is one");
    assert_eq!(retried.fields["after_ms"], 3_600_000);
}

/// A service behind TLS, whose certificate is its own authority. Returns it, its port, and the certificate.
fn serve_tls(workshop: &Workshop) -> (Ends, String, String) {
    let certificate = workshop.path("certificate.pem").display().to_string();
    std::fs::write(
        workshop.path("request"),
        "[req]\ndistinguished_name = name\nx509_extensions = own\nprompt = no\n[name]\nCN = bees\n\
         [own]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = critical, CA:FALSE\n",
    )
    .expect("written");
    let made = Command::new("openssl")
        .args("req -x509 -newkey rsa:2048 -nodes -days 2 -config request -keyout key.pem".split(' '))
        .args(["-out", &certificate])
        .current_dir(workshop.directory.path())
        .output()
        .expect("openssl is there: scripts/test installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let service = r#"
import ssl, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
server = HTTPServer(("127.0.0.1", 0), Service)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("certificate.pem", "key.pem")
server.socket = tls.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;
    let mut child = Command::new("python3")
        .args(["-c", service])
        .current_dir(workshop.directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3 is there: scripts/test installs it");
    let mut port = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut port)
        .expect("it says its port");
    (Ends(child), port.trim().into(), certificate)
}

#[test]
fn a_service_behind_tls_is_asked_if_its_certificate_is_trusted_and_only_then() {
    let workshop = Workshop::new();
    let (_service, port, certificate) = serve_tls(&workshop);
    let fleet = |queue: &str| {
        workshop
            .fleet()
            .queue(queue)
            .args("--also-handle --interval 1ms --messages 2 --backoff 10ms --handle")
            .arg(&format!("https://127.0.0.1:{port}/"))
    };
    let trusting = fleet("trusting").env("SSL_CERT_FILE", &certificate).start_joined();
    assert_eq!(trusting.wait_through(2).done, 2);

    let other = fleet("wary").start_joined();
    other.wait_for("it says why it is tried again", |lines| {
        let mut retried = lines.iter().filter(|line| line.is("retried"));
        retried.any(|line| line.error.contains("certificate"))
    });
    assert_eq!(other.status().done, 0);
}
