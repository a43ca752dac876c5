//! A client that sends exactly what it is told to, also what no browser would.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::fleet::PATIENCE;

pub struct Ask {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

pub fn get(path: &str) -> Ask {
    Ask::new("GET", path)
}

pub fn post(path: &str, body: &Value) -> Ask {
    let ask = Ask::new("POST", path).header("content-type", "application/json");
    ask.body(body.to_string().as_bytes())
}

impl Ask {
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Sends it to this address; unless it has a Host of its own, under that name.
    pub fn send(&self, address: &str) -> Reply {
        self.try_send(address).expect("an answer")
    }

    /// None: the other side hung up without an answer.
    pub fn try_send(&self, address: &str) -> Option<Reply> {
        let bytes = receive(&mut self.open(address));
        (!bytes.is_empty()).then(|| Reply::read(&bytes))
    }

    /// Sends it, and leaves the answer to be read.
    pub fn open(&self, address: &str) -> TcpStream {
        let mut text = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if !has("host") {
            let _ = write!(text, "host: {address}\r\n");
        }
        if !has("content-length") && (!self.body.is_empty() || self.method == "POST") {
            let _ = write!(text, "content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        // Who is refused early may find the other end closed.
        let bytes = [text.as_bytes(), b"\r\n", &self.body].concat();
        let _ = stream.write_all(&bytes);
        stream
    }
}

/// Reads to the end of the answer: not everyone hangs up then.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return bytes,
        }
        let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if length.is_some_and(|length: usize| bytes.len() >= head + 4 + length) {
            return bytes;
        }
    }
}

impl Reply {
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
            .collect();
        let body = &bytes[end + 4..];
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Self {
            status: status.parse().expect("a status"),
            headers,
            body: if chunked { unchunk(body) } else { body.to_vec() },
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The word for programs in a refusal.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_string()
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).expect("a size");
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    panic!("cut off after {} bytes", body.len());
}
