//! One copy of the demo's fleet: its process, and what its book tells of it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::app::lab::copy::Copy;
use crate::app::lab::ledger::{Book, Ledger};

/// How long the last line of the log of a copy that has ended may be on its way.
const LAST_LINE_MAX: Duration = Duration::from_millis(200);

pub(super) struct Member {
    pub(super) copy: Copy,
    /// Its books in the ledger: one for each shard, the home shard first.
    pub(super) books: Range<usize>,
    /// Shards that it cannot reach.
    pub(super) away: BTreeSet<usize>,
    /// The id of its present membership; empty before it has one.
    pub(super) node: String,
    /// The epoch in which it generates.
    pub(super) reign: Option<u64>,
    pub(super) state: State,
    pub(super) started: Instant,
    last_line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// With SIGSTOP, until then.
    Frozen(Instant),
    /// Was told to stop.
    Leaving,
    Killed(Instant),
    Left(Instant),
}

impl Member {
    pub(super) fn new(copy: Copy, books: Range<usize>) -> Self {
        Self {
            copy,
            books,
            away: BTreeSet::new(),
            node: String::new(),
            reign: None,
            state: State::Running,
            started: Instant::now(),
            last_line: String::new(),
        }
    }

    /// Short enough to be read; the pid as long as it has no other name.
    pub(super) fn name(&self) -> String {
        if self.node.is_empty() {
            return format!("({})", self.pid());
        }
        short(&self.node).to_string()
    }

    pub(super) fn pid(&self) -> u32 {
        self.copy.pid()
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, State::Killed(_) | State::Left(_))
    }

    pub(super) fn generates(&self) -> bool {
        self.reign.is_some() && self.state == State::Running
    }

    pub(super) fn handles(&self) -> bool {
        self.reign.is_none() && self.state == State::Running
    }

    /// The copy was not waited for yet, so that the id is still its own.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.is_gone() {
            self.copy.signal(signal);
        }
    }

    /// It is gone, in one way or the other.
    pub(super) fn ends(&mut self, state: State) {
        self.state = state;
        self.reign = None;
        self.away.clear();
    }

    pub(super) fn books<'a>(&self, ledger: &'a Ledger) -> impl Iterator<Item = &'a Book> {
        self.books.clone().map(|book| ledger.book(book))
    }

    pub(super) fn in_hand(&self, ledger: &Ledger) -> u64 {
        self.books(ledger).map(Book::in_hand).sum()
    }

    /// It is gone: it holds nothing any more.
    pub(super) fn close_books(&self, ledger: &mut Ledger) {
        self.books.clone().for_each(|book| ledger.close(book));
    }

    /// Reads what it logged.
    pub(super) fn listen(&mut self) {
        if let Some((_, line)) = self.copy.new_lines().pop() {
            self.last_line = line;
        }
    }

    /// The last line of the log of a copy that has ended.
    pub(super) fn last_line(&mut self) -> &str {
        while let Some((_, line)) = self.copy.next_line(LAST_LINE_MAX) {
            self.last_line = line;
        }
        &self.last_line
    }
}

/// The beginning of a node's id.
pub(super) fn short(node: &str) -> &str {
    node.get(..6).unwrap_or(node)
}
