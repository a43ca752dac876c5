//! The copies, each with a proxy of its own where one can stand in between, and the readers of errors.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::pusher::Pusher;
use super::run::Load;
use crate::app::exit::Failure;
use crate::app::lab::copy::{self, Capture, Copy};
use crate::app::lab::fleet::{self, Starter};
use crate::app::lab::ledger::checks::Print;
use crate::app::lab::ledger::history::History;
use crate::app::lab::proxy::Proxy;
use crate::app::lab::test_bed::TestBed;
use crate::app::output::time::now_ms;
use crate::engine::redis::rights::HINT;

pub(super) struct Fleet {
    starter: Starter,
    queue: String,
    /// The store itself, for readers of errors.
    url: String,
    /// How many replicas must have what is told.
    replicas: u32,
    shards: usize,
    pub(super) seats: Vec<Seat>,
    /// Copies that are started may generate.
    candidates: bool,
    readers: Vec<Reader>,
    /// Whoever changes the number of shards now.
    resharding: Option<Copy>,
    /// While things are broken.
    pub(super) pusher: Option<Pusher>,
    pub(super) history: History,
}

/// Room for one copy. A copy that is killed is replaced, behind the same proxy.
pub(super) struct Seat {
    /// One before each store.
    pub(super) proxies: Vec<Proxy>,
    url: String,
    copy: Option<Copy>,
    /// One for each shard.
    books: Vec<usize>,
    number: usize,
    /// Its copies have a lease of their own.
    pub(super) lease: Duration,
    pub(super) is_frozen: bool,
}

/// One `get-errors`.
pub(super) struct Reader {
    copy: Copy,
    output: PathBuf,
    killed: bool,
}

impl Seat {
    pub(super) fn pid(&self) -> Option<u32> {
        self.copy.as_ref().map(Copy::pid)
    }
}

impl Fleet {
    pub(super) fn new(bed: &TestBed, load: &Load) -> io::Result<Self> {
        let seat = |lease: &Duration| {
            let proxies = if load.plan.is_some() { proxies(bed)? } else { Vec::new() };
            Ok(Seat {
                url: urls(bed, &proxies),
                proxies,
                copy: None,
                books: Vec::new(),
                number: 0,
                lease: *lease,
                is_frozen: false,
            })
        };
        let shards = load.settings.names.shards as usize;
        Ok(Self {
            starter: Starter::new(&bed.directory.path, load.arguments.clone(), shards)?,
            queue: load.queue.clone(),
            url: bed.urls(&[]).join(" "),
            replicas: load.settings.replicas,
            shards,
            seats: load.leases.iter().map(seat).collect::<io::Result<_>>()?,
            candidates: true,
            readers: Vec::new(),
            resharding: None,
            pusher: None,
            history: History::default(),
        })
    }

    /// Copies that are started from now on generate no more than this.
    pub(super) fn limit(&mut self, messages: u64) {
        self.starter.arguments.push(format!("--messages={messages}").into());
    }

    /// Starts a copy in every seat.
    pub(super) fn start_all(&mut self) -> Result<(), Failure> {
        (0..self.seats.len()).try_for_each(|index| self.start(index))
    }

    /// Starts a copy in every empty seat.
    pub(super) fn fill(&mut self) -> Result<(), Failure> {
        let mut seats = 0..self.seats.len();
        seats.try_for_each(|index| match self.seats[index].copy {
            Some(_) => Ok(()),
            None => self.start(index),
        })
    }

    /// Starts a copy in an empty seat.
    pub(super) fn start(&mut self, index: usize) -> Result<(), Failure> {
        self.try_start(index)
            .map_err(|error| Failure::cannot("start a copy", error))
    }

    fn try_start(&mut self, index: usize) -> io::Result<()> {
        let next = self.starter.next();
        let log = File::create(self.log(next.number))?;
        let seat = &mut self.seats[index];
        let mut command = copy::on(next.command, &seat.url, &self.queue);
        command.arg(format!("--lease={}ms", seat.lease.as_millis()));
        command.arg(format!("--shards={}", self.shards));
        if !self.candidates {
            command.arg("--prefer=never");
        }
        command.stderr(log);
        seat.copy = Some(Copy::spawn(command, Capture::Nothing)?);
        seat.books = next.books.iter().map(|book| self.history.add(book)).collect();
        seat.number = next.number;
        seat.is_frozen = false;
        Ok(())
    }

    fn log(&self, number: usize) -> PathBuf {
        self.starter.directory.join(format!("log-{number}"))
    }

    pub(super) fn seat_of(&self, pid: u32) -> Option<usize> {
        self.seats.iter().position(|seat| seat.pid() == Some(pid))
    }

    /// kill -9: the power cut.
    pub(super) fn kill(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some(mut copy) = seat.copy.take() {
            copy.kill();
            for book in &seat.books {
                self.history.fate(*book).killed_ms = Some(now_ms());
            }
        }
    }

    /// Kills all copies, and starts others that may generate, or may not.
    pub(super) fn replace_all(&mut self, candidates: bool) -> Result<(), Failure> {
        self.candidates = candidates;
        (0..self.seats.len()).for_each(|seat| self.kill(seat));
        self.start_all()
    }

