//! The copies, each with a proxy of its own where one can stand in between, and the readers of errors.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::process::Signal;

use super::place::Place;
use crate::app::lab::copy;
use crate::app::lab::ledger::checks::Print;
use crate::app::lab::ledger::history::History;
use crate::app::lab::proxy::Proxy;
use crate::app::output::time::now_ms;

pub(super) struct Fleet {
    program: PathBuf,
    directory: PathBuf,
    queue: String,
    /// The options of `start`.
    arguments: Vec<OsString>,
    pub(super) seats: Vec<Seat>,
    readers: Vec<Reader>,
    read: usize,
    started: usize,
    pub(super) history: History,
}

/// A place for a copy. Whoever is killed is replaced, behind the same proxy.
pub(super) struct Seat {
    pub(super) proxy: Option<Proxy>,
    url: String,
    child: Option<Child>,
    book: usize,
    number: usize,
    pub(super) is_frozen: bool,
}

struct Reader {
    child: Child,
    output: PathBuf,
    killed: bool,
}

impl Seat {
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Fleet {
    pub(super) fn new(place: &Place, nodes: u32, arguments: Vec<OsString>, proxies: bool) -> io::Result<Self> {
        let upstream = place.upstream().filter(|_| proxies);
        let seat = |_| {
            let proxy = upstream.map(Proxy::start).transpose()?;
            let address: Option<SocketAddr> = proxy.as_ref().map(Proxy::address);
            Ok(Seat {
                url: place.url(address),
                proxy,
                child: None,
                book: 0,
                number: 0,
                is_frozen: false,
            })
        };
        Ok(Self {
            program: std::env::current_exe()?,
            directory: place.directory.clone(),
            queue: place.keys.queue_name.clone(),
            arguments,
            seats: (0..nodes).map(seat).collect::<io::Result<_>>()?,
            readers: Vec::new(),
            read: 0,
            started: 0,
            history: History::default(),
        })
    }

    /// Whoever is started from now on generates no more than this.
    pub(super) fn limit(&mut self, messages: u64) {
        self.arguments.push(format!("--messages={messages}").into());
    }

    /// Starts a copy in an empty seat.
    pub(super) fn start(&mut self, index: usize) -> io::Result<()> {
        let number = self.started;
        self.started += 1;
        let book = self.directory.join(format!("book-{number}"));
        let log = File::create(self.directory.join(format!("log-{number}")))?;
        let seat = &mut self.seats[index];
        let mut command = copy::bare(copy::start(&self.program, &book));
        command
            .args(["--queue", &self.queue])
            .args(&self.arguments)
            .env("REDIS_URL", &seat.url)
            .stderr(log);
        seat.child = Some(command.spawn()?);
        seat.book = self.history.add(&book);
        seat.number = number;
        seat.is_frozen = false;
        Ok(())
    }

    pub(super) fn seat_of(&self, pid: u32) -> Option<usize> {
        self.seats.iter().position(|seat| seat.pid() == Some(pid))
    }

    /// The power cut.
    pub(super) fn kill(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some(mut child) = seat.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            self.history.fate(seat.book).killed_ms = Some(now_ms());
        }
    }

    pub(super) fn freeze(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some(pid) = seat.pid() {
            copy::signal(pid, Signal::STOP);
            seat.is_frozen = true;
            self.history.fate(seat.book).stopped_ms.push(now_ms());
        }
    }

    pub(super) fn thaw(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some(pid) = seat.pid().filter(|_| seat.is_frozen) {
            copy::signal(pid, Signal::CONT);
        }
        seat.is_frozen = false;
    }

    /// Copies that ended though nobody told them to: what each said last.
    pub(super) fn ended(&mut self) -> io::Result<Vec<(usize, String)>> {
        let mut ended = Vec::new();
        for (index, seat) in self.seats.iter_mut().enumerate() {
            if let Some(child) = &mut seat.child
                && let Some(status) = child.try_wait()?
            {
                let log = std::fs::read_to_string(self.directory.join(format!("log-{}", seat.number)));
                let log = log.unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                ended.push((
                    index,
                    format!("copy {} ended by itself ({status}): {last}", seat.number),
                ));
                seat.child = None;
            }
        }
        Ok(ended)
    }

    /// Tells all to stop in good order. True once all are gone.
    pub(super) fn stop(&mut self, first: bool) -> io::Result<bool> {
        let mut gone = true;
        for index in 0..self.seats.len() {
            if first {
                self.thaw(index);
            }
            let seat = &mut self.seats[index];
            let Some(child) = &mut seat.child else { continue };
            if first {
                copy::signal(child.id(), Signal::TERM);
            }
            if child.try_wait()?.is_some() {
                seat.child = None;
            } else {
                gone = false;
            }
        }
        Ok(gone)
    }

    /// Starts one more `get-errors`, which writes into a file of its own.
    pub(super) fn read_errors(&mut self, place: &Place) -> io::Result<()> {
        let output = self.directory.join(format!("errors-{}.jsonl", self.read));
        let log = File::create(self.directory.join(format!("errors-{}.log", self.read)))?;
        self.read += 1;
        let mut command = copy::bare(copy::get_errors(&self.program));
        command
            .args(["--queue", &self.queue])
            .env("REDIS_URL", place.url(None))
            .stdout(File::create(&output)?)
            .stderr(log);
        self.readers.push(Reader {
            child: command.spawn()?,
            output,
            killed: false,
        });
        Ok(())
    }

    pub(super) fn kill_readers(&mut self) -> usize {
        let mut count = 0;
        for reader in &mut self.readers {
            if !reader.killed && matches!(reader.child.try_wait(), Ok(None)) {
                let _ = reader.child.kill();
                reader.killed = true;
                count += 1;
            }
        }
        count
    }

    /// Readers that are at work. Those that have ended are waited for.
    pub(super) fn readers(&mut self) -> usize {
        let running = |reader: &mut Reader| matches!(reader.child.try_wait(), Ok(None));
        self.readers.iter_mut().map(running).filter(|running| *running).count()
    }

    /// What all readers have printed, once none is at work.
    pub(super) fn prints(&mut self) -> io::Result<Vec<Print>> {
        let mut prints = Vec::new();
        for reader in &mut self.readers {
            let status = reader.child.wait()?;
            prints.push(Print {
                numbers: numbers(&reader.output)?,
                cut_short: reader.killed || !status.success(),
            });
        }
        Ok(prints)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let children = self.seats.iter_mut().filter_map(|seat| seat.child.as_mut());
        for child in children.chain(self.readers.iter_mut().map(|reader| &mut reader.child)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The numbers in whole lines: the last may be half a line, of a reader that was killed.
fn numbers(path: &Path) -> io::Result<Vec<u64>> {
    let text = std::fs::read(path)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(&text[..whole]);
    let number = |line| copy::number(line).ok_or_else(|| io::Error::other(format!("no number: {line}")));
    text.lines().map(number).collect()
}
