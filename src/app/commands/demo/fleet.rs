//! The copies: killed, frozen, added and removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::errors::{self, ErrorsRead};
use super::member::{Member, State};
use super::summary::Summary;
use crate::app::args::options::Scope;
use crate::app::args::options::dashboard::DASHBOARD;
use crate::app::args::options::running::METRICS;
use crate::app::args::options::sources::{CONFIG, ENV, LOG, QUIET};
use crate::app::args::sources::{Resolved, Store};
use crate::app::args::{Flags, Invocation};
use crate::app::exit::Failure;
use crate::app::lab::copy::{Capture, Copy};
use crate::app::lab::fleet::{self, Starter};
use crate::app::lab::ledger::{Ledger, Record};
use crate::app::output::screen::counted;

/// How long the row of a copy that is gone stays.
const GONE_SHOWN: Duration = Duration::from_secs(2);

pub(super) struct Fleet {
    starter: Starter,
    /// The store, as it was given.
    connection: Vec<OsString>,
    pub(super) members: Vec<Member>,
    lease: Duration,
    pub(super) shards: usize,
    in_file: bool,
    reading: Option<Receiver<ErrorsRead>>,
}

impl Fleet {
    pub(super) fn new(
        directory: &Path,
        asked: &Invocation,
        resolved: &Resolved,
        shards: usize,
    ) -> Result<Self, Failure> {
        let connection = passed_on(&asked.flags, Scope::Every);
        let arguments = [connection.clone(), passed_on(&asked.flags, Scope::Start)].concat();
        let starter = Starter::new(directory, arguments, shards);
        Ok(Self {
            starter: starter.map_err(|error| Failure::cannot("find this program", error))?,
            connection,
            members: Vec::new(),
            lease: resolved.settings.lease,
            shards,
            in_file: matches!(resolved.store, Store::Sqlite(_)),
            reading: None,
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.members.iter().all(Member::is_gone)
    }

    /// Starts one more copy, and returns its process id.
    pub(super) fn add(&mut self, ledger: &mut Ledger) -> Result<u32, Failure> {
        let next = self.starter.next();
        let copy = Copy::spawn(next.command, Capture::Log).map_err(|error| Failure::cannot("start a copy", error))?;
        let books: Vec<usize> = next.books.iter().map(|book| ledger.add(book)).collect();
        let first = books.first().copied().unwrap_or_default();
        let member = Member::new(copy, first..first + books.len());
        let pid = member.pid();
        self.members.push(member);
        Ok(pid)
    }

    /// Learns from a record.
    pub(super) fn note(&mut self, book: usize, record: &Record) {
        if let Record::Intends(_) | Record::Confirmed(..) | Record::Started { .. } = record {
            return;
        }
        let shard = self.shard_of(book);
        if let Some(member) = self.members.iter_mut().find(|member| member.books.contains(&book)) {
            match record {
                Record::Away { .. } if !member.is_gone() => _ = member.away.insert(shard),
                Record::Reconnected => _ = member.away.remove(&shard),
                _ => {}
            }
        }
        // A node is named, elected and deposed in the home shard.
        if shard > 0 {
            return;
        }
        if let Record::Elected { epoch } = record {
            for member in self.members.iter_mut().filter(|member| member.reign < Some(*epoch)) {
                member.reign = None;
            }
        }
        let newest = self.members.iter().filter_map(|member| member.reign).max();
        let Some(member) = self.members.iter_mut().find(|member| member.books.start == book) else {
            return;
        };
        match record {
            Record::Joined { node } => member.node.clone_from(node),
            Record::Elected { epoch } if newest < Some(*epoch) && !member.is_gone() => member.reign = Some(*epoch),
            Record::Deposed { .. } | Record::Left => member.reign = None,
            _ => {}
        }
    }

    /// The shard of which a book tells: each copy has as many as there are shards.
    pub(super) fn shard_of(&self, book: usize) -> usize {
        book % self.shards
    }

    /// Shards that somebody cannot reach.
    pub(super) fn away(&self) -> BTreeSet<usize> {
        let members = self.members.iter();
        members.flat_map(|member| member.away.iter().copied()).collect()
    }

    /// Who keeps this book.
    pub(super) fn name(&self, book: usize) -> String {
        let member = self.members.iter().find(|member| member.books.contains(&book));
        member.map(Member::name).unwrap_or_default()
    }

    /// Sees who has ended, and lets go on who was frozen long enough.
    pub(super) fn look(&mut self, now: Instant, ledger: &mut Ledger, summary: &mut Summary) -> Result<(), Failure> {
        for member in self.members.iter_mut().filter(|member| !member.is_gone()) {
            member.listen();
            if let State::Frozen(until) = member.state
                && now >= until
            {
                member.signal(Signal::CONT);
                member.state = State::Running;
                summary.say("goes on", &format!("{} (SIGCONT)", member.name()));
            }
            let ended = member.copy.ended();
            if let Some(status) = ended.map_err(|error| Failure::cannot("watch a copy", error))? {
                if member.state != State::Leaving {
                    let (name, last) = (member.name(), member.last_line());
                    return Err(Failure::failed(format!(
                        "copy {name} ended by itself ({status}): {last}"
                    )));
                }
                member.ends(State::Left(now));
                member.close_books(ledger);
            }
        }
        self.members.retain(|member| match member.state {
            State::Killed(at) | State::Left(at) => now < at + GONE_SHOWN,
            _ => true,
        });
        if let Some(read) = self.reading.as_ref().and_then(|reading| reading.try_recv().ok()) {
            self.reading = None;
            match read {
                Ok(numbers) => {
                    for number in &numbers {
                        ledger.saw_error(*number);
                    }
                    summary.say(
                        "read",
                        &format!("{} (get-errors --json)", counted(numbers.len() as u64, "error")),
                    );
                }
                Err(line) => summary.say("reading failed", &line),
            }
        }
        Ok(())
    }

    fn generator(&self) -> Option<usize> {
        self.members.iter().position(Member::generates)
    }

    /// The heaviest, and any of those.
    fn some_handler(&self, weight: impl Fn(&Member) -> u64) -> Option<usize> {
        let handlers = self.members.iter().enumerate().filter(|(_, member)| member.handles());
        let heaviest = handlers.max_by_key(|(_, member)| (weight(member).min(1), fastrand::u32(..)));
        heaviest.map(|(index, _)| index)
    }

    /// The power cut for the generator, and a new copy in its place. False: there is none at the moment.
    pub(super) fn kill_generator(&mut self, ledger: &mut Ledger, summary: &mut Summary) -> Result<bool, Failure> {
        let Some(index) = self.generator() else {
            return Ok(false);
        };
        summary.kills += 1;
        self.kill(index, "the generator", ledger, summary)?;
        Ok(true)
    }

    /// The same for a handler, preferably one that has something in hand.
    pub(super) fn kill_handler(&mut self, ledger: &mut Ledger, summary: &mut Summary) -> Result<(), Failure> {
        match self.some_handler(|member| member.in_hand(ledger)) {
            Some(index) => self.kill(index, "a handler", ledger, summary),
            None => Ok(()),
        }
    }

    fn kill(&mut self, index: usize, what: &str, ledger: &mut Ledger, summary: &mut Summary) -> Result<(), Failure> {
        let member = &mut self.members[index];
        let held = member.in_hand(ledger);
        member.copy.kill();
        let hand = if held > 0 {
            format!(", with {held} in hand")
        } else {
            String::new()
        };
        summary.say("kill -9", &format!("{what}, {}{hand}", member.name()));
        member.ends(State::Killed(Instant::now()));
        member.close_books(ledger);
        self.add(ledger)?;
        Ok(())
    }

    /// Stops one with SIGSTOP for two leases: the generator, unless one is frozen already.
    pub(super) fn freeze(&mut self, now: Instant, summary: &mut Summary) {
        let is_frozen = |member: &Member| matches!(member.state, State::Frozen(_));
        let generator = self.generator().filter(|_| !self.members.iter().any(is_frozen));
        let Some(index) = generator.or_else(|| self.some_handler(|_| 0)) else {
            return;
        };
        let member = &mut self.members[index];
        member.signal(Signal::STOP);
        member.state = State::Frozen(now + 2 * self.lease);
        let seconds = (2 * self.lease).as_secs_f32();
        summary.say(
            "SIGSTOP",
            &format!("{} is frozen for {seconds} s, and comes back as deposed", member.name()),
        );
        if self.in_file {
            summary.say("", "(if inside a transaction of SQLite, the rest waits until then)");
        }
    }

    /// Tells the youngest handler to stop.
    pub(super) fn remove(&mut self, summary: &mut Summary) {
        let running = |member: &&Member| member.state == State::Running;
        if self.members.iter().filter(running).count() > 1
            && let Some(member) = self.members.iter_mut().rev().find(|member| member.handles())
        {
            member.signal(Signal::TERM);
            member.state = State::Leaving;
            summary.say(
                "removed",
                &format!("{} (SIGTERM): it finishes what it has in hand", member.name()),
            );
        }
    }

    /// Runs `get-errors --json`, as a user would.
    pub(super) fn read_errors(&mut self, summary: &mut Summary) {
        if self.reading.is_none() {
            summary.say("reading", "the errors");
            self.reading = Some(errors::read(&self.starter.program, &self.connection));
        }
    }

    /// Tells all to stop.
    pub(super) fn stop(&mut self) {
        let running = || self.members.iter().filter(|member| !member.is_gone());
        fleet::stop(running().map(|member| &member.copy));
        for member in self.members.iter_mut().filter(|member| !member.is_gone()) {
            member.state = State::Leaving;
        }
    }

    /// Nobody is left when this returns.
    pub(super) fn end(&mut self, ledger: &mut Ledger) {
        for member in self.members.iter_mut().filter(|member| !member.is_gone()) {
            member.copy.kill();
            member.close_books(ledger);
        }
        self.members.clear();
    }
}

/// Options as they were given to the demo: those of every command name store and queue, those of `start` are for copies.
fn passed_on(flags: &Flags, scope: Scope) -> Vec<OsString> {
    flags.arguments(|option| {
        // One address cannot be served by several copies.
        let ours = [&LOG, &QUIET, &METRICS, &DASHBOARD].contains(&option);
        let is_for_copies = option.is_in_file || [&ENV, &CONFIG].contains(&option);
        option.group.scope == scope && is_for_copies && !ours
    })
}
