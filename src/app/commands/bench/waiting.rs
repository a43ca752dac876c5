//! How soon: a message at an idle handler, a copy from its exec, and what idle copies cost.

use std::time::{Duration, Instant};

use super::copies::event;
use super::cost::Cost;
use super::figures::percentile;
use super::measure::{HANDLER, compared, joined, through};
use super::raw::{self, float};
use super::row::Row;
use super::row::Target::{AtMost, RatioAtLeast, RatioAtMost};
use super::session::Session;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::copy::Capture;

const PACE: Duration = Duration::from_millis(5);

pub(super) fn latency(session: &Session, load: Load) -> Rows {
    let messages = load.of(400, 20);
    let mut ours = [Vec::new(), Vec::new()];
    let mut theirs = [Vec::new(), Vec::new()];
    for _ in 0..load.rounds {
        let (mine, plain) = (started(session, messages)?, raw::hand_over(session, messages, PACE)?);
        for (index, share) in [0.5, 0.99].into_iter().enumerate() {
            ours[index].push(percentile(&mine, share));
            theirs[index].push(percentile(&plain, share));
        }
    }
    let ([ours_50, ours_99], [plain_50, plain_99]) = (ours, theirs);
    let row = Row::new("latency p50", "us", ours_50).beside(plain_50);
    Ok(vec![
        row.target(RatioAtMost(2.5)).moonshot(RatioAtMost(2.0)),
        Row::new("latency p99", "us", ours_99)
            .beside(plain_99)
            .target(RatioAtMost(4.0)),
    ])
}

/// From when a message is made to when its handling starts, each in microseconds.
fn started(session: &Session, messages: u32) -> Result<Vec<f64>, Failure> {
    let queue = session.queue()?;
    let mut handler = queue.copy(
        "bench-node --prefer never --work 0 --error-rate 0 --stamp",
        Capture::Stdout,
    )?;
    joined(&queue, std::slice::from_mut(&mut handler))?;
    let pace = PACE.as_millis();
    let generator = format!("bench-node --prefer generator --interval {pace}ms --messages {messages} --stamp");
    let _generator = queue.copy(&generator, Capture::Nothing)?;
    let mut micros = Vec::new();
    while micros.len() < messages as usize {
        let heard = session.until("a message is handled", Duration::ZERO, || {
            Ok(handler.next_line(Duration::from_millis(100)))
        })?;
        micros.push(heard.1.parse::<f64>().unwrap_or(f64::INFINITY) / 1000.0);
    }
    Ok(micros)
}

/// A copy that generates and handles, on an empty queue, from exec to its first message; beside a plain connect.
pub(super) fn start_up(session: &Session, load: Load) -> Rows {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..load.of(20, 2) {
        let queue = session.queue()?;
        let start = Instant::now();
        let arguments = "--also-handle --interval 0 --messages 1 --work 0 --error-rate 0";
        let copy = queue.copy(arguments, Capture::Log)?;
        let done = session.until("a first message", Duration::ZERO, || {
            let heard = copy.next_line(Duration::from_millis(100));
            Ok(heard.filter(|(_, line)| event(line).is_some_and(|(event, _)| event == "done")))
        })?;
        ours.push(done.0.duration_since(start).as_secs_f64() * 1000.0);
        let start = Instant::now();
        session.socket()?;
        theirs.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let ours = ours.iter().zip(&theirs).map(|(ours, connect)| ours - connect).collect();
    let row = Row::new("start-up", "ms", ours).target(AtMost(50.0));
    let connect = percentile(&theirs, 0.5);
    Ok(vec![row.note(format!("beside {connect:.2} ms of a plain connect"))])
}

/// Whether fast ticks come as often as they are to.
pub(super) fn ticks(session: &Session, load: Load) -> Rows {
    let rows = [1, 2].map(|ms| {
        let (per_second, generator) = (1000 / ms, format!("--prefer generator --interval {ms}ms"));
        let messages = load.of(5 * per_second, per_second / 10);
        let ours = || through(session, messages, &generator, (1, HANDLER));
        let row = compared(&format!("ticks of {ms} ms"), load.rounds, ours, || {
            Ok(float(per_second))
        })?;
        Ok(row.target(RatioAtLeast(0.99)).note("beside one message per tick"))
    });
    rows.into_iter().collect()
}

/// What idle copies cost Redis.
pub(super) fn idle(session: &Session, load: Load) -> Rows {
    let few = idlers(session, load.of((200, 10), (10, 1)))?;
    let mut rows = vec![few.target(AtMost(6.0)).moonshot(AtMost(3.0))];
    if !load.quick {
        rows.push(idlers(session, (1000, 10))?.target(AtMost(30.0)));
    }
    Ok(rows)
}

fn idlers(session: &Session, (nodes, time): (usize, u64)) -> Result<Row, Failure> {
    let queue = session.queue()?;
    let mut copies = queue.copies(nodes, "--work 0 --error-rate 0")?;
    joined(&queue, &mut copies)?;
    let time = Duration::from_secs(time);
    session.pause(time / 5)?;
    let (meter, start) = (Cost::of_redis(&[session])?, Instant::now());
    session.pause(time)?;
    let share = meter.redis_seconds(&[session])? / start.elapsed().as_secs_f64() * 100.0;
    if copies.len() < nodes {
        return Err(Failure::failed("idle copies ended by themselves"));
    }
    let row = Row::new(format!("idle {nodes}"), "% of a core", vec![share]);
    Ok(row.note("of Redis; a message every 500 ms"))
}
