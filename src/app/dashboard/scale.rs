//! `/api/v1/scale`: how much there is to do, and how many copies it needs, for autoscalers.

use std::time::Duration;

use serde::Serialize;

use super::reply::{Answer, Refusal, ok};
use super::request::Query;
use crate::app::args::value;
use crate::engine::{Engine, NodeStatus, Status};
use crate::error::Error;

/// How many messages may wait for each handler, unless told otherwise.
const BACKLOG: u64 = 100;

#[derive(Debug, Default, PartialEq, Serialize)]
struct Scale {
    queued: u64,
    in_hand: u64,
    later: u64,
    /// Messages settled per second lately, by all copies.
    rate: f64,
    /// Copies that are alive and do not generate.
    handlers: u64,
    /// How many copies there should be, the generator among them.
    desired: u64,
}

/// What an autoscaler wants.
struct Target {
    /// So many messages may wait for each handler.
    backlog: Option<u64>,
    /// So long may a message wait.
    wait: Option<Duration>,
    at_least: u64,
    at_most: u64,
}

impl Target {
    fn bounded(&self, copies: u64) -> u64 {
        copies.max(self.at_least).min(self.at_most)
    }
}

pub(super) async fn tell<E: Engine>(engine: &E, query: Option<&str>) -> Answer {
    let target = target(query)?;
    match engine.status().await {
        Ok(status) => Ok(ok(&Scale::of(&status, &target))),
        // Nothing was ever put in.
        Err(Error::NoQueue { .. }) => Ok(ok(&Scale {
            desired: target.bounded(0),
            ..Scale::default()
        })),
        Err(error) => Err(error.into()),
    }
}

fn target(query: Option<&str>) -> Result<Target, Refusal> {
    let query = Query::of(query, &["backlog", "wait", "min", "max"])?;
    let wait = query.text("wait").map(value::duration).transpose();
    let wait = wait.map_err(|why| Refusal::bad(format!("wait: {why}")))?;
    if wait.is_some_and(|wait| wait.is_zero()) {
        return Err(Refusal::bad("wait must be longer than 0"));
    }
    let backlog = query.number("backlog")?.or(wait.is_none().then_some(BACKLOG));
    if backlog == Some(0) {
        return Err(Refusal::bad("backlog must be at least 1"));
    }
    Ok(Target {
        backlog,
        wait,
        at_least: query.number("min")?.unwrap_or(0),
        at_most: query.number("max")?.unwrap_or(u64::MAX),
    })
}

impl Scale {
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
    fn of(status: &Status, target: &Target) -> Self {
        let alive = || status.nodes.iter().filter(|node| node.is_alive());
        let is_generator = |node: &&NodeStatus| status.generator.as_ref() == Some(&node.node);
        let rate_milli: u64 = alive()
            .map(|node| node.report.as_ref().map_or(0, |last| last.live.rate_milli))
            .sum();
        let generators = u64::from(alive().any(|node| is_generator(&node)));
        let handlers = alive().count() as u64 - generators;
        let due = status.queued + status.in_hand;
        let for_backlog = target.backlog.map_or(0, |most| due.div_ceil(most));
        let for_wait = target.wait.map_or(0, |wait| {
            // What one handler gets done in that time, by what they get done now.
            let milli = u128::from(rate_milli) * wait.as_millis() / u128::from(handlers.max(1));
            match u128::from(due) * 1_000_000 {
                0 => 0,
                // Nobody has shown yet how fast it goes: one to see it, and twice as many while messages wait.
                _ if milli == 0 && status.queued == 0 => handlers.max(1),
                _ if milli == 0 => (2 * handlers).max(1),
                milli_due => u64::try_from(milli_due.div_ceil(milli)).unwrap_or(u64::MAX),
            }
        });
        let wanted = for_backlog.max(for_wait).saturating_add(generators);
        Self {
            queued: status.queued,
            in_hand: status.in_hand,
            later: status.later,
            rate: rate_milli as f64 / 1000.0,
            handlers,
            desired: target.bounded(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::push::{KEEP, push};
    use crate::engine::memory::Local;
    use crate::engine::{Item, LastReport, Live};
    use crate::settings::Settings;

    /// A queue of so many messages that wait, with members that were alive just now.
    async fn status(queued: u64, nodes: &[(&str, u64)]) -> Status {
        let engine = Local::new("q");
        let (settings, items) = (Settings::default(), [Item::new("x")]);
        push(&engine, &settings, KEEP, &items).await.unwrap();
        let mut status = engine.status().await.unwrap();
        status.queued = queued;
        status.nodes = nodes
            .iter()
            .map(|(node, rate_milli)| node_at(node, *rate_milli))
            .collect();
        status
    }

    fn node_at(node: &str, rate_milli: u64) -> NodeStatus {
        NodeStatus {
            node: node.into(),
            host: String::new(),
            pid: 1,
            version: String::new(),
            concurrency: 1,
            age_ms: 0,
            in_hand: 0,
            done: 0,
            failed: 0,
            lease_in_ms: 1000,
            silent_ms: 0,
            watched: true,
            behind: false,
            report: Some(LastReport {
                live: Live {
                    rate_milli,
                    ..Default::default()
                },
                ..Default::default()
            }),
        }
    }

    fn desired(status: &Status, query: &str) -> u64 {
        Scale::of(status, &target(Some(query)).unwrap()).desired
    }

    #[tokio::test]
    async fn as_many_copies_as_the_backlog_needs() {
        let mut dead = status(250, &[]).await;
        assert_eq!(desired(&dead, ""), 3, "also when nobody runs");
        assert_eq!(desired(&dead, "backlog=10"), 25);
        assert_eq!(desired(&dead, "backlog=10&max=7"), 7);
        assert_eq!(desired(&dead, "backlog=10&wait=10s"), 25, "both are kept");
        assert_eq!(desired(&dead, "min=5&max=4"), 4);
        assert_eq!(desired(&dead, "wait=10s"), 1, "one, to see how fast it goes");
        dead.nodes = vec![node_at("a", 5000)];
        dead.nodes[0].silent_ms = 1;
        assert_eq!(desired(&dead, "wait=10s"), 1, "what a dead one did says nothing");
        let idle = status(0, &[("a", 0), ("b", 0)]).await;
        assert_eq!(
            (desired(&idle, ""), desired(&idle, "wait=1s"), desired(&idle, "min=2")),
            (0, 0, 2)
        );
    }

    #[tokio::test]
    async fn as_many_copies_as_the_wait_allows() {
        // Two handlers get 10 a second done: 5 each.
        let mut busy = status(1000, &[("g", 0), ("a", 5000), ("b", 5000)]).await;
        busy.generator = Some("g".into());
        let scale = Scale::of(&busy, &target(Some("wait=10s")).unwrap());
        assert_eq!((scale.handlers, scale.desired), (2, 21), "20, and the generator");
        assert!((scale.rate - 10.0).abs() < 1e-9);
        assert_eq!(desired(&busy, "wait=1s"), 201);
        assert_eq!(desired(&busy, "wait=1000s"), 2);
    }
}
