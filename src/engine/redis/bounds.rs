//! How much a server may answer: a look at the frames of its protocol (RESP) as they come in, before anything is kept of them.
//!
//! The parser of the redis crate takes in whatever it is told will come, and a server that lies can announce more than any
//! machine has. So the frames are counted below it. Only their heads are read: the bytes of payloads are skipped.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of an answer. Calls that bring messages or errors end at 1 MB and one message, which has 1 MB at most; a look at
/// 10,000 nodes has 7 MB.
const BYTES_MAX: u64 = 64 << 20;
/// The values of an answer, lists among them. A look at 10,000 nodes, as many as a Redis takes clients unless told otherwise,
/// has 230,000. A backlog may have more packs than that: whoever reads a whole one does so in pages.
const VALUES_MAX: u64 = 1 << 18;
/// A line: a status, an error, a number or a length. The texts of errors are the longest.
const LINE_BYTES_MAX: u32 = 64 << 10;
/// Lists within lists. Answers of ours have a handful.
const DEPTH_MAX: usize = 32;
/// Answers without a question. A server that takes no more clients says so before it is asked.
const UNASKED_MAX: u64 = 8;

/// What no Redis answers to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    Bytes,
    Values,
    Line,
    Depth,
    /// More answers than there were questions.
    Unasked,
    /// Bytes that are not of this protocol.
    Foreign,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => write!(f, "it answered with more than {} MB", BYTES_MAX >> 20),
            Self::Values => write!(f, "it answered with more than {VALUES_MAX} values"),
            Self::Line => write!(f, "it answered with a line of more than {} KB", LINE_BYTES_MAX >> 10),
            Self::Depth => write!(f, "it answered with lists nested more than {DEPTH_MAX} deep"),
            Self::Unasked => write!(f, "it answered what it was not asked"),
            Self::Foreign => write!(f, "it sent bytes that are not of the protocol of Redis"),
        }
    }
}

impl Error for Beyond {}

impl Beyond {
    /// What ended a connection, if it was this.
    pub(super) fn of(error: &redis::RedisError) -> Option<Self> {
        let shared: &Arc<dyn Error + Send + Sync> = error.source()?.downcast_ref()?;
        shared.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref().copied()
    }
}

/// Where in a frame the next byte is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The type of a value comes.
    Type,
    /// In the line of a value of this type.
    Line {
        kind: u8,
        length: u32,
        number: u64,
        negative: bool,
        returned: bool,
    },
    /// So many bytes of a payload, and of the end of its line, are left.
    Payload(u64),
}

/// Counts what comes in, or goes out: a command has the form of an answer.
#[derive(Debug)]
struct Frames {
    place: Place,
    /// How many values are left in each list that is open.
    open: Vec<u64>,
    bytes: u64,
    values: u64,
    /// How many answers were asked for. The counts begin anew with the end of each of them; all that comes unasked is counted
    /// together.
    asked: u64,
    /// How many answers have ended, without what a server may send to whom it likes.
    ended: u64,
    pushed: bool,
}

impl Frames {
    fn new() -> Self {
        Self {
            place: Place::Type,
            open: Vec::new(),
            bytes: 0,
            values: 0,
            asked: u64::MAX,
            ended: 0,
            pushed: false,
        }
    }

    /// What came next.
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Beyond> {
        while let Some(&byte) = bytes.first() {
            if let Place::Payload(left) = self.place {
                let here = left.min(bytes.len() as u64);
                bytes = &bytes[usize::try_from(here).expect("no more than there is")..];
                self.place = Place::Payload(left - here);
                if left == here {
                    self.value_ends();
                }
                continue;
            }
            bytes = &bytes[1..];
            match self.place {
                Place::Type => self.begin(byte)?,
                _ => self.line(byte)?,
            }
        }
        Ok(())
    }

    fn begin(&mut self, kind: u8) -> Result<(), Beyond> {
        if !b"+-:_,#($!=*%|~>".contains(&kind) {
            return Err(Beyond::Foreign);
        }
        if self.open.is_empty() {
            // Values within a list were counted with it.
            self.count(0, 1)?;
            self.pushed = kind == b'>';
        }
        self.place = Place::Line {
            kind,
            length: 0,
            number: 0,
            negative: false,
            returned: false,
        };
        Ok(())
    }

