//! How cost grows with its cause.

use super::Load;
use super::cost::Cost;
use super::measure::{GENERATOR, HANDLER, drain, through};
use super::raw::float;
use super::session::Session;
use super::working::fleet_of;
use crate::app::exit::Failure;

/// Rates and costs against one cause.
pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) cause: &'static str,
    pub(super) points: Vec<Point>,
}

pub(super) struct Point {
    pub(super) at: f64,
    pub(super) rate: f64,
    pub(super) cost: Cost,
}

pub(super) fn run(session: &Session, load: Load) -> Result<Vec<Curve>, Failure> {
    let curve = |name, cause, at: &[u64], measure: &dyn Fn(u64) -> Result<(f64, Cost), Failure>| {
        let mut points = Vec::new();
        for at in at {
            // The better of two: what disturbs only ever slows.
            let (mut best, rounds) = (None::<(f64, Cost)>, load.of(2, 1));
            for _ in 0..rounds {
                let measured = measure(*at)?;
                best = best.filter(|best| best.0 > measured.0).or(Some(measured));
            }
            let (rate, cost) = best.unwrap_or_default();
            points.push(Point {
                at: float(*at),
                rate,
                cost,
            });
        }
        Ok::<_, Failure>(Curve { name, cause, points })
    };
    let backlogs: &[u64] = load.of(&[10_000, 100_000, 1_000_000, 10_000_000], &[1_000, 10_000]);
    let payloads: &[u64] = load.of(&[8, 64, 512, 4_096, 32_768], &[8, 512]);
    let nodes: &[u64] = load.of(&[1, 3, 10, 30, 100, 200], &[1, 3]);
    let slots: &[u64] = load.of(&[1, 10, 100, 1_000, 10_000], &[1, 10]);
    Ok(vec![
        curve("backlog", "messages that wait", backlogs, &|messages| {
            drain(session, messages)
        })?,
        curve("payload", "bytes a message", payloads, &|bytes| {
            let messages = (load.of(100_000_000, 1_000_000) / bytes).clamp(1000, load.of(500_000, 5_000));
            let generator = format!("bench-node {GENERATOR} --payload {bytes}");
            through(session, messages, &generator, (2, HANDLER))
        })?,
        curve("nodes", "handler processes, 1 ms of work", nodes, &|nodes| {
            fleet_of(session, usize::try_from(nodes).expect("few"), load)
        })?,
        curve("concurrency", "messages at once, 10 ms of work", slots, &|slots| {
            let messages = (load.of(90, 20) * slots).clamp(100, load.of(300_000, 1_000));
            let handler = format!("--prefer never --work 10ms --error-rate 0 --concurrency {slots}");
            through(session, messages, GENERATOR, (1, &handler))
        })?,
    ])
}
