//! Redis through a plain socket: bytes out, answers skipped over. As little as a client can do.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::RedisConnectionInfo;

use crate::app::exit::Failure;

const ANSWER_MAX: Duration = Duration::from_mins(1);

pub(super) struct Socket {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// What was answered, without what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Status,
    Number(i64),
    Bulk(usize),
    Array(usize),
    Nil,
}

/// What INFO says.
pub(super) struct Info(HashMap<String, String>);

impl Info {
    fn of(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
        Self(pairs.map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Name and version of the server. Valkey also tells which Redis it is like.
    pub(super) fn server(&self) -> String {
        let told = |name: &str| self.0.get(name);
        match (told("valkey_version"), told("redis_version")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, Some(version)) => format!("Redis {version}"),
            (None, None) => "Redis".into(),
        }
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.0.get(name).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }
}

/// Appends a command.
pub(super) fn put(out: &mut Vec<u8>, words: &[&[u8]]) {
    head(out, b'*', words.len());
    for word in words {
        put_word(out, word);
    }
}

/// Appends the beginning of a command with so many words.
pub(super) fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{count}\r\n");
}

pub(super) fn put_word(out: &mut Vec<u8>, word: &[u8]) {
    head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

impl Socket {
    pub(super) fn connect((host, port): &(String, u16), redis: &RedisConnectionInfo) -> io::Result<Self> {
        let stream = TcpStream::connect((host.as_str(), *port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        let reader = BufReader::with_capacity(256 * 1024, stream.try_clone()?);
        let mut socket = Self { stream, reader };
        if let Some(pass) = redis.password() {
            let user = redis.username().unwrap_or("default");
            socket.call(&[b"AUTH", user.as_bytes(), pass.as_bytes()])?;
        }
        if redis.db() != 0 {
            socket.call(&[b"SELECT", redis.db().to_string().as_bytes()])?;
        }
        socket.call(&[b"PING"])?;
        Ok(socket)
    }

    /// The connection itself, logged in, for a runtime.
    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(true)?;
        Ok(self.stream)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn ask(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut out = Vec::new();
        put(&mut out, words);
        self.send(&out)
    }

    pub(super) fn call(&mut self, words: &[&[u8]]) -> io::Result<Answer> {
        self.ask(words)?;
        self.answer()
    }

    /// Reads one answer to its end.
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        let answer = self.begin()?;
        match answer {
            Answer::Bulk(length) => self.skip(length + 2)?,
            Answer::Array(count) => {
                for _ in 0..count {
                    self.answer()?;
                }
            }
            Answer::Status | Answer::Number(_) | Answer::Nil => {}
        }
        Ok(answer)
    }

    fn begin(&mut self) -> io::Result<Answer> {
        let mut line = [0; 128];
        let mut length = 0;
        loop {
            let part = self.reader.fill_buf()?;
            if part.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(part.len(), |end| end + 1);
            let fits = taken.min(line.len() - length);
            line[length..length + fits].copy_from_slice(&part[..fits]);
            length += fits;
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        let text = std::str::from_utf8(&line[1..length]).unwrap_or_default().trim_end();
        let number = || {
            text.parse::<i64>()
                .map_err(|_| io::Error::other(format!("answer: {text}")))
        };
        Ok(match line[0] {
            b'+' => Answer::Status,
            b':' => Answer::Number(number()?),
            kind @ (b'$' | b'*') => match (usize::try_from(number()?), kind) {
                (Err(_), _) => Answer::Nil,
                (Ok(length), b'$') => Answer::Bulk(length),
                (Ok(count), _) => Answer::Array(count),
            },
            _ => return Err(io::Error::other(text.to_string())),
        })
    }

    fn skip(&mut self, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            let there = self.reader.fill_buf()?.len();
            if there == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let part = there.min(bytes);
            self.reader.consume(part);
            bytes -= part;
        }
        Ok(())
    }

    /// A text answer.
    pub(super) fn text(&mut self, words: &[&[u8]]) -> io::Result<Option<String>> {
        self.ask(words)?;
        let Answer::Bulk(length) = self.begin()? else {
            return Ok(None);
        };
        let mut text = vec![0; length + 2];
        self.reader.read_exact(&mut text)?;
        text.truncate(length);
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    pub(super) fn info(&mut self, section: &str) -> Result<Info, Failure> {
        let text = self.text(&[b"INFO", section.as_bytes()]);
        let text = text.map_err(|error| Failure::cannot("ask Redis for INFO", error))?;
        Ok(Info::of(&text.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::Info;

    #[test]
    fn valkey_is_called_valkey() {
        let redis = Info::of("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n");
        assert_eq!(redis.server(), "Redis 7.0.15");
        let valkey = Info::of("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n");
        assert_eq!(valkey.server(), "Valkey 9.1.2");
        assert_eq!(Info::of("").server(), "Redis");
    }
}
