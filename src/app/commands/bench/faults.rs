//! Who dies, and how soon another goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::copies::event;
use super::row::Row;
use super::row::Target::AtMost;
use super::session::{Queue, Session};
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::copy::{Capture, Copy};
use crate::app::lab::fleet::generator_pid;

const TICK_MS: f64 = 500.0;
const COPIES: usize = 4;
const LOOK: Duration = Duration::from_millis(1);

/// A fleet that tells what it does.
struct Fleet<'a> {
    queue: Queue<'a>,
    arguments: &'a str,
    copies: Vec<Copy>,
    /// When each number was published, as we heard of it.
    published: BTreeMap<u64, Instant>,
    redelivered: usize,
}

impl<'a> Fleet<'a> {
    fn start(session: &'a Session, arguments: &'a str) -> Result<Self, Failure> {
        let queue = session.queue()?;
        let mut fleet = Self {
            queue,
            arguments,
            copies: Vec::new(),
            published: BTreeMap::new(),
            redelivered: 0,
        };
        for _ in 0..COPIES {
            fleet.add()?;
        }
        super::measure::joined(&fleet.queue, &mut fleet.copies)?;
        Ok(fleet)
    }

    fn add(&mut self) -> Result<(), Failure> {
        self.copies.push(self.queue.copy(self.arguments, Capture::Log)?);
        Ok(())
    }

    fn hear(&mut self) {
        for (at, line) in self.copies.iter().flat_map(Copy::new_lines) {
            match event(&line) {
                Some((event, Some(number))) if event == "published" => {
                    self.published.entry(number).or_insert(at);
                }
                Some((event, _)) if event == "redelivered" => self.redelivered += 1,
                _ => {}
            }
        }
    }

    fn last(&self) -> Option<(u64, Instant)> {
        self.published.last_key_value().map(|(number, at)| (*number, *at))
    }

    /// Waits until more is published than was; returns when the first of it was.
    fn next_after(&mut self, number: u64, more: u64) -> Result<Instant, Failure> {
        let session = self.queue.session;
        session.until("the next message", LOOK, || {
            self.hear();
            let enough = self.last().is_some_and(|(last, _)| last >= number + more);
            Ok(enough
                .then(|| self.published.range(number + 1..).next().map(|(_, at)| *at))
                .flatten())
        })
    }

    /// Which copy this node is.
    fn copy_of(&self, choose: impl Fn(&crate::engine::Status) -> Option<u32>) -> Result<usize, Failure> {
        self.queue.until("a node of ours", LOOK, |status| {
            let pid = choose(status)?;
            self.copies.iter().position(|copy| copy.pid() == pid)
        })
    }

    fn last_number(&self) -> u64 {
        self.last().map_or(0, |(number, _)| number)
    }