    pub(super) fn freeze(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some(copy) = &seat.copy {
            copy.signal(Signal::STOP);
            seat.is_frozen = true;
            for book in &seat.books {
                self.history.fate(*book).stopped_ms.push(now_ms());
            }
        }
    }

    pub(super) fn thaw(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some(copy) = seat.copy.as_ref().filter(|_| seat.is_frozen) {
            copy.signal(Signal::CONT);
        }
        seat.is_frozen = false;
    }

    /// Copies that ended by themselves: the last line of each log. Not those that found a right missing when they started, as
    /// they are to say at once.
    pub(super) fn ended(&mut self) -> io::Result<Vec<String>> {
        let mut ended = Vec::new();
        for index in 0..self.seats.len() {
            let seat = &mut self.seats[index];
            let Some(status) = seat.copy.as_mut().map(Copy::ended).transpose()?.flatten() else {
                continue;
            };
            seat.copy = None;
            let number = seat.number;
            let log = std::fs::read_to_string(self.log(number)).unwrap_or_default();
            let last = log.lines().last().unwrap_or_default();
            let refused = last.contains(HINT.as_str()) && !log.contains("\"joined\"");
            if !refused {
                ended.push(format!("copy {number} ended by itself ({status}): {last}"));
            }
        }
        Ok(ended)
    }

    /// Tells all to stop in good order.
    pub(super) fn stop(&mut self) {
        fleet::stop(self.seats.iter().filter_map(|seat| seat.copy.as_ref()));
        for seat in &mut self.seats {
            seat.is_frozen = false;
        }
    }

    /// Whether all copies have ended.
    pub(super) fn is_gone(&mut self) -> io::Result<bool> {
        for seat in &mut self.seats {
            if let Some(copy) = &mut seat.copy {
                if copy.ended()?.is_none() {
                    return Ok(false);
                }
                seat.copy = None;
            }
        }
        Ok(true)
    }

    /// Starts one more `get-errors`, which writes into a file of its own.
    pub(super) fn read_errors(&mut self) -> Result<(), Failure> {
        self.try_read_errors()
            .map_err(|error| Failure::cannot("start get-errors", error))
    }

    fn try_read_errors(&mut self) -> io::Result<()> {
        let (number, directory) = (self.readers.len(), &self.starter.directory);
        let output = directory.join(format!("errors-{number}.jsonl"));
        let log = File::create(directory.join(format!("errors-{number}.log")))?;
        let mut command = copy::on(copy::get_errors(&self.starter.program), &self.url, &self.queue);
        command.arg(format!("--replicas={}", self.replicas));
        command.arg(format!("--shards={}", self.shards));
        command.stdout(File::create(&output)?).stderr(log);
        self.readers.push(Reader {
            copy: Copy::spawn(command, Capture::Nothing)?,
            output,
            killed: false,
        });
        Ok(())
    }

    /// Starts to change the number of shards.
    pub(super) fn reshard(&mut self, to: u64) -> Result<(), Failure> {
        let mut command = Command::new(&self.starter.program);
        command.args(["reshard", &format!("--to={to}")]).stdin(Stdio::null());
        let mut command = copy::on(command, &self.url, &self.queue);
        command.args([
            format!("--replicas={}", self.replicas),
            format!("--shards={}", self.shards),
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = Copy::spawn(command, Capture::Nothing);
        self.resharding = Some(started.map_err(|error| Failure::cannot("start reshard", error))?);
        Ok(())
    }

    /// Kills whoever changes the number of shards.
    pub(super) fn leave_reshard(&mut self) {
        self.resharding = None;
    }

    pub(super) fn kill_readers(&mut self) -> usize {
        let running = self.running_readers().map(|reader| {
            reader.copy.kill();
            reader.killed = true;
        });
        running.count()
    }

    /// Readers that are at work. Those that have ended are waited for.
    pub(super) fn running_readers(&mut self) -> impl Iterator<Item = &mut Reader> {
        let readers = self.readers.iter_mut();
        readers.filter_map(|reader| matches!(reader.copy.ended(), Ok(None)).then_some(reader))
    }

    /// What all readers have printed, once none is at work.
    pub(super) fn prints(&mut self) -> io::Result<Vec<Print>> {
        let mut prints = Vec::new();
        for reader in &mut self.readers {
            let status = reader.copy.wait()?;
            prints.push(Print {
                numbers: numbers(&reader.output)?,
                cut_short: reader.killed || !status.success(),
            });
        }
        Ok(prints)
    }
}

/// One before each store, where they can stand.
pub(super) fn proxies(bed: &TestBed) -> io::Result<Vec<Proxy>> {
    bed.upstreams().into_iter().map(Proxy::start).collect()
}

/// The stores as they are reached through these.
pub(super) fn urls(bed: &TestBed, proxies: &[Proxy]) -> String {
    let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
    bed.urls(&addresses).join(" ")
}

/// The numbers in whole lines: the last may be half a line, of a reader that was killed.
fn numbers(path: &Path) -> io::Result<Vec<u64>> {
    let text = std::fs::read(path)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(&text[..whole]);
    let number = |line| copy::number(line).ok_or_else(|| io::Error::other(format!("no number: {line}")));
    text.lines().map(number).collect()
}