    fn line(&mut self, byte: u8) -> Result<(), Beyond> {
        let Place::Line {
            kind,
            length,
            number,
            negative,
            returned,
        } = &mut self.place
        else {
            return Ok(());
        };
        *length += 1;
        if *length > LINE_BYTES_MAX {
            return Err(Beyond::Line);
        }
        if *returned && byte == b'\n' {
            let (kind, length, number, negative) = (*kind, *length, *number, *negative);
            return self.line_ends(kind, length, number, negative);
        }
        if matches!(*kind, b'$' | b'!' | b'=' | b'*' | b'%' | b'|' | b'~' | b'>') {
            // Stricter than the parser, which must not read another number here.
            match byte {
                b'0'..=b'9' if !*returned => *number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
                b'-' if *length == 1 => *negative = true,
                b'\r' if *length > 1 + u32::from(*negative) && !*returned => {}
                _ => return Err(Beyond::Foreign),
            }
        }
        *returned = byte == b'\r';
        Ok(())
    }

    fn line_ends(&mut self, kind: u8, length: u32, number: u64, negative: bool) -> Result<(), Beyond> {
        self.count(1 + u64::from(length), 0)?;
        if negative {
            // Nothing, in place of a payload or a list. Of the other types the parser would wait for bytes without end.
            let is_nothing = number == 1 && b"$*~>".contains(&kind);
            if !is_nothing {
                return Err(Beyond::Foreign);
            }
            self.value_ends();
            return Ok(());
        }
        let values = match kind {
            b'$' | b'!' | b'=' => {
                let payload = number.saturating_add(2);
                self.count(payload, 0)?;
                self.place = Place::Payload(payload);
                return Ok(());
            }
            b'*' | b'~' | b'>' => number,
            b'%' => number.saturating_mul(2),
            // What the attributes belong to comes after them.
            b'|' => number.saturating_mul(2).saturating_add(1),
            _ => 0,
        };
        if values == 0 {
            self.value_ends();
            return Ok(());
        }
        self.count(0, values)?;
        if self.open.len() == DEPTH_MAX {
            return Err(Beyond::Depth);
        }
        self.open.push(values);
        self.place = Place::Type;
        Ok(())
    }

    /// Closes all lists of which this was the last value.
    fn value_ends(&mut self) {
        self.place = Place::Type;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        self.ended = self.ended.saturating_add(u64::from(!self.pushed));
        if !self.pushed && self.ended <= self.asked {
            (self.bytes, self.values) = (0, 0);
        }
    }

    fn count(&mut self, bytes: u64, values: u64) -> Result<(), Beyond> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.values = self.values.saturating_add(values);
        if self.bytes > BYTES_MAX {
            return Err(Beyond::Bytes);
        }
        if self.values > VALUES_MAX {
            return Err(Beyond::Values);
        }
        Ok(())
    }
}

/// A stream that ends with an error when the server sends what is [`Beyond`].
pub(super) struct Bounded<S> {
    stream: S,
    answers: Frames,
    questions: Frames,
    /// Something has come.
    has_come: bool,
}

impl<S> Bounded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            answers: Frames {
                asked: 0,
                ..Frames::new()
            },
            questions: Frames::new(),
            has_come: false,
        }
    }

    fn sent(&mut self, bytes: &[u8]) {
        // Beyond a bound is what the server may refuse: then nothing is known of how many answers it owes.
        if self.questions.read(bytes).is_err() {
            self.questions.ended = u64::MAX;
        }
        self.answers.asked = self.questions.ended;
    }

    fn came(&mut self, bytes: &[u8]) -> Result<(), Beyond> {
        self.answers.read(bytes)?;
        if self.answers.ended > self.answers.asked.saturating_add(UNASKED_MAX) {
            return Err(Beyond::Unasked);
        }
        Ok(())
    }
}

/// What a server says that takes no more connections.
const CROWDED: &[u8] = b"-ERR max number of clients reached";

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        // It closes after that, and what the client asks first may be something whose answer it does not look at.
        let is_first = !std::mem::replace(&mut self.has_come, true);
        if is_first && buffer.filled()[before..].starts_with(CROWDED) {
            let said = String::from_utf8_lossy(&CROWDED[1..]).into_owned();
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionRefused, said)));
        }
        let came = self.came(&buffer.filled()[before..]);
        Poll::Ready(came.map_err(|beyond| io::Error::new(io::ErrorKind::InvalidData, beyond)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.sent(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