    /// Who generates, at a moment that falls evenly over the tick from round to round.
    fn generator(&mut self, round: u64, rounds: u64) -> Result<usize, Failure> {
        self.next_after(self.last_number(), 2)?;
        let session = self.queue.session;
        session.pause(Duration::from_millis(500 * round / rounds))?;
        self.copy_of(generator_pid)
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// kill -9 of the generator, at moments that fall evenly over the tick: from its last message to the next one.
pub(super) fn failover(session: &Session, load: Load) -> Rows {
    let kills = load.of(100, 2);
    let mut fleet = Fleet::start(session, "--work 0 --error-rate 0")?;
    let mut gaps = Vec::new();
    for kill in 0..kills {
        let victim = fleet.generator(kill, kills)?;
        fleet.copies[victim].kill();
        // What it said last may still be on its way to us.
        session.pause(Duration::from_millis(5))?;
        fleet.hear();
        fleet.copies.remove(victim);
        let Some((last, at)) = fleet.last() else { continue };
        let next = fleet.next_after(last, 1)?;
        gaps.push(ms(next.duration_since(at)));
        fleet.add()?;
    }
    let over = |ms: f64| gaps.iter().filter(|gap| **gap > ms).count();
    let note = format!(
        "kill -9; {} of {kills} over 650 ms, {} over 510; baseline: the tick",
        over(650.0),
        over(510.0)
    );
    let row = Row::new("failover", "ms", gaps.clone()).beside(vec![TICK_MS; gaps.len()]);
    let row = row.target(AtMost(505.0)).moonshot(AtMost(500.0));
    Ok(vec![row.note(note), silence(session, load)?, frozen(session, load)?])
}

/// kill -9 of a generator that publishes flat out: the longest time in which nothing was published.
fn silence(session: &Session, load: Load) -> Result<Row, Failure> {
    const ARGUMENTS: &str = "--interval 0 --work 0 --error-rate 0";
    let queue = session.queue()?;
    let mut copies = queue.copies(COPIES, ARGUMENTS)?;
    let mut gaps = Vec::new();
    for _ in 0..load.of(20, 1) {
        super::measure::joined(&queue, &mut copies)?;
        session.pause(Duration::from_millis(500))?;
        let victim = queue.until("a generator of ours", LOOK, |status| {
            let pid = generator_pid(status)?;
            copies.iter().position(|copy| copy.pid() == pid)
        })?;
        let (mut published, mut grew, mut longest) = (0, Instant::now(), Duration::ZERO);
        copies.remove(victim).kill();
        let killed = Instant::now();
        queue.until("a second has passed", LOOK, |status| {
            let now = Instant::now();
            if status.published > published {
                if published > 0 {
                    longest = longest.max(now - grew);
                }
                (published, grew) = (status.published, now);
            }
            (killed.elapsed() > Duration::from_secs(1)).then_some(())
        })?;
        gaps.push(ms(longest.max(grew.elapsed())));
        copies.push(queue.copy(ARGUMENTS, Capture::Nothing)?);
    }
    let row = Row::new("failover flat out", "ms", gaps);
    let row = row.target(AtMost(100.0)).moonshot(AtMost(40.0));
    Ok(row.note("kill -9, flat out; the longest silence"))
}

/// SIGSTOP of the generator: its connections stay open, and its lease tells.
fn frozen(session: &Session, load: Load) -> Result<Row, Failure> {
    let rounds = load.of(10, 1);
    let mut fleet = Fleet::start(session, "--work 0 --error-rate 0")?;
    let mut gaps = Vec::new();
    for round in 0..rounds {
        let victim = fleet.generator(round, rounds)?;
        fleet.copies[victim].signal(Signal::STOP);
        session.pause(Duration::from_millis(5))?;
        fleet.hear();
        let Some((last, at)) = fleet.last() else { continue };
        let next = fleet.next_after(last, 1)?;
        gaps.push(ms(next.duration_since(at)));
        fleet.copies.remove(victim).kill();
        fleet.add()?;
    }
    let row = Row::new("failover frozen", "ms", gaps.clone()).beside(vec![TICK_MS; gaps.len()]);
    Ok(row.target(AtMost(850.0)).note("SIGSTOP; baseline: the tick"))
}

/// SIGTERM of the generator: the widest distance between two ticks.
pub(super) fn handover(session: &Session, load: Load) -> Rows {
    let rounds = load.of(20, 2);
    let mut fleet = Fleet::start(session, "--work 0 --error-rate 0")?;
    let mut gaps = Vec::new();
    for round in 0..rounds {
        let leaving = fleet.generator(round, rounds)?;
        let last = fleet.last_number();
        fleet.copies[leaving].signal(Signal::TERM);
        session.until("it leaves", LOOK, || {
            Ok(fleet.copies[leaving].ended().ok().flatten().map(drop))
        })?;
        fleet.next_after(last, 2)?;
        let times: Vec<Instant> = fleet.published.range(last..).map(|(_, at)| *at).collect();
        let widest = times.windows(2).map(|pair| ms(pair[1].duration_since(pair[0])));
        gaps.push(widest.fold(0.0, f64::max));
        fleet.copies.remove(leaving);
        fleet.add()?;
    }
    let row = Row::new("handover", "ms", gaps.clone()).beside(vec![TICK_MS; gaps.len()]);
    Ok(vec![
        row.target(AtMost(550.0))
            .note("SIGTERM; widest distance of two ticks; baseline: the tick"),
    ])
}

/// kill -9 of a handler: until what it held is taken again.
pub(super) fn redelivery(session: &Session, load: Load) -> Rows {
    let mut fleet = Fleet::start(session, "--interval 50ms --work 100ms --error-rate 0 --concurrency 100")?;
    let mut times = Vec::new();
    for _ in 0..load.of(10, 1) {
        let victim = fleet.copy_of(|status| {
            let generator = status.generator.as_deref();
            let busy = |node: &&crate::engine::NodeStatus| Some(node.node.as_str()) != generator && node.in_hand > 0;
            status.nodes.iter().find(busy).map(|node| node.pid)
        })?;
        fleet.hear();
        let before = fleet.redelivered;
        fleet.copies[victim].kill();
        let killed = Instant::now();
        fleet.copies.remove(victim);
        let again = session.until("it is taken again", LOOK, || {
            fleet.hear();
            // It may have settled what it held in its last moment: then there is nothing to hand on.
            let over = killed.elapsed() > Duration::from_secs(5);
            Ok((fleet.redelivered > before || over).then_some(!over))
        })?;
        if again {
            times.push(ms(killed.elapsed()));
        }
        fleet.add()?;
        super::measure::joined(&fleet.queue, &mut fleet.copies)?;
    }
    Ok(vec![
        Row::new("redelivery", "ms", times)
            .target(AtMost(500.0))
            .moonshot(AtMost(250.0))
            .note("kill -9 of a handler"),
    ])
}
