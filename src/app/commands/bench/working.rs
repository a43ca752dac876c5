//! Handlers that take a while: many at once, many processes, some slow ones among them, and a speed that changes.

use std::time::{Duration, Instant};

use super::cost::typical;
use super::figures::median;
use super::measure::{GENERATOR, compared, joined, through};
use super::node::{is_slow, now};
use super::raw;
use super::raw::float;
use super::row::Row;
use super::row::Target::{AtMost, RatioAtLeast, RatioAtMost};
use super::session::Session;
use super::{Load, Rows};
use crate::app::exit::Failure;
use crate::app::lab::copy::Capture;

pub(super) fn async_work(session: &Session, load: Load) -> Rows {
    let (messages, at_once, each) = (load.of(300_000, 20_000), 1000, Duration::from_millis(10));
    let handler = format!("--prefer never --work 10ms --error-rate 0 --concurrency {at_once}");
    let ours = || through(session, messages, GENERATOR, (1, &handler));
    let row = compared("async-work", load.rounds, ours, || {
        raw::sleepers(at_once, each, messages)
    })?;
    Ok(vec![row.target(RatioAtLeast(0.7)).moonshot(RatioAtLeast(0.95))])
}

/// So many processes with 1 ms of work a message, for about so long: messages a second.
pub(super) fn fleet_of(session: &Session, handlers: usize, load: Load) -> Result<(f64, super::cost::Cost), Failure> {
    // About 450 a second each; more than 40,000 two cores do not do.
    let rate = (450 * handlers as u64).min(40_000);
    let messages = load.of(4 * rate, rate / 4).max(100);
    through(
        session,
        messages,
        GENERATOR,
        (handlers, "--prefer never --work 1ms --error-rate 0"),
    )
}

pub(super) fn fleet(session: &Session, load: Load) -> Rows {
    let sizes: &[usize] = load.of(&[1, 10, 50, 200], &[1, 3]);
    let mut rates = vec![Vec::new(); sizes.len()];
    let mut costs = vec![Vec::new(); sizes.len()];
    for _ in 0..load.rounds.min(3) {
        for (index, size) in sizes.iter().enumerate() {
            let (rate, cost) = fleet_of(session, *size, load)?;
            rates[index].push(rate);
            costs[index].push(cost);
        }
    }
    let mut rows = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let row = Row::new(format!("fleet {size}"), "messages/s", rates[index].clone()).cost(typical(&costs[index]));
        let best = |round: usize| rates[..index].iter().map(|rates| rates[round]).fold(0.0, f64::max);
        rows.push(if index + 1 < sizes.len() {
            row
        } else {
            let best = (0..rates[index].len()).map(best).collect();
            row.beside(best)
                .target(RatioAtLeast(0.9))
                .note("baseline: the best of the smaller fleets")
        });
    }
    Ok(rows)
}

/// Ten handlers, every hundredth message takes a second: nothing waits behind a slow one.
pub(super) fn mixed(session: &Session, load: Load) -> Rows {
    let (messages, slow_ms) = load.of((10_000, 1000), (1_000, 100));
    let handler = format!("bench-node --prefer never --work 0 --error-rate 0 --slow-every 100 --slow {slow_ms}ms");
    let ideal = float(messages / 100 * slow_ms) / 1000.0 / 10.0;
    let mut seconds = Vec::new();
    for _ in 0..load.rounds.min(3) {
        let (rate, _) = through(session, messages, GENERATOR, (10, &handler))?;
        seconds.push(float(messages) / rate);
    }
    let baselines = vec![ideal; seconds.len()];
    let row = Row::new("mixed", "s", seconds)
        .beside(baselines)
        .target(RatioAtMost(1.15));
    Ok(vec![row.note("baseline: the slow ones, evenly over ten handlers")])
}

/// The speed of the handlers changes a hundredfold, back and forth: how long until the packs have the new size.
pub(super) fn adapt(session: &Session, load: Load) -> Rows {
    let window = load.of(Duration::from_secs(3), Duration::from_secs(1));
    let windows = load.of(6, 2);
    let queue = session.queue()?;
    let arguments = format!(
        "bench-node --prefer never --work 0 --error-rate 0 --slow 20ms --window {}ms",
        window.as_millis()
    );
    let mut handlers = queue.copies(2, &arguments)?;
    joined(&queue, &mut handlers)?;
    let _generator = queue.copy(&format!("{GENERATOR} --max-backlog 20000"), Capture::Nothing)?;
    let (mut slower, mut faster) = (Vec::new(), Vec::new());
    for _ in 0..windows {
        let index = now().as_nanos() / window.as_nanos();
        session.until("the next window", Duration::from_millis(1), || {
            Ok((now().as_nanos() / window.as_nanos() > index).then_some(()))
        })?;
        let (start, slow) = (Instant::now(), is_slow(now(), window));
        let mut seen: Vec<(Duration, f64)> = Vec::new();
        while start.elapsed() < window.saturating_sub(Duration::from_millis(50)) {
            session.pause(Duration::from_millis(5))?;
            if let Some(status) = queue.status()? {
                seen.push((start.elapsed(), float(status.grain)));
            }
        }
        // Settled is what it was at the end of the window, give or take a fifth of the way, for good.
        let tail: Vec<f64> = seen.iter().rev().take(20).map(|(_, grain)| *grain).collect();
        let (first, last) = (seen.first().map_or(0.0, |(_, grain)| *grain), median(&tail));
        let near = 0.2 * (first - last).abs().max(1.0);
        let late = seen.iter().rev().find(|(_, grain)| (grain - last).abs() > near);
        let took = late.map_or(0.0, |(at, _)| at.as_secs_f64() * 1000.0);
        if slow { slower.push(took) } else { faster.push(took) }
    }
    let row = |name: &str, times| Row::new(name, "ms", times).target(AtMost(1000.0));
    Ok(vec![row("adapt to slower", slower), row("adapt to faster", faster)])
}

/// The million as the task has it: up to a second of work, 15 % errors, three handlers of 10,000.
pub(super) fn task(session: &Session, load: Load) -> Rows {
    let (messages, at_once) = load.of((1_000_000, 10_000), (2_000, 1_000));
    let (rate, cost) = through(
        session,
        messages,
        GENERATOR,
        (3, &format!("--prefer never --concurrency {at_once}")),
    )?;
    let ideal = float(messages) * 0.5 / (3.0 * float(at_once));
    let row = Row::new("task", "s", vec![float(messages) / rate])
        .beside(vec![ideal])
        .cost(cost);
    Ok(vec![row.note("baseline: half a second each, 30,000 at once")])
}
