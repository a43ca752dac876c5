//! `/api/v1/history`: what was, as charts show it: steps of time, and the reigns. Asked for once for all who look.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use serde::Serialize;
use tokio::time::Instant;

use super::reply::{Answer, Refusal, whole};
use super::request::Query;
use crate::app::output::view::ReignView;
use crate::engine::history::Bucket;
use crate::engine::{Engine, Figures, History, Range, Status};

/// How old a history may be when it is sent again.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct HistoryView {
    now_ms: u64,
    step_ms: u64,
    points: Vec<Point>,
    reigns: Vec<ReignView>,
}

#[derive(Serialize)]
struct Point {
    t: u64,
    /// A second; none while the step is not over.
    published: Option<f64>,
    done: Option<f64>,
    failed: Option<f64>,
    retried: Option<f64>,
    handle_p50_ms: Option<f64>,
    handle_p99_ms: Option<f64>,
    wait_p50_ms: Option<f64>,
    wait_p99_ms: Option<f64>,
    queued: Option<u64>,
    in_hand: Option<u64>,
    later: Option<u64>,
    errors: Option<u64>,
}

impl From<History> for HistoryView {
    fn from(history: History) -> Self {
        let (now_ms, step_ms) = (history.now_ms, history.step_ms);
        let points = history.buckets.iter().map(|bucket| Point::of(bucket, step_ms, now_ms));
        Self {
            now_ms,
            step_ms,
            points: points.collect(),
            reigns: history.reigns.iter().map(ReignView::from).collect(),
        }
    }
}

impl Point {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn of(bucket: &Bucket, step_ms: u64, now_ms: u64) -> Self {
        let t = bucket.index * step_ms;
        let over = t + step_ms <= now_ms;
        let figures = &bucket.figures;
        let rate = |count: fn(&Figures) -> u64| over.then(|| count(figures) as f64 * 1000.0 / step_ms as f64);
        let ms = |us: Option<u64>| us.map(|us| us as f64 / 1000.0);
        let gauges = bucket.gauges;
        Self {
            t,
            published: rate(|figures| figures.published),
            done: rate(|figures| figures.done),
            failed: rate(|figures| figures.failed),
            retried: rate(|figures| figures.retried),
            handle_p50_ms: ms(figures.handle.quantile_us(0.5)),
            handle_p99_ms: ms(figures.handle.quantile_us(0.99)),
            wait_p50_ms: ms(figures.wait.quantile_us(0.5)),
            wait_p99_ms: ms(figures.wait.quantile_us(0.99)),
            queued: gauges.map(|gauges| gauges.queued),
            in_hand: gauges.map(|gauges| gauges.in_hand),
            later: gauges.map(|gauges| gauges.later),
            errors: gauges.map(|gauges| gauges.errors),
        }
    }
}

/// The last answer for each range.
#[derive(Default)]
pub(super) struct HistoryCache(Mutex<[Option<(Instant, Bytes)>; 3]>, Mutex<Reigned>);

type Reigned = Option<(String, u64, Option<String>)>;

impl HistoryCache {
    /// After an election the cache is emptied, so that the new reign shows at once.
    pub fn notice(&self, status: &Status) {
        let reigned = Some((status.birth.clone(), status.epoch, status.generator.clone()));
        let mut before = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if *before != reigned {
            *before = reigned;
            *self.slots() = Default::default();
        }
    }

    fn slots(&self) -> MutexGuard<'_, [Option<(Instant, Bytes)>; 3]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn tell<E: Engine>(&self, engine: &Arc<E>, query: Option<&str>) -> Answer {
        let (range, at) = match Query::of(query, &["range"])?.text("range") {
            None | Some("5m") => (Range::Minutes, 0),
            Some("1h") => (Range::Hour, 1),
            Some("24h") => (Range::Day, 2),
            Some(_) => return Err(Refusal::bad("range must be 5m, 1h or 24h")),
        };
        let kept = self.slots()[at].clone();
        let bytes = match kept {
            Some((seen, bytes)) if seen.elapsed() < FRESH => bytes,
            _ => {
                let view = HistoryView::from(engine.history(range).await?);
                let bytes: Bytes = serde_json::to_vec(&view).expect("keys are texts").into();
                self.slots()[at] = Some((Instant::now(), bytes.clone()));
                bytes
            }
        };
        Ok(whole(StatusCode::OK, "application/json", bytes))
    }
}
